/* The parts of mixing a corpus: where documents end, what is not fit, and what a SPEC says. */
#include "wn_test.h"

#include "base/utf8.h"
#include "jobs/corpus/mix.h"
#include "vocab_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t tokens_of(struct wn_bytes text)
{
    struct wn_err err;
    uint32_t *ids;
    size_t n;

    CHECK_OK(wn_vocab_encode(vocab, text.at, text.n, false, &ids, &n, &err), &err);
    free(ids);
    return n;
}

/* Cuts all of text; every document has the tokens it is said to have, within the limit. Returns the number of them. */
static size_t cut_all(struct wn_bytes text, uint32_t most)
{
    struct wn_err err;
    uint32_t tokens;
    size_t n, count = 0;

    for (; text.n > 0; text.at += n, text.n -= n, count++) {
        CHECK_OK(wn_mix_cut(vocab, text, most, &n, &tokens, &err), &err);
        assert_true(n > 0 && n <= text.n);
        assert_int_equal(tokens, tokens_of((struct wn_bytes){text.at, n}));
        assert_true(tokens <= most);
    }
    return count;
}

static void documents_have_exactly_the_tokens_they_are_said_to_have(void **state)
{
    static const char *const names[] = {"heldout-code.txt", "heldout-en.txt", "heldout-zh.txt", "heldout-ja.txt"};
    static const uint32_t limits[] = {16, 100, 2048};

    (void)state;
    if (!vocab)
        skip();
    for (size_t i = 0; i < 4; i++) {
        char path[64];
        size_t n;
        struct wn_err err;
        char *text;

        snprintf(path, sizeof path, "corpora/%s", names[i]);
        text = wn_file_slurp(wn_test_need_data(path), 1 << 20, &n, &err);
        CHECK_OK(text, &err);
        for (size_t l = 0; l < 3; l++)
            assert_true(cut_all((struct wn_bytes){text, n < 30000 ? n : 30000}, limits[l]) > 1);
        free(text);
    }
}

static void odd_white_space_does_not_spoil_the_count(void **state)
{
    static const char spaces[][4] = {" ", "\n", "\r\n", "\t", "\u3000", "\u00a0", "\x1c", "a", "(", "\u4e16", "\xff"};
    struct wn_rng rng = {7};
    char text[4096];

    (void)state;
    if (!vocab)
        skip();
    for (int round = 0; round < 60; round++) {
        size_t n = 0;

        while (n < 600) {
            const char *s = spaces[wn_rng_below(&rng, sizeof spaces / sizeof spaces[0])];

            while (*s)
                text[n++] = *s++;
        }
        cut_all((struct wn_bytes){text, n}, 16 + (uint32_t)(round % 3) * 20);
    }
}

static void check_cut(const char *text, uint32_t most, const char *wanted)
{
    struct wn_err err;
    uint32_t tokens;
    size_t n;

    CHECK_OK(wn_mix_cut(vocab, wn_bytes_of(text), most, &n, &tokens, &err), &err);
    if (n != strlen(wanted) || memcmp(text, wanted, n) != 0)
        fail_msg("'%.*s' was cut off, wanted '%s'", (int)n, text, wanted);
}

static void a_document_ends_at_the_best_border_it_can_have(void **state)
{
    (void)state;
    if (!vocab)
        skip();
    /* with 16 tokens: all of it; a paragraph; a line where the paragraph would be too little; a sentence; a word */
    check_cut("one two\n", 16, "one two\n");
    check_cut("the same is the same\nfor the\n\n  and then\nthe same is the same as the other\n", 16,
              "the same is the same\nfor the\n\n");
    check_cut("a\n\nthe same is the same\nthe same is the same as all of the other\nthe\n", 16,
              "a\n\nthe same is the same\n");
    check_cut("the same is the same as the other. the same is the same as the other one is the same\n", 16,
              "the same is the same as the other.");
    check_cut("the the the the the the the the the the the the the the the the the the the the", 16,
              "the the the the the the the the the the the the the the the the");
}

static void a_line_without_borders_is_cut_between_characters(void **state)
{
    char text[400];
    struct wn_err err;
    uint32_t tokens;
    size_t n;

    (void)state;
    if (!vocab)
        skip();
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(wn_utf8_encode(0x20000, text + 4 * i), 4);
    CHECK_OK(wn_mix_cut(vocab, (struct wn_bytes){text, 400}, 19, &n, &tokens, &err), &err);
    assert_int_equal(n % 4, 0);
    assert_true(n > 0 && tokens <= 19);
}

static enum wn_mix_drop judge(const char *text, size_t n, bool lenient)
{
    struct wn_mix_judge j = {.lenient = lenient};
    enum wn_mix_drop why;
    struct wn_err err;

    CHECK_OK(wn_mix_judge(&j, (struct wn_bytes){text, n}, &why, &err), &err);
    wn_buf_release(&j.seen);
    return why;
}

