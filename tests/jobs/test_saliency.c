/* The saliency archive: the reference's is read, ours come back the same, and contradictions are refused. */
#include "wn_test.h"
#include "base/bits.h"
#include "formats/npz.h"
#include "jobs/calibrate/saliency_means.h"
#include "jobs/prune/means.h"
#include "quant/quant.h"
#include "sys/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN "golden/text/tiny-a/ref/saliency.npz"

static void the_reference_archive_is_read(void **state)
{
    struct wn_saliency s;
    struct wn_err err;
    double sum = 0;
    uint64_t count = 0;

    (void)state;
    CHECK_OK(wn_saliency_read(&s, wn_test_need_data(GOLDEN), &err), &err);
    assert_int_equal(s.layer_count, 13);
    assert_int_equal(s.expert_count, 16);
    assert_int_equal(s.top_k, 4);
    assert_int_equal(s.token_count, 1024);
    assert_int_equal(s.source_count, 3);
    assert_string_equal(s.source[0], "code");
    assert_string_equal(s.source[1], "web_en");
    assert_string_equal(s.source[2], "zh");
    assert_int_equal(s.source_tokens[0] + s.source_tokens[1] + s.source_tokens[2], 1024);
    assert_int_equal(s.layer_experts[0], 0);
    assert_int_equal(s.layer_experts[12], 16);
    assert_int_equal(s.latent_size, 96);
    assert_int_equal(s.act_n[5], 1024);
    assert_null(s.sum_gate);
    for (uint32_t l = 0; l < 13; l++) {
        for (uint32_t e = 0; e < 16; e++) {
            size_t at = wn_saliency_row(&s, l) + e;
            double parts = 0;

            for (uint32_t i = 0; i < 3; i++)
                parts += s.source_saliency[wn_saliency_source_row(&s, i, l) + e];
            assert_true(fabs(parts - s.saliency[at]) <= 1e-9 * s.saliency[at]);
            sum += s.saliency[at];
            count += s.counts[at];
        }
    }
    assert_true(sum > 0);
    assert_int_equal(count, 12 * 4 * 1024); /* every token chooses four in each of twelve layers */
    wn_saliency_release(&s);
}

static void fill(double *p, size_t n, double start)
{
    for (size_t i = 0; i < n; i++)
        p[i] = start + (double)i / 7;
}

static size_t elements_of(const struct wn_saliency *s, enum wn_sum k)
{
    return wn_sum_blocks(s, k) * s->layer_count * wn_sum_width(s, k);
}

/* Three layers, the first dense, the last narrower; two sources. */
static void make(struct wn_saliency *s)
{
    static const uint32_t experts[3] = {0, 5, 4};
    static const char *const labels[2] = {"code", "日本語"};
    struct wn_err err;

    CHECK_OK(wn_saliency_init(s, 3, experts, 2, 6, 2, labels, &err), &err);
    for (uint32_t i = 0; i < 2; i++) {
        s->source_tokens[i] = 10 + i;
        for (uint32_t l = 1; l < 3; l++) {
            for (uint32_t e = 0; e < experts[l]; e++) {
                size_t at = wn_saliency_source_row(s, i, l) + e;

                s->source_saliency[at] = 0.1 * (double)(at + 1);
                s->source_counts[at] = (at * 7) % 11;
            }
        }
    }
    for (unsigned k = WN_SUM_GATE; k < WN_SUMS; k++)
        fill(*wn_sum_at(s, k), elements_of(s, k), 1 + k);
    for (unsigned k = 0; k < WN_SUMS; k++)
        for (size_t i = 0; i < elements_of(s, k); i++)
            s->low[k][i] = (i % 2 ? -0x1p-54 : 0x1p-55) * (*wn_sum_at(s, k))[i];
    fill(s->max_norm, 2 * 3 * 5, 4);
    s->act_n[1] = s->act_n[2] = 21;
    for (size_t i = 0; i < 4; i++)
        s->source_half_tokens[i] = 4 + i;
    s->source_sequences[0] = 2;
    s->source_sequences[1] = 3;
    snprintf(s->model_fingerprint, sizeof(s->model_fingerprint), "0123456789abcdef");
    snprintf(s->corpus_fingerprint, sizeof(s->corpus_fingerprint), "fedcba9876543210");
    snprintf(s->settings, sizeof(s->settings), "winnow test; sequences of 512");
    wn_saliency_add_up(s);
    wn_saliency_add_halves(s);
    assert_int_equal(s->half_tokens[0], 9);
    assert_int_equal(s->half_tokens[1], 13);
}

