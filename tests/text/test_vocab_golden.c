/* Ids of golden texts and chats under the vocabularies that are here. */
#include "golden.h"

#include "sys/file.h"
#include "text/vocab_new.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static void the_test_vocabulary_gives_the_golden_ids(void **state)
{
    struct wn_vocab *v = golden_vocab();

    (void)state;
    assert_int_equal(golden_run(v, wn_test_need_data("golden/tokenizer/test-vocab/cases.jsonl")), 523);
    wn_vocab_free(v);
}

static void the_mini_model_gives_the_golden_ids(void **state)
{
    struct wn_err err;
    struct wn_vocab *v = wn_vocab_open(wn_test_need_data("models/k3-mini"), &err);

    (void)state;
    CHECK_OK(v, &err);
    assert_int_equal(wn_vocab_count(v), 4352);
    assert_int_equal(golden_run(v, wn_test_need_data("golden/tokenizer/k3-mini/cases.jsonl")), 523);
    wn_vocab_free(v);
}

/* The segments of the rendered chat of this name, from the list of all. */
static json_t *segments_of(json_t *renders, const char *name)
{
    size_t i;
    json_t *r;

    json_array_foreach(renders, i, r)
        if (strcmp(golden_name(r), name) == 0)
            return json_object_get(r, "segments");
    fail_msg("no rendered chat '%s'", name);
    return NULL;
}

/* Each segment is encoded for itself; the third element of the pair says whether it is structure. */
static void check_chat(const struct wn_vocab *v, const json_t *want, json_t *segments)
{
    struct wn_err err;
    uint32_t *all = NULL;
    size_t n = 0, i;
    json_t *s;

    json_array_foreach(segments, i, s) {
        const json_t *text = json_array_get(s, 0);
        uint32_t *ids;
        size_t count;

        CHECK_OK(wn_vocab_encode(v, json_string_value(text), json_string_length(text),
                                 json_number_value(json_array_get(s, 1)) != 0, &ids, &count, &err),
                 &err);
        all = realloc(all, (n + count + 1) * sizeof *all);
        if (count)
            memcpy(all + n, ids, count * sizeof *all);
        n += count;
        free(ids);
    }
    golden_check_ids(want, all, n);
    free(all);
}

static json_t *all_renders(const char *path)
{
    json_t *all = json_array(), *r;
    struct golden g;

    golden_open(&g, path);
    while ((r = golden_next(&g)) != NULL)
        json_array_append_new(all, r);
    return all;
}

static void chats_check(const struct wn_vocab *v, const char *ids_path)
{
    json_t *renders = all_renders(wn_test_need_data("golden/chat/render.jsonl")), *want;
    struct golden g;

    golden_open(&g, ids_path);
    while ((want = golden_next(&g)) != NULL) {
        check_chat(v, want, segments_of(renders, golden_name(want)));
        json_decref(want);
    }
    json_decref(renders);
}

static void chats_have_the_golden_ids_segment_by_segment(void **state)
{
    struct wn_err err;
    struct wn_vocab *v;

    (void)state;
    wn_test_need_data("golden/chat/render.jsonl");
    v = golden_vocab();
    chats_check(v, wn_test_need_data("golden/tokenizer/test-vocab/chat_ids.jsonl"));
    wn_vocab_free(v);
    v = wn_vocab_open(wn_test_need_data("models/k3-mini"), &err);
    CHECK_OK(v, &err);
    chats_check(v, wn_test_need_data("golden/tokenizer/k3-mini/chat_ids.jsonl"));
    wn_vocab_free(v);
}

static void known_check(const struct wn_vocab *v, json_t *cases)
{
    size_t i;
    json_t *c;

    json_array_foreach(cases, i, c) {
        struct wn_err err;
        size_t n, count;
        char *text = golden_input(c, &n);
        uint32_t *ids;

        CHECK_OK(wn_vocab_encode(v, text, n, false, &ids, &count, &err), &err);
        golden_check_ids(c, ids, count);
        free(ids);
        free(text);
    }
}

