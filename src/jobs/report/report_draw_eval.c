/*
 * What evaluation found: perplexities of several results beside each other, and the known fields of each.
 */
#include "jobs/report/report_draw.h"
#include "sys/file.h"

#include <math.h>

/*
 * Perplexities can be compared when as many tokens of the domain were predicted; the vocabulary is the same by design.
 */
static bool comparable(const struct wn_report_domain *a, const struct wn_report_domain *b)
{
    const enum wn_report_field same[] = {WN_REPORT_PREDICTED, WN_REPORT_WINDOWS};

    for (size_t i = 0; i < 2; i++)
        if (!(a->field[same[i]].value == b->field[same[i]].value))
            return false;
    return a->field[WN_REPORT_PERPLEXITY].value > 0;
}

/* The value of a later result (NULL: it lacks the domain), and its change against the first one's. */
static void put_change(struct wn_html *h, const struct wn_report_domain *d, const struct wn_report_domain *first)
{
    double v = d ? d->field[WN_REPORT_PERPLEXITY].value : NAN;

    wn_report_put_cell(h, v, 3, "");
    if (!d || isnan(v)) {
        wn_html_put(h, "<td></td>");
    } else if (!comparable(first, d)) {
        wn_html_put(h, "<td class=\"no\">other text: not compared</td>");
    } else {
        double change = 100 * (v / first->field[WN_REPORT_PERPLEXITY].value - 1);

        wn_html_put(h, "<td>%s%.2f %%</td>", change >= 0 ? "+" : "", change);
    }
}

/* Rows: the first result's domains; columns: results. */
static void put_perplexities(struct wn_html *h, const struct wn_report_page *p)
{
    wn_html_put(h,
                "<div class=\"scroll\"><table>\n<caption>Perplexity%s</caption>\n<thead><tr><th "
                "scope=\"col\">domain</th><th scope=\"col\">tokens predicted</th>",
                p->eval_count > 1 ? ", and its change against the first" : "");
    for (size_t i = 0; i < p->eval_count; i++)
        wn_html_put(h, i ? "<th scope=\"col\" colspan=\"2\">%s</th>" : "<th scope=\"col\">%s</th>", p->eval_names[i]);
    wn_html_put(h, "</tr></thead>\n<tbody>\n");
    for (size_t d = 0; d < p->evals[0].domain_count; d++) {
        const struct wn_report_domain *first = &p->evals[0].domains[d];

        wn_html_put(h, "<tr><th scope=\"row\">%s</th>", first->domain);
        wn_report_put_cell(h, first->field[WN_REPORT_PREDICTED].value, 0, "");
        wn_report_put_cell(h, first->field[WN_REPORT_PERPLEXITY].value, 3, "");
        for (size_t i = 1; i < p->eval_count; i++)
            put_change(h, wn_report_eval_find(&p->evals[i], first->domain), first);
        wn_html_put(h, "</tr>\n");
    }
    wn_html_put(h, "</tbody></table></div>\n");
}

static bool has_field(const struct wn_report_eval *e, size_t field)
{
    for (size_t d = 0; d < e->domain_count; d++)
        if (!isnan(e->domains[d].field[field].value))
            return true;
    return false;
}

/* "0.01234", and below it the interval where there is one. */
static void put_value(struct wn_html *h, const struct wn_report_value *v, const struct wn_report_field_name *f)
{
    if (isnan(v->value) || isnan(v->low) || isnan(v->high)) {
        wn_report_put_cell(h, v->value * f->scale, f->decimals, "");
        return;
    }
    wn_html_put(h, "<td>");
    wn_report_put_number(h, v->value * f->scale, f->decimals);
    wn_html_put(h, "<small>");
    wn_report_put_number(h, v->low * f->scale, f->decimals);
    wn_html_put(h, " to ");
    wn_report_put_number(h, v->high * f->scale, f->decimals);
    wn_html_put(h, "</small></td>");
}

/*
 * Fields from .. end - 1, if the result has any: all of them, since what it lacks was not measured, or (`own`) those
 * that it has.
 */
static void put_fields(struct wn_html *h, const struct wn_report_eval *e, const char *caption, size_t from, size_t end,
                       bool own)
{
    size_t first = from;

    while (first < end && !has_field(e, first))
        first++;
    if (first == end)
        return;
    wn_html_put(h, "<div class=\"scroll\"><table>\n<caption>%s</caption>\n<thead><tr><th scope=\"col\">domain</th>",
                caption);
    for (size_t f = from; f < end; f++)
        if (!own || has_field(e, f))
            wn_html_put(h, "<th scope=\"col\">%s%s%s</th>", wn_report_fields[f].title,
                        *wn_report_fields[f].unit ? ", " : "", wn_report_fields[f].unit);
    wn_html_put(h, "</tr></thead>\n<tbody>\n");
    for (size_t d = 0; d < e->domain_count; d++) {
        wn_html_put(h, "<tr><th scope=\"row\">%s</th>", e->domains[d].domain);
        for (size_t f = from; f < end; f++)
            if (!own || has_field(e, f))
                put_value(h, &e->domains[d].field[f], &wn_report_fields[f]);
        wn_html_put(h, "</tr>\n");
    }
    wn_html_put(h, "</tbody></table></div>\n");
}

static void put_result(struct wn_html *h, const struct wn_report_page *p, size_t i)
{
    const struct wn_report_eval *e = &p->evals[i];

    wn_html_put(h, "<h3>%s</h3>\n<p>Model <bdi>%s</bdi>", p->eval_names[i], *e->model ? e->model : "not told");
    if (!isnan(e->window))
        wn_html_put(h, ", windows of %.0f tokens", e->window);
    if (*e->masked)
        wn_html_put(h, ", experts masked by <bdi>%s</bdi>", wn_path_name(e->masked));
    if (*e->ghosts)
        wn_html_put(h, ", ghosts: %s", e->ghosts);
    wn_html_put(h, ".</p>\n");
    put_fields(h, e, "By itself", 0, WN_REPORT_KLD_MEAN, true);
    put_fields(h, e, "Against its parent; below a figure its interval", WN_REPORT_KLD_MEAN, WN_REPORT_FIELDS, false);
}

void wn_report_draw_eval(struct wn_html *h, const struct wn_report_page *p)
{
    wn_html_put(h, "<section><h2>Evaluation</h2>\n");
    if (p->eval_count == 0)
        wn_html_put(h, "<p class=\"no\">Not measured: no results of <code>winnow eval --json</code> were given.</p>\n");
    else if (p->eval_count > 1)
        put_perplexities(h, p);
    for (size_t i = 0; i < p->eval_count; i++)
        put_result(h, p, i);
    wn_html_put(h, "</section>\n");
}
