/* One GGUF file: what is read from it and what is refused. */
#include "formats/gguf_parse.h"
#include "base/bits.h"
#include "made.h"

#include <stdio.h>
#include <stdlib.h>

static const uint64_t eight[] = {8};

/* Two F32 tensors of 8, alignment 32, no metadata. */
static void make_two(struct wn_buf *b)
{
    made_gguf(b, 2, 0);
    made_info(b, "first", 1, eight, 0, 0);
    made_info(b, "second", 1, eight, 0, 32);
    made_pad(b, 32);
    made_zeros(b, 64);
}

/* Parses a whole file in memory; the buffer is released. The result's records are not to be looked at. */
static bool parses(struct wn_buf *b, struct wn_err *err)
{
    struct wn_tensor_list list = {0};
    struct wn_gguf_header h;
    bool ok = wn_gguf_parse(&h, b->at, b->n, b->n, 0, &list, err);

    wn_gguf_header_release(&h);
    wn_tensor_list_release(&list);
    wn_buf_release(b);
    return ok;
}

static void a_file_is_listed_with_shapes_outermost_first(void **state)
{
    const uint64_t ne[] = {64, 3, 2};
    struct wn_buf b = {0};
    struct wn_source *s;
    const struct wn_tensor *t;
    struct wn_err err;

    (void)state;
    made_gguf(&b, 2, 0);
    made_info(&b, "blk.0.ffn_up_exps.weight", 3, ne, 39, 0);
    made_info(&b, "bias", 0, NULL, 0, 224);
    made_pad(&b, 32);
    made_zeros(&b, 256);
    s = wn_source_open(made_file(wn_test_folder(), "a.gguf", &b), &err);
    CHECK_OK(s, &err);
    t = wn_source_find(s, "blk.0.ffn_up_exps.weight");
    assert_non_null(t);
    assert_int_equal(t->dims, 3);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(t->shape[2], 64);
    assert_int_equal(t->shape[3], 1);
    assert_int_equal(t->type, WN_MXFP4);
    assert_int_equal(t->bytes, 2 * 3 * 2 * 17);
    assert_int_equal(t->at, wn_source_file_at(s, 0)->header_bytes);
    t = wn_source_find(s, "bias");
    assert_int_equal(t->dims, 0);
    assert_int_equal(t->bytes, 4);
    assert_null(wn_source_find(s, "blk.0.ffn_up_exps.weigh"));
    wn_source_close(s);
}

static void number_of(const struct wn_gguf_meta *m, const char *key, int64_t wanted)
{
    const struct wn_gguf_kv *kv = wn_gguf_find(m, key);
    int64_t v;

    assert_non_null(kv);
    assert_true(wn_gguf_as_i64(kv, &v));
    assert_int_equal(v, wanted);
}

static void make_all_types(struct wn_buf *b)
{
    double d = -0.1;
    float f = 0.5f;
    uint64_t bits = 0;

    made_gguf(b, 0, 13);
    made_kv_number(b, "u8", WN_GGUF_U8, 255);
    made_kv_number(b, "i8", WN_GGUF_I8, 0x80);
    made_kv_number(b, "u16", WN_GGUF_U16, 65535);
    made_kv_number(b, "i16", WN_GGUF_I16, 0xffff);
    made_kv_number(b, "u32", WN_GGUF_U32, UINT32_MAX);
    made_kv_number(b, "i32", WN_GGUF_I32, (uint32_t)-7);
    memcpy(&bits, &f, sizeof f);
    made_kv_number(b, "f32", WN_GGUF_F32, bits);
    made_kv_number(b, "bool", WN_GGUF_BOOL, 1);
    made_kv_string(b, "string", "h\xc3\xa9");
    made_string(b, "array");
    made_number(b, 4, WN_GGUF_ARRAY);
    made_number(b, 4, WN_GGUF_STRING);
    made_number(b, 8, 2);
    made_string(b, "");
    made_string(b, "xy");
    made_kv_number(b, "u64", WN_GGUF_U64, UINT64_MAX);
    made_kv_number(b, "i64", WN_GGUF_I64, (uint64_t)INT64_MIN);
    memcpy(&bits, &d, sizeof d);
    made_kv_number(b, "f64", WN_GGUF_F64, bits);
    made_pad(b, 32);
}

