/* What probing measures, on what it depends and on what it does not, what it takes, and what is refused. */
#include "probe_fixture.h"

#include "base/rng.h"
#include "formats/npz.h"
#include "jobs/calibrate/saliency.h"
#include "jobs/corpus/corpus.h"
#include "jobs/divergence.h"
#include "model/weights.h"
#include "sys/file.h"
#include <winnow/session.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG       300 /* a sequence with more scratch than reading it takes */
#define ALL_TOKENS ((size_t)PROBE_SEQUENCES * PROBE_LENGTH)

/* ---- against a model that is masked in memory ---- */

/* Both ways of the same tokens: sessions over all layers, one with a layer masked. */
struct by_hand {
    struct wn_model *model;
    struct wn_pool *pool;
    struct wn_weights *weights;
    struct wn_session *session;
    struct wn_corpus corpus;
    size_t vocab;
    float *whole, *masked, *at; /* [tokens][vocab]; at: where the next logits go */
};

static void open_by_hand(struct by_hand *h)
{
    struct wn_err err;

    *h = (struct by_hand){0};
    CHECK_OK(h->model = wn_model_open(probe_model, &err), &err);
    CHECK_OK(h->pool = wn_pool_new(1, &err), &err);
    CHECK_OK(h->weights = wn_weights_load(h->model, &err), &err);
    CHECK_OK(h->session =
                 wn_session_new(h->model, h->weights, h->pool, &(struct wn_session_options){.context = 64}, &err),
             &err);
    h->vocab = wn_model_config(h->model)->vocab_size;
    CHECK_OK(wn_corpus_read(&h->corpus,
                            &(struct wn_corpus_options){.path = probe_corpus, .vocab_size = (uint32_t)h->vocab}, &err),
             &err);
    h->whole = malloc(ALL_TOKENS * h->vocab * sizeof(float));
    h->masked = malloc(ALL_TOKENS * h->vocab * sizeof(float));
    assert_true(h->whole && h->masked);
}

static void close_by_hand(struct by_hand *h)
{
    free(h->whole);
    free(h->masked);
    wn_corpus_release(&h->corpus);
    wn_session_free(h->session);
    wn_weights_free(h->weights);
    wn_pool_free(h->pool);
    wn_model_close(h->model);
}

static bool take_logits(void *arg, uint64_t position, const float *logits)
{
    struct by_hand *h = arg;

    (void)position;
    memcpy(h->at, logits, h->vocab * sizeof *logits);
    h->at += h->vocab;
    return true;
}

static void run_all(struct by_hand *h, float *logits)
{
    struct wn_err err;

    h->at = logits;
    for (size_t i = 0; i < h->corpus.sequence_count; i++) {
        wn_session_reset(h->session);
        CHECK_OK(wn_session_feed(h->session, h->corpus.sequence[i].ids, h->corpus.sequence[i].n, take_logits, h, &err),
                 &err);
    }
}

/* Nats a token of one source, summed as probing does. */
static double divergence(const struct by_hand *h, uint32_t source)
{
    double sum = 0;
    size_t at = 0, n = 0;

    for (size_t i = 0; i < h->corpus.sequence_count; i++) {
        double part = 0;

        for (uint32_t t = 0; t < h->corpus.sequence[i].n; t++, at += h->vocab) {
            struct wn_row whole = wn_row_of(h->whole + at, h->vocab), masked = wn_row_of(h->masked + at, h->vocab);

            if (h->corpus.sequence[i].source != source)
                continue;
            part += wn_row_kld(&whole, &masked, h->vocab);
            n++;
        }
        sum += part;
    }
    return sum / (double)n;
}

static bool is_gone(const struct wn_saliency *s, uint32_t point, uint32_t layer, uint32_t expert)
{
    return s->probes.mask[((size_t)point * PROBE_LAYERS + layer) * PROBE_EXPERTS + expert];
}

