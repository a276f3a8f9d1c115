/* Safetensors files and folders: what is read and what is refused. */
#include "base/bits.h"
#include "formats/safetensors.h"
#include "made.h"

#include <stdio.h>
#include <stdlib.h>

static const char *json_file(const char *json, uint64_t data_bytes)
{
    return made_safetensors(wn_test_folder(), "a.safetensors", json, data_bytes);
}

static void expect(const char *json, uint64_t data_bytes, const char *says)
{
    struct wn_err err;
    struct wn_source *s = wn_source_open(json_file(json, data_bytes), &err);

    if (s) {
        wn_source_close(s);
        fail_msg("%s was read, but should have failed with '%s'", json, says);
    }
    if (!wn_test_contains(err.msg, says) || !wn_test_contains(err.msg, "a.safetensors"))
        fail_msg("%s: said '%s', wanted '%s' in it", json, err.msg, says);
    assert_int_equal(err.code, WN_ERR_FORMAT);
}

static struct wn_source *opens(const char *json, uint64_t data_bytes)
{
    struct wn_err err;
    struct wn_source *s = wn_source_open(json_file(json, data_bytes), &err);

    if (!s)
        fail_msg("%s: %s", json, err.msg);
    return s;
}

static void tensors_come_in_order_of_place_whatever_the_header_says(void **state)
{
    struct wn_source *s = opens("{\"b\":{\"shape\":[2,3],\"data_offsets\":[8,20],\"dtype\":\"BF16\"},"
                                "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}   ",
                                24);
    const struct wn_tensor *t;

    (void)state;
    assert_int_equal(wn_source_tensor_count(s), 2);
    t = wn_source_tensor_at(s, 0);
    assert_string_equal(t->name, "a");
    assert_int_equal(t->dims, 0);
    assert_int_equal(t->bytes, 4);
    t = wn_source_tensor_at(s, 1);
    assert_string_equal(t->name, "b");
    assert_int_equal(t->type, WN_BF16);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(t->at, wn_source_file_at(s, 0)->header_bytes + 8);
    assert_null(wn_source_gguf(s));
    wn_source_close(s);
}

static void gaps_spaces_and_empty_tensors_are_legal(void **state)
{
    (void)state;
    wn_source_close(opens("{}", 0));
    wn_source_close(opens("{ }", 100));
    wn_source_close(
        opens("{ \"a\" : { \"dtype\" : \"U8\" ,\n\t\"shape\" : [ 2 ] , \"data_offsets\" : [ 10 , 12 ] } } \n", 50));
    wn_source_close(opens("{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
                          "\"e\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[4,4]},"
                          "\"f\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]}}",
                          8));
}

