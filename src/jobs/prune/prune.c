/*
 * The cut. Expert `new` of a stacked tensor lies at new * slab in the output and comes from keep[new] * slab of the
 * source; everything else is the same bytes. keep.c says which bytes, the sink puts them where the container wants
 * them, and no arithmetic on a weight happens anywhere.
 *
 * First all is worked out without touching the disk (a dry run of the sink), so that sizes are exact and a wrong plan,
 * an output over its source or a full disk are refused before anything is written.
 */
#include <winnow/prune.h>

#include "base/alloc.h"
#include "jobs/made_for.h"
#include "jobs/prune/prune_parts.h"
#include "jobs/talk.h"
#include "model/weights.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPY_BUFFER ((uint64_t)4 << 20) /* of sys/outfile.c, where the system cannot copy by itself */

bool wn_pruning_is_gguf(const struct wn_pruning *p)
{
    return wn_source_container(p->source) == WN_CONTAINER_GGUF;
}

bool wn_pruning_makes_gguf(const struct wn_pruning *p)
{
    return p->recast ? p->o->format == WN_FORMAT_GGUF : wn_pruning_is_gguf(p);
}

enum wn_container wn_pruning_container(const struct wn_pruning *p)
{
    return wn_pruning_makes_gguf(p) ? WN_CONTAINER_GGUF : WN_CONTAINER_SAFETENSORS;
}

uint64_t wn_pruning_index_bytes(const struct wn_pruning *p)
{
    struct wn_file f = {.fd = -1};
    struct wn_err err;
    uint64_t bytes = 0;
    char *path;

    if (wn_pruning_is_gguf(p) || !wn_folder_is_whole(p->source))
        return 0;
    path = wn_path_join(wn_source_folder(p->source), WN_SAFETENSORS_INDEX, &err);
    if (path && wn_path_exists(path) && wn_file_open(&f, path, &err)) {
        bytes = f.bytes;
        wn_file_close(&f);
    }
    free(path);
    return bytes;
}

static bool check_options(const struct wn_prune_options *o, struct wn_err *err)
{
    if (!o->source || !*o->source || !o->out || !*o->out)
        return wn_fail(err, WN_ERR_ARG, "a source and an output are needed");
    if (o->layout == WN_LAYOUT_SPLIT && o->shard_bytes == 0)
        return wn_fail(err, WN_ERR_ARG, "a split output needs the size of its files");
    if (o->consume && !(o->resume && o->hashes))
        return wn_fail(err, WN_ERR_ARG,
                       "a source is consumed only for files that are hashed and can be taken up again");
    if (o->consume && o->overwrite)
        return wn_fail(err, WN_ERR_ARG, "a source is not consumed for an output that overwrites another");
    if (o->ghosts == WN_GHOSTS_MEAN && !o->saliency && !o->dry_run)
        return wn_fail(err, WN_ERR_ARG, "ghosts get their means from a saliency archive, and none was named");
    if (o->consume && !o->plan && o->ghosts == WN_GHOSTS_OFF)
        return wn_fail(err, WN_ERR_ARG,
                       "a source is not consumed while its ghosts go: what they are is read in the source");
    if (o->consume && o->lo_source)
        return wn_fail(err, WN_ERR_ARG, "of two parents neither is consumed: each is whole without the other");
    return true;
}

static bool check_fingerprint(const struct wn_pruning *p, struct wn_err *err)
{
    const struct wn_plan *plan = p->o->plan;

    /* of two parents the smaller one is the one that a saliency is likely of */
    return !plan || !*plan->model_fingerprint || p->o->force_plan ||
           wn_made_for("the plan was made for", plan->model_fingerprint, p->source, p->low, err);
}

/* The archive must have been measured on this very model. */
static bool open_means(struct wn_pruning *p, struct wn_err *err)
{
    const struct wn_prune_options *o = p->o;

    if (o->ghosts != WN_GHOSTS_MEAN || !o->saliency)
        return true;
    p->means = wn_means_open(o->saliency, err);
    if (!p->means)
        return false;
    return o->force_plan || wn_made_for("its means are of", p->means->model_fingerprint, p->source, NULL, err) ||
           wn_fail_in(err, "'%s'", o->saliency);
}

/* Files that stay as the source has them keep their names and records; others cannot have records of their own. */
static bool keep_files(struct wn_pruning *p, struct wn_err *err)
{
    if (!wn_pruning_is_gguf(p))
        return p->o->layout != WN_LAYOUT_AS_SOURCE || wn_prune_names(p->source, &p->names, err);
    if (p->o->layout == WN_LAYOUT_AS_SOURCE)
        return wn_prune_later(p->source, &p->kv, &p->later, err);
    return wn_source_gguf_is_whole(p->source, err);
}