/* The router's next choice comes in ... */
static void mask(struct by_hand *h, const struct wn_saliency *s, uint32_t point, uint32_t layer, bool on)
{
    float *bias = h->weights->layers[layer].mixture.router_bias;
    static float before[PROBE_EXPERTS];

    for (uint32_t e = 0; e < PROBE_EXPERTS; e++) {
        if (on)
            before[e] = bias[e];
        bias[e] = on && is_gone(s, point, layer, e) ? -INFINITY : before[e];
    }
}

/* ... or nothing does. */
static void make_ghosts(struct by_hand *h, const struct wn_saliency *s, uint32_t point, uint32_t layer, bool on)
{
    static uint32_t serves[PROBE_EXPERTS];
    uint32_t n = 0;

    for (uint32_t e = 0; e < PROBE_EXPERTS; e++)
        serves[e] = is_gone(s, point, layer, e) ? WN_GHOST + n++ : e;
    h->weights->layers[layer].mixture.serves = on ? serves : NULL;
}

/* Every figure, to the bit. */
static void check_figures(enum wn_ghosts ghosts, const char *settings)
{
    void (*change)(struct by_hand *, const struct wn_saliency *, uint32_t, uint32_t, bool) =
        ghosts == WN_GHOSTS_SKIP ? make_ghosts : mask;
    struct probing p = probe_fresh();
    struct wn_saliency s;
    struct by_hand h;
    struct wn_err err;

    p.o.ghosts = ghosts;
    CHECK_OK(probe_run(&p, &err), &err);
    CHECK_OK(wn_saliency_read(&s, p.o.out, &err), &err);
    assert_int_equal(s.probes.points, 2);
    assert_int_equal(s.probes.tokens[0] + s.probes.tokens[1], ALL_TOKENS);
    assert_true(wn_test_contains(s.probes.settings, settings));
    assert_int_equal(s.probes.ghosts, ghosts);
    open_by_hand(&h);
    run_all(&h, h.whole);
    for (uint32_t point = 0; point < 2; point++)
        for (uint32_t layer = 1; layer < PROBE_LAYERS; layer++) {
            change(&h, &s, point, layer, true);
            run_all(&h, h.masked);
            change(&h, &s, point, layer, false);
            for (uint32_t i = 0; i < 2; i++) {
                double got = s.probes.kld[((size_t)point * 2 + i) * PROBE_LAYERS + layer], want = divergence(&h, i);

                assert_true(want > 0);
                assert_memory_equal(&got, &want, sizeof got);
            }
        }
    close_by_hand(&h);
    wn_saliency_release(&s);
}

static void each_figure_is_that_of_a_model_with_that_layer_masked(void **state)
{
    (void)state;
    check_figures(WN_GHOSTS_OFF, "criterion loo, sequences of 20 tokens");
}

static void ghosts_may_take_the_place_of_the_next_choice(void **state)
{
    (void)state;
    check_figures(WN_GHOSTS_SKIP, "sequences of 20 tokens, ghosts skip");
}

/* ---- whom it drops ---- */

static bool stays(const struct wn_plan_layer *l, uint32_t expert)
{
    for (uint32_t i = 0; i < l->keep_count; i++)
        if (l->keep[i] == expert)
            return true;
    return false;
}

static void who_goes_is_who_a_plan_of_that_share_drops(void **state)
{
    static const struct wn_source_weight weights[] = {{"b", 1}};
    struct probing p = probe_fresh();
    struct wn_saliency s;
    struct wn_err err;

    (void)state;
    p.o.weights = weights;
    p.o.weight_count = 1;
    p.o.criterion = "share";
    CHECK_OK(probe_run(&p, &err), &err);
    CHECK_OK(wn_saliency_read(&s, p.o.out, &err), &err);
    assert_true(wn_test_contains(s.probes.settings, "criterion share, sequences of 20 tokens, weights b=1"));
    for (uint32_t point = 0; point < 2; point++) {
        struct wn_plan_options o = {.keep_share = s.probes.kept[point],
                                    .criterion = "share",
                                    .weights = weights,
                                    .weight_count = 1,
                                    .min_experts = PROBE_TOP_K};
        struct wn_plan_kept kept;
        struct wn_plan plan;

        CHECK_OK(wn_plan_make(probe_archive, &o, &plan, &kept, &err), &err);
        for (uint32_t i = 0; i < plan.layer_count; i++)
            for (uint32_t e = 0; e < PROBE_EXPERTS; e++)
                assert_int_equal(
                    s.probes.mask[((size_t)point * PROBE_LAYERS + plan.layers[i].layer) * PROBE_EXPERTS + e],
                    !stays(&plan.layers[i], e));
        for (uint32_t k = 0; k < 2; k++)
            for (uint32_t i = 0; i < plan.layer_count; i++)
                assert_true(fabs(s.probes.dropped[((size_t)point * 2 + k) * PROBE_LAYERS + plan.layers[i].layer] +
                                 kept.kept_source_layer[k * kept.layer_count + i] - 1) < 1e-12);
        wn_plan_kept_release(&kept);
        wn_plan_release(&plan);
    }
    wn_saliency_release(&s);
}