static void all_thirteen_value_types_are_read(void **state)
{
    struct wn_buf b = {0};
    struct wn_source *s;
    const struct wn_gguf_meta *m;
    struct wn_bytes text;
    struct wn_err err;
    uint64_t u, at = 0;
    int64_t i;
    double d;
    bool yes;

    (void)state;
    make_all_types(&b);
    s = wn_source_open(made_file(wn_test_folder(), "a.gguf", &b), &err);
    CHECK_OK(s, &err);
    m = wn_source_gguf(s);
    assert_int_equal(m->n, 13);
    number_of(m, "u8", 255);
    number_of(m, "i8", -128);
    number_of(m, "u16", 65535);
    number_of(m, "i16", -1);
    number_of(m, "u32", UINT32_MAX);
    number_of(m, "i32", -7);
    number_of(m, "i64", INT64_MIN);
    assert_true(wn_gguf_as_u64(wn_gguf_find(m, "u64"), &u) && u == UINT64_MAX);
    assert_false(wn_gguf_as_i64(wn_gguf_find(m, "u64"), &i));
    assert_false(wn_gguf_as_u64(wn_gguf_find(m, "i32"), &u));
    assert_false(wn_gguf_as_u64(wn_gguf_find(m, "f32"), &u));
    assert_true(wn_gguf_as_f64(wn_gguf_find(m, "f32"), &d) && d == 0.5);
    assert_true(wn_gguf_as_f64(wn_gguf_find(m, "f64"), &d) && d == -0.1);
    assert_false(wn_gguf_as_f64(wn_gguf_find(m, "u8"), &d));
    assert_true(wn_gguf_as_bool(wn_gguf_find(m, "bool"), &yes) && yes);
    assert_true(wn_gguf_as_string(wn_gguf_find(m, "string"), &text) && wn_bytes_is(text, "h\xc3\xa9"));
    assert_true(wn_gguf_array_string(wn_gguf_find(m, "array"), &at, &text) && text.n == 0);
    assert_true(wn_gguf_array_string(wn_gguf_find(m, "array"), &at, &text) && wn_bytes_is(text, "xy"));
    assert_false(wn_gguf_array_string(wn_gguf_find(m, "array"), &at, &text));
    assert_false(wn_gguf_array_i64(wn_gguf_find(m, "array"), 0, &i));
    assert_null(wn_gguf_find(m, "u128"));
    wn_source_close(s);
}

/* One key with two values of these types. */
static void make_twice(struct wn_buf *b, const char *key, enum wn_gguf_value first, enum wn_gguf_value second)
{
    made_gguf(b, 0, 3);
    made_kv_number(b, key, first, 1);
    made_kv_string(b, "between", "them");
    made_kv_number(b, key, second, 2);
    made_pad(b, 32);
}

static void of_two_ends_of_text_the_later_counts_and_a_copy_has_both(void **state)
{
    const char *folder = wn_test_folder();
    struct wn_buf b = {0};
    struct wn_source *s;
    struct wn_err err;

    (void)state;
    make_twice(&b, "tokenizer.ggml.eos_token_id", WN_GGUF_U32, WN_GGUF_U32);
    s = wn_source_open(made_file(folder, "a.gguf", &b), &err);
    CHECK_OK(s, &err);
    assert_int_equal(wn_source_gguf(s)->n, 3);
    number_of(wn_source_gguf(s), "tokenizer.ggml.eos_token_id", 2);
    wn_source_close(s);
    CHECK_OK(made_identity(wn_test_path(folder, "a.gguf"), wn_test_path(folder, "b.gguf"), &err), &err);
    wn_test_same_file(wn_test_path(folder, "a.gguf"), wn_test_path(folder, "b.gguf"));
}

