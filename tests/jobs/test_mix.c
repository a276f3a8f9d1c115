/* Mixing a corpus: shares, order, sameness, and what is refused. */
#include "wn_test.h"

#include "base/alloc.h"
#include "jobs/corpus/corpus.h"
#include "jobs/corpus/mix.h"
#include "vocab_fixture.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *put(const char *folder, const char *name, const char *text)
{
    const char *path = wn_test_path(folder, name);
    struct wn_err err;

    CHECK_OK(wn_file_put(path, text, strlen(text), true, &err), &err);
    return path;
}

static struct wn_mix_spec spec_of(const char *const *sources, size_t n)
{
    struct wn_mix_spec spec = {0};
    struct wn_err err;

    if (!vocab)
        skip();
    for (size_t i = 0; i < n; i++)
        CHECK_OK(wn_mix_spec_add(&spec, sources[i], &err), &err);
    return spec;
}

/* LABEL=PATH:SHARE; good until the test ends. */
static const char *source(const char *label, const char *path, const char *share)
{
    static char text[8][1024];
    static size_t next;
    char *t = text[next++ % 8];

    snprintf(t, sizeof text[0], "%s=%s%s%s", label, path, *share ? ":" : "", share);
    return t;
}

static bool mix(const struct wn_mix_spec *spec, const char *out, struct wn_mix_result *r, struct wn_err *err)
{
    struct wn_mix_options o = {.spec = spec, .vocab = vocab, .out = out, .overwrite = true};

    return wn_mix(&o, NULL, r, err);
}

static const char *const held_out[] = {"corpora/heldout-code.txt", "corpora/heldout-en.txt", "corpora/heldout-zh.txt",
                                       "corpora/heldout-ja.txt"};
static const char *const labels[] = {"code", "en", "zh", "ja"};

static struct wn_mix_spec bundled(const char *const *shares)
{
    const char *sources[4];

    for (size_t i = 0; i < 4; i++)
        sources[i] = source(labels[i], wn_test_need_data(held_out[i]), shares[i]);
    return spec_of(sources, 4);
}

/* Walks a file's lines: after each, no source is further from its share than the longest document. */
static void check_prefixes(const char *path, const struct wn_mix_spec *spec, const struct wn_mix_result *r)
{
    double got[8] = {0}, all = 0, sum = 0;
    struct wn_err err;
    size_t n, lines = 0;
    char *text = wn_file_slurp(path, 1 << 24, &n, &err);

    CHECK_OK(text, &err);
    for (size_t s = 0; s < spec->count; s++)
        sum += spec->sources[s].share;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        json_t *j = json_loads(line, 0, NULL);
        const char *label = json_string_value(json_object_get(j, "source")),
                   *t = json_string_value(json_object_get(j, "text"));
        uint32_t *ids;
        size_t count;

        CHECK_OK(wn_vocab_encode(vocab, t, strlen(t), false, &ids, &count, &err), &err);
        free(ids);
        assert_true(count <= r->longest);
        all += (double)count;
        for (size_t s = 0; s < spec->count; s++) {
            double wanted = all * spec->sources[s].share / sum;

            if (strcmp(label, spec->sources[s].label) == 0)
                got[s] += (double)count;
            if (fabs(got[s] - wanted) > (double)r->longest)
                fail_msg("line %zu: '%s' has %.0f of %.0f tokens, %.0f wanted", lines + 1, spec->sources[s].label,
                         got[s], all, wanted);
        }
        json_decref(j);
    }
    assert_int_equal(lines, r->got.documents);
    assert_true(all == (double)r->got.tokens);
    for (size_t s = 0; s < spec->count; s++)
        assert_true(got[s] == (double)r->sources[s].got.tokens);
    free(text);
}

static void any_prefix_is_within_a_document_of_the_shares(void **state)
{
    static const char *const shares[][4] = {
        {"40%", "30%", "15%", "15%"}, {"0.94", "0.02", "0.02", "0.02"}, {"1", "1", "1", "1"}, {"1", "7", "2", "0.1"}};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct wn_mix_spec spec = bundled(shares[i]);
        const char *out = wn_test_path(wn_test_folder(), "out.jsonl");
        struct wn_mix_result r;
        struct wn_err err;

        spec.document_tokens = i % 2 ? 200 : 600;
        CHECK_OK(mix(&spec, out, &r, &err), &err);
        check_prefixes(out, &spec, &r);
        assert_true(r.got.tokens + 2 * r.longest > r.possible);
        wn_mix_result_release(&r);
        wn_mix_spec_release(&spec);
    }
}

