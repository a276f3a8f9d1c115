/* Archives of parts of a corpus, merged, are that of the whole; what does not belong together is refused. */
#include "calibrate_fixture.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/rng.h"
#include "jobs/calibrate/saliency.h"
#include "jobs/prune/means.h"
#include "quant/quant.h"
#include "sys/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/merge.h>

#define PARTS 3

/* wn_test_path's answers do not last; these do, until the test ends. */
static const char *keep(const char *path)
{
    static char kept[64][256];
    static size_t n;
    char *to = kept[n++ % 64];

    (void)snprintf(to, sizeof kept[0], "%s", path);
    return to;
}

static const char *new_path(const char *name)
{
    return keep(wn_test_path(wn_test_folder(), name));
}

/*
 * A corpus in parts, and the whole. Source "b" begins with an odd number of sequences, "c" is only in the last part,
 * and one sequence has tokens of two sources.
 */
static void make_parts(const char *part[PARTS], const char **whole)
{
    static const char *const sources[PARTS] = {"aabbb", "bbaab", "cbca"};
    const char *folder = keep(wn_test_folder());
    struct wn_rng rng = {77};
    struct wn_buf all = {0};
    struct wn_err err;

    for (unsigned p = 0; p < PARTS; p++) {
        struct wn_buf one = {0};
        char name[32];

        for (const char *s = sources[p]; *s; s++) {
            bool mixed = p == 1 && s == sources[p];

            CHECK_OK(wn_buf_printf(&one, &err, mixed ? "{\"source\": [\"%c\"" : "{\"source\": \"%c\"", *s), &err);
            for (unsigned i = 1; mixed && i < 20; i++)
                CHECK_OK(wn_buf_printf(&one, &err, ", \"%c\"", i % 3 ? 'a' : 'b'), &err);
            CHECK_OK(wn_buf_printf(&one, &err, mixed ? "], \"tokens\": [7" : ", \"tokens\": [7"), &err);
            for (unsigned i = 1; i < 20; i++)
                CHECK_OK(wn_buf_printf(&one, &err, ",%" PRIu64, wn_rng_below(&rng, 400)), &err);
            CHECK_OK(wn_buf_printf(&one, &err, "]}\n"), &err);
        }
        (void)snprintf(name, sizeof name, "part-%u.jsonl", p);
        part[p] = keep(wn_test_path(folder, name));
        CHECK_OK(wn_file_put(part[p], one.at, one.n, false, &err), &err);
        CHECK_OK(wn_buf_add(&all, one.at, one.n, &err), &err);
        wn_buf_release(&one);
    }
    *whole = keep(wn_test_path(folder, "whole.jsonl"));
    CHECK_OK(wn_file_put(*whole, all.at, all.n, false, &err), &err);
    wn_buf_release(&all);
}

static const char *archive_with(const char *corpus, bool means)
{
    struct calibration c = {.model = wn_test_need_data(TINY),
                            .o = {.corpus = corpus, .out = new_path("sal.npz"), .means = means}};
    struct wn_err err;

    CHECK_OK(calibrate(&c, &err), &err);
    return c.o.out;
}

static const char *archive_of(const char *corpus)
{
    return archive_with(corpus, false);
}

static const char *merged(const char *const *archives, size_t n, struct wn_merge_result *r)
{
    struct wn_merge_options o = {.archives = archives, .count = n, .out = new_path("merged.npz")};
    struct wn_err err;

    CHECK_OK(wn_merge(&o, NULL, r, &err), &err);
    return o.out;
}

/* Provenance apart: which corpus it was, and the settings. */
static const char *without_provenance(const char *archive, char corpus[17])
{
    const char *path = new_path("plain.npz");
    struct wn_saliency s;
    struct wn_err err;

    CHECK_OK(wn_saliency_read(&s, archive, &err), &err);
    memcpy(corpus, s.corpus_fingerprint, 17);
    s.corpus_count = 0;
    *s.corpus_fingerprint = *s.settings = 0;
    CHECK_OK(wn_saliency_write(&s, path, false, &err), &err);
    wn_saliency_release(&s);
    return path;
}

