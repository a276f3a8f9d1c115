/*
 * Reports: the figures against sums done by hand, and the page: whole elements, escaped text, small at the real size, and
 * honest about what is not there.
 */
#include "base/alloc.h"
#include "jobs/report_measure.h"
#include "jobs/report_stats.h"
#include "sys/file.h"
#include "wn_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/report.h>

#define CLOSE(a, b) assert_true(fabs((a) - (b)) < 1e-9)

/*
 * A dense layer; layer 1 with ten experts, layer 2 with four; two sources. Sums of both sources are
 *   layer 1:  10 0 20 0 30 0 0 0 0 40    layer 2:  5 5 5 5
 * "a" has the 40 and 20 of layer 1 and half of layer 2, "b" the rest.
 */
static const double total_1[10] = {10, 0, 20, 0, 30, 0, 0, 0, 0, 40};

static void fill(struct wn_saliency *s, const char *const *labels)
{
    static const uint32_t experts[3] = {0, 10, 4};
    struct wn_err err;

    CHECK_OK(wn_saliency_init(s, 3, experts, 2, 0, 2, labels, &err), &err);
    s->source_tokens[0] = 99;
    s->source_tokens[1] = 1;
    for (uint32_t e = 0; e < 10; e++) {
        uint32_t source = e == 9 || e == 2 ? 0 : 1;

        s->source_saliency[wn_saliency_source_row(s, source, 1) + e] = total_1[e];
        s->source_counts[wn_saliency_source_row(s, source, 1) + e] = total_1[e] > 0;
    }
    for (uint32_t e = 0; e < 4; e++) {
        s->source_saliency[wn_saliency_source_row(s, e / 2, 2) + e] = 5;
        s->source_counts[wn_saliency_source_row(s, e / 2, 2) + e] = 1;
    }
    /* layer 1: the second half has the places of 10 and 20 turned; layer 2: all ties */
    for (uint32_t e = 0; e < 10; e++)
        s->half_saliency[wn_saliency_source_row(s, 0, 1) + e] = total_1[e] / 2;
    memcpy(s->half_saliency + wn_saliency_source_row(s, 1, 1), s->half_saliency + wn_saliency_source_row(s, 0, 1),
           10 * sizeof(double));
    s->half_saliency[wn_saliency_source_row(s, 1, 1) + 0] = 10;
    s->half_saliency[wn_saliency_source_row(s, 1, 1) + 2] = 5;
    for (uint32_t e = 0; e < 4; e++)
        s->half_saliency[wn_saliency_source_row(s, 0, 2) + e] = s->half_saliency[wn_saliency_source_row(s, 1, 2) + e] =
            2.5;
    s->half_tokens[0] = s->half_tokens[1] = 50;
    wn_saliency_add_up(s);
}

static const char *const plain_labels[2] = {"a", "b"};

/* Keeps 9, 4, 0 and 2, 3: the 20 of layer 1 goes. */
static const char plan_json[] =
    "{\"mode\": \"mixed\", \"top_k\": 2, \"num_experts\": 10, \"min_experts\": 2, \"layers\": "
    "{\"1\": {\"keep\": [9, 4, 0]}, \"2\": {\"keep\": [2, 3]}}}";

static void measure(struct wn_saliency *s, const char *plan_text, struct wn_report_numbers *n)
{
    struct wn_plan p = {0};
    struct wn_err err;

    fill(s, plain_labels);
    if (plan_text)
        CHECK_OK(wn_plan_parse(&p, plan_text, strlen(plan_text), &err), &err);
    CHECK_OK(wn_report_measure(n, s, plan_text ? &p : NULL, &err), &err);
    wn_plan_release(&p);
}

/* ---- figures ---- */