static void any_other_key_that_occurs_twice_is_refused_by_name(void **state)
{
    struct wn_buf b = {0};
    struct wn_err err;

    (void)state;
    make_twice(&b, "tokenizer.ggml.eos_token_id", WN_GGUF_U32, WN_GGUF_I32);
    CHECK_FAILS(parses(&b, &err), &err, "key 'tokenizer.ggml.eos_token_id' occurs twice");
    b = (struct wn_buf){0};
    make_twice(&b, "kimi-k3.expert_count", WN_GGUF_U32, WN_GGUF_U32);
    CHECK_FAILS(parses(&b, &err), &err, "key 'kimi-k3.expert_count' occurs twice");
    b = (struct wn_buf){0};
    make_twice(&b, "between", WN_GGUF_U32, WN_GGUF_U32);
    CHECK_FAILS(parses(&b, &err), &err, "key 'between' occurs twice");
}

static void versions_two_and_three_are_read_and_no_others(void **state)
{
    static const struct {
        uint32_t version;
        const char *says;
    } cases[] = {{1, "version 1"}, {4, "version 4"}, {0, "version 0"}, {0x03000000, "big-endian"}};
    struct wn_err err;

    (void)state;
    for (uint32_t v = 2; v <= 3; v++) {
        struct wn_buf b = {0};

        make_two(&b);
        wn_store_le(b.at + 4, 4, v);
        CHECK_OK(parses(&b, &err), &err);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wn_buf b = {0};

        make_two(&b);
        wn_store_le(b.at + 4, 4, cases[i].version);
        CHECK_FAILS(parses(&b, &err), &err, cases[i].says);
    }
}

/* Two tensors of one F32 each, 4 bytes and then padding. */
static void make_aligned(struct wn_buf *b, uint32_t alignment, uint64_t second_at)
{
    const uint64_t one[] = {1};

    made_gguf(b, 2, 1);
    made_kv_number(b, "general.alignment", WN_GGUF_U32, alignment);
    made_info(b, "a", 1, one, 0, 0);
    made_info(b, "b", 1, one, 0, second_at);
    if (alignment)
        made_pad(b, alignment);
    made_zeros(b, second_at + 4);
}

static void any_power_of_two_is_an_alignment(void **state)
{
    struct wn_err err;

    (void)state;
    for (uint32_t alignment = 1; alignment <= 1 << 16; alignment *= 2) {
        struct wn_buf b = {0};

        make_aligned(&b, alignment, alignment < 4 ? 4 : alignment);
        CHECK_OK(parses(&b, &err), &err);
    }
    for (uint32_t alignment = 0; alignment <= 48; alignment += 24) {
        struct wn_buf b = {0};

        make_aligned(&b, alignment, alignment);
        CHECK_FAILS(parses(&b, &err), &err, "not a power of two");
    }
}

static void data_must_follow_one_another_without_gap_or_overlap(void **state)
{
    struct wn_buf b = {0};
    struct wn_err err;

    (void)state;
    make_aligned(&b, 32, 64);
    CHECK_FAILS(parses(&b, &err), &err, "tensor 'b': its data begins at 64 of the data section, which leaves a gap");
    make_aligned(&b, 32, 16);
    CHECK_FAILS(parses(&b, &err), &err, "which overlaps");
    make_aligned(&b, 32, 0);
    CHECK_FAILS(parses(&b, &err), &err, "which overlaps");
}

static void a_file_may_end_with_the_last_tensor_or_its_padding_but_not_elsewhere(void **state)
{
    const uint64_t one[] = {1};
    struct wn_err err;

    (void)state;
    for (size_t extra = 0; extra <= 29; extra++) {
        struct wn_buf b = {0};

        made_gguf(&b, 1, 0);
        made_info(&b, "a", 1, one, 0, 0);
        made_pad(&b, 32);
        made_zeros(&b, 4 + extra);
        if (extra <= 28)
            CHECK_OK(parses(&b, &err), &err);
        else
            CHECK_FAILS(parses(&b, &err), &err, "1 bytes stand behind the last tensor");
    }
    for (size_t cut = 1; cut <= 4; cut++) {
        struct wn_buf b = {0};

        made_gguf(&b, 1, 0);
        made_info(&b, "a", 1, one, 0, 0);
        made_pad(&b, 32);
        made_zeros(&b, 4 - cut);
        CHECK_FAILS(parses(&b, &err), &err, "tensor 'a': 4 bytes at 64 run past the file's end");
    }
}

