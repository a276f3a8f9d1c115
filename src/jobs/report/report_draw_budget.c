/* How a plan divides its experts among the layers, and what it is predicted to lose by that. */
#include "jobs/report/report_draw.h"
#include "jobs/report/report_svg.h"

#include <inttypes.h>
#include <math.h>

enum { FIGURE_WIDTH = 720, NUMBERED_LAYERS = 24 /* more have no room */ };

/* ---- predicted losses ---- */

bool wn_report_loses(double loss, double same)
{
    return same > 0 && loss > 1.005 * same; /* predictions are no better than that */
}

double wn_report_change(double loss, double same)
{
    return same > 0 ? 100 * (loss / same - 1) : (double)NAN;
}

static void put_change(struct wn_html *h, double loss, double same)
{
    double change = wn_report_change(loss, same);

    if (isnan(change))
        wn_html_put(h, "<td class=\"no\">not told</td>");
    else
        wn_html_put(h, "<td>%s%.1f %%</td>", change >= 0 ? "+" : "", change);
}

/* Losses by the proxy have no unit: only their ratio says something. */
static void put_loss(struct wn_html *h, const struct wn_plan *plan, const char *what, double loss, double same)
{
    wn_html_put(h, "<tr><th scope=\"row\">%s</th>", what);
    if (plan->basis == WN_BASIS_PROBE) {
        wn_report_put_cell(h, loss, 5, "");
        if (plan->loss_same > 0)
            wn_report_put_cell(h, same > 0 ? same : NAN, 5, "");
    }
    if (plan->loss_same > 0)
        put_change(h, loss, same);
    wn_html_put(h, "</tr>\n");
}

static void put_losers(struct wn_html *h, const struct wn_plan *plan)
{
    for (uint32_t i = 0; i < plan->loss_count; i++) {
        const struct wn_plan_loss *l = &plan->losses[i];

        if (wn_report_loses(l->loss, l->same))
            wn_html_put(h,
                        "<p class=\"note\"><bdi>%s</bdi> pays for the others: its predicted loss is %.1f %% above that "
                        "of the same number of experts in each layer.</p>\n",
                        l->source, wn_report_change(l->loss, l->same));
    }
}

void wn_report_draw_losses(struct wn_html *h, const struct wn_plan *plan)
{
    bool nats = plan->basis == WN_BASIS_PROBE, same = plan->loss_same > 0;

    if (plan->basis == WN_BASIS_NONE || (!nats && !same))
        return;
    wn_html_put(h,
                "<div class=\"scroll\"><table>\n<caption>Predicted loss, %s; not measured</caption>\n<thead><tr><th "
                "scope=\"col\">source</th>",
                nats ? "KLD in nats a token, by probes of the layers"
                     : "by what leaving experts out changes in the residual stream");
    if (nats)
        wn_html_put(h, "<th scope=\"col\">by this plan</th>");
    if (nats && same)
        wn_html_put(h, "<th scope=\"col\">by the same number in each layer</th>");
    if (same)
        wn_html_put(h, "<th scope=\"col\">%s</th>", nats ? "change" : "against the same number in each layer");
    wn_html_put(h, "</tr></thead>\n<tbody>\n");
    for (uint32_t i = 0; i < plan->loss_count; i++)
        put_loss(h, plan, plan->losses[i].source, plan->losses[i].loss, plan->losses[i].same);
    put_loss(h, plan, "all, as weighed", plan->loss, plan->loss_same);
    wn_html_put(h, "</tbody></table></div>\n");
    put_losers(h, plan);
}

/* ---- experts by layer ---- */

static bool is_even(const struct wn_report_numbers *n)
{
    for (uint32_t i = 1; i < n->layer_count; i++)
        if (n->layers[i].keep * (uint64_t)n->layers[0].experts != n->layers[0].keep * (uint64_t)n->layers[i].experts)
            return false;
    return true;
}

/* From the floor up to that share, in the middle of the layer's place. */
static void put_layer_bar(struct wn_html *h, const struct wn_report_plot *f, uint32_t i, const char *css_class,
                          double share)
{
    double place = f->width / f->x_high, width = fmin(place * (place > 8 ? 0.75 : 0.9), 36), y = wn_report_y(f, share);

    wn_html_put(h, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", css_class,
                wn_report_x(f, i + 0.5) - width / 2, y, width, f->top + f->height - y);
}