/* The released vocabulary is not ours to give away: whoever has it names its folder in WINNOW_K3_VOCAB. */
static void the_released_vocabulary_gives_the_known_ids(void **state)
{
    const char *folder = getenv("WINNOW_K3_VOCAB"), *known = wn_test_need_data("golden/tokenizer/known_k3_vocab.json");
    struct wn_err err;
    struct wn_vocab *v;
    json_t *all;

    (void)state;
    if (!folder) {
        printf("skipped: WINNOW_K3_VOCAB does not name a folder with Kimi-K3's tiktoken.model\n");
        skip();
    }
    v = wn_vocab_open(folder, &err);
    CHECK_OK(v, &err);
    all = json_load_file(known, 0, NULL);
    assert_non_null(all);
    known_check(v, json_object_get(all, "texts"));
    known_check(v, json_object_get(all, "long"));
    json_decref(all);
    wn_vocab_free(v);
}

/* Shows that the comparison above can fail: two ranks exchanged in the file are noticed. */
static void a_vocabulary_with_two_ranks_exchanged_gives_other_ids(void **state)
{
    const char *folder = wn_test_need_data("golden/tokenizer/test-vocab");
    struct wn_vocab *good = golden_vocab(), *bad;
    struct wn_err err;
    uint32_t *a, *b;
    size_t n, an, bn;
    char *tiktoken = wn_file_slurp(wn_test_path(folder, "tiktoken.model"), 1 << 20, &n, &err), *x, *y, kept[4];

    (void)state;
    CHECK_OK(tiktoken, &err);
    x = strstr(tiktoken, "YQ== "); /* a */
    y = strstr(tiktoken, "Yg== "); /* b */
    assert_true(x && y);
    memcpy(kept, x, 4);
    memcpy(x, y, 4);
    memcpy(y, kept, 4);
    bad = wn_vocab_parse(tiktoken, n, NULL, 0, &err);
    CHECK_OK(bad, &err);
    CHECK_OK(wn_vocab_encode(good, "a", 1, false, &a, &an, &err), &err);
    CHECK_OK(wn_vocab_encode(bad, "a", 1, false, &b, &bn, &err), &err);
    assert_true(an == 1 && bn == 1 && a[0] != b[0]);
    free(a);
    free(b);
    free(tiktoken);
    wn_vocab_free(good);
    wn_vocab_free(bad);
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Encodes and decodes a whole file; says how fast the encoding was. */
static void corpus_check(const struct wn_vocab *v, const char *name)
{
    double best = 1e9;
    struct wn_err err;
    uint32_t *ids = NULL;
    size_t n, count, back_n;
    char *text = wn_file_slurp(wn_test_need_data(name), 1 << 24, &n, &err), *back;

    CHECK_OK(text, &err);
    for (int run = 0; run < 5; run++) {
        double start = seconds(), took;

        free(ids);
        CHECK_OK(wn_vocab_encode(v, text, n, false, &ids, &count, &err), &err);
        took = seconds() - start;
        best = took < best ? took : best;
    }
    back = wn_vocab_decode(v, ids, count, &back_n, &err);
    CHECK_OK(back, &err);
    assert_int_equal(back_n, n);
    assert_memory_equal(back, text, n);
    printf("%s: %zu bytes, %zu ids, %.1f MB/s\n", name, n, count, (double)n / best * 1e-6);
    free(text);
    free(back);
    free(ids);
}

static void whole_corpora_come_back_as_they_were(void **state)
{
    static const char *const names[] = {"corpora/heldout-code.txt", "corpora/heldout-en.txt", "corpora/heldout-ja.txt",
                                        "corpora/heldout-zh.txt"};
    struct wn_vocab *v = golden_vocab();

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        corpus_check(v, names[i]);
    wn_vocab_free(v);
}

static void the_digest_is_sha256(void **state)
{
    char hex[65];

    (void)state;
    golden_sha256("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_digest_is_sha256),
        cmocka_unit_test(the_test_vocabulary_gives_the_golden_ids),
        cmocka_unit_test(the_mini_model_gives_the_golden_ids),
        cmocka_unit_test(chats_have_the_golden_ids_segment_by_segment),
        cmocka_unit_test(the_released_vocabulary_gives_the_known_ids),
        cmocka_unit_test(whole_corpora_come_back_as_they_were),
        cmocka_unit_test(a_vocabulary_with_two_ranks_exchanged_gives_other_ids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