static void what_is_written_comes_back_the_same(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "s.npz");
    struct wn_saliency s, t;
    struct wn_err err;

    (void)state;
    make(&s);
    CHECK_OK(wn_saliency_write(&s, path, false, &err), &err);
    CHECK_OK(wn_saliency_read(&t, path, &err), &err);
    assert_int_equal(t.layer_count, 3);
    assert_int_equal(t.expert_count, 5);
    assert_int_equal(t.top_k, 2);
    assert_int_equal(t.token_count, 21);
    assert_memory_equal(t.layer_experts, s.layer_experts, 3 * sizeof(uint32_t));
    assert_string_equal(t.source[1], "日本語");
    assert_memory_equal(t.source_tokens, s.source_tokens, 2 * sizeof(uint64_t));
    assert_memory_equal(t.saliency, s.saliency, 15 * sizeof(double));
    assert_memory_equal(t.counts, s.counts, 15 * sizeof(uint64_t));
    for (unsigned k = 0; k < WN_SUMS; k++) {
        size_t n = elements_of(&s, k) * sizeof(double);

        assert_memory_equal(*wn_sum_at(&t, k), *wn_sum_at(&s, k), n);
        assert_memory_equal(t.low[k], s.low[k], n);
    }
    assert_memory_equal(t.source_counts, s.source_counts, 30 * sizeof(uint64_t));
    assert_memory_equal(t.max_norm, s.max_norm, 30 * sizeof(double));
    assert_memory_equal(t.half_saliency, s.half_saliency, 30 * sizeof(double));
    assert_memory_equal(t.half_tokens, s.half_tokens, sizeof(s.half_tokens));
    assert_memory_equal(t.source_half_tokens, s.source_half_tokens, 4 * sizeof(uint64_t));
    assert_memory_equal(t.source_sequences, s.source_sequences, 2 * sizeof(uint64_t));
    assert_memory_equal(t.act_n, s.act_n, 3 * sizeof(uint64_t));
    assert_int_equal(t.corpus_count, 0);
    assert_string_equal(t.model_fingerprint, s.model_fingerprint);
    assert_string_equal(t.corpus_fingerprint, s.corpus_fingerprint);
    assert_string_equal(t.settings, s.settings);
    wn_saliency_release(&t);
    wn_saliency_release(&s);
}

static void equal_sums_give_equal_files_and_fingerprints(void **state)
{
    const char *folder = wn_test_folder();
    const char *a = wn_test_path(folder, "a.npz"), *b = wn_test_path(folder, "b.npz");
    char fa[17], fb[17];
    struct wn_saliency s;
    struct wn_err err;

    (void)state;
    make(&s);
    CHECK_OK(wn_saliency_write(&s, a, false, &err), &err);
    CHECK_OK(wn_saliency_write(&s, b, false, &err), &err);
    wn_test_same_file(a, b);
    CHECK_OK(wn_saliency_fingerprint(a, fa, &err), &err);
    CHECK_OK(wn_saliency_fingerprint(b, fb, &err), &err);
    assert_string_equal(fa, fb);
    assert_int_equal(strlen(fa), 16);
    s.saliency[7] += 1e-12;
    CHECK_OK(wn_saliency_write(&s, b, true, &err), &err);
    CHECK_OK(wn_saliency_fingerprint(b, fb, &err), &err);
    assert_string_not_equal(fa, fb);
    CHECK_FAILS(wn_saliency_write(&s, b, false, &err), &err, "exists already");
    wn_saliency_release(&s);
}

enum { WIDTH = 7 };

