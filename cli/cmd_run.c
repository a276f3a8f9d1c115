/*
 * winnow run: generation. Text streams to stdout as it comes; the ledger goes to stderr.
 */
#include "cli.h"
#include "text_arg.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <winnow/session.h>

static struct {
    char *prompt;
    int tokens, context, top_k, special, ignore_eos;
    float temperature, top_p, min_p;
    long long seed;
} o = {.tokens = 128, .top_p = 1};

static const struct poptOption table[] = {
    {"prompt", 'p', POPT_ARG_STRING, &o.prompt, 0, "the text to go on from ('-': stdin)", "TEXT"},
    {"tokens", 'n', POPT_ARG_INT, &o.tokens, 0, "tokens to generate at most (default 128)", "N"},
    {"ctx", 'c', POPT_ARG_INT, &o.context, 0, "tokens of context (default: what prompt and answer need)", "N"},
    {"temperature", 'T', POPT_ARG_FLOAT, &o.temperature, 0, "0 (the default): always the most probable token", "X"},
    {"top-k", 0, POPT_ARG_INT, &o.top_k, 0, "choose among the K most probable (default: all)", "K"},
    {"top-p", 0, POPT_ARG_FLOAT, &o.top_p, 0, "choose among the most probable that make up P (default 1: all)", "P"},
    {"min-p", 0, POPT_ARG_FLOAT, &o.min_p, 0, "drop those below P times the most probable (default 0)", "P"},
    {"seed", 0, POPT_ARG_LONGLONG, &o.seed, 0, "seed of the choice (default 0)", "N"},
    {"special", 0, POPT_ARG_NONE, &o.special, 0, "spelled special tokens in the prompt become their ids", NULL},
    {"ignore-eos", 0, POPT_ARG_NONE, &o.ignore_eos, 0, "go on after the end-of-message token", NULL},
    POPT_TABLEEND};

struct generation {
    const struct wn_model *model;
    const struct wn_vocab *vocab;
    uint32_t *prompt;
    size_t prompt_count;
    uint32_t *ids; /* generated, [o.tokens] */
    size_t count;
    bool ended; /* by the end-of-message token */
    double prompt_seconds, seconds;
    struct wn_utf8_stream utf8;
};

static double now(void)
{
    struct timespec t;

    return clock_gettime(CLOCK_MONOTONIC, &t) == 0 ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec : 0;
}

