/* Saliency against the reference, on which it depends and on which it does not, and what is refused beforehand. */
#include "calibrate_fixture.h"

#include "jobs/calibrate/calibrate_parts.h"
#include "sys/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/version.h>

#define NEAR 1e-5

static void check_near(double got, double wanted, const char *what, size_t i)
{
    if (!(fabs(got - wanted) <= NEAR * fabs(wanted)))
        fail_msg("%s[%zu] is %.9g, the reference has %.9g", what, i, got, wanted);
}

static uint32_t source_of(const struct wn_saliency *s, const char *label)
{
    for (uint32_t i = 0; i < s->source_count; i++)
        if (strcmp(s->source[i], label) == 0)
            return i;
    fail_msg("no source '%s'", label);
    return 0;
}

static void check_sources(const struct wn_saliency *s, const struct wn_saliency *ref)
{
    size_t n = (size_t)ref->layer_count * ref->expert_count;

    assert_int_equal(s->source_count, ref->source_count);
    for (uint32_t i = 0; i < ref->source_count; i++) {
        uint32_t own = source_of(s, ref->source[i]);

        assert_int_equal(s->source_tokens[own], ref->source_tokens[i]);
        assert_memory_equal(s->source_counts + own * n, ref->source_counts + i * n, n * sizeof *s->counts);
        for (size_t k = 0; k < n; k++)
            check_near(s->source_saliency[own * n + k], ref->source_saliency[i * n + k], ref->source[i], k);
    }
}

/* What must hold between the sums, whatever the model. */
static void check_sums_agree(const struct wn_saliency *s)
{
    size_t n = (size_t)s->layer_count * s->expert_count;

    assert_int_equal(s->half_tokens[0] + s->half_tokens[1], s->token_count);
    for (size_t k = 0; k < n; k++) {
        check_near(s->half_saliency[k] + s->half_saliency[n + k], s->saliency[k], "halves", k);
        for (uint32_t i = 0; i < s->source_count; i++) {
            size_t at = i * n + k;
            double count = (double)s->source_counts[at];

            assert_true(s->max_norm[at] * count >= s->sum_norm[at] * (1 - 1e-12));
            assert_true(s->sum_norm[at] >= s->max_norm[at]);
            assert_true(s->sum_gate[at] <= count * (1 + 1e-6) && (count == 0) == (s->sum_gate[at] == 0));
            /* Cauchy: (sum gn)^2 <= count * sum (gn)^2 */
            assert_true(s->sum_top2[at] >= 0 && s->sum_top2[at] <= s->source_saliency[at] * (1 + 1e-12));
            assert_true((s->sum_share[at] > 0) == (s->source_saliency[at] > 0));
            assert_true(s->source_saliency[at] * s->source_saliency[at] <= count * s->sum_sq[at] * (1 + 1e-12));
        }
    }
}