static void names_are_unescaped(void **state)
{
    struct wn_source *s = opens("{\"q\\\"b\\\\s\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\xc3\xa9.\\u0041\":"
                                "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                "\"\\u0064\":{\"dty\\u0070e\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                                2);

    (void)state;
    assert_non_null(wn_source_find(s, "q\"b\\s/\b\f\n\r\t\xc3\xa9\xf0\x9f\x98\x80\xc3\xa9.A"));
    assert_non_null(wn_source_find(s, "d"));
    wn_source_close(s);
}

static void broken_strings_are_refused(void **state)
{
    static const struct {
        const char *name, *says;
    } cases[] = {
        {"\\ud83d", "a low surrogate"},
        {"\\ud83d\\n", "a low surrogate"},
        {"\\ud83d\\u0041", "surrogate"},
        {"\\ude00", "a high surrogate"},
        {"\\u12g4", "four hexadecimal"},
        {"\\u0000", "without NUL"},
        {"\\x41", "an escape"},
        {"\xff", "UTF-8"},
        {"\xc0\x80", "UTF-8"},
        {"\xed\xa0\x80", "UTF-8"},
        {"a\nb", "UTF-8 without control"},
        {"", "empty name"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[256];

        snprintf(json, sizeof json, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", cases[i].name);
        expect(json, 1, cases[i].says);
    }
}

/* An entry for tensor 'x' in a data section of 8 bytes. */
static void expect_entry(const char *entry, const char *says)
{
    char json[512];

    snprintf(json, sizeof json, "{\"x\":%s}", entry);
    expect(json, 8, says);
}

static void an_entry_must_be_exactly_what_the_format_says(void **state)
{
    (void)state;
    expect_entry("{\"dtype\":\"U8\",\"shape\":[1]}", "tensor 'x': 'data_offsets' is missing");
    expect_entry("{\"dtype\":\"U8\",\"data_offsets\":[0,1]}", "tensor 'x': 'shape' is missing");
    expect_entry("{\"shape\":[1],\"data_offsets\":[0,1]}", "tensor 'x': 'dtype' is missing");
    expect_entry("{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}", "'dtype' occurs twice");
    expect_entry("{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"more\":1}", "unknown key 'more'");
    expect_entry("{\"dtype\":\"F3\",\"shape\":[1],\"data_offsets\":[0,1]}", "tensor 'x': unknown dtype 'F3'");
    expect_entry("{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]}", "wanted '\"'");
    expect_entry("{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}", "more than 8 dimensions");
    expect_entry("{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}", "wanted ','");
    expect_entry("{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}", "wanted ']'");
    expect_entry("{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}", "tensor 'x': bytes 1 to 0");
    expect_entry("[]", "wanted '{'");
    expect_entry("null", "wanted '{'");
}

static void only_plain_whole_numbers_are_numbers(void **state)
{
    static const char *const bad[] = {
        "-1", "1.0", "1e0", "NaN", "Infinity", "01", "+1", "0x1", "null", "\"1\"", "true", "", "18446744073709551616"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char entry[200];

        snprintf(entry, sizeof entry, "{\"dtype\":\"U8\",\"shape\":[1,%s],\"data_offsets\":[0,1]}", bad[i]);
        expect_entry(entry, "wanted");
        snprintf(entry, sizeof entry, "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,%s]}", bad[i]);
        expect_entry(entry, "wanted");
    }
}

static void declared_sizes_are_not_trusted(void **state)
{
    (void)state;
    expect_entry("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}",
                 "1 elements of F32 are 4 bytes, its span is 8");
    expect_entry("{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}", "3 elements of F32 are 12 bytes");
    expect_entry("{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}", "bytes 0 to 9 of a data section of 8");
    expect_entry("{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[18446744073709551615,18446744073709551615]}",
                 "of a data section of 8");
    expect_entry("{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}", "overflows 63 bits");
    expect_entry("{\"dtype\":\"F64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}", "overflow 64 bits");
}

static void overlapping_spans_are_refused_with_both_names(void **state)
{
    (void)state;
    expect("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
           "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]}}",
           8, "tensor 'b' overlaps tensor 'a'");
    expect("{\"b\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]},"
           "\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[3,3]},"
           "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]}}",
           8, "tensor 'a' overlaps tensor 'b'");
}

static void two_tensors_of_one_name_are_refused(void **state)
{
    (void)state;
    expect("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
           "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
           8, "tensor 'a' is listed twice");
}

static void junk_and_broken_json_are_refused(void **state)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "[]",
                                      "{",
                                      "{\"a\"",
                                      "{\"a\":",
                                      "{\"a\":{",
                                      "{,}",
                                      "{}}",
                                      "{} x",
                                      "{}{}",
                                      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},}",
                                      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,],\"data_offsets\":[0,1]}}",
                                      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],}}",
                                      "{\"a\":{\"dtype\":\"U8\" \"shape\":[1],\"data_offsets\":[0,1]}}",
                                      "{'a':{}}"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect(bad[i], 8, "wanted");
}

