/*
 * winnow eval: perplexity per domain over fixed windows, and what a cut costs against its parent.
 */
#include "cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/eval.h>
#include <winnow/prune.h>

#define MAX_TEXTS      64
#define DEFAULT_WINDOW 512

static struct {
    const char **texts;
    char *against, *masked, *plan, *work, *ram, *ghosts, *saliency;
    int window, stream, fresh, force_plan;
    long long max_windows;
} o = {.window = OPT_UNSET, .max_windows = OPT_UNSET};

static const struct poptOption table[] = {
    {"text", 'x', POPT_ARG_ARGV, &o.texts, 0, "a text to score, named by its domain; may be given again",
     "[DOMAIN=]FILE"},
    {"against", 'a', POPT_ARG_STRING, &o.against, 0, "the model that it was cut from: divergence and misrouting",
     "PARENT"},
    {"masked", 'm', POPT_ARG_STRING, &o.masked, 0, "MODEL is whole: score what this plan would make of it",
     "PLAN.json"},
    {"ghosts", 0, POPT_ARG_STRING, &o.ghosts, 0, GHOSTS_HELP, "MODE"},
    {"saliency", 0, POPT_ARG_STRING, &o.saliency, 0, "with --masked and --ghosts mean: where the means are", "SAL.npz"},
    {"force-plan", 0, POPT_ARG_NONE, &o.force_plan, 0, "with --masked: accept a plan, or means, of another model",
     NULL},
    {"plan", 'p', POPT_ARG_STRING, &o.plan, 0, "what MODEL was cut by, where it does not tell itself", "PLAN.json"},
    {"window", 'w', POPT_ARG_INT, &o.window, 0, "tokens per window (default 512)", "N"},
    {"max-windows", 'n', POPT_ARG_LONGLONG, &o.max_windows, 0, "score at most this many windows of each text", "N"},
    {"stream", 0, POPT_ARG_NONE, &o.stream, 0, "one layer at a time, for models larger than memory", NULL},
    {"work", 0, POPT_ARG_STRING, &o.work, 0, "folder of --stream's resumable state (default: " WN_EVAL_WORK ")", "DIR"},
    {"fresh", 0, POPT_ARG_NONE, &o.fresh, 0, "with --stream: start anew, whatever an earlier run left", NULL},
    {"ram", 0, POPT_ARG_STRING, &o.ram, 0, "refuse to start when more memory would be needed", "SIZE"},
    POPT_TABLEEND};

/*
 * "en=heldout.txt" names its domain; a bare file is its own name without folder and ending (*made, to be freed). False,
 * with the reason said, when one of the two is empty.
 */
static bool read_text(const struct command *self, char *arg, struct wn_eval_text *text, char **made)
{
    char *equals = strchr(arg, '='), *slash, *name, *dot;

    if (equals && !memchr(arg, '/', (size_t)(equals - arg))) {
        if (equals == arg || !equals[1])
            return opt_wrong(self, "--text %s: DOMAIN=FILE is wanted, and the %s is empty", arg,
                             equals == arg ? "domain" : "file"),
                   false;
        *equals = '\0';
        *text = (struct wn_eval_text){arg, equals + 1};
        return true;
    }
    slash = strrchr(arg, '/');
    *made = name = strdup(slash ? slash + 1 : arg);
    if (name && (dot = strrchr(name, '.')) && dot != name)
        *dot = '\0';
    *text = (struct wn_eval_text){name ? name : arg, arg};
    return true;
}

/* ---- JSON ---- */

/* Mean divergence of each window, so that two results over the same windows can be compared in pairs. */
static struct {
    json_t *of[MAX_TEXTS]; /* owned until the document takes them */
    double sum;            /* of the window at hand */
    uint32_t n;
} windows;

/* wn_eval_token_fn; tokens come in the order of texts and windows, position by position. */
static void note_token(void *arg, const struct wn_eval_token *t)
{
    const struct wn_eval_options *e = arg;
    uint32_t predicted = (e->window ? e->window : DEFAULT_WINDOW) - 1;

    windows.sum += t->kld;
    if (++windows.n < predicted)
        return;
    if (!windows.of[t->text])
        windows.of[t->text] = json_array();
    windows.of[t->text] = json_add(windows.of[t->text], json_real(windows.sum / predicted));
    windows.sum = 0;
    windows.n = 0;
}

/* key, and key_interval where there is one; null: not known. */
static json_t *put_figure(json_t *j, const char *key, const struct wn_eval_figure *f)
{
    char interval[64];

    (void)snprintf(interval, sizeof interval, "%s_interval", key);
    j = json_put(j, key, isnan(f->value) ? json_null() : json_real(f->value));
    return json_put(j, interval, isnan(f->low) ? json_null() : json_pack("[f, f]", f->low, f->high));
}

