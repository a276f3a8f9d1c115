/*
 * The heat map: a row a layer, its experts by falling saliency from left to right, colour by how many times an even
 * share an expert carries, in steps of a power of two.
 *
 * A row falls, so each colour is one run of it: however many experts there are, a row is at most as many strokes as
 * there are colours. 92 layers of 896 experts take some 15 KB.
 */
#include "jobs/report/report_draw.h"
#include "jobs/report/report_svg.h"

#include <inttypes.h>
#include <math.h>

enum { COLOURS = 11, WIDTH = 720, LEFT = 46, RIGHT = 14, TOP = 22, LEGEND = 96, LINES = 44 };

/* Colour k (0 .. count - 1) is 2^(step * (low + k)) times an even share or more; the first also what is below. */
struct scale {
    double step;
    int low, count;
};

static int level(const struct scale *s, double ratio)
{
    double at = floor(log2(ratio) / s->step) - s->low;

    return at < 0 ? 0 : at >= s->count ? s->count - 1 : (int)at;
}

/* The finest steps with which no more than 2 % of the experts lie below the lowest colour. */
static struct scale choose_scale(const struct wn_report_numbers *n)
{
    size_t cells = (size_t)n->layer_count * n->expert_count, positive = 0;
    double most = 0, least = INFINITY;
    struct scale s = {0.5, 0, 1};

    for (size_t i = 0; i < cells; i++) {
        if (n->ratio[i] <= 0)
            continue;
        most = fmax(most, n->ratio[i]);
        least = fmin(least, n->ratio[i]);
        positive++;
    }
    for (; s.step <= 64; s.step *= 2) {
        int high = (int)floor(log2(most) / s.step), low = (int)floor(log2(least) / s.step);
        size_t below = 0;

        s.low = low > high - COLOURS + 1 ? low : high - COLOURS + 1;
        s.count = high - s.low + 1;
        for (size_t i = 0; i < cells; i++)
            below += n->ratio[i] > 0 && log2(n->ratio[i]) < s.step * s.low;
        if (below * 50 <= positive)
            break;
    }
    return s;
}

/* Colour classes are spread over the whole ramp, however few are used. */
static unsigned colour_class(const struct scale *s, int k)
{
    return s->count < 2 ? COLOURS / 2 : (unsigned)lround((double)k * (COLOURS - 1) / (s->count - 1));
}

/* The strokes of one level (-1: no saliency at all) in all rows. */
static void put_level(struct wn_html *h, const struct wn_report_numbers *n, const struct scale *s, int k)
{
    for (uint32_t i = 0; i < n->layer_count; i++) {
        const double *row = n->ratio + (size_t)i * n->expert_count;
        uint32_t start = 0, end;

        while (start < n->layers[i].experts && (row[start] > 0 ? level(s, row[start]) : -1) != k)
            start++;
        for (end = start; end < n->layers[i].experts && (row[end] > 0 ? level(s, row[end]) : -1) == k;)
            end++;
        if (end > start)
            wn_html_put(h, "M%" PRIu32 " %" PRIu32 ".5h%" PRIu32, start, i, end - start);
    }
}

static bool any_zero(const struct wn_report_numbers *n)
{
    for (uint32_t i = 0; i < n->layer_count; i++)
        if (n->ratio[(size_t)i * n->expert_count + n->layers[i].experts - 1] <= 0)
            return true;
    return false;
}

/* Along the rows, where the count of each ends. */
static void put_cut(struct wn_html *h, const struct wn_report_numbers *n, const char *css_class, bool hi)
{
    for (uint32_t i = 0; i < n->layer_count; i++) {
        uint32_t at = hi ? n->layers[i].hi : n->layers[i].keep;

        if (i == 0)
            wn_html_put(h, "<path class=\"%s\" vector-effect=\"non-scaling-stroke\" d=\"M%" PRIu32 " 0V1", css_class,
                        at);
        else
            wn_html_put(h, "H%" PRIu32 "V%" PRIu32, at, i + 1);
    }
    wn_html_put(h, "\"/>\n");
}

