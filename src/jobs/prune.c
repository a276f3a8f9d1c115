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
#include "formats/sink.h"
#include "jobs/prune_folder.h"
#include "jobs/prune_meta.h"
#include "jobs/recast.h"
#include "jobs/talk.h"
#include "model/weights.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPY_STEP   ((uint64_t)64 << 20) /* between two questions whether to go on */
#define COPY_BUFFER ((uint64_t)4 << 20)  /* of sys/outfile.c, where the system cannot copy by itself */
/* Blocks that are not full, and the file system's own tables: ext4's extents take less than 1/10 000. */
#define SPACE_MARGIN       ((double)(1 << 20))
#define SPACE_MARGIN_SHARE 1.001

struct prune {
    const struct wn_prune_options *o;
    const struct wn_job *job;
    struct wn_source *source;
    struct wn_keep keep;
    struct wn_prune_kv kv;
    struct wn_prune_later later; /* records, when the files are the source's */
    const char **names;          /* owned array; of the source's shards, when the output has the same */
    struct wn_folder folder;
    uint32_t files;
    bool recast;               /* the output is another container: */
    struct wn_recast_out made; /* what it will hold */
    struct wn_recast_side side;
    struct wn_pool *pool; /* owned when the options bring none */
    struct wn_sink *sink;
    uint64_t done, told, total; /* bytes copied, when progress was last told, all */
};

static bool tell(struct prune *p, struct wn_err *err)
{
    p->told = p->done;
    return wn_job_progress(p->job, "copying", p->done, p->total, "bytes", err);
}

/* wn_keep_range_fn */
static bool copy_range(void *arg, const struct wn_keep_tensor *t, const struct wn_keep_range *r, struct wn_err *err)
{
    struct prune *p = arg;

    for (uint64_t at = 0, n; at < r->bytes; at += n) {
        n = r->bytes - at < COPY_STEP ? r->bytes - at : COPY_STEP;
        if (!wn_sink_copy(p->sink, p->source, t->from, r->from + at, n, err))
            return wn_fail_in(err, "tensor '%s'", t->name);
        p->done += n;
        if (p->done - p->told >= COPY_STEP && !tell(p, err))
            return false;
    }
    return true;
}

/* wn_recast_write_fn: pages of the source that were read are given back now and then, or a whole layer would be held. */
static bool take_made(void *arg, const void *bytes, size_t n, struct wn_err *err)
{
    struct prune *p = arg;

    if (!wn_sink_write(p->sink, bytes, n, err))
        return false;
    p->done += n;
    if (p->done - p->told < COPY_STEP)
        return true;
    wn_source_drop_pages(p->source);
    return tell(p, err);
}

/* wn_recast_fn */
static bool make_tensor(void *arg, const struct wn_recast_tensor *t, struct wn_err *err)
{
    struct prune *p = arg;

    return wn_recast_stream(t, p->pool, &p->side, take_made, p, err) || wn_fail_in(err, "tensor '%s'", t->name);
}

static bool is_gguf(const struct prune *p)
{
    return wn_source_container(p->source) == WN_CONTAINER_GGUF;
}

/* Of the output. */
static bool makes_gguf(const struct prune *p)
{
    return p->recast ? p->o->format == WN_FORMAT_GGUF : is_gguf(p);
}

/* Bytes of the index beside a folder's shards; 0: there is none. */
static uint64_t index_bytes(const struct prune *p)
{
    struct wn_file f = {.fd = -1};
    struct wn_err err;
    uint64_t bytes = 0;
    char *path;

    if (is_gguf(p) || !wn_folder_is_whole(p->source))
        return 0;
    path = wn_path_join(wn_source_folder(p->source), WN_SAFETENSORS_INDEX, &err);
    if (path && wn_path_exists(path) && wn_file_open(&f, path, &err)) {
        bytes = f.bytes;
        wn_file_close(&f);
    }
    free(path);
    return bytes;
}

/* Shards with an index stay so; a joined model needs none. */
static bool wants_index(const struct prune *p)
{
    return p->o->layout != WN_LAYOUT_JOINED && index_bytes(p) > 0;
}

/* Declares all tensors of a sink and begins it. */
static bool declare_all(const struct prune *p, struct wn_sink *s, struct wn_err *err)
{
    bool ok = true;

    for (size_t i = 0; ok && !p->recast && i < p->keep.tensor_count; i++) {
        const struct wn_keep_tensor *t = &p->keep.tensors[i];

        ok = wn_sink_declare(s, t->name, t->from->type, t->from->dims, t->shape, t->file, err);
    }
    for (size_t i = 0; ok && p->recast && i < p->made.list.n; i++) {
        const struct wn_recast_tensor *t = &p->made.list.tensors[i];

        ok = wn_sink_declare(s, t->name, wn_recast_file_type(t), t->dims, t->shape, p->made.file[i], err);
    }
    wn_sink_file_count_at_least(s, p->files);
    return ok && wn_sink_begin(s, err);
}