static void the_corpus_is_read_as_it_was_written(void **state)
{
    static const char *const shares[] = {"40%", "30%", "15%", "15%"};
    struct wn_mix_spec spec = bundled(shares);
    const char *out = wn_test_path(wn_test_folder(), "out.jsonl");
    struct wn_mix_result r;
    struct wn_corpus c;
    struct wn_err err;

    (void)state;
    spec.tokens = 20000;
    spec.document_tokens = 512;
    CHECK_OK(mix(&spec, out, &r, &err), &err);
    assert_true(r.got.tokens <= 20000 && r.got.tokens > 20000 - 512);
    CHECK_OK(wn_corpus_read(&c,
                            &(struct wn_corpus_options){
                                .path = out, .vocab = vocab, .vocab_size = wn_vocab_count(vocab), .sequence = 256},
                            &err),
             &err);
    assert_int_equal(c.source_count, 4);
    for (size_t s = 0; s < 4; s++) {
        uint64_t chars = 0, tokens = 0;
        size_t at = 0;

        while (strcmp(c.source[at].label, labels[s]) != 0)
            at++;
        assert_int_equal(c.source[at].read, r.sources[s].got.tokens);
        for (unsigned script = 0; script < WN_MIX_SCRIPTS; script++) {
            chars += r.sources[s].chars[script];
            tokens += r.sources[s].tokens[script];
        }
        assert_int_equal(tokens, r.sources[s].got.tokens);
        assert_true(chars <= r.sources[s].got.bytes && chars >= r.sources[s].got.bytes / 4);
    }
    wn_corpus_release(&c);
    wn_mix_result_release(&r);
    wn_mix_spec_release(&spec);
}

static void the_same_call_makes_the_same_bytes_and_another_seed_others(void **state)
{
    static const char *const shares[] = {"", "", "", ""};
    struct wn_mix_spec spec = bundled(shares);
    const char *folder = wn_test_folder();
    const char *a = wn_test_path(folder, "a"), *b = wn_test_path(folder, "b"), *c = wn_test_path(folder, "c");
    struct wn_mix_result r;
    struct wn_err err;
    size_t na, nc;
    char *ta, *tc;

    (void)state;
    spec.tokens = 8000;
    spec.document_tokens = 256;
    CHECK_OK(mix(&spec, a, &r, &err), &err);
    wn_mix_result_release(&r);
    CHECK_OK(mix(&spec, b, &r, &err), &err);
    wn_mix_result_release(&r);
    wn_test_same_file(a, b);
    spec.seed = 1;
    CHECK_OK(mix(&spec, c, &r, &err), &err);
    wn_mix_result_release(&r);
    ta = wn_file_slurp(a, 1 << 20, &na, &err);
    tc = wn_file_slurp(c, 1 << 20, &nc, &err);
    assert_true(na != nc || memcmp(ta, tc, na) != 0);
    free(ta);
    free(tc);
    wn_mix_spec_release(&spec);
}

static void nothing_is_drawn_twice_and_all_of_a_single_source_comes_out(void **state)
{
    const char *folder = wn_test_folder(), *out = wn_test_path(folder, "out.jsonl");
    const char *in = put(folder, "in.jsonl",
                         "{\"text\": \"one and the same\"}\n\n{\"source\": \"x\", \"text\": \"two\"}\r\n"
                         "{\"source\": \"y\", \"text\": \"three\"}\n{\"text\": \"\"}\n{\"text\": \"f\\u00e9\\u0001\"}");
    const char *x[] = {source("x", in, "")};
    struct wn_mix_spec spec = spec_of(x, 1);
    struct wn_mix_result r;
    struct wn_err err;
    size_t n;
    char *text;

    (void)state;
    CHECK_OK(mix(&spec, out, &r, &err), &err);
    assert_int_equal(r.got.documents, 2);
    assert_int_equal(r.sources[0].other, 1);
    assert_int_equal(r.sources[0].dropped[WN_MIX_CONTROL].documents, 1);
    assert_int_equal(r.sources[0].dropped[WN_MIX_CONTROL].bytes, 4);
    text = wn_file_slurp(out, 1 << 20, &n, &err);
    CHECK_OK(text, &err);
    assert_int_equal(n, r.out_bytes);
    assert_true(wn_test_contains(text, "{\"source\": \"x\", \"text\": \"one and the same\"}\n"));
    assert_true(wn_test_contains(text, "{\"source\": \"x\", \"text\": \"two\"}\n"));
    free(text);
    wn_mix_result_release(&r);
    wn_mix_spec_release(&spec);
}

static void a_byte_order_mark_is_no_text(void **state)
{
    const char *folder = wn_test_folder();
    const char *x[] = {source("x", put(folder, "in.txt", "\xef\xbb\xbfhello\n"), "")};
    struct wn_mix_spec spec = spec_of(x, 1);
    struct wn_mix_result r;
    struct wn_err err;

    (void)state;
    CHECK_OK(mix(&spec, NULL, &r, &err), &err);
    assert_int_equal(r.got.bytes, 6);
    wn_mix_result_release(&r);
    wn_mix_spec_release(&spec);
}

