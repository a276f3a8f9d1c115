/* Cuts and pieces: what happens to text before any vocabulary is asked. */
#include "golden.h"

#include "text/split.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Splits the n bytes and writes up to room piece lengths; returns how many pieces there were. */
static size_t split(const struct wn_pattern *p, const char *bytes, size_t n, size_t *lengths, size_t room)
{
    struct wn_err err;
    struct wn_split s;
    char *masked;
    size_t pieces = 0;
    struct wn_bytes text = {bytes, n};

    CHECK_OK(wn_split_init(&s, p, &err), &err);
    CHECK_OK(wn_split_mask(text, &masked, &err), &err);
    text.at = masked ? masked : bytes;
    while (text.n > 0) {
        size_t piece = wn_split_piece(&s, text, &err);

        CHECK_OK(piece > 0 && piece <= text.n, &err);
        if (pieces < room)
            lengths[pieces] = piece;
        pieces++;
        text.at += piece;
        text.n -= piece;
    }
    free(masked);
    wn_split_release(&s);
    return pieces;
}

static struct wn_pattern *pattern(bool jit)
{
    struct wn_err err;
    struct wn_pattern *p = wn_pattern_new(jit, &err);

    CHECK_OK(p, &err);
    return p;
}

/* True when the case splits as its 'piece_lengths' say. */
static bool splits_as_wanted(const struct wn_pattern *p, const json_t *c)
{
    const json_t *want = json_object_get(c, "piece_lengths");
    size_t lengths[512], n, pieces;
    char *text = golden_input(c, &n);
    bool same;

    pieces = split(p, text, n, lengths, 512);
    same = pieces == json_array_size(want);
    for (size_t i = 0; same && i < pieces; i++)
        same = (json_int_t)lengths[i] == json_integer_value(json_array_get(want, i));
    free(text);
    return same;
}

static void check_golden_pieces(bool jit)
{
    struct wn_pattern *p = pattern(jit);
    struct golden g;
    size_t n = 0;
    json_t *c;

    golden_open(&g, wn_test_need_data("golden/tokenizer/pretok.jsonl"));
    while ((c = golden_next(&g)) != NULL) {
        if (!splits_as_wanted(p, c))
            fail_msg("%s splits otherwise", golden_name(c));
        json_decref(c);
        n++;
    }
    assert_int_equal(n, 464);
    wn_pattern_free(p);
}

static void golden_texts_split_into_the_golden_pieces(void **state)
{
    (void)state;
    check_golden_pieces(true);
}

static void the_interpreter_splits_as_machine_code_does(void **state)
{
    (void)state;
    check_golden_pieces(false);
}

static void a_wrong_piece_length_is_noticed(void **state)
{
    struct wn_pattern *p = pattern(true);
    json_t *right = json_pack("{s:s, s:[i,i,i]}", "text", "a  b", "piece_lengths", 1, 1, 2);
    json_t *wrong = json_pack("{s:s, s:[i,i,i]}", "text", "a  b", "piece_lengths", 1, 2, 1);

    (void)state;
    assert_true(splits_as_wanted(p, right));
    assert_false(splits_as_wanted(p, wrong));
    json_decref(right);
    json_decref(wrong);
    wn_pattern_free(p);
}

struct example {
    const char *text, *pieces; /* pieces with | between */
};

static void check_example(const struct wn_pattern *p, struct example e)
{
    size_t lengths[32], n = split(p, e.text, strlen(e.text), lengths, 32), at = 0, used = 0;
    char got[256];

    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(got + used, sizeof got - used, "%s%.*s", i ? "|" : "", (int)lengths[i], e.text + at),
            at += lengths[i];
    assert_string_equal(got, e.pieces);
}

