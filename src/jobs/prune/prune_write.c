/* See prune_parts.h: every byte of the output, in order, and its name at last. */
#include "base/alloc.h"
#include "jobs/prune/prune_parts.h"
#include "jobs/talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPY_STEP ((uint64_t)64 << 20) /* between two questions whether to go on */

static bool tell(struct wn_pruning *p, struct wn_err *err)
{
    p->told = p->done;
    return wn_job_progress(p->job, "copying", p->done, p->total, "bytes", err);
}

/* wn_keep_range_fn */
static bool copy_range(void *arg, const struct wn_keep_tensor *t, const struct wn_keep_range *r, struct wn_err *err)
{
    struct wn_pruning *p = arg;

    for (uint64_t at = 0, n; at < r->bytes; at += n) {
        n = r->bytes - at < COPY_STEP ? r->bytes - at : COPY_STEP;
        if (!wn_sink_copy(p->sink, t->source, t->from, r->from + at, n, err))
            return wn_fail_in(err, "tensor '%s'", t->name);
        if (!wn_seal_follow(&p->seal, p->sink, err))
            return false;
        p->done += n;
        if (p->done - p->told >= COPY_STEP && !tell(p, err))
            return false;
    }
    return true;
}

/* wn_keep_bytes_fn */
static bool take_ghosts(void *arg, const struct wn_keep_tensor *t, uint64_t at, const void *bytes, size_t n,
                        struct wn_err *err)
{
    struct wn_pruning *p = arg;

    (void)at;
    p->done += n;
    return (wn_sink_write(p->sink, bytes, n, err) && wn_seal_follow(&p->seal, p->sink, err)) ||
           wn_fail_in(err, "tensor '%s'", t->name);
}

/*
 * wn_recast_write_fn: pages of the source that were read are given back now and then, or a whole layer would be held.
 */
static bool take_made(void *arg, const void *bytes, size_t n, struct wn_err *err)
{
    struct wn_pruning *p = arg;

    if (!wn_sink_write(p->sink, bytes, n, err) || !wn_seal_follow(&p->seal, p->sink, err))
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
    struct wn_pruning *p = arg;

    if (p->tensor++ < wn_sink_tensors_taken(p->sink))
        return true;
    return wn_recast_stream(t, p->pool, &p->side, take_made, p, err) || wn_fail_in(err, "tensor '%s'", t->name);
}

/* Shards with an index stay so; a joined model needs none. */
static bool wants_index(const struct wn_pruning *p)
{
    return p->o->layout != WN_LAYOUT_JOINED && wn_pruning_index_bytes(p) > 0;
}

/* Declares all tensors of a sink and begins it. */
static bool declare_all(const struct wn_pruning *p, struct wn_sink *s, struct wn_err *err)
{
    bool ok = true;

    for (size_t i = 0; ok && !p->recast && i < p->keep.tensor_count; i++) {
        const struct wn_keep_tensor *t = &p->keep.tensors[i];

        ok = wn_sink_declare(s, t->name, t->type, t->dims, t->shape, t->file, err);
    }
    for (size_t i = 0; ok && p->recast && i < p->made.list.n; i++) {
        const struct wn_recast_tensor *t = &p->made.list.tensors[i];

        ok = wn_sink_declare(s, t->name, wn_recast_file_type(t), t->dims, t->shape, p->made.file[i], err);
    }
    wn_sink_file_count_at_least(s, p->files);
    return ok && wn_sink_begin(s, err);
}

/* What a container that is made says about itself. */
static void set_made(const struct wn_pruning *p, struct wn_sink_options *o)
{
    static const char *const mlx[] = {"format", "mlx", NULL};

    o->kv = p->made.kv.kv;
    o->kv_count = p->made.kv.n;
    if (wn_pruning_makes_gguf(p))
        return;
    o->metadata = mlx;
    o->write_index = true;
    o->file_names = (const char *const *)p->made.names;
    o->file_name_count = p->made.names ? p->files : 0;
}

/* wn_sink_options.complete: a file is on the disk. What it was made of may go when that is on the disk too. */
static bool complete(void *arg, uint32_t file, const char *part, struct wn_err *err)
{
    struct wn_pruning *p = arg;

    return wn_seal_complete(&p->seal, p->sink, file, part, err) &&
           wn_resume_add(&p->resume, file, part, &p->seal, err) && wn_consume_file(&p->consume, file, err);
}

/* What only the sink that writes is told. */
static void set_writing(struct wn_pruning *p, struct wn_sink_options *o)
{
    o->taken = p->resume.taken;
    o->complete = complete;
    o->keep = p->resume.on;
    o->arg = p;
    o->record_name = p->seal_name;
}