/* Files and metadata of an output that is the source's container. */
static bool prepare_copy(struct wn_pruning *p, struct wn_err *err)
{
    const struct wn_prune_options *o = p->o;
    struct wn_keep_cut cut = {.joined = o->layout == WN_LAYOUT_JOINED,
                              .shard_bytes = o->layout == WN_LAYOUT_SPLIT ? o->shard_bytes : 0,
                              .alignment = 1};

    if (wn_keep_is_graded(&p->keep) && !p->low)
        return wn_fail(err, WN_ERR_ARG,
                       "the plan stores experts in fewer bits, which a copy within the container cannot; it needs %s",
                       wn_pruning_is_gguf(p) ? "--lo-model, another GGUF of the model to take them from"
                                             : "--format mlx or gguf");
    if (wn_pruning_is_gguf(p)) {
        cut.alignment = wn_source_gguf(p->source)->alignment;
        if (!wn_prune_kv(&p->keep, o->plan, &p->kv, err))
            return wn_fail_in(err, "'%s'", o->source);
    }
    if (!wn_keep_lay_out(&p->keep, &cut, &p->files, err) || !keep_files(p, err))
        return false;
    for (size_t i = 0; i < p->keep.tensor_count; i++)
        p->total += p->keep.tensors[i].bytes;
    return true;
}

static void note_left_out(const struct wn_pruning *p)
{
    uint64_t n = wn_recast_left_out(&p->made.recast);
    char line[128];

    if (n == 0 || p->o->dry_run)
        return;
    (void)snprintf(line, sizeof(line),
                   "%" PRIu64 " tensors of the vision tower are left out: a GGUF has no place for them", n);
    wn_job_note(p->job, line);
}

/* The same of one that is made. */
static bool prepare_recast(struct wn_pruning *p, struct wn_err *err)
{
    const struct wn_prune_options *o = p->o;
    struct wn_recast r = wn_recast_of(o->model, &p->keep, o->format, o->rest_bits, o->encoder);

    if (!o->model || wn_naming_of_source(p->source) != WN_NAMING_HF)
        return wn_fail(err, WN_ERR_ARG,
                       "'%s' cannot become another container: that goes from HF folders of K3 and its kin only",
                       o->source);
    if (wn_pruning_makes_gguf(p) && !wn_prune_is_even(&p->keep, err))
        return false;
    if (r.rest_bits && wn_affine_type(r.rest_bits) == WN_TYPE_COUNT)
        return wn_fail(err, WN_ERR_ARG, "matrices of %u bits are not known: 2, 3, 4, 5, 6, 8, or 16 for as they are",
                       r.rest_bits);
    if (!wn_recast_out_init(&p->made, &r, o->layout == WN_LAYOUT_JOINED,
                            o->layout == WN_LAYOUT_SPLIT ? o->shard_bytes : 0, err))
        return wn_fail_in(err, "'%s'", o->source);
    p->pool = o->pool ? o->pool : wn_pool_new(1, err);
    p->files = p->made.files;
    p->total = p->made.bytes;
    note_left_out(p);
    return p->pool != NULL;
}

static bool open_sources(struct wn_pruning *p, struct wn_err *err)
{
    const struct wn_prune_options *o = p->o;

    if (o->model)
        p->source = wn_model_source(o->model);
    else
        p->source = o->consume ? wn_source_open_consumed(o->source, err) : wn_source_open(o->source, err);
    if (!p->source || !o->lo_source)
        return p->source != NULL;
    p->low = wn_source_open(o->lo_source, err);
    if (p->low && wn_recast_is_needed(o->format, p->source))
        return wn_fail(err, WN_ERR_ARG, "two parents are copied, byte for byte, and not made into another container");
    return p->low != NULL;
}

/* What the plan promises was measured on such ghosts as the build has, or on others. */
static void note_probed(const struct wn_pruning *p)
{
    const struct wn_plan *plan = p->o->plan;
    char line[160];

    if (!plan || !wn_plan_probed_otherwise(plan, p->keep.ghosts))
        return;
    (void)snprintf(line, sizeof line,
                   "the plan's losses are predicted from probes with ghosts '%s', the build has '%s': it may lose more "
                   "or less",
                   wn_ghosts_name(plan->probed), wn_ghosts_name(p->keep.ghosts));
    wn_job_note(p->job, line);
}

