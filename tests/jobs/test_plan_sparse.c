/*
 * The real size: every row of catalog/expected-sizes.json, from K3's files as sparse ones (`make sparse`), before a
 * byte is written; and the published builds out of their sizes alone.
 */
#include "wn_test.h"
#include "base/rng.h"
#include "jobs/calibrate/saliency.h"
#include "sys/clock.h"
#include <winnow/fit.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SET(folder, files) folder "/Kimi-K3-UD-IQ1_S-00001-of-000" files ".gguf"
#define R1                 SET("gguf-r1", "14")
#define R2                 SET("gguf-r2", "14")
#define IQ2                SET("gguf-iq2_xxs", "16")
#define Q4                 SET("gguf-mxfp4", "32")

#define LAYERS  92
#define EXPERTS 896

/* What a row of the catalog is about. */
struct row {
    const char *id, *source;
    bool files;       /* the source's files, with headers; else tensors */
    unsigned keep;    /* 0: the source as it is */
    unsigned lo;      /* more, of 2 bits */
    unsigned rest;    /* bits; 0: no MLX folder */
    const char *plan; /* a published one, in place of keep */
};

static const struct row rows[] = {
    {"source-data", "hf", false, 0, 0, 0, NULL},
    {"source-files", "hf", true, 0, 0, 0, NULL},
    {"gguf-UD-Q4_K_XL", Q4, true, 0, 0, 0, NULL},
    {"gguf-UD-IQ1_S", R2, true, 0, 0, 0, NULL},
    {"gguf-UD-IQ1_S-r1", R1, true, 0, 0, 0, NULL},
    {"gguf-UD-IQ2_XXS", IQ2, true, 0, 0, 0, NULL},
    {"REAP640-IQ1_S", R1, false, 0, 0, 0, "catalog/plans/reap_plan_640.json"},
    {"REAP576-IQ2_XXS", IQ2, false, 0, 0, 0, "catalog/plans/reap_plan_576.json"},
    {"REAP73-mxfp4-q8", "hf", false, 242, 0, 8, NULL},
    {"REAP80-mxfp4-q8", "hf", false, 179, 0, 8, NULL},
    {"REAPgraded-mxfp4-q8", "hf", false, 121, 205, 8, NULL},
    {"REAP73-mxfp4-bf16rest", "hf", false, 242, 0, 16, NULL},
    {"mxfp4-full", "hf", false, 896, 0, 16, NULL},
    {"report-keep-672", "hf", false, 672, 0, 8, NULL},
    {"report-keep-448", "hf", false, 448, 0, 8, NULL},
    {"report-keep-336", "hf", false, 336, 0, 8, NULL},
    {"report-keep-242", "hf", false, 242, 0, 8, NULL},
    {"report-keep-224", "hf", false, 224, 0, 8, NULL},
    {"report-keep-168", "hf", false, 168, 0, 8, NULL},
    {"report-keep-112", "hf", false, 112, 0, 8, NULL},
};

/* A model stays open for the rows that follow on it. */
static struct {
    const char *source;
    struct wn_model *m;
} opened;

static struct wn_model *open_source(const char *source)
{
    struct wn_err err;

    if (opened.source && strcmp(opened.source, source) == 0)
        return opened.m;
    wn_model_close(opened.m);
    opened.source = source;
    opened.m = wn_model_open(wn_test_need_sparse(source), &err);
    CHECK_OK(opened.m, &err);
    return opened.m;
}

static const struct row *find_row(const char *id)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].id, id) == 0)
            return &rows[i];
    fail_msg("the catalog has a row '%s' that this test does not know", id);
    return NULL;
}

/* The first `keep` and the next `lo`, in each layer. */
static void first_ones(struct wn_plan *p, unsigned keep, unsigned lo)
{
    json_t *layers = json_object(), *root;
    struct wn_err err;
    char *text;

    for (int l = 1; l <= LAYERS; l++) {
        json_t *ids = json_array(), *bits = json_object();
        char key[16];

        for (unsigned e = 0; e < keep + lo; e++) {
            json_array_append_new(ids, json_integer(e));
            snprintf(key, sizeof key, "%u", e);
            json_object_set_new(bits, key, json_string(e < keep ? "mxfp4" : "2bit"));
        }
        snprintf(key, sizeof key, "%d", l);
        json_object_set_new(layers, key, json_pack("{s:o,s:o}", "keep", ids, "bits", bits));
    }
    root = json_pack("{s:i,s:i,s:o}", "top_k", 16, "num_experts", EXPERTS, "layers", layers);
    text = json_dumps(root, 0);
    CHECK_OK(wn_plan_parse(p, text, strlen(text), &err), &err);
    free(text);
    json_decref(root);
}

static uint64_t source_bytes(const struct row *r)
{
    struct wn_inspection in;
    struct wn_err err;
    uint64_t bytes;

    CHECK_OK(wn_model_inspect(open_source(r->source), &in, &err), &err);
    bytes = r->files ? in.file_bytes : in.tensor_bytes;
    wn_inspection_release(&in);
    return bytes;
}

