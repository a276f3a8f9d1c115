/*
 * winnow run: generation. Text streams to stdout as it comes; the ledger goes to stderr.
 */
#include "ledger.h"
#include "text_arg.h"

#include <limits.h>
#include <stdlib.h>
#include <winnow/machine.h>
#include <winnow/prune.h>

static struct {
    char *prompt, *ghosts;
    int tokens, context, top_k, special, ignore_eos;
    float temperature, top_p, min_p;
    long long seed;
} o = {.tokens = 128, .context = OPT_UNSET, .top_p = 1};

static const struct poptOption table[] = {
    {"prompt", 'p', POPT_ARG_STRING, &o.prompt, 0, "the text to go on from ('-': stdin)", "TEXT"},
    {"tokens", 'n', POPT_ARG_INT, &o.tokens, 0, "tokens to generate at most (default 128)", "N"},
    {"ctx", 'c', POPT_ARG_INT, &o.context, 0, "tokens of context (default: what prompt and answer need)", "N"},
    {"temperature", 'T', POPT_ARG_FLOAT, &o.temperature, 0, "0 (the default): always the most probable token", "X"},
    {"top-k", 0, POPT_ARG_INT, &o.top_k, 0, "choose among the K most probable (default: all)", "K"},
    {"top-p", 0, POPT_ARG_FLOAT, &o.top_p, 0, "choose among the most probable that make up P (default 1: all)", "P"},
    {"min-p", 0, POPT_ARG_FLOAT, &o.min_p, 0, "drop those below P times the most probable (default 0)", "P"},
    {"seed", 0, POPT_ARG_LONGLONG, &o.seed, 0, "seed of the choice (default 0)", "N"},
    {"ghosts", 0, POPT_ARG_STRING, &o.ghosts, 0, GHOSTS_HELP, "MODE"},
    {"special", 0, POPT_ARG_NONE, &o.special, 0, "spelled special tokens in the prompt become their ids", NULL},
    {"ignore-eos", 0, POPT_ARG_NONE, &o.ignore_eos, 0, "go on after the end-of-message token", NULL},
    POPT_TABLEEND};

struct generation {
    const struct wn_model *model;
    const struct wn_vocab *vocab;
    struct wn_inspection in;
    uint32_t *prompt;
    uint32_t *ids; /* generated, [o.tokens] */
    struct ledger ledger;
    unsigned threads;
    struct wn_job job;
    struct wn_utf8_stream utf8;
    bool wrong_call; /* what failed can be told from the command line alone */
};

/* The text of one token to stdout; a character that is not complete yet waits for its rest. */
static bool print_token(struct generation *g, uint32_t id, struct wn_err *err)
{
    size_t n, m;
    const char *bytes = wn_vocab_token(g->vocab, id, &n);
    char *out = malloc(3 * (n + 4));

    if (!out)
        return wn_fail(err, WN_ERR_NOMEM, "out of memory: a token of %zu bytes", n);
    m = wn_utf8_stream(&g->utf8, bytes ? bytes : "", n, out);
    if (!say_text(out, m) || fflush(stdout) != 0) {
        free(out);
        return wn_fail(err, WN_ERR_IO, "standard output could not be written");
    }
    free(out);
    return true;
}

static bool print_held(struct generation *g)
{
    char out[16];
    size_t m = wn_utf8_stream(&g->utf8, "", 0, out);

    return say_text(out, m);
}

static bool tell_prompt(const struct generation *g, uint64_t done)
{
    struct wn_progress p = {
        .phase = "reading the prompt", .done = done, .total = g->ledger.prompt_tokens, .unit = "tokens"};

    return g->job.progress(g->job.arg, &p);
}

/* wn_watch_fn, while the prompt is read: so that Ctrl-C need not wait for the end of it. */
static bool on_prompt_layer(void *arg, uint64_t position, uint32_t layer)
{
    (void)layer;
    return tell_prompt(arg, position);
}

/* And while a token is computed. */
static bool on_layer(void *arg, uint64_t position, uint32_t layer)
{
    (void)arg;
    (void)position;
    (void)layer;
    return !interrupted();
}