static void han_is_the_script_and_not_its_extensions(void **state)
{
    static const struct example examples[] = {
        {"\xe3\x80\x85\xe3\x80\x87", "\xe3\x80\x85\xe3\x80\x87"},  /* 々〇 are Han */
        {"\xe4\xb8\x80\xe3\x80\x82", "\xe4\xb8\x80|\xe3\x80\x82"}, /* 。 is shared by scripts, so is not */
        {"\xe4\xb8\x80\xe3\x83\xbc", "\xe4\xb8\x80|\xe3\x83\xbc"}, /* ー */
        {"a\xe4\xbd\xa0\x62", "a|\xe4\xbd\xa0|b"},
    };
    struct wn_pattern *p = pattern(true);

    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        check_example(p, examples[i]);
    wn_pattern_free(p);
}

static void space_is_white_space_as_unicode_has_it(void **state)
{
    static const struct example examples[] = {
        {"a \x1c", "a| \x1c"},                  /* a separator is no space: the tail of rule 5 */
        {"a\x1c\x1c  ", "a|\x1c\x1c|  "},       /* and does not join a run of spaces */
        {"a\xe2\x80\x8b ", "a|\xe2\x80\x8b| "}, /* nor does U+200B */
        {"a\xe1\xa0\x8e ", "a|\xe1\xa0\x8e| "}, /* nor U+180E */
        {"a\xe3\x80\x80 ", "a|\xe3\x80\x80 "},  /* U+3000 does */
        {"a\xc2\x85 ", "a|\xc2\x85 "},          /* and U+0085 */
    };
    struct wn_pattern *p = pattern(true);

    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        check_example(p, examples[i]);
    wn_pattern_free(p);
}

static void contractions_match_in_any_case_and_with_the_long_s(void **state)
{
    static const struct example examples[] = {
        {"IT'S", "IT'S"},
        {"it'\xc5\xbf ok", "it'\xc5\xbf| ok"},
        {"we'Ll've", "we'Ll|'ve"},
        {"a'x", "a|'x"},
    };
    struct wn_pattern *p = pattern(true);

    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        check_example(p, examples[i]);
    wn_pattern_free(p);
}

static void each_invalid_byte_counts_as_one_character(void **state)
{
    struct wn_err err;
    char *masked;

    (void)state;
    CHECK_OK(wn_split_mask((struct wn_bytes){"a\xe4\xbd\xed\xa0\x80z\xc3\xa9\xff", 9}, &masked, &err), &err);
    assert_non_null(masked);
    assert_memory_equal(masked, "a\1\1\1\1\1z\xc3\xa9\1", 9);
    free(masked);
    CHECK_OK(wn_split_mask(wn_bytes_of("h\xc3\xa9"), &masked, &err), &err);
    assert_null(masked);
}

/* Text of `count` times `unit`; free it. */
static struct wn_bytes repeat(const char *unit, size_t count)
{
    size_t n = strlen(unit);
    char *s = malloc(n * count + 1);

    for (size_t i = 0; i < count; i++)
        memcpy(s + i * n, unit, n);
    return (struct wn_bytes){s, n * count};
}

/* Fails unless text is cut into parts of these many bytes. */
static void check_cuts(struct wn_bytes text, size_t n, const size_t *bytes)
{
    struct wn_cuts cuts = wn_cuts_of(text);
    struct wn_bytes part;

    for (size_t i = 0; i < n; i++) {
        assert_true(wn_cuts_next(&cuts, &part));
        assert_int_equal(part.n, bytes[i]);
    }
    assert_false(wn_cuts_next(&cuts, &part));
    free((char *)text.at);
}

static void runs_are_cut_before_their_character_25001(void **state)
{
    (void)state;
    check_cuts(repeat("a", 25000), 1, (size_t[]){25000});
    check_cuts(repeat("a", 25001), 2, (size_t[]){25000, 1});
    check_cuts(repeat("a", 60000), 3, (size_t[]){25000, 25000, 10000});
    check_cuts(repeat("\xe5\xa5\xbd", 26000), 2, (size_t[]){75000, 3000}); /* characters are counted, not bytes */
    check_cuts(repeat(" \x1c", 13000), 2, (size_t[]){25000, 1000});        /* here a separator is a space */
    check_cuts(repeat("word ", 20000), 1, (size_t[]){100000});
}

