/*
 * The proof of a prune: the output is opened like any model and held against what keep.c says should be there. Prune
 * and verify share that walk, so what verify adds is everything that can go wrong between it and the disk, and after:
 * the test suite turns routers, swaps experts and flips bytes to see that it does.
 */
#include <winnow/prune.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "jobs/prune/means.h"
#include "jobs/prune/seal_json.h"
#include "jobs/talk.h"
#include "jobs/verify/verify_parts.h"
#include "model/names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STEP     ((size_t)4 << 20)  /* of each side at a time */
#define STEP_MIN ((size_t)64 << 10) /* behind a hole: what is stored there may be little */
#define TELL     ((uint64_t)64 << 20)

struct verify {
    const struct wn_job *job;
    const struct wn_source *source, *low, *out; /* low: the second parent, or NULL */
    const struct wn_tensor *out_tensor;         /* the one that is being compared */
    struct wn_keep keep;
    uint8_t *want, *have; /* [STEP] */
    struct wn_scales scales;
    uint64_t done, told, total;
};

static bool tell(struct verify *v, struct wn_err *err)
{
    v->told = v->done;
    return wn_job_progress(v->job, "verifying", v->done, v->total, "bytes", err);
}

/* Says where: byte `at` of the range, which differs. */
static bool fail_byte(const struct verify *v, const struct wn_keep_tensor *t, const struct wn_keep_range *r,
                      uint64_t at, uint8_t have, uint8_t want, struct wn_err *err)
{
    uint64_t slab = t->axis == WN_AXIS_OUTER ? t->slab_bytes : t->bytes;
    uint32_t nth = (uint32_t)(at / slab);

    if (r->new_expert == WN_DROPPED)
        return wn_fail(err, WN_ERR_DIFFERENT, "'%s': byte %" PRIu64 " is 0x%02x, the source has 0x%02x", t->name,
                       r->to + at, have, want);
    return wn_fail(err, WN_ERR_DIFFERENT,
                   "layer %" PRIu32 ", new expert %" PRIu32 " (old expert %" PRIu32 "), %s'%s': byte %" PRIu64
                   " of the expert, %" PRIu64 " of the tensor, is 0x%02x, the %s has 0x%02x",
                   t->layer->layer, r->new_expert + nth, r->old_expert + nth, t->router ? "router " : "", t->name,
                   at % slab, r->to + at, have, t->source == v->low ? "second parent" : "source", want);
}

/* n bytes from `at` of the range, read from both sides. */
static bool compare_bytes(struct verify *v, const struct wn_keep_tensor *t, const struct wn_keep_range *r, uint64_t at,
                          size_t n, struct wn_err *err)
{
    size_t i = 0;

    if (!wn_source_read(t->source, t->from, r->from + at, v->want, n, err) ||
        !wn_source_read(v->out, v->out_tensor, r->to + at, v->have, n, err))
        return false;
    wn_scales_look(&v->scales, t, r->to + at, v->have, n);
    if (memcmp(v->want, v->have, n) == 0)
        return true;
    while (v->want[i] == v->have[i])
        i++;
    return fail_byte(v, t, r, at + i, v->have[i], v->want[i], err);
}

/* wn_keep_range_fn */
static bool compare_range(void *arg, const struct wn_keep_tensor *t, const struct wn_keep_range *r, struct wn_err *err)
{
    struct verify *v = arg;
    uint64_t step = STEP_MIN;

    for (uint64_t at = 0, n; at < r->bytes; at += n) {
        n = wn_source_common_hole(t->source, t->from, r->from + at, v->out, v->out_tensor, r->to + at);
        n = wn_min_u64(n, r->bytes - at);
        if (n > 0) {
            step = STEP_MIN;
        } else {
            n = wn_min_u64(r->bytes - at, step);
            step = wn_min_u64(2 * step, STEP);
            if (!compare_bytes(v, t, r, at, (size_t)n, err))
                return false;
        }
        v->done += n;
        if (v->done - v->told >= TELL && !tell(v, err))
            return false;
    }
    return true;
}

/* wn_keep_bytes_fn */
static bool compare_made(void *arg, const struct wn_keep_tensor *t, uint64_t at, const void *bytes, size_t n,
                         struct wn_err *err)
{
    struct wn_ghost_byte b = {.name = t->name, .rows = t->made == WN_MADE_ROWS, .each = n};
    struct verify *v = arg;
    const uint8_t *want = bytes;

