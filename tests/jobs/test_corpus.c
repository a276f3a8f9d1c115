/* The corpus file: what a line says, how texts are joined and cut, and what is refused with its line's number. */
#include "vocab_fixture.h"
#include "wn_test.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "jobs/corpus/corpus.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/model.h>

static const char *put(const char *name, const char *text, size_t n)
{
    const char *path = wn_test_path(wn_test_folder(), name);
    struct wn_err err;

    CHECK_OK(wn_file_put(path, text, n, false, &err), &err);
    return path;
}

static bool read_text(struct wn_corpus *c, const char *name, const char *text, uint32_t sequence, uint64_t max,
                      struct wn_err *err)
{
    struct wn_corpus_options o = {.path = put(name, text, strlen(text)),
                                  .vocab = vocab,
                                  .vocab_size = 4352,
                                  .sequence = sequence,
                                  .max_tokens = max};

    return wn_corpus_read(c, &o, err);
}

static void lines_of_tokens_are_sequences_of_their_own(void **state)
{
    struct wn_corpus c;
    struct wn_err err;

    (void)state;
    CHECK_OK(read_text(&c, "c.jsonl",
                       "{\"source\": \"b\", \"tokens\": [1, 2, 3]}\r\n\n"
                       "{\"tokens\": [4], \"source\": \"a\", \"note\": 1}\n"
                       "{\"source\": \"b\", \"tokens\": [5, 6]}",
                       0, 0, &err),
             &err);
    assert_true(c.given);
    assert_int_equal(c.source_count, 2);
    assert_string_equal(c.source[0].label, "b");
    assert_int_equal(c.source[0].tokens, 5);
    assert_int_equal(c.source[1].tokens, 1);
    assert_int_equal(c.tokens, 6);
    assert_int_equal(c.longest, 3);
    assert_int_equal(c.sequence_count, 3);
    /* b's two stand at 1/4 and 3/4 of the way, a's one at 1/2 */
    assert_memory_equal(c.sequence[0].ids, ((uint32_t[]){1, 2, 3}), 12);
    assert_memory_equal(c.sequence[1].ids, ((uint32_t[]){4}), 4);
    assert_memory_equal(c.sequence[2].ids, ((uint32_t[]){5, 6}), 8);
    assert_int_equal(c.sequence[0].half, 0);
    assert_int_equal(c.sequence[1].half, 0);
    assert_int_equal(c.sequence[2].half, 1);
    wn_corpus_release(&c);
}

static void tokens_of_one_line_may_have_sources_of_their_own(void **state)
{
    struct wn_corpus c;
    struct wn_err err;

    (void)state;
    CHECK_OK(
        read_text(&c, "c.jsonl", "{\"source\": [\"x\", \"y\", \"x\", \"z\"], \"tokens\": [7, 7, 8, 9]}\n", 0, 0, &err),
        &err);
    assert_int_equal(c.source_count, 3);
    assert_int_equal(c.source[0].tokens, 2);
    assert_int_equal(c.source[1].tokens, 1);
    assert_memory_equal(c.sequence[0].labels, ((uint16_t[]){0, 1, 0, 2}), 8);
    wn_corpus_release(&c);
    CHECK_FAILS(read_text(&c, "c.jsonl", "{\"source\": [\"x\", \"y\"], \"tokens\": [7]}\n", 0, 0, &err), &err,
                "line 1: 2 labels in 'source' for 1 'tokens'");
}

