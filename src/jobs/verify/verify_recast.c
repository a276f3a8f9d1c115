/*
 * See verify_parts.h: the proof of a container that was made, not copied. The walk that wrote it (recast.h) runs again
 * over the source, and each byte that it makes is held against the output's.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "jobs/prune/means.h"
#include "jobs/prune/prune_meta.h"
#include "jobs/convert/recast.h"
#include "jobs/talk.h"
#include "jobs/verify/verify_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TELL ((uint64_t)64 << 20)

struct verify {
    const struct wn_job *job;
    const struct wn_source *source, *out;
    struct wn_keep keep;
    struct wn_recast_out made;
    struct wn_recast_side side;
    struct wn_pool *pool;
    const struct wn_recast_tensor *tensor; /* that is being compared, */
    const uint8_t *have;                   /* its bytes in the output, */
    uint64_t at;                           /* and how many of them are */
    uint64_t done, told;
    uint64_t tensors;
};

static bool tell(struct verify *v, struct wn_err *err)
{
    v->told = v->done;
    return wn_job_progress(v->job, "verifying", v->done, v->made.bytes, "bytes", err);
}

/* Where byte `at` of the tensor belongs: its expert, if it has experts. */
static bool fail_byte(const struct verify *v, uint64_t at, uint8_t want, struct wn_err *err)
{
    const struct wn_recast_tensor *t = v->tensor;
    const struct wn_keep_layer *l = t->layer >= 0 ? wn_keep_find(&v->keep, (uint32_t)t->layer) : NULL;
    uint64_t slab = t->part_count ? wn_recast_bytes(t) / t->part_count : 0;
    bool low = strstr(t->name, ".bank_lo.") != NULL;
    uint32_t nth = slab ? (uint32_t)(at / slab) : 0;
    struct wn_part part;

    wn_part_of(wn_source_container(v->out), t->name, &part);
    if (l && (part.expert_rows || part.ghost_mean))
        return wn_verify_fail_ghost(l,
                                    &(struct wn_ghost_byte){.name = t->name,
                                                            .rows = part.expert_rows,
                                                            .each = part.expert_rows ? 4 : wn_recast_row_bytes(t),
                                                            .at = at,
                                                            .have = v->have[at],
                                                            .want = want},
                                    err);
    if (part.router && v->keep.ghosts != WN_GHOSTS_OFF)
        l = NULL; /* its rows are not the experts' */
    if (!l || slab == 0 || t->shape[0] != t->part_count || t->part_count < 2)
        return wn_fail(err, WN_ERR_DIFFERENT, "'%s': byte %" PRIu64 " is 0x%02x, wanted 0x%02x", t->name, at,
                       v->have[at], want);
    nth += low ? l->hi : 0;
    return wn_fail(err, WN_ERR_DIFFERENT,
                   "layer %" PRIu32 ", new expert %" PRIu32 " (old expert %" PRIu32 "), '%s': byte %" PRIu64
                   " of the expert, %" PRIu64 " of the tensor, is 0x%02x, wanted 0x%02x",
                   l->layer, nth, nth < l->count ? l->keep[nth] : WN_DROPPED, t->name, at % slab, at, v->have[at],
                   want);
}

/* wn_recast_write_fn */
static bool compare_bytes(void *arg, const void *bytes, size_t n, struct wn_err *err)
{
    struct verify *v = arg;
    const uint8_t *want = bytes, *have = v->have + v->at;

    if (memcmp(want, have, n) != 0)
        for (size_t i = 0; i < n; i++)
            if (want[i] != have[i])
                return fail_byte(v, v->at + i, want[i], err);
    v->at += n;
    v->done += n;
    if (v->done - v->told < TELL)
        return true;
    wn_source_drop_pages(v->source);
    wn_source_drop_pages(v->out);
    return tell(v, err);
}

static bool check_shape(const struct wn_recast_tensor *t, const struct wn_tensor *have, struct wn_err *err)
{
    if (!have)
        return wn_fail(err, WN_ERR_DIFFERENT, "tensor '%s' is missing", t->name);
    if (have->type != wn_recast_file_type(t))
        return wn_fail(err, WN_ERR_DIFFERENT, "tensor '%s' is of type %s, wanted %s", t->name,
                       wn_type_info(have->type)->name, wn_type_info(wn_recast_file_type(t))->name);
    if (!wn_shape_is_alike(t->dims, t->shape, have->dims, have->shape) || have->bytes != wn_recast_bytes(t))
        return wn_fail(err, WN_ERR_DIFFERENT,
                       "tensor '%s' has another shape than wanted (%" PRIu64 " bytes, not %" PRIu64 ")", t->name,
                       have->bytes, wn_recast_bytes(t));
    return true;
}