static json_t *put_against(json_t *j, const struct wn_eval_against *a)
{
    j = json_put(j, "parent_nll", json_real(a->nll));
    j = json_put(j, "parent_perplexity", json_real(a->perplexity));
    j = put_figure(j, "ppl_ratio", &a->ratio);
    j = put_figure(j, "kld_mean", &a->kld);
    j = put_figure(j, "kld_median", &a->kld_median);
    j = put_figure(j, "kld_p90", &a->kld_p90);
    j = put_figure(j, "kld_p99", &a->kld_p99);
    j = json_put(j, "kld_max", json_real(a->kld_max));
    j = put_figure(j, "argmax_agreement", &a->argmax);
    j = json_put(j, "argmax_same", json_integer((json_int_t)a->same));
    j = put_figure(j, "misroute", &a->misroute);
    return json_put(j, "routed", json_integer((json_int_t)a->routed));
}

static json_t *json_domain(const struct wn_eval_domain *d, const char *file)
{
    json_t *j = json_pack("{so}", "domain", json_text(d->domain));

    if (file) {
        j = json_put(j, "file", json_text(file));
        j = json_put(j, "sha256", json_text(d->sha256));
    }
    j = json_put(j, "tokens", json_integer((json_int_t)d->tokens));
    j = json_put(j, "windows", json_integer((json_int_t)d->windows));
    j = json_put(j, "predicted", json_integer((json_int_t)d->predicted));
    j = json_put(j, "nll", json_real(d->nll));
    j = json_put(j, "perplexity", json_real(d->perplexity));
    if (!isnan(d->ghosted)) {
        j = json_put(j, "ghosted", json_real(d->ghosted));
        j = json_put(j, "ghost_choices", json_real(d->ghost_choices));
    }
    return o.against ? put_against(j, &d->against) : j;
}

static json_t *with_windows(json_t *j, size_t text)
{
    json_t *list = windows.of[text];

    windows.of[text] = NULL;
    return list ? json_put(j, "kld_windows", list) : j;
}

static json_t *json_need(const struct wn_eval_need *n)
{
    return json_pack("{sI sI sI sI sI sI}", "weight_bytes", (json_int_t)n->weights, "scratch_bytes",
                     (json_int_t)n->scratch, "record_bytes", (json_int_t)n->records, "base_bytes", (json_int_t)n->base,
                     "peak_bytes", (json_int_t)n->peak, "disk_bytes", (json_int_t)n->disk);
}

static json_t *json_result(const struct wn_model *m, const char *parent, const struct wn_eval_options *e,
                           const struct wn_eval_result *r)
{
    json_t *a = json_array(), *j;
    char record[65];

    wn_record_sha256(m, record);
    for (size_t i = 0; i < e->text_count; i++)
        a = json_add(a, with_windows(json_domain(&r->domains[i], e->texts[i].path), i));
    j = json_pack("{so so sI sb}", "model", json_text(wn_model_path(m)), "model_fingerprint",
                  json_text(r->model_fingerprint), "window", (json_int_t)r->window, "streamed", o.stream);
    j = json_put_record(j, record);
    j = json_put(j, "max_windows", r->max_windows ? json_integer((json_int_t)r->max_windows) : json_null());
    if (parent) {
        j = json_put(j, "parent", json_text(parent));
        j = json_put(j, "parent_fingerprint", json_text(r->parent_fingerprint));
        j = json_put(j, "dropped_by", r->dropped ? json_text(r->dropped) : json_null());
        j = json_put(j, "documents", json_text("windows"));
        j = json_put(j, "resamples", json_integer(WN_EVAL_RESAMPLES));
    }
    if (o.plan || o.masked) {
        j = json_put(j, o.masked ? "masked" : "plan", json_text(o.masked ? o.masked : o.plan));
        j = json_put(j, "plan_sha256", json_text(r->plan_sha256));
    }
    j = json_put(j, "ghosts", json_text(wn_ghosts_name(r->ghosts)));
    j = json_put(j, "need", json_need(&r->need));
    j = json_put(j, "domains", a);
    return parent ? json_put(j, "overall", json_domain(&r->overall, NULL)) : j;
}

/* ---- tables ---- */

static void say_perplexity(const struct wn_eval_options *e, const struct wn_eval_result *r)
{
    say("%-16s %12s %10s %12s %10s\n", "domain", "perplexity", "nll", "predicted", "windows");
    for (size_t i = 0; i < e->text_count; i++) {
        const struct wn_eval_domain *d = &r->domains[i];

        say("%-16s %12.4f %10.5f %12" PRIu64 " %10" PRIu64 "\n", d->domain, d->perplexity, d->nll, d->predicted,
            d->windows);
    }
}

