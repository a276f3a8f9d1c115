/* --weights of plan and probe. */
#ifndef WN_CLI_WEIGHTS_ARG_H
#define WN_CLI_WEIGHTS_ARG_H

#include "cli.h"
#include <winnow/plan.h>

#define WEIGHTS_MOST 64

/*
 * "en=1,code=2" into w [WEIGHTS_MOST]; *n is how many, 0 for NULL. The labels point into the text, which is cut up.
 * False, with the reason said, when it is none.
 */
bool weights_arg(const struct command *self, char *text, struct wn_source_weight *w, size_t *n);

#endif