static bool warned(const struct wn_mix_result *r, const char *part)
{
    for (size_t i = 0; i < r->warning_count; i++)
        if (strstr(r->warnings[i], part))
            return true;
    return false;
}

static void what_is_nearly_absent_is_warned_of(void **state)
{
    static const char *const shares[] = {"90%", "0.5%", "4.5%", "5%"};
    struct wn_mix_spec spec = bundled(shares);
    struct wn_mix_result r;
    struct wn_err err;

    (void)state;
    spec.document_tokens = 64;
    free(spec.sources[3].label);
    spec.sources[3].label = wn_strdup("ko-web", &err);
    CHECK_OK(mix(&spec, NULL, &r, &err), &err);
    assert_true(warned(&r, "source 'en' is nearly absent"));
    assert_false(warned(&r, "source 'zh' is"));
    assert_true(warned(&r, "source 'ko-web' has next to no Hangul: 0.00 % of its tokens"));
    assert_false(warned(&r, "source 'zh' has"));
    assert_true(warned(&r, "not there: Hangul, Cyrillic, Arabic, Devanagari, Thai"));
    assert_false(warned(&r, "Latin"));
    wn_mix_result_release(&r);
    wn_mix_spec_release(&spec);
}

static void a_source_that_is_mostly_damaged_is_warned_of(void **state)
{
    const char *folder = wn_test_folder();
    const char *x[] = {source(
        "x",
        put(folder, "in.jsonl", "{\"text\": \"good\"}\n{\"text\": \"bad \\ufffd\\ufffd\"}\n{\"text\": \"\\ufffd\"}\n"),
        "")};
    struct wn_mix_spec spec = spec_of(x, 1);
    struct wn_mix_options o = {.spec = &spec, .vocab = vocab, .unfiltered = true};
    struct wn_mix_result r;
    struct wn_err err;

    (void)state;
    CHECK_OK(mix(&spec, NULL, &r, &err), &err);
    assert_true(warned(&r, "more of it was left out than is fit to be taken (13 of 17 bytes)"));
    assert_int_equal(r.got.documents, 1);
    wn_mix_result_release(&r);
    CHECK_OK(wn_mix(&o, NULL, &r, &err), &err);
    assert_int_equal(r.got.documents, 3);
    wn_mix_result_release(&r);
    wn_mix_spec_release(&spec);
}

static void check_refused(const char *const *sources, size_t n, uint64_t tokens, const char *says)
{
    struct wn_mix_spec spec = spec_of(sources, n);
    struct wn_mix_result r;
    struct wn_err err;

    spec.tokens = tokens;
    CHECK_FAILS(mix(&spec, NULL, &r, &err), &err, says);
    assert_null(r.sources);
    wn_mix_spec_release(&spec);
}

static void what_cannot_be_mixed_is_refused_with_the_figures(void **state)
{
    const char *folder = wn_test_folder();
    const char *t = put(folder, "t.txt", "the same is the same\n"), *latin = put(folder, "l.txt", "caf\xe9"),
               *bad = put(folder, "bad.jsonl", "{\"text\": \"a\"}\n{\"tokens\": [1]}\n"),
               *torn = put(folder, "torn.jsonl", "{\"text\": \"a\"\n"),
               *y = put(folder, "y.jsonl", "{\"source\": \"y\", \"text\": \"a\"}\n");

    (void)state;
    check_refused(NULL, 0, 0, "no source is named");
    check_refused((const char *[]){source("a", t, "40%"), source("b", t, "50%")}, 2, 0, "are 90 % together, not 100");
    check_refused((const char *[]){source("a", t, "40%"), source("b", t, "")}, 2, 0, "give all of them in one way");
    check_refused((const char *[]){source("a", "/nowhere/x", "")}, 1, 0, "source 'a': '/nowhere/x': there is no such");
    check_refused((const char *[]){source("a", latin, "")}, 1, 0,
                  "source 'a' has no text in 1 files (1 documents left out)");
    check_refused((const char *[]){source("x", y, "")}, 1, 0, "source 'x' has no text: 1 lines name another 'source'");
    check_refused((const char *[]){source("a", bad, "")}, 1, 0, "bad.jsonl': line 2: there is no 'text' in it");
    check_refused((const char *[]){source("a", torn, "")}, 1, 0, "torn.jsonl': line 1: column");
    check_refused((const char *[]){source("a", t, "1"), source("b", t, "3")}, 2, 1000, "source 'b' has ");
    check_refused((const char *[]){source("a", t, "1"), source("b", t, "1")}, 2, 1,
                  "of 0 tokens none would be of source 'a'");
}

