/*
 * winnow calibrate: which experts matter to the user's own text.
 */
#include "cli.h"

#include <inttypes.h>
#include <winnow/calibrate.h>

static struct {
    char *corpus, *out, *work, *ram;
    long long max_tokens;
    int sequence, fresh, force, dry_run, means;
} o = {.max_tokens = OPT_UNSET, .sequence = OPT_UNSET};

static const struct poptOption table[] = {
    {"corpus", 'c', POPT_ARG_STRING, &o.corpus, 0, "JSONL of {\"source\",\"text\"}, or plain text", "FILE"},
    {"out", 'o', POPT_ARG_STRING, &o.out, 0, "the saliency archive; must not exist", "SAL.npz"},
    {"seq", 's', POPT_ARG_INT, &o.sequence, 0, "tokens per sequence (default 512)", "N"},
    {"max-tokens", 'n', POPT_ARG_LONGLONG, &o.max_tokens, 0, "use at most this many tokens, in the corpus' mix", "N"},
    {"means", 0, POPT_ARG_NONE, &o.means, 0, "also the mean output of every expert, for ghosts that give it", NULL},
    {"ram", 0, POPT_ARG_STRING, &o.ram, 0, "refuse to start when more memory would be needed", "SIZE"},
    {"work", 0, POPT_ARG_STRING, &o.work, 0, "folder of the resumable state (default: SAL.npz.work)", "DIR"},
    {"fresh", 0, POPT_ARG_NONE, &o.fresh, 0, "start anew, whatever an earlier run left", NULL},
    {"dry-run", 0, POPT_ARG_NONE, &o.dry_run, 0, "say what it would take, then stop", NULL},
    {"force", 'f', POPT_ARG_NONE, &o.force, 0, "overwrite the output", NULL},
    POPT_TABLEEND};

static json_t *json_need(const struct wn_calibrate_need *n)
{
    return json_pack("{sI sI sI sI sI sI sI sI sI sI sI sI sI sI}", "sequences", (json_int_t)n->sequences, "tokens",
                     (json_int_t)n->tokens, "sources", (json_int_t)n->sources, "activation_bytes",
                     (json_int_t)n->activations, "activation_held_bytes", (json_int_t)n->held, "model_read_bytes",
                     (json_int_t)n->model_read, "activation_moved_bytes", (json_int_t)n->moved, "layer_bytes",
                     (json_int_t)n->layer, "scratch_bytes", (json_int_t)n->scratch, "mean_bytes", (json_int_t)n->means,
                     "record_bytes", (json_int_t)n->records, "base_bytes", (json_int_t)n->base, "peak_bytes",
                     (json_int_t)n->peak, "chunk_tokens", (json_int_t)n->chunk);
}

/* wn_calibrate_need_fn */
static bool tell_need(void *arg, const struct wn_calibrate_need *n)
{
    char peak[32], disk[32], layer[32], means[32];

    (void)arg;
    talk("%" PRIu64 " tokens in %" PRIu64 " sequence%s of %" PRIu64 " source%s; memory %s at most (largest layer %s), "
         "%s of activations %son disk%s%s",
         n->tokens, n->sequences, n->sequences == 1 ? "" : "s", n->sources, n->sources == 1 ? "" : "s",
         text_size(n->peak, peak, sizeof peak), text_size(n->layer, layer, sizeof layer),
         text_size(n->activations, disk, sizeof disk), n->held ? "in memory and " : "",
         n->means ? ", mean outputs of " : "", n->means ? text_size(n->means, means, sizeof means) : "");
    return !interrupted();
}

/* Reading alone: what the arithmetic takes is not known before some of it is done. */
static bool tell_reading(const struct wn_model *m, const struct wn_calibrate_need *n, double *speed, struct wn_err *err)
{
    char model[32], moved[32], rate[32], least[32];

    if (!wn_calibrate_read_speed(m, speed, err))
        return false;
    if (*speed > 0)
        talk("reads %s of the model once and moves %s of activations: at %s/s, as measured here, at least %s, and the "
             "arithmetic",
             text_size(n->model_read, model, sizeof model), text_size(n->moved, moved, sizeof moved),
             text_size((uint64_t)*speed, rate, sizeof rate),
             text_time((double)(n->model_read + n->moved) / *speed, least, sizeof least));
    return true;
}

/* What the run itself would refuse. */
static bool dry_run(const struct wn_model *m, const struct wn_pool *pool, const struct wn_calibrate_options *c,
                    struct wn_calibrate_need *need, double *speed, struct wn_err *err)
{
    return wn_output_spares(c->out, &c->corpus, 1, m, err) &&
           wn_calibrate_plan(m, wn_pool_threads(pool), c, need, err) && (tell_need(NULL, need), true) &&
           tell_reading(m, need, speed, err);
}

/* with_model_fn */
static int calibrate(const struct wn_model *m, const void *options, struct wn_err *err)
{
    const struct wn_calibrate_options *c = options;
    struct wn_calibrate_result r = {0};
    struct wn_job job = talk_job();
    struct wn_pool *pool = make_pool(err);
    double speed = 0;
    bool ok;

    if (!pool)
        return talk_failed(err);
    ok = o.dry_run ? dry_run(m, pool, c, &r.need, &speed, err) : wn_calibrate(m, pool, c, &job, &r, err);
    wn_pool_free(pool);
    talk_end_line();
    if (!ok)
        return talk_failed(err);
    if (common.json) {
        json_t *j = json_need(&r.need);

        if (o.dry_run)
            j = json_put(j, "read_bytes_per_second", json_real(speed));
        j = json_put(j, "layers_done", json_integer(r.layers_done));
        j = json_put(j, "layers_resumed", json_integer(r.layers_resumed));
        j = json_put(j, "seconds", json_real(r.seconds));
        return print_json(j);
    }
    if (!o.dry_run)
        say("%s: %" PRIu64 " tokens through %" PRIu32 " layer%s in %.1f s (%.0f tokens/s)%s\n", c->out, r.need.tokens,
            r.layers_done, r.layers_done == 1 ? "" : "s", r.seconds,
            r.seconds > 0 ? (double)r.need.tokens / r.seconds : 0, r.layers_resumed ? ", resumed" : "");
    return finish_output();
}

static int run(const struct command *self, int argc, const char **argv)
{
    struct wn_calibrate_options c = {0};
    const char **args;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 0, 1, &args, &n, &code))
        return code;
    if (!o.corpus || !o.out)
        return opt_wrong(self, "%s is missing", o.corpus ? "--out" : "--corpus");
    if (!opt_sequence(self, o.sequence, &c.sequence) || !opt_ram(self, o.ram, &c.ram))
        return EXIT_USAGE;
    if (o.max_tokens != OPT_UNSET && o.max_tokens < 1)
        return opt_wrong(self, "--max-tokens %lld: at least 1 is wanted; without it all are used", o.max_tokens);
    c.corpus = o.corpus;
    c.out = o.out;
    c.overwrite = o.force;
    c.max_tokens = o.max_tokens == OPT_UNSET ? 0 : (uint64_t)o.max_tokens;
    c.work = o.work;
    c.fresh = o.fresh;
    c.means = o.means;
    c.told = tell_need;
    return with_model(args[0], WN_GHOSTS_BUILT, calibrate, &c);
}

const struct command cmd_calibrate = {"calibrate", "[MODEL] --corpus FILE -o SAL.npz [OPTIONS]",
                                      "measure which experts matter to a text, layer by layer, resumable", run,
                                      "Kimi-K3 --corpus mine.jsonl --out saliency.npz --ram 96GiB"};
