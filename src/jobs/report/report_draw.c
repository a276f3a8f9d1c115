/* The frame of a report's page, what it is about, and how to read it. */
#include "jobs/report/report_draw.h"

#include <winnow/version.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

void wn_report_put_share(struct wn_html *h, double share)
{
    if (isnan(share))
        wn_html_put(h, "not measured");
    else
        wn_html_put(h, "%.1f&nbsp;%%", 100 * share);
}

void wn_report_put_number(struct wn_html *h, double v, unsigned decimals)
{
    switch (decimals) {
    case 0:
        if (v >= 0 && v < 1e15)
            wn_html_put(h, "%'" PRIu64, (uint64_t)llround(v));
        else
            wn_html_put(h, "%.0f", v);
        break;
    case 1:
        wn_html_put(h, "%.1f", v);
        break;
    case 2:
        wn_html_put(h, "%.2f", v);
        break;
    case 3:
        wn_html_put(h, "%.3f", v);
        break;
    case 4:
        wn_html_put(h, "%.4f", v);
        break;
    default:
        wn_html_put(h, "%.5f", v);
    }
}

void wn_report_put_cell(struct wn_html *h, double v, unsigned decimals, const char *unit)
{
    if (isnan(v)) {
        wn_html_put(h, "<td class=\"no\">not measured</td>");
        return;
    }
    wn_html_put(h, "<td>");
    wn_report_put_number(h, v, decimals);
    wn_html_put(h, "%s</td>", unit);
}

static uint32_t experts_of(const struct wn_report_layer *l)
{
    return l->experts;
}

static uint32_t keep_of(const struct wn_report_layer *l)
{
    return l->keep;
}

static uint32_t hi_of(const struct wn_report_layer *l)
{
    return l->hi;
}

static uint32_t low_of(const struct wn_report_layer *l)
{
    return l->keep - l->hi;
}

/* "45", or "40 to 45". */
static void put_range(struct wn_html *h, uint32_t least, uint32_t most)
{
    if (least == most)
        wn_html_put(h, "%" PRIu32, most);
    else
        wn_html_put(h, "%" PRIu32 " to %" PRIu32, least, most);
}