    if (b.rows)
        b.each /= t->layer->count;
    for (size_t i = 0; i < n; i++) {
        if (i % STEP == 0 && !wn_source_read(v->out, v->out_tensor, at + i, v->have, wn_min_size(n - i, STEP), err))
            return false;
        b.at = at + i;
        b.have = v->have[i % STEP];
        b.want = want[i];
        if (b.have != b.want)
            return wn_verify_fail_ghost(t->layer, &b, err);
    }
    v->done += n;
    return true;
}

static bool check_shape(const struct wn_keep_tensor *t, const struct wn_tensor *have, struct wn_err *err)
{
    const char *whose = t->made == WN_COPIED ? "the source has" : "wanted";

    if (!have)
        return wn_fail(err, WN_ERR_DIFFERENT, "tensor '%s' is missing", t->name);
    if (have->type != t->type)
        return wn_fail(err, WN_ERR_DIFFERENT, "tensor '%s' is of type %s, %s %s", t->name,
                       wn_type_info(have->type)->name, whose, wn_type_info(t->type)->name);
    if (have->dims != t->dims)
        return wn_fail(err, WN_ERR_DIFFERENT, "tensor '%s' has %" PRIu32 " dimensions, %s %" PRIu32, t->name,
                       have->dims, whose, t->dims);
    for (uint32_t d = 0; d < have->dims; d++)
        if (have->shape[d] != t->shape[d])
            return wn_fail(err, WN_ERR_DIFFERENT,
                           "tensor '%s' has length %" PRIu64 " in dimension %" PRIu32 ", wanted %" PRIu64, t->name,
                           have->shape[d], d, t->shape[d]);
    return true;
}

static bool check_others(const struct verify *v, struct wn_err *err)
{
    size_t n = v->keep.tensor_count;
    const char **names = wn_alloc(n, sizeof(*names), err);
    bool ok = names != NULL;

    for (size_t i = 0; ok && i < n; i++)
        names[i] = v->keep.tensors[i].name;
    ok = ok && wn_verify_no_others(v->out, names, n, err);
    free(names);
    return ok;
}

static bool check_shapes(struct verify *v, struct wn_err *err)
{
    for (size_t i = 0; i < v->keep.tensor_count; i++) {
        const struct wn_keep_tensor *t = &v->keep.tensors[i];

        if (!check_shape(t, wn_source_find(v->out, t->name), err))
            return false;
        v->total += t->bytes;
    }
    return wn_source_tensor_count(v->out) == v->keep.tensor_count || check_others(v, err);
}

static bool compare_tensors(struct verify *v, struct wn_err *err)
{
    if (!tell(v, err))
        return false;
    for (size_t i = 0; i < v->keep.tensor_count; i++) {
        const struct wn_keep_tensor *t = &v->keep.tensors[i];

        v->out_tensor = wn_source_find(v->out, t->name);
        if (t->made == WN_COPIED ? !wn_keep_gather(t, compare_range, v, err)
                                 : !wn_keep_make(&v->keep, t, compare_made, v, err))
            return false;
    }
    wn_scales_end(&v->scales);
    return tell(v, err);
}

/* Bytes at .. at + n - 1 of a file on both sides. */
static bool same_bytes(const struct verify *v, size_t file, uint64_t at, uint64_t n, bool *same, struct wn_err *err)
{
    for (uint64_t end = at + n; *same && at < end;) {
        size_t step = end - at < STEP ? (size_t)(end - at) : STEP;

        if (!wn_file_read(&wn_source_file_at(v->source, file)->file, at, v->want, step, err) ||
            !wn_file_read(&wn_source_file_at(v->out, file)->file, at, v->have, step, err))
            return false;
        *same = memcmp(v->want, v->have, step) == 0;
        at += step;
    }
    return true;
}

/*
 * Tensors are equal already; what is left of the files are headers and padding. With equal headers both sides have the
 * same tensors in the same places.
 */
static bool compare_rest(const struct verify *v, bool *same, struct wn_err *err)
{
    size_t files = wn_source_file_count(v->source);

    *same = *same && v->keep.identity && files == wn_source_file_count(v->out);
    for (size_t i = 0; *same && i < files; i++) {
        const struct wn_source_file *a = wn_source_file_at(v->source, i), *b = wn_source_file_at(v->out, i);

        *same = a->file.bytes == b->file.bytes && a->header_bytes == b->header_bytes &&
                (wn_source_gguf(v->source) || strcmp(wn_path_name(a->file.path), wn_path_name(b->file.path)) == 0);
        if (!same_bytes(v, i, 0, a->header_bytes, same, err))
            return false;
    }
    for (size_t i = 0; *same && i < wn_source_tensor_count(v->source); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(v->source, i);
        const struct wn_tensor *next =
            i + 1 < wn_source_tensor_count(v->source) ? wn_source_tensor_at(v->source, i + 1) : NULL;
        uint64_t at = t->at + t->bytes;
        uint64_t end = next && next->file == t->file ? next->at : wn_source_file_at(v->source, t->file)->file.bytes;

        if (end > at && !same_bytes(v, t->file, at, end - at, same, err))
            return false;
    }
    return true;
}