static bool read_prompt(struct generation *g, struct wn_session *s, struct wn_err *err)
{
    bool ok;

    meter_start(&g->ledger.prompt);
    wn_session_watch(s, on_prompt_layer, g);
    ok = wn_session_feed(s, g->prompt, g->ledger.prompt_tokens, NULL, NULL, err);
    meter_stop(&g->ledger.prompt);
    wn_session_routing(s, &g->ledger.answered); /* of the prompt, until the end */
    (void)tell_prompt(g, g->ledger.prompt_tokens);
    return ok;
}

static bool generate(struct generation *g, struct wn_session *s, struct wn_sampler *sampler, struct wn_err *err)
{
    int64_t eos = wn_model_config(g->model)->eos_id;
    size_t *count = &g->ledger.tokens;

    wn_session_watch(s, on_layer, NULL);
    while (*count < (size_t)o.tokens && !interrupted()) {
        uint32_t id;

        if (!wn_sampler_next(sampler, wn_session_logits(s), &id, err))
            return false;
        if ((int64_t)id == eos && !o.ignore_eos) {
            g->ledger.ended = true;
            break;
        }
        g->ids[(*count)++] = id;
        if (!common.json && !print_token(g, id, err))
            return false;
        /* stopped in a layer: what was generated until then is the result */
        if (*count < (size_t)o.tokens && !wn_session_feed(s, &id, 1, NULL, NULL, err))
            return interrupted();
    }
    return true;
}

static bool compute(struct generation *g, struct wn_session *s, struct wn_sampler *sampler, struct wn_err *err)
{
    bool ok = read_prompt(g, s, err);

    if (!ok)
        return false;
    meter_start(&g->ledger.generation);
    ok = generate(g, s, sampler, err);
    meter_stop(&g->ledger.generation);
    ledger_routed(&g->ledger, s);
    g->ledger.peak = wn_peak_memory();
    return ok;
}

/* What the figures depend on besides model and prompt. */
static json_t *json_options(const struct generation *g)
{
    json_t *j = json_pack("{sI sI sb sb ss}", "tokens", (json_int_t)o.tokens, "threads", (json_int_t)g->threads,
                          "special", o.special, "ignore_eos", o.ignore_eos, "ghosts", wn_ghosts_name(g->ledger.ghosts));

    j = json_put(j, "ctx", o.context == OPT_UNSET ? json_null() : json_integer(o.context));
    j = json_put(j, "temperature", json_real((double)o.temperature));
    j = json_put(j, "top_k", json_integer(o.top_k));
    j = json_put(j, "top_p", json_real((double)o.top_p));
    j = json_put(j, "min_p", json_real((double)o.min_p));
    return json_put(j, "seed", json_integer(o.seed));
}

static int report_json(const struct generation *g, struct wn_err *err)
{
    char record[65];

    const char *finish = g->ledger.ended ? "eos" : interrupted() ? "interrupted" : "length";
    size_t n;
    char *text = wn_vocab_decode(g->vocab, g->ids, g->ledger.tokens, &n, err);
    json_t *ids = json_array(), *j;

    if (!text) {
        json_decref(ids);
        return talk_failed(err);
    }
    for (size_t i = 0; i < g->ledger.tokens; i++)
        ids = json_add(ids, json_integer(g->ids[i]));
    j = json_pack("{so so ss}", "text", json_bytes(text, n), "ids", ids, "finish", finish);
    j = json_put(j, "model", json_text(wn_model_path(g->model)));
    j = json_put(j, "model_fingerprint", json_text(g->in.fingerprint));
    wn_record_sha256(g->model, record);
    j = json_put(json_put_record(j, record), "options", json_options(g));
    free(text);
    return print_json(json_ledger(j, &g->ledger, &g->in));
}

static int report(struct generation *g, struct wn_err *err)
{
    int code;

    if (common.json) {
        code = report_json(g, err);
    } else {
        if (!print_held(g))
            return EXIT_FAILED;
        (void)say_line_end();
        code = finish_output();
        tell_ledger(&g->ledger, &g->in);
    }
    return interrupted() ? EXIT_INTERRUPTED : code;
}