static void saliency_is_that_of_the_reference(void **state)
{
    const char *reference = wn_test_need_data("golden/text/tiny-a/ref/saliency.npz");
    const char *models[] = {wn_test_need_data(TINY),
                            wn_test_need_data("golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf")};
    const char *corpus = golden_corpus();
    struct wn_saliency ref, s[2];
    struct wn_err err;
    size_t n, channels;

    (void)state;
    CHECK_OK(wn_saliency_read(&ref, reference, &err), &err);
    n = (size_t)ref.layer_count * ref.expert_count;
    channels = (size_t)ref.layer_count * ref.latent_size;
    for (int i = 0; i < 2; i++) {
        struct calibration c = {.model = models[i],
                                .o = {.corpus = corpus, .out = wn_test_path(wn_test_folder(), "sal.npz")}};
        char work[512];

        CHECK_OK(calibrate(&c, &err), &err);
        assert_int_equal(c.result.layers_done, ref.layer_count);
        assert_int_equal(c.result.layers_resumed, 0);
        CHECK_OK(wn_saliency_read(&s[i], c.o.out, &err), &err);
        assert_true(wn_test_contains(s[i].settings, "winnow " WINNOW_VERSION ", sequences"));
        assert_int_equal(s[i].token_count, ref.token_count);
        assert_int_equal(s[i].latent_size, ref.latent_size);
        assert_memory_equal(s[i].counts, ref.counts, n * sizeof *ref.counts);
        for (size_t k = 0; k < n; k++)
            check_near(s[i].saliency[k], ref.saliency[k], "saliency", k);
        for (size_t k = 0; k < channels; k++)
            check_near(s[i].act_mag[k], ref.act_mag[k], "act_mag", k);
        assert_memory_equal(s[i].act_n, ref.act_n, ref.layer_count * sizeof *ref.act_n);
        check_sources(&s[i], &ref);
        check_sums_agree(&s[i]);
        /* the work folder is gone */
        snprintf(work, sizeof work, "%s.work", c.o.out);
        assert_false(wn_path_exists(work));
    }
    /* the two forms of one model give the same bits */
    assert_memory_equal(s[0].source_saliency, s[1].source_saliency, ref.source_count * n * sizeof(double));
    assert_memory_equal(s[0].act_mag, s[1].act_mag, channels * sizeof(double));
    /* and the comparison above can fail: one of 1024 tokens less is noticed */
    assert_true(s[0].act_mag[ref.latent_size] * (1 - 1.0 / 1024) < ref.act_mag[ref.latent_size] * (1 - NEAR));
    wn_saliency_release(&ref);
    wn_saliency_release(&s[0]);
    wn_saliency_release(&s[1]);
}

static void threads_and_chunks_change_no_byte(void **state)
{
    const char *model = wn_test_need_data(TINY), *corpus = random_corpus(3, 512, 400, 1);
    struct wn_model *m;
    struct wn_err err;
    struct calibration c[4];

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        c[i] = (struct calibration){
            .model = model,
            .threads = i + 1,
            .o = {.corpus = corpus, .out = wn_test_path(wn_test_folder(), "sal.npz"), .means = true}};
        if (i == 3 && !WN_TEST_SANITIZED) {
            m = wn_model_open(model, &err);
            assert_non_null(m);
            CHECK_OK(wn_calibrate_plan(m, 4, &c[i].o, &c[i].result.need, &err), &err);
            wn_model_close(m);
            c[i].o.ram = c[i].result.need.peak - c[i].result.need.scratch / 4;
        }
        CHECK_OK(calibrate(&c[i], &err), &err);
        wn_test_same_file(c[0].o.out, c[i].o.out);
    }
    assert_int_equal(c[0].result.need.chunk, 512);
    assert_true(c[3].result.need.chunk < 512 || WN_TEST_SANITIZED);
}

static void sums_that_are_not_finite_are_refused(void **state)
{
    const char *labels[] = {"a", "b"};
    uint32_t experts[] = {0, 8};
    struct wn_saliency s;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_saliency_init(&s, 2, experts, 2, 4, 2, labels, &err), &err);
    CHECK_OK(wn_record_check(&s, 1, &err), &err);
    s.sum_sq[wn_saliency_source_row(&s, 1, 1) + 5] = INFINITY;
    CHECK_FAILS(wn_record_check(&s, 1, &err), &err, "layer 1: outputs of expert 5 are not finite (source 'b')");
    CHECK_OK(wn_record_check(&s, 0, &err), &err);
    wn_saliency_release(&s);
}

