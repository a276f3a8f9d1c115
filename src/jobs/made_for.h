/* Whether a plan, or an archive's means, belong to the model at hand: by its fingerprint, which they tell. */
#ifndef WN_JOBS_MADE_FOR_H
#define WN_JOBS_MADE_FOR_H

#include "formats/source.h"

/*
 * Refuses another model than `told` says (WN_ERR_ARG), with both fingerprints and the option that takes it all the
 * same. `what` begins the sentence: "the plan was made for". `other`: a second parent that it may be instead, or NULL.
 */
WN_CHECKED bool wn_made_for(const char *what, const char *told, const struct wn_source *source,
                            const struct wn_source *other, struct wn_err *err);

#endif
