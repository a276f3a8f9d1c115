/* HTML by format: text cannot become markup, numbers look the same everywhere. */
#include "jobs/report/html.h"
#include "base/alloc.h"
#include "wn_test.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>

static void check_html(struct wn_html *h, const char *want)
{
    if (h->failed)
        fail_msg("%s", h->err->msg);
    if (h->b.n != strlen(want) || memcmp(h->b.at, want, h->b.n) != 0)
        fail_msg("wrote '%.*s', wanted '%s'", (int)h->b.n, h->b.at, want);
    wn_buf_release(&h->b);
}

static void text_is_never_markup(void **state)
{
    struct wn_err err;
    struct wn_html h = {.err = &err};

    (void)state;
    wn_html_put(&h, "<p class=\"%s\">%s</p>", "\"><script>", "a&b <i>'c'</i>");
    check_html(&h, "<p class=\"&quot;&gt;&lt;script&gt;\">a&amp;b &lt;i&gt;&#39;c&#39;&lt;/i&gt;</p>");
}

static void text_is_no_markdown_either(void **state)
{
    struct wn_err err;
    struct wn_html h = {.err = &err, .markdown = true};

    (void)state;
    wn_html_put(&h, "| **%s** |", "a|b `*_[x](y)!\\ #~$^@: <i>");
    check_html(&h, "| **a\\|b \\`\\*\\_\\[x\\](y)\\!\\\\ \\#\\~\\$\\^\\@\\: &lt;i&gt;** |");
}

static void what_a_page_may_not_hold_becomes_the_replacement_character(void **state)
{
    struct wn_err err;
    struct wn_html h = {.err = &err};

    (void)state;
    /* a control, a C1 control, a stray byte, a non-character; a real one stays */
    wn_html_put(&h, "%s", "\x1b[2J\xc2\x9b \xff \xef\xbf\xbf \xe6\x97\xa5");
    check_html(&h, "\xef\xbf\xbd[2J\xef\xbf\xbd \xef\xbf\xbd \xef\xbf\xbd \xe6\x97\xa5");
}

static void numbers_have_a_point_and_commas(void **state)
{
    struct wn_err err;
    struct wn_html h = {.err = &err};

    (void)state;
    (void)setlocale(LC_ALL, "de_DE.UTF-8"); /* where there is one */
    wn_html_put(&h, "%u %zu %" PRIu64 " %'" PRIu64 " %'u %'u|", 7u, (size_t)1234, UINT64_MAX, UINT64_C(1560936091448),
                999u, 1000u);
    wn_html_put(&h, "%.0f %.1f %.2f %.3f %.1f %.2f %.1f %.2f%%", 2.5, 0.05, 12.3456, -1.0005, -0.04, 99.999, 1234567.0,
                1e14);
    (void)setlocale(LC_ALL, "C");
    check_html(&h, "7 1234 18446744073709551615 1,560,936,091,448 999 1,000|"
                   "3 0.1 12.35 -1.001 0.0 100.00 1234567.0 100000000000000.00%");
}

static void what_is_no_number_is_not_measured(void **state)
{
    struct wn_err err;
    struct wn_html h = {.err = &err};

    (void)state;
    wn_html_put(&h, "%.1f, %.2f, %.0f", NAN, INFINITY, 1e15);
    check_html(&h, "not measured, not measured, not measured");
}

static void the_first_failure_stays(void **state)
{
    struct wn_err err;
    struct wn_html h = {.err = &err};

    (void)state;
    wn_alloc_fail_after(0);
    wn_html_put(&h, "%s", "a");
    wn_alloc_fail_after(-1);
    wn_html_put(&h, "%s", "b");
    assert_false(wn_html_ok(&h));
    assert_int_equal(err.code, WN_ERR_NOMEM);
    assert_int_equal(h.b.n, 0);
    wn_buf_release(&h.b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_never_markup),
        cmocka_unit_test(text_is_no_markdown_either),
        cmocka_unit_test(what_a_page_may_not_hold_becomes_the_replacement_character),
        cmocka_unit_test(numbers_have_a_point_and_commas),
        cmocka_unit_test(what_is_no_number_is_not_measured),
        cmocka_unit_test(the_first_failure_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