static void metadata_must_be_strings_and_is_kept(void **state)
{
    struct wn_source *s = opens("{\"__metadata__\":{\"format\":\"pt\",\"a\\nb\":\"\",\"c\":\"d\"},"
                                "\"x\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                                1);
    const char *const *m = wn_source_metadata(s);

    (void)state;
    assert_int_equal(wn_source_tensor_count(s), 1);
    assert_string_equal(m[0], "format");
    assert_string_equal(m[1], "pt");
    assert_string_equal(m[2], "a\nb");
    assert_string_equal(m[3], "");
    assert_string_equal(m[5], "d");
    assert_null(m[6]);
    wn_source_close(s);
    s = opens("{\"__metadata__\":{}}", 1);
    assert_null(wn_source_metadata(s));
    wn_source_close(s);
    expect("{\"__metadata__\":{\"a\":1}}", 0, "'__metadata__': JSON");
    expect("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "'__metadata__': it occurs twice");
    expect("{\"__metadata__\":{\"a\":\"b\"},\"__metadata__\":{}}", 0, "'__metadata__': it occurs twice");
    expect("{\"__metadata__\":\"a\"}", 0, "wanted '{'");
}

static void a_header_longer_than_its_file_or_the_limit_is_refused(void **state)
{
    static const struct {
        uint64_t length;
        const char *says;
    } cases[] = {{17, "a header of 17 bytes in a file of 24"},
                 {99999999, "a header of 99999999 bytes in a file of 24"},
                 {100000000, "the format's limit is 100000000"},
                 {UINT64_MAX, "the format's limit is 100000000"}};
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wn_buf b = {0};

        made_number(&b, 8, cases[i].length);
        made_zeros(&b, 16);
        CHECK_FAILS(wn_source_open(made_file(wn_test_folder(), "a.safetensors", &b), &err), &err, cases[i].says);
    }
    for (size_t n = 0; n < 8; n++) {
        struct wn_buf b = {0};

        made_zeros(&b, n);
        CHECK_FAILS(wn_source_open(made_file(wn_test_folder(), "a.safetensors", &b), &err), &err, "too few");
    }
}

static void a_header_cut_at_any_byte_is_an_error(void **state)
{
    const char *path = wn_test_need_data("golden/text/tiny-b/ref/quant_IQ1_S.safetensors");
    struct wn_err err;
    size_t n, length;
    char *bytes = wn_file_slurp(path, 1 << 24, &n, &err);

    (void)state;
    CHECK_OK(bytes, &err);
    length = (size_t)wn_load64(bytes);
    for (size_t cut = 0; cut <= length; cut++) {
        char *copy = malloc(cut ? cut : 1), **metadata;
        struct wn_tensor_list list = {0};
        bool ok;

        assert_non_null(copy);
        memcpy(copy, bytes + 8, cut);
        /* what is cut off the header's end is data then */
        ok = wn_safetensors_parse(copy, cut, n, 0, &list, &metadata, &err);
        if (ok)
            free(metadata);
        /* the padding may go */
        if (ok != (strspn(bytes + 8 + cut, " ") >= length - cut))
            fail_msg("cut at %zu of %zu: %s", cut, length, ok ? "was read" : err.msg);
        wn_tensor_list_release(&list);
        free(copy);
    }
    free(bytes);
}

#define ONE(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}"

static const char *make_folder(const char *index)
{
    const char *folder = wn_test_folder();
    struct wn_err err;

    made_safetensors(folder, "model-00002-of-000002.safetensors", ONE("b"), 4);
    made_safetensors(folder, "model-00001-of-000002.safetensors", ONE("a"), 4);
    if (index)
        CHECK_OK(wn_file_put(wn_test_path(folder, "model.safetensors.index.json"), index, strlen(index), true, &err),
                 &err);
    return folder;
}

#define A "\"model-00001-of-000002.safetensors\""
#define B "\"model-00002-of-000002.safetensors\""

static void a_folder_opens_with_and_without_an_index(void **state)
{
    static const char *const indices[] = {
        NULL, "{\"metadata\":{\"total_size\":8},\"weight_map\":{\"b\":" B ",\"a\":" A "}}",
        "{\"weight_map\":{\"\\u0061\":" A ",\"b\":" B "},\"x\":[1.5e3,-0,{\"y\":[true,false,null,[]]}]}\n"};
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof indices / sizeof *indices; i++) {
        struct wn_source *s = wn_source_open(make_folder(indices[i]), &err);

        CHECK_OK(s, &err);
        assert_int_equal(wn_source_file_count(s), 2);
        assert_string_equal(wn_source_tensor_at(s, 0)->name, "a");
        assert_int_equal(wn_source_find(s, "b")->file, 1);
        wn_source_close(s);
    }
}

