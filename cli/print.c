/*
 * What goes to a person, stdout and stderr alike: names, labels, keys and tokens come from files, and a terminal obeys the
 * control characters in them, so these are printed as \x1b (wn_visible).
 */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool lost; /* something for stdout was not even put together */

bool print_visible(FILE *f, const char *text, size_t n, const char *keep)
{
    char *out = malloc(n * WN_VISIBLE_GROWTH + 1);
    size_t m;
    bool ok;

    if (!out)
        return false;
    m = wn_visible(text, n, keep, out);
    ok = fwrite(out, 1, m, f) == m;
    free(out);
    return ok;
}

bool vprint_visible(FILE *f, const char *keep, const char *fmt, va_list ap)
{
    va_list again;
    char *text;
    int n;
    bool ok;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    text = n < 0 ? NULL : malloc((size_t)n + 1);
    if (!text)
        return false;
    (void)vsnprintf(text, (size_t)n + 1, fmt, ap);
    ok = print_visible(f, text, (size_t)n, keep);
    free(text);
    return ok;
}

void say(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (!vprint_visible(stdout, "\n", fmt, ap))
        lost = true;
    va_end(ap);
}

void complain(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vprint_visible(stderr, "", fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

bool say_text(const char *text, size_t n)
{
    bool ok = isatty(STDOUT_FILENO) ? print_visible(stdout, text, n, "\n\t") : fwrite(text, 1, n, stdout) == n;

    lost |= !ok;
    return ok;
}

int finish_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout) && !lost)
        return EXIT_DONE;
    talk_end_line();
    complain("winnow: standard output could not be written");
    return EXIT_FAILED;
}
