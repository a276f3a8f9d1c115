/*
 * The parts of a report that are tables: what the sources share, and what the plan drops.
 */
#include "jobs/report/report_draw.h"

#include <inttypes.h>
#include <math.h>

enum { WORST_LAYERS = 10 };

/* ---- overlap ---- */

/*
 * A class of shading for an overlap: how far it lies between chance and 1 (a1 .. a3), or between chance and 0 (b1 ..
 * b3), in steps at 5, 15 and 30 %. The diagonal is 1 by definition and not shaded.
 */
static const char *shade(double overlap, double chance)
{
    static const char *const above[] = {"", "a1", "a2", "a3"}, *const below[] = {"", "b1", "b2", "b3"};
    double way = overlap >= chance ? (overlap - chance) / (1 - chance) : (chance - overlap) / chance;
    int step = (way >= 0.05) + (way >= 0.15) + (way >= 0.3);

    return chance >= 1 ? "" : overlap >= chance ? above[step] : below[step];
}

static void put_matrix(struct wn_html *h, const struct wn_report_page *p)
{
    const struct wn_plan_kept *k = &p->n->kept;
    size_t count = k->source_count;

    wn_html_put(
        h, "<div class=\"scroll\"><table class=\"matrix\">\n<caption>Experts in common, %% of the set, and how many "
           "times what chance gives</caption>\n<thead><tr><th></th>");
    for (size_t a = 0; a < count; a++)
        wn_html_put(h, "<th scope=\"col\">%s</th>", k->source[a]);
    wn_html_put(h, "</tr></thead>\n<tbody>\n");
    for (size_t a = 0; a < count; a++) {
        wn_html_put(h, "<tr><th scope=\"row\">%s</th>", k->source[a]);
        for (size_t b = 0; b < count; b++) {
            double v = k->overlap[a * count + b];

            if (a == b)
                wn_html_put(h, "<td class=\"soft\">–</td>");
            else
                wn_html_put(h, "<td class=\"%s\">%.1f %%<small>%.2f ×</small></td>", shade(v, k->chance), 100 * v,
                            v / k->chance);
        }
        wn_html_put(h, "</tr>\n");
    }
    wn_html_put(h, "</tbody></table></div>\n");
}

void wn_report_draw_overlap(struct wn_html *h, const struct wn_report_page *p)
{
    wn_html_put(h, "<section><h2>Do the sources want the same experts?</h2>\n");
    if (p->n->source_count < 2) {
        wn_html_put(h, "<p class=\"no\">%s</p></section>\n",
                    p->n->source_count ? "Not measured: the archive has one source."
                                       : "By source: not in this archive.");
        return;
    }
    wn_html_put(h, "<p>Each source ranks the experts by itself; its set is its best ");
    wn_report_put_keep(h, p->n);
    wn_html_put(
        h,
        ". Two sets drawn by chance would share %.1f %%. Blue: more than that; orange: less. Mean over layers.</p>\n",
        100 * p->n->kept.chance);
    put_matrix(h, p);
    wn_html_put(h, "</section>\n");
}

/* ---- dropped ---- */

/* Of all 100: what stays, and of that darker what stays at the source's bits. */
static void put_bar(struct wn_html *h, const struct wn_report_source *k, bool graded)
{
    if (isnan(k->kept)) {
        wn_html_put(h, "<td class=\"bar\"></td>");
        return;
    }
    wn_html_put(h,
                "<td class=\"bar\"><svg viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect "
                "class=\"bar-of\" width=\"100\" height=\"8\"/>");
    if (graded)
        wn_html_put(h, "<rect class=\"low\" width=\"%.2f\" height=\"8\"/>", 100 * k->kept);
    wn_html_put(h, "<rect class=\"dot\" width=\"%.2f\" height=\"8\"/></svg></td>",
                100 * (graded ? k->kept_hi : k->kept));
}

static void put_source_head(struct wn_html *h, const struct wn_report_numbers *n)
{
    wn_html_put(h,
                "<div class=\"scroll\"><table>\n<caption>By source%s</caption>\n<thead><tr><th "
                "scope=\"col\">source</th><th scope=\"col\">saliency kept</th>",
                n->graded ? ": dark at the source’s bits, pale in fewer, grey dropped" : "");
    if (n->graded) {
        wn_html_put(h, "<th scope=\"col\">at the source’s bits</th><th scope=\"col\">in ");
        wn_report_put_bits(h, n);
        wn_html_put(h, "</th>");
    }
    wn_html_put(h, "<th></th><th scope=\"col\">lost</th><th scope=\"col\">of its best tenth, dropped</th><th "
                   "scope=\"col\">experts</th>");
    if (n->graded)
        wn_html_put(h, "<th scope=\"col\">and in fewer bits</th>");
    wn_html_put(h, "</tr></thead>\n<tbody>\n");
}

static void put_kept_sources(struct wn_html *h, const struct wn_report_page *p)
{
    bool graded = p->n->graded;

    put_source_head(h, p->n);
    for (uint32_t i = 0; i < p->n->source_count; i++) {
        const struct wn_report_source *k = &p->n->sources[i];

        wn_html_put(h, "<tr><th scope=\"row\">%s</th>", p->s->source[i]);
        wn_report_put_cell(h, 100 * k->kept, 2, " %");
        if (graded) {
            wn_report_put_cell(h, 100 * k->kept_hi, 2, " %");
            wn_report_put_cell(h, 100 * (k->kept - k->kept_hi), 2, " %");
        }
        put_bar(h, k, graded);
        wn_report_put_cell(h, 100 * (1 - k->kept), 2, " %");
        wn_report_put_cell(h, k->best_count ? 100 * k->lost_best / k->best_count : NAN, 1, " %");
        wn_html_put(h, "<td>%.0f of %'" PRIu32 "</td>", k->lost_best, k->best_count);
        if (graded)
            wn_html_put(h, "<td>%'" PRIu32 "</td>", k->low_best);
        wn_html_put(h, "</tr>\n");
    }
    wn_html_put(h, "</tbody></table></div>\n");
}

