/*
 * Archives of the same model into one. They are read twice, once to see what all of them have and once to add them up,
 * so that no more than two are in memory.
 */
#include "base/bytes.h"
#include "jobs/calibrate/merge_parts.h"
#include "jobs/talk.h"
#include "sys/file.h"

#include <stdio.h>

static const char *part_key(unsigned part)
{
    static const char *const keys[] = {[WN_PART_MAX_NORM] = "max_norm",
                                       [WN_PART_SOURCE_COUNTS] = "per_source_counts",
                                       [WN_PART_SOURCE_TOKENS] = "source_tokens",
                                       [WN_PART_COUNTS] = "counts",
                                       [WN_PART_TOKENS] = "n_tokens",
                                       [WN_PART_HALVES] = "saliency_half",
                                       [WN_PART_MEANS] = WN_MEANS_KEY};

    return part < WN_SUMS ? wn_sum_key((enum wn_sum)part) : keys[part];
}

/* One line for each archive that the others must do without something for. */
static bool note_lacking(const struct wn_merge_look *m, const char *path, const struct wn_job *job, struct wn_err *err)
{
    struct wn_buf line = {0};
    bool ok = true;

    for (unsigned k = 0; ok && k < WN_PARTS; k++) {
        if (!m->some[k] || m->lacks[k] != path)
            continue;
        ok =
            (line.n || wn_buf_printf(&line, err, "'%s' lacks", path)) && wn_buf_printf(&line, err, " %s,", part_key(k));
    }
    if (ok && line.n && (ok = wn_buf_printf(&line, err, " and so does the merged archive")))
        wn_job_note(job, line.at);
    wn_buf_release(&line);
    return ok;
}

static bool look(struct wn_merge_look *m, const struct wn_merge_options *o, const struct wn_job *job,
                 struct wn_err *err)
{
    bool ok = true;

    for (size_t i = 0; ok && i < o->count; i++) {
        struct wn_saliency s;

        if (!wn_saliency_read(&s, o->archives[i], err))
            return false;
        ok = wn_merge_look_at(m, &s, o->archives[i], err);
        wn_saliency_release(&s);
    }
    for (size_t i = 0; ok && i < o->count; i++)
        ok = note_lacking(m, o->archives[i], job, err);
    return ok;
}

static bool add_all(const struct wn_merge_look *m, const struct wn_merge_options *o, struct wn_saliency *total,
                    struct wn_merge_means *means, struct wn_err *err)
{
    for (size_t i = 0; i < o->count; i++) {
        struct wn_saliency s;
        bool ok;

        if (!wn_saliency_read(&s, o->archives[i], err))
            return false;
        ok = wn_merge_check(m, &s, err) && wn_merge_add(m, total, &s, err) &&
             (m->lacks[WN_PART_MEANS] || wn_merge_means_take(means, &s, o->archives[i], err));
        wn_saliency_release(&s);
        if (!ok)
            return wn_fail_in(err, "'%s'", o->archives[i]);
    }
    return wn_merge_end(m, total, err);
}

static bool merge(struct wn_merge_look *m, const struct wn_merge_options *o, const struct wn_job *job,
                  struct wn_merge_result *result, struct wn_err *err)
{
    struct wn_merge_means means = {0};
    struct wn_mean_source source;
    struct wn_saliency total;
    bool ok;

    if (!look(m, o, job, err) || !wn_merge_begin(m, &total, err))
        return false;
    ok = add_all(m, o, &total, &means, err) && (means.count == 0 || wn_merge_means_source(&means, &source, err)) &&
         wn_saliency_write_with(&total, means.count ? &source : NULL, o->out, o->overwrite, err);
    wn_merge_means_release(&means);
    if (ok)
        *result = (struct wn_merge_result){.tokens = total.token_count,
                                           .sources = total.source_count,
                                           .corpora = total.corpus_count,
                                           .exact = m->exact && total.source_count > 0};
    wn_saliency_release(&total);
    return ok;
}

bool wn_merge(const struct wn_merge_options *o, const struct wn_job *job, struct wn_merge_result *result,
              struct wn_err *err)
{
    struct wn_merge_look m = {0};
    bool ok;

    if (o->count == 0)
        return wn_fail(err, WN_ERR_ARG, "there is no archive to merge");
    if (!wn_outfile_may_open(o->out, o->overwrite, err) || !wn_output_spares(o->out, o->archives, o->count, NULL, err))
        return false;
    ok = merge(&m, o, job, result, err);
    wn_merge_look_release(&m);
    return ok;
}
