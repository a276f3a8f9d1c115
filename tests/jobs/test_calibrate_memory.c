/*
 * The memory that a calibration announces is what it takes: measured on child processes that do nothing else.
 * Sanitizers bring memory of their own, so these tests only run without them.
 *
 * Two measures, because one cannot be had to rely on both ways. The largest resident set must not exceed what was told;
 * it may be smaller by any amount, since a system takes mapped pages (program, weights) away as it likes. That no more
 * is told than is taken is seen on the process' own pages, which nobody takes away.
 */
#include "calibrate_fixture.h"

#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct measured {
    bool ok;
    struct wn_calibrate_need told; /* before the run */
    uint64_t peak;                 /* after it */
    uint64_t before, most;         /* own pages: when it was told, and in the run; 0 where the system does not say */
    struct wn_err err;
};

/* Bytes of pages that are no file's, resident or swapped out. */
static uint64_t own_pages(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    uint64_t sum = 0, kib;
    char line[256];

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "RssAnon: %" SCNu64, &kib) == 1 || sscanf(line, "VmSwap: %" SCNu64, &kib) == 1)
            sum += kib * 1024;
    if (f)
        (void)fclose(f);
    return sum;
}

static bool watch_pages(void *arg, const struct wn_progress *p)
{
    struct measured *r = arg;
    uint64_t now = own_pages();

    (void)p;
    r->most = now > r->most ? now : r->most;
    return true;
}

static bool only_told; /* children stop when they were told what it takes */

/* wn_calibrate_need_fn */
static bool take_told(void *arg, const struct wn_calibrate_need *need)
{
    struct measured *r = arg;

    r->told = *need;
    r->before = own_pages();
    return !only_told;
}

/* What a command does: open, announce, run. */
static void measure(struct calibration *c, struct measured *r)
{
    struct wn_model *m = wn_model_open(c->model, &r->err);
    struct wn_pool *pool = wn_pool_new(c->threads, &r->err);
    struct wn_job job = {.progress = watch_pages, .arg = r};

    c->o.told = take_told;
    c->o.told_arg = r;
    r->ok = m && pool && wn_calibrate(m, pool, &c->o, &job, &c->result, &r->err);
    r->peak = wn_peak_memory();
}

static struct measured try_in_child(struct calibration *c)
{
    struct measured r = {0};
    int ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        measure(c, &r);
        _exit(write(ends[1], &r, sizeof r) == (ssize_t)sizeof r ? 0 : 1);
    }
    assert_int_equal(read(ends[0], &r, sizeof r), sizeof r);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[0]);
    close(ends[1]);
    return r;
}

static struct measured measure_in_child(struct calibration *c)
{
    struct measured r = try_in_child(c);

    if (!r.ok)
        fail_msg("%s", r.err.msg);
    return r;
}

static struct calibration run_of(const char *model, const char *corpus, unsigned threads)
{
    if (WN_TEST_SANITIZED) {
        printf("skipped: sanitizers take memory of their own\n");
        skip();
    }
    return (struct calibration){
        .model = model, .threads = threads, .o = {.corpus = corpus, .out = wn_test_path(wn_test_folder(), "sal.npz")}};
}

static struct measured measure_close(struct calibration *c)
{
    struct measured r;
    double share;

    c->o.overwrite = true;
    r = measure_in_child(c);
    share = (double)(r.most - r.before) / (double)(r.told.scratch + r.told.records + r.told.held);
    printf("told %" PRIu64 " (base %" PRIu64 ", layer %" PRIu64 ", scratch %" PRIu64 ", records %" PRIu64
           ", held %" PRIu64 "), taken %" PRIu64 ": %.3f; of scratch, records and held %.3f\n",
           r.told.peak, r.told.base, r.told.layer, r.told.scratch, r.told.records, r.told.held, r.peak,
           (double)r.peak / (double)r.told.peak, share);
    assert_true(r.peak <= r.told.peak);
    assert_true(r.before == 0 || share > 0.95);
    return r;
}

static void the_peak_is_what_was_announced(void **state)
{
    struct calibration c =
        run_of(wn_test_need_data("models/k3-mini"), wn_test_need_data("corpora/calib-mixed.jsonl"), 2);
    struct measured r;

    (void)state;
    c.o.max_tokens = 4096;
    r = measure_close(&c);
    assert_true(r.told.layer < 4000000); /* of 24 MB: one layer at a time is what is held */
}

/* Without threads' scratch and with short chunks means are a larger part of it. */
static void means_are_part_of_what_is_announced(void **state)
{
    struct calibration c =
        run_of(wn_test_need_data("models/k3-mini"), wn_test_need_data("corpora/calib-mixed.jsonl"), 1);
    struct measured without, with;

    (void)state;
    c.o.max_tokens = 512;
    c.o.sequence = 32;
    without = measure_close(&c);
    c.o.means = true;
    with = measure_close(&c);
    assert_int_equal(with.told.scratch + with.told.records - without.told.scratch - without.told.records,
                     64 * 128 * (8 + 2));
}