/* Layers by rising share kept; the list is short, so the next one is looked for each time. */
static void put_worst_layers(struct wn_html *h, const struct wn_report_numbers *n)
{
    uint32_t shown = n->layer_count < WORST_LAYERS ? n->layer_count : WORST_LAYERS;
    double last = -1;
    uint32_t last_at = 0;

    wn_html_put(h,
                "<h3>Where most is lost</h3><div class=\"scroll\"><table>\n<caption>%s, the smallest share kept "
                "first</caption>\n<thead><tr><th scope=\"col\">layer</th><th scope=\"col\">experts kept</th>",
                shown < n->layer_count ? "Ten layers" : "All layers");
    if (n->graded)
        wn_html_put(h, "<th scope=\"col\">at the source’s bits</th><th scope=\"col\">saliency in fewer bits</th>");
    wn_html_put(h, "<th scope=\"col\">saliency lost</th><th scope=\"col\">at least, with so "
                   "many</th></tr></thead>\n<tbody>\n");
    for (uint32_t k = 0; k < shown; k++) {
        uint32_t next = n->layer_count;

        for (uint32_t i = 0; i < n->layer_count; i++)
            if ((n->layers[i].kept > last || (n->layers[i].kept == last && k > 0 && i > last_at)) &&
                (next == n->layer_count || n->layers[i].kept < n->layers[next].kept))
                next = i;
        if (next == n->layer_count)
            break;
        last = n->layers[next].kept;
        last_at = next;
        wn_html_put(h, "<tr><th scope=\"row\">%" PRIu32 "</th><td>%" PRIu32 " of %" PRIu32 "</td>",
                    n->layers[next].layer, n->layers[next].keep, n->layers[next].experts);
        if (n->graded) {
            wn_html_put(h, "<td>%" PRIu32 "</td>", n->layers[next].hi);
            wn_report_put_cell(h, 100 * (last - n->layers[next].kept_hi), 2, " %");
        }
        wn_report_put_cell(h, 100 * (1 - last), 2, " %");
        wn_report_put_cell(h, 100 * (1 - n->layers[next].best), 2, " %");
        wn_html_put(h, "</tr>\n");
    }
    wn_html_put(h, "</tbody></table></div>\n");
}

static void put_worst_experts(struct wn_html *h, const struct wn_report_page *p)
{
    const struct wn_report_numbers *n = p->n;

    wn_html_put(h,
                "<h3>Favourites that go</h3>\n<p>Dropped experts that are among the best tenth of at least one source: "
                "%'" PRIu32 ".",
                n->lost_count);
    if (n->worst_count == 0) {
        wn_html_put(h, "</p>\n");
        return;
    }
    wn_html_put(h,
                " The %" PRIu32 " that carry most:</p>\n<div class=\"scroll\"><table>\n<thead><tr><th "
                "scope=\"col\">layer</th><th scope=\"col\">expert</th><th class=\"text\" "
                "scope=\"col\">source</th><th scope=\"col\">rank there</th><th scope=\"col\">of the source’s "
                "saliency in the layer</th><th scope=\"col\">times an even share</th></tr></thead>\n<tbody>\n",
                n->worst_count);
    for (uint32_t i = 0; i < n->worst_count; i++) {
        const struct wn_report_lost *w = &n->worst[i];

        wn_html_put(h,
                    "<tr><th scope=\"row\">%" PRIu32 "</th><td>%" PRIu32 "</td><td class=\"text\">%s</td><td>%" PRIu32
                    "</td><td>%.2f %%</td><td>%.1f</td></tr>\n",
                    n->layers[w->layer].layer, w->expert, p->s->source[w->source], w->rank, 100 * w->share,
                    w->share * n->layers[w->layer].experts);
    }
    wn_html_put(h, "</tbody></table></div>\n");
}

void wn_report_draw_dropped(struct wn_html *h, const struct wn_report_page *p)
{
    wn_html_put(h, "<section><h2>What the plan drops</h2>\n");
    if (!p->n->planned) {
        wn_html_put(h, "<p class=\"no\">Not measured: no plan was given.</p></section>\n");
        return;
    }
    wn_html_put(h, "<p>It keeps ");
    wn_report_put_keep(h, p->n);
    wn_report_put_banks(h, p->n);
    wn_html_put(h, ", and with them %.2f %% of the saliency: %.2f %% goes. ", 100 * p->n->kept.kept,
                100 * (1 - p->n->kept.kept));
    if (p->n->graded)
        wn_html_put(h, "Of all saliency %.2f %% stays at the source’s bits and %.2f %% in fewer. ", 100 * p->n->kept_hi,
                    100 * (p->n->kept.kept - p->n->kept_hi));
    wn_html_put(h, "Saliency is what the experts put out on the calibration text, not quality; what the cut costs is "
                   "told by evaluation.</p>\n");
    if (p->n->source_count)
        put_kept_sources(h, p);
    else
        wn_html_put(h, "<p class=\"no\">By source: not in this archive.</p>\n");
    put_worst_layers(h, p->n);
    if (p->n->source_count)
        put_worst_experts(h, p);
    wn_html_put(h, "</section>\n");
}