static void a_record_brings_all_sums_of_its_layer_back(void **state)
{
    const char *labels[] = {"a", "b"};
    uint32_t experts[] = {0, 3, 5};
    struct wn_saliency s, t;
    struct wn_err err;
    size_t n, sums[WN_SUMS];
    char *record;

    (void)state;
    CHECK_OK(wn_saliency_init(&s, 3, experts, 2, 4, 2, labels, &err), &err);
    CHECK_OK(wn_saliency_init(&t, 3, experts, 2, 4, 2, labels, &err), &err);
    for (unsigned k = 0; k < WN_SUMS; k++) {
        sums[k] = wn_sum_blocks(&s, k) * 3 * wn_sum_width(&s, k);
        for (size_t i = 0; i < sums[k]; i++) {
            (*wn_sum_at(&s, k))[i] = 1000.0 * (k + 1) + (double)i;
            s.low[k][i] = -1000.0 * (k + 1) - (double)i;
        }
    }
    for (size_t i = 0; i < 2 * 3 * 5; i++) {
        s.source_counts[i] = 100 + i;
        s.max_norm[i] = 500.0 + (double)i;
    }
    for (size_t i = 0; i < 3; i++)
        s.act_n[i] = 800 + i;
    n = wn_record_save(&s, 0, NULL);
    record = malloc(n);
    assert_non_null(record);
    for (uint32_t l = 0; l < 3; l++) {
        assert_int_equal(wn_record_save(&s, l, record), n);
        wn_record_load(&t, l, record);
    }
    free(record);
    for (unsigned k = 0; k < WN_SUMS; k++) {
        assert_memory_equal(*wn_sum_at(&s, k), *wn_sum_at(&t, k), sums[k] * 8);
        assert_memory_equal(s.low[k], t.low[k], sums[k] * 8);
    }
    assert_memory_equal(s.source_counts, t.source_counts, 30 * 8);
    assert_memory_equal(s.max_norm, t.max_norm, 30 * 8);
    assert_memory_equal(s.act_n, t.act_n, 3 * 8);
    wn_saliency_release(&s);
    wn_saliency_release(&t);
}

/* Two tokens with three experts each, worked out by hand. */
static void the_top_two_and_the_shares_are_those_of_each_token(void **state)
{
    enum { WIDTH = 10, EXPERTS = 5 }; /* more than eight lanes and less than two times eight */
    static const uint32_t ids[2][3] = {{4, 1, 2}, {0, 1, 2}};
    static const float gates[2][3] = {{0.5f, 2, 1}, {1, 1, 1}};
    static const float outputs[2][3][WIDTH] = {{{3, 4}, {[9] = 1}, {-1.5f, -2}}, {{1}, {-1}, {0}}};
    static const double want_top2[EXPERTS] = {1, 2 + 1, 2.5, 0, 0};
    /* token 0: 0.5 y4 + 2 y1 + y2 = (0 ... 2), of length 2; token 1: nothing is left, and so there are no shares */
    static const double want_share[EXPERTS] = {0, 2 / 2.0, 2.5 / 2, 0, 2.5 / 2};
    const char *labels[] = {"a"};
    const uint32_t experts[] = {EXPERTS};
    const struct wn_config config = {.hidden_size = WIDTH, .experts_per_token = 3};
    const struct wn_sequence sequence = {.n = 2};
    const struct wn_layer layer = {.moe = true};
    double norms[6], changes[6], totals[2], mixes[2] = {1, 1}, risen[2], vectors[2 * WIDTH];
    float change[2 * WIDTH];
    const struct wn_record_room room = {.norms = norms,
                                        .changes = changes,
                                        .totals = totals,
                                        .mixes = mixes,
                                        .change = change,
                                        .risen = risen,
                                        .vectors = vectors};
    struct wn_ctx ctx = {.config = &config};
    struct wn_records r;
    struct wn_saliency s;
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(1, &err);

    (void)state;
    CHECK_OK(pool, &err);
    CHECK_OK(wn_saliency_init(&s, 1, experts, 3, WIDTH, 1, labels, &err), &err);
    ctx.pool = pool;
    wn_records_init(&r, &ctx, &s, &room);
    wn_records_begin(&r, &layer);
    r.sequence = &sequence;
    r.probe.routed(r.probe.arg, 0, ids[0], gates[0], outputs[0][0], 2, 3, WIDTH);
    assert_memory_equal(s.sum_top2, want_top2, sizeof want_top2);
    assert_memory_equal(s.sum_share, want_share, sizeof want_share);
    wn_saliency_release(&s);
    wn_pool_free(pool);
}

