/* Vocabulary files that are not what they should be: each fault has its sentence, with the line or the id. */
#include "golden.h"

#include "sys/file.h"
#include "text/base64.h"
#include "text/vocab_new.h"

#include <stdlib.h>
#include <string.h>

static size_t to_base64(const unsigned char *s, size_t n, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t at = 0;

    for (size_t i = 0; i < n; i += 3) {
        uint32_t x = (uint32_t)s[i] << 16 | (uint32_t)(i + 1 < n ? s[i + 1] : 0) << 8 | (i + 2 < n ? s[i + 2] : 0);

        out[at++] = digits[x >> 18];
        out[at++] = digits[x >> 12 & 63];
        out[at++] = i + 1 < n ? digits[x >> 6 & 63] : '=';
        out[at++] = i + 2 < n ? digits[x & 63] : '=';
    }
    out[at] = '\0';
    return at;
}

/* The 256 single bytes, then `more`. Good until the next call. */
static const char *tiktoken(const char *more)
{
    static char text[8192];
    size_t n = 0;

    for (unsigned b = 0; b < 256; b++) {
        unsigned char byte = (unsigned char)b;

        n += to_base64(&byte, 1, text + n);
        n += (size_t)sprintf(text + n, " %u\n", b);
    }
    snprintf(text + n, sizeof text - n, "%s", more);
    return text;
}

static struct wn_vocab *parse(const char *model, const char *config, struct wn_err *err)
{
    return wn_vocab_parse(model, strlen(model), config, config ? strlen(config) : 0, err);
}

static void a_good_file_is_read(void **state)
{
    struct wn_err err;
    struct wn_vocab *v = parse(tiktoken("YWI= 256\nYWJj 257\n"),
                               "{\"added_tokens_decoder\": {\"258\": {\"content\": \"[BOS]\"}}}", &err);
    uint32_t *ids;
    size_t n;

    (void)state;
    CHECK_OK(v, &err);
    assert_int_equal(wn_vocab_count(v), 258 + 256);
    CHECK_OK(wn_vocab_encode(v, "abc[BOS]", 8, true, &ids, &n, &err), &err);
    assert_int_equal(n, 2);
    assert_int_equal(ids[0], 257);
    assert_int_equal(ids[1], 258);
    free(ids);
    wn_vocab_free(v);
}

static void without_a_config_there_are_no_special_tokens(void **state)
{
    struct wn_err err;
    struct wn_vocab *v = parse(tiktoken("YWI= 256"), NULL, &err); /* the last line feed may be missing */

    (void)state;
    CHECK_OK(v, &err);
    assert_int_equal(wn_vocab_count(v), 257);
    assert_false(wn_vocab_is_special(v, 256));
    wn_vocab_free(v);
}

struct fault {
    const char *text, *sentence;
};

