/* The packed code books say what the reference's books say. */
#include "golden.h"
#include "quant/grids.h"

#include <stdio.h>
#include <stdlib.h>

/* Checks rows of `width` numbers, `bits` bits a place, against array `name`. */
static void check_book(const char *name, const uint16_t *rows, size_t n, int width, int bits, const int8_t *levels)
{
    size_t bytes, wrong = 0;
    uint8_t *file = golden_file("grids.safetensors", &bytes);
    const int8_t *wanted = golden_array(file, bytes, name, n * (size_t)width);

    for (size_t i = 0; i < n; i++)
        for (int j = 0; j < width; j++)
            wrong += levels[rows[i] >> bits * j & ((1 << bits) - 1)] != wanted[i * (size_t)width + (size_t)j];
    if (wrong)
        fail_msg("%s: %zu numbers differ", name, wrong);
    free(file);
}

static void every_row_of_every_book_is_the_reference_row(void **state)
{
    (void)state;
    check_book("iq1s_grid", wn_iq1s_grid, 2048, 8, 2, wn_iq1_levels);
    check_book("iq2xxs_grid", wn_iq2xxs_grid, 256, 8, 2, wn_iq2_levels);
    check_book("iq2xs_grid", wn_iq2xs_grid, 512, 8, 2, wn_iq2_levels);
    check_book("iq2s_grid", wn_iq2s_grid, 1024, 8, 2, wn_iq2_levels);
    check_book("iq3xxs_grid", wn_iq3xxs_grid, 256, 4, 3, wn_iq3xxs_levels);
    check_book("iq3s_grid", wn_iq3s_grid, 512, 4, 3, wn_iq3s_levels);
}

static void the_sixteen_values_of_iq4_are_the_reference_values(void **state)
{
    size_t bytes;
    uint8_t *file = golden_file("grids.safetensors", &bytes);

    (void)state;
    assert_memory_equal(golden_array(file, bytes, "iq4nl_values", 16), wn_iq4nl_values, 16);
    free(file);
}

/* The generator is run again: what is committed is what it writes. */
static void the_committed_file_is_what_the_generator_writes(void **state)
{
    char command[1024];

    (void)state;
    if (system("python3 -c 'import json' >/dev/null 2>&1") != 0)
        skip();
    snprintf(command, sizeof command, "python3 %s/tools/make_grids.py '%s' | cmp -s - %s/src/quant/grids.c",
             WN_TEST_SOURCE_DIR, wn_test_need_data("golden/quants/grids.safetensors"), WN_TEST_SOURCE_DIR);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_of_every_book_is_the_reference_row),
        cmocka_unit_test(the_sixteen_values_of_iq4_are_the_reference_values),
        cmocka_unit_test(the_committed_file_is_what_the_generator_writes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
