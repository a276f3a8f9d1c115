/*
 * What is not fit to calibrate with: text that was damaged before it came here, and text that says one thing over and
 * over. A document is refused as a whole; it is no longer than a sequence.
 */
#include "base/bits.h"
#include "base/utf8.h"
#include "jobs/corpus/mix.h"
#include "text/split.h"

/*
 * Repeats are counted as a compressor finds them: places whose next SHINGLE bytes stood in the document before. Of the
 * bundled corpora no document of 2048 tokens has more than 0.53 of them; a rule of dashes has 0.99.
 */
#define SHINGLE       16
#define REPEATS_LEAST 256 /* bytes; less is no repeating */
#define REPEATS_MOST  0.85

struct counts {
    size_t wide;    /* characters beyond ASCII */
    size_t doubled; /* of these, in sequences that are UTF-8 read as Latin-1 */
    size_t longest; /* characters of the longest of these sequences */
    bool replaced, control, visible;
};

/* The byte that Windows-1252 has for a character, which is how most programs read "Latin-1"; 0: none above 0x7f. */
static uint8_t byte_of(uint32_t code)
{
    static const uint16_t above[32] = {0x20ac, 0,      0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021,
                                       0x2c6,  0x2030, 0x160,  0x2039, 0x152,  0,      0x17d,  0,
                                       0,      0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
                                       0x2dc,  0x2122, 0x161,  0x203a, 0x153,  0,      0x17e,  0x178};

    if (code >= 0x80 && code <= 0xff)
        return (uint8_t)code;
    for (unsigned i = 0; code > 0xff && i < 32; i++)
        if (above[i] == code)
            return (uint8_t)(0x80 + i);
    return 0;
}

/* How many characters at `at` are the bytes of one, each read as a character of its own: 2 to 4, or 0. */
static size_t doubled_at(struct wn_bytes text, size_t at)
{
    char bytes[4];
    uint32_t code;
    size_t n = 0, step;

    for (; n < sizeof bytes && at < text.n; at += step, n++) {
        step = wn_utf8_decode(text.at + at, text.n - at, &code);
        bytes[n] = step ? (char)byte_of(code) : 0;
        if (bytes[n] == 0)
            break;
    }
    n = n ? wn_utf8_decode(bytes, n, &code) : 0;
    return n > 1 ? n : 0;
}

/* False when it is not UTF-8. */
static bool count_characters(struct wn_bytes text, struct counts *c)
{
    size_t step, inside = 0; /* characters still to come of a sequence */
    uint32_t code;

    for (size_t at = 0; at < text.n; at += step) {
        step = wn_utf8_decode(text.at + at, text.n - at, &code);
        if (step == 0)
            return false;
        c->replaced |= code == 0xfffd;
        c->control |= code < 0x20 ? !(code >= '\t' && code <= '\r') : code >= 0x7f && code < 0xa0;
        c->visible |= !wn_is_space(code);
        if (code < 0x80)
            continue;
        c->wide++;
        if (inside == 0) {
            inside = doubled_at(text, at);
            c->longest = inside > c->longest ? inside : c->longest;
            c->doubled += inside;
        }
        inside -= inside > 0;
    }
    return true;
}

/*
 * Two-byte sequences also come about honestly (a capital with an accent before a closing quotation mark), so one of
 * them is no proof; and in what was encoded twice, nearly everything beyond ASCII was.
 */
static bool is_doubled(const struct counts *c)
{
    return c->doubled * 2 >= c->wide && (c->longest > 2 || c->doubled >= 6);
}

/* U+FFFD that was written as UTF-8 and read as GBK. */
static bool has_gbk_replacement(struct wn_bytes text)
{
    static const char mark[] = "\u951f\u65a4\u62f7";
    const char *p = text.at, *end = text.at + text.n;

    while ((p = memchr(p, mark[0], (size_t)(end - p))) && (size_t)(end - p) >= sizeof mark - 1) {
        if (memcmp(p, mark, sizeof mark - 1) == 0)
            return true;
        p++;
    }
    return false;
}

static bool repeats(struct wn_mix_judge *j, struct wn_bytes text, bool *yes, struct wn_err *err)
{
    size_t slots = 1, places = text.n - SHINGLE + 1, again = 0;
    uint32_t *seen;

    *yes = false;
    if (text.n < REPEATS_LEAST)
        return true;
    while (slots < 2 * text.n)
        slots *= 2;
    j->seen.n = 0;
    if (!wn_buf_reserve(&j->seen, slots * sizeof *seen, err))
        return false;
    seen = (uint32_t *)(void *)j->seen.at;
    memset(seen, 0, slots * sizeof *seen);
    for (size_t i = 0; i < places; i++) {
        uint64_t h = wn_load64(text.at + i) * 0x9e3779b97f4a7c15u ^ wn_load64(text.at + i + 8) * 0xbf58476d1ce4e5b9u;
        uint32_t tag;

        h = (h ^ h >> 29) * 0x94d049bb133111ebu;
        tag = (uint32_t)(h >> 32) | 1;
        again += seen[h & (slots - 1)] == tag;
        seen[h & (slots - 1)] = tag;
    }
    *yes = (double)again > REPEATS_MOST * (double)places;
    return true;
}

bool wn_mix_judge(struct wn_mix_judge *j, struct wn_bytes text, enum wn_mix_drop *why, struct wn_err *err)
{
    struct counts c = {0};
    bool again = false;

    *why = WN_MIX_NOT_UTF8;
    if (!count_characters(text, &c))
        return true;
    if (c.visible && !j->lenient && !repeats(j, text, &again, err))
        return false;
    if (!c.visible)
        *why = WN_MIX_BLANK;
    else if (j->lenient)
        *why = WN_MIX_DROPS;
    else if (c.replaced || has_gbk_replacement(text))
        *why = WN_MIX_REPLACED;
    else if (is_doubled(&c))
        *why = WN_MIX_DOUBLE_ENCODED;
    else if (c.control)
        *why = WN_MIX_CONTROL;
    else
        *why = again ? WN_MIX_REPEATS : WN_MIX_DROPS;
    return true;
}

const char *wn_mix_drop_name(enum wn_mix_drop why)
{
    static const char *const names[WN_MIX_DROPS] = {
        [WN_MIX_BLANK] = "blank",
        [WN_MIX_NOT_UTF8] = "not UTF-8",
        [WN_MIX_REPLACED] = "lost characters (U+FFFD)",
        [WN_MIX_CONTROL] = "control characters",
        [WN_MIX_DOUBLE_ENCODED] = "UTF-8 encoded twice",
        [WN_MIX_REPEATS] = "repeats itself",
    };

    return names[why];
}
