/*
 * The real size: K3's 594 GB GGUF as sparse files with markers in its experts (`make sparse`), cut to 640 experts by a
 * published plan. The maker and the checker of the markers are programs of their own, which know nothing of our code.
 */
#include "prune_help.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAKER "tools/make_sparse_k3.py"
#define PLAN  "catalog/plans/reap_plan_640.json"
#define SET   "Kimi-K3-UD-IQ1_S-00001-of-00014.gguf"

/* catalog/expected-sizes.json, REAP640-IQ1_S */
#define PRUNED_TENSOR_BYTES UINT64_C(441376795008)
#define SOURCE_BYTES        UINT64_C(593997933024)
/* of the set that the maker makes with the profile mxfp4 */
#define MXFP4_SET          "Kimi-K3-UD-IQ1_S-00001-of-00032.gguf"
#define MXFP4_TENSOR_BYTES UINT64_C(1508661582208)

/* Runs a command of the shell, quietly. */
static WN_PRINTF(1, 2) int run(const char *fmt, ...)
{
    char line[4096];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    strncat(line, " >/dev/null 2>&1", sizeof(line) - strlen(line) - 1);
    return system(line);
}

static uint64_t stored_bytes(const char *folder, int files)
{
    uint64_t sum = 0;
    struct stat st;
    char path[1024];

    for (int i = 1; i <= files; i++) {
        snprintf(path, sizeof(path), "%s/cut-%05d-of-%05d.gguf", folder, i, files);
        assert_int_equal(stat(path, &st), 0);
        sum += (uint64_t)st.st_blocks * 512;
    }
    return sum;
}

static void k3_is_cut_to_640_experts_in_seconds(void **state)
{
    struct wn_prune_result dry, real;
    struct wn_verify_result v;
    struct wn_plan plan;
    struct wn_err err;
    struct wn_prune_options o = {.plan = &plan, .dry_run = true};
    char folder[512], source[600], out[600], plan_path[600], first[600];
    double seconds = wn_clock_seconds();

    (void)state;
    snprintf(source, sizeof(source), "%s", wn_test_need_sparse("gguf-r1/" SET));
    snprintf(folder, sizeof(folder), "%s", wn_test_folder());
    snprintf(plan_path, sizeof(plan_path), "%s", wn_test_need_data(PLAN));
    snprintf(out, sizeof(out), "%s/cut.gguf", folder);
    snprintf(first, sizeof(first), "%s/cut-00001-of-00014.gguf", folder);
    CHECK_OK(wn_plan_read(&plan, plan_path, &err), &err);
    o.source = source;
    o.out = out;
    CHECK_OK(wn_prune(&o, NULL, &dry, &err), &err);
    assert_int_equal(dry.source_bytes, SOURCE_BYTES);
    assert_int_equal(dry.out_tensor_bytes, PRUNED_TENSOR_BYTES);
    assert_int_equal(dry.tensors, 2573);
    /* the greedy rule at 50 GB makes the 14 files that were published, metadata alone in the first */
    o.plan = NULL;
    o.layout = WN_LAYOUT_SPLIT;
    o.shard_bytes = UINT64_C(50000000000);
    CHECK_OK(wn_prune(&o, NULL, &real, &err), &err);
    assert_int_equal(real.files, 14);
    assert_int_equal(real.out_bytes, SOURCE_BYTES);
    o.plan = &plan;
    o.layout = WN_LAYOUT_AS_SOURCE;
    o.dry_run = false;
    CHECK_OK(wn_prune(&o, NULL, &real, &err), &err);
    assert_int_equal(real.out_bytes, dry.out_bytes);
    assert_int_equal(real.copied_bytes, PRUNED_TENSOR_BYTES);
    assert_true(stored_bytes(folder, 14) < (uint64_t)100 << 20);
    assert_int_equal(
        run("python3 '%s' check '%s' --plan '%s' --expect-experts 640", wn_test_need_data(MAKER), first, plan_path), 0);
    CHECK_OK(wn_verify(first, source, &plan, NULL, &v, &err), &err);
    assert_int_equal(v.experts, 92 * 640);
    assert_int_equal(v.bytes, PRUNED_TENSOR_BYTES);
    print_message("dry run and prune %.1f s, with checking and verifying %.1f s\n", dry.seconds + real.seconds,
                  wn_clock_seconds() - seconds);

    /* the checkers see one byte of a slab in 441 GB */
    {
        struct place p;

        find_tensor(first, "blk.57.ffn_up_exps.weight", &p);
        flip_byte(p.path, p.at + p.bytes / 640 * 639 + 7, 0x10);
        CHECK_FAILS(wn_verify(first, source, &plan, NULL, &v, &err), &err, "layer 57, new expert 639");
    }
    wn_plan_release(&plan);
}

