/*
 * The search is one pattern, a group for each script: of (latin)|(han)|... the number of the group that matched is the
 * script. See scripts.h.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/alloc.h"
#include "text/scripts.h"

#include <stdlib.h>

/* In 10.40 the plain name became the script extensions, which share punctuation among scripts. */
#if PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40
#define SC(name) "\\p{sc:" name "}"
#else
#define SC(name) "\\p{" name "}"
#endif

static const struct {
    const char *name, *characters; /* inside of a class */
} scripts[WN_SCRIPT_COUNT] = {
    [WN_SCRIPT_NONE] = {"none", NULL},
    [WN_SCRIPT_LATIN] = {"Latin", SC("Latin")},
    [WN_SCRIPT_HAN] = {"Han", SC("Han")},
    [WN_SCRIPT_KANA] = {"kana", SC("Hiragana") SC("Katakana") "\\x{30fc}\\x{ff70}"},
    [WN_SCRIPT_HANGUL] = {"Hangul", SC("Hangul")},
    [WN_SCRIPT_CYRILLIC] = {"Cyrillic", SC("Cyrillic")},
    [WN_SCRIPT_ARABIC] = {"Arabic", SC("Arabic")},
    [WN_SCRIPT_DEVANAGARI] = {"Devanagari", SC("Devanagari")},
    [WN_SCRIPT_THAI] = {"Thai", SC("Thai")},
    [WN_SCRIPT_GREEK] = {"Greek", SC("Greek")},
    [WN_SCRIPT_HEBREW] = {"Hebrew", SC("Hebrew")},
    [WN_SCRIPT_BENGALI] = {"Bengali", SC("Bengali")},
    [WN_SCRIPT_TAMIL] = {"Tamil", SC("Tamil")},
    [WN_SCRIPT_TELUGU] = {"Telugu", SC("Telugu")},
    [WN_SCRIPT_GUJARATI] = {"Gujarati", SC("Gujarati")},
    [WN_SCRIPT_GURMUKHI] = {"Gurmukhi", SC("Gurmukhi")},
    [WN_SCRIPT_KANNADA] = {"Kannada", SC("Kannada")},
    [WN_SCRIPT_MALAYALAM] = {"Malayalam", SC("Malayalam")},
    [WN_SCRIPT_SINHALA] = {"Sinhala", SC("Sinhala")},
    [WN_SCRIPT_KHMER] = {"Khmer", SC("Khmer")},
    [WN_SCRIPT_LAO] = {"Lao", SC("Lao")},
    [WN_SCRIPT_MYANMAR] = {"Myanmar", SC("Myanmar")},
    [WN_SCRIPT_GEORGIAN] = {"Georgian", SC("Georgian")},
    [WN_SCRIPT_ARMENIAN] = {"Armenian", SC("Armenian")},
    [WN_SCRIPT_ETHIOPIC] = {"Ethiopic", SC("Ethiopic")},
    [WN_SCRIPT_TIBETAN] = {"Tibetan", SC("Tibetan")},
    [WN_SCRIPT_MONGOLIAN] = {"Mongolian", SC("Mongolian")},
    /* last, when all others have been tried: any letter that is not common property */
    [WN_SCRIPT_OTHER] = {"other", "^\\P{L}" SC("Common") SC("Inherited")},
};

struct wn_scripts {
    pcre2_code *code;        /* owned */
    pcre2_match_data *match; /* owned */
};

const char *wn_script_name(enum wn_script script)
{
    return scripts[script].name;
}

static bool make_pattern(struct wn_buf *b, struct wn_err *err)
{
    for (int s = WN_SCRIPT_NONE + 1; s < WN_SCRIPT_COUNT; s++)
        if (!wn_buf_printf(b, err, "%s([%s]%s)", s > 1 ? "|" : "", scripts[s].characters,
                           s < WN_SCRIPT_OTHER ? "+" : ""))
            return false;
    return true;
}

static bool compile(struct wn_scripts *s, struct wn_err *err)
{
    struct wn_buf pattern = {0};
    PCRE2_SIZE at;
    int code;

    if (!make_pattern(&pattern, err)) {
        wn_buf_release(&pattern);
        return false;
    }
    s->code = pcre2_compile((PCRE2_SPTR)pattern.at, pattern.n, PCRE2_UTF, &code, &at, NULL);
    wn_buf_release(&pattern);
    if (!s->code)
        return wn_fail(err, WN_ERR_ARG, "the search for scripts: pcre2 refuses it (%d, at %zu)", code, (size_t)at);
    (void)pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE); /* refused on some systems: then it is interpreted */
    s->match = pcre2_match_data_create(WN_SCRIPT_COUNT, NULL);
    return s->match || wn_fail(err, WN_ERR_NOMEM, "the search for scripts: out of memory");
}

struct wn_scripts *wn_scripts_new(struct wn_err *err)
{
    struct wn_scripts *s = wn_alloc(1, sizeof *s, err);

    if (s && !compile(s, err)) {
        wn_scripts_free(s);
        return NULL;
    }
    return s;
}

void wn_scripts_free(struct wn_scripts *s)
{
    if (!s)
        return;
    pcre2_match_data_free(s->match);
    pcre2_code_free(s->code);
    free(s);
}

bool wn_scripts_mark(struct wn_scripts *s, struct wn_bytes text, uint8_t *script_of, struct wn_err *err)
{
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(s->match);
    size_t at = 0;

    if (text.n)
        memset(script_of, WN_SCRIPT_NONE, text.n);
    while (at < text.n) {
        int found = pcre2_match(s->code, (PCRE2_SPTR)text.at, text.n, at, PCRE2_NO_UTF_CHECK, s->match, NULL);

        if (found == PCRE2_ERROR_NOMATCH)
            return true;
        if (found < 2)
            return wn_fail(err, WN_ERR_NOMEM, "the search for scripts: pcre2 gives up (%d)", found);
        /* the groups before the one that matched are unset, and none behind it is counted */
        memset(script_of + span[0], found - 1, span[1] - span[0]);
        at = span[1];
    }
    return true;
}
