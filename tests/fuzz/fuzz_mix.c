/*
 * Any bytes as what a corpus is mixed from: as a SPEC.json, and as a text, whose documents must be all of it, each with
 * exactly the tokens that it has by itself.
 */
#include "base/utf8.h"
#include "jobs/corpus/mix.h"
#include "text/vocab_new.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* The 256 bytes, and what merges across white space, letters and signs. */
static const struct wn_vocab *vocab(void)
{
    static const char *const merged[] = {"  ",   "\n\n", "\r\n", " \n",    "th",    "the",
                                         " the", ".\n",  ").",   "\u3000", "\u4e16"};
    enum { MERGED = sizeof merged / sizeof merged[0] };
    static struct wn_vocab *v;
    static char bytes[256];
    struct wn_bytes tokens[256 + MERGED];
    enum wn_token_kind kinds[256 + MERGED];
    struct wn_err err;

    if (v)
        return v;
    for (int i = 0; i < 256 + MERGED; i++) {
        kinds[i] = WN_TOKEN_NORMAL;
        tokens[i] = i < 256 ? (struct wn_bytes){&bytes[i], 1} : wn_bytes_of(merged[i - 256]);
        if (i < 256)
            bytes[i] = (char)i;
    }
    v = wn_vocab_new(tokens, kinds, 256 + MERGED, &err);
    must(v);
    return v;
}

static void check_document(struct wn_mix_judge *j, struct wn_bytes text, uint32_t tokens, uint32_t most)
{
    enum wn_mix_drop why;
    struct wn_err err;
    uint32_t *ids;
    size_t count;

    if (!wn_vocab_encode(vocab(), text.at, text.n, false, &ids, &count, &err))
        return;
    free(ids);
    must(count == tokens && tokens > 0 && tokens <= most);
    if (wn_mix_judge(j, text, &why, &err))
        must((why == WN_MIX_NOT_UTF8) == !wn_utf8_is_valid(text.at, text.n));
}

static void as_text(const uint8_t *data, size_t n)
{
    struct wn_bytes text = {(const char *)data, n};
    uint32_t most = WN_MIX_DOCUMENT_LEAST + (n ? data[0] : 0), tokens;
    struct wn_mix_judge j = {.lenient = n && data[n - 1] == 'l'};
    struct wn_err err;
    size_t bytes;

    for (; text.n > 0; text.at += bytes, text.n -= bytes) {
        if (!wn_mix_cut(vocab(), text, most, &bytes, &tokens, &err))
            break;
        must(bytes > 0 && bytes <= text.n);
        check_document(&j, (struct wn_bytes){text.at, bytes}, tokens, most);
    }
    wn_buf_release(&j.seen);
}

static void as_spec(const uint8_t *data, size_t n)
{
    struct wn_mix_spec spec = {0};
    struct wn_err err = {0};
    char path[64];

    snprintf(path, sizeof path, "/tmp/winnow-fuzz-%ld.json", (long)getpid());
    if (!wn_file_put(path, data, n, true, &err))
        return;
    if (wn_mix_spec_read(&spec, path, &err))
        for (size_t i = 0; i < spec.count; i++)
            must(spec.sources[i].share > 0 && spec.sources[i].path_count > 0 && spec.sources[i].label[0]);
    else
        must(err.code != WN_OK && err.msg[0] != '\0');
    wn_mix_spec_release(&spec);
    (void)unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    as_text(data, n);
    as_spec(data, n);
    return 0;
}