static void index_and_shards_must_agree_in_every_name(void **state)
{
    static const struct {
        const char *index, *says;
    } cases[] = {
        {"{\"weight_map\":{\"a\":" A "}}", NULL}, /* the second shard is not part of this model */
        {"{\"weight_map\":{\"a\":" A ",\"b\":" B ",\"c\":" B "}}", "tensor 'c' is not in 'model-00002"},
        {"{\"weight_map\":{\"a\":" A ",\"c\":" B "}}", "tensor 'c' is not in 'model-00002"},
        {"{\"weight_map\":{\"a\":" B ",\"b\":" A "}}", "tensor 'a' should be in 'model-00002"},
        {"{\"weight_map\":{\"a\":" A ",\"b\":" B ",\"a\":" A "}}", "tensor 'a' is listed twice"},
        {"{\"weight_map\":{\"a\":" A ",\"b\":\"model-3.safetensors\"}}",
         "names 'model-3.safetensors', which is missing"},
        {"{\"weight_map\":{\"a\":" A ",\"b\":\"../b.safetensors\"}}", "is not the name of a file beside the index"},
        {"{\"weight_map\":{\"a\":" A ",\"b\":\"/etc/passwd\"}}", "is not the name of a file beside the index"},
        {"{\"weight_map\":{\"a\":" A ",\"b\":\"\"}}", "is not the name of a file beside the index"},
        {"{\"weight_map\":{\"a\":" A ",\"b\":1}}", "wanted '\"'"},
        {"{\"metadata\":{}}", "'weight_map' is missing"},
        {"{\"weight_map\":{},\"weight_map\":{}}", "'weight_map' occurs twice"},
        {"{\"weight_map\":{\"a\":" A "}", "wanted"},
        {"{\"weight_map\":{\"a\":" A "}} {", "wanted the end"},
        {"{\"metadata\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "64 deep"},
        {"{\"metadata\":tru,\"weight_map\":{}}", "a value"},
        {"{\"metadata\":-,\"weight_map\":{}}", "a digit"},
    };
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wn_source *s = wn_source_open(make_folder(cases[i].index), &err);

        if ((s != NULL) != (cases[i].says == NULL))
            fail_msg("%s: %s", cases[i].index, s ? "was read" : err.msg);
        if (!s && (!wn_test_contains(err.msg, cases[i].says) || !wn_test_contains(err.msg, "index.json")))
            fail_msg("%s: said '%s', wanted '%s' in it", cases[i].index, err.msg, cases[i].says);
        wn_source_close(s);
    }
}

/*
 * Each line another file: what an index may say is bounded, and so is the time to find it out. Compared pair by pair,
 * the files of this one would take minutes.
 */
static void an_index_of_too_many_files_is_refused_soon(void **state)
{
    const char *folder = make_folder(NULL);
    struct wn_buf b = {0};
    struct wn_err err;

    (void)state;
    for (unsigned i = 0; i < 300000; i++)
        CHECK_OK(wn_buf_printf(&b, &err, "%s\"t%u\":\"%u.safetensors\"", i ? "," : "{\"weight_map\":{", i, i), &err);
    CHECK_OK(wn_buf_add(&b, "}}", 2, &err), &err);
    made_file(folder, "model.safetensors.index.json", &b);
    CHECK_FAILS(wn_source_open(folder, &err), &err, "more than 65535 files");
}

/* Lines in turn of two files: names are numbered right however often they come back. */
static void lines_of_an_index_may_come_in_any_order(void **state)
{
    const char *folder = wn_test_folder();
    struct wn_buf index = {0}, header[2] = {{0}, {0}};
    struct wn_source *s;
    struct wn_err err;

    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        CHECK_OK(
            wn_buf_printf(&index, &err, "%s\"t%u\":\"%c.safetensors\"", i ? "," : "{\"weight_map\":{", i, "yx"[i % 2]),
            &err);
        CHECK_OK(wn_buf_printf(&header[i % 2], &err,
                               "%s\"t%u\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", i > 1 ? "," : "{",
                               i),
                 &err);
    }
    CHECK_OK(wn_buf_add(&index, "}}", 2, &err), &err);
    for (int f = 0; f < 2; f++) {
        CHECK_OK(wn_buf_add(&header[f], "}", 2, &err), &err);
        made_safetensors(folder, f ? "x.safetensors" : "y.safetensors", header[f].at, 0);
        wn_buf_release(&header[f]);
    }
    made_file(folder, "model.safetensors.index.json", &index);
    s = wn_source_open(folder, &err);
    CHECK_OK(s, &err);
    assert_int_equal(wn_source_find(s, "t199")->file, 0);
    assert_int_equal(wn_source_find(s, "t198")->file, 1);
    wn_source_close(s);
}

static void a_tensor_that_the_index_forgot_is_named(void **state)
{
    const char *folder = make_folder("{\"weight_map\":{\"a\":" A ",\"b\":" B "}}");
    struct wn_err err;

    (void)state;
    made_safetensors(folder, "model-00002-of-000002.safetensors",
                     "{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                     "\"extra\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
                     8);
    CHECK_FAILS(wn_source_open(folder, &err), &err, "does not name tensor 'extra', which");
}