static void put_layer(struct wn_html *h, const struct wn_report_plot *f, const struct wn_report_numbers *n, uint32_t i)
{
    const struct wn_report_layer *l = &n->layers[i];

    if (l->hi < l->keep)
        put_layer_bar(h, f, i, "low", (double)l->keep / l->experts);
    put_layer_bar(h, f, i, "dot", (double)l->hi / l->experts);
    if (l->layer % (uint32_t)wn_report_nice_step(n->layer_count / 20.0) == 0)
        wn_html_put(h, "<text class=\"soft\" x=\"%.1f\" y=\"196\" text-anchor=\"middle\">%" PRIu32 "</text>",
                    wn_report_x(f, i + 0.5), l->layer);
    wn_html_put(h, "\n");
}

/* Above the bars, and above the line of the mean that may run through them. */
static void put_counts(struct wn_html *h, const struct wn_report_plot *f, const struct wn_report_numbers *n)
{
    for (uint32_t i = 0; i < n->layer_count && n->layer_count <= NUMBERED_LAYERS; i++)
        wn_html_put(h, "<text class=\"over\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%" PRIu32 "</text>\n",
                    wn_report_x(f, i + 0.5), wn_report_y(f, (double)n->layers[i].keep / n->layers[i].experts) - 5,
                    n->layers[i].keep);
}

static void put_bars(struct wn_html *h, const struct wn_report_numbers *n)
{
    const struct wn_report_plot f = {46, 20, 560, 160, 0, n->layer_count, 0, 1};
    double mean = wn_report_y(&f, n->share_kept);

    wn_html_put(h, "<figure><div class=\"scroll\">");
    wn_report_svg_open(h, "budget", FIGURE_WIDTH, 216, "Share of its experts that each layer keeps",
                       "A bar a layer. The table of all layers has the numbers.");
    wn_report_grid(h, &f, 0.25, true);
    for (uint32_t i = 0; i < n->layer_count; i++)
        put_layer(h, &f, n, i);
    wn_html_put(h, "<path class=\"mean\" d=\"M%.1f %.1fh%.1f\"/>\n", f.left, mean, f.width);
    put_counts(h, &f, n);
    wn_html_put(h, "<text class=\"plan\" x=\"%.1f\" y=\"%.1f\">mean %.1f %%</text>\n", f.left + f.width + 6, mean + 4,
                100 * n->share_kept);
    wn_html_put(h, "<text class=\"soft\" x=\"%.1f\" y=\"213\">layer</text>\n", f.left);
    wn_report_svg_close(h);
    wn_html_put(h, "</div><figcaption>Vertical: share of the layer’s experts that stay%s%s.</figcaption></figure>\n",
                n->layer_count <= NUMBERED_LAYERS ? "; above a bar their number" : "",
                n->graded ? "; dark at the source’s bits, pale in fewer" : "");
}

void wn_report_draw_budget(struct wn_html *h, const struct wn_report_page *p)
{
    const struct wn_report_numbers *n = p->n;
    uint32_t least = 0, most = 0;

    if (!n->planned || is_even(n))
        return;
    for (uint32_t i = 1; i < n->layer_count; i++) {
        least = n->layers[i].keep < n->layers[least].keep ? i : least;
        most = n->layers[i].keep > n->layers[most].keep ? i : most;
    }
    wn_html_put(h,
                "<section><h2>How many experts each layer keeps</h2>\n<p>The plan divides its experts unevenly among "
                "the layers: layer %" PRIu32 " keeps the fewest, %" PRIu32 " of %" PRIu32 ", layer %" PRIu32
                " the most, %" PRIu32 " of %" PRIu32 ".</p>\n",
                n->layers[least].layer, n->layers[least].keep, n->layers[least].experts, n->layers[most].layer,
                n->layers[most].keep, n->layers[most].experts);
    put_bars(h, n);
    wn_html_put(h, "</section>\n");
}