static void the_activations_of_more_tokens_take_disk_not_memory(void **state)
{
    const char *model = wn_test_need_data(TINY);
    struct calibration few = run_of(model, random_corpus(4, 128, 400, 1), 1),
                       many = run_of(model, random_corpus(40, 128, 400, 1), 1);
    struct measured a = measure_in_child(&few), b = measure_in_child(&many);

    (void)state;
    assert_int_equal(b.told.activations, 10 * a.told.activations);
    assert_true(b.told.activations > 12000000);
    /* only the corpus' ids grow */
    assert_true(b.peak < a.peak + b.told.activations / 8);
}

static void an_allowance_is_kept(void **state)
{
    struct calibration c =
        run_of(wn_test_need_data("models/k3-mini"), wn_test_need_data("corpora/calib-mixed.jsonl"), 2);
    struct measured roomy, tight;

    (void)state;
    c.o.max_tokens = 2048;
    c.o.sequence = 256;
    roomy = measure_close(&c);
    c.o.ram = roomy.told.peak - roomy.told.scratch / 2;
    tight = measure_close(&c);
    assert_true(tight.told.chunk < roomy.told.chunk);
    assert_true(tight.told.peak <= c.o.ram);
    assert_true(tight.before == 0 || tight.most < roomy.most);
}

/* A little more than all takes, and a little less: then the activations stay on disk. */
static void activations_are_held_where_they_are_allowed(void **state)
{
    struct calibration c =
        run_of(wn_test_need_data("models/k3-mini"), wn_test_need_data("corpora/calib-mixed.jsonl"), 2);
    struct measured on_disk, held;

    (void)state;
    c.o.max_tokens = 4096;
    on_disk = measure_close(&c);
    c.o.ram = on_disk.told.peak + on_disk.told.activations + 2000000; /* what is measured differs a little */
    held = measure_close(&c);
    assert_int_equal(on_disk.told.held, 0);
    assert_int_equal(held.told.held, held.told.activations);
    assert_true(held.told.held > 15000000);
    assert_true(held.told.peak <= c.o.ram);
    assert_int_equal(held.told.chunk, on_disk.told.chunk);
    c.o.ram = on_disk.told.peak + on_disk.told.activations - 2000000;
    on_disk = measure_close(&c);
    assert_int_equal(on_disk.told.held, 0);
}

/* 4 MB of prose, as plain text and as lines: more than all the rest takes. */
static const char *large_text(bool lines)
{
    const char *path = wn_test_path(wn_test_folder(), lines ? "large.jsonl" : "large.txt");
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    for (unsigned i = 0; i < 40000; i++)
        (void)fprintf(f,
                      lines ? "{\"source\": \"%c\", \"text\": \"x%u q%u zj%u vw%u, kx%u; qz%u: %u. %u! %u? %u\"}\n"
                            : "%c x%u q%u zj%u vw%u, kx%u; qz%u: %u. %u! %u? %u\n",
                      'a' + (int)(i % 2), i, i, i, i, i, i, i * i, i * 7, i * 11, i * 13);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void reading_a_large_corpus_is_part_of_what_is_told(void **state)
{
    (void)state;
    for (int lines = 0; lines < 2; lines++) {
        struct calibration c = run_of(wn_test_need_data("models/k3-mini"), large_text(lines), 1);
        struct measured r;

        c.o.max_tokens = 2048;
        r = measure_in_child(&c);
        printf("told %" PRIu64 ", taken %" PRIu64 "\n", r.told.peak, r.peak);
        assert_true(r.peak <= r.told.peak);
        /* only the tokens that are used are kept: four bytes for each of the others would be more than this */
        assert_true(r.told.base < 12000000);
    }
}

static void a_corpus_that_does_not_fit_is_refused_within_what_is_allowed(void **state)
{
    (void)state;
    for (int lines = 0; lines < 2; lines++) {
        struct calibration c = run_of(wn_test_need_data("models/k3-mini"), large_text(lines), 1);
        struct measured r;
        const char *number;

        c.o.ram = 16000000;
        r = try_in_child(&c);
        assert_false(r.ok);
        number = strstr(r.err.msg, "needs at least ");
        assert_non_null(number);
        printf("allowed %" PRIu64 ", taken %" PRIu64 ": %s\n", c.o.ram, r.peak, r.err.msg);
        assert_true(r.peak <= c.o.ram);
        c.o.ram = strtoull(number + strlen("needs at least "), NULL, 10);
        only_told = true;
        r = try_in_child(&c);
        only_told = false;
        assert_int_equal(r.err.code, WN_ERR_CANCELED);
        assert_true(r.told.peak <= c.o.ram);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_peak_is_what_was_announced),
        cmocka_unit_test(means_are_part_of_what_is_announced),
        cmocka_unit_test(the_activations_of_more_tokens_take_disk_not_memory),
        cmocka_unit_test(an_allowance_is_kept),
        cmocka_unit_test(activations_are_held_where_they_are_allowed),
        cmocka_unit_test(reading_a_large_corpus_is_part_of_what_is_told),
        cmocka_unit_test(a_corpus_that_does_not_fit_is_refused_within_what_is_allowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
