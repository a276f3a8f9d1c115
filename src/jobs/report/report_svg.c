/* See report_svg.h. */
#include "jobs/report/report_svg.h"

#include <math.h>

void wn_report_svg_open(struct wn_html *h, const char *id, unsigned width, unsigned height, const char *title,
                        const char *desc)
{
    wn_html_put(h,
                "<svg viewBox=\"0 0 %u %u\" role=\"img\" aria-labelledby=\"%s-title %s-desc\">\n"
                "<title id=\"%s-title\">%s</title><desc id=\"%s-desc\">%s</desc>\n",
                width, height, id, id, id, title, id, desc);
}

void wn_report_svg_close(struct wn_html *h)
{
    wn_html_put(h, "</svg>\n");
}

void wn_report_grid(struct wn_html *h, const struct wn_report_plot *p, double step, bool percent)
{
    unsigned n = (unsigned)lround((p->y_high - p->y_low) / step);

    for (unsigned i = 0; i <= n; i++) {
        double v = p->y_low + i * step, y = wn_report_y(p, v);

        wn_html_put(h,
                    "<path class=\"grid\" d=\"M%.1f %.1fh%.1f\"/><text class=\"soft\" x=\"%.1f\" y=\"%.1f\" "
                    "text-anchor=\"end\">",
                    p->left, y, p->width, p->left - 6, y + 4);
        if (percent)
            wn_html_put(h, "%.0f%s</text>\n", 100 * v, i == n ? " %" : "");
        else
            wn_html_put(h, "%.2f</text>\n", v);
    }
}

void wn_report_axis_percent(struct wn_html *h, const struct wn_report_plot *p, double step)
{
    unsigned n = (unsigned)lround((p->x_high - p->x_low) / step);

    for (unsigned i = 0; i <= n; i++)
        wn_html_put(h, "<text class=\"soft\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f%s</text>\n",
                    wn_report_x(p, p->x_low + i * step), p->top + p->height + 16, 100 * (p->x_low + i * step),
                    i == n ? " %" : "");
}

double wn_report_nice_step(double v)
{
    double step = 1;

    while (step < v) {
        if (2 * step >= v)
            return 2 * step;
        if (5 * step >= v)
            return 5 * step;
        step *= 10;
    }
    return step;
}

void wn_report_svg_line(struct wn_html *h, const struct wn_report_plot *p, const char *css_class, const double *v,
                        unsigned steps)
{
    bool open = false;

    wn_html_put(h, "<path class=\"%s\" d=\"", css_class);
    for (unsigned i = 0; i <= steps; i++) {
        if (isfinite(v[i]))
            wn_html_put(h, "%s%.1f %.1f", open ? " " : "M", p->left + p->width * i / steps, wn_report_y(p, v[i]));
        open = isfinite(v[i]);
    }
    wn_html_put(h, "\"/>\n");
}