/* One token, two experts of two channels, and who enters. N is the identity unless a norm is given. */
struct absence {
    float gates[3], outputs[3][2], norm[2];
    double norms[2], changes[2], total, vectors[2][2];
    float change[2];
};

static void work_out(struct absence *a, bool next, bool renormalize, bool normed, size_t turn)
{
    const struct wn_record_room room = {
        .norms = a->norms, .changes = a->changes, .totals = &a->total, .change = a->change, .vectors = a->vectors[0]};
    const struct wn_changes c = {.room = &room,
                                 .gates = a->gates,
                                 .outputs = a->outputs[0],
                                 .k = 2,
                                 .listed = next ? 3 : 2,
                                 .width = 2,
                                 .renormalize = renormalize,
                                 .norm = normed ? a->norm : NULL,
                                 .eps = 0,
                                 .first = turn};
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(1, &err);

    CHECK_OK(pool, &err);
    wn_changes_of(&c, pool, 1);
    wn_pool_free(pool);
}

static void an_experts_absence_is_who_enters_and_what_the_router_makes_of_it(void **state)
{
    struct absence a = {.gates = {0.75f, 0.25f, 0.25f}, .outputs = {{4, 0}, {0, 4}, {8, 8}}, .norm = {1, 2}};

    (void)state;
    /* y = (3, 1). Without 0: (2, 3), the gates 0.25 + 0.25, so (4, 6). Without 1: (5, 2), the gates 1 */
    work_out(&a, true, true, false, 0);
    assert_true(a.norms[0] == 4 && a.norms[1] == 4 && a.total == sqrt(10));
    assert_true(a.changes[0] == sqrt(1 + 25) && a.changes[1] == sqrt(4 + 1));
    assert_true(a.change[0] == 1 && a.change[1] == 5); /* it is the first one's turn, */
    work_out(&a, true, true, false, 5);
    assert_true(a.change[0] == 2 && a.change[1] == 1); /* or the second one's */
    /* the router leaves the others' gates alone */
    work_out(&a, true, false, false, 0);
    assert_true(a.changes[0] == sqrt(1 + 4) && a.changes[1] == sqrt(4 + 1));
    /* nobody enters: (0, 1) of gates 0.25 is (0, 4), (3, 0) of 0.75 is (4, 0) */
    work_out(&a, false, true, false, 0);
    assert_true(a.changes[0] == sqrt(9 + 9) && a.changes[1] == sqrt(1 + 1));
}

static void an_experts_absence_is_measured_behind_the_norm(void **state)
{
    struct absence a = {.gates = {0.5f, 0.5f, 0.5f}, .outputs = {{2, 0}, {0, 2}, {0, 0}}, .norm = {1, 3}};

    (void)state;
    /* y = (1, 1), of mean square 1: N(y) = (1, 3). Without 0: (0, 1), mean square 1/2, N = (0, 3 sqrt 2) */
    work_out(&a, true, true, true, 0);
    assert_true(fabs(a.changes[0] - sqrt(1 + 9 * pow(sqrt(2) - 1, 2))) < 1e-14);
    assert_true(fabs(a.changes[1] - sqrt(pow(sqrt(2) - 1, 2) + 9)) < 1e-14);
}

/* The last expert of a token goes and nobody enters: nothing is left, and nothing is no number. */
static void where_nothing_is_left_the_output_is_zero(void **state)
{
    struct absence a = {.gates = {1, 0}, .outputs = {{3, 4}, {1, 1}}};

    (void)state;
    work_out(&a, false, true, false, 0);
    assert_true(a.changes[0] == 5 && a.changes[1] == 0);
}