static uint64_t build_bytes(const struct row *r)
{
    const struct wn_fit_options o = {
        .format = r->rest ? WN_FORMAT_MLX : WN_FORMAT_AS_SOURCE, .rest_bits = r->rest, .lo_bits = r->lo ? 2 : 0};
    struct wn_model *m = open_source(r->source);
    struct wn_fit_ledger l;
    struct wn_plan p;
    struct wn_err err;
    struct wn_fit *f = wn_fit_new(wn_model_path(m), m, &o, &err);

    CHECK_OK(f, &err);
    if (r->plan)
        CHECK_OK(wn_plan_read(&p, wn_test_need_data(r->plan), &err), &err);
    else
        first_ones(&p, r->keep, r->lo);
    CHECK_OK(wn_fit_predict(f, &p, 0.5, &l, &err), &err);
    wn_plan_release(&p);
    wn_fit_free(f);
    return l.tensor_bytes;
}

static void every_size_of_the_catalog_is_told_before_a_byte_is_written(void **state)
{
    json_t *root, *entry;
    json_error_t at;
    size_t i;

    (void)state;
    (void)wn_test_need_sparse("hf");
    root = json_load_file(wn_test_need_data("catalog/expected-sizes.json"), 0, &at);
    assert_non_null(root);
    assert_int_equal(json_array_size(json_object_get(root, "expected")), sizeof rows / sizeof rows[0]);
    json_array_foreach(json_object_get(root, "expected"), i, entry) {
        const struct row *r = find_row(json_string_value(json_object_get(entry, "id")));
        int64_t want = json_integer_value(json_object_get(entry, "computed_bytes")),
                tolerance = json_integer_value(json_object_get(entry, "tolerance_bytes")),
                got = (int64_t)(r->plan || r->keep ? build_bytes(r) : source_bytes(r));

        print_message("%-22s %16" PRId64 " bytes, %" PRId64 " off\n", r->id, got, got - want);
        if (got < want - tolerance || got > want + tolerance)
            fail_msg("%s: %" PRId64 " bytes, wanted %" PRId64 " give or take %" PRId64, r->id, got, want, tolerance);
    }
    json_decref(root);
}

/* An archive of K3's shape, with sums that nobody measured. */
static const char *archive(void)
{
    const char *path = wn_test_path(wn_test_folder(), "k3.npz"), *label = "any";
    uint32_t experts[LAYERS + 1] = {0};
    struct wn_rng rng = {3};
    struct wn_saliency s;
    struct wn_err err;

    for (int l = 1; l <= LAYERS; l++)
        experts[l] = EXPERTS;
    CHECK_OK(wn_saliency_init(&s, LAYERS + 1, experts, 16, 0, 1, &label, &err), &err);
    s.source_tokens[0] = 1000;
    for (uint32_t l = 1; l <= LAYERS; l++)
        for (uint32_t e = 0; e < EXPERTS; e++)
            s.source_saliency[wn_saliency_source_row(&s, 0, l) + e] = 0.1 + wn_rng_unit(&rng) * l;
    wn_saliency_add_up(&s);
    CHECK_OK(wn_saliency_write(&s, path, false, &err), &err);
    wn_saliency_release(&s);
    return path;
}

static void solve(const char *sal, uint64_t size, const struct wn_plan_options *options, struct wn_plan *p)
{
    const struct wn_fit_options fit = {
        .format = WN_FORMAT_MLX, .size = size, .lo_bits = options->mode == WN_PLAN_UNIFORM ? 0 : 2};
    struct wn_plan_options o = *options;
    struct wn_model *m = open_source("hf");
    struct wn_plan_kept kept;
    struct wn_fit_ledger l;
    struct wn_err err;
    struct wn_fit *f = wn_fit_new(wn_model_path(m), m, &fit, &err);

    CHECK_OK(f, &err);
    o.fit = f;
    CHECK_OK(wn_plan_make(sal, &o, p, &kept, &err), &err);
    CHECK_OK(wn_fit_predict(f, p, kept.low_routed, &l, &err), &err);
    assert_true(l.tensor_bytes <= size && size - l.tensor_bytes < l.one_more);
    assert_true(kept.reached <= kept.bound && kept.reached > 0.8 * kept.bound);
    wn_plan_kept_release(&kept);
    wn_fit_free(f);
}

static void the_published_numbers_come_out_of_the_published_sizes(void **state)
{
    const char *sal;
    struct wn_plan p;

    (void)state;
    (void)wn_test_need_sparse("hf");
    sal = archive();
    solve(sal, UINT64_C(451415080160), &(struct wn_plan_options){0}, &p);
    assert_int_equal(p.layers[0].keep_count, 242);
    wn_plan_release(&p);
    solve(sal, UINT64_C(450809235872), &(struct wn_plan_options){.mode = WN_PLAN_GRADED, .hi = 121}, &p);
    assert_int_equal(p.layers[0].hi_count, 121);
    assert_int_equal(p.layers[91].keep_count, 326);
    wn_plan_release(&p);
    solve(sal, UINT64_C(450809235872), &(struct wn_plan_options){.mode = WN_PLAN_GLOBAL, .lo_bits = 2}, &p);
    assert_true(wn_plan_is_graded(&p) && !wn_plan_is_uniform(&p));
    wn_plan_release(&p);
}

static int close_source(void **state)
{
    (void)state;
    wn_model_close(opened.m);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_of_the_catalog_is_told_before_a_byte_is_written),
        cmocka_unit_test(the_published_numbers_come_out_of_the_published_sizes),
    };

    return cmocka_run_group_tests(tests, NULL, close_source);
}