/* What joining, cutting and interleaving should give, made the long way from the encoded texts. */
static void texts_of_one_source_are_joined_and_cut(void **state)
{
    const char *text[] = {"int main(void)\n{\n    return 0;\n}\n", "The purpose of this chapter is to show.",
                          "for (;;) {}\n", "In this section we discuss the same.",
                          "static const char *name = \"x\";\n"};
    const bool is_code[] = {true, false, true, false, true};
    uint32_t joined[2][256];
    size_t n[2] = {0, 0}, taken[2] = {0, 0};
    struct wn_buf file = {0};
    struct wn_corpus c;
    struct wn_err err;

    (void)state;
    if (!vocab)
        skip();
    for (int i = 0; i < 5; i++) {
        uint32_t *ids;
        size_t count;

        CHECK_OK(wn_vocab_encode(vocab, text[i], strlen(text[i]), false, &ids, &count, &err), &err);
        memcpy(joined[!is_code[i]] + n[!is_code[i]], ids, count * sizeof *ids);
        n[!is_code[i]] += count;
        free(ids);
        CHECK_OK(wn_buf_printf(&file, &err, "{\"source\": \"%s\", \"text\": \"", is_code[i] ? "code" : "en"), &err);
        for (const char *p = text[i]; *p; p++)
            CHECK_OK(*p == '\n' ? wn_buf_add(&file, "\\n", 2, &err)
                                : (*p != '"' || wn_buf_add(&file, "\\", 1, &err)) && wn_buf_add(&file, p, 1, &err),
                     &err);
        CHECK_OK(wn_buf_add(&file, "\"}\n", 3, &err), &err);
    }
    CHECK_OK(wn_buf_add(&file, "", 1, &err), &err);
    CHECK_OK(read_text(&c, "c.jsonl", file.at, 5, 0, &err), &err);
    assert_int_equal(c.sequence_count, n[0] / 5 + n[1] / 5);
    for (size_t i = 0; i < c.sequence_count; i++) {
        const struct wn_sequence *q = &c.sequence[i];

        assert_int_equal(q->n, 5);
        assert_null(q->labels);
        assert_int_equal(q->half, taken[q->source] % 2);
        assert_memory_equal(q->ids, joined[q->source] + 5 * taken[q->source]++, 20);
    }
    for (int s = 0; s < 2; s++) {
        assert_int_equal(c.source[s].read, n[s]);
        assert_int_equal(c.source[s].partial, n[s] % 5);
        assert_int_equal(c.source[s].tokens, n[s] / 5 * 5);
    }
    wn_corpus_release(&c);
    wn_buf_release(&file);
}

static void any_prefix_has_the_mix_of_the_whole(void **state)
{
    struct wn_buf file = {0};
    struct wn_corpus c;
    struct wn_err err;
    size_t seen[3] = {0};
    static const size_t share[3] = {60, 30, 10};

    (void)state;
    for (size_t s = 0; s < 3; s++) /* sources one after the other: the file itself is not mixed */
        for (size_t i = 0; i < share[s]; i++)
            CHECK_OK(wn_buf_printf(&file, &err, "{\"source\": \"s%zu\", \"tokens\": [%zu, %zu]}\n", s, s, i), &err);
    CHECK_OK(read_text(&c, "c.jsonl", file.at, 0, 0, &err), &err);
    assert_int_equal(c.sequence_count, 100);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(c.sequence[i].ids[1], seen[c.sequence[i].source]++); /* each source in its own order */
        for (size_t s = 0; s < 3; s++) {
            double wanted = (double)(i + 1) * (double)share[s] / 100;

            assert_true((double)seen[s] > wanted - 1.01 && (double)seen[s] < wanted + 1.01);
        }
    }
    wn_corpus_release(&c);

    CHECK_OK(read_text(&c, "c.jsonl", file.at, 0, 41, &err), &err);
    assert_int_equal(c.tokens, 40);
    assert_int_equal(c.source[0].tokens, 24);
    assert_int_equal(c.source[1].tokens, 12);
    assert_int_equal(c.source[2].tokens, 4);
    wn_corpus_release(&c);
    CHECK_FAILS(read_text(&c, "c.jsonl", file.at, 0, 4, &err), &err,
                "no sequence of source 's2' fits into 4 tokens: 12 are enough for each source to have one");
    CHECK_FAILS(read_text(&c, "c.jsonl", file.at, 0, 11, &err), &err, "into 11 tokens: 12 are enough");
    CHECK_OK(read_text(&c, "c.jsonl", file.at, 0, 12, &err), &err);
    wn_corpus_release(&c);
    wn_buf_release(&file);
}

static void a_length_cannot_be_had_of_lines_that_are_sequences(void **state)
{
    static const char lines[] = "{\"source\": \"a\", \"tokens\": [1, 2, 3]}\n";
    struct wn_corpus c;
    struct wn_err err;

    (void)state;
    CHECK_FAILS(read_text(&c, "t.jsonl", lines, 2, 0, &err), &err,
                "its lines of tokens are the sequences, so a length of 2 (--seq) cannot be had");
    CHECK_OK(read_text(&c, "t.jsonl", lines, 0, 0, &err), &err);
    wn_corpus_release(&c);
}

