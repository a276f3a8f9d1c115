/* What a vocabulary promises, whatever file it came from. */
#include "golden.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "text/vocab_new.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static uint32_t *encode(const struct wn_vocab *v, const char *text, size_t n, bool special, size_t *count)
{
    struct wn_err err;
    uint32_t *ids;

    CHECK_OK(wn_vocab_encode(v, text, n, special, &ids, count, &err), &err);
    return ids;
}

static uint32_t special_id(const struct wn_vocab *v, const char *name)
{
    uint32_t id;

    if (!wn_vocab_special(v, name, &id))
        fail_msg("no special token '%s'", name);
    return id;
}

static void decoding_what_was_encoded_gives_the_same_bytes(void **state)
{
    struct wn_vocab *v = golden_vocab();
    struct wn_rng rng = {20260802};
    char bytes[300];
    struct wn_err err;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        size_t n = wn_rng_below(&rng, sizeof bytes + 1), count, back_n;
        uint32_t *ids;
        char *back;

        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)(round % 3 ? wn_rng_u64(&rng) : 32 + wn_rng_below(&rng, 96));
        ids = encode(v, bytes, n, round % 2, &count);
        back = wn_vocab_decode(v, ids, count, &back_n, &err);
        CHECK_OK(back, &err);
        assert_int_equal(back_n, n);
        assert_memory_equal(back, bytes, n);
        assert_int_equal(back[n], 0);
        free(back);
        free(ids);
    }
    wn_vocab_free(v);
}

static void ordinary_text_never_yields_a_special_id(void **state)
{
    struct wn_vocab *v = golden_vocab();
    size_t specials = 0;

    (void)state;
    for (uint32_t id = 0; id < wn_vocab_count(v); id++) {
        size_t n, count;
        const char *name = wn_vocab_token(v, id, &n);
        uint32_t *ids;

        if (!wn_vocab_is_special(v, id))
            continue;
        ids = encode(v, name, n, false, &count);
        assert_true(count > 1);
        for (size_t i = 0; i < count; i++)
            assert_false(wn_vocab_is_special(v, ids[i]));
        free(ids);
        specials++;
    }
    assert_int_equal(specials, 256);
    wn_vocab_free(v);
}

static void structure_yields_each_special_id_by_its_name(void **state)
{
    struct wn_vocab *v = golden_vocab();

    (void)state;
    for (uint32_t id = 0; id < wn_vocab_count(v); id++) {
        size_t n, count;
        const char *name = wn_vocab_token(v, id, &n);
        uint32_t *ids;

        if (!wn_vocab_is_special(v, id))
            continue;
        ids = encode(v, name, n, true, &count);
        assert_int_equal(count, 1);
        assert_int_equal(ids[0], id);
        free(ids);
    }
    wn_vocab_free(v);
}

static void ids_without_a_name_are_reserved_tokens(void **state)
{
    struct wn_vocab *v = golden_vocab();
    uint32_t id;

    (void)state;
    assert_int_equal(wn_vocab_count(v), 6400);
    assert_int_equal(special_id(v, "[BOS]"), 6144);
    assert_int_equal(special_id(v, "<|reserved_token_6152|>"), 6152);
    assert_false(wn_vocab_special(v, "<|reserved_token_6144|>", &id)); /* has a name */
    assert_false(wn_vocab_special(v, "<|reserved_token_1|>", &id));
    assert_false(wn_vocab_special(v, "message", &id));
    wn_vocab_free(v);
}

static void a_special_token_is_found_between_text_and_at_both_ends(void **state)
{
    struct wn_vocab *v = golden_vocab();
    const char *text = "<|sep|>a<|open|>\xff<|sep|>";
    size_t count;
    uint32_t sep = special_id(v, "<|sep|>"), open = special_id(v, "<|open|>"),
             *ids = encode(v, text, strlen(text), true, &count);

    (void)state;
    assert_int_equal(count, 5);
    assert_int_equal(ids[0], sep);
    assert_int_equal(ids[2], open);
    assert_int_equal(ids[4], sep);
    free(ids);
    wn_vocab_free(v);
}

