/*
 * A vocabulary from hostile files, then a text through it.
 *
 * Input: u32 little-endian, the length of the tiktoken part; that part; the config part, up to the first NUL byte or
 * the end; the rest is the text. Because random bytes hardly ever hold 256 single bytes, a tiktoken part that starts
 * with '+' stands for those 256 lines followed by the rest of it.
 */
#include "text/vocab_new.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The lines of the 256 single bytes, then tail; free it. */
static char *with_single_bytes(struct wn_bytes tail, size_t *n)
{
    char *text = malloc(256 * 9 + tail.n + 1);

    *n = 0;
    for (unsigned b = 0; b < 256; b++)
        *n += (size_t)sprintf(text + *n, "%c%c== %u\n", digits[b >> 2], digits[(b & 3) << 4], b);
    memcpy(text + *n, tail.at, tail.n);
    *n += tail.n;
    return text;
}

static void check_text(const struct wn_vocab *v, struct wn_bytes text, bool special)
{
    struct wn_err err;
    uint32_t *ids;
    size_t count, back_n;
    char *back;

    if (!wn_vocab_encode(v, text.at, text.n, special, &ids, &count, &err))
        abort();
    back = wn_vocab_decode(v, ids, count, &back_n, &err);
    if (!back || back_n != text.n || memcmp(back, text.at, back_n) != 0)
        abort();
    for (size_t i = 0; i < count; i++)
        if (!special && wn_vocab_is_special(v, ids[i]))
            abort();
    free(back);
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wn_bytes all = {(const char *)data, size}, model, config, text;
    char *expanded = NULL;
    const char *end;
    struct wn_vocab *v;
    struct wn_err err;
    size_t n;

    if (size < 4)
        return 0;
    n = data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16 | (size_t)data[3] << 24;
    all.at += 4;
    all.n -= 4;
    model = (struct wn_bytes){all.at, n < all.n ? n : all.n};
    config = (struct wn_bytes){all.at + model.n, all.n - model.n};
    end = config.n ? memchr(config.at, '\0', config.n) : NULL;
    text = end ? (struct wn_bytes){end + 1, (size_t)(config.at + config.n - end - 1)} : (struct wn_bytes){config.at, 0};
    if (end)
        config.n = (size_t)(end - config.at);
    if (model.n > 0 && model.at[0] == '+')
        model.at = expanded = with_single_bytes((struct wn_bytes){model.at + 1, model.n - 1}, &model.n);
    v = wn_vocab_parse(model.at, model.n, config.n ? config.at : NULL, config.n, &err);
    if (v) {
        check_text(v, text, false);
        check_text(v, text, true);
    }
    wn_vocab_free(v);
    free(expanded);
    return 0;
}