/* struct wn_mean_source: expert e of layer l gives 100 l + e, but for its last channel. */
static bool give_means(void *arg, uint32_t layer, uint16_t *means, struct wn_err *err)
{
    const float *last = arg;

    (void)err;
    for (uint32_t i = 0; i < 5 * WIDTH; i++)
        means[i] = wn_f32_to_f16(i % WIDTH == WIDTH - 1 ? last[layer] : (float)(100 * layer + i / WIDTH));
    return true;
}

static void make_with_means(const char *path, float *last)
{
    const struct wn_mean_source source = {WIDTH, give_means, last};
    struct wn_saliency s;
    struct wn_err err;

    make(&s);
    CHECK_OK(wn_saliency_write_with(&s, &source, path, true, &err), &err);
    wn_saliency_release(&s);
}

static void means_stay_in_the_file_and_are_read_by_layer(void **state)
{
    const char *folder = wn_test_folder(), *path = wn_test_path(folder, "s.npz"),
               *plain = wn_test_path(folder, "p.npz");
    float last[3] = {0.5f, 1.5f, 2.5f};
    struct wn_saliency s, t;
    struct wn_means *m;
    struct wn_err err;

    (void)state;
    make_with_means(path, last);
    CHECK_OK(wn_saliency_read(&s, path, &err), &err);
    assert_int_equal(s.mean_width, WIDTH);
    m = wn_means_open(path, &err);
    CHECK_OK(m, &err);
    for (uint32_t layer = 3; layer-- > 0;)
        for (uint32_t e = 0; e < 5; e++) {
            const uint8_t *row = wn_means_row(m, layer, e, &err);

            CHECK_OK(row, &err);
            assert_true(wn_f16_to_f32(wn_load16(row + 4)) == (float)(100 * layer + e));
            assert_true(wn_f16_to_f32(wn_load16(row + 2 * WIDTH - 2)) == last[layer]);
        }
    wn_means_close(m);
    /* all the rest is what it is without */
    CHECK_OK(wn_saliency_write(&s, plain, false, &err), &err);
    wn_saliency_release(&s);
    make(&s);
    CHECK_OK(wn_saliency_write(&s, path, true, &err), &err);
    wn_test_same_file(path, plain);
    wn_saliency_release(&s);
    CHECK_OK(wn_saliency_read(&t, path, &err), &err);
    assert_int_equal(t.mean_width, 0);
    CHECK_FAILS(wn_means_open(path, &err), &err, "s.npz' has no means of outputs, which 'calibrate --means' writes");
    wn_saliency_release(&t);
}

static void means_that_are_not_finite_are_refused(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "s.npz");
    float last[3] = {0, 1e6f, 0};
    uint16_t means[2];
    double worst = 0;
    struct wn_means *m;
    struct wn_err err;

    (void)state;
    make_with_means(path, last);
    m = wn_means_open(path, &err);
    CHECK_OK(m, &err);
    CHECK_OK(wn_means_row(m, 0, 4, &err), &err);
    CHECK_FAILS(wn_means_row(m, 1, 2, &err), &err,
                "s.npz': the mean output of expert 0 in layer 1 is not finite (channel 6)");
    CHECK_OK(wn_means_row(m, 2, 0, &err), &err);
    wn_means_close(m);
    /* where they are made */
    assert_true(wn_means_round((const double[2]){3, -5}, 2, 2, means, &worst));
    assert_true(wn_f16_to_f32(means[1]) == -2.5f);
    assert_true(wn_means_round((const double[2]){3, -5}, 0, 2, means, &worst));
    assert_int_equal(means[0] | means[1], 0);
    assert_false(wn_means_round((const double[2]){3, 140000}, 2, 2, means, &worst));
    assert_true(worst == 70000);
}

/* Writes an npz of one or two arrays by hand, as another tool would. */
struct foreign {
    struct wn_npz z;
    char path[600];
};

static double *foreign_add(struct foreign *f, const char *key, uint32_t dims, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t shape[3] = {a, b, c};
    struct wn_npy array;
    struct wn_err err;
    double *data;

    CHECK_OK(wn_npy_init(&array, WN_NPY_F64, 0, dims, shape, &err), &err);
    data = array.data;
    CHECK_OK(wn_npz_add(&f->z, key, &array, &err), &err);
    return data;
}