static void an_id_outside_the_vocabulary_is_an_error_that_names_it(void **state)
{
    struct wn_vocab *v = golden_vocab();
    struct wn_err err;
    size_t n = 7;

    (void)state;
    CHECK_FAILS(wn_vocab_decode(v, (uint32_t[]){1, 6400}, 2, &n, &err), &err, "id 6400 at position 1");
    assert_int_equal(err.code, WN_ERR_ARG);
    assert_null(wn_vocab_token(v, 6400, &n));
    assert_int_equal(n, 0);
    assert_false(wn_vocab_is_special(v, 6400));
    wn_vocab_free(v);
}

static void no_text_has_no_ids_and_no_ids_are_no_text(void **state)
{
    struct wn_vocab *v = golden_vocab();
    struct wn_err err;
    size_t n;
    uint32_t *ids = encode(v, NULL, 0, true, &n);
    char *text;

    (void)state;
    assert_int_equal(n, 0);
    text = wn_vocab_decode(v, ids, 0, &n, &err);
    CHECK_OK(text, &err);
    assert_string_equal(text, "");
    free(ids);
    free(text);
    wn_vocab_free(v);
}

/* As GPT-2 spells bytes in GGUF files. */
static size_t spell(struct wn_bytes raw, char *out)
{
    size_t n = 0;
    uint32_t next = 0x100, code_of[256];

    for (uint32_t b = 0; b < 256; b++)
        code_of[b] = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xff && b != 0xad) ? b : next++;
    for (size_t i = 0; i < raw.n; i++)
        n += wn_utf8_encode(code_of[(unsigned char)raw.at[i]], out + n);
    return n;
}

/* The same vocabulary as a GGUF file carries it: spelled tokens, control tokens as they are, unused ones as padding. */
static struct wn_vocab *by_way_of_gguf(const struct wn_vocab *v)
{
    uint32_t n = wn_vocab_count(v);
    struct wn_bytes *tokens = calloc(n, sizeof *tokens);
    enum wn_token_kind *kinds = calloc(n, sizeof *kinds);
    char *room = malloc((size_t)n * 512), spelled[1024];
    struct wn_vocab *made;
    struct wn_err err;

    for (uint32_t id = 0; id < n; id++) {
        struct wn_bytes raw;
        char *to = room + (size_t)id * 512;

        raw.at = wn_vocab_token(v, id, &raw.n);
        tokens[id].at = to;
        if (!wn_vocab_is_special(v, id)) {
            size_t spelled_n = spell(raw, spelled);

            assert_true(wn_gpt2_unspell((struct wn_bytes){spelled, spelled_n}, to, &tokens[id].n));
        } else if (strncmp(raw.at, "<|reserved", 10) == 0) {
            kinds[id] = WN_TOKEN_UNUSED;
            tokens[id].n = (size_t)sprintf(to, "[PAD%u]", (unsigned)id);
        } else {
            kinds[id] = WN_TOKEN_SPECIAL;
            tokens[id] = raw;
        }
    }
    made = wn_vocab_new(tokens, kinds, n, &err);
    CHECK_OK(made, &err);
    free(tokens);
    free(kinds);
    free(room);
    return made;
}

static void a_gguf_vocabulary_equals_the_one_from_files(void **state)
{
    struct wn_vocab *files = golden_vocab(), *gguf = by_way_of_gguf(files);

    (void)state;
    assert_int_equal(golden_run(gguf, wn_test_need_data("golden/tokenizer/test-vocab/cases.jsonl")), 523);
    assert_int_equal(wn_vocab_count(gguf), wn_vocab_count(files));
    for (uint32_t id = 0; id < wn_vocab_count(files); id++) {
        size_t an, bn;
        const char *a = wn_vocab_token(files, id, &an), *b = wn_vocab_token(gguf, id, &bn);

        assert_int_equal(an, bn);
        assert_memory_equal(a, b, an);
        assert_int_equal(wn_vocab_is_special(files, id), wn_vocab_is_special(gguf, id));
    }
    wn_vocab_free(files);
    wn_vocab_free(gguf);
}

