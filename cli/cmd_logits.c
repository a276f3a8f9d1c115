/*
 * winnow logits: the logits of every position, for comparing with any other implementation.
 */
#include "cli.h"
#include "text_arg.h"

#include <stdlib.h>
#include <string.h>
#include <winnow/logits.h>

static struct {
    char *ids, *text, *out, *ghosts;
    int special, force;
} o;

static const struct poptOption table[] = {
    {"ids", 'i', POPT_ARG_STRING, &o.ids, 0, "token ids ('-': from stdin)", "1,2,3"},
    {"text", 'x', POPT_ARG_STRING, &o.text, 0, "text to tokenize instead ('-': stdin)", "TEXT"},
    {"special", 0, POPT_ARG_NONE, &o.special, 0, "spelled special tokens in the text become their ids", NULL},
    {"ghosts", 0, POPT_ARG_STRING, &o.ghosts, 0, GHOSTS_HELP, "MODE"},
    {"out", 'o', POPT_ARG_STRING, &o.out, 0, "f32 [tokens][vocabulary], as numpy reads it; must not exist", "FILE.npy"},
    {"force", 'f', POPT_ARG_NONE, &o.force, 0, "overwrite the output", NULL},
    POPT_TABLEEND};

/* *wrong_call: what fails can be told from the command line alone. */
static bool get_ids(const struct wn_model *m, uint32_t **ids, size_t *count, bool *wrong_call, struct wn_err *err)
{
    size_t n;
    char *text = text_argument(o.ids ? o.ids : o.text, &n, err);
    const struct wn_vocab *v;
    bool ok;

    if (!text)
        return false;
    if (o.ids)
        ok = ids_argument(text, n, ids, count, err);
    else
        ok = (v = wn_model_vocab(m, err)) != NULL && wn_vocab_encode(v, text, n, o.special, ids, count, err);
    free(text);
    *wrong_call = !ok && o.ids && strcmp(o.ids, "-") != 0;
    return ok && context_fits(m, *count, err);
}

/*
 * What is read from standard input may be a file that the output would replace; the model's are minded when it is
 * written.
 */
static bool input_spared(struct wn_err *err)
{
    static const char *const input[] = {"/dev/stdin"};

    return strcmp(o.ids ? o.ids : o.text, "-") != 0 || wn_output_spares(o.out, input, 1, NULL, err);
}

/* with_model_fn */
static int write_logits(const struct wn_model *m, const void *arg, struct wn_err *err)
{
    struct wn_job job = talk_job();
    struct wn_weights *w = NULL;
    struct wn_pool *pool = NULL;
    uint32_t *ids = NULL;
    size_t count = 0;
    bool wrong_call = false, ok = input_spared(err) && get_ids(m, &ids, &count, &wrong_call, err);
    int code;

    (void)arg;
    if (ok)
        ok = (w = wn_weights_load(m, err)) != NULL && (pool = make_pool(err)) != NULL &&
             wn_logits_write(m, w, pool, ids, count, o.out, o.force, &job, err);
    wn_pool_free(pool);
    wn_weights_free(w);
    free(ids);
    talk_end_line();
    if (!ok) {
        code = talk_failed(err);
        return wrong_call ? EXIT_USAGE : code;
    }
    if (common.json)
        return print_json(json_pack("{so sI sI}", "out", json_text(o.out), "tokens", (json_int_t)count, "vocabulary",
                                    (json_int_t)wn_model_config(m)->vocab_size));
    say("%s: %zu x %u f32\n", o.out, count, wn_model_config(m)->vocab_size);
    return finish_output();
}

static int run(const struct command *self, int argc, const char **argv)
{
    enum wn_ghosts ghosts;
    const char **args;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 0, 1, &args, &n, &code))
        return code;
    if (!opt_ghosts(self, o.ghosts, &ghosts))
        return EXIT_USAGE;
    if (!o.ids == !o.text)
        return opt_wrong(self, "one of --ids and --text is wanted");
    if (!o.out)
        return opt_wrong(self, "--out is missing");
    return with_model(args[0], ghosts, write_logits, NULL);
}

const struct command cmd_logits = {"logits", "[MODEL] --ids 1,2,3 -o FILE.npy [OPTIONS]",
                                   "write the logits of every position", run, "k3-mini --ids 1,2,3 --out logits.npy"};