/* "0.01234 [0.01200, 0.01300]", in units of 1 / scale. */
static const char *text_figure(const struct wn_eval_figure *f, double scale, int places, char buf[64])
{
    if (isnan(f->value))
        (void)snprintf(buf, 64, "not known");
    else if (isnan(f->low))
        (void)snprintf(buf, 64, "%.*f", places, scale * f->value);
    else
        (void)snprintf(buf, 64, "%.*f [%.*f, %.*f]", places, scale * f->value, places, scale * f->low, places,
                       scale * f->high);
    return buf;
}

static void say_divergence(const struct wn_eval_domain *d)
{
    const struct wn_eval_against *a = &d->against;
    char kld[64], median[64], p90[64], p99[64];

    say("%-16s %26s %26s %26s %26s %9.5f\n", d->domain, text_figure(&a->kld, 1, 5, kld),
        text_figure(&a->kld_median, 1, 5, median), text_figure(&a->kld_p90, 1, 5, p90),
        text_figure(&a->kld_p99, 1, 5, p99), a->kld_max);
}

static void say_against(const struct wn_eval_domain *d)
{
    const struct wn_eval_against *a = &d->against;
    char ratio[64], same[64], lost[64];

    say("%-16s %11.4f %11.4f %25s %22s %22s %9" PRIu64 " %7" PRIu64 "\n", d->domain, d->perplexity, a->perplexity,
        text_figure(&a->ratio, 1, 4, ratio), text_figure(&a->argmax, 100, 2, same),
        text_figure(&a->misroute, 100, 2, lost), d->predicted, d->windows);
}

static void say_comparison(const struct wn_eval_options *e, const struct wn_eval_result *r)
{
    bool few = false;

    say("%-16s %26s %26s %26s %26s %9s\n", "KLD, nats", "mean", "median", "p90", "p99", "max");
    for (size_t i = 0; i < e->text_count; i++)
        say_divergence(&r->domains[i]);
    say_divergence(&r->overall);
    say("\n%-16s %11s %11s %25s %22s %22s %9s %7s\n", "domain", "perplexity", "parent's", "ratio", "same best, %",
        "misrouted, %", "predicted", "windows");
    for (size_t i = 0; i < e->text_count; i++) {
        say_against(&r->domains[i]);
        few |= r->domains[i].windows < WN_EVAL_FEWEST_WINDOWS;
    }
    say_against(&r->overall);
    say("\n[95 %% intervals: %d draws of the windows, which are the documents here%s]\n", WN_EVAL_RESAMPLES,
        few ? "; none for fewer than 10" : "");
    if (!r->dropped)
        say("[misrouted is not known: --plan names the plan that the model was cut by]\n");
}

static void say_ghosts(const struct wn_eval_options *e, const struct wn_eval_result *r)
{
    say("\n%-16s %16s %16s\n", "ghosts", "of the mass, %", "of choices, %");
    for (size_t i = 0; i <= e->text_count; i++) {
        const struct wn_eval_domain *d = i < e->text_count ? &r->domains[i] : &r->overall;

        say("%-16s %16.2f %16.2f\n", d->domain, 100 * d->ghosted, 100 * d->ghost_choices);
    }
    say("[ghosts: '%s'; the share of the model's own routing that went to dropped experts]\n",
        wn_ghosts_name(r->ghosts));
}

/* ---- the job ---- */

/* wn_eval_need_fn */
static bool tell_need(void *arg, const struct wn_eval_need *n)
{
    char peak[32], weights[32], disk[32];

    (void)arg;
    if (n->disk)
        talk("%" PRIu64 " tokens; memory %s at most (largest layer %s), %s of activations on disk", n->tokens,
             text_size(n->peak, peak, sizeof peak), text_size(n->weights, weights, sizeof weights),
             text_size(n->disk, disk, sizeof disk));
    else
        talk("%" PRIu64 " tokens; memory %s at most (weights %s)", n->tokens, text_size(n->peak, peak, sizeof peak),
             text_size(n->weights, weights, sizeof weights));
    return !interrupted();
}

static int show(const struct wn_model *m, const char *parent, const struct wn_eval_options *e, struct wn_eval_result *r)
{
    if (common.json)
        return print_json(json_result(m, parent, e, r));
    if (parent)
        say_comparison(e, r);
    else
        say_perplexity(e, r);
    if (r->ghosts != WN_GHOSTS_OFF)
        say_ghosts(e, r);
    return finish_output();
}