static void what_a_plan_keeps_and_could_keep_is_measured_by_layer_and_source(void **state)
{
    struct wn_saliency s;
    struct wn_report_numbers n;

    (void)state;
    measure(&s, plan_json, &n);
    assert_int_equal(n.layer_count, 2);
    assert_int_equal(n.layers[0].layer, 1);
    assert_int_equal(n.layers[0].keep, 3);
    assert_int_equal(n.layers[0].keep_best, 2); /* the best three are 9, 4, 2 */
    CLOSE(n.layers[0].kept, 0.8);
    CLOSE(n.layers[0].best, 0.9);
    CLOSE(n.layers[1].kept, 0.5);
    CLOSE(n.kept.kept, 90 / 120.0);
    CLOSE(n.sources[0].kept, 40 / 70.0);
    CLOSE(n.sources[1].kept, 50 / 50.0);
    CLOSE(n.share_kept, 5 / 14.0);
    wn_report_numbers_release(&n);
    wn_saliency_release(&s);
}

static void concentration_counts_experts(void **state)
{
    struct wn_saliency s;
    struct wn_report_numbers n;

    (void)state;
    measure(&s, NULL, &n);
    /* layer 1: shares .4 .3 .2 .1 of ten; layer 2 is even */
    CLOSE(n.layers[0].effective, exp(-(0.4 * log(0.4) + 0.3 * log(0.3) + 0.2 * log(0.2) + 0.1 * log(0.1))));
    CLOSE(n.layers[0].gini, 0.7); /* 2 (7 x 10 + 8 x 20 + 9 x 30 + 10 x 40) / (10 x 100) - 11 / 10 */
    CLOSE(n.layers[0].never, 6);
    CLOSE(n.layers[1].effective, 4);
    CLOSE(n.layers[1].gini, 0);
    CLOSE(n.layers[1].never, 0);
    CLOSE(n.ratio[0], 4); /* 40 of 100 among ten */
    CLOSE(n.ratio[4], 0);
    CLOSE(n.ratio[10], 1);
    wn_report_numbers_release(&n);
    wn_saliency_release(&s);
}

static void curves_run_from_nothing_to_all(void **state)
{
    struct wn_saliency s;
    struct wn_report_numbers n;

    (void)state;
    measure(&s, NULL, &n);
    CLOSE(n.curve[0], 0);
    CLOSE(n.curve[64], 1);
    /* a quarter: two and a half experts of layer 1 (40 + 30 + 10), one of layer 2 (5) */
    CLOSE(n.curve[16], 85 / 120.0);
    CLOSE(n.low[16], 0.25);
    CLOSE(n.high[16], 0.8);
    CLOSE(n.middle[16], (0.25 + 0.8) / 2);
    /* "a" by the order of all: 40 and half of 20, and expert 0 of layer 2; by its own: 60, and 5 */
    CLOSE(n.sources[0].mixed[16], (40 + 10 + 5) / 70.0);
    CLOSE(n.sources[0].own[16], (60 + 5) / 70.0);
    /* without a plan half of each layer is looked at */
    assert_int_equal(n.layers[0].keep, 5);
    CLOSE(n.layers[0].kept, 1);
    CLOSE(n.layers[1].kept, 0.5);
    assert_true(isnan(n.sources[0].lost_best));
    wn_report_numbers_release(&n);
    wn_saliency_release(&s);
}

static void dropped_favourites_are_listed_by_what_they_carry(void **state)
{
    /* drops 9, the best of "a" in layer 1, and expert 0 of layer 2, its best there */
    static const char text[] =
        "{\"mode\": \"mixed\", \"top_k\": 2, \"num_experts\": 10, \"layers\": {\"1\": {\"keep\": "
        "[0, 2, 4]}, \"2\": {\"keep\": [1, 2, 3]}}}";
    struct wn_saliency s;
    struct wn_report_numbers n;

    (void)state;
    measure(&s, text, &n);
    assert_int_equal(n.lost_count, 2);
    assert_int_equal(n.worst_count, 2);
    assert_int_equal(n.worst[0].layer, 0);
    assert_int_equal(n.worst[0].expert, 9);
    assert_int_equal(n.worst[0].source, 0);
    assert_int_equal(n.worst[0].rank, 1);
    CLOSE(n.worst[0].share, 40 / 60.0);
    assert_int_equal(n.worst[1].expert, 0);
    CLOSE(n.sources[0].lost_best, 2);
    assert_int_equal(n.sources[0].best_count, 2); /* one of ten, one of four */
    CLOSE(n.sources[1].lost_best, 0);
    wn_report_numbers_release(&n);
    wn_saliency_release(&s);
}

