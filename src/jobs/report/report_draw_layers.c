/*
 * Figures that run along the layers: how stable the ranking is, how concentrated each layer, and the table of all
 * layers.
 */
#include "jobs/report/report_draw.h"
#include "jobs/report/report_svg.h"

#include <inttypes.h>
#include <math.h>

struct series {
    const char *label, *dot; /* dot: class of its points */
    double (*value)(const struct wn_report_layer *l);
};

/* Percentages along the layers; a second series may have no value function. */
struct strip {
    const char *id, *title, *desc;
    struct series series[2];
    double chance; /* a dotted line there; not a number: none */
    double low;    /* of the axis, which ends at 1 */
    bool percent;  /* how the axis tells it */
};

static double half_rank(const struct wn_report_layer *l)
{
    return l->half_rank;
}

static double half_top(const struct wn_report_layer *l)
{
    return l->half_top;
}

static double effective(const struct wn_report_layer *l)
{
    return l->effective / l->experts;
}

static double never(const struct wn_report_layer *l)
{
    return l->never / l->experts;
}

static double place(const struct wn_report_plot *f, uint32_t i)
{
    return wn_report_x(f, i + 0.5);
}

static double put_points(struct wn_html *h, const struct wn_report_plot *f, const struct wn_report_numbers *n,
                         const struct series *s)
{
    double last = NAN;
    bool open = false;

    wn_html_put(h, "<path class=\"thin\" d=\"");
    for (uint32_t i = 0; i < n->layer_count; i++) {
        double v = s->value(&n->layers[i]);

        if (isfinite(v))
            wn_html_put(h, "%s%.1f %.1f", open ? " " : "M", place(f, i), wn_report_y(f, v));
        open = isfinite(v);
        if (open)
            last = wn_report_y(f, v);
    }
    wn_html_put(h, "\"/>\n");
    for (uint32_t i = 0; i < n->layer_count; i++) {
        double v = s->value(&n->layers[i]);

        if (isfinite(v))
            wn_html_put(h, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>", s->dot, place(f, i),
                        wn_report_y(f, v), n->layer_count > 40 ? 2.4 : 3.6);
    }
    wn_html_put(h, "\n");
    return last;
}

/* Names of the series and of the line of chance at the right end, moved apart where they would touch. */
static void put_names(struct wn_html *h, const struct wn_report_plot *f, const struct strip *t, const double *at)
{
    double y[3] = {at[0], at[1], isnan(t->chance) ? NAN : wn_report_y(f, t->chance)};
    const char *name[3] = {t->series[0].label, t->series[1].label, "chance"};
    double taken = -INFINITY;

    for (int done = 0; done < 3; done++) {
        int next = -1;

        for (int k = 0; k < 3; k++)
            if (!isnan(y[k]) && (next < 0 || y[k] < y[next]))
                next = k;
        if (next < 0)
            return;
        taken = fmax(y[next], taken + 15);
        wn_html_put(h, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", next == 2 ? "soft" : "data",
                    f->left + f->width + 6, taken + 4, name[next]);
        y[next] = NAN;
    }
}

static void put_strip(struct wn_html *h, const struct wn_report_numbers *n, const struct strip *t)
{
    const struct wn_report_plot f = {46, 10, 520, 150, 0, n->layer_count, t->low, 1};
    uint32_t every = (uint32_t)wn_report_nice_step(n->layer_count / 20.0);
    double at[2] = {NAN, NAN};

    wn_html_put(h, "<figure><div class=\"scroll\">");
    wn_report_svg_open(h, t->id, 720, 200, t->title, t->desc);
    wn_report_grid(h, &f, (1 - t->low) / 4, t->percent);
    for (uint32_t i = 0; i < n->layer_count; i++)
        if (n->layers[i].layer % every == 0)
            wn_html_put(h, "<text class=\"soft\" x=\"%.1f\" y=\"176\" text-anchor=\"middle\">%" PRIu32 "</text>\n",
                        place(&f, i), n->layers[i].layer);
    wn_html_put(h, "<text class=\"soft\" x=\"%.1f\" y=\"194\">layer</text>\n", f.left);
    if (!isnan(t->chance))
        wn_html_put(h, "<path class=\"even\" d=\"M%.1f %.1fh%.1f\"/>\n", f.left, wn_report_y(&f, t->chance), f.width);
    for (int k = 0; k < 2; k++)
        if (t->series[k].value)
            at[k] = put_points(h, &f, n, &t->series[k]);
    put_names(h, &f, t, at);
    wn_report_svg_close(h);
    wn_html_put(h, "</div></figure>\n");
}

