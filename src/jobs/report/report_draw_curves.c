/*
 * Retention: what share of the saliency stays when only the best experts do, for all layers together with the spread of
 * single ones, and for each source in a small figure of its own.
 */
#include "jobs/report/report_draw.h"
#include "jobs/report/report_svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { SOURCES_DRAWN = 24 };

/* Steps of 64 that the table shows. */
static const unsigned table_steps[] = {6, 16, 24, 32, 40, 48, 56};

static void put_band(struct wn_html *h, const struct wn_report_plot *f, const struct wn_report_numbers *n)
{
    wn_html_put(h, "<path class=\"band\" d=\"M");
    for (unsigned i = 0; i <= WN_REPORT_STEPS; i++)
        wn_html_put(h, "%.1f %.1f ", f->left + f->width * i / WN_REPORT_STEPS, wn_report_y(f, n->high[i]));
    for (unsigned i = WN_REPORT_STEPS + 1; i-- > 0;)
        wn_html_put(h, "%.1f %.1f ", f->left + f->width * i / WN_REPORT_STEPS, wn_report_y(f, n->low[i]));
    wn_html_put(h, "Z\"/>\n");
}

/* Below the diagonal nothing is ever drawn, so the key stands there. */
static void put_key(struct wn_html *h, const struct wn_report_plot *f, const struct wn_report_numbers *n)
{
    static const struct {
        const char *css_class, *text;
    } keys[] = {{"line", "all layers together"}, {"thin", "median layer"}, {"even", "if all experts were alike"}};
    double x = wn_report_x(f, 0.62), y = wn_report_y(f, n->graded ? 0.38 : 0.26);

    wn_html_put(
        h,
        "<rect class=\"band\" x=\"%.1f\" y=\"%.1f\" width=\"26\" height=\"10\"/><text x=\"%.1f\" y=\"%.1f\">least "
        "to most concentrated layer</text>\n",
        x, y - 5, x + 34, y + 4);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        y += 19;
        wn_html_put(h, "<path class=\"%s\" d=\"M%.1f %.1fh26\"/><text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                    keys[i].css_class, x, y, x + 34, y + 4, keys[i].text);
    }
    if (!n->graded)
        return;
    wn_html_put(h,
                "<circle class=\"mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"/><text x=\"%.1f\" y=\"%.1f\">what the plan "
                "keeps</text>\n",
                x + 13, y + 19, x + 34, y + 23);
    wn_html_put(h,
                "<circle class=\"hollow\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/><text x=\"%.1f\" y=\"%.1f\">of it at the "
                "source’s bits</text>\n",
                x + 13, y + 38, x + 34, y + 42);
}

