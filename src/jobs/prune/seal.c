/* See seal.h: which bytes are hashed, and when. */
#include "jobs/prune/seal.h"
#include "base/alloc.h"
#include "model/parts.h"
#include <winnow/config.h>

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- parts ---- */

static bool add_part(struct wn_expert_parts *p, const struct wn_tensor *t, uint64_t at, uint64_t bytes, int32_t layer,
                     uint64_t expert, struct wn_err *err)
{
    struct wn_expert_part *more = wn_grow(p->part, &p->room, p->n + 1, sizeof *more, err);

    if (!more)
        return false;
    p->part = more;
    more[p->n++] = (struct wn_expert_part){{t->at + at, bytes}, t->file, (uint32_t)layer, (uint32_t)expert};
    return true;
}

static bool is_stack(const struct wn_part *part, const struct wn_tensor *t)
{
    return part->axis == WN_AXIS_OUTER && !part->router && t->dims > 0 && t->shape[0] > 0;
}

/* first: of its layer's second bank, behind the experts of the first one. */
static bool add_tensor(struct wn_expert_parts *p, const struct wn_tensor *t, const struct wn_part *part,
                       const uint32_t *first_bank, struct wn_err *err)
{
    uint64_t slab, base = part->low ? first_bank[part->layer] : 0;

    if (part->axis == WN_AXIS_NAME)
        return add_part(p, t, 0, t->bytes, part->layer, part->expert, err);
    if (!is_stack(part, t))
        return true;
    slab = t->bytes / t->shape[0];
    for (uint64_t e = 0; e < t->shape[0]; e++)
        if (!add_part(p, t, e * slab, slab, part->layer, base + e, err))
            return false;
    return true;
}

/* One pass for the first banks, one for the parts. */
static bool walk_tensors(struct wn_expert_parts *p, enum wn_container container, size_t n, wn_tensor_fn *at,
                         const void *arg, uint32_t *first_bank, bool add, struct wn_err *err)
{
    struct wn_part part;

    for (size_t i = 0; i < n; i++) {
        struct wn_tensor t = at(arg, i);

        wn_part_of(container, t.name, &part);
        if (part.axis == WN_AXIS_NONE || part.layer < 0 || part.layer >= WN_LAYERS_MAX)
            continue;
        if (!add && is_stack(&part, &t) && !part.low)
            first_bank[part.layer] = (uint32_t)t.shape[0];
        if (add && !add_tensor(p, &t, &part, first_bank, err))
            return false;
    }
    return true;
}

bool wn_expert_parts_find(struct wn_expert_parts *p, enum wn_container container, size_t n, wn_tensor_fn *at,
                          const void *arg, struct wn_err *err)
{
    uint32_t *first_bank = wn_alloc(WN_LAYERS_MAX, sizeof *first_bank, err);
    bool ok;

    *p = (struct wn_expert_parts){0};
    ok = first_bank && walk_tensors(p, container, n, at, arg, first_bank, false, err) &&
         walk_tensors(p, container, n, at, arg, first_bank, true, err);
    free(first_bank);
    if (!ok)
        wn_expert_parts_release(p);
    return ok;
}

void wn_expert_parts_of(const struct wn_expert_parts *p, uint32_t file, size_t *first, size_t *end)
{
    *first = 0;
    while (*first < p->n && p->part[*first].file < file)
        ++*first;
    *end = *first;
    while (*end < p->n && p->part[*end].file == file)
        ++*end;
}

void wn_expert_parts_release(struct wn_expert_parts *p)
{
    free(p->part);
    *p = (struct wn_expert_parts){0};
}

/* ---- experts ---- */

struct place {
    const struct wn_expert_part *part;
    size_t at;
};

static int by_expert(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->part->layer != y->part->layer)
        return x->part->layer < y->part->layer ? -1 : 1;
    if (x->part->expert != y->part->expert)
        return x->part->expert < y->part->expert ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* The expert at place[0], which has the first *n of them. */
static bool digest_expert(const struct place *place, size_t left, const uint8_t *digest, size_t *n,
                          struct wn_expert_digest *out, struct wn_err *err)
{
    struct wn_checksum c = {0};
    bool ok = wn_checksum_begin(&c, err);

    *out = (struct wn_expert_digest){.layer = place->part->layer, .expert = place->part->expert};
    for (*n = 0; *n < left && place[*n].part->layer == out->layer && place[*n].part->expert == out->expert; ++*n)
        if (ok)
            wn_checksum_add(&c, digest + place[*n].at * WN_CHECKSUM_BYTES, WN_CHECKSUM_BYTES);
    if (ok)
        wn_checksum_end(&c, out->digest);
    wn_checksum_release(&c);
    return ok;
}

