/*
 * Choosing the next token. The order of the steps, which is the usual one:
 *
 *   1. logits that are not finite are out; p = exp((logit - largest) / temperature)
 *   2. top-k: the k largest p stay (the lower id first among equals)
 *   3. top-p: of those, by falling p, the fewest whose sum reaches top_p of their total
 *   4. min-p: of those, the ones with p >= min_p times the largest
 *   5. one is drawn by its share of what is left
 *
 * exp is the library's own, sums run in doubles in a fixed order and the random numbers are our own: the same seed and
 * logits give the same token on every machine.
 */
#include "base/alloc.h"
#include "base/rng.h"
#include "kernels/kernels.h"
#include <winnow/session.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

struct candidate {
    float p;
    uint32_t id;
};

struct wn_sampler {
    struct wn_sampling o;
    struct wn_rng rng;
    struct candidate *list; /* owned: [vocab_size] */
    uint32_t vocab_size;
};

static bool check_options(const struct wn_sampling *o, struct wn_err *err)
{
    if (!(o->temperature >= 0) || isinf(o->temperature))
        return wn_fail(err, WN_ERR_ARG, "temperature %g is not 0 or more", (double)o->temperature);
    if (!(o->top_p > 0 && o->top_p <= 1) && o->temperature > 0)
        return wn_fail(err, WN_ERR_ARG, "top-p %g is not above 0 and at most 1", (double)o->top_p);
    if (!(o->min_p >= 0 && o->min_p <= 1) && o->temperature > 0)
        return wn_fail(err, WN_ERR_ARG, "min-p %g is not between 0 and 1", (double)o->min_p);
    return true;
}

struct wn_sampler *wn_sampler_new(const struct wn_sampling *o, uint32_t vocab_size, struct wn_err *err)
{
    struct wn_sampler *s;

    if (!check_options(o, err))
        return NULL;
    s = wn_alloc(1, sizeof *s, err);
    if (!s)
        return NULL;
    *s = (struct wn_sampler){.o = *o, .rng = {o->seed}, .vocab_size = vocab_size};
    s->list = wn_alloc(vocab_size, sizeof *s->list, err);
    if (!s->list) {
        free(s);
        return NULL;
    }
    return s;
}

void wn_sampler_free(struct wn_sampler *s)
{
    if (!s)
        return;
    free(s->list);
    free(s);
}

/* Index of the largest finite logit, the lowest on ties; false when there is none. */
static bool largest(const float *logits, uint32_t n, uint32_t *best)
{
    bool found = false;

    for (uint32_t i = 0; i < n; i++) {
        if (!isfinite(logits[i]) || (found && !(logits[i] > logits[*best])))
            continue;
        *best = i;
        found = true;
    }
    return found;
}

/* True when a stands before b by falling p, then by rising id. */
static bool before(const struct candidate *a, const struct candidate *b)
{
    return a->p > b->p || (a->p == b->p && a->id < b->id);
}

static void sift_down(struct candidate *heap, size_t n, size_t i)
{
    for (;;) {
        size_t child = 2 * i + 1;
        struct candidate moved;

        if (child >= n)
            return;
        if (child + 1 < n && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &heap[i]))
            return;
        moved = heap[i];
        heap[i] = heap[child];
        heap[child] = moved;
        i = child;
    }
}

/* The best of a heap of n goes to its end, the other n - 1 stay a heap. */
static void pop_to_end(struct candidate *heap, size_t n)
{
    struct candidate best = heap[0];

    heap[0] = heap[n - 1];
    heap[n - 1] = best;
    sift_down(heap, n - 1, 0);
}

static double mass(const struct candidate *list, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)list[i].p;
    return sum;
}

static size_t list_finite(struct wn_sampler *s, const float *logits, float most)
{
    size_t n = 0;

    for (uint32_t i = 0; i < s->vocab_size; i++)
        if (isfinite(logits[i]))
            s->list[n++] = (struct candidate){wn_expf((logits[i] - most) / s->o.temperature), i};
    return n;
}

/*
 * Top-k and top-p: returns how many of the n candidates stay; they stand at the list's end, the best one last. Only as
 * many as stay are ever put in order.
 */
static size_t keep_top(struct wn_sampler *s, size_t n)
{
    size_t most = s->o.top_k && s->o.top_k < n ? s->o.top_k : n, kept = 0;
    double total = most == n ? mass(s->list, n) : 0, sum = 0;

    for (size_t i = n / 2; i-- > 0;)
        sift_down(s->list, n, i);
    /* with a top-k, top-p's total is that of the k: put them in order first */
    for (; most < n && kept < most; kept++)
        pop_to_end(s->list, n - kept);
    if (most < n)
        total = mass(s->list + n - kept, kept);
    for (size_t i = 0; i < most; i++) {
        if (i >= kept)
            pop_to_end(s->list, n - kept++);
        sum += (double)s->list[n - 1 - i].p;
        if (s->o.top_p < 1 && sum >= (double)s->o.top_p * total)
            return i + 1;
    }
    return most;
}

/*
 * The most probable candidate has p = exp(0) = 1, so min_p is itself the bound. What cannot be drawn goes in any case.
 */
static size_t keep_min_p(struct candidate *list, size_t n, float min_p)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++)
        if (list[i].p >= min_p && list[i].p > 0)
            list[kept++] = list[i];
    return kept;
}

static uint32_t draw(struct wn_rng *rng, const struct candidate *list, size_t n)
{
    double at = wn_rng_unit(rng) * mass(list, n);

    for (size_t i = 0; i + 1 < n; i++) {
        at -= (double)list[i].p;
        if (at < 0)
            return list[i].id;
    }
    return list[n - 1].id;
}

bool wn_sampler_next(struct wn_sampler *s, const float *logits, uint32_t *id, struct wn_err *err)
{
    struct candidate *list = s->list;
    size_t n, kept;

    if (!largest(logits, s->vocab_size, id))
        return wn_fail(err, WN_ERR_FORMAT, "none of the %" PRIu32 " logits is finite", s->vocab_size);
    if (s->o.temperature == 0)
        return true;
    n = list_finite(s, logits, logits[*id]);
    if (s->o.top_k || s->o.top_p < 1) {
        kept = keep_top(s, n);
        list += n - kept;
        n = kept;
    }
    n = keep_min_p(list, n, s->o.min_p);
    *id = draw(&s->rng, list, n);
    return true;
}