/* What a container that is made says about itself. */
static void set_made(const struct prune *p, struct wn_sink_options *o)
{
    static const char *const mlx[] = {"format", "mlx", NULL};

    o->kv = p->made.kv.kv;
    o->kv_count = p->made.kv.n;
    if (makes_gguf(p))
        return;
    o->metadata = mlx;
    o->write_index = true;
    o->file_names = (const char *const *)p->made.names;
    o->file_name_count = p->made.names ? p->files : 0;
}

/* A sink with everything declared and begun, so that its sizes are known. */
static struct wn_sink *begin_sink(const struct prune *p, bool dry_run, struct wn_err *err)
{
    const struct wn_gguf_meta *m = wn_source_gguf(p->source);
    struct wn_sink_options o = {.overwrite = p->o->overwrite, .dry_run = dry_run};
    struct wn_sink *s;

    if (p->recast) {
        set_made(p, &o);
    } else if (m) {
        o.kv = p->kv.kv;
        o.kv_count = p->kv.n;
        o.gguf_version = m->version;
        o.gguf_alignment = m->alignment;
        o.later = p->later.meta;
        o.later_count = p->later.n;
    } else {
        o.write_index = wants_index(p);
        o.metadata = wn_source_metadata(p->source);
        o.file_names = p->names;
        o.file_name_count = p->files;
    }
    s = wn_sink_new(makes_gguf(p) ? WN_CONTAINER_GGUF : WN_CONTAINER_SAFETENSORS, p->o->out, &o, err);
    if (!s || declare_all(p, s, err))
        return s;
    wn_sink_free(s);
    return NULL;
}

static bool check_options(const struct wn_prune_options *o, struct wn_err *err)
{
    if (!o->source || !*o->source || !o->out || !*o->out)
        return wn_fail(err, WN_ERR_ARG, "a source and an output are needed");
    if (o->layout == WN_LAYOUT_SPLIT && o->shard_bytes == 0)
        return wn_fail(err, WN_ERR_ARG, "a split output needs the size of its files");
    return true;
}

static bool check_fingerprint(const struct prune *p, struct wn_err *err)
{
    const struct wn_plan *plan = p->o->plan;
    char own[17];

    if (!plan || !*plan->model_fingerprint || p->o->force_plan)
        return true;
    wn_source_fingerprint(p->source, own);
    if (strcmp(own, plan->model_fingerprint) == 0)
        return true;
    return wn_fail(
        err, WN_ERR_ARG,
        "the plan was made for a model with the fingerprint %s, '%s' has %s (the same model in another format "
        "has another one; a forced plan is taken all the same)",
        plan->model_fingerprint, p->o->source, own);
}

/* Files that stay as the source has them keep their names and records; others cannot have records of their own. */
static bool keep_files(struct prune *p, struct wn_err *err)
{
    if (!is_gguf(p))
        return p->o->layout != WN_LAYOUT_AS_SOURCE || wn_prune_names(p->source, &p->names, err);
    if (p->o->layout == WN_LAYOUT_AS_SOURCE)
        return wn_prune_later(p->source, &p->kv, &p->later, err);
    return wn_source_gguf_is_whole(p->source, err);
}

