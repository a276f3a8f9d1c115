/*
 * winnow eval: perplexity per domain over fixed windows.
 */
#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/eval.h>

#define MAX_TEXTS 64

static struct {
    const char **texts;
    int window;
    long long max_windows;
} o;

static const struct poptOption table[] = {
    {"text", 'x', POPT_ARG_ARGV, &o.texts, 0, "a text to score, named by its domain; may be given again",
     "[DOMAIN=]FILE"},
    {"window", 'w', POPT_ARG_INT, &o.window, 0, "tokens per window (default 512)", "N"},
    {"max-windows", 'n', POPT_ARG_LONGLONG, &o.max_windows, 0, "score at most this many windows of each text", "N"},
    POPT_TABLEEND};

/* "en=heldout.txt" names its domain; a bare file is its own name without folder and ending (*made, to be freed). */
static struct wn_eval_text text_of(char *arg, char **made)
{
    char *equals = strchr(arg, '='), *slash, *name, *dot;

    if (equals && equals != arg && !memchr(arg, '/', (size_t)(equals - arg))) {
        *equals = '\0';
        return (struct wn_eval_text){arg, equals + 1};
    }
    slash = strrchr(arg, '/');
    *made = name = strdup(slash ? slash + 1 : arg);
    if (name && (dot = strrchr(name, '.')) && dot != name)
        *dot = '\0';
    return (struct wn_eval_text){name ? name : arg, arg};
}

static json_t *json_results(const char *path, const struct wn_eval_options *e, const struct wn_eval_domain *r)
{
    json_t *a = json_array();

    for (size_t i = 0; i < e->text_count; i++)
        a = json_add(a, json_pack("{so so sI sI sI sf sf}", "domain", json_text(r[i].domain), "file",
                                  json_text(e->texts[i].path), "tokens", (json_int_t)r[i].tokens, "windows",
                                  (json_int_t)r[i].windows, "predicted", (json_int_t)r[i].predicted, "nll", r[i].nll,
                                  "perplexity", r[i].perplexity));
    return json_pack("{so sI so}", "model", json_text(path), "window", (json_int_t)(e->window ? e->window : 512),
                     "domains", a);
}

static int score(const char *path, const struct wn_eval_options *e, struct wn_err *err)
{
    struct wn_eval_domain r[MAX_TEXTS];
    struct wn_job job = talk_job();
    struct wn_model *m = wn_model_open(path, err);
    struct wn_weights *w = m && context_fits(m, e->window, err) ? wn_weights_load(m, err) : NULL;
    struct wn_pool *pool = w ? make_pool(err) : NULL;
    bool ok = pool && wn_eval(m, w, pool, e, &job, r, err);

    wn_pool_free(pool);
    wn_weights_free(w);
    wn_model_close(m);
    talk_end_line();
    if (!ok)
        return talk_failed(err);
    if (common.json)
        return print_json(json_results(path, e, r));
    say("%-16s %12s %10s %12s %10s\n", "domain", "perplexity", "nll", "predicted", "windows");
    for (size_t i = 0; i < e->text_count; i++)
        say("%-16s %12.4f %10.5f %12" PRIu64 " %10" PRIu64 "\n", r[i].domain, r[i].perplexity, r[i].nll, r[i].predicted,
            r[i].windows);
    return finish_output();
}

static int run(const struct command *self, int argc, const char **argv)
{
    struct wn_eval_text texts[MAX_TEXTS];
    struct wn_eval_options e = {.texts = texts};
    struct wn_err err;
    char *made[MAX_TEXTS] = {0};
    const char **args;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 0, 1, &args, &n, &code))
        return code;
    if (!o.texts)
        return opt_wrong(self, "--text names what to score");
    if (o.window < 0 || o.window == 1 || o.max_windows < 0)
        return opt_wrong(self, "--window is at least 2, --max-windows not negative");
    e.window = (uint32_t)o.window;
    e.max_windows = (uint64_t)o.max_windows;
    while (o.texts[e.text_count])
        if (++e.text_count > MAX_TEXTS)
            return opt_wrong(self, "at most %d texts", MAX_TEXTS);
    for (size_t i = 0; i < e.text_count; i++)
        texts[i] = text_of((char *)(uintptr_t)o.texts[i], &made[i]);
    code = score(model_path(args[0]), &e, &err);
    for (size_t i = 0; i < e.text_count; i++)
        free(made[i]);
    return code;
}

const struct command cmd_eval = {"eval", "[MODEL] --text [DOMAIN=]FILE ... [OPTIONS]",
                                 "measure perplexity per domain over fixed windows", run,
                                 "k3-mini --text en=heldout-en.txt --text code=heldout-code.txt --window 512"};