static void halves_agree_by_rank_and_by_what_they_would_keep(void **state)
{
    struct wn_saliency s;
    struct wn_report_numbers n;
    double a[10], b[10], rho;
    struct wn_err err;

    (void)state;
    measure(&s, plan_json, &n);
    /* places 1 .. 4 with the last two turned, and six zeros that share the place 7.5 */
    for (uint32_t e = 0; e < 10; e++) {
        a[e] = s.half_saliency[wn_saliency_source_row(&s, 0, 1) + e];
        b[e] = s.half_saliency[wn_saliency_source_row(&s, 1, 1) + e];
    }
    CHECK_OK(wn_report_rank_correlation(a, b, 10, &rho, &err), &err);
    CLOSE(n.layers[0].half_rank, rho);
    CLOSE(rho, 64 / 65.0); /* both have a sum of squares of 65 about 5.5; the turn takes 1 off the product */
    /* the best three are 9 4 2 in one half, 9 4 0 in the other */
    CLOSE(n.layers[0].half_top, 2 / 3.0);
    assert_true(isnan(n.layers[1].half_rank)); /* all equal: no order */
    assert_true(isnan(n.layers[1].half_top));
    CLOSE(n.half_rank, rho);
    CLOSE(n.half_chance, (0.3 + 0.5) / 2);
    wn_report_numbers_release(&n);
    wn_saliency_release(&s);
}

static void medians_take_the_middle(void **state)
{
    double odd[3] = {3, 1, 2}, even[4] = {4, 1, 3, 2};

    (void)state;
    CLOSE(wn_report_median(odd, 3), 2);
    CLOSE(wn_report_median(even, 4), 2.5);
    assert_true(isnan(wn_report_median(odd, 0)));
}

/* ---- the page ---- */

static const char *save(const char *folder, const char *name, const char *const *labels)
{
    const char *path = wn_test_path(folder, name);
    struct wn_saliency s;
    struct wn_err err;

    fill(&s, labels);
    snprintf(s.settings, sizeof(s.settings), "sequences of <8>");
    CHECK_OK(wn_saliency_write(&s, path, false, &err), &err);
    wn_saliency_release(&s);
    return path;
}

static const char *put_file(const char *folder, const char *name, const char *text)
{
    const char *path = wn_test_path(folder, name);
    struct wn_err err;

    CHECK_OK(wn_file_put(path, text, strlen(text), false, &err), &err);
    return path;
}

/* The page; free it. */
static char *page_of(const struct wn_report_options *o, const char *out)
{
    struct wn_err err;
    uint64_t bytes;
    size_t n;
    char *page;

    CHECK_OK(wn_report(o, out, &bytes, &err), &err);
    page = wn_file_slurp(out, 1 << 24, &n, &err);
    assert_non_null(page);
    assert_int_equal(n, bytes);
    assert_int_equal(strlen(page), n);
    return page;
}

static bool is_void(const char *name, size_t n)
{
    return (n == 4 && memcmp(name, "meta", 4) == 0) || (n == 2 && memcmp(name, "br", 2) == 0);
}