static void put_rows(struct wn_html *h, const struct wn_report_numbers *n, const struct scale *s, double row_height)
{
    wn_html_put(h, "<g class=\"rows\" transform=\"translate(%u %u) scale(%.6f %.3f)\">\n", LEFT, TOP,
                (double)(WIDTH - LEFT - RIGHT) / n->expert_count, row_height);
    for (int k = 0; k < s->count; k++) {
        wn_html_put(h, "<path class=\"h%u\" d=\"", colour_class(s, k));
        put_level(h, n, s, k);
        wn_html_put(h, "\"/>\n");
    }
    if (any_zero(n)) {
        wn_html_put(h, "<path class=\"hz\" d=\"");
        put_level(h, n, s, -1);
        wn_html_put(h, "\"/>\n");
    }
    if (n->planned)
        put_cut(h, n, "cut", false);
    if (n->graded)
        put_cut(h, n, "bank", true);
    wn_html_put(h, "</g>\n");
}

static void put_labels(struct wn_html *h, const struct wn_report_numbers *n, double row_height)
{
    double width = WIDTH - LEFT - RIGHT, bottom = TOP + row_height * n->layer_count;
    uint32_t step = (uint32_t)wn_report_nice_step(n->expert_count / 9.0);
    uint32_t every = (uint32_t)wn_report_nice_step(13 / row_height);

    for (uint32_t i = 0; i < n->layer_count; i++)
        if (n->layers[i].layer % every == 0)
            wn_html_put(h, "<text class=\"soft\" x=\"%u\" y=\"%.1f\" text-anchor=\"end\">%" PRIu32 "</text>\n",
                        LEFT - 6, TOP + (i + 0.5) * row_height + 4, n->layers[i].layer);
    wn_html_put(h, "<text class=\"soft\" x=\"%u\" y=\"%u\" text-anchor=\"end\">layer</text>\n", LEFT - 6, TOP - 8);
    for (uint32_t v = step; v <= n->expert_count; v += step)
        wn_html_put(h, "<text class=\"soft\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%" PRIu32 "</text>\n",
                    LEFT + width * v / n->expert_count, bottom + 16, v);
    wn_html_put(h, "<text class=\"soft\" x=\"%u\" y=\"%.1f\">experts, most salient first</text>\n", LEFT, bottom + 34);
    if (n->planned) {
        double x = LEFT + width * n->layers[0].keep / n->expert_count;

        wn_html_put(h, "<text class=\"plan\" x=\"%.1f\" y=\"%u\" text-anchor=\"%s\">", x, TOP - 8,
                    x > WIDTH * 0.8 ? "end" : "middle");
        wn_html_put(h, "the plan keeps %.0f %%</text>\n", 100 * n->share_kept);
    }
}

/* "4x", "1/8x"; "1.4x", "0.35x" on a scale of half steps. */
static void put_times(struct wn_html *h, double v, bool whole)
{
    if (v >= 1)
        wn_html_put(h, whole ? "%.0f×" : "%.1f×", v);
    else if (whole)
        wn_html_put(h, "1/%.0f×", 1 / v);
    else
        wn_html_put(h, "%.2f×", v);
}

static void put_legend(struct wn_html *h, const struct wn_report_numbers *n, const struct scale *s, double top)
{
    const unsigned box = 46;
    double x = LEFT;

    wn_html_put(h, "<text x=\"%u\" y=\"%.1f\">share of its layer’s saliency, in multiples of an even share</text>\n",
                LEFT, top);
    for (int k = 0; k < s->count; k++, x += box) {
        wn_html_put(h, "<rect class=\"h%u\" x=\"%.1f\" y=\"%.1f\" width=\"%u\" height=\"12\"/>", colour_class(s, k), x,
                    top + 8, box);
        if (k > 0) {
            wn_html_put(h, "<text class=\"soft\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", x, top + 35);
            put_times(h, exp2(s->step * (s->low + k)), s->step >= 1);
            wn_html_put(h, "</text>\n");
        }
    }
    if (any_zero(n))
        wn_html_put(
            h,
            "<rect class=\"hz\" x=\"%.1f\" y=\"%.1f\" width=\"%u\" height=\"12\"/><text class=\"soft\" x=\"%.1f\" "
            "y=\"%.1f\" text-anchor=\"middle\">none</text>\n",
            x + 16, top + 8, box, x + 16 + box / 2.0, top + 35);
}

