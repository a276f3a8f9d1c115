/* Processor bits and their narrowing. */
#include "sys/cpu.h"
#include "wn_test.h"

#include <stdio.h>
#include <sys/stat.h>

static struct wn_err err;

static void without_a_word_everything_detected_is_kept(void **state)
{
    unsigned cpu = 99;

    (void)state;
    CHECK_OK(wn_cpu_narrow(WN_CPU_AVX2 | WN_CPU_AVX512, NULL, &cpu, &err), &err);
    assert_int_equal(cpu, WN_CPU_AVX2 | WN_CPU_AVX512);
    CHECK_OK(wn_cpu_narrow(WN_CPU_AVX2, "", &cpu, &err), &err); /* as unset */
    assert_int_equal(cpu, WN_CPU_AVX2);
    CHECK_OK(wn_cpu_narrow(WN_CPU_NEON, "native", &cpu, &err), &err);
    assert_int_equal(cpu, WN_CPU_NEON);
}

static void a_word_narrows(void **state)
{
    const unsigned all = WN_CPU_AVX2 | WN_CPU_AVX512;
    unsigned cpu = 99;

    (void)state;
    CHECK_OK(wn_cpu_narrow(all, "scalar", &cpu, &err), &err);
    assert_int_equal(cpu, 0);
    CHECK_OK(wn_cpu_narrow(all, "avx2", &cpu, &err), &err);
    assert_int_equal(cpu, WN_CPU_AVX2);
    CHECK_OK(wn_cpu_narrow(all, "avx512", &cpu, &err), &err);
    assert_int_equal(cpu, all);
    CHECK_OK(wn_cpu_narrow(WN_CPU_NEON, "neon", &cpu, &err), &err);
    assert_int_equal(cpu, WN_CPU_NEON);
}

static void what_the_processor_lacks_is_an_error(void **state)
{
    unsigned cpu;

    (void)state;
    CHECK_FAILS(wn_cpu_narrow(WN_CPU_AVX2, "avx512", &cpu, &err), &err, "has no avx512");
    CHECK_FAILS(wn_cpu_narrow(0, "avx2", &cpu, &err), &err, "has no avx2");
    CHECK_FAILS(wn_cpu_narrow(WN_CPU_AVX2, "neon", &cpu, &err), &err, "has no neon");
}

static void an_unknown_word_is_an_error_that_names_the_known_ones(void **state)
{
    unsigned cpu;

    (void)state;
    CHECK_FAILS(wn_cpu_narrow(WN_CPU_AVX2, "AVX2", &cpu, &err), &err, "scalar, avx2, avx512, neon or native");
    CHECK_FAILS(wn_cpu_narrow(WN_CPU_AVX2, "avx", &cpu, &err), &err, "WINNOW_CPU is 'avx'");
}

static void detection_is_steady_and_fits_the_architecture(void **state)
{
    unsigned cpu = wn_cpu_detect();

    (void)state;
    assert_int_equal(cpu, wn_cpu_detect());
    assert_true(!(cpu & WN_CPU_AVX512) || (cpu & WN_CPU_AVX2));
#if defined(__aarch64__)
    assert_int_equal(cpu, WN_CPU_NEON);
#elif defined(__x86_64__)
    assert_false(cpu & WN_CPU_NEON);
#if defined(__GNUC__)
    /* the compiler's own reader of the same bits is a second opinion */
    assert_int_equal(!!(cpu & WN_CPU_AVX2), __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    assert_int_equal(!!(cpu & WN_CPU_AVX512), __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                                  __builtin_cpu_supports("avx512vl") &&
                                                  __builtin_cpu_supports("avx512dq"));
#endif
#endif
    assert_true(wn_cpu_count() >= 1);
}

/* Processor `i` of a machine in `folder` whose hardware threads are `list`. */
static void make_processor(const char *folder, unsigned i, const char *list)
{
    char name[64];
    FILE *f;

    snprintf(name, sizeof name, "cpu%u", i);
    assert_int_equal(mkdir(wn_test_path(folder, name), 0700), 0);
    snprintf(name, sizeof name, "cpu%u/topology", i);
    assert_int_equal(mkdir(wn_test_path(folder, name), 0700), 0);
    snprintf(name, sizeof name, "cpu%u/topology/thread_siblings_list", i);
    f = fopen(wn_test_path(folder, name), "w");
    assert_non_null(f);
    fprintf(f, "%s\n", list);
    fclose(f);
}

static void hardware_threads_of_a_core_count_once(void **state)
{
    const bool all[8] = {1, 1, 1, 1, 1, 1, 1, 1}, one_core[8] = {0, 0, 1, 0, 0, 0, 1, 0};
    const bool some[8] = {1, 1, 0, 0, 0, 0, 1, 0};
    char two_each[256], side_by_side[256];

    snprintf(two_each, sizeof two_each, "%s", wn_test_folder());
    snprintf(side_by_side, sizeof side_by_side, "%s", wn_test_folder());
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        char list[16];

        snprintf(list, sizeof list, "%u,%u", i % 4, i % 4 + 4);
        make_processor(two_each, i, list);
        snprintf(list, sizeof list, "%u-%u", i / 2 * 2, i / 2 * 2 + 1);
        make_processor(side_by_side, i, list);
    }
    assert_int_equal(wn_cpu_cores_in(two_each, all, 8), 4);
    assert_int_equal(wn_cpu_cores_in(side_by_side, all, 8), 4);
    assert_int_equal(wn_cpu_cores_in(two_each, one_core, 8), 1);
    assert_int_equal(wn_cpu_cores_in(side_by_side, some, 8), 2);
    assert_int_equal(wn_cpu_cores_in(wn_test_folder(), all, 8), 0); /* not told */
    assert_in_range(wn_cpu_core_count(), 1, wn_cpu_count());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_word_everything_detected_is_kept),
        cmocka_unit_test(a_word_narrows),
        cmocka_unit_test(what_the_processor_lacks_is_an_error),
        cmocka_unit_test(an_unknown_word_is_an_error_that_names_the_known_ones),
        cmocka_unit_test(detection_is_steady_and_fits_the_architecture),
        cmocka_unit_test(hardware_threads_of_a_core_count_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
