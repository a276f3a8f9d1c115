/* Messages: what they lose when they are too long, and how they are shown. */
#include "wn_test.h"

#include <stdio.h>
#include <string.h>

static struct wn_err err;

static const char *long_name(size_t n)
{
    static char name[8000];

    assert_int_equal(snprintf(name, sizeof name, "/first/%0*d.last", (int)n - 12, 0), n);
    return name;
}

static void a_long_name_is_shortened_in_the_middle_and_the_reason_stays(void **state)
{
    (void)state;
    for (size_t n = 400; n < 7000; n += n < 600 ? 1 : 500) {
        assert_false(wn_fail(&err, WN_ERR_IO, "'%s': No such file or directory", long_name(n)));
        assert_true(strlen(err.msg) < sizeof err.msg);
        assert_true(wn_test_contains(err.msg, "'/first/"));
        assert_true(wn_test_contains(err.msg, ".last': No such file or directory"));
        /* of the whole sentence nothing is taken before it must be */
        assert_int_equal(n + strlen("'': No such file or directory") >= sizeof err.msg,
                         wn_test_contains(err.msg, "..."));
    }
}

static void what_is_put_before_shortens_the_name_and_not_the_reason(void **state)
{
    (void)state;
    (void)wn_fail(&err, WN_ERR_FORMAT, "tensor 'blk.0' has 12 bytes, wanted 13");
    assert_false(wn_fail_in(&err, "'%s'", long_name(2000)));
    assert_int_equal(err.code, WN_ERR_FORMAT);
    assert_true(wn_test_contains(err.msg, ".last': tensor 'blk.0' has 12 bytes, wanted 13"));
    (void)wn_fail_in(&err, "'%s'", long_name(2000)); /* two long names share the room */
    assert_true(wn_test_contains(err.msg, ".last': tensor 'blk.0' has 12 bytes, wanted 13"));
    assert_true(strlen(err.msg) < sizeof err.msg);
}

static void a_long_message_without_a_name_keeps_both_ends(void **state)
{
    (void)state;
    (void)wn_fail(&err, WN_ERR_ARG, "it's %s, in the end", long_name(3000));
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    assert_true(wn_test_contains(err.msg, "it's /first/"));
    assert_true(wn_test_contains(err.msg, ".last, in the end"));
}

static void a_name_is_not_cut_within_a_character(void **state)
{
    char name[1201] = "";

    (void)state;
    for (size_t n = 0; n < 4; n++) {
        memset(name, 'x', n);
        for (size_t i = n; i + 3 < sizeof name; i += 3)
            memcpy(name + i, "\xe5\xad\x97", 4);
        (void)wn_fail(&err, WN_ERR_IO, "'%s': gone", name);
        for (const char *p = strchr(err.msg, '\'') + 1 + n; *p != '\''; p += *p == '.' ? 1 : 3)
            assert_true(*p == '.' || memcmp(p, "\xe5\xad\x97", 3) == 0);
    }
}

static void shown_is(const char *text, const char *keep, const char *wanted)
{
    char out[200];
    size_t n = wn_visible(text, strlen(text), keep, out);

    out[n] = '\0';
    assert_string_equal(out, wanted);
}

static void control_characters_are_shown_and_not_sent(void **state)
{
    char out[4];

    (void)state;
    shown_is("plain, \xc3\xa9 \xe5\xad\x97 \xf0\x9f\x98\x80", "", "plain, \xc3\xa9 \xe5\xad\x97 \xf0\x9f\x98\x80");
    shown_is("a\x1b[31m\a\r\n\t\x7f", "", "a\\x1b[31m\\x07\\x0d\\x0a\\x09\\x7f");
    shown_is("a\x1b\r\n\t", "\n\t", "a\\x1b\\x0d\n\t");
    /* C1: as a character (CSI), and as a byte that is no UTF-8 */
    shown_is("\xc2\x9b"
             "31m \xc2\xa0 \x9b",
             "", "\\x9b31m \xc2\xa0 \\x9b");
    shown_is("\xe5\xad", "", "\\xe5\\xad");
    assert_int_equal(wn_visible("\0", 1, "\n", out), 4);
    assert_memory_equal(out, "\\x00", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_name_is_shortened_in_the_middle_and_the_reason_stays),
        cmocka_unit_test(what_is_put_before_shortens_the_name_and_not_the_reason),
        cmocka_unit_test(a_long_message_without_a_name_keeps_both_ends),
        cmocka_unit_test(a_name_is_not_cut_within_a_character),
        cmocka_unit_test(control_characters_are_shown_and_not_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