/*
 * The published plan's 640 experts, every one of a layer's first 160 out of the MXFP4 set of 1.51 TB, the others out of
 * UD-IQ1_S.
 */
static void k3_is_graded_out_of_its_mxfp4_and_its_iq1_s(void **state)
{
    const uint64_t weights = UINT64_C(3) * 3584 * 3072, whole = weights / 32 * 17, low = weights / 256 * 50;
    const uint64_t row = 7168 * 4 + 4, layers = 92;
    struct wn_prune_options o = {.layout = WN_LAYOUT_SPLIT, .shard_bytes = UINT64_C(50000000000), .dry_run = true};
    struct wn_prune_result dry, real;
    struct wn_verify_result v;
    struct wn_plan plan;
    struct wn_err err;
    char folder[512], hi[600], lo[600], out[600], first[600];
    const struct wn_verify_options against = {first, hi, lo, &plan, NULL};
    double seconds = wn_clock_seconds();

    (void)state;
    snprintf(hi, sizeof(hi), "%s", wn_test_need_sparse("gguf-mxfp4/" MXFP4_SET));
    snprintf(lo, sizeof(lo), "%s", wn_test_need_sparse("gguf-r1/" SET));
    snprintf(folder, sizeof(folder), "%s", wn_test_folder());
    snprintf(out, sizeof(out), "%s/cut.gguf", folder);
    CHECK_OK(wn_plan_read(&plan, wn_test_need_data(PLAN), &err), &err);
    for (uint32_t i = 0; i < plan.layer_count; i++) {
        plan.layers[i].hi_count = 160;
        plan.layers[i].lo_bits = 2;
    }
    o.source = hi;
    o.lo_source = lo;
    o.out = out;
    o.plan = &plan;
    CHECK_OK(wn_prune(&o, NULL, &dry, &err), &err);
    assert_int_equal(dry.out_tensor_bytes, MXFP4_TENSOR_BYTES - layers * (896 - 160) * whole + layers * 480 * low -
                                               layers * (896 - 640) * row);
    assert_int_equal(dry.lo_bytes, layers * 480 * low);
    o.dry_run = false;
    CHECK_OK(wn_prune(&o, NULL, &real, &err), &err);
    assert_int_equal(real.out_bytes, dry.out_bytes);
    snprintf(first, sizeof(first), "%s/cut-00001-of-%05" PRIu32 ".gguf", folder, real.files);
    assert_true(stored_bytes(folder, (int)real.files) < (uint64_t)100 << 20);
    CHECK_OK(wn_verify_all(&against, NULL, &v, &err), &err);
    assert_int_equal(v.experts, 92 * 640);
    assert_int_equal(v.bytes, real.out_tensor_bytes);
    print_message("two parents: dry run %.1f s, prune %.1f s, with verifying %.1f s\n", dry.seconds, real.seconds,
                  wn_clock_seconds() - seconds);
    {
        struct place p;

        find_tensor(first, "blk.57.ffn_up_exps_lo.weight", &p);
        flip_byte(p.path, p.at + p.bytes / 480 * 479 + 7, 0x10);
        CHECK_FAILS(wn_verify_all(&against, NULL, &v, &err), &err, "layer 57, new expert 639");
    }
    wn_plan_release(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(k3_is_cut_to_640_experts_in_seconds),
        cmocka_unit_test(k3_is_graded_out_of_its_mxfp4_and_its_iq1_s),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