static void one_info(struct wn_buf *b, const char *name, uint32_t dims, const uint64_t *ne, uint32_t type)
{
    made_gguf(b, 1, 0);
    made_info(b, name, dims, ne, type, 0);
    made_pad(b, 32);
    made_zeros(b, 4096);
}

static void retired_and_unknown_type_ids_are_refused_with_id_and_name(void **state)
{
    static const uint32_t retired[] = {4, 5, 31, 32, 33, 36, 37, 38};
    static const uint32_t unknown[] = {9, 15, 43, 1000, UINT32_MAX};
    struct wn_err err;
    char says[80];

    (void)state;
    for (size_t i = 0; i < sizeof retired / sizeof *retired; i++) {
        struct wn_buf b = {0};

        one_info(&b, "odd", 1, eight, retired[i]);
        snprintf(says, sizeof says, "'odd': type id %u is retired", retired[i]);
        CHECK_FAILS(parses(&b, &err), &err, says);
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        struct wn_buf b = {0};

        one_info(&b, "odd", 1, eight, unknown[i]);
        snprintf(says, sizeof says, "'odd': unknown type id %u", unknown[i]);
        CHECK_FAILS(parses(&b, &err), &err, says);
    }
}

static void names_must_be_short_and_present(void **state)
{
    char name[65];
    struct wn_buf b = {0};
    struct wn_err err;

    (void)state;
    memset(name, 'n', 64);
    name[64] = '\0';
    one_info(&b, name, 1, eight, 0);
    CHECK_FAILS(parses(&b, &err), &err, "a name of 64 bytes");
    one_info(&b, name + 1, 1, eight, 0);
    b.n -= 4096 - 32;
    CHECK_OK(parses(&b, &err), &err);
    one_info(&b, "", 1, eight, 0);
    CHECK_FAILS(parses(&b, &err), &err, "a name of 0 bytes");
    one_info(&b, "a_b", 1, eight, 0);
    b.at[24 + 8 + 1] = '\0';
    CHECK_FAILS(parses(&b, &err), &err, "NUL");
}

static void two_tensors_of_one_name_are_refused(void **state)
{
    struct wn_buf b = {0};
    struct wn_err err;

    (void)state;
    made_gguf(&b, 2, 0);
    made_info(&b, "same", 1, eight, 0, 0);
    made_info(&b, "same", 1, eight, 0, 32);
    made_pad(&b, 32);
    made_zeros(&b, 64);
    CHECK_FAILS(wn_source_open(made_file(wn_test_folder(), "a.gguf", &b), &err), &err, "tensor 'same' is listed twice");
}

static void declared_sizes_are_not_trusted_shapes(void **state)
{
    static const struct {
        uint32_t dims, type;
        uint64_t ne[4];
        const char *says;
    } cases[] = {
        {4, 0, {UINT64_C(1) << 40, UINT64_C(1) << 40, 1, 1}, "overflows 63 bits"},
        {2, 0, {UINT64_C(1) << 61, 4}, "overflows 63 bits"},
        {3, 0, {0, UINT64_C(1) << 61, 4}, "overflows 63 bits"},
        {1, 0, {UINT64_C(1) << 62}, "overflow 64 bits"},
        {1, 0, {UINT64_MAX}, "a negative dimension"},
        {1, 0, {UINT64_C(1) << 40}, "run past the file's end"},
        {1, 12, {128}, "rows of 128 elements are not whole blocks of Q4_K (256)"},
        {2, 12, {128, 2}, "rows of 128 elements are not whole blocks of Q4_K (256)"},
    };
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wn_buf b = {0};

        one_info(&b, "big", cases[i].dims, cases[i].ne, cases[i].type);
        CHECK_FAILS(parses(&b, &err), &err, cases[i].says);
    }
    for (uint32_t dims = 5; dims != 0; dims = dims == 5 ? UINT32_MAX : 0) {
        struct wn_buf b = {0};

        one_info(&b, "big", 1, eight, 0);
        wn_store_le(b.at + 24 + 8 + 3, 4, dims);
        CHECK_FAILS(parses(&b, &err), &err, "dimensions: the format's limit is 4");
    }
}

