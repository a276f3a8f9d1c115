/* Which script a character is of. */
#include "wn_test.h"

#include "text/scripts.h"

static void check(struct wn_scripts *s, const char *text, enum wn_script wanted)
{
    uint8_t script[256];
    struct wn_err err;

    CHECK_OK(wn_scripts_mark(s, wn_bytes_of(text), script, &err), &err);
    for (size_t i = 0; text[i]; i++)
        if (script[i] != wanted)
            fail_msg("byte %zu of '%s' is %s, wanted %s", i, text, wn_script_name((enum wn_script)script[i]),
                     wn_script_name(wanted));
}

static void each_byte_has_the_script_of_its_character(void **state)
{
    static const struct {
        const char *text;
        enum wn_script script;
    } cases[] = {
        {"abcXYZ\u00e9\u0141", WN_SCRIPT_LATIN},
        {"\u4e16\u754c\U00020000", WN_SCRIPT_HAN},
        {"\u3053\u30b3\u30fc", WN_SCRIPT_KANA},
        {"\ud55c\uae00", WN_SCRIPT_HANGUL},
        {"\u041f\u0440", WN_SCRIPT_CYRILLIC},
        {"\u0639\u0631", WN_SCRIPT_ARABIC},
        {"\u0939\u093f", WN_SCRIPT_DEVANAGARI},
        {"\u0e44\u0e17", WN_SCRIPT_THAI},
        {"\u03b1\u03a9", WN_SCRIPT_GREEK},
        {"\u05e2\u05d1", WN_SCRIPT_HEBREW},
        {"\u1824", WN_SCRIPT_MONGOLIAN},
        {"\u13a0\u13a1", WN_SCRIPT_OTHER}, /* Cherokee */
        {" 12.\n+\u3002\u3001\u2019\U0001f600\u0301", WN_SCRIPT_NONE},
    };
    struct wn_err err;
    struct wn_scripts *s = wn_scripts_new(&err);

    (void)state;
    CHECK_OK(s, &err);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check(s, cases[i].text, cases[i].script);
    check(s, "", WN_SCRIPT_NONE);
    wn_scripts_free(s);
}

static void runs_of_several_scripts_are_told_apart(void **state)
{
    uint8_t script[16];
    struct wn_err err;
    struct wn_scripts *s = wn_scripts_new(&err);

    (void)state;
    CHECK_OK(s, &err);
    CHECK_OK(wn_scripts_mark(s, wn_bytes_of("a \u4e16\u3053b"), script, &err), &err);
    assert_memory_equal(script,
                        ((uint8_t[]){WN_SCRIPT_LATIN, WN_SCRIPT_NONE, WN_SCRIPT_HAN, WN_SCRIPT_HAN, WN_SCRIPT_HAN,
                                     WN_SCRIPT_KANA, WN_SCRIPT_KANA, WN_SCRIPT_KANA, WN_SCRIPT_LATIN}),
                        9);
    wn_scripts_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_byte_has_the_script_of_its_character),
        cmocka_unit_test(runs_of_several_scripts_are_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