/* Whether all files of weights are the source's; when not, nothing may hide in them. */
static bool compare_files(const struct verify *v, bool *same, struct wn_err *err)
{
    *same = true;
    return compare_rest(v, same, err) && (*same || wn_verify_nothing_else(v->out, err));
}

static bool compare(struct verify *v, struct wn_keep_how *how, struct wn_verify_result *r, struct wn_err *err)
{
    const struct wn_plan *plan = how->plan;
    bool same = true, same_weights;

    if (v->low && !(wn_source_gguf(v->source) && wn_source_gguf(v->out)))
        return wn_fail(err, WN_ERR_ARG, "two parents and what is made of them are GGUFs");
    if (wn_naming_of_source(v->source) != wn_naming_of_source(v->out))
        return wn_verify_recast(v->source, how, v->out, v->job, r, err);
    how->low = v->low;
    if (!wn_keep_init(&v->keep, v->source, how, err))
        return wn_fail_in(err, v->low ? "the two parents" : "the source");
    if (wn_keep_is_graded(&v->keep) && !v->low)
        return wn_fail(err, WN_ERR_ARG,
                       "the plan gives experts fewer bits, and nothing says where they come from: --lo-model does");
    if (!(v->want = wn_alloc(STEP, 1, err)) || !(v->have = wn_alloc(STEP, 1, err)))
        return false;
    wn_job_note_memory(v->job, 2 * STEP + wn_means_memory(how->means)); /* which no page of is there yet */
    if (wn_source_gguf(v->source) ? !wn_verify_kv(&v->keep, plan, v->out, err)
                                  : !wn_verify_folder(&v->keep, plan, v->out, &same, err))
        return false;
    if (!check_shapes(v, err) || !compare_tensors(v, err) || !compare_files(v, &same_weights, err))
        return false;
    r->tensors = v->keep.tensor_count;
    wn_verify_count(&v->keep, r);
    r->bytes = v->done;
    r->bad_scales = v->scales.all;
    r->identical_files = same && same_weights;
    return true;
}

/* Opens what out is held against, and compares. */
static bool run(struct verify *v, const struct wn_verify_options *o, struct wn_keep_how *how,
                struct wn_verify_result *r, struct wn_err *err)
{
    struct wn_means *means = NULL;
    bool ok = wn_verify_how(o, v->source, v->out, how, err) &&
              (how->ghosts != WN_GHOSTS_MEAN || (means = wn_means_open(o->saliency, err)));

    how->means = means;
    ok = ok && (compare(v, how, r, err) || wn_fail_in(err, "'%s'", o->out));
    wn_keep_release(&v->keep);
    wn_means_close(means);
    return ok;
}

bool wn_verify_all(const struct wn_verify_options *o, const struct wn_job *job, struct wn_verify_result *r,
                   struct wn_err *err)
{
    struct verify v = {.job = job, .scales = {.job = job}};
    struct wn_source *a = NULL, *b = NULL, *low = NULL;
    struct wn_keep_how how;
    bool ok;

    *r = (struct wn_verify_result){0};
    if (!o->source)
        return wn_verify_alone(o->out, job, r, err);
    ok = (a = wn_source_open(o->source, err)) && (!o->lo_source || (low = wn_source_open(o->lo_source, err))) &&
         (b = wn_source_open(o->out, err));
    if (ok) {
        if (low)
            wn_source_fingerprint(low, r->lo_fingerprint);
        wn_source_fingerprint(a, r->source_fingerprint);
        wn_source_fingerprint(b, r->fingerprint);
        ok = wn_seal_check_record(b, r->record_sha256, err) || wn_fail_in(err, "'%s'", o->out);
    }
    v.source = a;
    v.low = low;
    v.out = b;
    ok = ok && run(&v, o, &how, r, err);
    if (b && !ok)
        wn_verify_tell_unfinished(o->out, err);
    free(v.want);
    free(v.have);
    wn_source_close(b);
    wn_source_close(low);
    wn_source_close(a);
    return ok;
}

bool wn_verify(const char *out, const char *source, const struct wn_plan *plan, const struct wn_job *job,
               struct wn_verify_result *r, struct wn_err *err)
{
    return wn_verify_all(&(struct wn_verify_options){.out = out, .source = source, .plan = plan}, job, r, err);
}