static void check_judge(const char *text, enum wn_mix_drop wanted)
{
    enum wn_mix_drop why = judge(text, strlen(text), false);

    if (why != wanted)
        fail_msg("'%s': %s, wanted %s", text, why == WN_MIX_DROPS ? "fit" : wn_mix_drop_name(why),
                 wanted == WN_MIX_DROPS ? "fit" : wn_mix_drop_name(wanted));
}

static void what_is_damaged_is_told_from_what_is_not(void **state)
{
    (void)state;
    check_judge("All's well, na\u00efve and \u4e16\u754c\f\r\n", WN_MIX_DROPS);
    check_judge(" \n\t\u3000\n", WN_MIX_BLANK);
    check_judge("caf\xe9", WN_MIX_NOT_UTF8);
    check_judge("caf\ufffd", WN_MIX_REPLACED);
    check_judge("\u951f\u65a4\u62f7", WN_MIX_REPLACED);
    check_judge("\u951f\u65a4", WN_MIX_DROPS);
    check_judge("a\x1b[1mb", WN_MIX_CONTROL);
    check_judge("a\x7f", WN_MIX_CONTROL);
    check_judge("a\xc2\x93quoted\xc2\x94", WN_MIX_CONTROL);
    /* UTF-8 read as Latin-1 and as Windows-1252, of two, three and four bytes */
    check_judge("d\u00c3\u00a9j\u00c3\u00a0 vu \u00c3\u00a9t\u00c3\u00a9", WN_MIX_DOUBLE_ENCODED);
    check_judge("don\u00e2\u20ac\u2122t", WN_MIX_DOUBLE_ENCODED);
    check_judge("\u00f0\u0178\u02dc\u20ac", WN_MIX_DOUBLE_ENCODED);
    /* what only looks like it: a capital before a closing quotation mark, and a page about the mistake */
    check_judge("\u00abLE CAF\u00c9\u00bb, d\u00e9j\u00e0", WN_MIX_DROPS);
    check_judge("CAF\u00c9\u00bb", WN_MIX_DROPS);
    check_judge("\u4e16\u754c\u4e16\u754c\u4e16\u754c\u4e16\u754c: don\u00e2\u20ac\u2122t", WN_MIX_DROPS);
}

static void what_says_the_same_over_and_over_is_refused(void **state)
{
    char text[2001];

    (void)state;
    memset(text, '=', 2000);
    assert_int_equal(judge(text, 2000, false), WN_MIX_REPEATS);
    assert_int_equal(judge(text, 2000, true), WN_MIX_DROPS);
    assert_int_equal(judge(text, 200, false), WN_MIX_DROPS); /* a ruler is no document of rulers */
    for (int i = 0; i < 2000; i++)
        text[i] = "all work and no play"[i % 20];
    assert_int_equal(judge(text, 2000, false), WN_MIX_REPEATS);
    for (int i = 0; i < 100; i++)
        snprintf(text + 20 * i, 21, "line %d: f(%d) = %5d", i + 100, i + 100, i * i * 7);
    assert_int_equal(judge(text, 2000, false), WN_MIX_DROPS);
}

static void leniently_only_what_cannot_be_written_is_refused(void **state)
{
    (void)state;
    assert_int_equal(judge("caf\ufffd\x1b", 7, true), WN_MIX_DROPS);
    assert_int_equal(judge("caf\xe9", 4, true), WN_MIX_NOT_UTF8);
    assert_int_equal(judge(" \n", 2, true), WN_MIX_BLANK);
}

static void a_spec_is_label_paths_and_share(void **state)
{
    struct wn_mix_spec spec = {0};
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_mix_spec_add(&spec, "code=a.txt,b:c,d e:40%", &err), &err);
    CHECK_OK(wn_mix_spec_add(&spec, "en=x=y:0.6", &err), &err);
    CHECK_OK(wn_mix_spec_add(&spec, "ja=C:dir", &err), &err);
    assert_int_equal(spec.count, 3);
    assert_int_equal(spec.percents, 1);
    assert_string_equal(spec.sources[0].label, "code");
    assert_int_equal(spec.sources[0].path_count, 3);
    assert_string_equal(spec.sources[0].paths[1], "b:c");
    assert_true(spec.sources[0].share == 40);
    assert_string_equal(spec.sources[1].paths[0], "x=y");
    assert_true(spec.sources[1].share == 0.6);
    assert_string_equal(spec.sources[2].paths[0], "C:dir");
    assert_true(spec.sources[2].share == 1);
    CHECK_FAILS(wn_mix_spec_add(&spec, "code=z", &err), &err, "source 'code' is there twice");
    CHECK_FAILS(wn_mix_spec_add(&spec, "=z", &err), &err, "label '': 1 to 63 bytes");
    CHECK_FAILS(wn_mix_spec_add(&spec, "a,b=z", &err), &err, "label 'a,b': 1 to 63 bytes without '=' and ','");
    CHECK_FAILS(wn_mix_spec_add(&spec, "z=", &err), &err, "source 'z' names no file");
    CHECK_FAILS(wn_mix_spec_add(&spec, "z=a:0", &err), &err, "source 'z': a share is a number above 0");
    CHECK_FAILS(wn_mix_spec_add(&spec, "z=a:inf", &err), &err, "source 'z': a share is a number above 0");
    CHECK_FAILS(wn_mix_spec_add(&spec, "z", &err), &err, "'z' is not LABEL=PATH");
    assert_int_equal(spec.count, 3);
    wn_mix_spec_release(&spec);
}

