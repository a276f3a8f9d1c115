/* See weights_arg.h. */
#include "weights_arg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool weights_arg(const struct command *self, char *text, struct wn_source_weight *w, size_t *n)
{
    *n = 0;
    for (char *p = text ? strtok(text, ",") : NULL; p; p = strtok(NULL, ",")) {
        char *equals = strchr(p, '='), *end;

        if (!equals || equals == p || *n == WEIGHTS_MOST)
            return opt_wrong(self, "--weights: '%s' is not SOURCE=WEIGHT", p), false;
        *equals = '\0';
        w[*n].source = p;
        w[*n].weight = strtod(equals + 1, &end);
        if (end == equals + 1 || *end || !isfinite(w[*n].weight) || w[*n].weight < 0)
            return opt_wrong(self, "--weights: '%s' is not a weight for '%s'", equals + 1, p), false;
        ++*n;
    }
    return true;
}