/* The lowest correlation that is drawn; -1 where one is negative, else 0. */
static double lowest_rank(const struct wn_report_numbers *n)
{
    for (uint32_t i = 0; i < n->layer_count; i++)
        if (n->layers[i].half_rank < 0)
            return -1;
    return 0;
}

void wn_report_draw_halves(struct wn_html *h, const struct wn_report_page *p)
{
    const struct wn_report_numbers *n = p->n;
    const struct strip t = {
        "halves",
        "Agreement of two halves of the corpus by layer",
        "Rank correlation of the experts' saliency in both halves, and the share of the best experts "
        "that they have in common. The table of all layers has the numbers.",
        {{"rank correlation", "dot", half_rank}, {"best in common", "ring", half_top}},
        n->half_chance,
        lowest_rank(n),
        false};

    wn_html_put(h, "<section><h2>Would other text of the same kind say the same?</h2>\n");
    if (!p->s->half_saliency) {
        wn_html_put(h, "<p class=\"no\">Split halves: not in this archive.</p></section>\n");
        return;
    }
    if (isnan(n->half_rank)) {
        wn_html_put(h, "<p class=\"no\">Not measured: a half of the corpus has no saliency.</p></section>\n");
        return;
    }
    wn_html_put(h, "<p>Every other sequence of the corpus was also summed by itself");
    if (p->s->half_tokens[0] && p->s->half_tokens[1])
        wn_html_put(h, " (%'" PRIu64 " and %'" PRIu64 " tokens)", p->s->half_tokens[0], p->s->half_tokens[1]);
    wn_html_put(h,
                ". In the median layer the two rankings have a correlation of %.3f (Spearman), and the halves share ",
                n->half_rank);
    wn_report_put_share(h, n->half_top);
    wn_html_put(h, " of their best ");
    wn_report_put_keep(h, n);
    wn_html_put(h, ", where chance would give ");
    wn_report_put_share(h, n->half_chance);
    wn_html_put(h, ". Both halves together are steadier than either.</p>\n");
    put_strip(h, n, &t);
    wn_html_put(h, "</section>\n");
}

void wn_report_draw_concentration(struct wn_html *h, const struct wn_report_page *p)
{
    const struct wn_report_numbers *n = p->n;
    uint32_t most = 0, least = 0;
    double unused = 0;
    struct strip t = {"spread",
                      "Effective number of experts by layer, as a share of those there are",
                      "The table of all layers has the numbers.",
                      {{"effective experts", "dot", effective}, {"never chosen", "ring", never}},
                      NAN,
                      0,
                      true};

    for (uint32_t i = 0; i < n->layer_count; i++) {
        double v = effective(&n->layers[i]);

        if (isnan(effective(&n->layers[most])) || v < effective(&n->layers[most]))
            most = i;
        if (isnan(effective(&n->layers[least])) || v > effective(&n->layers[least]))
            least = i;
        unused += n->layers[i].never;
    }
    wn_html_put(
        h,
        "<section><h2>How concentrated each layer is</h2>\n<p>The effective number of experts is the exponential "
        "of the entropy of their shares: as many equal experts would be spread as evenly. It is smallest in layer "
        "%" PRIu32 ", %.1f of %" PRIu32 ", and largest in layer %" PRIu32 ", %.1f of %" PRIu32 ". ",
        n->layers[most].layer, n->layers[most].effective, n->layers[most].experts, n->layers[least].layer,
        n->layers[least].effective, n->layers[least].experts);
    if (isnan(unused)) {
        wn_html_put(h, "How many experts were never chosen is not in this archive.</p>\n");
        t.series[1].value = NULL;
    } else {
        wn_html_put(h, unused > 0 ? "Experts that no token chose: %.0f.</p>\n" : "Every expert was chosen.</p>\n",
                    unused);
        if (unused <= 0)
            t.series[1].value = NULL;
    }
    put_strip(h, n, &t);
    wn_html_put(h, "</section>\n");
}

