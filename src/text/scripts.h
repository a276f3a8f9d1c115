/*
 * Which script a character belongs to: Latin, Han, kana ... by Unicode's Script property, as the installed pcre2 has
 * it.
 */
#ifndef WN_TEXT_SCRIPTS_H
#define WN_TEXT_SCRIPTS_H

#include "base/bytes.h"

enum wn_script {
    WN_SCRIPT_NONE, /* shared by all: digits, punctuation, spaces, marks */
    WN_SCRIPT_LATIN,
    WN_SCRIPT_HAN,
    WN_SCRIPT_KANA, /* hiragana, katakana, and the sign that makes their vowels long */
    WN_SCRIPT_HANGUL,
    WN_SCRIPT_CYRILLIC,
    WN_SCRIPT_ARABIC,
    WN_SCRIPT_DEVANAGARI,
    WN_SCRIPT_THAI,
    WN_SCRIPT_GREEK,
    WN_SCRIPT_HEBREW, /* up to here: those whose absence is worth a word */
    WN_SCRIPT_BENGALI,
    WN_SCRIPT_TAMIL,
    WN_SCRIPT_TELUGU,
    WN_SCRIPT_GUJARATI,
    WN_SCRIPT_GURMUKHI,
    WN_SCRIPT_KANNADA,
    WN_SCRIPT_MALAYALAM,
    WN_SCRIPT_SINHALA,
    WN_SCRIPT_KHMER,
    WN_SCRIPT_LAO,
    WN_SCRIPT_MYANMAR,
    WN_SCRIPT_GEORGIAN,
    WN_SCRIPT_ARMENIAN,
    WN_SCRIPT_ETHIOPIC,
    WN_SCRIPT_TIBETAN,
    WN_SCRIPT_MONGOLIAN,
    WN_SCRIPT_OTHER, /* letters of any other script */
    WN_SCRIPT_COUNT
};

/* "Latin"; of NONE "none", of OTHER "other". */
const char *wn_script_name(enum wn_script script);

/* The compiled search, for one thread at a time. */
struct wn_scripts;
WN_CHECKED struct wn_scripts *wn_scripts_new(struct wn_err *err);
void wn_scripts_free(struct wn_scripts *s);

/* script_of[text.n]: of the character that each byte belongs to. text is valid UTF-8. */
WN_CHECKED bool wn_scripts_mark(struct wn_scripts *s, struct wn_bytes text, uint8_t *script_of, struct wn_err *err);

#endif