static bool prepare(struct wn_pruning *p, struct wn_err *err)
{
    const struct wn_prune_options *o = p->o;

    if (!check_options(o, err) || !open_sources(p, err) || !check_fingerprint(p, err) || !open_means(p, err))
        return false;
    p->recast = wn_recast_is_needed(o->format, p->source);
    if (o->format == WN_FORMAT_HF && wn_naming_of_source(p->source) != WN_NAMING_HF)
        return wn_fail(err, WN_ERR_ARG, "'%s' is no HF folder, and nothing else can become one", o->source);
    if (!wn_keep_init(&p->keep, p->source, &(struct wn_keep_how){o->plan, p->low, o->ghosts, p->means}, err))
        return p->low ? wn_fail_in(err, "'%s' with '%s'", o->source, o->lo_source) : wn_fail_in(err, "'%s'", o->source);
    note_probed(p);
    return (p->recast ? prepare_recast(p, err) : prepare_copy(p, err)) &&
           wn_folder_init(&p->folder, &p->keep, o->plan, o->dry_run || wn_pruning_makes_gguf(p) ? NULL : p->job, err) &&
           (!p->recast || wn_pruning_makes_gguf(p) ||
            wn_folder_recast(&p->folder, &p->keep, &p->made, o->plan_name, err));
}

/*
 * An output folder may hold what a killed run left (.part) and, with overwrite, anything; the sink minds other weights.
 */
static bool check_folder(const struct wn_pruning *p, struct wn_err *err)
{
    char **names;
    size_t n;
    bool ok = true;

    if (!wn_path_is_folder(p->o->out) && wn_path_exists(p->o->out))
        return wn_fail(err, WN_ERR_ARG, "'%s' exists and is not a folder", p->o->out);
    if (!wn_path_is_folder(p->o->out))
        return !wn_ends_with(p->o->out, ".gguf") ||
               wn_fail(err, WN_ERR_ARG, "'%s' would be a folder of safetensors: --format gguf makes a GGUF", p->o->out);
    if (!wn_path_list(p->o->out, &names, &n, err))
        return false;
    for (size_t i = 0; ok && !p->o->overwrite && i < n; i++)
        if (!wn_ends_with(names[i], ".part"))
            ok = wn_fail(err, WN_ERR_ARG, "'%s' exists already and is not empty: '%s' is in it", p->o->out, names[i]);
    wn_names_free(names, n);
    return ok;
}

static bool spares(const char *path, const struct wn_source *s, struct wn_err *err)
{
    for (size_t i = 0; s && i < wn_source_file_count(s); i++)
        if (wn_path_same(path, wn_source_file_at(s, i)->file.path))
            return wn_fail(err, WN_ERR_ARG, "the output '%s' is a file of the source", path);
    return true;
}

/* Nothing of the source may be written over. */
static bool check_paths(const struct wn_pruning *p, const struct wn_sink *dry, struct wn_err *err)
{
    const char *folder = wn_source_folder(p->source);

    if (!wn_pruning_makes_gguf(p)) {
        /* beside a single file there is room for a folder */
        if (wn_folder_is_whole(p->source) ? wn_path_inside(p->o->out, folder) : wn_path_same(p->o->out, folder))
            return wn_fail(err, WN_ERR_ARG, "the output '%s' lies in the source's folder '%s'", p->o->out, folder);
        return check_folder(p, err);
    }
    for (uint32_t f = 0; f < wn_sink_file_count(dry); f++) {
        const char *path = wn_sink_file_path(dry, f);

        if (!spares(path, p->source, err) || !spares(path, p->low, err))
            return false;
        if (!p->o->overwrite && wn_path_exists(path))
            return wn_fail(err, WN_ERR_ARG, "'%s' exists already", path);
    }
    return true;
}

/* A GGUF's record lies beside it, and must not be somebody else's. */
static bool check_record(const struct wn_pruning *p, const struct wn_sink *dry, struct wn_err *err)
{
    char *folder, *path;
    bool ok;

    if (!p->o->hashes || p->o->overwrite || !wn_pruning_makes_gguf(p))
        return true;
    folder = wn_path_parent(wn_sink_file_path(dry, 0), err);
    path = folder ? wn_path_join(folder, p->seal_name, err) : NULL;
    ok = path && (!wn_path_exists(path) || wn_fail(err, WN_ERR_ARG, "'%s' exists already", path));
    free(path);
    free(folder);
    return ok;
}

/* What an earlier run has left, and what of this one will be told. */
static bool look_back(struct wn_pruning *p, const struct wn_sink *dry, struct wn_err *err)
{
    const struct wn_prune_options *o = p->o;
    uint8_t identity[WN_DIGEST_BYTES];

    if (o->hashes && !wn_seal_init(&p->seal, dry, wn_pruning_container(p), err))
        return false;
    if (o->consume && !wn_consume_init(&p->consume, &p->keep, o->out, p->recast, err))
        return false;
    return !o->resume ||
           (wn_pruning_identity(p, dry, identity, err) &&
            wn_resume_read(&p->resume, dry, wn_pruning_container(p), identity, &p->seal, p->consume.begun, err));
}