static bool read_json(struct wn_mix_spec *spec, const char *text, struct wn_err *err)
{
    const char *path = wn_test_path(wn_test_folder(), "spec.json");

    CHECK_OK(wn_file_put(path, text, strlen(text), false, err), err);
    return wn_mix_spec_read(spec, path, err);
}

static void a_spec_in_json_says_the_same_and_more(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"{", "line 1"},
        {"[]", "there is no list 'sources'"},
        {"{\"sources\": [], \"token\": 1}", "there is no key 'token'"},
        {"{\"sources\": [], \"tokens\": -1}", "'tokens' is not a whole number"},
        {"{\"sources\": [3]}", "entry 0 of 'sources': it is not an object"},
        {"{\"sources\": [{\"label\": \"a\"}]}", "'files' is not a path"},
        {"{\"sources\": [{\"files\": \"a\"}]}", "there is no 'label'"},
        {"{\"sources\": [{\"label\": \"a\", \"files\": \"a\", \"sahre\": 1}]}", "there is no key 'sahre'"},
        {"{\"sources\": [{\"label\": \"a\", \"files\": \"a\", \"share\": \"x\"}]}", "'share' is neither"},
    };
    struct wn_mix_spec spec = {0};
    struct wn_err err;

    (void)state;
    CHECK_OK(read_json(&spec,
                       "{\"sources\": [{\"label\": \"a\", \"files\": [\"x\", \"/y\"], \"share\": \"40%\"},"
                       " {\"label\": \"b\", \"files\": \"z\", \"share\": \"60%\", \"from\": \"*\"}],"
                       " \"tokens\": 5000, \"document_tokens\": 512, \"seed\": 3, \"model\": \"k3\"}",
                       &err),
             &err);
    assert_int_equal(spec.count, 2);
    assert_int_equal(spec.percents, 2);
    assert_true(wn_test_contains(spec.sources[0].paths[0], "/x"));
    assert_string_equal(spec.sources[0].paths[1], "/y");
    assert_string_equal(spec.sources[1].from, "*");
    assert_int_equal(spec.tokens, 5000);
    assert_int_equal(spec.document_tokens, 512);
    assert_int_equal(spec.seed, 3);
    assert_string_equal(spec.model, "k3");
    wn_mix_spec_release(&spec);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_FAILS(read_json(&spec, bad[i].text, &err), &err, bad[i].says);
        wn_mix_spec_release(&spec);
    }
}

static void files_are_found_in_folders_and_by_patterns_in_order(void **state)
{
    static const char *const names[] = {"b.txt", "a.txt", "c.md", ".hidden", "sub/d.txt"};
    const char *folder = wn_test_folder();
    struct wn_mix_files f = {0};
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_path_make_folder(wn_test_path(folder, "sub"), &err), &err);
    CHECK_OK(wn_path_make_folder(wn_test_path(folder, "none"), &err), &err);
    for (size_t i = 0; i < 5; i++)
        CHECK_OK(wn_file_put(wn_test_path(folder, names[i]), "x", 1, false, &err), &err);
    CHECK_OK(wn_mix_files_add(&f, folder, &err), &err);
    CHECK_OK(wn_mix_files_add(&f, wn_test_path(folder, "*.txt"), &err), &err);
    assert_int_equal(f.n, 6);
    wn_mix_files_sort(&f);
    assert_int_equal(f.n, 4);
    assert_string_equal(f.paths[0], wn_test_path(folder, "a.txt"));
    assert_string_equal(f.paths[1], wn_test_path(folder, "b.txt"));
    assert_string_equal(f.paths[3], wn_test_path(folder, "sub/d.txt"));
    CHECK_FAILS(wn_mix_files_add(&f, wn_test_path(folder, "*.c"), &err), &err, "there is no such file");
    CHECK_FAILS(wn_mix_files_add(&f, wn_test_path(folder, "none"), &err), &err, "there is no file in it");
    wn_mix_files_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_have_exactly_the_tokens_they_are_said_to_have),
        cmocka_unit_test(odd_white_space_does_not_spoil_the_count),
        cmocka_unit_test(a_document_ends_at_the_best_border_it_can_have),
        cmocka_unit_test(a_line_without_borders_is_cut_between_characters),
        cmocka_unit_test(what_is_damaged_is_told_from_what_is_not),
        cmocka_unit_test(what_says_the_same_over_and_over_is_refused),
        cmocka_unit_test(leniently_only_what_cannot_be_written_is_refused),
        cmocka_unit_test(a_spec_is_label_paths_and_share),
        cmocka_unit_test(a_spec_in_json_says_the_same_and_more),
        cmocka_unit_test(files_are_found_in_folders_and_by_patterns_in_order),
    };

    return cmocka_run_group_tests(tests, open_vocab, close_vocab);
}