static void texts_are_cut_at_every_400000_characters(void **state)
{
    (void)state;
    check_cuts(repeat("word ", 80000), 1, (size_t[]){400000});
    check_cuts(repeat("word ", 100000), 2, (size_t[]){400000, 100000});
    check_cuts(repeat("\xc3\xa9 ", 500000), 3, (size_t[]){600000, 600000, 300000});
    /* a run that goes on over the boundary is counted anew */
    check_cuts(repeat("1234567 ", 50000), 1, (size_t[]){400000});
}

/* Windows of the text as it is are where the cuts of the masked one are, whatever the bytes. */
static void windows_end_where_a_cut_is_in_any_case(void **state)
{
    static const char *const units[] = {"word ", "\xc3\xa9 ", "\xe5\xa5\xbd\xff x", "\xf0\x9f\x98\x80",
                                        "a\xf0\x9f \xe5"};

    (void)state;
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        struct wn_bytes text = repeat(units[u], 300000), masked = text, part;
        struct wn_cuts cuts;
        struct wn_err err;
        char *copy;
        size_t at = 0;

        CHECK_OK(wn_split_mask(text, &copy, &err), &err);
        if (copy)
            masked.at = copy;
        cuts = wn_cuts_of(masked);
        while (at < text.n) {
            size_t n = wn_cuts_window((struct wn_bytes){text.at + at, text.n - at});

            assert_true(n > 0 && n <= WN_WINDOW_BYTES);
            for (size_t end = at + n; at < end; at += part.n)
                assert_true(wn_cuts_next(&cuts, &part));
            assert_int_equal(part.at + part.n - masked.at, at);
        }
        assert_false(wn_cuts_next(&cuts, &part));
        free(copy);
        free((char *)text.at);
    }
}

static void nothing_is_cut_into_no_parts(void **state)
{
    (void)state;
    check_cuts(repeat("a", 0), 0, NULL);
}

/*
 * Runs as they reach the pattern, after the cuts: a backtracking matcher goes back over them, which must neither take
 * time with the square of the length nor run out of its stack.
 */
static void a_run_of_anything_splits_in_linear_time(void **state)
{
    static const char *const units[] = {
        "a",    "A",  " ",  "\n", "7",   "\xe5\xa5\xbd",  "\xe3\x81\x82",    "=", " \n", "\x1c", "\x1c!", "\xcc\x81",
        "\xff", "aA", "\r", "'",  "\t ", "A\xe3\x81\x82", "\xe3\x81\x82\x41"};

    (void)state;
    for (int jit = 0; jit < 2; jit++) {
        struct wn_pattern *p = pattern(jit);

        for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
            struct wn_bytes text = repeat(units[i], 1 << 18);
            clock_t start = clock();

            assert_true(split(p, text.at, text.n, NULL, 0) > 0);
            /* some ms; going back over 2^18 characters for each of them would take minutes */
            assert_true(clock() - start < 5 * CLOCKS_PER_SEC);
            free((char *)text.at);
        }
        wn_pattern_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_texts_split_into_the_golden_pieces),
        cmocka_unit_test(the_interpreter_splits_as_machine_code_does),
        cmocka_unit_test(a_wrong_piece_length_is_noticed),
        cmocka_unit_test(han_is_the_script_and_not_its_extensions),
        cmocka_unit_test(space_is_white_space_as_unicode_has_it),
        cmocka_unit_test(contractions_match_in_any_case_and_with_the_long_s),
        cmocka_unit_test(each_invalid_byte_counts_as_one_character),
        cmocka_unit_test(runs_are_cut_before_their_character_25001),
        cmocka_unit_test(texts_are_cut_at_every_400000_characters),
        cmocka_unit_test(windows_end_where_a_cut_is_in_any_case),
        cmocka_unit_test(nothing_is_cut_into_no_parts),
        cmocka_unit_test(a_run_of_anything_splits_in_linear_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
