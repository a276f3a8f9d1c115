/* See output_try.h. */
#include "jobs/output_try.h"

#include "sys/file.h"

bool wn_output_try(const char *out, bool overwrite, const char *const *inputs, size_t n, const struct wn_model *m,
                   struct wn_err *err)
{
    struct wn_outfile probe;

    if (!*out)
        return wn_fail(err, WN_ERR_ARG, "the output has no name");
    if (!wn_outfile_may_open(out, overwrite, err) || !wn_output_spares(out, inputs, n, m, err) ||
        !wn_outfile_open(&probe, out, overwrite, err))
        return false;
    wn_outfile_abandon(&probe);
    return true;
}
