/*
 * HTML in a buffer. What is written by format is escaped by construction: a %s is always text, never markup.
 *
 * The first failure (memory) stays: later calls do nothing and wn_html_ok tells, so that a page is written without a
 * question after each line.
 */
#ifndef WN_JOBS_REPORT_HTML_H
#define WN_JOBS_REPORT_HTML_H

#include "base/bytes.h"

struct wn_html {
    struct wn_buf b;
    struct wn_err *err; /* the caller's */
    bool failed;
    bool markdown; /* the page is Markdown: in text, what that would take for markup has a backslash before it, too */
};

static inline bool wn_html_ok(const struct wn_html *h)
{
    return !h->failed;
}

/*
 * fmt is markup and is written as it is, but for
 *
 *   %s               text: & < > " ' are escaped, control characters and bytes that are not UTF-8 become U+FFFD
 *   %u %zu %PRIu64   whole numbers; with the flag ' thousands are separated by commas
 *   %.Nf             a number with N decimals, 0 <= N <= 9, with a point in every locale. Not a number, and what is
 *                    beyond 1e15: "not measured" (in coordinates there is none of either)
 *   %%               the sign
 */
void wn_html_put(struct wn_html *h, const char *fmt, ...) WN_PRINTF(2, 3);

/* Markup as it is, per cent signs and all. */
void wn_html_markup(struct wn_html *h, const char *markup);

#endif
