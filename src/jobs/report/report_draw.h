/*
 * The page of a report: figures of report_measure.h as HTML and SVG. Nothing is computed here that is not a place on
 * the page.
 *
 * Each part writes one <section>. Colours and type are in report_style.c, by class; what a screen reader or a printer
 * gets is the same page: figures have a title and a description, and their numbers stand in a table.
 */
#ifndef WN_JOBS_REPORT_REPORT_DRAW_H
#define WN_JOBS_REPORT_REPORT_DRAW_H

#include "jobs/report/html.h"
#include "jobs/report/report_eval.h"
#include "jobs/report/report_measure.h"

/* All borrowed. */
struct wn_report_page {
    const struct wn_saliency *s;
    const struct wn_plan *plan; /* NULL: none */
    const struct wn_report_numbers *n;
    const char *saliency_name, *plan_name; /* file names without folders */
    const char *fingerprint;               /* of the archive */
    const struct wn_report_eval *evals;    /* [eval_count] */
    const char *const *eval_names;         /* [eval_count] */
    size_t eval_count;
};

void wn_report_draw(struct wn_html *h, const struct wn_report_page *p);

/* The parts (report_draw_*.c). */
void wn_report_draw_budget(struct wn_html *h, const struct wn_report_page *p);
void wn_report_draw_heat(struct wn_html *h, const struct wn_report_page *p);
void wn_report_draw_curves(struct wn_html *h, const struct wn_report_page *p);
void wn_report_draw_overlap(struct wn_html *h, const struct wn_report_page *p);
void wn_report_draw_halves(struct wn_html *h, const struct wn_report_page *p);
void wn_report_draw_concentration(struct wn_html *h, const struct wn_report_page *p);
void wn_report_draw_dropped(struct wn_html *h, const struct wn_report_page *p);
void wn_report_draw_eval(struct wn_html *h, const struct wn_report_page *p);
void wn_report_draw_layers(struct wn_html *h, const struct wn_report_page *p);

/* A table of what the plan is predicted to lose, and a note of each source that pays; nothing where nothing is told. */
void wn_report_draw_losses(struct wn_html *h, const struct wn_plan *plan);
/* A predicted loss against that of the same number in each layer, 0: not told. Change in %; not a number: not told. */
bool wn_report_loses(double loss, double same);
double wn_report_change(double loss, double same);

/* The style sheet. */
extern const char wn_report_style[];

/* A share as "48.6 %", or "not measured". */
void wn_report_put_share(struct wn_html *h, double share);
/* A number with 0 .. 5 decimals, thousands separated when there are none. */
void wn_report_put_number(struct wn_html *h, double v, unsigned decimals);
/* A <td> with a number, or an empty-looking "not measured". unit: "" or what stands behind the number. */
void wn_report_put_cell(struct wn_html *h, double v, unsigned decimals, const char *unit);
/* "45 of 64 experts in each layer", or the range where layers differ. */
void wn_report_put_keep(struct wn_html *h, const struct wn_report_numbers *n);
/* Of a graded plan: "2 bits", or the range where layers differ. */
void wn_report_put_bits(struct wn_html *h, const struct wn_report_numbers *n);
/* ", 16 at the source's bits and 29 in 2 bits"; nothing where all have the source's. */
void wn_report_put_banks(struct wn_html *h, const struct wn_report_numbers *n);

#endif
