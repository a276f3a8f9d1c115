/* See made_for.h. */
#include "jobs/made_for.h"

#include <string.h>

static bool is_of(const char *told, const struct wn_source *s, char fingerprint[17])
{
    wn_source_fingerprint(s, fingerprint);
    return strcmp(told, fingerprint) == 0;
}

bool wn_made_for(const char *what, const char *told, const struct wn_source *source, const struct wn_source *other,
                 struct wn_err *err)
{
    char own[17], second[17];

    if (is_of(told, source, own) || (other && is_of(told, other, second)))
        return true;
    return wn_fail(err, WN_ERR_ARG,
                   "%s a model with the fingerprint %s, '%s' has %s (the same model in another format has another one: "
                   "--force-plan takes it all the same)",
                   what, *told ? told : "(none told)", wn_source_path(source), own);
}