static void put_range_of(struct wn_html *h, const struct wn_report_numbers *n,
                         uint32_t (*count)(const struct wn_report_layer *))
{
    uint32_t least = UINT32_MAX, most = 0;

    for (uint32_t i = 0; i < n->layer_count; i++) {
        uint32_t v = count(&n->layers[i]);

        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    put_range(h, least, most);
}

void wn_report_put_keep(struct wn_html *h, const struct wn_report_numbers *n)
{
    put_range_of(h, n, keep_of);
    wn_html_put(h, " of ");
    put_range_of(h, n, experts_of);
    wn_html_put(h, " experts in each layer");
}

void wn_report_put_bits(struct wn_html *h, const struct wn_report_numbers *n)
{
    put_range(h, n->lo_bits_least, n->lo_bits_most);
    wn_html_put(h, " bits");
}

void wn_report_put_banks(struct wn_html *h, const struct wn_report_numbers *n)
{
    if (!n->graded)
        return;
    wn_html_put(h, ", ");
    put_range_of(h, n, hi_of);
    wn_html_put(h, " at the source’s bits and ");
    put_range_of(h, n, low_of);
    wn_html_put(h, " in ");
    wn_report_put_bits(h, n);
}

static void put_figure(struct wn_html *h, const char *name, double v, unsigned decimals, const char *unit)
{
    wn_html_put(h, "<div><dt>%s</dt>", name);
    if (isnan(v))
        wn_html_put(h, "<dd class=\"no\">not measured</dd></div>\n");
    else {
        wn_html_put(h, "<dd>");
        wn_report_put_number(h, v, decimals);
        wn_html_put(h, "%s</dd></div>\n", unit);
    }
}

/* The source that a cut hurts most. */
static void put_least_source(struct wn_html *h, const struct wn_report_page *p)
{
    uint32_t least = 0;

    for (uint32_t i = 1; i < p->n->source_count; i++)
        if (isnan(p->n->sources[least].kept) || p->n->sources[i].kept < p->n->sources[least].kept)
            least = i;
    wn_html_put(h, "<div><dt>kept of <bdi>%s</bdi>, the least of the sources</dt><dd>", p->s->source[least]);
    wn_report_put_share(h, p->n->sources[least].kept);
    wn_html_put(h, "</dd></div>\n");
}

/* The few figures that a reader should leave with. */
static void put_key_figures(struct wn_html *h, const struct wn_report_page *p)
{
    const struct wn_report_numbers *n = p->n;

    wn_html_put(h, "<dl class=\"key\">\n");
    put_figure(h, "tokens measured", p->s->token_count ? (double)p->s->token_count : NAN, 0, "");
    put_figure(h, n->planned ? "experts kept" : "no plan; of the experts, half", 100 * n->share_kept, 1, " %");
    put_figure(h, n->planned ? "saliency kept by the plan" : "saliency kept by the best half", 100 * n->kept.kept, 1,
               " %");
    if (n->graded) {
        put_figure(h, "of it at the source’s bits", 100 * n->kept_hi, 1, " %");
        put_figure(h, "of it in fewer bits", 100 * (n->kept.kept - n->kept_hi), 1, " %");
    }
    if (n->source_count > 1)
        put_least_source(h, p);
    put_figure(h, "rank correlation of split halves", n->half_rank, 2, "");
    wn_html_put(h, "</dl>\n");
}

static void put_fact(struct wn_html *h, const char *name, const char *value)
{
    wn_html_put(h, "<dt>%s</dt><dd>%s</dd>\n", name, *value ? value : "not told");
}

/* Sums of a few tokens say little, and a plan that weighs them says it louder. */
static void put_small_sources(struct wn_html *h, const struct wn_saliency *s)
{
    for (uint32_t i = 0; i < s->source_count; i++)
        if (s->source_tokens[i] > 0 && 100 * (double)s->source_tokens[i] < (double)s->token_count)
            wn_html_put(
                h,
                "<p class=\"note\"><bdi>%s</bdi> is less than 1 %% of the tokens: what is said of it here rests "
                "on %'" PRIu64 ".</p>\n",
                s->source[i], s->source_tokens[i]);
}

static void put_archive(struct wn_html *h, const struct wn_report_page *p)
{
    const struct wn_saliency *s = p->s;

    wn_html_put(h, "<section><h2>What was measured</h2>\n<dl class=\"facts\">\n");
    wn_html_put(h, "<dt>Archive</dt><dd><bdi>%s</bdi>, fingerprint <code>%s</code></dd>\n", p->saliency_name,
                p->fingerprint);
    wn_html_put(h, "<dt>Model</dt><dd>");
    wn_html_put(h, *s->model_fingerprint ? "fingerprint <code>%s</code>" : "fingerprint not told%s",
                s->model_fingerprint);
    wn_html_put(h, "; %" PRIu32 " of %" PRIu32 " layers have experts, up to %" PRIu32 " each; ", p->n->layer_count,
                s->layer_count, s->expert_count);
    if (s->top_k)
        wn_html_put(h, "%" PRIu32 " a token</dd>\n", s->top_k);
    else
        wn_html_put(h, "how many a token chooses is not told</dd>\n");
    put_fact(h, "Corpus", s->corpus_fingerprint);
    put_fact(h, "Settings", s->settings);
    wn_html_put(h, "</dl>\n");
    if (s->source_count == 0) {
        wn_html_put(h, "<p class=\"no\">Sums by source: not in this archive.</p></section>\n");
        return;
    }
    wn_html_put(h, "<div class=\"scroll\"><table>\n<caption>Sources of the corpus</caption>\n<thead><tr><th "
                   "scope=\"col\">source</th><th scope=\"col\">tokens</th><th scope=\"col\">of all</th></tr></thead>\n"
                   "<tbody>\n");
    for (uint32_t i = 0; i < s->source_count; i++) {
        double tokens = s->source_tokens[i] ? (double)s->source_tokens[i] : NAN;

        wn_html_put(h, "<tr><th scope=\"row\">%s</th>", s->source[i]);
        wn_report_put_cell(h, tokens, 0, "");
        wn_report_put_cell(h, s->token_count ? 100 * tokens / (double)s->token_count : NAN, 1, " %");
        wn_html_put(h, "</tr>\n");
    }
    wn_html_put(h, "</tbody></table></div>\n");
    put_small_sources(h, s);
    wn_html_put(h, "</section>\n");
}

static void put_budget(struct wn_html *h, const struct wn_plan *plan)
{
    if (plan->basis == WN_BASIS_NONE) {
        put_fact(h, "Budget of layers", plan->budget);
        put_fact(h, "Predicted loss", "");
        return;
    }
    wn_html_put(h, "<dt>Budget of layers</dt><dd>%s, losses as the dropped share to the power of %.2f</dd>\n",
                *plan->budget ? plan->budget : "not told", plan->power);
}

static void put_plan(struct wn_html *h, const struct wn_report_page *p)
{
    const struct wn_plan *plan = p->plan;

    wn_html_put(h, "<section><h2>The plan</h2>\n");
    if (!plan) {
        wn_html_put(h,
                    "<p class=\"no\">No plan was given. Figures that need a number of experts take half of each layer, "
                    "the most salient ones.</p></section>\n");
        return;
    }
    wn_html_put(h, "<dl class=\"facts\">\n<dt>File</dt><dd><bdi>%s</bdi></dd>\n<dt>Keeps</dt><dd>", p->plan_name);
    wn_report_put_keep(h, p->n);
    wn_report_put_banks(h, p->n);
    wn_html_put(h, " (%s)</dd>\n", plan->mode);
    put_fact(h, "Criterion", plan->criterion);
    put_fact(h, "Weights", *plan->weights ? plan->weights : "none: sources as the corpus had them, or not told");
    put_budget(h, plan);
    wn_html_put(h, "</dl>\n");
    wn_report_draw_losses(h, plan);
    if (*plan->saliency_fingerprint && strcmp(plan->saliency_fingerprint, p->fingerprint) != 0)
        wn_html_put(h, "<p class=\"note\">The plan was made from another archive, <code>%s</code>.</p>\n",
                    plan->saliency_fingerprint);
    if (*plan->model_fingerprint && *p->s->model_fingerprint &&
        strcmp(plan->model_fingerprint, p->s->model_fingerprint) != 0)
        wn_html_put(h,
                    "<p class=\"note\">The plan was made for another model, or the same in another container: "
                    "<code>%s</code>.</p>\n",
                    plan->model_fingerprint);
    wn_html_put(h, "</section>\n");
}

static void put_reading(struct wn_html *h)
{
    wn_html_put(
        h,
        "<section><h2>How to read this</h2>\n"
        "<p><b>Saliency</b> of an expert: the router’s weight times the length of the expert’s output, summed over the "
        "tokens that chose it. A share is of its layer, of a source, or of all, as said there; sums over layers are "
        "not "
        "weighted, so layers with larger outputs count for more.</p>\n"
        "<p><b>Rank correlation</b> is Spearman’s, equal values by their mean rank: 1 is the same order, 0 none. "
        "<b>Gini</b> is 0 when all experts carry the same and near 1 when one carries all. <b>Perplexity</b> is the "
        "exponential of the mean negative log-likelihood of the predicted tokens; <b>KLD</b> how far the next-token "
        "distribution is from the parent’s; <b>misrouted</b> the share of the parent’s routing that wanted an expert "
        "that was "
        "dropped.</p>\n"
        "<p>A <b>ghost</b> is a dropped expert that the router may still choose: it gives nothing (skip) or its mean "
        "output (mean). <b>Routing to ghosts</b> is the share of the scored model’s own routing that went to them.</p>"
        "\n"
        "<p>What the files do not hold reads “not measured”, “not told” or “not in this archive”.</p>\n</section>\n");
}

void wn_report_draw(struct wn_html *h, const struct wn_report_page *p)
{
    wn_html_put(h,
                "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
                "content=\"width=device-width,initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" "
                "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<meta name=\"generator\" content=\"winnow "
                "%s\">\n<title>Saliency of %s</title>\n<style>\n",
                WINNOW_VERSION, p->saliency_name);
    wn_html_markup(h, wn_report_style);
    wn_html_put(
        h,
        "</style>\n</head>\n<body>\n<header><h1>Saliency of %s</h1>\n<p class=\"soft\">Which experts matter to the "
        "calibration text%s%s%s</p>\n",
        p->saliency_name, p->plan ? ", and what " : "", p->plan ? p->plan_name : "", p->plan ? " keeps" : "");
    put_key_figures(h, p);
    wn_html_put(h, "</header>\n<main>\n");
    put_archive(h, p);
    put_plan(h, p);
    wn_report_draw_budget(h, p);
    wn_report_draw_heat(h, p);
    wn_report_draw_curves(h, p);
    wn_report_draw_overlap(h, p);
    wn_report_draw_halves(h, p);
    wn_report_draw_concentration(h, p);
    wn_report_draw_dropped(h, p);
    wn_report_draw_eval(h, p);
    wn_report_draw_layers(h, p);
    put_reading(h);
    wn_html_put(h, "</main>\n<footer><p class=\"soft\">winnow %s</p></footer>\n</body>\n</html>\n", WINNOW_VERSION);
}