struct wn_sink *wn_pruning_begin_sink(struct wn_pruning *p, bool dry_run, struct wn_err *err)
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
    if (!dry_run)
        set_writing(p, &o);
    s = wn_sink_new(wn_pruning_container(p), p->o->out, &o, err);
    if (!dry_run)
        p->sink = s; /* the first file may be complete before this returns */
    if (!s || declare_all(p, s, err))
        return s;
    wn_sink_free(s);
    if (!dry_run)
        p->sink = NULL;
    return NULL;
}

/* ---- what is no weights ---- */

/* Paths of what lies complete beside the weights: names of the folder, and the index. Free with wn_names_free. */
static char **list_beside(const struct wn_pruning *p, size_t *n, struct wn_err *err)
{
    const struct wn_outfile *index = wn_sink_index(p->sink);
    size_t copied = wn_pruning_makes_gguf(p) ? 0 : p->folder.n;
    char **paths = wn_alloc(copied + 1, sizeof *paths, err);
    bool ok = paths != NULL;

    *n = 0;
    if (ok && index && (ok = (paths[*n] = wn_strdup(index->part, err)) != NULL))
        ++*n;
    for (size_t i = 0; ok && i < copied; i++)
        if ((ok = (paths[*n] = wn_asprintf(err, "%s/%s.part", p->o->out, p->folder.copied[i])) != NULL))
            ++*n;
    if (ok)
        return paths;
    wn_names_free(paths, *n);
    return NULL;
}

static bool write_record(struct wn_pruning *p, struct wn_err *err)
{
    const struct wn_origin from = {p->o, p->source, p->low, p->means,
                                   !p->recast                 ? "copy"
                                   : wn_pruning_makes_gguf(p) ? "gguf"
                                                              : "mlx"};
    struct wn_buf text = {0};
    struct wn_outfile *to;
    char **beside;
    size_t n;
    bool ok;

    if (!p->seal.on)
        return true;
    beside = list_beside(p, &n, err);
    ok = beside &&
         wn_seal_text(&p->seal, p->sink, &from, (const char *const *)beside, n,
                      p->folder.has_config && !wn_pruning_makes_gguf(p) ? &p->folder.config : NULL, &text, err) &&
         (to = wn_sink_beside(p->sink, p->seal_name, err)) && wn_outfile_write(to, text.at, text.n, err) &&
         wn_outfile_finish(to, err);
    wn_names_free(beside, beside ? n : 0);
    wn_buf_release(&text);
    return ok;
}

/* config.json, without which nothing opens the folder, last. */
static bool write_beside(struct wn_pruning *p, struct wn_err *err)
{
    if (wn_pruning_makes_gguf(p))
        return write_record(p, err);
    return wn_folder_write(&p->folder, &p->keep, p->sink, err) && write_record(p, err) &&
           wn_folder_write_config(&p->folder, p->sink, err);
}

/* Files that an earlier run finished: their bytes count as done, and their sources may still have to go. */
static bool take_up(struct wn_pruning *p, struct wn_err *err)
{
    size_t n = wn_sink_tensors_taken(p->sink);
    char line[160];

    for (size_t i = 0; i < n; i++)
        p->done_before += wn_sink_tensor(p->sink, i).bytes;
    p->done = p->done_before;
    for (uint32_t f = 0; f < p->resume.taken; f++)
        if (!wn_consume_file(&p->consume, f, err))
            return false;
    if (p->resume.taken == 0)
        return true;
    (void)snprintf(line, sizeof line, "taking up %" PRIu32 " of %" PRIu32 " files, which an earlier run finished",
                   p->resume.taken, wn_sink_file_count(p->sink));
    wn_job_note(p->job, line);
    return true;
}

/* Weights first, since copying them takes longest. */
static bool write_weights(struct wn_pruning *p, struct wn_err *err)
{
    if (p->recast)
        return wn_recast_walk(&p->made.recast, make_tensor, p, err);
    for (size_t i = wn_sink_tensors_taken(p->sink); i < p->keep.tensor_count; i++) {
        const struct wn_keep_tensor *t = &p->keep.tensors[i];

        if (t->made == WN_COPIED ? !wn_keep_gather(t, copy_range, p, err)
                                 : !wn_keep_make(&p->keep, t, take_ghosts, p, err))
            return false;
    }
    return true;
}

bool wn_pruning_write(struct wn_pruning *p, struct wn_err *err)
{
    if (!wn_pruning_begin_sink(p, false, err) || !take_up(p, err) || !tell(p, err) || !write_weights(p, err) ||
        !tell(p, err) || !write_beside(p, err) || !wn_sink_commit(p->sink, err))
        return false;
    wn_resume_remove(&p->resume);
    return true;
}