/* Every element is closed, in order; attributes are quoted; a raw < or & is nowhere. */
static void check_whole(const char *page)
{
    struct {
        const char *name;
        size_t n;
    } open[32];
    size_t depth = 0;

    for (const char *p = page; *p; p++) {
        const char *name, *end;
        size_t n, quotes = 0;

        if (*p == '&') {
            n = strspn(p + 1, "#abcdefghijklmnopqrstuvwxyz0123456789");
            assert_true(n > 0 && p[1 + n] == ';');
        }
        if (*p != '<' || p[1] == '!')
            continue;
        name = p[1] == '/' ? p + 2 : p + 1;
        n = strcspn(name, " \n/>");
        end = strchr(name, '>');
        assert_true(n > 0 && end && !memchr(name, '<', (size_t)(end - name)));
        for (const char *q = name; q < end; q++)
            quotes += *q == '"';
        /* a place in a figure that is no number */
        assert_false(strstr(name, "not measured") && strstr(name, "not measured") < end);
        assert_int_equal(quotes % 2, 0);
        if (p[1] == '/') {
            if (depth == 0 || open[depth - 1].n != n || memcmp(open[depth - 1].name, name, n) != 0)
                fail_msg("</%.*s> closes what is not open: %.80s", (int)n, name, p);
            depth--;
        } else if (end[-1] != '/' && !is_void(name, n)) {
            assert_true(depth < 32);
            open[depth].name = name;
            open[depth++].n = n;
        }
        p = end;
    }
    if (depth)
        fail_msg("<%.*s> is never closed", (int)open[depth - 1].n, open[depth - 1].name);
}

static void check_alone(const char *page)
{
    static const char *const never[] = {"http:", "https:",  "<script",     "<link", "<img",  " src=",        " href=",
                                        "url(",  "@import", "javascript:", "nan",   "inf\"", "not measured,"};

    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
        if (strstr(page, never[i]))
            fail_msg("there is '%s' in the page: %.80s", never[i], strstr(page, never[i]));
}

static void has(const char *page, const char *part)
{
    if (!strstr(page, part))
        fail_msg("the page lacks '%s'", part);
}

static void the_page_is_whole_and_needs_nothing_else(void **state)
{
    static const char eval[] = "{\"model\": \"m\", \"window\": 64, \"domains\": [{\"domain\": \"en\", \"windows\": 2, "
                               "\"predicted\": 126, \"perplexity\": 20, \"nll\": 2.9957, \"other\": []}]}",
                      cut[] = "{\"domains\": [{\"domain\": \"en\", \"windows\": 2, \"predicted\": 126, \"perplexity\": "
                              "21.5, \"kld_mean\": 0.01234}]}";
    const char *folder = wn_test_folder();
    const char *evals[2] = {put_file(folder, "whole.json", eval), put_file(folder, "cut.json", cut)};
    const struct wn_report_options o = {.saliency_path = save(folder, "s.npz", plain_labels),
                                        .plan_path = put_file(folder, "p.json", plan_json),
                                        .eval_paths = evals,
                                        .eval_count = 2};
    char *page = page_of(&o, wn_test_path(folder, "r.html"));

    (void)state;
    check_whole(page);
    check_alone(page);
    has(page, "75.00 % of the saliency: 25.00 % goes");
    has(page, "<dt>saliency kept by the plan</dt><dd>75.0 %</dd>");
    has(page, "<td>20.000</td><td>21.500</td><td>+7.50 %</td>");
    has(page, "<td>0.01234</td>");
    free(page);
}

static void names_from_files_are_text(void **state)
{
    static const char *const labels[2] = {"<script>alert(1)</script>", "\" onload='x' &amp;"};
    const char *folder = wn_test_folder();
    const struct wn_report_options o = {.saliency_path = save(folder, "<b>&.npz", labels),
                                        .plan_path = put_file(folder, "'p\".json", plan_json)};
    char *page = page_of(&o, wn_test_path(folder, "r.html"));

    (void)state;
    check_whole(page);
    check_alone(page);
    has(page, "<h1>Saliency of &lt;b&gt;&amp;.npz</h1>");
    has(page, "&lt;script&gt;alert(1)&lt;/script&gt;");
    has(page, "&quot; onload=&#39;x&#39; &amp;amp;");
    has(page, "sequences of &lt;8&gt;");
    free(page);
}