/* The text of one token to stdout; a character that is not complete yet waits for its rest. */
static bool print_token(struct generation *g, uint32_t id, struct wn_err *err)
{
    size_t n, m;
    const char *bytes = wn_vocab_token(g->vocab, id, &n);
    char *out = malloc(3 * (n + 4));

    if (!out)
        return wn_fail(err, WN_ERR_NOMEM, "out of memory: a token of %zu bytes", n);
    m = wn_utf8_stream(&g->utf8, bytes ? bytes : "", n, out);
    if (fwrite(out, 1, m, stdout) != m || fflush(stdout) != 0) {
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

    return fwrite(out, 1, m, stdout) == m;
}

static bool generate(struct generation *g, struct wn_session *s, struct wn_sampler *sampler, struct wn_err *err)
{
    int64_t eos = wn_model_config(g->model)->eos_id;
    double start = now();

    if (!wn_session_feed(s, g->prompt, g->prompt_count, NULL, NULL, err))
        return false;
    g->prompt_seconds = now() - start;
    start = now();
    while (g->count < (size_t)o.tokens && !interrupted()) {
        uint32_t id;

        if (!wn_sampler_next(sampler, wn_session_logits(s), &id, err))
            return false;
        if ((int64_t)id == eos && !o.ignore_eos) {
            g->ended = true;
            break;
        }
        g->ids[g->count++] = id;
        if (!common.json && !print_token(g, id, err))
            return false;
        if (g->count < (size_t)o.tokens && !wn_session_feed(s, &id, 1, NULL, NULL, err))
            return false;
    }
    g->seconds = now() - start;
    return true;
}

/* What it takes, before anything of it is taken: pages of the files that stay in memory, and what the session owns. */
static void tell_memory(const struct wn_inspection *in, const struct wn_config *c, const struct wn_session_options *so,
                        const struct wn_pool *pool)
{
    char weights[32], session[32], state[32], cache[32], scratch[32];
    struct wn_session_memory n;

    wn_session_need(c, so, wn_pool_threads(pool), &n);
    talk("memory: %s of weights, mapped; %s of the session's own (state %s, cache of %" PRIu32
         " tokens %s, scratch %s)",
         text_size(in->tensor_bytes - in->class_bytes[WN_CLASS_VISION], weights, sizeof weights),
         text_size(n.state + n.cache + n.scratch, session, sizeof session), text_size(n.state, state, sizeof state),
         so->context, text_size(n.cache, cache, sizeof cache), text_size(n.scratch, scratch, sizeof scratch));
}

static int report(struct generation *g, uint64_t token_bytes, struct wn_err *err)
{
    double in = g->prompt_seconds > 0 ? (double)g->prompt_count / g->prompt_seconds : 0;
    double out = g->seconds > 0 ? (double)g->count / g->seconds : 0;
    char size[32];
    int code;

    if (common.json) {
        json_t *ids = json_array();
        size_t n;
        char *text = wn_vocab_decode(g->vocab, g->ids, g->count, &n, err), *clean;
        struct wn_utf8_stream u = {0};
        size_t m = 0;

        if (!text || !(clean = malloc(3 * (n + 8)))) {
            free(text);
            json_decref(ids);
            return talk_failed(err);
        }
        m = wn_utf8_stream(&u, text, n, clean);
        m += wn_utf8_stream(&u, "", 0, clean + m);
        for (size_t i = 0; i < g->count; i++)
            json_array_append_new(ids, json_integer(g->ids[i]));
        code = print_json(json_pack("{so so ss sI sI sf sf sI}", "text", json_stringn(clean, m), "ids", ids, "finish",
                                    g->ended        ? "eos"
                                    : interrupted() ? "interrupted"
                                                    : "length",
                                    "prompt_tokens", (json_int_t)g->prompt_count, "tokens", (json_int_t)g->count,
                                    "prompt_tokens_per_second", in, "tokens_per_second", out, "token_bytes",
                                    (json_int_t)token_bytes));
        free(clean);
        free(text);
    } else {
        if (!print_held(g))
            return EXIT_FAILED;
        putchar('\n');
        code = finish_output();
        talk("%zu prompt tokens at %.1f/s, %zu generated at %.1f/s; %s read per token, %.2f GB/s%s", g->prompt_count,
             in, g->count, out, text_size(token_bytes, size, sizeof size), out * (double)token_bytes * 1e-9,
             g->ended ? "; ended by the model" : "");
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
    ok = g->vocab && wn_vocab_encode(g->vocab, text, n, o.special, &g->prompt, &g->prompt_count, err);
    free(text);
    if (!ok)
        return false;
    tell_warning(g->model);
    if (g->prompt_count == 0)
        return wn_fail(err, WN_ERR_ARG, "the prompt is empty: there is nothing to go on from");
    need = g->prompt_count + (size_t)o.tokens;
    if (need > UINT32_MAX)
        return wn_fail(err, WN_ERR_ARG, "%zu tokens are more than a session can hold", need);
    s->context = o.context ? (uint32_t)o.context : (uint32_t)need;
    if (s->context < need)
        return wn_fail(err, WN_ERR_ARG, "--ctx %u is less than the prompt's %zu tokens and the answer's %d", s->context,
                       g->prompt_count, o.tokens);
    if (!context_fits(g->model, s->context, err))
        return false;
    g->ids = calloc((size_t)o.tokens + 1, sizeof *g->ids);
    return g->ids || wn_fail(err, WN_ERR_NOMEM, "out of memory: %d tokens", o.tokens);
}

static int run_model(const char *path, struct wn_err *err)
{
    struct wn_sampling sampling = {o.temperature, (uint32_t)o.top_k, o.top_p, o.min_p, (uint64_t)o.seed};
    struct generation g = {.model = wn_model_open(path, err)};
    struct wn_session_options so = {0};
    struct wn_inspection in = {0};
    struct wn_weights *w = NULL;
    struct wn_pool *pool = NULL;
    struct wn_session *s = NULL;
    struct wn_sampler *sampler = NULL;
    bool ok = g.model && prepare(&g, &so, err) && wn_inspect(path, &in, err) && (pool = make_pool(err));
    int code;

    if (ok)
        tell_memory(&in, wn_model_config(g.model), &so, pool);
    ok = ok && (w = wn_weights_load(g.model, err)) && (s = wn_session_new(g.model, w, pool, &so, err)) &&
         (sampler = wn_sampler_new(&sampling, wn_model_config(g.model)->vocab_size, err)) &&
         generate(&g, s, sampler, err);
    code = ok ? report(&g, in.token_bytes, err) : talk_failed(err);
    wn_sampler_free(sampler);
    wn_session_free(s);
    wn_pool_free(pool);
    wn_weights_free(w);
    wn_inspection_release(&in);
    wn_model_close((struct wn_model *)(uintptr_t)g.model);
    free(g.prompt);
    free(g.ids);
    return code;
}

static int run(const struct command *self, int argc, const char **argv)
{
    struct wn_err err;
    const char **args;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 0, 1, &args, &n, &code))
        return code;
    if (!o.prompt)
        return opt_wrong(self, "--prompt is missing");
    if (o.tokens < 0 || o.context < 0 || o.top_k < 0)
        return opt_wrong(self, "--tokens, --ctx and --top-k are not negative");
    if (!(o.temperature >= 0 && o.temperature < 1e6f))
        return opt_wrong(self, "--temperature %g: 0 or more is wanted", (double)o.temperature);
    if (!(o.top_p > 0 && o.top_p <= 1) || !(o.min_p >= 0 && o.min_p <= 1))
        return opt_wrong(self, "--top-p is above 0 and at most 1, --min-p 0 to 1");
    return run_model(model_path(args[0]), &err);
}

const struct command cmd_run = {"run", "[MODEL] -p TEXT [OPTIONS]", "generate text from a prompt", run,
                                "k3-mini --prompt \"The purpose of this chapter\" --tokens 64"};