/* A [2, 4] saliency whose layer 1 has experts. */
static double *foreign_start(struct foreign *f)
{
    double *s;

    memset(&f->z, 0, sizeof(f->z));
    snprintf(f->path, sizeof(f->path), "%s/f.npz", wn_test_folder());
    s = foreign_add(f, "saliency", 2, 2, 4, 0);
    for (int e = 0; e < 4; e++)
        s[4 + e] = e + 1;
    return s;
}

static void foreign_write(struct foreign *f)
{
    struct wn_err err;

    CHECK_OK(wn_npz_write(&f->z, f->path, true, &err), &err);
}

static void an_archive_with_nothing_but_saliency_is_accepted(void **state)
{
    struct foreign f;
    struct wn_saliency s;
    struct wn_err err;

    (void)state;
    foreign_start(&f);
    foreign_write(&f);
    CHECK_OK(wn_saliency_read(&s, f.path, &err), &err);
    assert_int_equal(s.layer_experts[0], 0);
    assert_int_equal(s.layer_experts[1], 4);
    assert_int_equal(s.source_count, 0);
    assert_int_equal(s.top_k, 0);
    assert_int_equal(s.counts[5], 0);
    wn_saliency_release(&s);
    wn_npz_release(&f.z);
}

static void top_k_shows_in_the_counts(void **state)
{
    struct foreign f;
    struct wn_saliency s;
    struct wn_err err;
    double *counts;

    (void)state;
    foreign_start(&f);
    counts = foreign_add(&f, "counts", 2, 2, 4, 0);
    for (int e = 0; e < 4; e++)
        counts[4 + e] = 5;
    foreign_add(&f, "n_tokens", 0, 0, 0, 0)[0] = 10;
    foreign_write(&f);
    CHECK_OK(wn_saliency_read(&s, f.path, &err), &err);
    assert_int_equal(s.top_k, 2);
    wn_saliency_release(&s);
    wn_npz_release(&f.z);
}

static void refused(struct foreign *f, const char *part)
{
    struct wn_saliency s;
    struct wn_err err;

    foreign_write(f);
    CHECK_FAILS(wn_saliency_read(&s, f->path, &err), &err, part);
    assert_null(s.saliency);
    wn_npz_release(&f->z);
}

