/* Probes in an archive: they come back as they were, and what contradicts itself is refused by its key. */
#include "wn_test.h"
#include "jobs/calibrate/saliency.h"
#include "sys/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 2, SOURCES = 2, LAYERS = 3, EXPERTS = 5 };

static const uint32_t layer_experts[LAYERS] = {0, 5, 4};

/* Experts from 3 on are gone at the first point, the first one at the second. */
static void make(struct wn_probes *p)
{
    struct wn_err err;

    CHECK_OK(wn_probes_init(p, POINTS, SOURCES, LAYERS, EXPERTS, &err), &err);
    for (uint32_t i = 0; i < POINTS; i++) {
        p->kept[i] = 0.5 + 0.25 * i;
        for (uint32_t l = 1; l < LAYERS; l++) {
            uint8_t *mask = p->mask + (i * LAYERS + l) * EXPERTS;

            for (uint32_t e = 0; e < layer_experts[l]; e++)
                mask[e] = i ? e == 0 : e >= 3;
            for (uint32_t s = 0; s < SOURCES; s++) {
                p->dropped[(i * SOURCES + s) * LAYERS + l] = 0.1 * (1 + i + s);
                p->kld[(i * SOURCES + s) * LAYERS + l] = 0.01 * (l + s);
            }
        }
    }
    p->ghosts = WN_GHOSTS_SKIP;
    p->tokens[0] = 40;
    p->tokens[1] = 24;
    (void)snprintf(p->settings, sizeof p->settings, "by hand");
}

static bool read_back(const struct wn_npz *z, struct wn_probes *p, struct wn_err *err)
{
    return wn_probes_read(p, z, SOURCES, LAYERS, EXPERTS, layer_experts, err);
}

static void probes_come_back_as_they_were(void **state)
{
    struct wn_probes p, q;
    struct wn_npz z = {0};
    struct wn_err err;

    (void)state;
    make(&p);
    CHECK_OK(wn_probes_put(&p, &z, SOURCES, LAYERS, EXPERTS, &err), &err);
    CHECK_OK(read_back(&z, &q, &err), &err);
    assert_int_equal(q.points, POINTS);
    assert_memory_equal(q.kept, p.kept, POINTS * sizeof *p.kept);
    assert_memory_equal(q.mask, p.mask, POINTS * LAYERS * EXPERTS);
    assert_memory_equal(q.dropped, p.dropped, POINTS * SOURCES * LAYERS * sizeof *p.dropped);
    assert_memory_equal(q.kld, p.kld, POINTS * SOURCES * LAYERS * sizeof *p.kld);
    assert_memory_equal(q.tokens, p.tokens, SOURCES * sizeof *p.tokens);
    assert_string_equal(q.settings, "by hand");
    assert_int_equal(q.ghosts, WN_GHOSTS_SKIP);
    wn_npz_release(&z);
    wn_probes_release(&p);
    wn_probes_release(&q);
    CHECK_OK(read_back(&z, &q, &err), &err); /* an archive without them has none */
    assert_int_equal(q.points, 0);
    assert_null(q.kld);
}

struct harm {
    const char *key, *why;
    size_t at; /* entry that gets `value`; of doubles, but of the mask */
    double value;
};

static void set(const struct wn_npy *a, size_t at, double value)
{
    if (a->kind == WN_NPY_U8)
        ((uint8_t *)a->data)[at] = (uint8_t)value;
    else if (a->kind == WN_NPY_I64)
        ((int64_t *)a->data)[at] = (int64_t)value;
    else
        ((double *)a->data)[at] = value;
}