/* What lies on either side of a graded plan's two lines. */
static void put_line_legend(struct wn_html *h, const struct wn_report_numbers *n, double top)
{
    const unsigned text = LEFT + 34;

    if (!n->graded)
        return;
    wn_html_put(h,
                "<path class=\"bank\" d=\"M%u %.1fh26\"/><text x=\"%u\" y=\"%.1f\">left of it: at the source’s bits, "
                "%.0f %%</text>\n",
                LEFT, top, text, top + 4, 100 * n->share_hi);
    wn_html_put(h, "<path class=\"cut\" d=\"M%u %.1fh26\"/><text x=\"%u\" y=\"%.1f\">left of it, up to the other: in ",
                LEFT, top + 20, text, top + 24);
    wn_report_put_bits(h, n);
    wn_html_put(h, ", %.0f %%; right of it: dropped</text>\n", 100 * (n->share_kept - n->share_hi));
}

/* Of a graded plan: of those that keep their bits, how many lie left of their line. */
static void put_line_of_bank(struct wn_html *h, const struct wn_report_numbers *n)
{
    uint64_t hi = 0, best = 0;

    if (!n->graded)
        return;
    for (uint32_t i = 0; i < n->layer_count; i++) {
        hi += n->layers[i].hi;
        best += n->layers[i].hi_best;
    }
    wn_html_put(h,
                "<p>The plan is graded: the dashed line is where the number of experts ends that stay at the source’s "
                "bits, the others of those kept are stored in ");
    wn_report_put_bits(h, n);
    wn_html_put(h, ". Of those %'" PRIu64 ", %'" PRIu64 " lie left of it.</p>\n", hi, best);
}

/* Whether the plan's choice is the ranking that is drawn. */
static void put_line_of_plan(struct wn_html *h, const struct wn_report_page *p)
{
    uint64_t keep = 0, best = 0;

    if (!p->n->planned)
        return;
    for (uint32_t i = 0; i < p->n->layer_count; i++) {
        keep += p->n->layers[i].keep;
        best += p->n->layers[i].keep_best;
    }
    if (best == keep)
        wn_html_put(h, "<p>The orange line is the plan’s cut: it keeps exactly the experts to its left.</p>\n");
    else
        wn_html_put(h,
                    "<p>The orange line is where the plan’s number of experts ends in this order. It chose by another "
                    "one: of the %'" PRIu64 " experts it keeps, %'" PRIu64 " lie left of the line and %'" PRIu64
                    " right of it.</p>\n",
                    keep, best, keep - best);
    put_line_of_bank(h, p->n);
}

void wn_report_draw_heat(struct wn_html *h, const struct wn_report_page *p)
{
    const struct wn_report_numbers *n = p->n;
    struct scale s = choose_scale(n);
    double row_height = fmin(22, fmax(2, floor(1120.0 / n->layer_count) / 2));
    double bottom = TOP + row_height * n->layer_count;

    wn_html_put(h, "<section><h2>Where the saliency lies</h2>\n<p>Half of the experts of each layer, the most salient "
                   "ones, carry ");
    wn_report_put_share(h, n->curve[WN_REPORT_STEPS / 2]);
    wn_html_put(h, " of all saliency; the first tenth alone ");
    wn_report_put_share(h, n->curve[6] + 0.4 * (n->curve[7] - n->curve[6]));
    wn_html_put(h, ".</p>\n");
    put_line_of_plan(h, p);
    wn_html_put(h, "<figure><div class=\"scroll\">");
    wn_report_svg_open(
        h, "heat", WIDTH, (unsigned)bottom + LEGEND + (n->graded ? LINES : 0),
        "Saliency by layer and rank of the expert",
        "One row a layer, one column a rank. The table of all layers at the end of the page has the shares "
        "that the best experts carry.");
    put_rows(h, n, &s, row_height);
    put_labels(h, n, row_height);
    put_legend(h, n, &s, bottom + 58);
    put_line_legend(h, n, bottom + LEGEND + 16);
    wn_report_svg_close(h);
    wn_html_put(h, "</div></figure>\n</section>\n");
}