static void archives_that_contradict_themselves_are_refused(void **state)
{
    struct foreign f;
    double *moe;

    (void)state;
    foreign_start(&f)[5] = NAN;
    refused(&f, "'saliency': entry 5 is not a finite number >= 0");
    foreign_start(&f)[6] = -1;
    refused(&f, "entry 6");
    foreign_start(&f);
    foreign_add(&f, "counts", 2, 2, 5, 0);
    refused(&f, "'counts' has shape [2, 5], wanted [2, 4]");
    foreign_start(&f);
    foreign_add(&f, "counts", 2, 2, 4, 0)[4] = 0.5;
    refused(&f, "'counts': entry 4 is not a whole number");
    foreign_start(&f);
    foreign_add(&f, "num_experts", 0, 0, 0, 0)[0] = 8;
    refused(&f, "'num_experts' 8");
    foreign_start(&f);
    foreign_add(&f, "moe_layers", 1, 1, 0, 0)[0] = 2;
    refused(&f, "'moe_layers': entry 0 is not a new layer of 0 .. 1");
    foreign_start(&f);
    moe = foreign_add(&f, "moe_layers", 1, 2, 0, 0);
    moe[0] = 1, moe[1] = -1;
    foreign_add(&f, "expert_counts", 1, 2, 0, 0)[1] = 4;
    refused(&f, "'moe_layers': entry 1 is not a new layer of 0 .. 1");
    foreign_start(&f);
    moe = foreign_add(&f, "moe_layers", 1, 2, 0, 0);
    moe[0] = moe[1] = 1;
    foreign_add(&f, "expert_counts", 1, 2, 0, 0)[1] = 4;
    refused(&f, "'moe_layers': entry 1 is not a new layer of 0 .. 1");
    foreign_start(&f);
    foreign_add(&f, "moe_layers", 1, 1, 0, 0)[0] = 0;
    foreign_add(&f, "expert_counts", 1, 2, 0, 0)[1] = 4;
    refused(&f, "layer 0 is in 'moe_layers' and has 0 experts by 'expert_counts'");
    foreign_start(&f);
    foreign_add(&f, "moe_layers", 1, 1, 0, 0)[0] = 0; /* layer 1 then is dense, but has sums */
    refused(&f, "layer 1 has 0 experts");
    foreign_start(&f);
    foreign_add(&f, "counts", 2, 2, 4, 0)[6] = 11;
    foreign_add(&f, "n_tokens", 0, 0, 0, 0)[0] = 10;
    refused(&f, "expert 2 was chosen 11 times in 10 tokens");
    foreign_start(&f);
    foreign_add(&f, "per_source", 3, 1, 2, 3);
    refused(&f, "'per_source' has shape [1, 2, 3], wanted [1, 2, 4]");
    foreign_start(&f);
    foreign_add(&f, "top_k", 0, 0, 0, 0)[0] = 5;
    refused(&f, "'top_k' is 5, but there are 4 experts");
    foreign_start(&f);
    foreign_add(&f, "top_k", 0, 0, 0, 0)[0] = 0;
    refused(&f, "'top_k' is 0: a token is given to at least one expert");
    foreign_start(&f);
    foreign_add(&f, "per_source", 3, 1, 2, 4)[4] = 1;
    foreign_add(&f, "per_source_low", 3, 1, 2, 4)[4] = 1e-15;
    refused(&f, "'per_source_low': entry 4 is more than 'per_source' leaves out");
    foreign_start(&f);
    foreign_add(&f, "mean_out", 3, 2, 4, 3);
    refused(&f, "'mean_out' is not an array of 16-bit floats of 2 layers, 4 experts and channels");
    foreign_start(&f);
    foreign_add(&f, "per_source", 3, 1, 2, 4);
    foreign_add(&f, "loo_up", 3, 1, 2, 4);
    refused(&f, "'loo_up' has shape [1, 2, 4], wanted [1, 2]");
    memset(&f.z, 0, sizeof(f.z));
    foreign_add(&f, "counts", 2, 2, 4, 0);
    refused(&f, "no array 'saliency'");
}

static void a_file_that_is_no_archive_is_refused_by_name(void **state)
{
    const char *path = wn_test_path(wn_test_folder(), "x.npz");
    struct wn_saliency s;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_file_put(path, "nothing of the kind", 19, false, &err), &err);
    CHECK_FAILS(wn_saliency_read(&s, path, &err), &err, "x.npz");
}

static void labels_must_be_told_apart(void **state)
{
    static const uint32_t experts[1] = {4};
    static const char *const twice[2] = {"a", "a"}, *const empty[1] = {""};
    static const uint32_t dense[1] = {0};
    struct wn_saliency s;
    struct wn_err err;

    (void)state;
    CHECK_FAILS(wn_saliency_init(&s, 1, experts, 2, 0, 2, twice, &err), &err, "'a' stands twice");
    CHECK_FAILS(wn_saliency_init(&s, 1, experts, 2, 0, 1, empty, &err), &err, "empty label");
    CHECK_FAILS(wn_saliency_init(&s, 1, dense, 2, 0, 1, twice, &err), &err, "none of the 1 layers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_archive_is_read),
        cmocka_unit_test(what_is_written_comes_back_the_same),
        cmocka_unit_test(means_stay_in_the_file_and_are_read_by_layer),
        cmocka_unit_test(means_that_are_not_finite_are_refused),
        cmocka_unit_test(equal_sums_give_equal_files_and_fingerprints),
        cmocka_unit_test(an_archive_with_nothing_but_saliency_is_accepted),
        cmocka_unit_test(top_k_shows_in_the_counts),
        cmocka_unit_test(archives_that_contradict_themselves_are_refused),
        cmocka_unit_test(a_file_that_is_no_archive_is_refused_by_name),
        cmocka_unit_test(labels_must_be_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