static bool prepare(struct generation *g, struct wn_session_options *s, struct wn_err *err)
{
    size_t n, need;
    char *text = text_argument(o.prompt, &n, err);
    bool ok;

    if (!text)
        return false;
    g->vocab = wn_model_vocab(g->model, err);
    ok = g->vocab && wn_vocab_encode(g->vocab, text, n, o.special, &g->prompt, &g->ledger.prompt_tokens, err);
    free(text);
    if (!ok)
        return false;
    tell_warning(g->model);
    g->ledger.ghosts = wn_model_ghosts(g->model);
    if (g->ledger.prompt_tokens == 0)
        return wn_fail(err, WN_ERR_ARG, "the prompt is empty: there is nothing to go on from");
    need = g->ledger.prompt_tokens + (size_t)o.tokens;
    if (need > UINT32_MAX)
        return wn_fail(err, WN_ERR_ARG, "%zu tokens are more than a session can hold", need);
    s->context = o.context == OPT_UNSET ? (uint32_t)need : (uint32_t)o.context;
    g->wrong_call = s->context < need;
    if (g->wrong_call)
        return wn_fail(err, WN_ERR_ARG, "--ctx %u is less than the prompt's %zu tokens and the answer's %d", s->context,
                       g->ledger.prompt_tokens, o.tokens);
    if (!context_fits(g->model, s->context, err))
        return false;
    g->ids = calloc((size_t)o.tokens + 1, sizeof *g->ids);
    return g->ids || wn_fail(err, WN_ERR_NOMEM, "out of memory: %d tokens", o.tokens);
}

/*
 * The session, from an open model: what it takes is told when it is known to the byte and nothing large is taken yet.
 */
static bool run_session(struct generation *g, const struct wn_session_options *so, struct wn_pool *pool,
                        struct wn_err *err)
{
    struct wn_sampling sampling = {o.temperature, (uint32_t)o.top_k, o.top_p, o.min_p, (uint64_t)o.seed};
    const struct wn_config *c = wn_model_config(g->model);
    uint64_t held = wn_resident_memory();
    struct wn_weights *w = wn_weights_load(g->model, err);
    struct wn_session *s = NULL;
    struct wn_sampler *sampler = NULL;
    bool ok;

    if (w)
        g->ledger.told = tell_memory(&g->in, w, c, so, wn_pool_threads(pool), held);
    ok = w && (s = wn_session_new(g->model, w, pool, so, err)) &&
         (sampler = wn_sampler_new(&sampling, c->vocab_size, err)) && compute(g, s, sampler, err);
    wn_sampler_free(sampler);
    wn_session_free(s);
    wn_weights_free(w);
    return ok;
}

static int run_model(const char *path, enum wn_ghosts ghosts, struct wn_err *err)
{
    struct wn_model *m = open_model(path, ghosts, err);
    struct generation g = {.model = m, .job = talk_job()};
    struct wn_session_options so = {0};
    struct wn_pool *pool = NULL;
    bool ok = m && prepare(&g, &so, err) && wn_model_inspect(m, &g.in, err) && (pool = make_pool(err)) &&
              run_session(&g, &so, pool, err);
    int code;

    g.threads = pool ? wn_pool_threads(pool) : 0;
    code = ok ? report(&g, err) : talk_failed(err);
    if (g.wrong_call)
        code = EXIT_USAGE;
    wn_pool_free(pool);
    wn_inspection_release(&g.in);
    wn_model_close(m);
    free(g.prompt);
    free(g.ids);
    return code;
}

static int run(const struct command *self, int argc, const char **argv)
{
    struct wn_err err;
    enum wn_ghosts ghosts;
    const char **args;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 0, 1, &args, &n, &code))
        return code;
    if (!opt_ghosts(self, o.ghosts, &ghosts))
        return EXIT_USAGE;
    if (!o.prompt)
        return opt_wrong(self, "--prompt is missing");
    if (o.tokens < 0 || o.top_k < 0)
        return opt_wrong(self, "--tokens and --top-k are not negative");
    if (o.context != OPT_UNSET && o.context < 1)
        return opt_wrong(self, "--ctx %d: at least 1 is wanted", o.context);
    if (!(o.temperature >= 0 && o.temperature <= 1e6f))
        return opt_wrong(self, "--temperature %g: 0 to 1000000 is wanted", (double)o.temperature);
    if (!(o.top_p > 0 && o.top_p <= 1) || !(o.min_p >= 0 && o.min_p <= 1))
        return opt_wrong(self, "--top-p is above 0 and at most 1, --min-p 0 to 1");
    return run_model(args[0], ghosts, &err);
}

const struct command cmd_run = {"run", "[MODEL] -p TEXT [OPTIONS]", "generate text from a prompt", run,
                                "k3-mini --prompt \"The purpose of this chapter\" --tokens 64"};
