/*
 * The page of a report: whole elements, escaped text, small at the real size, and honest about what is not there.
 */
#include "base/alloc.h"
#include "prune_help.h"
#include "report_fixture.h"
#include "sys/file.h"
#include "wn_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/report.h>

static const char *save(const char *folder, const char *name, const char *const *labels)
{
    const char *path = wn_test_path(folder, name);
    struct wn_saliency s;
    struct wn_err err;

    report_archive(&s, labels);
    snprintf(s.settings, sizeof(s.settings), "sequences of <8>");
    snprintf(s.model_fingerprint, sizeof(s.model_fingerprint), "00000000deadbeef");
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
    const struct wn_report_options o = {.saliency_path = save(folder, "s.npz", report_labels),
                                        .plan_path = put_file(folder, "p.json", report_plan),
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
                                        .plan_path = put_file(folder, "'p\".json", report_plan)};
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

static void lacks(const char *page, const char *part)
{
    if (strstr(page, part))
        fail_msg("the page has '%s'", part);
}

static void rows_of_the_heat_map_are_a_stroke_a_colour(void **state)
{
    const char *folder = wn_test_folder();
    struct wn_report_options o = {.saliency_path = save(folder, "s.npz", report_labels),
                                  .plan_path = put_file(folder, "p.json", report_plan)};
    char *page = page_of(&o, wn_test_path(folder, "planned.html"));

    (void)state;
    /* times an even share: 4 3 2 1 and six nothings; four of 1. Steps of half a power of two from 1 to 4 */
    has(page, "<path class=\"h10\" d=\"M0 0.5h1\"/>");
    has(page, "<path class=\"h8\" d=\"M1 0.5h1\"/>");
    has(page, "<path class=\"h5\" d=\"M2 0.5h1\"/>");
    has(page, "<path class=\"h0\" d=\"M3 0.5h1M0 1.5h4\"/>");
    has(page, "<path class=\"hz\" d=\"M4 0.5h6\"/>");
    has(page, "d=\"M3 0V1H2V2\"");
    has(page, "of the 5 experts it keeps, 2 lie left of the line and 3 right of it");
    has(page, "class=\"mark\"");
    free(page);
    o.plan_path =
        put_file(folder, "best.json",
                 "{\"mode\": \"global\", \"top_k\": 2, \"num_experts\": 10, \"layers\": {\"1\": {\"keep\": [2, 4, "
                 "9]}, \"2\": {\"keep\": [0, 1]}}}");
    page = page_of(&o, wn_test_path(folder, "best.html"));
    has(page, "it keeps exactly the experts to its left");
    free(page);
    o.plan_path = NULL;
    page = page_of(&o, wn_test_path(folder, "archive.html"));
    lacks(page, "class=\"mark\"");
    lacks(page, "class=\"cut\"");
    free(page);
}

static void both_banks_of_a_graded_plan_are_shown(void **state)
{
    const char *folder = wn_test_folder();
    struct wn_report_options o = {.saliency_path = save(folder, "s.npz", report_labels),
                                  .plan_path = put_file(folder, "g.json", report_graded_plan)};
    char *page = page_of(&o, wn_test_path(folder, "graded.html"));

    (void)state;
    check_whole(page);
    check_alone(page);
    has(page, "2 to 3 of 4 to 10 experts in each layer, 2 at the source’s bits and 0 to 1 in 2 bits (graded)");
    has(page, "<dt>of it at the source’s bits</dt><dd>50.0 %</dd>");
    has(page, "<dt>of it in fewer bits</dt><dd>25.0 %</dd>");
    has(page, "Of all saliency 50.00 % stays at the source’s bits and 25.00 % in fewer.");
    /* drawings: both lines and their legend, both points */
    has(page, "class=\"cut\" vector-effect=\"non-scaling-stroke\" d=\"M3 0V1H2V2\"");
    has(page, "class=\"bank\" vector-effect=\"non-scaling-stroke\" d=\"M2 0V1H2V2\"");
    has(page, "left of it: at the source’s bits, 29 %</text>");
    has(page, "left of it, up to the other: in 2 bits, 7 %; right of it: dropped</text>");
    has(page, "Of those 4, 1 lie left of it");
    has(page, ">at the source’s bits: 28.6 %, 50.0 %</tspan>");
    has(page, "source’s bits 40.0 %</text>");
    /* tables: b keeps all, two fifths of it with its bits */
    has(page, "<th scope=\"row\">b</th><td>100.00 %</td><td>40.00 %</td><td>60.00 %</td>");
    has(page, "<rect class=\"low\" width=\"100.00\" height=\"8\"/><rect class=\"dot\" width=\"40.00\" height=\"8\"/>");
    has(page, "<td>3</td><td>80.00</td><td>90.00</td><td>2</td><td>50.00</td><td>1</td><td>2</td><td>30.00</td></tr>");
    has(page, "<td>2</td><td>50.00</td><td>50.00</td><td>2</td><td>50.00</td><td>0</td><td></td><td>0.00</td></tr>");
    free(page);
    o.plan_path = put_file(folder, "p.json", report_plan);
    page = page_of(&o, wn_test_path(folder, "plain.html"));
    lacks(page, "source’s bits");
    lacks(page, "class=\"bank\"");
    lacks(page, "class=\"hollow\"");
    free(page);
}

static void a_budget_is_drawn_with_what_it_is_predicted_to_lose(void **state)
{
    const char *folder = wn_test_folder();
    struct wn_report_options o = {.saliency_path = save(folder, "s.npz", report_labels),
                                  .plan_path = put_file(folder, "b.json", report_budget_plan)};
    char *page = page_of(&o, wn_test_path(folder, "budget.html"));

    (void)state;
    check_whole(page);
    check_alone(page);
    has(page, "<dt>Budget of layers</dt><dd>probe, losses as the dropped share to the power of 1.50</dd>");
    has(page, "<th scope=\"row\">a</th><td>0.01000</td><td>0.02000</td><td>-50.0 %</td>");
    has(page, "<th scope=\"row\">b</th><td>0.06000</td><td>0.05000</td><td>+20.0 %</td>");
    has(page, "<th scope=\"row\">all, as weighed</th><td>0.01500</td><td>0.02000</td><td>-25.0 %</td>");
    has(page, "<bdi>b</bdi> pays for the others: its predicted loss is 20.0 % above");
    lacks(page, "<bdi>a</bdi> pays");
    /* bars: 3 of 10, half of 4 */
    has(page, "layer 2 keeps the fewest, 2 of 4, layer 1 the most, 3 of 10");
    has(page, "<rect class=\"dot\" x=\"168.0\" y=\"132.0\" width=\"36.0\" height=\"48.0\"/>");
    has(page, "<rect class=\"dot\" x=\"448.0\" y=\"100.0\" width=\"36.0\" height=\"80.0\"/>");
    has(page, "text-anchor=\"middle\">3</text>");
    has(page, "mean 35.7 %</text>");
    free(page);
    /* by the proxy there is no unit */
    o.plan_path = put_file(folder, "proxy.json", report_budget_plan);
    assert_true(replace_text(o.plan_path, "\"by\": \"probe\"", "\"by\": \"proxy\""));
    page = page_of(&o, wn_test_path(folder, "proxy.html"));
    check_whole(page);
    has(page, "<th scope=\"row\">a</th><td>-50.0 %</td></tr>");
    free(page);
    o.plan_path = put_file(folder, "p.json", report_plan);
    page = page_of(&o, wn_test_path(folder, "plain.html"));
    has(page, "<dt>Predicted loss</dt><dd>not told</dd>");
    free(page);
    o.plan_path = put_file(folder, "even.json",
                           "{\"top_k\": 2, \"num_experts\": 10, \"layers\": {\"1\": {\"keep\": [9, 4, 0, 1, 2]}, "
                           "\"2\": {\"keep\": [2, 3]}}}");
    page = page_of(&o, wn_test_path(folder, "even.html"));
    lacks(page, "How many experts each layer keeps");
    free(page);
}

static void what_went_to_ghosts_is_shown_where_it_is_told(void **state)
{
    static const char text[] =
        "{\"model\": \"m\", \"window\": 64, \"masked\": \"/x/b.json\", \"ghosts\": \"mean\", \"domains\": "
        "[{\"domain\": "
        "\"en\", \"perplexity\": 20, \"nll\": 3, \"predicted\": 12600, \"windows\": 200, \"ghosted\": 0.125, "
        "\"ghost_choices\": 0.25}, {\"domain\": \"ja\", \"perplexity\": 30}]}";
    const char *folder = wn_test_folder(), *eval = put_file(folder, "e.json", text);
    const struct wn_report_options o = {
        .saliency_path = save(folder, "s.npz", report_labels), .eval_paths = &eval, .eval_count = 1};
    char *page = page_of(&o, wn_test_path(folder, "r.html"));

    (void)state;
    check_whole(page);
    has(page, "windows of 64 tokens, experts masked by <bdi>b.json</bdi>, ghosts: mean.");
    has(page, "<th scope=\"col\">routing to ghosts, %</th><th scope=\"col\">choices of ghosts, %</th>");
    has(page, "<td>20.000</td><td>3.0000</td><td>12,600</td><td>200</td><td>12.50</td><td>25.00</td></tr>");
    has(page, "<td class=\"no\">not measured</td><td class=\"no\">not measured</td></tr>");
    free(page);
}

/* Best three of layer 1: 9 2 0 and 4 0 1 (ties to the lower number); best two of layer 2: 0 1 and 2 3. */
static void overlap_is_told_against_chance(void **state)
{
    const char *folder = wn_test_folder();
    const struct wn_report_options o = {.saliency_path = save(folder, "s.npz", report_labels),
                                        .plan_path = put_file(folder, "p.json", report_plan)};
    char *page = page_of(&o, wn_test_path(folder, "r.html"));

    (void)state;
    has(page, "drawn by chance would share 40.0 %");
    has(page, "<td class=\"b3\">16.7 %<small>0.42 ×</small></td>");
    free(page);
}

/* As `winnow eval --against --json` writes them. */
static void divergences_are_shown_with_their_intervals(void **state)
{
    static const char text[] =
        "{\"domains\": [{\"domain\": \"en\", \"predicted\": 12600, \"perplexity\": 20, \"kld_mean\": 0.02, "
        "\"kld_mean_interval\": [0.015, 0.025], \"kld_p99\": 0.5, \"kld_p99_interval\": [0.25, 0.75], \"misroute\": "
        "null, \"misroute_interval\": null, "
        "\"argmax_agreement\": 0.875}], \"overall\": {\"domain\": \"overall\", \"predicted\": 25200, \"nll\": 1.5, "
        "\"ppl_ratio\": 1.03125, \"ppl_ratio_interval\": null}}";
    const char *folder = wn_test_folder(), *eval = put_file(folder, "e.json", text);
    const struct wn_report_options o = {
        .saliency_path = save(folder, "s.npz", report_labels), .eval_paths = &eval, .eval_count = 1};
    char *page = page_of(&o, wn_test_path(folder, "r.html"));

    (void)state;
    check_whole(page);
    has(page, "<th scope=\"row\">en</th><td>20.000</td><td class=\"no\">not measured</td><td>12,600</td></tr>");
    has(page, "<th scope=\"row\">en</th><td>0.02000<small>0.01500 to 0.02500</small></td><td class=\"no\">not "
              "measured</td><td class=\"no\">not measured</td><td>0.50000<small>0.25000 to "
              "0.75000</small></td><td>87.50</td><td class=\"no\">not "
              "measured</td><td class=\"no\">not measured</td></tr>");
    has(page, "<th scope=\"row\">overall</th>");
    has(page, "<td>1.5000</td><td>25,200</td>");
    has(page, "<td>1.0313</td><td class=\"no\">not measured</td></tr>");
    has(page, "misrouted, %");
    free(page);
}

static void what_does_not_belong_together_is_noted(void **state)
{
    static const char with[] =
        "{\"mode\": \"global\", \"top_k\": 2, \"num_experts\": 10, \"layers\": {\"1\": {\"keep\": "
        "[9, 4, 0]}, \"2\": {\"keep\": [2, 3]}}, \"winnow\": {\"criterion\": \"reap\", "
        "\"saliency\": \"%s\", \"model\": \"%s\"}}";
    const char *folder = wn_test_folder();
    const char *evals[2] = {
        put_file(folder, "a.json",
                 "{\"domains\": [{\"domain\": \"en\", \"windows\": 2, \"predicted\": 126, \"perplexity\": "
                 "20}]}"),
        put_file(folder, "b.json",
                 "{\"domains\": [{\"domain\": \"en\", \"windows\": 3, \"predicted\": 189, \"perplexity\": "
                 "21}]}")};
    struct wn_report_options o = {
        .saliency_path = save(folder, "s.npz", report_labels), .eval_paths = evals, .eval_count = 2};
    char fingerprint[17], text[400], *page;
    struct wn_err err;

    (void)state;
    CHECK_OK(wn_saliency_fingerprint(o.saliency_path, fingerprint, &err), &err);
    snprintf(text, sizeof(text), with, "0123456789abcdef", "fedcba9876543210");
    o.plan_path = put_file(folder, "other.json", text);
    page = page_of(&o, wn_test_path(folder, "other.html"));
    has(page, "made from another archive, <code>0123456789abcdef</code>");
    has(page, "made for another model, or the same in another container: <code>fedcba9876543210</code>");
    has(page, "<bdi>b</bdi> is less than 1 % of the tokens: what is said of it here rests on 1.");
    lacks(page, "<bdi>a</bdi> is less");
    has(page, "other text: not compared");
    free(page);
    snprintf(text, sizeof(text), with, fingerprint, "00000000deadbeef");
    o.plan_path = put_file(folder, "own.json", text);
    page = page_of(&o, wn_test_path(folder, "own.html"));
    lacks(page, "made from another archive");
    lacks(page, "made for another model");
    free(page);
}

static void what_is_not_there_is_said(void **state)
{
    const char *folder = wn_test_folder();
    struct wn_report_options o = {.saliency_path = save(folder, "s.npz", report_labels)};
    struct wn_saliency s;
    struct wn_err err;
    char *page = page_of(&o, wn_test_path(folder, "own.html"));

    (void)state;
    check_whole(page);
    has(page, "Not measured: no plan was given.");
    has(page, "Not measured: no results of <code>winnow eval --json</code> were given.");
    free(page);
    /* as other tools write it: no sums by source, no halves, no counts, no tokens */
    report_archive(&s, report_labels);
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

/* Layer 2 and source "b" have no saliency: their shares are none, and are in no mean, spread or list. */
static void what_has_no_saliency_has_no_share(void **state)
{
    const char *folder = wn_test_folder();
    const struct wn_report_options o = {.saliency_path = wn_test_path(folder, "s.npz"),
                                        .plan_path = put_file(folder, "p.json", report_plan)};
    struct wn_saliency s;
    struct wn_err err;
    char *page;

    (void)state;
    report_archive(&s, report_labels);
    for (uint32_t e = 0; e < 4; e++)
        s.source_saliency[wn_saliency_source_row(&s, 0, 2) + e] = 0;
    memset(s.source_saliency + wn_saliency_source_row(&s, 1, 0), 0, (size_t)3 * 10 * sizeof(double));
    wn_saliency_add_up(&s);
    CHECK_OK(wn_saliency_write(&s, o.saliency_path, false, &err), &err);
    wn_saliency_release(&s);
    page = page_of(&o, wn_test_path(folder, "r.html"));
    check_whole(page);
    check_alone(page);
    has(page, "<p class=\"no\">not measured: it has no saliency</p>");
    /* layer 1 keeps 40 of 60; the best quarter, two and a half of ten, has all */
    has(page, "<tr><th scope=\"row\">least concentrated layer</th><td>62.5</td><td>100.0</td>");
    has(page, "<tr><th scope=\"row\">most concentrated layer</th><td>62.5</td><td>100.0</td>");
    has(page, "<tr><th scope=\"row\">1</th><td>3 of 10</td><td>33.33 %</td><td>0.00 %</td></tr>\n</tbody>");
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
    struct wn_report_options o = {.saliency_path = save(folder, "s.npz", report_labels)};
    struct wn_err err;
    uint64_t bytes;
    char *page;

    (void)state;
    CHECK_FAILS(wn_report(&o, out, &bytes, &err), &err, "exists");
    o.saliency_path = wn_test_path(folder, "none.npz"); /* and is told before anything is read */
    CHECK_FAILS(wn_report(&o, out, &bytes, &err), &err, "exists");
    o.saliency_path = wn_test_path(folder, "s.npz");
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
        struct wn_report_options o = {.saliency_path = save(folder, "s.npz", report_labels), .eval_paths = &eval};
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

static void without_memory_nothing_is_written(void **state)
{
    const char *folder = wn_test_folder(), *out = wn_test_path(folder, "r.html");
    const char *eval = put_file(folder, "e.json", "{\"domains\": [{\"domain\": \"en\", \"perplexity\": 3}]}");
    const struct wn_report_options o = {.saliency_path = save(folder, "s.npz", report_labels),
                                        .plan_path = put_file(folder, "p.json", report_plan),
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
        cmocka_unit_test(the_page_is_whole_and_needs_nothing_else),
        cmocka_unit_test(names_from_files_are_text),
        cmocka_unit_test(rows_of_the_heat_map_are_a_stroke_a_colour),
        cmocka_unit_test(overlap_is_told_against_chance),
        cmocka_unit_test(both_banks_of_a_graded_plan_are_shown),
        cmocka_unit_test(a_budget_is_drawn_with_what_it_is_predicted_to_lose),
        cmocka_unit_test(what_went_to_ghosts_is_shown_where_it_is_told),
        cmocka_unit_test(divergences_are_shown_with_their_intervals),
        cmocka_unit_test(what_does_not_belong_together_is_noted),
        cmocka_unit_test(what_is_not_there_is_said),
        cmocka_unit_test(what_has_no_saliency_has_no_share),
        cmocka_unit_test(the_page_of_the_real_size_is_small),
        cmocka_unit_test(an_output_that_exists_is_kept),
        cmocka_unit_test(wrong_inputs_are_refused_by_name_and_nothing_is_written),
        cmocka_unit_test(without_memory_nothing_is_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
