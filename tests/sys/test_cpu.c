/* Processor bits and their narrowing. */
#include "sys/cpu.h"
#include "wn_test.h"

static struct wn_err err;

static void without_a_word_everything_detected_is_kept(void **state)
{
    unsigned cpu = 99;

    (void)state;
    CHECK_OK(wn_cpu_narrow(WN_CPU_AVX2 | WN_CPU_AVX512, NULL, &cpu, &err), &err);
    assert_int_equal(cpu, WN_CPU_AVX2 | WN_CPU_AVX512);
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
    CHECK_FAILS(wn_cpu_narrow(WN_CPU_AVX2, "", &cpu, &err), &err, "WINNOW_CPU is ''");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_word_everything_detected_is_kept),
        cmocka_unit_test(a_word_narrows),
        cmocka_unit_test(what_the_processor_lacks_is_an_error),
        cmocka_unit_test(an_unknown_word_is_an_error_that_names_the_known_ones),
        cmocka_unit_test(detection_is_steady_and_fits_the_architecture),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