/* wn_recast_fn */
static bool compare_tensor(void *arg, const struct wn_recast_tensor *t, struct wn_err *err)
{
    struct verify *v = arg;
    const struct wn_tensor *have = wn_source_find(v->out, t->name);

    if (!check_shape(t, have, err))
        return false;
    v->tensor = t;
    v->have = wn_source_view(v->out, have, err);
    v->at = 0;
    v->tensors++;
    return v->have && wn_recast_stream(t, v->pool, &v->side, compare_bytes, v, err);
}

static bool check_others(const struct verify *v, struct wn_err *err)
{
    size_t n = v->made.list.n;
    const char **names = wn_alloc(n, sizeof *names, err);
    bool ok = names != NULL;

    for (size_t i = 0; ok && i < n; i++)
        names[i] = v->made.list.tensors[i].name;
    ok = ok && wn_verify_no_others(v->out, names, n, err);
    free(names);
    return ok;
}

/* The model's name is its folder's, which may have another by now. */
static bool check_kv(struct verify *v, struct wn_err *err)
{
    const struct wn_gguf_kv *name = wn_gguf_find(wn_source_gguf(v->out), "general.name");

    for (size_t i = 0; name && i < v->made.kv.n; i++)
        if (wn_bytes_is(v->made.kv.kv[i].key, "general.name"))
            v->made.kv.kv[i].value = name->value;
    return wn_verify_records(v->made.kv.kv, v->made.kv.n, wn_source_gguf(v->out), err);
}

static bool check_folder(struct verify *v, const struct wn_plan *plan, const char *plan_name, struct wn_err *err)
{
    struct wn_folder f;
    bool ok, same = true;

    if (!wn_folder_init(&f, &v->keep, plan, NULL, err))
        return wn_fail_in(err, "the source");
    ok =
        wn_folder_recast(&f, &v->keep, &v->made, plan_name, err) && wn_verify_beside(&f, v->source, v->out, &same, err);
    wn_folder_release(&f);
    return ok;
}

/* How the folder says that it was made. */
static bool read_options(const struct wn_source *out, struct wn_recast *r, char *plan_name, size_t size,
                         struct wn_err *err)
{
    char *path = wn_path_join(wn_source_folder(out), "config.json", err), *text = NULL;
    size_t n;
    bool ok =
        path && (text = wn_file_slurp(path, WN_CONFIG_BYTES_MAX, &n, err)) &&
        (wn_recast_read_options(text, n, r, plan_name, size) ||
         wn_fail(err, WN_ERR_DIFFERENT,
                 "config.json has no 'winnow' part, which says how the folder was made; only what winnow made can be "
                 "made again"));

    free(text);
    free(path);
    return ok;
}

static bool compare(struct verify *v, const struct wn_model *m, const struct wn_keep_how *how, struct wn_err *err)
{
    struct wn_recast r = {.model = m, .keep = &v->keep, .form = &wn_recast_form_gguf};
    char plan_name[256] = "";

    if (!wn_source_gguf(v->out)) {
        r.form = &wn_recast_form_mlx;
        if (!read_options(v->out, &r, plan_name, sizeof plan_name, err))
            return false;
    }
    if (!wn_keep_init(&v->keep, v->source, how, err) || !wn_recast_out_init(&v->made, &r, true, 0, err))
        return wn_fail_in(err, "the source");
    v->pool = wn_pool_new(0, err);
    if (!v->pool)
        return false;
    wn_job_note_memory(v->job, wn_recast_memory(&v->made, wn_pool_threads(v->pool)) + wn_means_memory(how->means));
    return tell(v, err) && wn_recast_walk(&r, compare_tensor, v, err) && tell(v, err) && check_others(v, err) &&
           wn_verify_nothing_else(v->out, err) &&
           (wn_source_gguf(v->out) ? check_kv(v, err) : check_folder(v, how->plan, plan_name, err));
}

bool wn_verify_recast(const struct wn_source *source, const struct wn_keep_how *how, const struct wn_source *out,
                      const struct wn_job *job, struct wn_verify_result *r, struct wn_err *err)
{
    struct verify v = {.job = job, .out = out};
    struct wn_model *m;
    bool ok;

    if (wn_naming_of_source(source) != WN_NAMING_HF)
        return wn_fail(err, WN_ERR_DIFFERENT, "it is another container than the source, which is no HF folder");
    m = wn_model_open(wn_source_path(source), err);
    if (!m)
        return false;
    v.source = wn_model_source(m);
    ok = compare(&v, m, how, err);
    r->tensors = v.tensors;
    r->bytes = v.done;
    if (ok)
        wn_verify_count(&v.keep, r);
    wn_recast_side_release(&v.side);
    wn_recast_out_release(&v.made);
    wn_pool_free(v.pool);
    wn_keep_release(&v.keep);
    wn_model_close(m);
    return ok;
}
