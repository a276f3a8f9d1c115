/*
 * The talk on stderr (progress, notes, errors), the result on stdout, and Ctrl-C.
 */
#include "cli.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop_wanted;

static struct {
    volatile sig_atomic_t moving; /* a line without its end is on the terminal */
    char phase[128];
    double started, shown;
    uint64_t first; /* done when the phase was first heard of: an earlier run's work took no time of this one */
} line;

static void on_signal(int number)
{
    if (stop_wanted) { /* a second Ctrl-C: at once */
        wn_remove_unfinished();
        signal(number, SIG_DFL);
        raise(number);
    }
    stop_wanted = 1;
}

/* Only what POSIX allows in a handler may be called here: the thread may have been anywhere. */
static void on_bus_error(int number)
{
    static const char sentence[] =
        "winnow: a model's file became shorter or could not be read while it was in use (bus error)\n";
    static const char line_start[] = "\r\033[K";
    static atomic_flag told = ATOMIC_FLAG_INIT;

    (void)number;
    while (atomic_flag_test_and_set(&told)) /* another thread met it first, and ends the program for all */
        (void)pause();
    end_text_line();
    /* nothing is left to do about a stderr that takes nothing */
    if (line.moving)
        (void)!write(STDERR_FILENO, line_start, sizeof line_start - 1);
    (void)!write(STDERR_FILENO, sentence, sizeof sentence - 1);
    wn_remove_unfinished();
    _exit(EXIT_FAILED);
}

void catch_signals(void)
{
    struct sigaction a;

    memset(&a, 0, sizeof a);
    a.sa_handler = on_signal;
    sigemptyset(&a.sa_mask);
    (void)sigaction(SIGINT, &a, NULL);
    (void)sigaction(SIGTERM, &a, NULL);
    /* how the system says that a page of a mapped file is not there */
    a.sa_handler = on_bus_error;
    (void)sigaction(SIGBUS, &a, NULL);
    /* a reader of stdout that leaves is an error to report, not a death */
    (void)signal(SIGPIPE, SIG_IGN);
    /* and so is a file that may not grow any more (ulimit -f) */
    (void)signal(SIGXFSZ, SIG_IGN);
}

bool interrupted(void)
{
    return stop_wanted != 0;
}

static double now(void)
{
    struct timespec t;

    return clock_gettime(CLOCK_MONOTONIC, &t) == 0 ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec : 0;
}

void talk_end_line(void)
{
    if (line.moving)
        fputs("\r\033[K", stderr);
    line.moving = false;
}

void talk(const char *fmt, ...)
{
    va_list ap;

    if (common.quiet)
        return;
    talk_end_line();
    va_start(ap, fmt);
    (void)vprint_visible(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

/* "3 of 8 tokens", "998 MB of 1.56 TB" */
static void quantities(const struct wn_progress *p, char *buf, size_t size)
{
    char done[32], total[32];

    if (strcmp(p->unit, "bytes") == 0)
        snprintf(buf, size, "%s of %s", text_size(p->done, done, sizeof done),
                 text_size(p->total, total, sizeof total));
    else
        snprintf(buf, size, "%" PRIu64 " of %" PRIu64 " %s", p->done, p->total, p->unit);
}

static void show(const struct wn_progress *p, double seconds)
{
    char done[80], rest[32] = "", text[400];
    double share = p->total ? (double)p->done / (double)p->total : 0;
    double here = (double)(p->done - line.first), left = (double)(p->total - p->done);

    quantities(p, done, sizeof done);
    if (here > 0.01 * left && left > 0 && seconds > 2)
        snprintf(rest, sizeof rest, ", %.0f s left", seconds * left / here);
    /* of steps, the counts are sums over all of them, which nobody has been told */
    if (p->step)
        snprintf(text, sizeof text, "%s, %s: %.0f %%%s", p->phase, p->step, 100 * share, rest);
    else
        snprintf(text, sizeof text, "%s: %.0f %% (%s)%s", p->phase, 100 * share, done, rest);
    talk_end_line();
    (void)print_visible(stderr, text, strlen(text), "");
    if (!isatty(STDERR_FILENO))
        fputc('\n', stderr);
    line.moving = isatty(STDERR_FILENO) != 0;
}

static bool on_progress(void *arg, const struct wn_progress *p)
{
    double t = now();
    /* a terminal is repainted ten times a second; a log gets a line every ten seconds */
    double pause = isatty(STDERR_FILENO) ? 0.1 : 10;

    (void)arg;
    if (interrupted())
        return false;
    if (common.quiet)
        return true;
    if (strcmp(line.phase, p->phase) != 0) {
        snprintf(line.phase, sizeof line.phase, "%s", p->phase);
        line.started = t;
        line.first = p->done;
        if (line.shown == 0)
            line.shown = t;
    }
    if (t - line.shown >= pause) {
        show(p, t - line.started);
        line.shown = t;
    }
    if (p->done >= p->total)
        talk_end_line();
    return true;
}

static void on_note(void *arg, const char *text)
{
    (void)arg;
    talk("%s", text);
}

struct wn_job talk_job(void)
{
    return (struct wn_job){.progress = on_progress, .note = on_note};
}

int talk_failed(const struct wn_err *err)
{
    talk_end_line();
    (void)fflush(stdout);
    end_text_line();
    if (err->code == WN_ERR_CANCELED && interrupted()) {
        complain("winnow: interrupted");
        return EXIT_INTERRUPTED;
    }
    complain("winnow: %s", err->msg);
    return EXIT_FAILED;
}

const char *text_size(uint64_t bytes, char *buf, size_t size)
{
    static const char *const unit[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    double n = (double)bytes;
    size_t u = 0;

    while (n >= 999.5 && u + 1 < sizeof unit / sizeof unit[0]) {
        n /= 1000;
        u++;
    }
    snprintf(buf, size, "%.*f %s", u == 0 ? 0 : n < 10 ? 2 : n < 100 ? 1 : 0, n, unit[u]);
    return buf;
}

const char *text_count(uint64_t n, char *buf, size_t size)
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, n);
    size_t at = 0;

    for (int i = 0; i < len && at + 2 < size; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            buf[at++] = ',';
        buf[at++] = digits[i];
    }
    buf[at] = '\0';
    return buf;
}

const char *text_time(double seconds, char *buf, size_t size)
{
    if (seconds >= 2 * 3600)
        snprintf(buf, size, "%.1f h", seconds / 3600);
    else if (seconds >= 2 * 60)
        snprintf(buf, size, "%.0f min", seconds / 60);
    else
        snprintf(buf, size, "%.0f s", seconds);
    return buf;
}