struct wn_expert_digest *wn_expert_digests(const struct wn_expert_parts *p, const uint8_t *digest, size_t *n,
                                           struct wn_err *err)
{
    struct place *place = wn_alloc(p->n, sizeof *place, err);
    struct wn_expert_digest *out = place ? wn_alloc(p->n, sizeof *out, err) : NULL;
    bool ok = out != NULL;

    *n = 0;
    for (size_t i = 0; ok && i < p->n; i++)
        place[i] = (struct place){&p->part[i], i};
    if (ok && p->n > 1)
        qsort(place, p->n, sizeof *place, by_expert);
    for (size_t i = 0, parts; ok && i < p->n; i += parts)
        ok = digest_expert(place + i, p->n - i, digest, &parts, &out[(*n)++], err);
    free(place);
    if (ok)
        return out;
    free(out);
    return NULL;
}

/* ---- of an output that is being written ---- */

/* wn_tensor_fn */
static struct wn_tensor sink_tensor(const void *arg, size_t i)
{
    return wn_sink_tensor(arg, i);
}

bool wn_seal_init(struct wn_seal *r, const struct wn_sink *sink, enum wn_container container, struct wn_err *err)
{
    *r = (struct wn_seal){.on = true, .files = wn_sink_file_count(sink)};
    if (wn_expert_parts_find(&r->parts, container, wn_sink_tensor_count(sink), sink_tensor, sink, err) &&
        (r->part_digest = wn_alloc(r->parts.n, WN_CHECKSUM_BYTES, err)) &&
        (r->file_digest = wn_alloc(r->files, WN_DIGEST_BYTES, err)))
        return true;
    wn_seal_release(r);
    return false;
}

uint64_t wn_seal_memory(const struct wn_seal *r)
{
    size_t most = 0;

    for (uint32_t f = 0; r->on && f < r->files; f++) {
        size_t first, end;

        wn_expert_parts_of(&r->parts, f, &first, &end);
        most = end - first > most ? end - first : most;
    }
    return r->on ? WN_HASHING_BYTES + most * sizeof(struct wn_hash_part) : 0;
}

static void stop(struct wn_seal *r)
{
    wn_hashing_stop(r->hashing);
    free(r->some);
    r->hashing = NULL;
    r->some = NULL;
}

static bool start(struct wn_seal *r, const struct wn_sink *sink, uint32_t file, const char *part, struct wn_err *err)
{
    struct wn_hash_wanted w = {.bytes = wn_sink_file_bytes(sink, file)};
    size_t first, end;

    stop(r);
    r->file = file;
    wn_expert_parts_of(&r->parts, file, &first, &end);
    r->some = wn_alloc(end - first, sizeof *r->some, err);
    if (!r->some)
        return false;
    for (size_t i = first; i < end; i++)
        r->some[i - first] = r->parts.part[i].where;
    w.sha256 = r->file_digest + (size_t)file * WN_DIGEST_BYTES;
    w.part = r->some;
    w.n = end - first;
    w.sum = r->part_digest + first * WN_CHECKSUM_BYTES;
    r->hashing = wn_hashing_start(part, &w, err);
    return r->hashing != NULL;
}

/* The file that is being written is followed from its first bytes on. */
static bool start_new(struct wn_seal *r, const struct wn_sink *sink, uint32_t file, const char *part,
                      struct wn_err *err)
{
    return (r->hashing && r->file == file) || start(r, sink, file, part, err);
}

bool wn_seal_follow(struct wn_seal *r, const struct wn_sink *sink, struct wn_err *err)
{
    const char *part;
    uint64_t bytes;
    uint32_t file;

    if (!r->on)
        return true;
    file = wn_sink_current(sink, &part, &bytes);
    if (bytes == wn_sink_file_bytes(sink, file))
        return true; /* complete, and told so already */
    if (!start_new(r, sink, file, part, err))
        return false;
    wn_hashing_feed(r->hashing, bytes);
    return true;
}

bool wn_seal_complete(struct wn_seal *r, const struct wn_sink *sink, uint32_t file, const char *part,
                      struct wn_err *err)
{
    struct wn_hashing *h;

    if (!r->on)
        return true;
    if (!start_new(r, sink, file, part, err))
        return false;
    h = r->hashing;
    r->hashing = NULL;
    return wn_hashing_end(h, err);
}

void wn_seal_release(struct wn_seal *r)
{
    stop(r);
    wn_expert_parts_release(&r->parts);
    free(r->part_digest);
    free(r->file_digest);
    *r = (struct wn_seal){0};
}
