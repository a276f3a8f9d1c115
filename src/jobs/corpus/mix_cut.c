/*
 * Where a text is cut into documents.
 *
 * Lines are counted each for itself and added up. That is the count of the whole, because the tokenizer's pattern
 * always has a border there: a line ends here behind the last newline of a run of white space, and every alternative
 * that takes a newline ends with one (`\s*[\r\n]+`, `[^\s\p{L}\p{N}]+[\r\n]*`).
 */
#include "base/checked.h"
#include "base/utf8.h"
#include "jobs/corpus/mix.h"
#include "text/split.h"

#include <assert.h>
#include <stdlib.h>

struct line {
    size_t end;
    bool paragraph; /* an empty line follows, or several */
};

/* The line that begins at `at`, with the empty ones behind it. */
static struct line line_at(struct wn_bytes text, size_t at)
{
    const char *newline = memchr(text.at + at, '\n', text.n - at);
    struct line l = {newline ? (size_t)(newline - text.at) + 1 : text.n, false};
    size_t step;
    uint32_t code;

    for (size_t p = l.end; p < text.n; p += step) {
        step = wn_utf8_decode(text.at + p, text.n - p, &code);
        if (step == 0 || !wn_is_space(code))
            break;
        if (code == '\n' || code == '\r') {
            l.paragraph |= code == '\n';
            l.end = p + step;
        }
    }
    return l;
}

static bool count_tokens(const struct wn_vocab *v, struct wn_bytes text, size_t *n, struct wn_err *err)
{
    uint32_t *ids;

    if (!wn_vocab_encode(v, text.at, text.n, false, &ids, n, err))
        return false;
    free(ids);
    return true;
}

static bool ends_sentence(struct wn_bytes text, size_t at)
{
    static const char *const stops[] = {"\u3002", "\uff01", "\uff1f"};

    if (at < text.n && text.at[at] == ' ')
        return strchr(".!?", text.at[at - 1]) && text.at[at - 1];
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++)
        if (at >= 3 && memcmp(text.at + at - 3, stops[i], 3) == 0)
            return true;
    return false;
}

/*
 * The end of a sentence, of a word or of a character that lies nearest before `at`, the first two in its second half. A
 * space goes to the word behind it, as the tokenizer has it.
 */
static size_t border_before(struct wn_bytes text, size_t at)
{
    size_t word = 0;

    for (size_t p = at; p > at / 2; p--) {
        if (ends_sentence(text, p))
            return p;
        if (word == 0 && p < text.n && text.at[p] == ' ')
            word = p;
    }
    if (word)
        return word;
    at -= wn_utf8_tail(text.at, at);
    return at ? at : 1;
}

/* The first part of a line that has more than `most` tokens. */
static bool cut_line(const struct wn_vocab *v, struct wn_bytes line, uint32_t most, size_t *bytes, size_t *tokens,
                     struct wn_err *err)
{
    uint32_t *ids;
    size_t n, allowed = most, end, length;

    if (!wn_vocab_encode(v, line.at, line.n, false, &ids, &n, err))
        return false;
    do {
        end = 0;
        for (size_t i = 0; i < wn_min_size(allowed, n); i++) {
            (void)wn_vocab_token(v, ids[i], &length);
            end += length;
        }
        *bytes = end < line.n ? border_before(line, end) : line.n;
        if (!count_tokens(v, (struct wn_bytes){line.at, *bytes}, tokens, err)) {
            free(ids);
            return false;
        }
        /* the last word may be merged otherwise when it is cut; a character has 4 tokens at most, so there is an end */
        allowed = allowed > 1 ? allowed - 1 : 1;
    } while (*tokens > most);
    free(ids);
    return true;
}

bool wn_mix_cut(const struct wn_vocab *v, struct wn_bytes text, uint32_t most, size_t *bytes, uint32_t *tokens,
                struct wn_err *err)
{
    size_t end = 0, sum = 0, paragraph = 0, paragraph_sum = 0, n;
    struct line l = {0};

    assert(text.n > 0);
    if (text.n > WN_MIX_DOCUMENT_BYTES)
        text.n = WN_MIX_DOCUMENT_BYTES - wn_utf8_tail(text.at, WN_MIX_DOCUMENT_BYTES);
    for (; end < text.n; end = l.end, sum += n) {
        l = line_at(text, end);
        if (!count_tokens(v, (struct wn_bytes){text.at + end, l.end - end}, &n, err))
            return false;
        if (sum + n > most)
            break;
        if (l.paragraph) {
            paragraph = l.end;
            paragraph_sum = sum + n;
        }
    }
    if (end == 0 && !cut_line(v, (struct wn_bytes){text.at, l.end}, most, &end, &sum, err))
        return false;
    if (end < text.n && paragraph_sum >= most / 2 && paragraph > 0) {
        end = paragraph;
        sum = paragraph_sum;
    }
    *bytes = end;
    *tokens = (uint32_t)sum;
    return true;
}