/* The label stands under the curve: right of the point, or where there is no room, at the right edge, lower. */
static void put_plan_point(struct wn_html *h, const struct wn_report_plot *f, const struct wn_report_numbers *n)
{
    const double text_width = 0.3; /* of the plot */
    double x = wn_report_x(f, n->share_kept), y = wn_report_y(f, n->kept.kept), label_x = x + 10, label_y = y + 16;
    bool at_edge = n->share_kept > 1 - text_width;

    if (at_edge) {
        label_x = f->left + f->width;
        label_y = fmax(y, wn_report_y(f, n->curve[(unsigned)((1 - text_width) * WN_REPORT_STEPS)])) + 22;
    }
    wn_html_put(h, "<circle class=\"mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"/>\n", x, y);
    wn_html_put(h,
                "<text class=\"plan\" y=\"%.1f\" text-anchor=\"%s\"><tspan x=\"%.1f\">the plan: %.1f %% of the "
                "experts,</tspan><tspan x=\"%.1f\" dy=\"16\">%.1f %% of the saliency</tspan></text>\n",
                label_y, at_edge ? "end" : "start", label_x, 100 * n->share_kept, label_x, 100 * n->kept.kept);
    if (!n->graded)
        return;
    wn_html_put(h, "<circle class=\"hollow\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n", wn_report_x(f, n->share_hi),
                wn_report_y(f, n->kept_hi));
    wn_html_put(h,
                "<text class=\"plan\" y=\"%.1f\" text-anchor=\"%s\"><tspan x=\"%.1f\">at the source’s bits: %.1f %%, "
                "%.1f %%</tspan></text>\n",
                label_y + 32, at_edge ? "end" : "start", label_x, 100 * n->share_hi, 100 * n->kept_hi);
}

static void put_overall(struct wn_html *h, const struct wn_report_numbers *n)
{
    const struct wn_report_plot f = {46, 12, 640, 320, 0, 1, 0, 1};

    wn_html_put(h, "<figure><div class=\"scroll\">");
    wn_report_svg_open(h, "curve", 720, 376, "Share of saliency kept by share of experts kept",
                       "A curve for all layers together, a thin one for the median layer, and a band from the least to "
                       "the most concentrated layer. The table below has the numbers.");
    wn_report_grid(h, &f, 0.25, true);
    wn_report_axis_percent(h, &f, 0.25);
    put_band(h, &f, n);
    wn_html_put(h, "<path class=\"even\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", f.left, f.top + f.height, f.left + f.width,
                f.top);
    wn_report_svg_line(h, &f, "thin", n->middle, WN_REPORT_STEPS);
    wn_report_svg_line(h, &f, "line", n->curve, WN_REPORT_STEPS);
    put_key(h, &f, n);
    if (n->planned)
        put_plan_point(h, &f, n);
    wn_html_put(h,
                "<text class=\"soft\" x=\"%.1f\" y=\"370\" text-anchor=\"end\">share of the experts kept in each "
                "layer</text>\n",
                f.left + f.width);
    wn_report_svg_close(h);
    wn_html_put(h, "</div><figcaption>Vertical: share of the saliency that stays.</figcaption></figure>\n");
}

static void put_source(struct wn_html *h, const struct wn_report_page *p, uint32_t i)
{
    const struct wn_report_plot f = {42, 8, 164, 116, 0, 1, 0, 1};
    const struct wn_report_source *k = &p->n->sources[i];
    char id[24];

    wn_html_put(h, "<div><h3>%s</h3>\n", p->s->source[i]);
    if (isnan(k->mixed[WN_REPORT_STEPS])) {
        wn_html_put(h, "<p class=\"no\">not measured: it has no saliency</p></div>\n");
        return;
    }
    (void)snprintf(id, sizeof(id), "source-%" PRIu32, i);
    wn_report_svg_open(h, id, 224, 148, p->s->source[i],
                       "Share of this source’s saliency kept by share of experts kept, in the order of all sources "
                       "together and in its own.");
    wn_report_grid(h, &f, 0.5, true);
    wn_report_axis_percent(h, &f, 0.5);
    wn_html_put(h, "<path class=\"even\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", f.left, f.top + f.height, f.left + f.width,
                f.top);
    wn_report_svg_line(h, &f, "own", k->own, WN_REPORT_STEPS);
    wn_report_svg_line(h, &f, "line", k->mixed, WN_REPORT_STEPS);
    if (p->n->planned && !isnan(k->kept))
        wn_html_put(h,
                    "<circle class=\"mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/><text class=\"plan\" x=\"%.1f\" "
                    "y=\"%.1f\" text-anchor=\"end\">plan %.1f %%</text>\n",
                    wn_report_x(&f, p->n->share_kept), wn_report_y(&f, k->kept), f.left + f.width,
                    f.top + f.height - (p->n->graded ? 22 : 8), 100 * k->kept);
    if (p->n->graded && !isnan(k->kept))
        wn_html_put(h,
                    "<circle class=\"hollow\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/><text class=\"plan\" x=\"%.1f\" "
                    "y=\"%.1f\" text-anchor=\"end\">source’s bits %.1f %%</text>\n",
                    wn_report_x(&f, p->n->share_hi), wn_report_y(&f, k->kept_hi), f.left + f.width,
                    f.top + f.height - 8, 100 * k->kept_hi);
    wn_report_svg_close(h);
    wn_html_put(h, "</div>\n");
}

static void put_sources(struct wn_html *h, const struct wn_report_page *p)
{
    uint32_t drawn = p->n->source_count < SOURCES_DRAWN ? p->n->source_count : SOURCES_DRAWN;

    if (drawn < 2)
        return;
    wn_html_put(h,
                "<h3>Source by source</h3>\n<p>Solid: what stays of a source when experts are kept in the order of "
                "all sources together. Dashed: the most that can stay, in the source’s own order. The wider the "
                "gap, the more the source depends on experts that the others do not need.%s</p>\n",
                p->n->graded
                    ? " Orange: what the plan keeps of it, and hollow, of that what stays at the source’s bits."
                : p->n->planned ? " Orange: what the plan keeps of it."
                                : "");
    if (drawn < p->n->source_count)
        wn_html_put(h, "<p>The first %" PRIu32 " of %" PRIu32 " sources are drawn; the table has all.</p>\n", drawn,
                    p->n->source_count);
    wn_html_put(h, "<figure class=\"many\">\n");
    for (uint32_t i = 0; i < drawn; i++)
        put_source(h, p, i);
    wn_html_put(h, "</figure>\n");
}

static void put_row(struct wn_html *h, const char *name, const char *what, const double *curve)
{
    wn_html_put(h, "<tr><th scope=\"row\">%s%s</th>", name, what);
    for (size_t i = 0; i < sizeof(table_steps) / sizeof(table_steps[0]); i++)
        wn_report_put_cell(h, 100 * curve[table_steps[i]], 1, "");
    wn_html_put(h, "</tr>\n");
}

static void put_table(struct wn_html *h, const struct wn_report_page *p)
{
    const struct wn_report_numbers *n = p->n;

    wn_html_put(h, "<details><summary>The curves as a table</summary><div class=\"scroll\"><table>\n<caption>Share of "
                   "saliency kept, %%, by share of experts kept</caption>\n<thead><tr><th "
                   "scope=\"col\">experts kept</th>");
    for (size_t i = 0; i < sizeof(table_steps) / sizeof(table_steps[0]); i++)
        wn_html_put(h, "<th scope=\"col\">%.1f %%</th>", 100.0 * table_steps[i] / WN_REPORT_STEPS);
    wn_html_put(h, "</tr></thead>\n<tbody>\n");
    put_row(h, "all layers together", "", n->curve);
    put_row(h, "most concentrated layer", "", n->high);
    put_row(h, "median layer", "", n->middle);
    put_row(h, "least concentrated layer", "", n->low);
    for (uint32_t i = 0; i < n->source_count; i++) {
        put_row(h, p->s->source[i], ", order of all", n->sources[i].mixed);
        put_row(h, p->s->source[i], ", its own order", n->sources[i].own);
    }
    wn_html_put(h, "</tbody></table></div></details>\n");
}

void wn_report_draw_curves(struct wn_html *h, const struct wn_report_page *p)
{
    wn_html_put(h,
                "<section><h2>What is kept when experts go</h2>\n<p>Experts are kept in the order of their saliency, "
                "the same share in each layer.</p>\n");
    put_overall(h, p->n);
    put_sources(h, p);
    if (p->n->source_count == 0)
        wn_html_put(h, "<p class=\"no\">By source: not in this archive.</p>\n");
    put_table(h, p);
    wn_html_put(h, "</section>\n");
}
