/*
 * The start-up on processors older than this one, through qemu's user emulation: the test runs itself there as a child
 * that takes the process's table, calls most of it and prints its name. An instruction that the old processor lacks
 * would end the child with a signal. Skipped where there is no qemu-x86_64, on other machines, and in sanitizer builds
 * (which qemu cannot run).
 */
#include "kernels/kernels.h"
#include "wn_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static const char *self;

static int child(void)
{
    static const uint8_t block[34] = {0x78, 1, 2, 3};
    struct wn_matrix m = {.type = WN_MXFP4, .rows = 1, .cols = 32, .data = block, .row_bytes = 17};
    float x[64], y[64];
    struct wn_err err;
    const struct wn_kernels *k = wn_kernels_get(&err);

    if (!k) {
        printf("%s\n", err.msg);
        return 0;
    }
    for (int i = 0; i < 64; i++)
        x[i] = (float)i / 64;
    k->exp(x, y, 64);
    k->situ(x, y, 4, 25, y, 64);
    k->softplus(x, y, 63);
    k->softmax(y, 33);
    k->rms_norm(x, NULL, 1e-5f, y, 50);
    wn_matrix_mul_rows(k, &m, 0, 1, x, 32, 2, y, 1);
    wn_matrix_mul_rows(k, &m, 0, 1, x, 32, 1, y, 1);
    y[1] = k->dot_f16(block, x, 17) + k->dot_q8_0(block, x, 32) + k->dot_bf16(block, x, 17);
    printf("%s\n", k->name);
    return 0;
}

/* What the child prints on that processor; it must end well. */
static void name_on(const char *cpu, const char *setting, char name[200])
{
    char command[4096];
    FILE *out;

    snprintf(command, sizeof(command), "%s qemu-x86_64 -cpu %s '%s' --child 2>/dev/null", setting, cpu, self);
    out = popen(command, "r");
    assert_non_null(out);
    if (!fgets(name, 200, out))
        name[0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    if (pclose(out) != 0)
        fail_msg("on %s the child ended badly", cpu);
}

static void need_emulator(void)
{
#if defined(SANITIZED) || !defined(__x86_64__)
    printf("qemu-x86_64 cannot run this build\n");
    skip();
#endif
    if (system("qemu-x86_64 --version >/dev/null 2>&1") != 0) {
        printf("there is no qemu-x86_64\n");
        skip();
    }
}

static void an_old_processor_gets_the_scalar_table(void **state)
{
    static const char *const old[] = {"qemu64", "Nehalem", "Conroe", "SandyBridge"};
    char name[200];

    (void)state;
    need_emulator();
    for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++) {
        name_on(old[i], "WINNOW_CPU=native", name);
        assert_string_equal(name, "scalar");
    }
}

static void a_newer_one_gets_avx2_and_can_be_narrowed(void **state)
{
    char name[200];

    (void)state;
    need_emulator();
    name_on("Haswell", "WINNOW_CPU=native", name);
    assert_string_equal(name, "avx2");
    name_on("Haswell", "WINNOW_CPU=scalar", name);
    assert_string_equal(name, "scalar");
}

static void asking_an_old_processor_for_what_it_lacks_is_an_error(void **state)
{
    char name[200];

    (void)state;
    need_emulator();
    name_on("Nehalem", "WINNOW_CPU=avx2", name);
    assert_string_equal(name, "WINNOW_CPU is 'avx2', but this processor has no avx2");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_old_processor_gets_the_scalar_table),
        cmocka_unit_test(a_newer_one_gets_avx2_and_can_be_narrowed),
        cmocka_unit_test(asking_an_old_processor_for_what_it_lacks_is_an_error),
    };

    if (argc > 1 && strcmp(argv[1], "--child") == 0)
        return child();
    self = argv[0];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