static void an_input_is_no_output(void **state)
{
    const char *folder = wn_test_folder(), *t = put(folder, "t.txt", "the same is the same\n");
    const char *a[] = {source("a", folder, "")};
    struct wn_mix_spec spec = spec_of(a, 1);
    struct wn_mix_result r;
    struct wn_err err;

    (void)state;
    CHECK_FAILS(mix(&spec, t, &r, &err), &err, "is the input");
    wn_mix_spec_release(&spec);
}

static void lines_are_chosen_by_the_source_that_they_name(void **state)
{
    const char *folder = wn_test_folder();
    const char *in = put(folder, "in.jsonl",
                         "{\"source\": \"web\", \"text\": \"one\"}\n{\"text\": \"two\"}\n"
                         "{\"source\": \"x\", \"text\": \"three\"}\n");
    static const struct {
        const char *from;
        uint64_t documents;
    } cases[] = {{NULL, 2}, {"web", 1}, {"*", 3}};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const char *x[] = {source("x", in, "")};
        struct wn_mix_spec spec = spec_of(x, 1);
        struct wn_mix_result r;
        struct wn_err err;

        spec.sources[0].from = cases[i].from ? wn_strdup(cases[i].from, &err) : NULL;
        CHECK_OK(mix(&spec, NULL, &r, &err), &err);
        assert_int_equal(r.got.documents, cases[i].documents);
        wn_mix_result_release(&r);
        wn_mix_spec_release(&spec);
    }
}

/* The listener changes a file between the two readings. */
static bool change_file(void *arg, const struct wn_progress *p)
{
    struct wn_err err;

    if (strcmp(p->phase, "reading") == 0 && p->done == p->total)
        CHECK_OK(wn_file_put(arg, "the sane is the same\n", 21, true, &err), &err);
    return true;
}

static void a_file_that_changes_meanwhile_is_noticed(void **state)
{
    const char *folder = wn_test_folder(), *t = put(folder, "t.txt", "the same is the same\n");
    const char *a[] = {source("a", t, "")};
    struct wn_mix_spec spec = spec_of(a, 1);
    struct wn_mix_options o = {.spec = &spec, .vocab = vocab};
    struct wn_job job = {.progress = change_file, .arg = (void *)(uintptr_t)t};
    struct wn_mix_result r;
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_mix(&o, &job, &r, &err), &err, "t.txt': it was changed while it was read");
    wn_mix_spec_release(&spec);
}

static void refused_memory_and_writes_end_in_a_sentence(void **state)
{
    const char *folder = wn_test_folder(), *out = wn_test_path(folder, "out.jsonl");
    const char *in = put(folder, "in.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
    const char *a[] = {source("a", in, ""), source("b", put(folder, "t.txt", "the same\n\nis it\n"), "")};
    struct wn_mix_spec spec = spec_of(a, 2);
    struct wn_mix_options o = {.spec = &spec, .vocab = vocab, .out = out};
    struct wn_mix_result r;
    struct wn_err err;
    bool ok = false;

    (void)state;
    for (long n = 0; !ok; n++) {
        wn_alloc_fail_after(n);
        ok = wn_mix(&o, NULL, &r, &err);
        wn_alloc_fail_after(-1);
        if (!ok && err.code != WN_ERR_NOMEM)
            fail_msg("allocation %ld refused: %s", n, err.msg);
        assert_true(ok == wn_path_exists(out));
    }
    wn_mix_result_release(&r);
    assert_true(wn_path_remove(out));
    ok = false;
    for (long n = 0; !ok; n++) {
        wn_file_fail_writes_after(n);
        ok = wn_mix(&o, NULL, &r, &err);
        wn_file_fail_writes_after(-1);
        assert_true(ok || (err.code == WN_ERR_IO && !wn_path_exists(out)));
    }
    wn_mix_result_release(&r);
    wn_mix_spec_release(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_prefix_is_within_a_document_of_the_shares),
        cmocka_unit_test(the_corpus_is_read_as_it_was_written),
        cmocka_unit_test(the_same_call_makes_the_same_bytes_and_another_seed_others),
        cmocka_unit_test(nothing_is_drawn_twice_and_all_of_a_single_source_comes_out),
        cmocka_unit_test(a_byte_order_mark_is_no_text),
        cmocka_unit_test(what_is_nearly_absent_is_warned_of),
        cmocka_unit_test(a_source_that_is_mostly_damaged_is_warned_of),
        cmocka_unit_test(what_cannot_be_mixed_is_refused_with_the_figures),
        cmocka_unit_test(an_input_is_no_output),
        cmocka_unit_test(lines_are_chosen_by_the_source_that_they_name),
        cmocka_unit_test(a_file_that_changes_meanwhile_is_noticed),
        cmocka_unit_test(refused_memory_and_writes_end_in_a_sentence),
    };

    return cmocka_run_group_tests(tests, open_vocab, close_vocab);
}