static void faults_of_the_ranks_are_named_with_their_line(void **state)
{
    static const struct fault faults[] = {
        {"YWI= 257\n", "line 257: rank '257', but ranks count up from 0 and this is 256"},
        {"YWI= 0256\n", "line 257: rank '0256'"},
        {"YWI= -1\n", "line 257: rank '-1'"},
        {"YWI= \n", "line 257: rank ''"},
        {"YWI= 256\r\n", "line 257: rank"},
        {"YWI= 256 \n", "line 257: rank"},
        {"YWI=  256\n", "line 257: rank"},
        {"YWI= 4294967552\n", "line 257: rank"},
        {"YWI=\n", "line 257: no space"},
        {"\n", "line 257: no space"},
        {" 256\n", "line 257: '' is not a token in base64"},
        {"YWI 256\n", "line 257: 'YWI' is not a token in base64"},
        {"YWJ= 256\n", "line 257: 'YWJ=' is not"},
        {"Y*I= 256\n", "line 257: 'Y*I=' is not"},
        {"==== 256\n", "line 257: '====' is not"},
        {"YWI= 256\nYWI= 257\n", "ids 256 and 257 are the same token"},
        {"YQ== 256\n", "ids 97 and 256 are the same token"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct wn_err err;

        CHECK_FAILS(parse(tiktoken(faults[i].text), NULL, &err), &err, faults[i].sentence);
        assert_int_equal(err.code, WN_ERR_FORMAT);
    }
}

static void a_missing_single_byte_is_named(void **state)
{
    struct wn_err err;

    (void)state;
    CHECK_FAILS(parse("YQ== 0\n", NULL, &err), &err, "no id for the single byte 00");
    CHECK_FAILS(parse("", NULL, &err), &err, "no id for the single byte 00");
    CHECK_FAILS(parse(tiktoken("") + 7, NULL, &err), &err, "line 1: rank '1'");
}

static void faults_of_the_config_are_named_with_the_id(void **state)
{
    static const struct fault faults[] = {
        {"", "tokenizer_config.json: line"},
        {"[]", "no object 'added_tokens_decoder'"},
        {"{}", "no object 'added_tokens_decoder'"},
        {"{\"added_tokens_decoder\": {\"255\": {\"content\": \"x\"}}}",
         "special id 255 is also a rank; ranks end at 255"},
        {"{\"added_tokens_decoder\": {\"512\": {\"content\": \"x\"}}}",
         "special id 512 is outside the vocabulary of 512 ids"},
        {"{\"added_tokens_decoder\": {\"4294967552\": {\"content\": \"x\"}}}", "'4294967552' is not an id"},
        {"{\"added_tokens_decoder\": {\"x\": {\"content\": \"x\"}}}", "'x' is not an id"},
        {"{\"added_tokens_decoder\": {\"300\": {\"content\": 1}}}", "id 300 has no string 'content'"},
        {"{\"added_tokens_decoder\": {\"300\": 1}}", "id 300 has no string 'content'"},
        {"{\"added_tokens_decoder\": {\"300\": {\"content\": \"\"}}}", "id 300 is a token of no bytes"},
        {"{\"added_tokens_decoder\": {\"300\": {\"content\": \"x\"}, \"301\": {\"content\": \"x\"}}}",
         "ids 300 and 301 are both named 'x'"},
        {"{\"added_tokens_decoder\": {\"300\": {\"content\": \"<|reserved_token_301|>\"}}}",
         "ids 300 and 301 are both named '<|reserved_token_301|>'"},
        {"{\"added_tokens_decoder\": {\"300\": {\"content\": \"x\"}, \"300\": {\"content\": \"y\"}}}", "duplicate"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct wn_err err;

        CHECK_FAILS(parse(tiktoken(""), faults[i].text, &err), &err, faults[i].sentence);
        assert_int_equal(err.code, WN_ERR_FORMAT);
    }
}

static void a_config_nested_without_end_is_an_error(void **state)
{
    char deep[20001];
    struct wn_err err;

    (void)state;
    memset(deep, '[', 20000);
    deep[20000] = '\0';
    CHECK_FAILS(parse(tiktoken(""), deep, &err), &err, "depth");
}

static void a_special_name_that_is_not_utf8_is_refused(void **state)
{
    struct wn_bytes tokens[257];
    enum wn_token_kind kinds[257] = {WN_TOKEN_NORMAL};
    char bytes[256];
    struct wn_err err;

    (void)state;
    for (unsigned b = 0; b < 256; b++) {
        bytes[b] = (char)b;
        tokens[b] = (struct wn_bytes){&bytes[b], 1};
    }
    tokens[256] = wn_bytes_of("\xe4\xbd");
    kinds[256] = WN_TOKEN_SPECIAL;
    CHECK_FAILS(wn_vocab_new(tokens, kinds, 257, &err), &err, "the name of special token 256 is not UTF-8");
    tokens[256].n = 0;
    CHECK_FAILS(wn_vocab_new(tokens, kinds, 257, &err), &err, "id 256 is a token of no bytes");
}

/* A folder with these files; NULL: without that one. */
static const char *folder_with(const char *model, const char *config, const char *sizes)
{
    const char *folder = wn_test_folder(), *names[] = {"tiktoken.model", "tokenizer_config.json", "config.json"};
    const char *texts[] = {model, config, sizes};
    struct wn_err err;

    for (int i = 0; i < 3; i++)
        if (texts[i])
            CHECK_OK(wn_file_put(wn_test_path(folder, names[i]), texts[i], strlen(texts[i]), false, &err), &err);
    return folder;
}

#define NO_NAMES "{\"added_tokens_decoder\": {}}"

static void a_missing_file_is_named(void **state)
{
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_vocab_open(folder_with(NULL, NO_NAMES, NULL), &err), &err, "tiktoken.model");
    assert_int_equal(err.code, WN_ERR_IO);
    CHECK_FAILS(wn_vocab_open(folder_with(tiktoken(""), NULL, NULL), &err), &err, "tokenizer_config.json");
    CHECK_FAILS(wn_vocab_open("/nowhere/at/all", &err), &err, "/nowhere/at/all");
}

static uint32_t count_with(const char *sizes)
{
    struct wn_err err;
    struct wn_vocab *v = wn_vocab_open(folder_with(tiktoken(""), NO_NAMES, sizes), &err);
    uint32_t n;

    CHECK_OK(v, &err);
    n = wn_vocab_count(v);
    wn_vocab_free(v);
    return n;
}

static void config_json_says_how_many_ids_there_are(void **state)
{
    (void)state;
    assert_int_equal(count_with(NULL), 512);
    assert_int_equal(count_with("{\"vocab_size\": 288}"), 288);
    assert_int_equal(count_with("{\"text_config\": {\"vocab_size\": 256}}"), 256);
}

static void a_vocab_size_that_does_not_fit_the_ranks_is_refused(void **state)
{
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_vocab_open(folder_with(tiktoken(""), NO_NAMES, "{\"vocab_size\": 255}"), &err), &err,
                "config.json: vocab_size 255 does not go with 256 ranks");
    CHECK_FAILS(wn_vocab_open(folder_with(tiktoken(""), NO_NAMES, "{\"vocab_size\": 9007199254740993}"), &err), &err,
                "vocab_size 9007199254740993");
    CHECK_FAILS(wn_vocab_open(folder_with(tiktoken(""), NO_NAMES, "{\"vocab_size\": -1}"), &err), &err,
                "vocab_size -1");
    CHECK_FAILS(wn_vocab_open(folder_with(tiktoken(""), NO_NAMES, "{}"), &err), &err, "no integer 'vocab_size'");
    CHECK_FAILS(wn_vocab_open(folder_with(tiktoken(""), NO_NAMES, "{"), &err), &err, "config.json: line 1");
}

