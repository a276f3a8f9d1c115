/*
 * winnow probe: what each layer costs at the output when some of its experts are gone.
 */
#include "cli.h"
#include "weights_arg.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/calibrate.h>
#include <winnow/probe.h>

#define POINTS_MOST 16

static struct {
    char *corpus, *out, *work, *ram, *keep, *criterion, *weights, *ghosts;
    long long tokens;
    int sequence, fresh, force, force_plan, dry_run;
} o = {.tokens = OPT_UNSET, .sequence = OPT_UNSET};

static const struct poptOption table[] = {
    {"corpus", 'c', POPT_ARG_STRING, &o.corpus, 0, "what calibrate was given, or more text of the same sources",
     "FILE"},
    {"out", 'o', POPT_ARG_STRING, &o.out, 0, "the archive with the probes; must not exist", "OUT.npz"},
    {"tokens", 'n', POPT_ARG_LONGLONG, &o.tokens, 0, "probe with at most this many, in the corpus' mix (default 4096)",
     "N"},
    {"seq", 's', POPT_ARG_INT, &o.sequence, 0, "tokens per sequence (default 512)", "N"},
    {"keep", 'k', POPT_ARG_STRING, &o.keep, 0, "shares of experts that stay in the probed layer (default 50%)",
     "P%[,P%]"},
    {"criterion", 0, POPT_ARG_STRING, &o.criterion, 0, "which experts go, as plan has it", "NAME"},
    {"weights", 'w', POPT_ARG_STRING, &o.weights, 0, "weight per source, as plan has it", "en=1,code=2"},
    {"ghosts", 0, POPT_ARG_STRING, &o.ghosts, 0,
     "what the experts that go give: off (the router takes its next choice; the default), skip (nothing) or mean "
     "(their mean output, of an archive with means)",
     "MODE"},
    {"force-plan", 0, POPT_ARG_NONE, &o.force_plan, 0, "accept an archive of another model", NULL},
    {"ram", 0, POPT_ARG_STRING, &o.ram, 0, "refuse to start when more memory would be needed", "SIZE"},
    {"work", 0, POPT_ARG_STRING, &o.work, 0, "folder of the resumable state (default: OUT.npz.work)", "DIR"},
    {"fresh", 0, POPT_ARG_NONE, &o.fresh, 0, "start anew, whatever an earlier run left", NULL},
    {"dry-run", 0, POPT_ARG_NONE, &o.dry_run, 0, "say what it would take, then stop", NULL},
    {"force", 'f', POPT_ARG_NONE, &o.force, 0, "overwrite the output", NULL},
    POPT_TABLEEND};

/* What a dry run finds beside the need. */
struct estimate {
    double read_speed, seconds; /* bytes/s of the model's files; of the arithmetic */
};

static json_t *json_need(const struct wn_layer_probe_need *n)
{
    return json_pack(
        "{sI sI sI sI sI sI sI sI sI sI sI sI sI sI sI sI sI}", "sequences", (json_int_t)n->sequences, "tokens",
        (json_int_t)n->tokens, "sources", (json_int_t)n->sources, "layers", (json_int_t)n->layers, "points",
        (json_int_t)n->points, "token_layers", (json_int_t)n->token_layers, "token_heads", (json_int_t)n->token_heads,
        "activation_bytes", (json_int_t)n->activations, "activation_held_bytes", (json_int_t)n->held,
        "model_read_bytes", (json_int_t)n->model_read, "activation_moved_bytes", (json_int_t)n->moved, "layer_bytes",
        (json_int_t)n->layer, "scratch_bytes", (json_int_t)n->scratch, "record_bytes", (json_int_t)n->records,
        "base_bytes", (json_int_t)n->base, "peak_bytes", (json_int_t)n->peak, "chunk_tokens", (json_int_t)n->chunk);
}

/* wn_layer_probe_need_fn */
static bool tell_need(void *arg, const struct wn_layer_probe_need *n)
{
    char peak[32], disk[32], layer[32], steps[40];

    (void)arg;
    talk("%" PRIu64 " tokens in %" PRIu64 " sequence%s; %" PRIu64 " layers at %" PRIu64
         " share%s of experts: %s token-layers to compute; memory %s at most (largest layer %s), %s of activations "
         "%son disk",
         n->tokens, n->sequences, n->sequences == 1 ? "" : "s", n->layers, n->points, n->points == 1 ? "" : "s",
         text_count(n->token_layers, steps, sizeof steps), text_size(n->peak, peak, sizeof peak),
         text_size(n->layer, layer, sizeof layer), text_size(n->activations, disk, sizeof disk),
         n->held ? "in memory and " : "");
    if (n->alike)
        talk("%" PRIu64 " share%s as many experts in each layer as another does, and %s probed with that one: no layer "
             "keeps fewer than a token takes",
             n->alike, n->alike == 1 ? " keeps" : "s keep", n->alike == 1 ? "is" : "are");
    return !interrupted();
}

