/*
 * What a MODEL on the command line means, and the pool that works on it.
 */
#include "cli.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define BUNDLED "k3-mini"

static const char *installed(const char *name)
{
    static char path[4096];

    snprintf(path, sizeof path, "%s/models/%s", data_dir(), name);
    return path;
}

/* Not there: the error names its path, and here is said why it is looked for in that place. */
static const char *bundled(void)
{
    const char *path = installed(BUNDLED);

    if (access(path, F_OK) != 0)
        complain("winnow: '" BUNDLED
                 "' is the bundled model, looked for in '%s/models': WINNOW_DATA names another folder "
                 "than '%s'",
                 data_dir(), data_dir());
    return path;
}

const char *model_path(const char *arg)
{
    if (!arg) {
        talk("no MODEL given: taking the bundled " BUNDLED);
        return bundled();
    }
    if (access(arg, F_OK) == 0 || strchr(arg, '/'))
        return arg;
    if (strcmp(arg, BUNDLED) == 0)
        return bundled();
    return *arg && access(installed(arg), F_OK) == 0 ? installed(arg) : arg;
}

bool opt_ghosts(const struct command *cmd, const char *text, enum wn_ghosts *ghosts)
{
    /* what is built is what no word says */
    return (wn_ghosts_find(text, ghosts) && (!text || *ghosts != WN_GHOSTS_BUILT)) ||
           (opt_wrong(cmd, "--ghosts %s: 'off', 'skip' or 'mean' is wanted", text), false);
}

struct wn_model *open_model(const char *arg, enum wn_ghosts ghosts, struct wn_err *err)
{
    struct wn_model *m = wn_model_open(model_path(arg), err);

    if (m && !wn_model_set_ghosts(m, ghosts, err)) {
        wn_model_close(m);
        m = NULL;
    }
    return m;
}

int with_model(const char *model, enum wn_ghosts ghosts, with_model_fn *work, const void *arg)
{
    struct wn_err err;
    struct wn_model *m = open_model(model, ghosts, &err);
    int code;

    if (!m)
        return talk_failed(&err);
    code = work(m, arg, &err);
    wn_model_close(m);
    return code;
}

void tell_warning(const struct wn_model *m)
{
    const char *warning = wn_model_warning(m);

    if (warning)
        talk("note: %s", warning);
}

bool context_fits(const struct wn_model *m, uint64_t tokens, struct wn_err *err)
{
    uint32_t most = wn_model_config(m)->context_length;

    return tokens <= most ||
           wn_fail(err, WN_ERR_ARG, "a context of %" PRIu64 " tokens is wanted, the model has %" PRIu32, tokens, most);
}

struct wn_pool *make_pool(struct wn_err *err)
{
    return wn_pool_new((unsigned)common.threads, err);
}
