/*
 * The splitting pattern and its matching by pcre2: see split.h.
 *
 * The published pattern is rewritten so that it means the same in every pcre2 from 10.30 on, and so that each repeated
 * thing is one character class, which pcre2 runs over without keeping a way back for every character:
 *
 * - Classes with && are not known to pcre2 before 10.45, and silently taken for plain characters. General categories
 *   are L, M, N, P, S, Z and C and no other, so "L or M, but neither Ll nor Han" is "none of Han, Ll, N, P, S, Z, C".
 * - \p{Han} became "script extensions" in 10.40, which adds CJK punctuation and more; the script is \p{sc:Han} there.
 * - \s takes U+180E for a space under PCRE2_UCP, which it has not been since Unicode 6.3; White_Space is spelled out.
 * - (?i:'s) also matches U+017F, the only other character that folds to a letter of the contractions; spelled out.
 *
 * Which characters are letters depends on the Unicode version of the pcre2 that is installed (10.42: Unicode 14).
 * All characters that had a category then keep it, so only younger ones can split differently.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/alloc.h"
#include "text/split.h"

#include <assert.h>
#include <stdlib.h>

#if PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40
#define HAN "\\p{sc:Han}"
#else
#define HAN "\\p{Han}"
#endif
#define SPACE       "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NO_WORD     HAN "\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}"
#define UPPER       "[^\\p{Ll}" NO_WORD "]"
#define LOWER       "[^\\p{Lu}\\p{Lt}" NO_WORD "]"
#define LEAD        "[^\\r\\n\\p{L}\\p{N}]?"
#define CONTRACTION "(?:'(?:[sS\\x{17f}tTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?"

static const char pattern[] =
    "[" HAN "]+"
    "|" LEAD UPPER "*" LOWER "+" CONTRACTION "|" LEAD UPPER "+" LOWER "*" CONTRACTION "|\\p{N}{1,3}"
    "| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*"
    "|[" SPACE "]*[\\r\\n]+"
    "|[" SPACE "]+(?![^" SPACE "])"
    "|[" SPACE "]+";

struct wn_pattern {
    pcre2_general_context *memory; /* owned */
    pcre2_code *code;              /* owned */
};

/* pcre2's allocations go the way of all others, so that tests can refuse them. */
static void *take(size_t bytes, void *unused)
{
    struct wn_err ignored;

    (void)unused;
    return wn_alloc(bytes, 1, &ignored);
}

static void give_back(void *p, void *unused)
{
    (void)unused;
    free(p);
}

static bool pcre2_fail(struct wn_err *err, int code, const char *doing)
{
    char why[120] = "";

    if (code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAPLIMIT || code == PCRE2_ERROR_JIT_STACKLIMIT)
        return wn_fail(err, WN_ERR_NOMEM, "%s: out of memory", doing);
    (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
    return wn_fail(err, WN_ERR_ARG, "%s: pcre2: %s", doing, why);
}

static bool compile(struct wn_pattern *p, bool jit, struct wn_err *err)
{
    pcre2_compile_context *context;
    PCRE2_SIZE at;
    int code = PCRE2_ERROR_NOMEMORY;

    p->memory = pcre2_general_context_create(take, give_back, NULL);
    context = p->memory ? pcre2_compile_context_create(p->memory) : NULL;
    if (context)
        p->code =
            pcre2_compile((PCRE2_SPTR)pattern, sizeof pattern - 1, PCRE2_UTF | PCRE2_ANCHORED, &code, &at, context);
    pcre2_compile_context_free(context);
    if (!p->code)
        return pcre2_fail(err, code == PCRE2_ERROR_HEAP_FAILED ? PCRE2_ERROR_NOMEMORY : code, "the splitting pattern");
    if (jit)
        (void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* refused on some systems: then it is interpreted */
    return true;
}

struct wn_pattern *wn_pattern_new(bool jit, struct wn_err *err)
{
    struct wn_pattern *p = wn_alloc(1, sizeof *p, err);

    if (p && !compile(p, jit, err)) {
        wn_pattern_free(p);
        return NULL;
    }
    return p;
}

void wn_pattern_free(struct wn_pattern *p)
{
    if (!p)
        return;
    pcre2_code_free(p->code);
    pcre2_general_context_free(p->memory);
    free(p);
}

bool wn_split_init(struct wn_split *s, const struct wn_pattern *p, struct wn_err *err)
{
    *s = (struct wn_split){.pattern = p, .match = pcre2_match_data_create(1, p->memory)};
    return s->match || pcre2_fail(err, PCRE2_ERROR_NOMEMORY, "splitting");
}

void wn_split_release(struct wn_split *s)
{
    pcre2_match_data_free(s->match);
    *s = (struct wn_split){0};
}

size_t wn_split_piece(struct wn_split *s, struct wn_bytes text, struct wn_err *err)
{
    int found = pcre2_match(s->pattern->code, (PCRE2_SPTR)text.at, text.n, 0, PCRE2_NO_UTF_CHECK, s->match, NULL);

    assert(text.n > 0);
    if (found < 0) {
        pcre2_fail(err, found, "splitting");
        return 0;
    }
    return pcre2_get_ovector_pointer(s->match)[1];
}