static void too_little_memory_is_refused_with_the_number_that_works(void **state)
{
    struct wn_err err;
    struct calibration c = {
        .model = wn_test_need_data(TINY),
        .o = {.corpus = random_corpus(4, 64, 400, 1), .out = wn_test_path(wn_test_folder(), "sal.npz"), .ram = 4096}};
    const char *number;

    (void)state;
    CHECK_FAILS(calibrate(&c, &err), &err, "calibrating needs at least ");
    number = strstr(err.msg, "needs at least ");
    assert_non_null(number);
    c.o.ram = strtoull(number + strlen("needs at least "), NULL, 10);
    CHECK_OK(calibrate(&c, &err), &err);
    assert_true(c.result.need.peak <= c.o.ram);
}

static void what_cannot_work_is_refused_before_anything_is_made(void **state)
{
    const char *folder = wn_test_folder();
    char name[256] = "";
    struct wn_err err;
    struct calibration c = {.model = wn_test_need_data(TINY),
                            .o = {.corpus = random_corpus(2, 16, 400, 1), .out = wn_test_path(folder, "sal.npz")}};

    (void)state;
    CHECK_OK(wn_file_put(c.o.out, "x", 1, false, &err), &err);
    CHECK_FAILS(calibrate(&c, &err), &err, "sal.npz' exists already");
    assert_false(wn_path_exists(wn_test_path(folder, "sal.npz.work")));
    c.o.overwrite = true;
    CHECK_OK(calibrate(&c, &err), &err);

    c.o.out = wn_test_path(folder, "no/such/sal.npz");
    CHECK_FAILS(calibrate(&c, &err), &err, "no/such/sal.npz.part': No such file");
    c.o.out = "";
    CHECK_FAILS(calibrate(&c, &err), &err, "the output has no name");
    memset(name, 'n', 252); /* a name that only its .part makes too long */
    c.o.out = wn_test_path(folder, name);
    CHECK_FAILS(calibrate(&c, &err), &err, "File name too long");
    c.o.out = wn_test_path(folder, "sal2.npz");
    c.o.corpus = wn_test_path(folder, "no.jsonl");
    CHECK_FAILS(calibrate(&c, &err), &err, "no.jsonl");
    c.o.corpus = random_corpus(2, 16, 40000, 1);
    CHECK_FAILS(calibrate(&c, &err), &err, "the model knows 0 to 511");
    assert_false(wn_path_exists(wn_test_path(folder, "sal2.npz.work")));
}

struct watched {
    uint64_t embedded, done, total;
    unsigned calls, steps;
    char step[64];
    bool falls;
};

static bool watch(void *arg, const struct wn_progress *p)
{
    struct watched *w = arg;

    if (strcmp(p->phase, "embedding") == 0) {
        w->embedded = p->done;
        assert_int_equal(w->calls, 0);
        return true;
    }
    assert_string_equal(p->phase, "calibrating");
    w->falls |= p->done < w->done;
    w->done = p->done;
    w->total = p->total;
    w->calls++;
    if (strcmp(w->step, p->step) != 0)
        w->steps++;
    snprintf(w->step, sizeof w->step, "%s", p->step);
    return true;
}

static void progress_is_that_of_the_whole_job(void **state)
{
    struct wn_err err;
    struct watched w = {0};
    struct wn_job job = {.progress = watch, .arg = &w};
    struct calibration c = {
        .model = wn_test_need_data(TINY),
        .o = {.corpus = random_corpus(4, 64, 400, 1), .out = wn_test_path(wn_test_folder(), "sal.npz")},
        .job = &job};

    (void)state;
    CHECK_OK(calibrate(&c, &err), &err);
    assert_int_equal(w.embedded, 4 * 64);
    assert_int_equal(w.total, 13 * 4 * 64);
    assert_int_equal(w.done, w.total);
    assert_false(w.falls);
    assert_int_equal(w.steps, 13);
    assert_string_equal(w.step, "layer 13 of 13");
}

struct told {
    struct wn_calibrate_need need;
    unsigned calls;
    bool go_on;
};

