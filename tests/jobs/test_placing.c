/* The moment in which a model's files get their names, and a run that is killed in it. */
#include "prune_help.h"
#include "formats/sink.h"
#include "sys/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS_MOST = 400 };

/* From the moment when all weights are copied: the n-th step that writes, renames or syncs fails. */
static bool fail_later(void *arg, const struct wn_progress *p)
{
    if (p->done == p->total)
        wn_file_fail_writes_after(*(const long *)arg);
    return true;
}

static char source[512], other[512]; /* two models that differ in every byte of their tensors */

/*
 * Small, since it is written hundreds of times: three shards or files of one tensor, and for folders what lies beside.
 */
static void make_model(enum wn_container c, char fill, char path[512])
{
    const char *folder = wn_test_folder();
    struct wn_sink_options o = {0};
    uint8_t bytes[64];
    struct wn_sink *s;
    struct wn_err err;
    char text[32];

    memset(bytes, fill, sizeof bytes);
    snprintf(path, 512, "%s%s", folder, c == WN_CONTAINER_GGUF ? "/m" : "");
    s = wn_sink_new(c, path, &o, &err);
    CHECK_OK(s, &err);
    for (uint32_t i = 0; i < 3; i++)
        CHECK_OK(wn_sink_declare(s, (const char *[]){"a", "b", "c"}[i], WN_F32, 1, (uint64_t[]){16}, i, &err), &err);
    CHECK_OK(wn_sink_begin(s, &err), &err);
    for (uint32_t i = 0; i < 3; i++)
        CHECK_OK(wn_sink_write(s, bytes, sizeof bytes, &err), &err);
    CHECK_OK(wn_sink_commit(s, &err), &err);
    wn_sink_free(s);
    if (c == WN_CONTAINER_GGUF) {
        snprintf(path, 512, "%s/m-00001-of-00003.gguf", folder);
        return;
    }
    snprintf(text, sizeof text, "{\"model_type\": \"%c\"}", fill);
    CHECK_OK(wn_file_put(wn_test_path(folder, "config.json"), text, strlen(text), false, &err), &err);
    CHECK_OK(wn_file_put(wn_test_path(folder, "tokenizer.json"), text, strlen(text), false, &err), &err);
}