static void gpt2_spelling_is_undone_for_every_byte_and_refused_for_other_characters(void **state)
{
    char spelled[4], out[8];
    size_t n;

    (void)state;
    for (unsigned b = 0; b < 256; b++) {
        char byte = (char)b;
        struct wn_bytes s = {spelled, spell((struct wn_bytes){&byte, 1}, spelled)};

        assert_true(wn_gpt2_unspell(s, out, &n));
        assert_int_equal(n, 1);
        assert_int_equal((unsigned char)out[0], b);
    }
    assert_false(wn_gpt2_unspell(wn_bytes_of("a b"), out, &n));      /* a space is spelled U+0120 */
    assert_false(wn_gpt2_unspell(wn_bytes_of("\xc5\x84"), out, &n)); /* U+0144, one too far */
    assert_false(wn_gpt2_unspell(wn_bytes_of("\xe4\xbd\xa0"), out, &n));
    assert_false(wn_gpt2_unspell(wn_bytes_of("\xff"), out, &n));
}

struct reader {
    const struct wn_vocab *v;
    uint32_t *ids;
    size_t n;
};

static const char shared_text[] = "Threads read one vocabulary: \xe4\xbd\xa0\xe5\xa5\xbd <|sep|> CamelCase 12345 \xff";

static void *read_in_thread(void *arg)
{
    struct reader *r = arg;
    struct wn_err err;

    for (int i = 0; i < 200; i++) {
        free(r->ids);
        r->ids = NULL;
        if (!wn_vocab_encode(r->v, shared_text, sizeof shared_text - 1, i % 2, &r->ids, &r->n, &err))
            return NULL;
    }
    return r;
}

static void threads_may_share_a_vocabulary(void **state)
{
    struct wn_vocab *v = golden_vocab();
    struct reader readers[4] = {{v, NULL, 0}, {v, NULL, 0}, {v, NULL, 0}, {v, NULL, 0}};
    pthread_t threads[4];
    size_t n;
    uint32_t *want = encode(v, shared_text, sizeof shared_text - 1, true, &n);

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_in_thread, &readers[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *worked;

        pthread_join(threads[i], &worked);
        assert_non_null(worked);
        assert_int_equal(readers[i].n, n);
        assert_memory_equal(readers[i].ids, want, n * sizeof *want);
        free(readers[i].ids);
    }
    free(want);
    wn_vocab_free(v);
}

/* Opens, encodes and decodes; false (and nothing left behind) when memory was refused somewhere on the way. */
static bool whole_job(const char *folder, struct wn_err *err)
{
    struct wn_vocab *v = wn_vocab_open(folder, err);
    uint32_t *ids = NULL;
    size_t n, back_n;
    char *back = NULL;

    if (v && wn_vocab_encode(v, "a piece\xff <|sep|>not-in-the-vocabulary zzzzqqqq", 46, true, &ids, &n, err))
        back = wn_vocab_decode(v, ids, n, &back_n, err);
    free(ids);
    free(back);
    wn_vocab_free(v);
    return back != NULL;
}

static void refused_memory_is_an_error_at_every_allocation(void **state)
{
    const char *folder = wn_test_need_data("golden/tokenizer/test-vocab");
    struct wn_err err;
    long n = 0;

    (void)state;
    for (;; n++) {
        bool worked;

        wn_alloc_fail_after(n);
        worked = whole_job(folder, &err);
        wn_alloc_fail_after(-1);
        if (worked)
            break;
        assert_int_equal(err.code, WN_ERR_NOMEM);
    }
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoding_what_was_encoded_gives_the_same_bytes),
        cmocka_unit_test(ordinary_text_never_yields_a_special_id),
        cmocka_unit_test(structure_yields_each_special_id_by_its_name),
        cmocka_unit_test(ids_without_a_name_are_reserved_tokens),
        cmocka_unit_test(a_special_token_is_found_between_text_and_at_both_ends),
        cmocka_unit_test(an_id_outside_the_vocabulary_is_an_error_that_names_it),
        cmocka_unit_test(no_text_has_no_ids_and_no_ids_are_no_text),
        cmocka_unit_test(a_gguf_vocabulary_equals_the_one_from_files),
        cmocka_unit_test(gpt2_spelling_is_undone_for_every_byte_and_refused_for_other_characters),
        cmocka_unit_test(threads_may_share_a_vocabulary),
        cmocka_unit_test(refused_memory_is_an_error_at_every_allocation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