/* Files and metadata of an output that is the source's container. */
static bool prepare_copy(struct prune *p, struct wn_err *err)
{
    const struct wn_prune_options *o = p->o;
    struct wn_keep_cut cut = {.joined = o->layout == WN_LAYOUT_JOINED,
                              .shard_bytes = o->layout == WN_LAYOUT_SPLIT ? o->shard_bytes : 0,
                              .alignment = 1};

    if (wn_keep_is_graded(&p->keep))
        return wn_fail(
            err, WN_ERR_ARG,
            "the plan stores experts in fewer bits, which a copy within the container cannot; it needs --format "
            "mlx");
    if (is_gguf(p)) {
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

static void note_left_out(const struct prune *p)
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
static bool prepare_recast(struct prune *p, struct wn_err *err)
{
    const struct wn_prune_options *o = p->o;
    unsigned rest = o->rest_bits == 0 ? 8 : o->rest_bits == 16 ? 0 : o->rest_bits;
    struct wn_recast r = {.model = o->model,
                          .keep = &p->keep,
                          .form = o->format == WN_FORMAT_GGUF ? &wn_recast_form_gguf : &wn_recast_form_mlx,
                          .rest_bits = rest,
                          .fit = o->encoder == WN_ENCODER_FIT};

    if (!o->model || wn_naming_of_source(p->source) != WN_NAMING_HF)
        return wn_fail(err, WN_ERR_ARG,
                       "'%s' cannot become another container: that goes from HF folders of K3 and its kin only",
                       o->source);
    if (makes_gguf(p) && !wn_keep_is_uniform(&p->keep))
        return wn_fail(err, WN_ERR_ARG,
                       "the plan keeps different numbers of experts in different layers, and GGUF has one expert count "
                       "for all of them; such a plan needs a folder of safetensors");
    if (rest && wn_affine_type(rest) == WN_TYPE_COUNT)
        return wn_fail(err, WN_ERR_ARG, "matrices of %u bits are not known: 2, 3, 4, 5, 6, 8, or 16 for as they are",
                       rest);
    if (!wn_recast_out_init(&p->made, &r, o->layout == WN_LAYOUT_JOINED,
                            o->layout == WN_LAYOUT_SPLIT ? o->shard_bytes : 0, err))
        return wn_fail_in(err, "'%s'", o->source);
    p->pool = o->pool ? o->pool : wn_pool_new(1, err);
    p->files = p->made.files;
    p->total = p->made.bytes;
    note_left_out(p);
    return p->pool != NULL;
}

static bool prepare(struct prune *p, struct wn_err *err)
{
    const struct wn_prune_options *o = p->o;

    if (!check_options(o, err))
        return false;
    p->source = o->model ? wn_model_source(o->model) : wn_source_open(o->source, err);
    if (!p->source || !check_fingerprint(p, err))
        return false;
    p->recast = o->format == WN_FORMAT_MLX || (o->format == WN_FORMAT_GGUF && !is_gguf(p));
    if (o->format == WN_FORMAT_HF && wn_naming_of_source(p->source) != WN_NAMING_HF)
        return wn_fail(err, WN_ERR_ARG, "'%s' is no HF folder, and nothing else can become one", o->source);
    if (!wn_keep_init(&p->keep, p->source, o->plan, err))
        return wn_fail_in(err, "'%s'", o->source);
    return (p->recast ? prepare_recast(p, err) : prepare_copy(p, err)) &&
           wn_folder_init(&p->folder, &p->keep, o->plan, o->dry_run || makes_gguf(p) ? NULL : p->job, err) &&
           (!p->recast || makes_gguf(p) || wn_folder_recast(&p->folder, &p->keep, &p->made, o->plan_name, err));
}

/*
 * An output folder may hold what a killed run left (.part) and, with overwrite, anything; the sink minds other weights.
 */
static bool check_folder(const struct prune *p, struct wn_err *err)
{
    char **names;
    size_t n;
    bool ok = true;

    if (!wn_path_is_folder(p->o->out))
        return !wn_path_exists(p->o->out) || wn_fail(err, WN_ERR_ARG, "'%s' exists and is not a folder", p->o->out);
    if (!wn_path_list(p->o->out, &names, &n, err))
        return false;
    for (size_t i = 0; ok && !p->o->overwrite && i < n; i++)
        if (!wn_ends_with(names[i], ".part"))
            ok = wn_fail(err, WN_ERR_ARG, "'%s' exists already and is not empty: '%s' is in it", p->o->out, names[i]);
    wn_names_free(names, n);
    return ok;
}

/* Nothing of the source may be written over. */
static bool check_paths(const struct prune *p, const struct wn_sink *dry, struct wn_err *err)
{
    const char *folder = wn_source_folder(p->source);

    if (!makes_gguf(p)) {
        /* beside a single file there is room for a folder */
        if (wn_folder_is_whole(p->source) ? wn_path_inside(p->o->out, folder) : wn_path_same(p->o->out, folder))
            return wn_fail(err, WN_ERR_ARG, "the output '%s' lies in the source's folder '%s'", p->o->out, folder);
        return check_folder(p, err);
    }
    for (uint32_t f = 0; f < wn_sink_file_count(dry); f++) {
        const char *path = wn_sink_file_path(dry, f);

        for (size_t i = 0; i < wn_source_file_count(p->source); i++)
            if (wn_path_same(path, wn_source_file_at(p->source, i)->file.path))
                return wn_fail(err, WN_ERR_ARG, "the output '%s' is a file of the source", path);
        if (!p->o->overwrite && wn_path_exists(path))
            return wn_fail(err, WN_ERR_ARG, "'%s' exists already", path);
    }
    return true;
}

/* Holes take no space, so each source file's bytes count by the share of it that is stored. */
static double space_needed(const struct prune *p, const struct wn_sink *dry, double *filled)
{
    double need = (double)(wn_sink_total_bytes(dry) - p->total) + (double)p->folder.bytes;

    if (p->recast)
        need += (double)p->total;
    for (size_t i = 0; i < wn_source_file_count(p->source); i++)
        filled[i] = wn_path_filled(wn_source_file_at(p->source, i)->file.path);
    for (size_t i = 0; !p->recast && i < p->keep.tensor_count; i++)
        need += (double)p->keep.tensors[i].bytes * filled[p->keep.tensors[i].from->file];
    return need * SPACE_MARGIN_SHARE + SPACE_MARGIN;
}

static bool check_space(const struct prune *p, const struct wn_sink *dry, struct wn_err *err)
{
    double *filled = wn_alloc(wn_source_file_count(p->source), sizeof(*filled), err), need;
    char *folder =
        !makes_gguf(p) && wn_path_is_folder(p->o->out) ? wn_strdup(p->o->out, err) : wn_path_parent(p->o->out, err);
    uint64_t free_bytes;
    bool ok = filled && folder && wn_path_space(folder, &free_bytes, err);

    if (ok) {
        need = space_needed(p, dry, filled);
        if (need > (double)free_bytes)
            ok = wn_fail(err, WN_ERR_IO, "'%s' has %" PRIu64 " bytes free, the output needs %.0f", folder, free_bytes,
                         need);
    }
    free(folder);
    free(filled);
    return ok;
}

static void fill_result(const struct prune *p, const struct wn_sink *sink, struct wn_prune_result *r)
{
    for (size_t i = 0; i < wn_source_file_count(p->source); i++)
        r->source_bytes += wn_source_file_at(p->source, i)->file.bytes;
    r->source_bytes += index_bytes(p);
    r->out_bytes = wn_sink_total_bytes(sink);
    r->out_tensor_bytes = p->total;
    r->files = wn_sink_file_count(sink);
    r->tensors = p->recast ? p->made.list.n : p->keep.tensor_count;
    r->copied_bytes = p->done;
}

/* Weights first, since copying them takes longest; config.json, without which nothing opens the folder, last. */
static bool write_all(struct prune *p, struct wn_err *err)
{
    bool ok;

    p->sink = begin_sink(p, false, err);
    if (!p->sink)
        return false;
    ok = tell(p, err);
    for (size_t i = 0; ok && !p->recast && i < p->keep.tensor_count; i++)
        ok = wn_keep_gather(&p->keep.tensors[i], copy_range, p, err);
    if (ok && p->recast)
        ok = wn_recast_walk(&p->made.recast, make_tensor, p, err);
    return ok && tell(p, err) && (makes_gguf(p) || wn_folder_write(&p->folder, &p->keep, p->sink, err)) &&
           wn_sink_commit(p->sink, err);
}

/* What a killed run left under the names is not in the way, once it is put back; a dry run leaves it, and does not mind it. */
static bool check_place(const struct prune *p, const struct wn_sink *dry, struct wn_err *err)
{
    if (p->o->dry_run && wn_sink_is_half_placed(dry))
        return true;
    return (p->o->dry_run || wn_sink_put_back(dry, err)) && check_paths(p, dry, err);
}

static bool run(struct prune *p, struct wn_prune_result *r, struct wn_err *err)
{
    struct wn_sink *dry = NULL;
    bool ok = prepare(p, err) && (dry = begin_sink(p, true, err)) && check_place(p, dry, err);

    if (ok)
        fill_result(p, dry, r);
    if (ok && !p->o->dry_run)
        ok = check_space(p, dry, err);
    /* the real sink takes what this one did, and all else that grows with the model is there already */
    if (ok)
        wn_job_note_memory(p->job, p->recast ? wn_recast_memory(&p->made, wn_pool_threads(p->pool)) : COPY_BUFFER);
    wn_sink_free(dry);
    if (!ok || p->o->dry_run)
        return ok;
    ok = write_all(p, err);
    r->copied_bytes = p->done;
    wn_sink_free(p->sink);
    return ok;
}

bool wn_prune(const struct wn_prune_options *o, const struct wn_job *job, struct wn_prune_result *r, struct wn_err *err)
{
    struct prune p = {.o = o, .job = job};
    double start = wn_clock_seconds();
    bool ok;

    *r = (struct wn_prune_result){0};
    ok = run(&p, r, err);
    r->seconds = wn_clock_seconds() - start;
    wn_folder_release(&p.folder);
    wn_recast_side_release(&p.side);
    wn_recast_out_release(&p.made);
    if (!o->pool)
        wn_pool_free(p.pool);
    wn_prune_later_release(&p.later);
    wn_prune_kv_release(&p.kv);
    free(p.names);
    wn_keep_release(&p.keep);
    if (!o->model)
        wn_source_close(p.source);
    return ok;
}