static uint64_t memory_needed(const struct wn_pruning *p)
{
    return wn_seal_memory(&p->seal) + wn_means_memory(p->means) +
           (p->recast ? wn_recast_memory(&p->made, wn_pool_threads(p->pool)) : COPY_BUFFER);
}

static void count_low(const struct wn_pruning *p, struct wn_prune_result *r)
{
    for (size_t i = 0; p->low && i < p->keep.tensor_count; i++) {
        const struct wn_keep_tensor *t = &p->keep.tensors[i];

        if (t->source != p->low)
            continue;
        r->lo_bytes += t->bytes;
        r->lo_weights += wn_tensor_elements(t->from) / t->from->shape[0] * t->count;
    }
}

static void fill_result(const struct wn_pruning *p, const struct wn_sink *sink, struct wn_prune_result *r)
{
    for (size_t i = 0; i < wn_source_file_count(p->source); i++)
        r->source_bytes += wn_source_file_at(p->source, i)->file.bytes;
    r->source_bytes += wn_pruning_index_bytes(p);
    r->out_bytes = wn_sink_total_bytes(sink);
    r->out_tensor_bytes = p->total;
    count_low(p, r);
    r->files = wn_sink_file_count(sink);
    r->tensors = p->recast ? p->made.list.n : p->keep.tensor_count;
    r->copied_bytes = p->done;
}

/*
 * What a killed run left under the names is not in the way, once it is put back; a dry run leaves it, and does not mind
 * it.
 */
static bool check_place(struct wn_pruning *p, const struct wn_sink *dry, struct wn_err *err)
{
    if (p->o->dry_run && wn_sink_is_half_placed(dry))
        return true;
    return (p->o->dry_run || wn_sink_put_back(dry, err)) && wn_pruning_find_finished(p, dry, err) &&
           (p->finished || check_paths(p, dry, err));
}

/* All that is found out before anything is written. */
static bool look_ahead(struct wn_pruning *p, struct wn_prune_result *r, struct wn_err *err)
{
    struct wn_sink *dry = NULL;
    bool ok = prepare(p, err) && (dry = wn_pruning_begin_sink(p, true, err)) &&
              (p->seal_name = wn_seal_name(wn_pruning_container(p), wn_sink_file_path(dry, 0), err)) &&
              check_place(p, dry, err);

    if (ok)
        fill_result(p, dry, r);
    if (ok && p->finished)
        ok = wn_pruning_tidy(p, dry, err);
    else if (ok && !p->o->dry_run)
        ok = check_record(p, dry, err) && look_back(p, dry, err) && wn_pruning_check_space(p, dry, err);
    /* the real sink takes what this one did, and all else that grows with the model is there already */
    if (ok && !p->finished)
        wn_job_note_memory(p->job, memory_needed(p));
    wn_sink_free(dry);
    return ok;
}

static bool run(struct wn_pruning *p, struct wn_prune_result *r, struct wn_err *err)
{
    bool ok = look_ahead(p, r, err);

    if (ok && p->finished)
        r->files_taken_up = r->files;
    if (!ok || p->o->dry_run || p->finished)
        return ok;
    ok = wn_pruning_write(p, err) && wn_consume_end(&p->consume, p->job, err);
    r->copied_bytes = p->done - p->done_before;
    r->files_taken_up = p->resume.taken;
    wn_sink_free(p->sink);
    return ok;
}

bool wn_prune(const struct wn_prune_options *o, const struct wn_job *job, struct wn_prune_result *r, struct wn_err *err)
{
    struct wn_pruning p = {.o = o, .job = job};
    double start = wn_clock_seconds();
    bool ok;

    *r = (struct wn_prune_result){0};
    ok = run(&p, r, err);
    r->seconds = wn_clock_seconds() - start;
    wn_seal_release(&p.seal);
    wn_resume_release(&p.resume);
    wn_consume_release(&p.consume);
    free(p.seal_name);
    wn_folder_release(&p.folder);
    wn_recast_side_release(&p.side);
    wn_recast_out_release(&p.made);
    if (!o->pool)
        wn_pool_free(p.pool);
    wn_prune_later_release(&p.later);
    wn_prune_kv_release(&p.kv);
    free(p.names);
    wn_keep_release(&p.keep);
    wn_means_close(p.means);
    wn_source_close(p.low);
    if (!o->model)
        wn_source_close(p.source);
    return ok;
}
