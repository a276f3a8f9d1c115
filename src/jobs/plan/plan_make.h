/*
 * A plan in the making: plan_make.c ranks, chooses and writes it, plan_predict.c says what it is going to lose.
 */
#ifndef WN_JOBS_PLAN_PLAN_MAKE_H
#define WN_JOBS_PLAN_PLAN_MAKE_H

#include "jobs/plan/plan_loss.h"

/* What a plan is made from. */
struct wn_making {
    const struct wn_saliency *s;
    const struct wn_plan_options *o;
    enum wn_criterion criterion;
    double *factor; /* [source] of weighed sources; NULL: as they were counted. Owned */
    struct wn_choice choice;
    uint32_t keep;       /* experts per layer that were asked for; 0: a budget in bytes was */
    struct wn_loss loss; /* what is chosen by; basis WN_BASIS_NONE: nothing to predict by */
    struct wn_loss told; /* what is told; the same basis */
    double loss_bound;   /* of `loss`, 0: not looked for */
};

/* Whether layers are to be weighed by what they lose. */
bool wn_making_by_loss(const struct wn_plan_options *o);

/* Fills loss and told once the choice is ranked. Plans by loss need it; others have it where the archive allows. */
WN_CHECKED bool wn_making_predict(struct wn_making *m, struct wn_err *err);
/*
 * What the plan loses, and what one that treats all layers alike would, into *kept; arrays there are the caller's, on
 * failure too. The choice stays as it is.
 */
WN_CHECKED bool wn_making_measure(struct wn_making *m, struct wn_plan_kept *kept, struct wn_err *err);
/* The same as the plan stores it. p->losses is the caller's, on failure too. */
WN_CHECKED bool wn_making_note(const struct wn_making *m, const struct wn_plan_kept *kept, struct wn_plan *p,
                               struct wn_err *err);

#endif
