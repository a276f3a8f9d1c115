/* Digests of a file that grows and of its parts, against those of the same bytes at once. */
#include "jobs/hashing.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/rng.h"
#include "wn_test.h"

#include <stdlib.h>
#include <string.h>

#define MOST_PARTS 64

static struct wn_err err;

static void sum_of(const void *bytes, size_t n, uint8_t sum[WN_CHECKSUM_BYTES])
{
    struct wn_checksum c = {0};

    CHECK_OK(wn_checksum_begin(&c, &err), &err);
    wn_checksum_add(&c, bytes, n);
    wn_checksum_end(&c, sum);
    wn_checksum_release(&c);
}

/* As the library's own command (xxh128sum) tells them. */
static void checksums_are_xxh3_128_in_its_canonical_order(void **state)
{
    static const struct {
        const char *text, *sum;
    } known[] = {{"", "99aa06d3014798d86001c324468d497f"}, {"abc", "06b05ab6733a618578af5f94892f3950"}};

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char text[2 * WN_CHECKSUM_BYTES + 1];
        uint8_t sum[WN_CHECKSUM_BYTES];

        sum_of(known[i].text, strlen(known[i].text), sum);
        wn_hash_text(sum, sizeof sum, text);
        assert_string_equal(text, known[i].sum);
    }
}

static uint8_t *random_bytes(size_t n, struct wn_rng *rng)
{
    uint8_t *bytes = malloc(n);

    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)wn_rng_u64(rng);
    return bytes;
}

/* Some rising parts of n bytes: side by side, with gaps, empty ones, and ends where the thread's buffer ends. */
static size_t random_parts(struct wn_hash_part *part, uint64_t n, struct wn_rng *rng)
{
    uint64_t at = 0;
    size_t count = 0;

    while (count < MOST_PARTS && at < n) {
        uint64_t bytes = wn_rng_below(rng, 4) ? wn_rng_below(rng, n / 20 + 2) : 0;

        at += wn_rng_below(rng, 2) ? wn_rng_below(rng, n / 50 + 2) : 0;
        if (wn_rng_below(rng, 3) == 0)
            bytes = WN_HASHING_BYTES - at % WN_HASHING_BYTES;
        if (at + bytes > n)
            break;
        part[count++] = (struct wn_hash_part){at, bytes};
        at += bytes;
    }
    return count;
}

static void check_digests(const struct wn_hash_wanted *w, const uint8_t *bytes)
{
    uint8_t sha256[WN_DIGEST_BYTES], sum[WN_CHECKSUM_BYTES];

    CHECK_OK(wn_hash_bytes(bytes, (size_t)w->bytes, sha256, &err), &err);
    assert_memory_equal(w->sha256, sha256, sizeof sha256);
    for (size_t i = 0; i < w->n; i++) {
        sum_of(bytes + w->part[i].at, (size_t)w->part[i].bytes, sum);
        assert_memory_equal(w->sum + i * WN_CHECKSUM_BYTES, sum, sizeof sum);
    }
}

/* Bytes in steps of any length, which the thread is told of now and then, and a hole at the end. */
static void write_growing(struct wn_outfile *o, struct wn_hashing *h, const uint8_t *bytes, size_t n, size_t hole,
                          struct wn_rng *rng)
{
    for (size_t at = 0, step; at < n - hole; at += step) {
        step = wn_min_size(n - hole - at, 1 + wn_rng_below(rng, WN_HASHING_BYTES));
        CHECK_OK(wn_outfile_write(o, bytes + at, step, &err), &err);
        if (wn_rng_below(rng, 2))
            wn_hashing_feed(h, o->at);
    }
    CHECK_OK(wn_outfile_skip(o, hole, &err), &err);
}

/* The thread reads no byte that is not written yet, and each part has the bytes between its ends. */
static void a_growing_file_is_hashed_behind_its_writer(void **state)
{
    enum { BYTES = 5 * WN_HASHING_BYTES + 12345, HOLE = 5000 };
    const char *path = wn_test_path(wn_test_folder(), "grows");
    struct wn_rng rng = {1};
    uint8_t *bytes = random_bytes(BYTES, &rng);

    (void)state;
    memset(bytes + BYTES - HOLE, 0, HOLE);
    for (int i = 0; i < 40; i++) {
        uint8_t sha256[WN_DIGEST_BYTES], sum[MOST_PARTS * WN_CHECKSUM_BYTES];
        struct wn_hash_part part[MOST_PARTS];
        struct wn_hash_wanted w = {BYTES, sha256, part, random_parts(part, BYTES, &rng), sum};
        struct wn_hashing *h;
        struct wn_outfile o;

        CHECK_OK(wn_outfile_open(&o, path, false, &err), &err);
        CHECK_OK(h = wn_hashing_start(o.part, &w, &err), &err);
        write_growing(&o, h, bytes, BYTES, HOLE, &rng);
        CHECK_OK(wn_hashing_end(h, &err), &err);
        check_digests(&w, bytes);
        wn_outfile_abandon(&o);
    }
    free(bytes);
}