static void what_is_not_there_is_said(void **state)
{
    const char *folder = wn_test_folder();
    struct wn_report_options o = {.saliency_path = save(folder, "s.npz", plain_labels)};
    struct wn_saliency s;
    struct wn_err err;
    char *page = page_of(&o, wn_test_path(folder, "own.html"));

    (void)state;
    check_whole(page);
    has(page, "Not measured: no plan was given.");
    has(page, "Not measured: no results of <code>winnow eval --json</code> were given.");
    free(page);
    /* as other tools write it: no sums by source, no halves, no counts, no tokens */
    fill(&s, plain_labels);
    s.source_count = 0;
    memset(s.counts, 0, (size_t)s.layer_count * s.expert_count * sizeof(*s.counts));
    s.token_count = 0;
    free(s.half_saliency);
    s.half_saliency = NULL;
    o.saliency_path = wn_test_path(folder, "others.npz");
    CHECK_OK(wn_saliency_write(&s, o.saliency_path, false, &err), &err);
    s.source_count = 2;
    wn_saliency_release(&s);
    page = page_of(&o, wn_test_path(folder, "others.html"));
    check_whole(page);
    check_alone(page);
    has(page, "Split halves: not in this archive.");
    has(page, "Sums by source: not in this archive.");
    has(page, "How many experts were never chosen is not in this archive.");
    has(page, "<dt>tokens measured</dt><dd class=\"no\">not measured</dd>");
    free(page);
}

/* 92 layers of 896 experts, six sources. */
static void the_page_of_the_real_size_is_small(void **state)
{
    static const char *const labels[6] = {"code", "english", "chinese", "japanese", "math", "agents"};
    static uint32_t experts[93];
    const char *folder = wn_test_folder(), *path = wn_test_path(folder, "k3.npz");
    const struct wn_report_options o = {.saliency_path = path};
    struct wn_saliency s;
    struct wn_err err;
    uint32_t random = 1;
    char *page;

    (void)state;
    for (uint32_t l = 1; l < 93; l++)
        experts[l] = 896;
    CHECK_OK(wn_saliency_init(&s, 93, experts, 16, 0, 6, labels, &err), &err);
    for (uint32_t k = 0; k < 6; k++) {
        s.source_tokens[k] = 1000000;
        for (size_t i = 896; i < (size_t)93 * 896; i++) {
            random = random * 1664525 + 1013904223;
            s.source_saliency[wn_saliency_source_row(&s, k, 0) + i] = pow(1 + (random >> 16), 2);
        }
    }
    wn_saliency_add_up(&s);
    CHECK_OK(wn_saliency_write(&s, path, false, &err), &err);
    wn_saliency_release(&s);
    page = page_of(&o, wn_test_path(folder, "r.html"));
    check_whole(page);
    assert_true(strlen(page) < 150000);
    free(page);
}

/* ---- refusals ---- */

static void an_output_that_exists_is_kept(void **state)
{
    const char *folder = wn_test_folder(), *out = put_file(folder, "r.html", "mine");
    struct wn_report_options o = {.saliency_path = save(folder, "s.npz", plain_labels)};
    struct wn_err err;
    uint64_t bytes;
    char *page;

    (void)state;
    CHECK_FAILS(wn_report(&o, out, &bytes, &err), &err, "exists");
    o.overwrite = true;
    page = page_of(&o, out);
    has(page, "</html>");
    free(page);
}

