/*
 * A report: files in, page out. Figures are computed in report_measure.c and drawn in report_draw*.c.
 */
#include <winnow/report.h>

#include "base/alloc.h"
#include "jobs/report/report_draw.h"
#include "sys/file.h"

#include <stdlib.h>
#include <winnow/job.h>

/* What is read; released in one place. */
struct inputs {
    struct wn_saliency s;
    struct wn_plan plan;
    struct wn_report_numbers n;
    struct wn_report_eval *evals; /* [count] */
    const char **names;           /* [count] */
    size_t count;                 /* read so far */
    char fingerprint[17];
};

static bool read_evals(struct inputs *in, const struct wn_report_options *o, struct wn_err *err)
{
    in->evals = wn_alloc(o->eval_count, sizeof(*in->evals), err);
    in->names = in->evals ? wn_alloc(o->eval_count, sizeof(*in->names), err) : NULL;
    if (!in->names)
        return false;
    for (; in->count < o->eval_count; in->count++) {
        in->names[in->count] = wn_path_name(o->eval_paths[in->count]);
        if (!wn_report_eval_read(&in->evals[in->count], o->eval_paths[in->count], err))
            return false;
    }
    return true;
}

static bool read_inputs(struct inputs *in, const struct wn_report_options *o, struct wn_err *err)
{
    if (!wn_saliency_fingerprint(o->saliency_path, in->fingerprint, err) ||
        !wn_saliency_read(&in->s, o->saliency_path, err))
        return false;
    if (o->plan_path && !wn_plan_read(&in->plan, o->plan_path, err))
        return false;
    if (!wn_report_measure(&in->n, &in->s, o->plan_path ? &in->plan : NULL, err))
        return o->plan_path ? wn_fail_in(err, "'%s' and '%s'", o->saliency_path, o->plan_path)
                            : wn_fail_in(err, "'%s'", o->saliency_path);
    return read_evals(in, o, err);
}

static bool spares_inputs(const struct wn_report_options *o, const char *out, struct wn_err *err)
{
    const char *const files[] = {o->saliency_path, o->plan_path};

    return wn_output_spares(out, files, 2, NULL, err) && wn_output_spares(out, o->eval_paths, o->eval_count, NULL, err);
}

static void release_inputs(struct inputs *in)
{
    for (size_t i = 0; i < in->count; i++)
        wn_report_eval_release(&in->evals[i]);
    free(in->evals);
    free(in->names);
    wn_report_numbers_release(&in->n);
    wn_plan_release(&in->plan);
    wn_saliency_release(&in->s);
}

bool wn_report(const struct wn_report_options *o, const char *out, uint64_t *bytes, struct wn_err *err)
{
    struct inputs in = {0};
    struct wn_html h = {.err = err};
    bool ok = wn_outfile_may_open(out, o->overwrite, err) && spares_inputs(o, out, err) && read_inputs(&in, o, err);

    if (ok) {
        const struct wn_report_page page = {.s = &in.s,
                                            .plan = o->plan_path ? &in.plan : NULL,
                                            .n = &in.n,
                                            .saliency_name = wn_path_name(o->saliency_path),
                                            .plan_name = o->plan_path ? wn_path_name(o->plan_path) : NULL,
                                            .fingerprint = in.fingerprint,
                                            .evals = in.evals,
                                            .eval_names = in.names,
                                            .eval_count = in.count};

        wn_report_draw(&h, &page);
        ok = wn_html_ok(&h) && wn_file_put(out, h.b.at, h.b.n, o->overwrite, err);
        *bytes = h.b.n;
    }
    wn_buf_release(&h.b);
    release_inputs(&in);
    return ok;
}
