/*
 * What is nearly absent is pruned away without anybody noticing: the experts that only it uses look unused. So it is
 * said.
 */
#include "base/alloc.h"
#include "jobs/corpus/mix.h"
#include "text/scripts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NEARLY_ABSENT 0.01 /* of the tokens */

/* Languages whose names are labels, and the scripts without which a text is hardly in them. */
static const struct {
    const char *label; /* ISO 639-1 */
    enum wn_script script;
} languages[] = {
    {"en", WN_SCRIPT_LATIN},      {"de", WN_SCRIPT_LATIN},      {"fr", WN_SCRIPT_LATIN},
    {"es", WN_SCRIPT_LATIN},      {"it", WN_SCRIPT_LATIN},      {"pt", WN_SCRIPT_LATIN},
    {"nl", WN_SCRIPT_LATIN},      {"pl", WN_SCRIPT_LATIN},      {"tr", WN_SCRIPT_LATIN},
    {"vi", WN_SCRIPT_LATIN},      {"id", WN_SCRIPT_LATIN},      {"zh", WN_SCRIPT_HAN},
    {"ja", WN_SCRIPT_KANA},       {"ja", WN_SCRIPT_HAN},        {"ko", WN_SCRIPT_HANGUL},
    {"ru", WN_SCRIPT_CYRILLIC},   {"uk", WN_SCRIPT_CYRILLIC},   {"bg", WN_SCRIPT_CYRILLIC},
    {"ar", WN_SCRIPT_ARABIC},     {"fa", WN_SCRIPT_ARABIC},     {"ur", WN_SCRIPT_ARABIC},
    {"hi", WN_SCRIPT_DEVANAGARI}, {"mr", WN_SCRIPT_DEVANAGARI}, {"ne", WN_SCRIPT_DEVANAGARI},
    {"th", WN_SCRIPT_THAI},       {"el", WN_SCRIPT_GREEK},      {"he", WN_SCRIPT_HEBREW},
    {"bn", WN_SCRIPT_BENGALI},    {"ta", WN_SCRIPT_TAMIL},      {"te", WN_SCRIPT_TELUGU},
    {"ka", WN_SCRIPT_GEORGIAN},   {"hy", WN_SCRIPT_ARMENIAN},
};

/* line is taken. */
static bool add(struct wn_mix_result *r, char *line, struct wn_err *err)
{
    char **grown = line ? wn_realloc(r->warnings, r->warning_count + 1, sizeof *grown, err) : NULL;

    if (!grown) {
        free(line);
        return false;
    }
    r->warnings = grown;
    r->warnings[r->warning_count++] = line;
    return true;
}

static bool is_language(const char *label, const char *language)
{
    return wn_starts_with(label, language) && strchr("-_", label[2]);
}

static bool warn_source(struct wn_mix_result *r, const struct wn_mix_taken *t, struct wn_err *err)
{
    double share = (double)t->got.tokens / (double)r->got.tokens;
    uint64_t dropped = 0;

    if (share < NEARLY_ABSENT &&
        !add(r,
             wn_asprintf(err, "source '%s' is nearly absent: %" PRIu64 " tokens, %.2f %% of all", t->label,
                         t->got.tokens, 100 * share),
             err))
        return false;
    for (int why = 0; why < WN_MIX_DROPS; why++)
        dropped += why == WN_MIX_BLANK ? 0 : t->dropped[why].bytes;
    if (dropped > t->had.bytes &&
        !add(r,
             wn_asprintf(
                 err, "source '%s': more of it was left out than is fit to be taken (%" PRIu64 " of %" PRIu64 " bytes)",
                 t->label, dropped, dropped + t->had.bytes),
             err))
        return false;
    for (size_t i = 0; i < sizeof languages / sizeof languages[0]; i++) {
        double of = (double)t->tokens[languages[i].script] / (double)t->got.tokens;

        if (is_language(t->label, languages[i].label) && of < NEARLY_ABSENT &&
            !add(r,
                 wn_asprintf(err, "source '%s' has next to no %s: %.2f %% of its tokens", t->label,
                             wn_script_name(languages[i].script), 100 * of),
                 err))
            return false;
    }
    return true;
}

/* Scripts that are there, but barely, in one line; of the large ones those that are not there at all in another. */
static bool warn_scripts(struct wn_mix_result *r, struct wn_err *err)
{
    struct wn_buf rare = {0}, absent = {0};
    bool ok = true;

    for (int s = WN_SCRIPT_LATIN; ok && s < WN_SCRIPT_OTHER; s++) {
        const char *name = wn_script_name((enum wn_script)s);
        uint64_t tokens = 0;

        for (size_t i = 0; i < r->count; i++)
            tokens += r->sources[i].tokens[s];
        if (tokens > 0 && (double)tokens < NEARLY_ABSENT * (double)r->got.tokens)
            ok = wn_buf_printf(&rare, err, "%s%s (%" PRIu64 " tokens)", rare.n ? ", " : "", name, tokens);
        else if (tokens == 0 && s <= WN_SCRIPT_HEBREW)
            ok = wn_buf_printf(&absent, err, "%s%s", absent.n ? ", " : "", name);
    }
    if (ok && rare.n)
        ok = add(r, wn_asprintf(err, "scripts under 1 %% of all tokens: %.*s", (int)rare.n, rare.at), err);
    if (ok && absent.n)
        ok = add(r,
                 wn_asprintf(err, "scripts that are not there: %.*s; experts that only they use will look unused",
                             (int)absent.n, absent.at),
                 err);
    wn_buf_release(&rare);
    wn_buf_release(&absent);
    return ok;
}

bool wn_mix_warn(struct wn_mix_result *r, struct wn_err *err)
{
    for (size_t i = 0; i < r->count; i++)
        if (!warn_source(r, &r->sources[i], err))
            return false;
    return warn_scripts(r, err);
}
