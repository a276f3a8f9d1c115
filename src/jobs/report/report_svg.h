/*
 * Frames and axes that the figures of a report share. Coordinates are those of the viewBox, about a pixel each.
 */
#ifndef WN_JOBS_REPORT_REPORT_SVG_H
#define WN_JOBS_REPORT_REPORT_SVG_H

#include "jobs/report/html.h"

/* The rectangle of data in a figure; y runs from low (bottom) to high (top). */
struct wn_report_plot {
    double left, top, width, height;
    double x_low, x_high, y_low, y_high;
};

static inline double wn_report_x(const struct wn_report_plot *p, double v)
{
    return p->left + (v - p->x_low) / (p->x_high - p->x_low) * p->width;
}

static inline double wn_report_y(const struct wn_report_plot *p, double v)
{
    return p->top + (1 - (v - p->y_low) / (p->y_high - p->y_low)) * p->height;
}

/* id must be one of its own on the page; title and desc are what is read aloud. */
void wn_report_svg_open(struct wn_html *h, const char *id, unsigned width, unsigned height, const char *title,
                        const char *desc);
void wn_report_svg_close(struct wn_html *h);

/*
 * Grid lines with percentages (or plain numbers) at the left, each `step` of the range; percentages below, without
 * lines.
 */
void wn_report_grid(struct wn_html *h, const struct wn_report_plot *p, double step, bool percent);
void wn_report_axis_percent(struct wn_html *h, const struct wn_report_plot *p, double step);

/* Of 1, 2, 5, 10, 20 ... the smallest that is at least v. */
double wn_report_nice_step(double v);

/* A line through v[0..steps] at even places of the width; values that are not numbers break it. */
void wn_report_svg_line(struct wn_html *h, const struct wn_report_plot *p, const char *css_class, const double *v,
                        unsigned steps);

#endif