static void declared_sizes_are_not_trusted_counts_and_lengths(void **state)
{
    static const struct {
        size_t at; /* of a u64 in the file below */
        uint64_t v;
        const char *says;
    } cases[] = {
        {8, UINT64_MAX, "tensors in a file of"},
        {8, 1000, "tensors in a file of"},
        {16, UINT64_MAX, "metadata keys in a file of"},
        {16, 1000, "metadata keys in a file of"},
        {24, UINT64_MAX, "a string of"},
        {24, 1 << 29, "bytes wanted at"},
        {24, 0, "an empty key"},
        {24 + 8 + 1 + 4 + 4, UINT64_MAX, "an array of"},
        {24 + 8 + 1 + 4 + 4, 1 << 29, "an array of"},
        {24 + 8 + 1 + 4 + 4, 40, "an array of"},
    };
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wn_buf b = {0};

        made_gguf(&b, 0, 1);
        made_string(&b, "k");
        made_number(&b, 4, WN_GGUF_ARRAY);
        made_number(&b, 4, WN_GGUF_U32);
        made_number(&b, 8, 2);
        made_number(&b, 8, 0);
        made_pad(&b, 32);
        made_zeros(&b, 64);
        wn_store_le(b.at + cases[i].at, 8, cases[i].v);
        CHECK_FAILS(parses(&b, &err), &err, cases[i].says);
    }
}

static void arrays_of_arrays_and_unknown_value_types_are_refused(void **state)
{
    struct wn_buf b = {0};
    struct wn_err err;

    (void)state;
    made_gguf(&b, 0, 1);
    made_string(&b, "key.of.it");
    made_number(&b, 4, WN_GGUF_ARRAY);
    made_number(&b, 4, WN_GGUF_ARRAY);
    made_number(&b, 8, 0);
    made_zeros(&b, 64);
    CHECK_FAILS(parses(&b, &err), &err, "key 'key.of.it': an array of arrays");
    made_gguf(&b, 0, 1);
    made_kv_number(&b, "key.of.it", WN_GGUF_U32, 0);
    wn_store_le(b.at + 24 + 8 + 9, 4, 13);
    made_zeros(&b, 64);
    CHECK_FAILS(parses(&b, &err), &err, "key 'key.of.it': unknown value type 13");
}

/* The parser gets exactly so many bytes on the heap, so that a sanitizer sees a read behind them. */
static bool parses_copy(const char *bytes, size_t n, uint64_t file_bytes, bool *ran_out, struct wn_err *err)
{
    char *copy = malloc(n ? n : 1);
    struct wn_tensor_list list = {0};
    struct wn_gguf_header h;
    bool ok;

    assert_non_null(copy);
    memcpy(copy, bytes, n);
    ok = wn_gguf_parse(&h, copy, n, file_bytes, 0, &list, err);
    *ran_out = h.ran_out;
    wn_gguf_header_release(&h);
    wn_tensor_list_release(&list);
    free(copy);
    return ok;
}

