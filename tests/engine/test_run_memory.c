/*
 * What a run takes is what can be told beforehand: the weights' bytes from the headers, the session's from the config.
 * Measured from outside as the largest resident set of a child process, load included.
 */
#include "golden.h"

#include "base/checked.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct measured {
    bool ok;
    uint64_t base, owned, told, peak;
    struct wn_err err;
};

/*
 * A full context, chunk by chunk: by and by every expert is used, and every page of weights, cache and scratch touched.
 */
static bool fill(struct wn_session *s, const struct wn_session_options *o, uint32_t vocab, struct wn_err *err)
{
    uint32_t ids[256];

    for (uint32_t at = 0; at < o->context; at += o->chunk) {
        for (uint32_t i = 0; i < o->chunk; i++)
            ids[i] = ((at + i) * 331 + i * 67) % vocab;
        if (!wn_session_feed(s, ids, o->chunk, NULL, NULL, err))
            return false;
    }
    return true;
}

/*
 * The sum that `winnow run` prints, in the order in which it does things: open, load, tell, compute. (What it prints is
 * held against its own peak in tests/cli.)
 */
static void run(const char *path, const struct wn_session_options *o, struct measured *r)
{
    struct wn_model *m = wn_model_open(path, &r->err);
    struct wn_pool *pool = wn_pool_new(2, &r->err);
    struct wn_session *s = NULL;
    struct wn_weights *w = NULL;
    struct wn_session_memory need;
    struct wn_inspection in;

    if (!m || !pool || !wn_model_vocab(m, &r->err) || !wn_inspect(path, &in, &r->err))
        return;
    wn_session_need(wn_model_config(m), o, 2, &need);
    r->base = wn_resident_memory();
    w = wn_weights_load(m, &r->err);
    if (!w)
        return;
    r->owned = wn_weights_owned(w);
    r->told =
        r->base + in.tensor_bytes - in.class_bytes[WN_CLASS_VISION] + r->owned + need.state + need.cache + need.scratch;
    r->ok = (s = wn_session_new(m, w, pool, o, &r->err)) && fill(s, o, wn_model_config(m)->vocab_size, &r->err);
    r->peak = wn_peak_memory();
}

static struct measured run_in_child(const char *path, const struct wn_session_options *o)
{
    struct measured r = {0};
    int ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        run(path, o, &r);
        _exit(write(ends[1], &r, sizeof r) == (ssize_t)sizeof r ? 0 : 1);
    }
    assert_int_equal(read(ends[0], &r, sizeof r), sizeof r);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[0]);
    close(ends[1]);
    if (!r.ok)
        fail_msg("%s", r.err.msg);
    printf("told %" PRIu64 " (%" PRIu64 " before, %" PRIu64 " owned), taken %" PRIu64 ": %.3f\n", r.told, r.base,
           r.owned, r.peak, (double)r.peak / (double)r.told);
    return r;
}

static const char *mini(void)
{
    if (WN_TEST_SANITIZED) {
        printf("skipped: sanitizers take memory of their own\n");
        skip();
    }
    return wn_test_need_data("models/k3-mini");
}

static bool near(const struct measured *r)
{
    double share = (double)r->peak / (double)r->told;

    return share > 0.95 && share < 1.05;
}

static void the_largest_resident_set_of_a_run_is_what_was_told(void **state)
{
    const struct wn_session_options small = {.context = 512, .chunk = 16}, large = {.context = 2048, .chunk = 256};
    struct measured r;

    (void)state;
    r = run_in_child(mini(), &small);
    assert_true(near(&r));
    r = run_in_child(mini(), &large);
    assert_true(near(&r));
    /* and the check can fail: had the weights been copied while they were loaded, it would show */
    r.peak += r.told - r.base;
    assert_false(near(&r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_resident_set_of_a_run_is_what_was_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
