/*
 * What goes to a person, stdout and stderr alike: names, labels, keys and tokens come from files, and a terminal obeys
 * the control characters in them, so these are printed as \x1b (wn_visible).
 */
#include "cli.h"

#include <signal.h>
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

static char *format_text(const char *fmt, va_list ap, size_t *n) WN_PRINTF(1, 0);

/* NULL when it cannot be had; free() it. */
static char *format_text(const char *fmt, va_list ap, size_t *n)
{
    va_list again;
    char *text;
    int made;

    va_copy(again, ap);
    made = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    text = made < 0 ? NULL : malloc((size_t)made + 1);
    if (!text)
        return NULL;
    (void)vsnprintf(text, (size_t)made + 1, fmt, ap);
    *n = (size_t)made;
    return text;
}

bool vprint_visible(FILE *f, const char *fmt, va_list ap)
{
    size_t n;
    char *text = format_text(fmt, ap, &n);
    bool ok = text && print_visible(f, text, n, "");

    free(text);
    return ok;
}

/* Line ends of n, from the first byte on or, by step -1, from the last one back. */
static size_t line_ends(const char *text, size_t n, int step)
{
    size_t ends = 0;

    while (ends < n && text[step > 0 ? ends : n - 1 - ends] == '\n')
        ends++;
    return ends;
}

static bool put_line_ends(size_t n)
{
    for (; n > 0; n--)
        if (putchar('\n') == EOF)
            return false;
    return true;
}

/* Of line ends only those at fmt's own two ends stay: any other may have come in by a name, and would forge a row. */
static bool vsay(const char *fmt, va_list ap) WN_PRINTF(1, 0);

static bool vsay(const char *fmt, va_list ap)
{
    size_t n = strlen(fmt), before = line_ends(fmt, n, 1), behind = line_ends(fmt + before, n - before, -1), made;
    char *text = format_text(fmt, ap, &made);
    bool ok = text && put_line_ends(before) && print_visible(stdout, text + before, made - before - behind, "") &&
              put_line_ends(behind);

    free(text);
    return ok;
}

void say(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (!vsay(fmt, ap))
        lost = true;
    va_end(ap);
}

void complain(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vprint_visible(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

static volatile sig_atomic_t in_line;

bool say_text(const char *text, size_t n)
{
    bool ok;

    if (n > 0)
        in_line = text[n - 1] != '\n';
    ok = isatty(STDOUT_FILENO) ? print_visible(stdout, text, n, "\n\t") : fwrite(text, 1, n, stdout) == n;

    lost |= !ok;
    return ok;
}

bool say_line_end(void)
{
    in_line = 0;
    lost |= putchar('\n') == EOF;
    return !lost;
}

void end_text_line(void)
{
    static const char end = '\n';
    ssize_t ignored;

    if (!in_line)
        return;
    in_line = 0;
    ignored = write(STDOUT_FILENO, &end, 1);
    (void)ignored;
}

int finish_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout) && !lost)
        return EXIT_DONE;
    talk_end_line();
    complain("winnow: standard output could not be written");
    return EXIT_FAILED;
}
