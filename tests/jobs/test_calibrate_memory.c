/*
 * The memory that a calibration announces is what it takes: measured from outside, on child processes that do nothing
 * else. Sanitizers bring memory of their own, so these tests only run without them.
 */
#include "calibrate_fixture.h"

#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct measured {
    bool ok;
    struct wn_calibrate_need told; /* before the run */
    uint64_t peak;                 /* after it */
    struct wn_err err;
};

/* What a command does: open, announce, run. */
static void measure(struct calibration *c, struct measured *r)
{
    struct wn_model *m = wn_model_open(c->model, &r->err);
    struct wn_pool *pool = wn_pool_new(c->threads, &r->err);

    r->ok = m && pool && wn_calibrate_plan(m, c->threads, &c->o, &r->told, &r->err) &&
            wn_calibrate(m, pool, &c->o, NULL, &c->result, &r->err);
    r->peak = wn_peak_memory();
}

static struct measured measure_in_child(struct calibration *c)
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

/*
 * A run's peak must be close to what was told. More is never right; less happens when the system is short of memory and
 * takes mapped pages away while they are in use, so then it is tried again.
 */
static struct measured measure_close(struct calibration *c)
{
    struct measured r;
    double share;

    c->o.overwrite = true;
    for (int tries = 0;; tries++) {
        r = measure_in_child(c);
        share = (double)r.peak / (double)r.told.peak;
        printf("told %" PRIu64 " (base %" PRIu64 ", layer %" PRIu64 ", scratch %" PRIu64 ", records %" PRIu64
               "), taken %" PRIu64 ": %.3f\n",
               r.told.peak, r.told.base, r.told.layer, r.told.scratch, r.told.records, r.peak, share);
        assert_true(share < 1.05);
        if (share > 0.95)
            return r;
        assert_true(tries < 4);
    }
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

static void the_activations_of_more_tokens_take_disk_not_memory(void **state)
{
    const char *model = wn_test_need_data(TINY);
    struct calibration few = run_of(model, random_corpus(4, 128, 400, 1), 1),
                       many = run_of(model, random_corpus(40, 128, 400, 1), 1);
    struct measured a = measure_in_child(&few), b = measure_in_child(&many);

    (void)state;
    assert_int_equal(b.told.activations, 10 * a.told.activations);
    assert_true(b.told.activations > 15000000);
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
    assert_true((double)tight.peak < 1.05 * (double)c.o.ram);
    assert_true(tight.peak < roomy.peak);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_peak_is_what_was_announced),
        cmocka_unit_test(the_activations_of_more_tokens_take_disk_not_memory),
        cmocka_unit_test(an_allowance_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
