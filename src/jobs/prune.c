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
#include "jobs/talk.h"
#include "model/weights.h"
#include "sys/clock.h"

#include <inttypes.h>
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

static bool is_gguf(const struct prune *p)
{
    return wn_source_container(p->source) == WN_CONTAINER_GGUF;
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

/* A sink with everything declared and begun, so that its sizes are known. */
static struct wn_sink *begin_sink(const struct prune *p, bool dry_run, struct wn_err *err)
{
    const struct wn_gguf_meta *m = wn_source_gguf(p->source);
    struct wn_sink_options o = {.overwrite = p->o->overwrite, .dry_run = dry_run, .write_index = wants_index(p)};
    struct wn_sink *s;
    bool ok = true;

    if (m) {
        o.kv = p->kv.kv;
        o.kv_count = p->kv.n;
        o.gguf_version = m->version;
        o.gguf_alignment = m->alignment;
        o.later = p->later.meta;
        o.later_count = p->later.n;
    } else {
        o.metadata = wn_source_metadata(p->source);
        o.file_names = p->names;
        o.file_name_count = p->files;
    }
    s = wn_sink_new(wn_source_container(p->source), p->o->out, &o, err);
    if (!s)
        return NULL;
    for (size_t i = 0; ok && i < p->keep.tensor_count; i++) {
        const struct wn_keep_tensor *t = &p->keep.tensors[i];

        ok = wn_sink_declare(s, t->name, t->from->type, t->from->dims, t->shape, t->file, err);
    }
    wn_sink_file_count_at_least(s, p->files);
    if (ok && wn_sink_begin(s, err))
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

static bool prepare(struct prune *p, struct wn_err *err)
{
    const struct wn_prune_options *o = p->o;
    struct wn_keep_cut cut = {.joined = o->layout == WN_LAYOUT_JOINED,
                              .shard_bytes = o->layout == WN_LAYOUT_SPLIT ? o->shard_bytes : 0,
                              .alignment = 1};

    if (!check_options(o, err))
        return false;
    p->source = o->model ? wn_model_source(o->model) : wn_source_open(o->source, err);
    if (!p->source || !check_fingerprint(p, err))
        return false;
    if (!wn_keep_init(&p->keep, p->source, o->plan, err))
        return wn_fail_in(err, "'%s'", o->source);
    if (is_gguf(p)) {
        cut.alignment = wn_source_gguf(p->source)->alignment;
        if (!wn_prune_kv(&p->keep, o->plan, &p->kv, err))
            return wn_fail_in(err, "'%s'", o->source);
    }
    if (!wn_keep_lay_out(&p->keep, &cut, &p->files, err) || !keep_files(p, err) ||
        !wn_folder_init(&p->folder, &p->keep, o->plan, o->dry_run ? NULL : p->job, err))
        return false;
    for (size_t i = 0; i < p->keep.tensor_count; i++)
        p->total += p->keep.tensors[i].bytes;
    return true;
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

    if (!is_gguf(p)) {
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

    for (size_t i = 0; i < wn_source_file_count(p->source); i++)
        filled[i] = wn_path_filled(wn_source_file_at(p->source, i)->file.path);
    for (size_t i = 0; i < p->keep.tensor_count; i++)
        need += (double)p->keep.tensors[i].bytes * filled[p->keep.tensors[i].from->file];
    return need * SPACE_MARGIN_SHARE + SPACE_MARGIN;
}

static bool check_space(const struct prune *p, const struct wn_sink *dry, struct wn_err *err)
{
    double *filled = wn_alloc(wn_source_file_count(p->source), sizeof(*filled), err), need;
    char *folder =
        !is_gguf(p) && wn_path_is_folder(p->o->out) ? wn_strdup(p->o->out, err) : wn_path_parent(p->o->out, err);
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
    r->tensors = p->keep.tensor_count;
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
    for (size_t i = 0; ok && i < p->keep.tensor_count; i++)
        ok = wn_keep_gather(&p->keep.tensors[i], copy_range, p, err);
    return ok && tell(p, err) && (is_gguf(p) || wn_folder_write(&p->folder, &p->keep, p->sink, err)) &&
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
        wn_job_note_memory(p->job, COPY_BUFFER);
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
    wn_prune_later_release(&p.later);
    wn_prune_kv_release(&p.kv);
    free(p.names);
    wn_keep_release(&p.keep);
    if (!o->model)
        wn_source_close(p.source);
    return ok;
}