static void put_file(const char *path, const uint8_t *bytes, size_t n)
{
    struct wn_outfile o;

    CHECK_OK(wn_outfile_open(&o, path, false, &err), &err);
    CHECK_OK(wn_outfile_write(&o, bytes, n, &err), &err);
    CHECK_OK(wn_outfile_commit(&o, &err), &err);
}

/* What verify asks for. */
static void a_file_that_is_there_is_hashed_at_once(void **state)
{
    enum { BYTES = 2 * WN_HASHING_BYTES + 77 };
    const char *path = wn_test_path(wn_test_folder(), "there");
    uint8_t sha256[WN_DIGEST_BYTES], sum[WN_CHECKSUM_BYTES];
    struct wn_hash_part part = {1000, WN_HASHING_BYTES + 5};
    struct wn_hash_wanted w = {BYTES, sha256, &part, 1, sum};
    struct wn_rng rng = {2};
    uint8_t *bytes = random_bytes(BYTES, &rng);
    struct wn_file f;

    (void)state;
    put_file(path, bytes, BYTES);
    CHECK_OK(wn_hash_file(path, sha256, &err), &err);
    CHECK_OK(wn_file_open(&f, path, &err), &err);
    CHECK_OK(wn_hash_file_part(&f, &part, sum, &err), &err);
    check_digests(&w, bytes);
    wn_file_close(&f);
    free(bytes);
}

/* What the writer gave up ends the thread, wherever it is. */
static void it_can_be_stopped_at_any_time(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "short");
    uint8_t sha256[WN_DIGEST_BYTES];
    struct wn_hash_wanted w = {.bytes = 1 << 20, .sha256 = sha256};

    (void)state;
    put_file(path, (const uint8_t *)"short", 5);
    for (uint64_t i = 0; i < 50; i++) {
        struct wn_hashing *h = wn_hashing_start(path, &w, &err);

        CHECK_OK(h, &err);
        wn_hashing_feed(h, i % 6);
        wn_hashing_stop(h);
    }
    wn_hashing_stop(NULL);
}

static void a_file_that_is_not_there_is_a_sentence(void **state)
{
    uint8_t sha256[WN_DIGEST_BYTES];
    struct wn_hash_wanted w = {.bytes = 1, .sha256 = sha256};

    (void)state;
    CHECK_FAILS(wn_hashing_start("/nowhere/at/all", &w, &err), &err, "'/nowhere/at/all': ");
    assert_int_equal(err.code, WN_ERR_IO);
}

/* What the thread meets is told by the end: a folder opens, and cannot be read. */
static void an_error_of_the_thread_is_told_at_the_end(void **state)
{
    const char *folder = wn_test_folder();
    uint8_t sha256[WN_DIGEST_BYTES];
    struct wn_hash_wanted w = {.bytes = 1, .sha256 = sha256};
    struct wn_hashing *h = wn_hashing_start(folder, &w, &err);

    (void)state;
    CHECK_OK(h, &err);
    wn_hashing_feed(h, UINT64_MAX); /* does not wait for a thread that has gone */
    CHECK_FAILS(wn_hashing_end(h, &err), &err, "read at 0: ");
}

static void every_refused_allocation_is_survived(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "file");
    uint8_t sha256[WN_DIGEST_BYTES], sum[WN_CHECKSUM_BYTES];
    struct wn_hash_part part = {1, 3};
    struct wn_hash_wanted w = {5, sha256, &part, 1, sum};
    bool ok = false;

    (void)state;
    put_file(path, (const uint8_t *)"12345", 5);
    for (long n = 0; !ok && n < 100; n++) {
        struct wn_hashing *h;

        wn_alloc_fail_after(n);
        h = wn_hashing_start(path, &w, &err);
        ok = h && wn_hashing_end(h, &err);
        wn_alloc_fail_after(-1);
        if (!ok)
            assert_int_equal(err.code, WN_ERR_NOMEM);
    }
    assert_true(ok);
    check_digests(&w, (const uint8_t *)"12345");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_are_xxh3_128_in_its_canonical_order),
        cmocka_unit_test(a_growing_file_is_hashed_behind_its_writer),
        cmocka_unit_test(a_file_that_is_there_is_hashed_at_once),
        cmocka_unit_test(it_can_be_stopped_at_any_time),
        cmocka_unit_test(a_file_that_is_not_there_is_a_sentence),
        cmocka_unit_test(an_error_of_the_thread_is_told_at_the_end),
        cmocka_unit_test(every_refused_allocation_is_survived),
    };

    wn_file_pretend_sync(true);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
