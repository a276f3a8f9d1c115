/* Text that comes in pieces and goes to people. */
#include "wn_test.h"

#include "base/rng.h"
#include <winnow/vocab.h>

#include <stdlib.h>
#include <string.h>

#define FFFD "\xef\xbf\xbd"

static const char *const texts[][2] = {
    {"plain", "plain"},
    {"h\xc3\xa9llo \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x91\x8d",
     "h\xc3\xa9llo \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x91\x8d"},
    {"\xff", FFFD},
    {"a\x80\x80z", "a" FFFD FFFD "z"},
    {"\xe4\xbd", FFFD}, /* the start of a character: one mark */
    {"\xe4\xbd(", FFFD "("},
    {"\xf0\x9f\x91", FFFD},
    {"\xf0\x9f\x91\xf0\x9f\x91\x8d", FFFD "\xf0\x9f\x91\x8d"},
    {"\xed\xa0\x80", FFFD FFFD FFFD},          /* a surrogate: no byte of it starts anything */
    {"\xc0\xaf", FFFD FFFD},                   /* overlong */
    {"\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD}, /* above U+10FFFF */
    {"\xe4\xc3\xa9\xe4", FFFD "\xc3\xa9" FFFD},
};

/* The whole of text through the stream, cut where the bits of `cuts` say: bit i cuts behind byte i. */
static size_t run(const char *text, size_t n, uint64_t cuts, char *out)
{
    struct wn_utf8_stream s = {{0}, 0};
    size_t start = 0, written = 0;

    for (size_t i = 0; i < n; i++)
        if (i + 1 == n || (cuts >> (i % 64) & 1)) {
            written += wn_utf8_stream(&s, text + start, i + 1 - start, out + written);
            start = i + 1;
        }
    return written + wn_utf8_stream(&s, NULL, 0, out + written);
}

static void every_way_of_cutting_gives_the_same_valid_text(void **state)
{
    char out[256];

    (void)state;
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        size_t n = strlen(texts[t][0]), bits = n < 12 ? n : 12;

        for (uint64_t cuts = 0; cuts < 1u << bits; cuts++) {
            size_t written = run(texts[t][0], n, cuts, out);

            assert_int_equal(written, strlen(texts[t][1]));
            assert_memory_equal(out, texts[t][1], written);
        }
    }
}

static void random_bytes_come_out_the_same_however_they_are_cut(void **state)
{
    struct wn_rng rng = {20260801};
    char bytes[64], whole[3 * 64 + 16], cut[sizeof whole];

    (void)state;
    for (int round = 0; round < 2000; round++) {
        size_t n = wn_rng_below(&rng, sizeof bytes + 1), whole_n;

        for (size_t i = 0; i < n; i++) /* mostly bytes that almost make characters */
            bytes[i] = wn_rng_below(&rng, 8) ? "\xe4\xbd\xa0\xf0\x9f\x91\x8d\xc3"[wn_rng_below(&rng, 8)]
                                             : (char)wn_rng_u64(&rng);
        whole_n = run(bytes, n, 0, whole);
        assert_true(whole_n <= 3 * (n + 4));
        assert_int_equal(run(bytes, n, wn_rng_u64(&rng), cut), whole_n);
        assert_memory_equal(whole, cut, whole_n);
    }
}

static void an_incomplete_character_is_held_back_until_its_last_byte(void **state)
{
    struct wn_utf8_stream s = {{0}, 0};
    char out[32];

    (void)state;
    assert_int_equal(wn_utf8_stream(&s, "a\xf0\x9f", 3, out), 1);
    assert_int_equal(wn_utf8_stream(&s, "\x91", 1, out), 0);
    assert_int_equal(wn_utf8_stream(&s, "\x8d", 1, out), 4);
    assert_memory_equal(out, "\xf0\x9f\x91\x8d", 4);
    assert_int_equal(s.held_n, 0);
    assert_int_equal(wn_utf8_stream(&s, NULL, 0, out), 0);
}

static void a_stream_can_go_on_after_a_flush(void **state)
{
    struct wn_utf8_stream s = {{0}, 0};
    char out[32];

    (void)state;
    assert_int_equal(wn_utf8_stream(&s, "\xe4\xbd", 2, out), 0);
    assert_int_equal(wn_utf8_stream(&s, NULL, 0, out), 3);
    assert_memory_equal(out, FFFD, 3);
    assert_int_equal(wn_utf8_stream(&s, "ok", 2, out), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_of_cutting_gives_the_same_valid_text),
        cmocka_unit_test(random_bytes_come_out_the_same_however_they_are_cut),
        cmocka_unit_test(an_incomplete_character_is_held_back_until_its_last_byte),
        cmocka_unit_test(a_stream_can_go_on_after_a_flush),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