static void merged_archives_are_byte_for_byte_that_of_one_run(void **state)
{
    static const unsigned orders[][PARTS] = {{0, 1, 2}, {1, 0, 2}};
    const char *corpora[PARTS], *whole, *part[PARTS], *want;
    char corpus[3][17];
    struct wn_merge_result r;

    (void)state;
    make_parts(corpora, &whole);
    for (unsigned i = 0; i < PARTS; i++)
        part[i] = archive_of(corpora[i]);
    want = without_provenance(archive_of(whole), corpus[0]);
    wn_test_same_file(want, without_provenance(merged(part, PARTS, &r), corpus[1]));
    assert_int_equal(r.tokens, 14 * 20);
    assert_int_equal(r.sources, 3);
    assert_int_equal(r.corpora, 3);
    assert_true(r.exact);
    for (unsigned i = 0; i < 2; i++) {
        /* in two steps */
        const char *first[2] = {part[orders[i][0]], part[orders[i][1]]}, *second[2] = {merged(first, 2, &r), part[2]};
        const char *got = without_provenance(merged(second, 2, &r), corpus[2]);

        assert_string_equal(corpus[1], corpus[2]);
        assert_string_not_equal(corpus[0], corpus[2]);
        /* b before a: their halves are turned, and so is the order of sources */
        if (i == 0)
            wn_test_same_file(want, got);
    }
}

static void a_corpus_counts_once(void **state)
{
    const char *corpora[PARTS], *whole, *part[PARTS], *twice[3];
    struct wn_merge_result r;
    struct wn_merge_options o = {.archives = twice, .count = 2, .out = new_path("m.npz")};
    struct wn_err err;

    (void)state;
    make_parts(corpora, &whole);
    for (unsigned i = 0; i < 2; i++)
        part[i] = archive_of(corpora[i]);
    twice[0] = merged(part, 2, &r);
    twice[1] = part[1];
    CHECK_FAILS(wn_merge(&o, NULL, &r, &err), &err, "' cannot be merged: its corpus '");
    assert_true(wn_test_contains(err.msg, "merged.npz' already, and would count twice"));
    assert_false(wn_path_exists(o.out));
}

/* An archive that a change makes something else; it goes into a new file. */
typedef void change_fn(struct wn_saliency *s);

static const char *changed(const char *archive, change_fn *change)
{
    const char *path = new_path("changed.npz");
    struct wn_saliency s;
    struct wn_err err;

    CHECK_OK(wn_saliency_read(&s, archive, &err), &err);
    (void)snprintf(s.corpus_fingerprint, sizeof s.corpus_fingerprint, "another");
    change(&s);
    CHECK_OK(wn_saliency_write(&s, path, false, &err), &err);
    wn_saliency_release(&s);
    return path;
}

static void nothing(struct wn_saliency *s)
{
    (void)s;
}

static void another_top_k(struct wn_saliency *s)
{
    s->top_k--;
}

static void another_model(struct wn_saliency *s)
{
    s->model_fingerprint[0] = s->model_fingerprint[0] == '0' ? '1' : '0';
}

static void another_layer(struct wn_saliency *s)
{
    for (size_t i = 0; i < s->expert_count; i++)
        s->saliency[i] = 0;
    s->layer_experts[0] = 4;
}

static void drop_sources(struct wn_saliency *s)
{
    for (uint32_t i = 0; i < s->source_count; i++)
        free(s->source[i]);
    free(s->source_saliency);
    s->source_saliency = NULL;
    s->source_count = 0;
}

static void fewer_layers(struct wn_saliency *s)
{
    drop_sources(s);
    s->latent_size = 0;
    free(s->act_mag);
    s->act_mag = NULL;
    s->layer_count--;
}