static void base64_is_strict(void **state)
{
    static const char *const good[][2] = {{"", ""},
                                          {"Zg==", "f"},
                                          {"Zm8=", "fo"},
                                          {"Zm9v", "foo"},
                                          {"Zm9vYg==", "foob"},
                                          {"Zm9vYmE=", "fooba"},
                                          {"Zm9vYmFy", "foobar"}};
    static const char *const bad[] = {
        "Z", "Zg", "Zg=", "Zh==", "ZI==", "Zm9=", "Zm+=", "Z===", "====", "Zg==Zg==", "Zm-v", "Zm 9v", "=AAA"};
    char out[16];
    size_t n;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) { /* the examples of RFC 4648 */
        assert_true(wn_base64_decode(wn_bytes_of(good[i][0]), out, &n));
        assert_int_equal(n, strlen(good[i][1]));
        assert_memory_equal(out, good[i][1], n);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(wn_base64_decode(wn_bytes_of(bad[i]), out, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_is_read),
        cmocka_unit_test(without_a_config_there_are_no_special_tokens),
        cmocka_unit_test(faults_of_the_ranks_are_named_with_their_line),
        cmocka_unit_test(a_missing_single_byte_is_named),
        cmocka_unit_test(faults_of_the_config_are_named_with_the_id),
        cmocka_unit_test(a_config_nested_without_end_is_an_error),
        cmocka_unit_test(a_special_name_that_is_not_utf8_is_refused),
        cmocka_unit_test(a_missing_file_is_named),
        cmocka_unit_test(config_json_says_how_many_ids_there_are),
        cmocka_unit_test(a_vocab_size_that_does_not_fit_the_ranks_is_refused),
        cmocka_unit_test(base64_is_strict),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
