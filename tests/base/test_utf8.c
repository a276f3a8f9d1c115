/* UTF-8 by RFC 3629, against the table of the Unicode standard written out in another way. */
#include "wn_test.h"

#include "base/utf8.h"

#include <string.h>

static void every_scalar_value_survives_encoding_and_decoding(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char s[4];
        uint32_t back;
        size_t n;

        if (c == 0xd800)
            c = 0xe000; /* surrogates are no scalar values */
        n = wn_utf8_encode(c, s);
        assert_int_equal(n, c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4);
        if (wn_utf8_decode(s, n, &back) != n || back != c)
            fail_msg("U+%04X came back as U+%04X", (unsigned)c, (unsigned)back);
    }
}

/* Decodes without knowing the table: by the bits, then asks whether the value needed that many bytes. */
static size_t decode_by_value(const unsigned char *s, size_t n, uint32_t *code)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;

    if (len == 0 || len > n)
        return 0;
    *code = len == 1 ? s[0] : s[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (s[i] >> 6 != 2)
            return 0;
        *code = *code << 6 | (s[i] & 63u);
    }
    if (*code < least[len] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000))
        return 0;
    return len;
}

static void overlong_forms_surrogates_and_values_above_10ffff_are_invalid(void **state)
{
    static const unsigned char edges[] = {0x00, 0x28, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff};

    (void)state;
    for (unsigned lead = 0; lead < 256; lead++)
        for (unsigned second = 0; second < 256; second++)
            for (size_t k = 0; k < sizeof edges; k++) {
                unsigned char s[4] = {(unsigned char)lead, (unsigned char)second, edges[k], 0x80};

                for (size_t n = 1; n <= 4; n++) {
                    uint32_t code, want_code = 0xfffd;
                    size_t want = decode_by_value(s, n, &want_code);

                    if (wn_utf8_decode((const char *)s, n, &code) != want || code != (want ? want_code : 0xfffd))
                        fail_msg("%02x %02x %02x 80, %zu bytes: wanted length %zu", lead, second, edges[k], n, want);
                }
            }
}

struct tail {
    const char *text;
    size_t n;
};

static void the_tail_is_what_more_bytes_could_complete(void **state)
{
    static const struct tail tails[] = {
        {"", 0},
        {"abc", 0},
        {"a\xc3", 1},
        {"a\xc3\xa9", 0},
        {"\xe4", 1},
        {"\xe4\xbd", 2},
        {"\xe4\xbd\xa0", 0},
        {"x\xf0\x9f\x91", 3},
        {"x\xf0\x9f\x91\x8d", 0},
        {"\x80", 0},
        {"\xe4\xbd\x80\x80", 0}, /* a stray byte after a character completes nothing */
        {"\xc0", 0},             /* never starts a character */
        {"\xf5", 0},
        {"\xe0\x80", 0}, /* overlong already */
        {"\xed\xa0", 0}, /* a surrogate already */
        {"\xf4\x90", 0}, /* too large already */
        {"\xed\x9f", 2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++)
        assert_int_equal(wn_utf8_tail(tails[i].text, strlen(tails[i].text)), tails[i].n);
}

static void a_text_is_valid_when_all_of_it_is(void **state)
{
    (void)state;
    assert_true(wn_utf8_is_valid("", 0));
    assert_true(wn_utf8_is_valid("a\xc3\xa9\0\xf0\x9f\x91\x8d", 8));
    assert_false(wn_utf8_is_valid("a\xc3\xa9\0\xf0\x9f\x91\x8d", 7));
    assert_false(wn_utf8_is_valid("\xff", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scalar_value_survives_encoding_and_decoding),
        cmocka_unit_test(overlong_forms_surrogates_and_values_above_10ffff_are_invalid),
        cmocka_unit_test(a_text_is_valid_when_all_of_it_is),
        cmocka_unit_test(the_tail_is_what_more_bytes_could_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