static void shares_that_come_to_the_same_experts_are_one(void **state)
{
    static const double kept[] = {0.01, 0.3, 0.04};
    struct probing p = probe_fresh();
    struct wn_saliency s;
    struct wn_err err;

    (void)state;
    p.o.kept = kept;
    p.o.kept_count = 3;
    CHECK_OK(probe_run(&p, &err), &err);
    assert_int_equal(p.result.need.points, 2);
    assert_int_equal(p.result.need.alike, 1);
    CHECK_OK(wn_saliency_read(&s, p.o.out, &err), &err);
    assert_int_equal(s.probes.points, 2);
    /* as many as a token takes; and 19.2 experts are 19 */
    assert_true(s.probes.kept[0] == (double)PROBE_TOP_K / PROBE_EXPERTS && s.probes.kept[1] == 19.0 / PROBE_EXPERTS);
    wn_saliency_release(&s);
}

/* ---- on what it does not depend ---- */

static void threads_chunks_and_memory_change_no_byte(void **state)
{
    struct probing p = probe_fresh(), q;
    struct wn_err err;

    (void)state;
    CHECK_OK(probe_run(&p, &err), &err);
    q = probe_fresh();
    q.threads = 3;
    CHECK_OK(probe_run(&q, &err), &err);
    wn_test_same_file(q.o.out, p.o.out);
    q = probe_fresh();
    q.o.ram = UINT64_C(1) << 32;
    CHECK_OK(probe_run(&q, &err), &err);
    assert_int_equal(q.result.need.held, q.result.need.activations);
    wn_test_same_file(q.o.out, p.o.out);
}

static void a_smaller_chunk_changes_no_byte(void **state)
{
    struct probing p = probe_fresh(), q = probe_fresh();
    struct wn_layer_probe_need need = {.chunk = LONG};
    struct wn_model *m;
    struct wn_err err;

    (void)state;
    if (WN_TEST_SANITIZED)
        skip();
    p.o.corpus = q.o.corpus = random_corpus(2, LONG, 400, 8);
    p.o.kept_count = q.o.kept_count = 1;
    CHECK_OK(probe_run(&p, &err), &err);
    m = wn_model_open(probe_model, &err);
    CHECK_OK(m, &err);
    /* what a process holds is not known beforehand: less and less is allowed until it shows */
    for (q.o.ram = UINT64_C(1) << 25; need.chunk == p.result.need.chunk; q.o.ram -= 1 << 15)
        CHECK_OK(wn_layer_probe_plan(m, 1, &q.o, &need, &err), &err);
    wn_model_close(m);
    CHECK_OK(probe_run(&q, &err), &err);
    assert_true(q.result.need.chunk < p.result.need.chunk && q.result.need.held == 0);
    wn_test_same_file(q.o.out, p.o.out);
}