static bool take_need(void *arg, const struct wn_calibrate_need *need)
{
    struct told *t = arg;

    t->need = *need;
    t->calls++;
    return t->go_on;
}

static void the_need_is_told_once_before_anything_is_written(void **state)
{
    const char *folder = wn_test_folder();
    struct wn_err err;
    struct wn_calibrate_need planned;
    struct told told = {.go_on = false};
    struct calibration c = {.model = wn_test_need_data(TINY),
                            .o = {.corpus = random_corpus(4, 64, 400, 1),
                                  .out = wn_test_path(folder, "sal.npz"),
                                  .told = take_need,
                                  .told_arg = &told}};
    struct wn_model *m = wn_model_open(c.model, &err);

    (void)state;
    CHECK_OK(m, &err);
    CHECK_OK(wn_calibrate_plan(m, 1, &c.o, &planned, &err), &err);
    wn_model_close(m);
    assert_int_equal(told.calls, 0); /* a plan answers to its caller */
    CHECK_FAILS(calibrate(&c, &err), &err, "nothing was written");
    assert_int_equal(err.code, WN_ERR_CANCELED);
    assert_false(wn_path_exists(wn_test_path(folder, "sal.npz.work")));
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.need.tokens, planned.tokens);
    assert_int_equal(told.need.activations, planned.activations);
    assert_int_equal(told.need.layer, planned.layer);
    assert_int_equal(told.need.chunk, planned.chunk);
    told.go_on = true;
    CHECK_OK(calibrate(&c, &err), &err);
    assert_int_equal(told.calls, 2);
}

/* Texts of the real corpus; also what the notes say about tokens that are left out. */
static void note_line(void *arg, const char *line)
{
    strncat(arg, line, 2047 - strlen(arg));
    strncat(arg, "\n", 2047 - strlen(arg));
}

static void texts_are_calibrated_and_left_over_tokens_told(void **state)
{
    char notes[2048] = "";
    struct wn_job job = {.note = note_line, .arg = notes};
    struct wn_err err;
    struct wn_saliency s;
    struct calibration c = {.model = wn_test_need_data("models/k3-mini"),
                            .threads = 2,
                            .o = {.corpus = wn_test_need_data("corpora/calib-mixed.jsonl"),
                                  .out = wn_test_path(wn_test_folder(), "sal.npz"),
                                  .sequence = 64,
                                  .max_tokens = 1024},
                            .job = &job};

    (void)state;
    CHECK_OK(calibrate(&c, &err), &err);
    assert_int_equal(c.result.need.tokens, 1024);
    assert_int_equal(c.result.need.sources, 4);
    CHECK_OK(wn_saliency_read(&s, c.o.out, &err), &err);
    assert_int_equal(s.token_count, 1024);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(s.source_tokens[i] > 0 && s.source_tokens[i] % 64 == 0);
    check_sums_agree(&s);
    wn_saliency_release(&s);
    assert_true(wn_test_contains(notes, "tokens do not fill a sequence and are left out"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saliency_is_that_of_the_reference),
        cmocka_unit_test(threads_and_chunks_change_no_byte),
        cmocka_unit_test(sums_that_are_not_finite_are_refused),
        cmocka_unit_test(a_record_brings_all_sums_of_its_layer_back),
        cmocka_unit_test(the_top_two_and_the_shares_are_those_of_each_token),
        cmocka_unit_test(an_experts_absence_is_who_enters_and_what_the_router_makes_of_it),
        cmocka_unit_test(an_experts_absence_is_measured_behind_the_norm),
        cmocka_unit_test(where_nothing_is_left_the_output_is_zero),
        cmocka_unit_test(too_little_memory_is_refused_with_the_number_that_works),
        cmocka_unit_test(what_cannot_work_is_refused_before_anything_is_made),
        cmocka_unit_test(progress_is_that_of_the_whole_job),
        cmocka_unit_test(the_need_is_told_once_before_anything_is_written),
        cmocka_unit_test(texts_are_calibrated_and_left_over_tokens_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