static void entries_that_cannot_be_are_refused(void **state)
{
    static const struct harm all[] = {
        {"probe_kept", "'probe_kept': entry 1 is not a finite number", 1, NAN},
        {"probe_kept", "'probe_kept': entry 0 is more than 1", 0, 1.5},
        {"probe_mask", "'probe_mask': entry 6 is neither 0 nor 1", 6, 2},
        {"probe_mask", "point 0 drops expert 0 of layer 0, which has 0", 0, 1},
        {"probe_mask", "point 1 drops expert 4 of layer 2, which has 4", 15 + 14, 1},
        {"probe_dropped", "'probe_dropped': entry 4 is not a finite number", 4, NAN},
        {"probe_dropped", "'probe_dropped': entry 1 is more than 1", 1, 1.01},
        {"probe_dropped", "entry 3 is of layer 0, which has no experts", 3, 0.5},
        {"probe_kld", "'probe_kld': entry 2 is not a finite number", 2, INFINITY},
        {"probe_kld", "'probe_kld': entry 2 is not a finite number", 2, -1e-9},
        {"probe_kld", "entry 0 is of layer 0, which has no experts", 0, 0.5},
        {"probe_kld", "entry 4 is 1e+308 nats, and logits of 32 bits give 1e+39 at most", 4, 1e308},
        {"probe_tokens", "'probe_kld': entry 4 is 0.02, but source 1 was probed with no tokens", 1, 0},
        {"probe_tokens", "'probe_tokens': entry 1 is not a whole number", 1, -3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct wn_probes p, q;
        struct wn_npz z = {0};
        struct wn_err err;

        make(&p);
        CHECK_OK(wn_probes_put(&p, &z, SOURCES, LAYERS, EXPERTS, &err), &err);
        set(wn_npz_find(&z, all[i].key), all[i].at, all[i].value);
        CHECK_FAILS(read_back(&z, &q, &err), &err, all[i].why);
        assert_int_equal(err.code, WN_ERR_FORMAT);
        assert_null(q.kept);
        wn_npz_release(&z);
        wn_probes_release(&p);
    }
}

static void losses_without_a_cause_are_refused(void **state)
{
    struct wn_probes p, q;
    struct wn_npz z = {0};
    struct wn_err err;

    (void)state;
    make(&p);
    memset(p.mask + (LAYERS + 1) * EXPERTS, 0, EXPERTS);
    CHECK_OK(wn_probes_put(&p, &z, SOURCES, LAYERS, EXPERTS, &err), &err);
    CHECK_FAILS(read_back(&z, &q, &err), &err, "entry 7 is 0.01, but the mask of point 1 drops nobody in layer 1");
    wn_npz_release(&z);
    memset(p.kld, 0, sizeof *p.kld * POINTS * SOURCES * LAYERS);
    CHECK_OK(wn_probes_put(&p, &z, SOURCES, LAYERS, EXPERTS, &err), &err);
    CHECK_OK(read_back(&z, &q, &err), &err); /* that nobody went is no contradiction where nothing was lost */
    wn_probes_release(&q);
    wn_npz_release(&z);
    memset(p.tokens, 0, sizeof *p.tokens * SOURCES);
    CHECK_OK(wn_probes_put(&p, &z, SOURCES, LAYERS, EXPERTS, &err), &err);
    CHECK_FAILS(read_back(&z, &q, &err), &err, "'probe_tokens': no source was probed with any");
    wn_npz_release(&z);
    wn_probes_release(&p);
}

static void a_layer_that_keeps_nobody_is_refused(void **state)
{
    struct wn_probes p, q;
    struct wn_npz z = {0};
    struct wn_err err;

    (void)state;
    make(&p);
    memset(p.mask + 2 * EXPERTS, 1, 4);
    CHECK_OK(wn_probes_put(&p, &z, SOURCES, LAYERS, EXPERTS, &err), &err);
    CHECK_FAILS(read_back(&z, &q, &err), &err, "point 0 drops all experts of layer 2");
    wn_npz_release(&z);
    wn_probes_release(&p);
}

/* Written for another number of sources, layers or experts than the archive has. */
static void other_shapes_are_refused(void **state)
{
    static const struct {
        uint32_t points, sources, layers, experts;
        const char *why;
    } all[] = {
        {2, 3, 3, 5, "'probe_dropped' has shape [2, 3, 3], wanted [2, 2, 3]"},
        {2, 2, 4, 5, "'probe_mask' has shape [2, 4, 5], wanted [2, 3, 5]"},
        {2, 2, 3, 6, "'probe_mask' has shape [2, 3, 6], wanted [2, 3, 5]"},
        {17, 2, 3, 5, "'probe_kept' is not a list of 1 to 16 shares"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct wn_probes p, q;
        struct wn_npz z = {0};
        struct wn_err err;

        CHECK_OK(wn_probes_init(&p, all[i].points, all[i].sources, all[i].layers, all[i].experts, &err), &err);
        CHECK_OK(wn_probes_put(&p, &z, all[i].sources, all[i].layers, all[i].experts, &err), &err);
        CHECK_FAILS(read_back(&z, &q, &err), &err, all[i].why);
        wn_npz_release(&z);
        wn_probes_release(&p);
    }
}

static void some_keys_without_the_others_are_refused(void **state)
{
    static const char *const keys[] = {"probe_kept", "probe_mask", "probe_dropped", "probe_kld", "probe_tokens"};

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct wn_probes p, q;
        struct wn_npz z = {0};
        struct wn_err err;
        char why[64];

        make(&p);
        CHECK_OK(wn_probes_put(&p, &z, SOURCES, LAYERS, EXPERTS, &err), &err);
        for (size_t k = 0; k < z.n; k++)
            if (strcmp(z.entry[k].name, keys[i]) == 0)
                z.entry[k].name[0] = 'x';
        (void)snprintf(why, sizeof why, "but no '%s': the probes are not whole", keys[i]);
        CHECK_FAILS(read_back(&z, &q, &err), &err, why);
        wn_npz_release(&z);
        wn_probes_release(&p);
    }
}

static void what_stood_for_those_gone_is_a_word_that_is_known(void **state)
{
    static const char *const words[] = {"spirits", "built"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct wn_probes p, q;
        struct wn_npz z = {0};
        struct wn_npy word;
        struct wn_err err;

        make(&p);
        p.ghosts = WN_GHOSTS_BUILT; /* archives of before do not tell */
        CHECK_OK(wn_probes_put(&p, &z, SOURCES, LAYERS, EXPERTS, &err), &err);
        CHECK_OK(read_back(&z, &q, &err), &err);
        assert_int_equal(q.ghosts, WN_GHOSTS_BUILT);
        wn_probes_release(&q);
        CHECK_OK(wn_npy_init(&word, WN_NPY_UNICODE, 8, 0, NULL, &err), &err);
        CHECK_OK(wn_npy_set_string(&word, 0, words[i], &err), &err);
        CHECK_OK(wn_npz_add(&z, "probe_ghosts", &word, &err), &err);
        CHECK_FAILS(read_back(&z, &q, &err), &err, "known are 'off', 'skip' and 'mean'");
        wn_npz_release(&z);
        wn_probes_release(&p);
    }
}

static void text_in_the_place_of_numbers_is_refused(void **state)
{
    struct wn_npz z = {0};
    struct wn_probes p, q;
    struct wn_err err;
    uint64_t shape = 2;

    (void)state;
    make(&p);
    CHECK_OK(wn_probes_put(&p, &z, SOURCES, LAYERS, EXPERTS, &err), &err);
    wn_npy_release(&z.entry[0].array);
    CHECK_OK(wn_npy_init(&z.entry[0].array, WN_NPY_UNICODE, 3, 1, &shape, &err), &err);
    CHECK_FAILS(read_back(&z, &q, &err), &err, "'probe_kept' holds text, wanted numbers");
    wn_npz_release(&z);
    wn_probes_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probes_come_back_as_they_were),
        cmocka_unit_test(entries_that_cannot_be_are_refused),
        cmocka_unit_test(losses_without_a_cause_are_refused),
        cmocka_unit_test(a_layer_that_keeps_nobody_is_refused),
        cmocka_unit_test(other_shapes_are_refused),
        cmocka_unit_test(some_keys_without_the_others_are_refused),
        cmocka_unit_test(what_stood_for_those_gone_is_a_word_that_is_known),
        cmocka_unit_test(text_in_the_place_of_numbers_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