static void one_name_in_two_shards_is_refused_with_both(void **state)
{
    const char *folder = make_folder(NULL);
    struct wn_err err;

    (void)state;
    made_safetensors(folder, "model-00002-of-000002.safetensors", ONE("a"), 4);
    CHECK_FAILS(wn_source_open(folder, &err), &err, "tensor 'a' is in");
    assert_true(wn_test_contains(err.msg, "model-00001-of-000002.safetensors"));
    assert_true(wn_test_contains(err.msg, "model-00002-of-000002.safetensors"));
}

/* One shard of 896 experts with K3's sizes (15.7 GB, all hole), and one of a single expert. */
static void no_limit_of_512_experts_and_no_4_gib(void **state)
{
    static const unsigned counts[] = {896, 1};
    const uint64_t packed = 3072 * 1792, scale = 3072 * 112;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct wn_buf b = {0};
        struct wn_source *s;
        const struct wn_tensor *t;
        struct wn_err err;
        const char *path;
        uint64_t at = 0;
        char name[80], found[4];

        for (unsigned e = 0; e < counts[i] * 3; e++, at += packed + scale)
            CHECK_OK(wn_buf_printf(&b, &err,
                                   "%s\"experts.%u.w%u.weight_packed\":{\"dtype\":\"U8\",\"shape\":[3072,1792],"
                                   "\"data_offsets\":[%llu,%llu]},\"experts.%u.w%u.weight_scale\":{\"dtype\":\"U8\","
                                   "\"shape\":[3072,112],\"data_offsets\":[%llu,%llu]}",
                                   e ? "," : "{", e / 3, e % 3 + 1, (unsigned long long)at,
                                   (unsigned long long)(at + packed), e / 3, e % 3 + 1,
                                   (unsigned long long)(at + packed), (unsigned long long)(at + packed + scale)),
                     &err);
        CHECK_OK(wn_buf_add(&b, "}", 2, &err), &err);
        path = made_safetensors(wn_test_folder(), "a.safetensors", b.at, at);
        wn_buf_release(&b);
        snprintf(name, sizeof name, "experts.%u.w3.weight_scale", counts[i] - 1);
        s = wn_source_open(path, &err);
        CHECK_OK(s, &err);
        assert_int_equal(wn_source_tensor_count(s), counts[i] * 6);
        t = wn_source_find(s, name);
        assert_non_null(t);
        assert_int_equal(t->at + t->bytes, wn_source_file_at(s, 0)->file.bytes);
        made_write_at(path, t->at + t->bytes - 4, "last", 4);
        CHECK_OK(wn_source_read(s, t, t->bytes - 4, found, 4, &err), &err);
        assert_memory_equal(found, "last", 4);
        wn_source_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_come_in_order_of_place_whatever_the_header_says),
        cmocka_unit_test(gaps_spaces_and_empty_tensors_are_legal),
        cmocka_unit_test(names_are_unescaped),
        cmocka_unit_test(broken_strings_are_refused),
        cmocka_unit_test(an_entry_must_be_exactly_what_the_format_says),
        cmocka_unit_test(only_plain_whole_numbers_are_numbers),
        cmocka_unit_test(declared_sizes_are_not_trusted),
        cmocka_unit_test(overlapping_spans_are_refused_with_both_names),
        cmocka_unit_test(two_tensors_of_one_name_are_refused),
        cmocka_unit_test(junk_and_broken_json_are_refused),
        cmocka_unit_test(metadata_must_be_strings_and_is_kept),
        cmocka_unit_test(a_header_longer_than_its_file_or_the_limit_is_refused),
        cmocka_unit_test(a_header_cut_at_any_byte_is_an_error),
        cmocka_unit_test(a_folder_opens_with_and_without_an_index),
        cmocka_unit_test(index_and_shards_must_agree_in_every_name),
        cmocka_unit_test(an_index_of_too_many_files_is_refused_soon),
        cmocka_unit_test(lines_of_an_index_may_come_in_any_order),
        cmocka_unit_test(a_tensor_that_the_index_forgot_is_named),
        cmocka_unit_test(one_name_in_two_shards_is_refused_with_both),
        cmocka_unit_test(no_limit_of_512_experts_and_no_4_gib),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