/* True when the run got through before its n-th such step. */
static bool prune_killed(const struct wn_prune_options *o, long n)
{
    struct wn_job job = {.progress = fail_later, .arg = &n};
    int status;
    pid_t child = fork();

    if (child == 0) {
        struct wn_prune_result r;
        struct wn_err err;

        wn_file_die_of_writes(true);
        _exit(wn_prune(o, &job, &r, &err) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return !WIFSIGNALED(status);
}

static void prune_again(const struct wn_prune_options *o, int entries, const char *model, const char *folder)
{
    struct wn_prune_result r;
    struct wn_verify_result v;
    struct wn_err err;

    CHECK_OK(wn_prune(o, NULL, &r, &err), &err);
    CHECK_OK(wn_verify(model, o->source, o->plan, NULL, &v, &err), &err);
    assert_int_equal(count_entries(folder), entries);
}

/* The journal was the last to go: it is all there, only nobody said so. */
static bool is_done(const char *model, int entries, const char *folder)
{
    struct wn_verify_result v;
    struct wn_err err;

    return count_entries(folder) == entries && wn_verify(model, source, NULL, NULL, &v, &err);
}

/* Wherever a run is killed, the same command goes on from there, and leaves nothing else. */
static void a_killed_run_needs_no_force(void **state)
{
    char folder[512], out[600], first[700];
    struct wn_prune_options o = {.source = source, .out = out};
    bool through = false;

    (void)state;
    make_model(WN_CONTAINER_SAFETENSORS, 'n', source);
    for (long n = 0; !through && n < STEPS_MOST; n++) {
        snprintf(folder, sizeof folder, "%s", wn_test_folder());
        snprintf(out, sizeof out, "%s/out", folder);
        through = prune_killed(&o, n);
        if (!through && !is_done(out, 6, out))
            prune_again(&o, 6, out, out);
    }
    assert_true(through);
    through = false;
    make_model(WN_CONTAINER_GGUF, 'n', source);
    for (long n = 0; !through && n < STEPS_MOST; n++) {
        snprintf(folder, sizeof folder, "%s", wn_test_folder());
        snprintf(out, sizeof out, "%s/t-00001-of-00003.gguf", folder);
        snprintf(first, sizeof first, "%s", out);
        through = prune_killed(&o, n);
        if (!through && !is_done(first, 3, folder))
            prune_again(&o, 3, first, folder);
    }
    assert_true(through);
}

/* What opens is the old model or the new one. */
static void check_no_mixture(const char *out, const struct wn_prune_options *o)
{
    struct wn_verify_result v;
    struct wn_err err;
    struct wn_source *s = wn_source_open(out, &err);

    if (!s || !wn_path_exists(wn_test_path(out, "config.json"))) {
        wn_source_close(s);
        return;
    }
    wn_source_close(s);
    if (!wn_verify(out, other, NULL, NULL, &v, &err))
        CHECK_OK(wn_verify(out, o->source, NULL, NULL, &v, &err), &err);
}

/* Also over another model, which is there until the new one is. */
static void a_killed_overwrite_leaves_no_mixture_and_can_be_run_again(void **state)
{
    char out[512];
    struct wn_prune_options o = {.source = source, .out = out, .overwrite = true};
    bool through = false;

    (void)state;
    make_model(WN_CONTAINER_SAFETENSORS, 'n', source);
    make_model(WN_CONTAINER_SAFETENSORS, 'o', other);
    for (long n = 0; !through && n < STEPS_MOST; n++) {
        snprintf(out, sizeof out, "%s/out", wn_test_folder());
        prune_ok(other, out, NULL, WN_LAYOUT_AS_SOURCE, 0);
        through = prune_killed(&o, n);
        check_no_mixture(out, &o);
        if (!through)
            prune_again(&o, 6, out, out);
    }
    assert_true(through);
}

/* After a failure the old model is there as it was, the new one is not. */
static void a_failed_overwrite_leaves_the_old_model(void **state)
{
    char out[512];
    struct wn_prune_options o = {.source = source, .out = out, .overwrite = true};
    struct wn_prune_result r;
    struct wn_verify_result v;
    struct wn_err err;
    bool ok = false;
    long n = 0;
    struct wn_job job = {.progress = fail_later, .arg = &n};

    (void)state;
    make_model(WN_CONTAINER_SAFETENSORS, 'n', source);
    make_model(WN_CONTAINER_SAFETENSORS, 'o', other);
    snprintf(out, sizeof out, "%s/out", wn_test_folder());
    prune_ok(other, out, NULL, WN_LAYOUT_AS_SOURCE, 0);
    for (; !ok && n < STEPS_MOST; n++) {
        ok = wn_prune(&o, &job, &r, &err);
        wn_file_fail_writes_after(-1);
        if (!ok) {
            CHECK_OK(wn_verify(out, other, NULL, NULL, &v, &err), &err);
            assert_true(v.identical_files);
            assert_int_equal(count_entries(out), 6);
        }
    }
    assert_true(ok);
    CHECK_OK(wn_verify(out, source, NULL, NULL, &v, &err), &err);
}

/* A journal tells of files by size and time; another file under such a name is somebody else's. */
static void what_is_not_the_killed_runs_own_is_kept(void **state)
{
    static const char journal[] = "6 1 model-00001-of-000003.safetensors";
    char out[512];
    struct wn_prune_options o = {.source = source, .out = out};
    struct wn_prune_result r;
    struct wn_err err;

    (void)state;
    make_model(WN_CONTAINER_SAFETENSORS, 'n', source);
    snprintf(out, sizeof out, "%s", wn_test_folder());
    CHECK_OK(wn_file_put(wn_test_path(out, "placing.part"), journal, sizeof journal, false, &err), &err);
    CHECK_OK(wn_file_put(wn_test_path(out, "model-00001-of-000003.safetensors"), "theirs", 6, false, &err), &err);
    CHECK_FAILS(wn_prune(&o, NULL, &r, &err), &err, "'model-00001-of-000003.safetensors' is in it");
    assert_int_equal(count_entries(out), 1);
}

static void a_dry_run_leaves_a_killed_runs_files(void **state)
{
    char out[512];
    struct wn_prune_options o = {.source = source, .out = out};
    struct wn_prune_result r;
    struct wn_err err;
    int entries;

    (void)state;
    make_model(WN_CONTAINER_SAFETENSORS, 'n', source);
    snprintf(out, sizeof out, "%s/out", wn_test_folder());
    for (long n = 0;; n++) {
        assert_false(prune_killed(&o, n));
        if (wn_path_exists(wn_test_path(out, "model-00002-of-000003.safetensors")))
            break;
    }
    entries = count_entries(out);
    o.dry_run = true;
    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    assert_int_equal(count_entries(out), entries);
    assert_true(wn_path_exists(wn_test_path(out, "model-00002-of-000003.safetensors")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_run_needs_no_force),
        cmocka_unit_test(a_killed_overwrite_leaves_no_mixture_and_can_be_run_again),
        cmocka_unit_test(a_failed_overwrite_leaves_the_old_model),
        cmocka_unit_test(what_is_not_the_killed_runs_own_is_kept),
        cmocka_unit_test(a_dry_run_leaves_a_killed_runs_files),
    };

    wn_file_pretend_sync(true); /* no test here takes the power away */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
