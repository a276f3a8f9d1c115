/*
 * What `winnow plan` shows: the plan in figures, and what its build takes.
 */
#ifndef WN_CLI_PLAN_PRINT_H
#define WN_CLI_PLAN_PRINT_H

#include "cli.h"
#include <winnow/fit.h>

struct plan_shown {
    const struct wn_plan *plan;
    const struct wn_plan_kept *kept;
    const struct wn_fit *fit;           /* NULL: no model was given */
    const struct wn_fit_ledger *ledger; /* with fit */
    const struct wn_fit_options *options;
    double bandwidth; /* bytes/s; 0: not asked for */
    bool of_memory;   /* the budget is one of memory */
};

void print_plan(const struct plan_shown *p);
/* NULL when memory is out. */
json_t *json_plan(const struct plan_shown *p);

#endif