static void the_output_is_the_archive_with_more_in_it(void **state)
{
    struct probing p = probe_fresh(), q;
    struct wn_npz a, b;
    struct wn_err err;
    char copy[512], spelled[520];

    (void)state;
    CHECK_OK(probe_run(&p, &err), &err);
    CHECK_OK(wn_npz_read(&a, probe_archive, &err), &err);
    CHECK_OK(wn_npz_read(&b, p.o.out, &err), &err);
    assert_int_equal(b.n, a.n + 7);
    for (size_t i = 0; i < a.n; i++) {
        const struct wn_npy *x = &a.entry[i].array, *y = &b.entry[i].array;

        assert_string_equal(a.entry[i].name, b.entry[i].name);
        assert_int_equal(x->elements, y->elements);
        assert_int_equal(x->kind, y->kind);
    }
    wn_npz_release(&a);
    wn_npz_release(&b);
    /* and in its own place, where the old probes are replaced */
    (void)snprintf(copy, sizeof copy, "%s", p.o.out);
    p = probe_fresh();
    p.o.archive = p.o.out = copy;
    CHECK_FAILS(probe_run(&p, &err), &err, "exists");
    p.o.overwrite = true;
    CHECK_OK(probe_run(&p, &err), &err);
    q = probe_fresh();
    CHECK_OK(probe_run(&q, &err), &err);
    wn_test_same_file(copy, q.o.out);
    /* under another spelling of its name, too */
    (void)snprintf(spelled, sizeof spelled, "%.*s/./%s", (int)(strrchr(copy, '/') - copy), copy,
                   strrchr(copy, '/') + 1);
    p = probe_fresh();
    p.o.archive = copy;
    p.o.out = spelled;
    p.o.overwrite = true;
    CHECK_OK(probe_run(&p, &err), &err);
    assert_true(p.result.done > 0);
    wn_test_same_file(copy, q.o.out);
}

/* ---- what it takes ---- */

struct counting {
    char work[512];
    size_t most;
};

static bool count_streams(void *arg, const struct wn_progress *p)
{
    struct counting *c = arg;
    struct wn_err err;
    char **names;
    size_t n, streams = 0;

    (void)p;
    if (!wn_path_list(c->work, &names, &n, &err))
        return true;
    for (size_t i = 0; i < n; i++)
        streams += strncmp(names[i], "stream-", 7) == 0;
    wn_names_free(names, n);
    c->most = streams > c->most ? streams : c->most;
    return true;
}

static void the_disk_it_takes_is_what_it_said(void **state)
{
    struct probing p = probe_fresh();
    struct counting c = {.most = 0};
    struct wn_job job = {.progress = count_streams, .arg = &c};
    struct wn_err err;
    uint64_t stream;

    (void)state;
    (void)snprintf(c.work, sizeof c.work, "%s.work", p.o.out);
    p.job = &job;
    CHECK_OK(probe_run(&p, &err), &err);
    stream = ALL_TOKENS * PROBE_HIDDEN * sizeof(float);
    assert_int_equal(p.result.need.activations % stream, 0);
    assert_int_equal(c.most, p.result.need.activations / stream);
    /* the whole model through eight layers, two probes of each of seven through it and those behind it */
    assert_int_equal(p.result.need.token_layers, ALL_TOKENS * (8 + 2 * (7 * 8 / 2)));
    assert_int_equal(p.result.need.token_heads, ALL_TOKENS * 15);
    assert_int_equal(p.result.done, 8 + 7 * 8);
    assert_int_equal(p.result.resumed, 0);
    assert_false(wn_path_exists(c.work));
}

/* ---- what is refused ---- */

static void refused(struct probing p, const char *why)
{
    struct wn_err err;

    CHECK_FAILS(probe_run(&p, &err), &err, why);
    if (strcmp(p.o.out, p.o.archive) != 0)
        assert_false(wn_path_exists(p.o.out));
}

