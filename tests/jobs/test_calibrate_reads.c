/*
 * The model is read once: pages of a layer are only touched while that layer runs, which is seen in the process' maps,
 * and what the system fetches from the disk for a model that it has nothing of is the model's size.
 */
#include "calibrate_fixture.h"

#include "sys/file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct reads {
    char **files; /* [n] of the model */
    size_t n;
    const char *folder;
    uint64_t first, last; /* bytes read from disk, at the first call and at the last */
    uint64_t held, most;  /* of the model in memory: at most in this step, and in any */
    uint64_t sum;         /* of that of all steps that are done */
    char step[64];
    bool began;
};

/* Bytes that this process has had fetched from a disk; UINT64_MAX where nobody says. */
static uint64_t fetched(void)
{
    FILE *f = fopen("/proc/self/io", "r");
    uint64_t bytes = UINT64_MAX;
    char line[128];

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "read_bytes: %" SCNu64, &bytes) == 1)
            break;
    if (f)
        (void)fclose(f);
    return bytes;
}

/* Pages that nobody has mapped leave the cache. */
static void forget(const char *path)
{
    int fd = open(path, O_RDONLY);

    assert_true(fd >= 0);
#if defined(POSIX_FADV_DONTNEED)
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
#endif
    close(fd);
}

/* Bytes of the model's files that this process has mapped in. */
static uint64_t mapped(const char *folder)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    uint64_t sum = 0, kib;
    char line[1024];
    bool ours = false;

    while (f && fgets(line, sizeof line, f)) {
        if (strchr(line, '/') || strchr(line, '['))
            ours = strstr(line, folder) != NULL;
        if (ours && sscanf(line, "Rss: %" SCNu64, &kib) == 1)
            sum += kib * 1024;
    }
    if (f)
        (void)fclose(f);
    return sum;
}

static void end_step(struct reads *r)
{
    r->sum += r->held;
    r->most = r->held > r->most ? r->held : r->most;
    r->held = 0;
}

/* wn_progress_fn */
static bool watch(void *arg, const struct wn_progress *p)
{
    struct reads *r = arg;
    const char *step = p->step ? p->step : p->phase;
    uint64_t now = mapped(r->folder);

    if (!r->began) {
        for (size_t i = 0; i < r->n; i++)
            forget(r->files[i]);
        r->first = fetched();
    }
    r->began = true;
    r->last = fetched();
    if (strcmp(step, r->step) != 0)
        end_step(r);
    (void)snprintf(r->step, sizeof r->step, "%s", step);
    r->held = now > r->held ? now : r->held;
    return true;
}

/* A copy that is on the disk, so that it can leave the cache. */
static void copy_file(const char *from, const char *to)
{
    struct wn_err err;
    size_t n;
    char *bytes = wn_file_slurp(from, UINT64_C(1) << 30, &n, &err);

    CHECK_OK(bytes, &err);
    CHECK_OK(wn_file_put(to, bytes, n, false, &err), &err); /* which syncs */
    free(bytes);
}

static const char *copy_model(struct reads *r)
{
    const char *source = wn_test_need_data("models/k3-mini");
    char *folder = strdup(wn_test_folder());
    struct wn_err err;

    CHECK_OK(wn_path_list(source, &r->files, &r->n, &err), &err);
    for (size_t i = 0; i < r->n; i++) {
        char from[1024], to[1024];

        (void)snprintf(from, sizeof from, "%s/%s", source, r->files[i]);
        (void)snprintf(to, sizeof to, "%s/%s", folder, r->files[i]);
        copy_file(from, to);
        free(r->files[i]);
        r->files[i] = strdup(to);
        forget(to);
    }
    return folder;
}

/* Reading a file that was forgotten must show; in memory file systems it does not. */
static void need_counted_reads(const char *path)
{
    uint64_t before = fetched();
    struct wn_err err;
    size_t n;
    char *bytes;

    if (before == UINT64_MAX)
        skip();
    forget(path);
    bytes = wn_file_slurp(path, UINT64_C(1) << 30, &n, &err);
    CHECK_OK(bytes, &err);
    free(bytes);
    if (fetched() - before < n / 2) {
        printf("skipped: the system does not count what is read from '%s'\n", path);
        skip();
    }
}

static void the_model_is_read_once(void **state)
{
    struct reads r = {0};
    struct wn_job job = {.progress = watch, .arg = &r};
    struct calibration c = {.threads = 2, .job = &job};
    struct wn_err err;
    uint64_t read, model;

    (void)state;
    if (WN_TEST_SANITIZED)
        skip();
    c.o.corpus = strdup(random_corpus(6, 500, 4000, 5));
    c.o.out = strdup(wn_test_path(wn_test_folder(), "sal.npz"));
    c.model = r.folder = copy_model(&r);
    for (size_t i = 0; i < r.n; i++)
        if (strstr(r.files[i], "00001-of"))
            need_counted_reads(r.files[i]);
    CHECK_OK(calibrate(&c, &err), &err);
    end_step(&r);
    read = r.last - r.first;
    model = c.result.need.model_read;
    printf("%" PRIu64 " bytes of layers and embeddings: %" PRIu64 " came from the disk, %" PRIu64
           " were mapped step by step, %" PRIu64 " at most at a time\n",
           model, read, r.sum, r.most);
    /* beside a page that is touched the system maps the 64 KiB around it */
    assert_true(r.most < c.result.need.layer + c.result.need.layer / 8);
    assert_true(r.sum < model + model / 8 && r.sum > model - model / 8);
    assert_true(read < model + model / 4 && read > model / 2);
    for (size_t i = 0; i < r.n; i++)
        free(r.files[i]);
    free(r.files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_is_read_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