static void other_models_are_refused_by_what_differs(void **state)
{
    static const struct {
        change_fn *change;
        const char *part;
    } cases[] = {{another_top_k, "its top-k is 3, that of the archives before it 4"},
                 {another_model, "its model is '"},
                 {another_layer, "layer 0 has 4 experts, in '"},
                 {fewer_layers, "12 layers of 16 experts, but '"}};
    const char *base = archive_of(keep(random_corpus(2, 16, 400, 5))), *two[2] = {base};
    struct wn_merge_options o = {.archives = two, .count = 2, .out = new_path("m.npz")};
    struct wn_merge_result r;
    struct wn_err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        two[1] = changed(base, cases[i].change);
        CHECK_FAILS(wn_merge(&o, NULL, &r, &err), &err, cases[i].part);
    }
    two[1] = changed(base, nothing);
    CHECK_OK(wn_merge(&o, NULL, &r, &err), &err);
    CHECK_FAILS(wn_merge(&o, NULL, &r, &err), &err, "exists already");
    o.out = two[1];
    o.overwrite = true;
    CHECK_FAILS(wn_merge(&o, NULL, &r, &err), &err, "is the input");
}

/* As other tools write them. */
static void only_totals(struct wn_saliency *s)
{
    drop_sources(s);
    free(s->half_saliency);
    s->half_saliency = NULL;
    *s->model_fingerprint = *s->corpus_fingerprint = 0;
}

static void only_their_keys(struct wn_saliency *s)
{
    for (unsigned k = 0; k < WN_SUMS; k++) {
        free(s->low[k]);
        s->low[k] = NULL;
        if (k != WN_SUM_SALIENCY && k != WN_SUM_INPUT) {
            free(*wn_sum_at(s, k));
            *wn_sum_at(s, k) = NULL;
        }
    }
    free(s->max_norm);
    free(s->half_saliency);
    free(s->source_sequences);
    free(s->source_half_tokens);
    s->max_norm = s->half_saliency = NULL;
    s->source_sequences = s->source_half_tokens = NULL;
    s->top_k = 0;
    *s->model_fingerprint = *s->corpus_fingerprint = 0;
}

static void take_note(void *arg, const char *line)
{
    strncat(arg, line, 2047 - strlen(arg));
    strncat(arg, "\n", 2047 - strlen(arg));
}

static void check_doubled(const struct wn_saliency *s, const struct wn_saliency *base)
{
    assert_int_equal(s->token_count, 2 * base->token_count);
    for (size_t i = 0; i < (size_t)s->layer_count * s->expert_count; i++) {
        assert_true(fabs(s->saliency[i] - 2 * base->saliency[i]) <= 1e-15 * s->saliency[i]);
        assert_int_equal(s->counts[i], 2 * base->counts[i]);
    }
}

static void archives_of_others_are_added_as_far_as_they_go(void **state)
{
    static change_fn *const changes[] = {only_their_keys, only_totals};
    const char *base = archive_of(keep(random_corpus(3, 16, 400, 5))), *two[2] = {base};
    struct wn_saliency s, b;
    struct wn_merge_result r;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_saliency_read(&b, base, &err), &err);
    for (int i = 0; i < 2; i++) {
        char notes[2048] = "";
        struct wn_job job = {.note = take_note, .arg = notes};
        struct wn_merge_options o = {.archives = two, .count = 2, .out = new_path("m.npz")};

        two[1] = changed(base, changes[i]);
        CHECK_OK(wn_merge(&o, &job, &r, &err), &err);
        assert_false(r.exact);
        assert_true(wn_test_contains(notes, i ? "lacks per_source, sum_gate," : "lacks sum_gate, sum_norm, sum_sq,"));
        assert_true(wn_test_contains(notes, " saliency_half, and so does the merged archive"));
        CHECK_OK(wn_saliency_read(&s, o.out, &err), &err);
        check_doubled(&s, &b);
        assert_int_equal(s.source_count, i ? 0 : 2);
        assert_int_equal(s.top_k, b.top_k);
        assert_null(s.sum_gate);
        assert_null(s.half_saliency);
        assert_int_equal(s.act_n[3], 2 * b.act_n[3]);
        wn_saliency_release(&s);
    }
    wn_saliency_release(&b);
}