static void tell_time(const struct wn_layer_probe_need *n, const struct estimate *e)
{
    char model[32], moved[32], rate[32], reading[32], all[32];
    double seconds = e->read_speed > 0 ? (double)(n->model_read + n->moved) / e->read_speed : 0;

    talk("reads %s of the model once and moves %s of activations, at %s/s, as measured here, %s; the arithmetic takes "
         "about %s, by the model's matrices timed here",
         text_size(n->model_read, model, sizeof model), text_size(n->moved, moved, sizeof moved),
         text_size((uint64_t)e->read_speed, rate, sizeof rate), text_time(seconds, reading, sizeof reading),
         text_time(e->seconds, all, sizeof all));
}

/* What the run itself would refuse. */
static bool dry_run(const struct wn_model *m, struct wn_pool *pool, const struct wn_layer_probe_options *p,
                    struct wn_layer_probe_need *need, struct estimate *e, struct wn_err *err)
{
    if (!wn_output_spares(p->out, &p->corpus, 1, m, err) ||
        !wn_layer_probe_plan(m, wn_pool_threads(pool), p, need, err) || !tell_need(NULL, need) ||
        !wn_calibrate_read_speed(m, &e->read_speed, err) || !wn_layer_probe_seconds(m, pool, need, &e->seconds, err))
        return false;
    tell_time(need, e);
    return true;
}

static int show(const char *out, const struct wn_layer_probe_result *r, const struct estimate *e)
{
    if (common.json) {
        json_t *j = json_need(&r->need);

        if (o.dry_run) {
            j = json_put(j, "read_bytes_per_second", json_real(e->read_speed));
            j = json_put(j, "arithmetic_seconds", json_real(e->seconds));
        }
        j = json_put(j, "steps_done", json_integer((json_int_t)r->done));
        j = json_put(j, "steps_resumed", json_integer((json_int_t)r->resumed));
        j = json_put(j, "seconds", json_real(r->seconds));
        return print_json(j);
    }
    if (!o.dry_run)
        say("%s: %" PRIu64 " layers probed with %" PRIu64 " tokens in %.1f s%s\n", out, r->need.layers, r->need.tokens,
            r->seconds, r->resumed ? ", resumed" : "");
    return finish_output();
}

/* with_model_fn */
static int probe(const struct wn_model *m, const void *options, struct wn_err *err)
{
    const struct wn_layer_probe_options *p = options;
    struct wn_layer_probe_result r = {0};
    struct wn_job job = talk_job();
    struct wn_pool *pool = make_pool(err);
    struct estimate e = {0};
    bool ok;

    if (!pool)
        return talk_failed(err);
    ok = o.dry_run ? dry_run(m, pool, p, &r.need, &e, err) : wn_layer_probe(m, pool, p, &job, &r, err);
    wn_pool_free(pool);
    talk_end_line();
    return ok ? show(p->out, &r, &e) : talk_failed(err);
}

/* "71%,50%" */
static bool read_keep(const struct command *self, double kept[POINTS_MOST], size_t *n)
{
    *n = 0;
    for (char *p = o.keep ? strtok(o.keep, ",") : NULL; p; p = strtok(NULL, ",")) {
        char *end;
        double v = strtod(p, &end);

        if (*n == POINTS_MOST || end == p || strcmp(end, "%") != 0 || strspn(p, "0123456789.%") != strlen(p) ||
            !(v > 0 && v < 100))
            return opt_wrong(self, "--keep: '%s' is not a share like 50%%, of which there may be %d", p, POINTS_MOST),
                   false;
        kept[(*n)++] = v / 100;
    }
    return true;
}

static int run(const struct command *self, int argc, const char **argv)
{
    struct wn_source_weight weights[WEIGHTS_MOST];
    struct wn_layer_probe_options p = {.told = tell_need};
    double kept[POINTS_MOST];
    struct wn_err err;
    const char **args;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 2, 2, &args, &n, &code))
        return code;
    if (!o.corpus || !o.out)
        return opt_wrong(self, "%s is missing", o.corpus ? "--out" : "--corpus");
    if (!opt_sequence(self, o.sequence, &p.sequence))
        return EXIT_USAGE;
    if (o.tokens != OPT_UNSET && o.tokens < 1)
        return opt_wrong(self, "--tokens %lld: at least 1 is wanted", o.tokens);
    if (o.criterion && !wn_plan_criterion_known(o.criterion, &err))
        return opt_wrong(self, "--criterion: %s", err.msg);
    if (!read_keep(self, kept, &p.kept_count) || !weights_arg(self, o.weights, weights, &p.weight_count) ||
        !opt_ram(self, o.ram, &p.ram) || !opt_ghosts(self, o.ghosts, &p.ghosts))
        return EXIT_USAGE;
    p.archive = args[1];
    p.corpus = o.corpus;
    p.out = o.out;
    p.overwrite = o.force;
    p.force_plan = o.force_plan;
    p.kept = p.kept_count ? kept : NULL;
    p.criterion = o.criterion;
    p.weights = p.weight_count ? weights : NULL;
    p.max_tokens = o.tokens == OPT_UNSET ? 0 : (uint64_t)o.tokens;
    p.work = o.work;
    p.fresh = o.fresh;
    return with_model(args[0], WN_GHOSTS_BUILT, probe, &p);
}

const struct command cmd_probe = {"probe", "MODEL SAL.npz --corpus FILE -o OUT.npz [OPTIONS]",
                                  "measure what each layer costs when some of its experts are gone", run,
                                  "Kimi-K3 saliency.npz --corpus mine.jsonl --out probed.npz --ram 96GiB"};