static void put_head(struct wn_html *h, const struct wn_report_page *p)
{
    static const char *const always[] = {
        "layer", "experts", "most salient tenth, %", "half, %", "effective experts", "Gini", "never chosen"};

    wn_html_put(h, "<thead><tr>");
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
        wn_html_put(h, "<th scope=\"col\">%s</th>", always[i]);
    if (p->s->half_saliency)
        wn_html_put(h, "<th scope=\"col\">halves: rank correlation</th><th scope=\"col\">best in common, %%</th>");
    if (p->n->planned)
        wn_html_put(h, "<th scope=\"col\">plan keeps</th><th scope=\"col\">saliency kept, %%</th><th "
                       "scope=\"col\">at most, %%</th>");
    if (p->n->graded)
        wn_html_put(h, "<th scope=\"col\">at the source’s bits</th><th scope=\"col\">saliency there, %%</th><th "
                       "scope=\"col\">in fewer bits</th><th scope=\"col\">bits</th><th scope=\"col\">saliency there, "
                       "%%</th>");
    wn_html_put(h, "</tr></thead>\n");
}

static void put_banks(struct wn_html *h, const struct wn_report_layer *l)
{
    wn_html_put(h, "<td>%" PRIu32 "</td>", l->hi);
    wn_report_put_cell(h, 100 * l->kept_hi, 2, "");
    wn_html_put(h, "<td>%" PRIu32 "</td>", l->keep - l->hi);
    if (l->lo_bits)
        wn_html_put(h, "<td>%" PRIu32 "</td>", l->lo_bits);
    else
        wn_html_put(h, "<td></td>");
    wn_report_put_cell(h, 100 * (l->kept - l->kept_hi), 2, "");
}

/* Share of the best `part` of a layer's experts, %. */
static double best_share(const struct wn_report_numbers *n, uint32_t layer, double part)
{
    const double *row = n->ratio + (size_t)layer * n->expert_count;
    double k = part * n->layers[layer].experts, sum = 0;
    uint32_t whole = (uint32_t)k;

    for (uint32_t e = 0; e < whole; e++)
        sum += row[e];
    if (whole < n->layers[layer].experts)
        sum += (k - whole) * row[whole];
    return row[0] > 0 ? 100 * sum / n->layers[layer].experts : NAN;
}

void wn_report_draw_layers(struct wn_html *h, const struct wn_report_page *p)
{
    const struct wn_report_numbers *n = p->n;

    wn_html_put(h,
                "<section><h2>All layers in numbers</h2>\n<details%s><summary>%" PRIu32 " layers with experts</summary>"
                "<div class=\"scroll\"><table>\n<caption>Shares are of the layer’s saliency.%s</caption>\n",
                n->layer_count <= 12 ? " open" : "", n->layer_count,
                n->planned ? " “At most”: what as many experts could keep." : "");
    put_head(h, p);
    wn_html_put(h, "<tbody>\n");
    for (uint32_t i = 0; i < n->layer_count; i++) {
        const struct wn_report_layer *l = &n->layers[i];

        wn_html_put(h, "<tr><th scope=\"row\">%" PRIu32 "</th><td>%" PRIu32 "</td>", l->layer, l->experts);
        wn_report_put_cell(h, best_share(n, i, 0.1), 1, "");
        wn_report_put_cell(h, best_share(n, i, 0.5), 1, "");
        wn_report_put_cell(h, l->effective, 1, "");
        wn_report_put_cell(h, l->gini, 3, "");
        wn_report_put_cell(h, l->never, 0, "");
        if (p->s->half_saliency) {
            wn_report_put_cell(h, l->half_rank, 3, "");
            wn_report_put_cell(h, 100 * l->half_top, 1, "");
        }
        if (n->planned) {
            wn_html_put(h, "<td>%" PRIu32 "</td>", l->keep);
            wn_report_put_cell(h, 100 * l->kept, 2, "");
            wn_report_put_cell(h, 100 * l->best, 2, "");
        }
        if (n->graded)
            put_banks(h, l);
        wn_html_put(h, "</tr>\n");
    }
    wn_html_put(h, "</tbody></table></div></details>\n</section>\n");
}
