/* See specials.h. */
#include "text/specials.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <inttypes.h>
#include <stdlib.h>

bool wn_specials_init(struct wn_specials *s, size_t n, struct wn_err *err)
{
    *s = (struct wn_specials){.at = wn_alloc(n, sizeof *s->at, err)};
    return s->at != NULL;
}

void wn_specials_release(struct wn_specials *s)
{
    free(s->at);
    *s = (struct wn_specials){0};
}

void wn_specials_add(struct wn_specials *s, struct wn_bytes name, uint32_t id)
{
    s->at[s->n++] = (struct wn_special){name, id};
    s->starts[(unsigned char)name.at[0]] = true;
}

static int compare_bytes(struct wn_bytes a, struct wn_bytes b)
{
    int order = memcmp(a.at, b.at, wn_min_size(a.n, b.n));

    return order ? order : (a.n > b.n) - (a.n < b.n);
}

static int by_name(const void *a, const void *b)
{
    return compare_bytes(((const struct wn_special *)a)->name, ((const struct wn_special *)b)->name);
}

bool wn_specials_sort(struct wn_specials *s, struct wn_err *err)
{
    qsort(s->at, s->n, sizeof *s->at, by_name);
    for (size_t i = 1; i < s->n; i++) {
        const struct wn_special *a = &s->at[i - 1], *b = &s->at[i];

        if (wn_bytes_equal(a->name, b->name))
            return wn_fail(err, WN_ERR_FORMAT, "ids %" PRIu32 " and %" PRIu32 " are both named '%.*s'",
                           a->id < b->id ? a->id : b->id, a->id < b->id ? b->id : a->id,
                           (int)wn_min_size(a->name.n, 100), a->name.at);
    }
    return true;
}

const struct wn_special *wn_specials_find(const struct wn_specials *s, struct wn_bytes name)
{
    struct wn_special key = {.name = name};

    return bsearch(&key, s->at, s->n, sizeof *s->at, by_name);
}

/* Index of the first name in [lo, hi), which all agree in `depth` bytes, whose next byte is at least `byte`. */
static size_t first_with(const struct wn_specials *s, size_t lo, size_t hi, size_t depth, unsigned byte)
{
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        struct wn_bytes name = s->at[mid].name;

        if (name.n <= depth || (unsigned char)name.at[depth] < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The longest name that text starts with, or NULL: the range of names that agree narrows byte by byte. */
static const struct wn_special *match_here(const struct wn_specials *s, struct wn_bytes text)
{
    const struct wn_special *best = NULL;
    size_t lo = 0, hi = s->n;

    for (size_t depth = 0; depth < text.n; depth++) {
        unsigned byte = (unsigned char)text.at[depth];

        lo = first_with(s, lo, hi, depth, byte);
        hi = first_with(s, lo, hi, depth, byte + 1);
        if (lo == hi)
            break;
        if (s->at[lo].name.n == depth + 1)
            best = &s->at[lo];
    }
    return best;
}

const struct wn_special *wn_specials_search(const struct wn_specials *s, struct wn_bytes text, size_t *at)
{
    for (*at = 0; *at < text.n; ++*at) {
        const struct wn_special *found;

        if (!s->starts[(unsigned char)text.at[*at]])
            continue;
        found = match_here(s, (struct wn_bytes){text.at + *at, text.n - *at});
        if (found)
            return found;
    }
    return NULL;
}