static void wrong_inputs_are_refused_by_name_and_nothing_is_written(void **state)
{
    static const struct {
        const char *plan, *eval, *part;
    } cases[] = {
        {"{\"mode\": \"uniform\", \"top_k\": 2, \"num_experts\": 8, \"layers\": {\"1\": {\"keep\": [0, 1]}}}", NULL,
         "the plan is for 8 experts, the archive has 10"},
        {NULL, "[1]", "e.json': it has no list 'domains'"},
        {NULL, "{\"domains\": [{\"perplexity\": 1}]}", "entry 0 of 'domains' has no text 'domain'"},
        {NULL, "{\"domains\": [{\"domain\": \"a\"}, {\"domain\": \"a\"}]}", "domain 'a' is in it twice"},
        {NULL, "{\"domains\": [", "line 1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *folder = wn_test_folder(), *out = wn_test_path(folder, "r.html"), *eval = NULL;
        struct wn_report_options o = {.saliency_path = save(folder, "s.npz", plain_labels), .eval_paths = &eval};
        struct wn_err err;
        uint64_t bytes;

        if (cases[i].plan)
            o.plan_path = put_file(folder, "p.json", cases[i].plan);
        if (cases[i].eval) {
            eval = put_file(folder, "e.json", cases[i].eval);
            o.eval_count = 1;
        }
        CHECK_FAILS(wn_report(&o, out, &bytes, &err), &err, cases[i].part);
        assert_non_null(strstr(err.msg, cases[i].plan ? "p.json'" : "e.json'"));
        assert_false(wn_path_exists(out));
    }
}

static void an_archive_of_zeros_has_nothing_to_report(void **state)
{
    struct wn_report_numbers n;
    struct wn_saliency s;
    struct wn_err err;

    (void)state;
    fill(&s, plain_labels);
    memset(s.saliency, 0, (size_t)s.layer_count * s.expert_count * sizeof(*s.saliency));
    CHECK_FAILS(wn_report_measure(&n, &s, NULL, &err), &err, "all saliency in the archive is zero");
    assert_null(n.layers);
    wn_saliency_release(&s);
}

static void without_memory_nothing_is_written(void **state)
{
    const char *folder = wn_test_folder(), *out = wn_test_path(folder, "r.html");
    const char *eval = put_file(folder, "e.json", "{\"domains\": [{\"domain\": \"en\", \"perplexity\": 3}]}");
    const struct wn_report_options o = {.saliency_path = save(folder, "s.npz", plain_labels),
                                        .plan_path = put_file(folder, "p.json", plan_json),
                                        .eval_paths = &eval,
                                        .eval_count = 1};
    struct wn_err err;
    uint64_t bytes;
    long k = 0;

    (void)state;
    for (;; k++) {
        bool ok;

        wn_alloc_fail_after(k);
        ok = wn_report(&o, out, &bytes, &err);
        wn_alloc_fail_after(-1);
        if (ok)
            break;
        assert_int_equal(err.code, WN_ERR_NOMEM);
        assert_false(wn_path_exists(out));
    }
    assert_true(k > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_plan_keeps_and_could_keep_is_measured_by_layer_and_source),
        cmocka_unit_test(concentration_counts_experts),
        cmocka_unit_test(curves_run_from_nothing_to_all),
        cmocka_unit_test(dropped_favourites_are_listed_by_what_they_carry),
        cmocka_unit_test(halves_agree_by_rank_and_by_what_they_would_keep),
        cmocka_unit_test(medians_take_the_middle),
        cmocka_unit_test(the_page_is_whole_and_needs_nothing_else),
        cmocka_unit_test(names_from_files_are_text),
        cmocka_unit_test(what_is_not_there_is_said),
        cmocka_unit_test(the_page_of_the_real_size_is_small),
        cmocka_unit_test(an_output_that_exists_is_kept),
        cmocka_unit_test(wrong_inputs_are_refused_by_name_and_nothing_is_written),
        cmocka_unit_test(an_archive_of_zeros_has_nothing_to_report),
        cmocka_unit_test(without_memory_nothing_is_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