static void what_cannot_be_probed_is_refused(void **state)
{
    static const double outside[] = {1.0}, twice[] = {0.5, 0.5};
    static const char line[] = "{\"source\": \"c\", \"tokens\": [1, 2, 3]}\n";
    struct probing p = probe_fresh();
    static char other[512];
    struct wn_err err;

    (void)state;
    p.o.kept = outside;
    p.o.kept_count = 1;
    refused(p, "a share of 1 of the experts is not between 0 and 1");
    p.o.kept = twice;
    p.o.kept_count = 2;
    refused(p, "a share of 0.5 of the experts is asked for twice");
    p = probe_fresh();
    p.o.kept_count = 17;
    refused(p, "17 shares of experts: 1 to 16 are wanted");
    p = probe_fresh();
    p.o.criterion = "best";
    refused(p, "there is no criterion 'best'");
    p = probe_fresh();
    p.o.archive = wn_test_need_data("golden/text/tiny-a/ref/saliency.npz");
    refused(p, "the archive has 13 layers, the model 8");
    (void)snprintf(other, sizeof other, "%s/other.jsonl", wn_test_folder());
    CHECK_OK(wn_file_put(other, line, strlen(line), false, &err), &err);
    p = probe_fresh();
    p.o.corpus = other;
    refused(p, "its source 'c' is none of");
    p = probe_fresh();
    p.o.max_tokens = PROBE_LENGTH;
    refused(p, "no sequence of source 'b' fits into 20 tokens");
    p = probe_fresh();
    p.o.out = p.o.archive;
    refused(p, "exists");
    p = probe_fresh();
    p.o.out = p.o.corpus;
    p.o.overwrite = true;
    CHECK_FAILS(probe_run(&p, &err), &err, "is the input");
    p = probe_fresh();
    p.o.ram = 1 << 20;
    refused(p, "probing needs at least");
}

static void an_archive_of_another_model_is_refused(void **state)
{
    struct probing p = probe_fresh();
    static const uint32_t experts[PROBE_LAYERS] = {0, 64, 64, 64, 32, 64, 64, 64};
    static const char *const labels[] = {"a", "b"};
    static char path[512];
    struct wn_saliency s;
    struct wn_err err;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/s.npz", wn_test_folder());
    p.o.archive = path;
    CHECK_OK(wn_saliency_init(&s, PROBE_LAYERS, experts, PROBE_TOP_K, 8, 2, labels, &err), &err);
    CHECK_OK(wn_saliency_write(&s, path, false, &err), &err);
    wn_saliency_release(&s);
    refused(p, "layer 4 has 32 experts in the archive and 64 in the model");
    CHECK_OK(wn_saliency_init(&s, PROBE_LAYERS - 1, experts, PROBE_TOP_K, 8, 2, labels, &err), &err);
    CHECK_OK(wn_saliency_write(&s, path, true, &err), &err);
    wn_saliency_release(&s);
    refused(p, "the archive has 7 layers, the model 8");
}

static void an_archive_of_another_fingerprint_is_refused_unless_forced(void **state)
{
    struct probing p = probe_fresh();
    static char path[512];
    struct wn_saliency s;
    struct wn_err err;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/s.npz", wn_test_folder());
    CHECK_OK(wn_saliency_read(&s, probe_archive, &err), &err);
    s.model_fingerprint[3] ^= 1;
    CHECK_OK(wn_saliency_write(&s, path, false, &err), &err);
    p.o.archive = path;
    refused(p, "the archive is of a model with the fingerprint");
    p.o.force_plan = true;
    CHECK_OK(probe_run(&p, &err), &err);
    /* and one that does not tell is taken, as a plan is */
    s.model_fingerprint[0] = 0;
    CHECK_OK(wn_saliency_write(&s, path, true, &err), &err);
    wn_saliency_release(&s);
    p = probe_fresh();
    p.o.archive = path;
    CHECK_OK(probe_run(&p, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_figure_is_that_of_a_model_with_that_layer_masked),
        cmocka_unit_test(ghosts_may_take_the_place_of_the_next_choice),
        cmocka_unit_test(who_goes_is_who_a_plan_of_that_share_drops),
        cmocka_unit_test(shares_that_come_to_the_same_experts_are_one),
        cmocka_unit_test(threads_chunks_and_memory_change_no_byte),
        cmocka_unit_test(a_smaller_chunk_changes_no_byte),
        cmocka_unit_test(the_output_is_the_archive_with_more_in_it),
        cmocka_unit_test(the_disk_it_takes_is_what_it_said),
        cmocka_unit_test(what_cannot_be_probed_is_refused),
        cmocka_unit_test(an_archive_of_another_model_is_refused),
        cmocka_unit_test(an_archive_of_another_fingerprint_is_refused_unless_forced),
    };

    return cmocka_run_group_tests(tests, probe_make_archive, NULL);
}