/* All means of an archive, and how often each expert was chosen. */
struct told {
    struct wn_saliency s;
    uint16_t *means;
};

static struct told told_by(const char *path)
{
    struct told t;
    struct wn_means *m;
    struct wn_err err;
    size_t layer;

    CHECK_OK(wn_saliency_read(&t.s, path, &err), &err);
    layer = (size_t)t.s.expert_count * t.s.mean_width;
    t.means = calloc(t.s.layer_count * layer, sizeof *t.means);
    assert_non_null(t.means);
    m = wn_means_open(path, &err);
    CHECK_OK(m, &err);
    for (uint32_t i = 0; i < t.s.layer_count; i++) {
        CHECK_OK(wn_means_row(m, i, 0, &err), &err);
        memcpy(t.means + i * layer, m->rows, layer * sizeof *t.means);
    }
    wn_means_close(m);
    return t;
}

static void told_release(struct told *t)
{
    wn_saliency_release(&t->s);
    free(t->means);
}

static float mean_at(const struct told *t, size_t i)
{
    return wn_f16_to_f32(t->means[i]);
}

static size_t mean_count(const struct told *t)
{
    return (size_t)t->s.layer_count * t->s.expert_count * t->s.mean_width;
}

static void check_weighed(const struct told *a, const struct told *b, const struct told *both)
{
    for (size_t i = 0; i < mean_count(both); i++) {
        double na = (double)a->s.counts[i / both->s.mean_width], nb = (double)b->s.counts[i / both->s.mean_width];
        double sum = na * (double)mean_at(a, i) + nb * (double)mean_at(b, i);

        assert_int_equal(both->means[i], na + nb > 0 ? wn_f32_to_f16((float)(sum / (na + nb))) : 0);
    }
}

/* Roundings of the parts' values, which may be larger than their mean, and of the mean. */
static void check_near(const struct told *part, const struct told *all, const struct told *one_run)
{
    for (size_t i = 0; i < mean_count(all); i++) {
        float scale = fabsf(mean_at(one_run, i));

        for (unsigned p = 0; p < PARTS; p++)
            scale += fabsf(mean_at(&part[p], i));
        assert_true(fabsf(mean_at(all, i) - mean_at(one_run, i)) <= 0x1p-11f * scale + 0x1p-23f);
    }
}

static void means_are_weighed_by_counts(void **state)
{
    const char *corpora[PARTS], *whole, *part[PARTS];
    struct told t[PARTS], two, all, one_run;
    struct wn_merge_result r;

    (void)state;
    make_parts(corpora, &whole);
    for (unsigned p = 0; p < PARTS; p++) {
        part[p] = archive_with(corpora[p], true);
        t[p] = told_by(part[p]);
    }
    two = told_by(merged(part, 2, &r));
    all = told_by(merged(part, PARTS, &r));
    one_run = told_by(archive_with(whole, true));
    assert_true(r.exact); /* which is said of sums */
    assert_int_equal(all.s.mean_width, one_run.s.mean_width);
    check_weighed(&t[0], &t[1], &two);
    check_near(t, &all, &one_run);
    for (unsigned p = 0; p < PARTS; p++)
        told_release(&t[p]);
    told_release(&two);
    told_release(&all);
    told_release(&one_run);
}