static void plain_text_is_one_source(void **state)
{
    struct wn_corpus c;
    struct wn_err err;

    (void)state;
    if (!vocab)
        skip();
    CHECK_OK(read_text(&c, "plain.txt", "{ this is not JSON }\nbut text all the same, and a little more of it\n", 4, 0,
                       &err),
             &err);
    assert_int_equal(c.source_count, 1);
    assert_string_equal(c.source[0].label, "text");
    assert_int_equal(c.tokens, c.source[0].read / 4 * 4);
    wn_corpus_release(&c);
    CHECK_OK(read_text(&c, "lines.txt", "\n{\"source\": \"q\", \"tokens\": [1]}\n", 0, 0, &err), &err);
    assert_string_equal(c.source[0].label, "q");
    wn_corpus_release(&c);
}

static void a_wrong_line_is_named_by_its_number(void **state)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"{\"source\": \"a\", \"tokens\": [1]}\n\n{\"source\": }\n", "line 3: column"},
        {"[1, 2]\n", "line 1: there is no 'source'"},
        {"{\"tokens\": [1]}\n", "line 1: there is no 'source'"},
        {"{\"source\": \"a\"}\n", "line 1: there is none of 'text' and 'tokens'"},
        {"{\"source\": \"a\", \"text\": \"x\", \"tokens\": [1]}\n", "there is each of"},
        {"{\"source\": \"\", \"tokens\": [1]}\n", "a 'source' has 1 to 63 bytes, this one 0"},
        {"{\"source\": \"a\\u0000b\", \"tokens\": [1]}\n", "a 'source' has 1 to 63 bytes"},
        {"{\"source\": \"en=1\", \"tokens\": [1]}\n", "line 1: source 'en=1': no '=' or ',' may be in it"},
        {"{\"source\": [\"en\", \"a,b\"], \"tokens\": [1, 2]}\n", "line 1: source 'a,b': no '=' or ',' may be in it"},
        {"{\"source\": 3, \"tokens\": [1]}\n", "'source' is not a string"},
        {"{\"source\": [\"a\", 3], \"tokens\": [1, 2]}\n", "'source' is not a string"},
        {"{\"source\": [], \"tokens\": [1, 2]}\n", "0 labels in 'source' for 2"},
        {"{\"source\": \"a\", \"tokens\": []}\n", "'tokens' is not an array of 1 to"},
        {"{\"source\": \"a\", \"tokens\": {}}\n", "'tokens' is not an array of 1 to"},
        {"{\"source\": \"a\", \"tokens\": [4351, 4352]}\n", "token 1 is 4352, the model knows 0 to 4351"},
        {"{\"source\": \"a\", \"tokens\": [-1]}\n", "token 0 is not a whole number of 32 bits"},
        {"{\"source\": \"a\", \"tokens\": [4294967296]}\n", "token 0 is not a whole number of 32 bits"},
        {"{\"source\": \"a\", \"tokens\": [1.0]}\n", "token 0 is not a whole number of 32 bits"},
        {"{\"source\": \"a\", \"tokens\": [1]}\n{\"source\": \"a\", \"text\": \"x\"}\n",
         "line 2: 'text' after lines with 'tokens'"},
        {"{\"source\": \"a\", \"source\": \"b\", \"tokens\": [1]}\n", "line 1: column"},
        {"{\"source\": \"a\", \"text\": \"\xff\"}\n", "line 1: column"},
        {"\n \n", "there is no text in it"},
        {"", "there is no text in it"},
    };
    struct wn_corpus c;
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_FAILS(read_text(&c, "c.jsonl", bad[i].text, 4, 0, &err), &err, bad[i].says);
        assert_int_equal(c.source_count, 0);
        wn_corpus_release(&c);
    }
}

static void a_line_with_a_nul_is_not_an_empty_one(void **state)
{
    struct wn_corpus_options o = {.path = put("c.jsonl", "\0\n", 2), .vocab_size = 4352};
    struct wn_corpus c;
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_corpus_read(&c, &o, &err), &err, "line 1: column");
}

static void a_source_too_short_for_a_sequence_is_refused(void **state)
{
    struct wn_corpus c;
    struct wn_err err;

    (void)state;
    if (!vocab)
        skip();
    CHECK_FAILS(read_text(&c, "c.jsonl",
                          "{\"source\": \"a\", \"text\": \"one two three four five six seven\"}\n"
                          "{\"source\": \"b\", \"text\": \"x\"}\n",
                          4, 0, &err),
                &err, "source 'b' has 1 tokens, fewer than one sequence of 4");
    CHECK_FAILS(read_text(&c, "empty.txt", "", 4, 0, &err), &err, "source 'text' has 0 tokens");
}

