/*
 * Saliency archives of the same model put together.
 */
#ifndef WINNOW_MERGE_H
#define WINNOW_MERGE_H

#include <winnow/job.h>

struct wn_merge_options {
    const char *const *archives; /* [count], in the order in which their corpora would be joined */
    size_t count;                /* at least 1 */
    const char *out;             /* must not exist unless overwrite; none of the archives */
    bool overwrite;
};

struct wn_merge_result {
    uint64_t tokens;  /* 0: some archive does not tell */
    uint32_t sources; /* 0: some archive has no sums per source */
    uint32_t corpora; /* known by their hashes */
    bool exact;       /* all archives have exact sums, so these are those of one run over all corpora */
};

/*
 * Adds the archives up. Sources of one name are one source. Archives of winnow have exact sums, and the merged ones are
 * to the bit those of one run over the corpora joined, where that run cuts the same sequences. Mean outputs are weighed
 * by counts and are not exact: they were rounded before. What an archive does not have is left out of the result, and a
 * note says so.
 *
 * WN_ERR_ARG, naming the archive and what differs: other layers, experts, top-k, latent size or model; a corpus that is
 * in another archive already.
 */
WN_API WN_CHECKED bool wn_merge(const struct wn_merge_options *o, const struct wn_job *job,
                                struct wn_merge_result *result, struct wn_err *err);

#endif