static void means_that_one_archive_lacks_are_left_out(void **state)
{
    const char *two[2] = {archive_with(keep(random_corpus(2, 16, 400, 5)), true),
                          archive_of(keep(random_corpus(2, 16, 400, 6)))};
    char notes[2048] = "";
    struct wn_job job = {.note = take_note, .arg = notes};
    struct wn_merge_options o = {.archives = two, .count = 2, .out = new_path("m.npz")};
    struct wn_merge_result r;
    struct wn_saliency s;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_merge(&o, &job, &r, &err), &err);
    assert_true(wn_test_contains(notes, "lacks mean_out, and so does the merged archive"));
    CHECK_OK(wn_saliency_read(&s, o.out, &err), &err);
    assert_int_equal(s.mean_width, 0);
    wn_saliency_release(&s);
}

static void the_reference_archive_is_merged(void **state)
{
    const char *golden = keep(wn_test_need_data("golden/text/tiny-a/ref/saliency.npz"));
    const char *two[2] = {golden, archive_of(keep(random_corpus(3, 16, 400, 5)))};
    struct wn_saliency s, a, b;
    struct wn_merge_result r;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_saliency_read(&a, two[0], &err), &err);
    CHECK_OK(wn_saliency_read(&b, two[1], &err), &err);
    CHECK_OK(wn_saliency_read(&s, merged(two, 2, &r), &err), &err);
    assert_int_equal(r.sources, 5);
    assert_int_equal(s.token_count, 1024 + 48);
    assert_string_equal(s.source[2], "zh");
    assert_string_equal(s.source[3], "a");
    assert_int_equal(s.source_tokens[4], b.source_tokens[1]);
    assert_string_equal(s.model_fingerprint, b.model_fingerprint);
    for (size_t i = 0; i < (size_t)s.layer_count * s.expert_count; i++) {
        assert_true(fabs(s.saliency[i] - a.saliency[i] - b.saliency[i]) <= 1e-12 * s.saliency[i]);
        assert_int_equal(s.counts[i], a.counts[i] + b.counts[i]);
    }
    assert_true(fabs(s.act_mag[500] - a.act_mag[500] - b.act_mag[500]) <= 1e-12 * s.act_mag[500]);
    wn_saliency_release(&s);
    wn_saliency_release(&a);
    wn_saliency_release(&b);
}

/* Memory that is refused, and a disk that is full: a sentence, and nothing under the name. */
static void what_is_refused_on_the_way_leaves_nothing(void **state)
{
    const char *base = archive_of(keep(random_corpus(2, 16, 400, 5))), *two[2] = {base, changed(base, nothing)};
    struct wn_merge_options o = {.archives = two, .count = 2, .out = new_path("m.npz")};
    struct wn_merge_result r;
    struct wn_err err;
    long n = 0;
    bool ok;

    (void)state;
    do {
        wn_alloc_fail_after(n++);
        ok = wn_merge(&o, NULL, &r, &err);
        wn_alloc_fail_after(-1);
        assert_true(ok || err.code == WN_ERR_NOMEM);
        assert_int_equal(ok, wn_path_exists(o.out));
    } while (!ok && n < 2000);
    assert_true(ok && n > 40);
    o.out = new_path("m.npz");
    wn_file_fail_writes_after(0);
    ok = wn_merge(&o, NULL, &r, &err);
    wn_file_fail_writes_after(-1);
    assert_false(ok);
    assert_int_equal(err.code, WN_ERR_IO);
    assert_false(wn_path_exists(o.out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merged_archives_are_byte_for_byte_that_of_one_run),
        cmocka_unit_test(a_corpus_counts_once),
        cmocka_unit_test(other_models_are_refused_by_what_differs),
        cmocka_unit_test(archives_of_others_are_added_as_far_as_they_go),
        cmocka_unit_test(means_are_weighed_by_counts),
        cmocka_unit_test(means_that_one_archive_lacks_are_left_out),
        cmocka_unit_test(the_reference_archive_is_merged),
        cmocka_unit_test(what_is_refused_on_the_way_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