static void text_without_a_vocabulary_is_refused(void **state)
{
    const char *text = "{\"source\": \"a\", \"text\": \"x\"}\n";
    struct wn_corpus_options o = {.path = put("c.jsonl", text, strlen(text)), .vocab_size = 4352};
    struct wn_corpus c;
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_corpus_read(&c, &o, &err), &err, "line 1: text needs a vocabulary");
    o.path = "/nonexistent/c.jsonl";
    CHECK_FAILS(wn_corpus_read(&c, &o, &err), &err, "/nonexistent/c.jsonl");
}

static void the_fingerprint_tells_corpora_apart(void **state)
{
    static const char *const text[] = {"{\"source\": \"a\", \"tokens\": [1, 2]}\n",
                                       "{\"source\": \"a\", \"tokens\": [1, 3]}\n",
                                       "{\"source\": \"b\", \"tokens\": [1, 2]}\n",
                                       "{\"source\": \"a\", \"tokens\": [1]}\n{\"source\": \"a\", \"tokens\": [2]}\n"};
    char print[5][17];
    struct wn_corpus c;
    struct wn_err err;

    (void)state;
    for (int i = 0; i < 5; i++) {
        CHECK_OK(read_text(&c, "c.jsonl", text[i % 4], 0, 0, &err), &err);
        wn_corpus_fingerprint(&c, print[i]);
        wn_corpus_release(&c);
    }
    assert_string_equal(print[0], print[4]);
    for (int i = 1; i < 4; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(print[i], print[k]);
}

/* Lines longer than a read, and a file whose last line has no newline. */
static void long_lines_are_read_whole(void **state)
{
    struct wn_buf file = {0};
    struct wn_corpus c;
    struct wn_err err;

    (void)state;
    for (int line = 0; line < 3; line++) {
        CHECK_OK(wn_buf_printf(&file, &err, "%s{\"source\": \"a\", \"tokens\": [0", line ? "\n" : ""), &err);
        for (unsigned i = 1; i < 300000; i++)
            CHECK_OK(wn_buf_printf(&file, &err, ",%u", i % 4000), &err);
        CHECK_OK(wn_buf_printf(&file, &err, "]}"), &err);
    }
    CHECK_OK(read_text(&c, "c.jsonl", file.at, 0, 0, &err), &err);
    assert_int_equal(c.sequence_count, 3);
    assert_int_equal(c.tokens, 900000);
    for (unsigned i = 0; i < 300000; i++)
        assert_int_equal(c.sequence[2].ids[i], i % 4000);
    wn_corpus_release(&c);
    wn_buf_release(&file);
}

static void every_refused_allocation_is_survived(void **state)
{
    const char *text = "{\"source\": \"a\", \"tokens\": [1, 2]}\n{\"source\": [\"b\", \"c\"], \"tokens\": [3, 4]}\n";
    struct wn_corpus_options o = {.path = put("c.jsonl", text, strlen(text)), .vocab_size = 10};
    struct wn_corpus c;
    struct wn_err err;
    long n = 0;
    bool ok;

    (void)state;
    do {
        wn_alloc_fail_after(n++);
        ok = wn_corpus_read(&c, &o, &err);
        wn_alloc_fail_after(-1);
        assert_true(ok || err.code == WN_ERR_NOMEM);
    } while (!ok && n < 1000);
    assert_true(ok && n > 5);
    assert_int_equal(c.tokens, 4);
    wn_corpus_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_tokens_are_sequences_of_their_own),
        cmocka_unit_test(tokens_of_one_line_may_have_sources_of_their_own),
        cmocka_unit_test(texts_of_one_source_are_joined_and_cut),
        cmocka_unit_test(any_prefix_has_the_mix_of_the_whole),
        cmocka_unit_test(a_length_cannot_be_had_of_lines_that_are_sequences),
        cmocka_unit_test(plain_text_is_one_source),
        cmocka_unit_test(a_wrong_line_is_named_by_its_number),
        cmocka_unit_test(a_line_with_a_nul_is_not_an_empty_one),
        cmocka_unit_test(a_source_too_short_for_a_sequence_is_refused),
        cmocka_unit_test(text_without_a_vocabulary_is_refused),
        cmocka_unit_test(the_fingerprint_tells_corpora_apart),
        cmocka_unit_test(long_lines_are_read_whole),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, open_vocab, close_vocab);
}