static void a_header_cut_at_any_byte_is_an_error(void **state)
{
    const char *path = wn_test_need_data("golden/text/tiny-b/gguf/split/tiny-b-IQ1_S-00001-of-00003.gguf");
    struct wn_source *s;
    struct wn_err err;
    uint64_t header;
    size_t n;
    char *bytes;
    bool ran_out;

    (void)state;
    s = wn_source_open(path, &err);
    CHECK_OK(s, &err);
    header = wn_source_file_at(s, 0)->header_bytes;
    wn_source_close(s);
    bytes = wn_file_slurp(path, 1 << 24, &n, &err);
    CHECK_OK(bytes, &err);
    for (size_t cut = 0; cut < header; cut++) {
        if (parses_copy(bytes, cut, cut, &ran_out, &err))
            fail_msg("a file cut at byte %zu was read", cut);
        assert_false(ran_out);
        assert_int_equal(err.code, WN_ERR_FORMAT);
    }
    /* the same bytes as the beginning of the whole file: more are asked for while the header is not complete */
    for (size_t cut = 0; cut + 32 < header; cut += 7) {
        assert_false(parses_copy(bytes, cut, n, &ran_out, &err));
        assert_true(ran_out);
    }
    CHECK_OK(parses_copy(bytes, (size_t)header, n, &ran_out, &err), &err);
    CHECK_OK(parses_copy(bytes, n, n, &ran_out, &err), &err);
    assert_false(parses_copy(bytes, n - 4096, n - 4096, &ran_out, &err));
    free(bytes);
}

/* 896 experts in one tensor of more than 4 GiB, mostly hole; and the same with a single expert. */
static void no_limit_of_512_experts_and_no_4_gib(void **state)
{
    static const uint64_t counts[] = {896, 1};
    const char *folder = wn_test_folder();
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const uint64_t ne[] = {3584, 3072, counts[i]};
        const uint64_t slab = 3584 / 32 * 17 * 3072, bytes = slab * counts[i];
        struct wn_buf b = {0};
        struct wn_source *s;
        const struct wn_tensor *t;
        const char *path;
        char found[4];
        const uint8_t *view;

        made_gguf(&b, 2, 0);
        made_info(&b, "blk.1.ffn_gate_exps.weight", 3, ne, 39, 0);
        made_info(&b, "tail", 1, eight, 0, bytes);
        made_pad(&b, 32);
        path = made_file(folder, "a.gguf", &b);
        made_longer(path, 160 + bytes + 32);
        made_write_at(path, 160 + slab * (counts[i] - 1), "last", 4);
        made_write_at(path, 160 + bytes, "tail", 4);
        s = wn_source_open(path, &err);
        CHECK_OK(s, &err);
        t = wn_source_find(s, "blk.1.ffn_gate_exps.weight");
        assert_int_equal(t->at, 160);
        assert_int_equal(t->bytes, bytes);
        assert_int_equal(t->shape[0], counts[i]);
        CHECK_OK(wn_source_read(s, t, slab * (counts[i] - 1), found, 4, &err), &err);
        assert_memory_equal(found, "last", 4);
        view = wn_source_view(s, wn_source_find(s, "tail"), &err);
        CHECK_OK(view, &err);
        assert_memory_equal(view, "tail", 4);
        wn_source_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_listed_with_shapes_outermost_first),
        cmocka_unit_test(all_thirteen_value_types_are_read),
        cmocka_unit_test(of_two_ends_of_text_the_later_counts_and_a_copy_has_both),
        cmocka_unit_test(any_other_key_that_occurs_twice_is_refused_by_name),
        cmocka_unit_test(versions_two_and_three_are_read_and_no_others),
        cmocka_unit_test(any_power_of_two_is_an_alignment),
        cmocka_unit_test(data_must_follow_one_another_without_gap_or_overlap),
        cmocka_unit_test(a_file_may_end_with_the_last_tensor_or_its_padding_but_not_elsewhere),
        cmocka_unit_test(retired_and_unknown_type_ids_are_refused_with_id_and_name),
        cmocka_unit_test(names_must_be_short_and_present),
        cmocka_unit_test(two_tensors_of_one_name_are_refused),
        cmocka_unit_test(declared_sizes_are_not_trusted_shapes),
        cmocka_unit_test(declared_sizes_are_not_trusted_counts_and_lengths),
        cmocka_unit_test(arrays_of_arrays_and_unknown_value_types_are_refused),
        cmocka_unit_test(a_header_cut_at_any_byte_is_an_error),
        cmocka_unit_test(no_limit_of_512_experts_and_no_4_gib),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
