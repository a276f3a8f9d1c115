/* See encode.h. */
#include "jobs/encode.h"
#include "text/split.h"

#include <stdlib.h>

static bool encode_window(const struct wn_vocab *v, struct wn_bytes window, wn_take_ids_fn *take, void *arg,
                          struct wn_err *err)
{
    uint32_t *ids;
    size_t n;
    bool ok;

    if (!wn_vocab_encode(v, window.at, window.n, false, &ids, &n, err))
        return false;
    ok = take(arg, ids, n, window.n, err);
    free(ids);
    return ok;
}

bool wn_encode_text(const struct wn_vocab *v, struct wn_bytes text, wn_take_ids_fn *take, void *arg, struct wn_err *err)
{
    while (text.n > 0) {
        size_t n = wn_cuts_window(text);

        if (!encode_window(v, (struct wn_bytes){text.at, n}, take, arg, err))
            return false;
        text.at += n;
        text.n -= n;
    }
    return true;
}

bool wn_encode_rest(const struct wn_vocab *v, struct wn_lines *l, wn_take_ids_fn *take, void *arg, struct wn_err *err)
{
    struct wn_bytes next;

    for (;;) {
        size_t n;

        /* as much as a window can have, so that none ends where only the reading did */
        if (!wn_lines_want(l, WN_WINDOW_BYTES, &next, err))
            return false;
        if (next.n == 0)
            return true;
        n = wn_cuts_window(next);
        if (!encode_window(v, (struct wn_bytes){next.at, n}, take, arg, err))
            return false;
        wn_lines_pass(l, n);
    }
}