static int score(const char *path, const char *parent, const struct wn_eval_options *asked, struct wn_err *err)
{
    struct wn_eval_options e = *asked;
    struct wn_eval_result r;
    struct wn_job job = talk_job();
    struct wn_model *m = open_model(path, o.masked ? WN_GHOSTS_BUILT : e.ghosts, err);
    struct wn_model *against = m && parent ? wn_model_open(parent, err) : NULL;
    struct wn_pool *pool = m && (!parent || against) ? make_pool(err) : NULL;
    bool ok;
    int code;

    e.against = against;
    e.ghosts = o.masked ? e.ghosts : WN_GHOSTS_BUILT;
    if (parent && common.json) {
        e.token = note_token;
        e.token_arg = &e;
    }
    ok = pool && context_fits(m, e.window, err) && wn_eval(m, pool, &e, &job, &r, err);
    wn_pool_free(pool);
    wn_model_close(against);
    talk_end_line();
    code = ok ? show(m, parent, &e, &r) : talk_failed(err);
    if (ok)
        wn_eval_result_release(&r);
    wn_model_close(m);
    return code;
}

/* False, with the reason said, when options do not go together. */
static bool check_call(const struct command *self, struct wn_eval_options *e)
{
    if (!o.texts)
        return opt_wrong(self, "--text names what to score"), false;
    if (o.window != OPT_UNSET && o.window < 2)
        return opt_wrong(self, "--window %d: at least 2 is wanted", o.window), false;
    if (o.max_windows != OPT_UNSET && o.max_windows < 1)
        return opt_wrong(self, "--max-windows %lld: at least 1 is wanted; without it all are scored", o.max_windows),
               false;
    if (o.plan && o.masked)
        return opt_wrong(self, "--masked brings its plan: --plan is for a model that is cut already"), false;
    if (o.plan && !o.against)
        return opt_wrong(self, "--plan tells what was dropped of a parent: --against names it"), false;
    if (!opt_ghosts(self, o.ghosts, &e->ghosts))
        return false;
    if (o.saliency && (!o.masked || e->ghosts != WN_GHOSTS_MEAN))
        return opt_wrong(self, "--saliency is for --masked with --ghosts mean"), false;
    if (o.masked && e->ghosts == WN_GHOSTS_MEAN && !o.saliency)
        return opt_wrong(self, "--ghosts mean: --saliency names the archive with the means"), false;
    if (o.force_plan && !o.masked)
        return opt_wrong(self, "--force-plan is for --masked"), false;
    if ((o.work || o.fresh) && !o.stream)
        return opt_wrong(self, "--%s is for --stream", o.work ? "work" : "fresh"), false;
    return opt_ram(self, o.ram, &e->ram);
}

static int run(const struct command *self, int argc, const char **argv)
{
    struct wn_eval_text texts[MAX_TEXTS];
    struct wn_eval_options e = {.texts = texts, .told = tell_need};
    struct wn_err err;
    char *made[MAX_TEXTS] = {0}, *parent;
    const char **args;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 0, 1, &args, &n, &code))
        return code;
    if (!check_call(self, &e))
        return EXIT_USAGE;
    e.window = o.window == OPT_UNSET ? 0 : (uint32_t)o.window;
    e.max_windows = o.max_windows == OPT_UNSET ? 0 : (uint64_t)o.max_windows;
    e.masked = o.masked;
    e.plan = o.plan;
    e.force_plan = o.force_plan;
    e.saliency = o.saliency;
    e.stream = o.stream;
    e.work = o.work;
    e.fresh = o.fresh;
    while (o.texts[e.text_count])
        if (++e.text_count > MAX_TEXTS)
            return opt_wrong(self, "at most %d texts", MAX_TEXTS);
    code = EXIT_DONE;
    for (size_t i = 0; code == EXIT_DONE && i < e.text_count; i++)
        if (!read_text(self, (char *)(uintptr_t)o.texts[i], &texts[i], &made[i]))
            code = EXIT_USAGE;
    if (code == EXIT_DONE) {
        parent = o.against ? strdup(model_path(o.against)) : NULL; /* the next answer takes its place */
        code = score(model_path(args[0]), parent, &e, &err);
        free(parent);
    }
    for (size_t i = 0; i < MAX_TEXTS; i++)
        free(made[i]);
    return code;
}

const struct command cmd_eval = {"eval", "[MODEL] --text [DOMAIN=]FILE ... [OPTIONS]",
                                 "measure perplexity per domain, and what a cut costs against its parent", run,
                                 "pruned --against k3-mini --text en=heldout-en.txt --text code=heldout-code.txt"};
