/* Numbers as text: shortest, exact, and the same in every locale. */
#include "wn_test.h"

#include "base/number.h"
#include "base/rng.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_texts(void)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = {{0, "0"},
                 {2, "2"},
                 {-0.5, "-0.5"},
                 {0.1, "0.1"},
                 {1.0 / 3, "0.3333333333333333"},
                 {123456.75, "123456.75"},
                 {1e-300, "1e-300"},
                 {2.5e300, "2.5e+300"},
                 {0.1 + 0.2, "0.30000000000000004"}};
    char text[WN_NUMBER_BYTES];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(wn_number_text(cases[i].v, text), cases[i].text);
}

static void a_number_is_told_in_as_few_digits_as_tell_it(void **state)
{
    struct wn_rng r = {1};
    char text[WN_NUMBER_BYTES];

    (void)state;
    check_texts();
    for (int i = 0; i < 2000; i++) {
        double v = ldexp(wn_rng_unit(&r) - 0.5, (int)wn_rng_below(&r, 1200) - 600);

        assert_true(strtod(wn_number_text(v, text), NULL) == v);
    }
}

/* The test makes its own German locale, since machines that build programs seldom have one. */
static void a_locale_with_commas_changes_nothing(void **state)
{
    const char *folder = wn_test_folder();
    char command[512], with_comma[32];

    (void)state;
    (void)snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s/wn_TEST.UTF-8' >/dev/null 2>&1", folder);
    if (system(command) < 0 || setenv("LOCPATH", folder, 1) != 0 || !setlocale(LC_ALL, "wn_TEST.UTF-8")) {
        print_message("no locale with commas can be made here\n");
        skip();
    }
    (void)snprintf(with_comma, sizeof with_comma, "%g", 0.5);
    assert_string_equal(with_comma, "0,5"); /* the danger is there */
    check_texts();
    (void)setlocale(LC_ALL, "C");
}

static void a_size_is_told_to_the_byte_and_in_three_digits_that_are_enough(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {{0, "0 bytes"},
                 {999, "999 bytes"},
                 {1000, "1000 bytes (1.00 KB)"},
                 {25000000, "25000000 bytes (25.0 MB)"},
                 {17825792, "17825792 bytes (17.9 MB)"},
                 {9999999, "9999999 bytes (10.00 MB)"},
                 {231735296, "231735296 bytes (232 MB)"},
                 {1560936091448, "1560936091448 bytes (1.57 TB)"},
                 {UINT64_MAX, "18446744073709551615 bytes (18.5 EB)"}};
    char out[WN_SIZE_TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_string_equal(wn_size_text(sizes[i].bytes, out), sizes[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_is_told_in_as_few_digits_as_tell_it),
        cmocka_unit_test(a_size_is_told_to_the_byte_and_in_three_digits_that_are_enough),
        cmocka_unit_test(a_locale_with_commas_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
