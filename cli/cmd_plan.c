/*
 * winnow plan: which experts stay, what share of the saliency they carry, and what the build of them takes.
 */
#include "cut.h"
#include "plan_print.h"
#include "weights_arg.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UNTOLD NAN /* of a number that is read: no word gives it */

static struct {
    char *keep, *weights, *criterion, *mode, *budget, *model, *lo_model, *fit, *size;
    int min_experts, hi, lo, lo_bits, protect, top_k, raw, context, sessions, checkpoints;
    float bandwidth, power;
    struct cut_options cut; /* out, force, format, rest_bits, encoder */
} o = {.min_experts = OPT_UNSET,
       .hi = OPT_UNSET,
       .lo = OPT_UNSET,
       .lo_bits = OPT_UNSET,
       .top_k = OPT_UNSET,
       .context = OPT_UNSET,
       .sessions = OPT_UNSET,
       .bandwidth = UNTOLD,
       .power = UNTOLD};

static const struct poptOption table[] = {
    {"keep", 'k', POPT_ARG_STRING, &o.keep, 0, "experts to keep in each layer, or a share like 71%", "N|P%"},
    {"mode", 'm', POPT_ARG_STRING, &o.mode, 0,
     "uniform: the same number in each layer (the default); global: the best of all layers; graded: --hi whole ones "
     "and --lo "
     "of fewer bits",
     "MODE"},
    {"budget", 0, POPT_ARG_STRING, &o.budget, 0,
     "how experts are divided among layers: uniform (the default); probe: least predicted loss, by winnow probe; "
     "proxy: "
     "the same without probes; global",
     "NAME"},
    {"power", 0, POPT_ARG_FLOAT, &o.power, 0,
     "losses grow with this power of the dropped share, 1 to 4 (default: 1.5, or more if probes show it)", "P"},
    {"criterion", 0, POPT_ARG_STRING, &o.criterion, 0,
     "loo (the default where the archive has its sums), reap (gate x norm over all tokens; otherwise the default), "
     "reap-mean, count, gate, norm-mean or share",
     "NAME"},
    {"weights", 'w', POPT_ARG_STRING, &o.weights, 0, "weight per source; sources not named weigh 0", "en=1,code=2"},
    {"protect", 0, POPT_ARG_INT, &o.protect, 0, "keep the experts with the largest norms, so many in each layer", "N"},
    {"min-experts", 0, POPT_ARG_INT, &o.min_experts, 0, "floor (default: 4 x top-k)", "N"},
    {"hi", 0, POPT_ARG_INT, &o.hi, 0, "graded: experts that keep their bytes (default: from the budget)", "N"},
    {"lo", 0, POPT_ARG_INT, &o.lo, 0, "graded: experts of fewer bits (default: from the budget)", "N"},
    {"lo-bits", 0, POPT_ARG_INT, &o.lo_bits, 0,
     "bits of those (default: 2); with --budget probe, proxy or global, which have none otherwise, layers mix both",
     "N"},
    {"raw", 0, POPT_ARG_NONE, &o.raw, 0, "global: compare sums as they are, not shares of their layer's", NULL},
    {"top-k", 0, POPT_ARG_INT, &o.top_k, 0, "experts per token, for an archive that does not tell", "N"},
    {"model", 0, POPT_ARG_STRING, &o.model, 0, "the model to be cut: what the build takes is then told", "MODEL"},
    {"lo-model", 0, POPT_ARG_STRING, &o.lo_model, 0,
     "a GGUF of the same model, from which experts of fewer bits will come: their sizes are then known", "LO.gguf"},
    {"ghosts", 0, POPT_ARG_STRING, &o.cut.ghosts, 0,
     "of the build: skip or mean, as prune has it; whole routers and means are priced then", "MODE"},
    {"format", 0, POPT_ARG_STRING, &o.cut.format, 0, "of the build: gguf, hf or mlx (default: the model's)", "NAME"},
    {"rest-bits", 0, POPT_ARG_STRING, &o.cut.rest_bits, 0, "mlx: as prune has it (default: 8)", "N"},
    {"encoder", 0, POPT_ARG_STRING, &o.cut.encoder, 0, "mlx: as prune has it (default: fit)", "NAME"},
    {"fit", 0, POPT_ARG_STRING, &o.fit, 0, "keep as many as run in this memory (needs --model)", "480GB"},
    {"size", 0, POPT_ARG_STRING, &o.size, 0, "keep as many as tensors of this size hold (needs --model)", "450GB"},
    {"ctx", 'c', POPT_ARG_INT, &o.context, 0, "tokens of context to reckon memory for (default: 4096)", "N"},
    {"sessions", 0, POPT_ARG_INT, &o.sessions, 0, "conversations at once (default: 1)", "N"},
    {"checkpoints", 0, POPT_ARG_INT, &o.checkpoints, 0, "saved states of each, at full length (default: 0)", "N"},
    {"bandwidth", 'b', POPT_ARG_FLOAT, &o.bandwidth, 0, "memory bandwidth to reckon tokens/s with", "GB/S"},
    {"out", 'o', POPT_ARG_STRING, &o.cut.out, 0, "where the plan goes; must not exist", "PLAN.json"},
    {"force", 'f', POPT_ARG_NONE, &o.cut.force, 0, "overwrite the output", NULL},
    POPT_TABLEEND};

static bool read_keep(const struct command *self, struct wn_plan_options *p, int *code)
{
    /* no 1e1, which strtod knows too */
    bool plain = o.keep && strspn(o.keep, "0123456789.%") == strlen(o.keep);
    char *end;
    double v;

    if (!o.keep && (p->mode == WN_PLAN_GRADED || o.fit || o.size))
        return true;
    if (!o.keep) {
        *code = opt_wrong(self, "--keep says how many experts stay, or --fit what they must fit into");
        return false;
    }
    if (p->mode == WN_PLAN_GRADED || o.fit || o.size) {
        *code = opt_wrong(self, "--keep does not go with %s",
                          p->mode == WN_PLAN_GRADED ? "--mode graded (--hi, --lo)"
                          : o.fit                   ? "--fit"
                                                    : "--size");
        return false;
    }
    errno = 0;
    v = strtod(o.keep, &end);
    if (plain && end != o.keep && strcmp(end, "%") == 0 && v > 0 && v <= 100) {
        p->keep_share = v / 100;
        return true;
    }
    if (plain && end != o.keep && *end == '\0' && v >= 1 && v <= UINT32_MAX && v == floor(v)) {
        p->keep = (uint32_t)v;
        return true;
    }
    *code = opt_wrong(self, "--keep %s: a whole number of experts or a share like 71%% is wanted", o.keep);
    return false;
}

/* Options that are numbers of something. Where 0 would be the default it is refused; what was not given is 0 from here
 * on. */
static bool check_numbers(const struct command *self, int *code)
{
    const struct {
        const char *name;
        int *n, least;
    } all[] = {{"min-experts", &o.min_experts, 1}, {"hi", &o.hi, 1},           {"lo", &o.lo, 1},
               {"lo-bits", &o.lo_bits, 1},         {"top-k", &o.top_k, 1},     {"ctx", &o.context, 1},
               {"sessions", &o.sessions, 1},       {"protect", &o.protect, 0}, {"checkpoints", &o.checkpoints, 0}};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (*all[i].n == OPT_UNSET) {
            *all[i].n = 0;
        } else if (*all[i].n < all[i].least) {
            *code = *all[i].n < 0 ? opt_wrong(self, "--%s %d is negative", all[i].name, *all[i].n)
                                  : opt_wrong(self, "--%s 0: at least 1 is wanted", all[i].name);
            return false;
        }
    }
    if (isnan(o.bandwidth))
        o.bandwidth = 0;
    else if (!(o.bandwidth > 0 && o.bandwidth < 1e9f))
        return *code = opt_wrong(self, "--bandwidth %g: GB/s like 819", (double)o.bandwidth), false;
    return true;
}

/* A mode of two banks, and a budget that is not the same for all layers, are one thing to the library. */
static bool read_mode(const struct command *self, struct wn_plan_options *p, bool *graded, int *code)
{
    static const char *const modes[] = {"uniform", "global", "graded"};
    static const char *const budgets[] = {"uniform", "probe", "proxy", "global"};
    static const enum wn_plan_mode apart[] = {WN_PLAN_UNIFORM, WN_PLAN_PROBE, WN_PLAN_PROXY, WN_PLAN_GLOBAL};
    int mode, budget;

    *code = EXIT_USAGE;
    if (!opt_word(self, "mode", o.mode, modes, 3, &mode) || !opt_word(self, "budget", o.budget, budgets, 4, &budget))
        return false;
    *graded = mode == WN_PLAN_GRADED;
    p->mode = budget ? apart[budget] : (enum wn_plan_mode)mode;
    if (o.mode && o.budget && (mode == WN_PLAN_GLOBAL ? budget != 3 : mode == WN_PLAN_UNIFORM && budget != 0)) {
        *code = opt_wrong(self, "--mode %s and --budget %s say two things: one of them is enough", o.mode, o.budget);
        return false;
    }
    return true;
}

/* Options that mean something only beside others. */
static bool check_together(const struct command *self, enum wn_plan_mode mode, bool graded, int *code)
{
    bool apart = mode != WN_PLAN_UNIFORM && mode != WN_PLAN_GRADED;
    const char *second = o.lo_model ? "lo-model" : o.lo_bits ? "lo-bits" : NULL;
    const char *without_model = o.lo_model        ? "lo-model"
                                : o.fit           ? "fit"
                                : o.size          ? "size"
                                : o.cut.format    ? "format"
                                : o.cut.ghosts    ? "ghosts"
                                : o.context       ? "ctx"
                                : o.sessions      ? "sessions"
                                : o.checkpoints   ? "checkpoints"
                                : o.bandwidth > 0 ? "bandwidth"
                                                  : NULL;

    if (!o.model && without_model)
        *code = opt_wrong(self, "--%s needs --model: sizes are a model's", without_model);
    else if (o.fit && o.size)
        *code = opt_wrong(self, "--fit and --size exclude each other");
    else if (graded && apart && (o.hi || o.lo))
        *code = opt_wrong(self, "--%s is the same in each layer, and --budget %s is not", o.hi ? "hi" : "lo", o.budget);
    else if ((o.hi || o.lo) && mode != WN_PLAN_GRADED)
        *code = opt_wrong(self, "--%s goes with --mode graded", o.hi ? "hi" : "lo");
    else if (mode == WN_PLAN_GRADED && (!o.hi || !o.lo) && !o.fit && !o.size)
        *code = opt_wrong(self, "--mode graded wants --hi and --lo, or --fit or --size to find them");
    else if (o.lo_model && o.lo_bits)
        *code = opt_wrong(self, "--lo-bits and --lo-model exclude each other: the bits are those of the second model");
    else if (second && mode == WN_PLAN_UNIFORM)
        *code = opt_wrong(self, "--%s goes with --mode graded, or with --budget probe, proxy or global", second);
    else if ((second || graded) && apart && !o.fit && !o.size)
        *code = opt_wrong(self, "two banks with --%s %s need a budget in bytes: --fit or --size",
                          o.budget ? "budget" : "mode", o.budget ? o.budget : o.mode);
    else if (o.raw && mode != WN_PLAN_GLOBAL)
        *code = opt_wrong(self, "--raw goes with --budget global");
    else if (!isnan(o.power) && !(o.power >= 1 && o.power <= 4))
        *code = opt_wrong(self, "--power %g: 1 to 4", (double)o.power);
    else
        return true;
    return false;
}

static bool read_budget(const struct command *self, const char *name, const char *text, uint64_t *bytes)
{
    if (!text)
        return true;
    if (!opt_bytes(self, name, text, bytes))
        return false;
    if (*bytes > 0)
        return true;
    (void)opt_wrong(self, "--%s %s: at least 1 byte is wanted", name, text);
    return false;
}

static bool read_call(const struct command *self, struct wn_plan_options *p, struct wn_fit_options *f, int *code)
{
    struct wn_prune_options format = {0};
    enum wn_ghosts ghosts;
    struct wn_err err;
    bool graded;

    if (!check_numbers(self, code) || !read_mode(self, p, &graded, code) ||
        !check_together(self, p->mode, graded, code))
        return false;
    if (o.criterion && !wn_plan_criterion_known(o.criterion, &err)) {
        *code = opt_wrong(self, "--criterion: %s", err.msg);
        return false;
    }
    *code = EXIT_USAGE;
    if (!opt_ghosts(self, o.cut.ghosts, &ghosts) || !cut_take_format(self, &o.cut, &format) ||
        !read_budget(self, "fit", o.fit, &f->memory) || !read_budget(self, "size", o.size, &f->size))
        return false;
    f->format = format.format;
    f->rest_bits = format.rest_bits;
    f->encoder = format.encoder;
    f->context = (uint32_t)o.context;
    f->sessions = (uint32_t)o.sessions;
    f->checkpoints = (uint32_t)o.checkpoints;
    f->lo_source = o.lo_model;
    f->ghosts = ghosts;
    f->lo_bits = (unsigned)(o.lo_bits ? o.lo_bits : graded && !o.lo_model ? 2 : 0);
    p->lo_bits = f->lo_bits;
    p->hi = (uint32_t)o.hi;
    p->lo = (uint32_t)o.lo;
    p->protect = (uint32_t)o.protect;
    p->raw = o.raw;
    p->power = isnan(o.power) ? 0 : (double)o.power;
    p->top_k = (uint32_t)o.top_k;
    p->min_experts = (uint32_t)o.min_experts;
    p->criterion = o.criterion;
    return true;
}

/* Raw sums are small in early layers, which are no less needed. */
static void warn_of_raw(const struct wn_plan *plan)
{
    uint32_t starved = 0;

    for (uint32_t i = 0; i < plan->layer_count; i++)
        starved += plan->layers[i].keep_count == plan->min_experts;
    complain(
        "winnow plan: raw sums grow with depth, so early layers lose the most, and they are no less needed: %u of %u "
        "layers keep the floor of %u only",
        starved, plan->layer_count, plan->min_experts);
}

/* A build is known where there is a model to be cut. */
static void tell_ghosts(const struct wn_plan *plan, const struct wn_fit_options *f, const struct wn_fit *fit)
{
    enum wn_ghosts build = f->ghosts == WN_GHOSTS_BUILT ? WN_GHOSTS_OFF : f->ghosts;

    if (fit && wn_plan_probed_otherwise(plan, build))
        complain("winnow plan: the losses are predicted from probes with ghosts '%s', the build will have '%s': it may "
                 "lose more or less",
                 wn_ghosts_name(plan->probed), wn_ghosts_name(build));
}

#define LOSES 1.005 /* predictions are no better than that */

/* Where layers keep different numbers, a source can pay for the others. */
static void warn_of_losers(const struct wn_plan_kept *k)
{
    if (k->untold)
        complain(
            "winnow plan: the probes of %u layer%s, the first of them %u, tell nothing, since nobody went or nothing "
            "was lost: what the others cost in the mean is taken",
            k->untold, k->untold == 1 ? "" : "s", k->untold_layer);
    for (size_t s = 0; k->basis != WN_BASIS_NONE && s < k->source_count; s++)
        if (isnan(k->loss_source[s]))
            complain("winnow plan: source '%s' was not probed: what it loses is not known and does not count",
                     k->source[s]);
        else if (k->loss_source[s] > LOSES * k->loss_same_source[s])
            complain("winnow plan: source '%s' loses by this: its predicted loss is %.1f %% above that of the same "
                     "number in each layer (--budget uniform)",
                     k->source[s], 100 * (k->loss_source[s] / k->loss_same_source[s] - 1));
    if (k->basis == WN_BASIS_PROBE && k->loss > LOSES * k->loss_same)
        complain("winnow plan: predicted to lose %.1f %% more than the same number in each layer does: --budget probe "
                 "loses less",
                 100 * (k->loss / k->loss_same - 1));
}

/*
 * What a division among the layers would give, where the archive has by what to predict it and the user took the same
 * number in each. It is not the default, since most programs do not read such builds.
 */
static void tell_better_budget(const struct wn_plan_kept *k)
{
    if (k->basis != WN_BASIS_NONE && k->loss_apart > 0 && k->loss > LOSES * k->loss_apart)
        talk("--budget %s is predicted to lose %.1f %% less with as many experts%s: layers then keep different "
             "numbers, which winnow and MLX loaders for K3 read, llama.cpp and others do not",
             wn_plan_basis_name(k->basis), 100 * (1 - k->loss_apart / k->loss),
             k->basis == WN_BASIS_PROXY ? ", by the proxy, which has promised up to twice what was measured" : "");
}

/* Sizes the plan, if a model is there to be cut, and writes it where it is wanted. */
static bool size_and_write(struct plan_shown *shown, struct wn_plan *plan, struct wn_fit_ledger *ledger,
                           struct wn_err *err)
{
    if (shown->fit && !wn_fit_predict(shown->fit, plan, shown->kept->low_routed, ledger, err))
        return false;
    if (shown->fit)
        plan->bytes = ledger->file_bytes;
    return !o.cut.out || wn_plan_write(plan, o.cut.out, o.cut.force, err);
}

static int show(const struct plan_shown *shown)
{
    if (common.json)
        return print_json(json_plan(shown));
    print_plan(shown);
    if (!o.cut.out)
        talk("nothing written: -o PLAN.json writes the plan");
    return finish_output();
}

static int make(const char *archive, const struct wn_plan_options *p, const struct wn_fit_options *f)
{
    struct wn_fit_ledger ledger;
    struct wn_plan_kept kept;
    struct wn_plan plan;
    struct plan_shown shown = {.plan = &plan,
                               .kept = &kept,
                               .fit = p->fit,
                               .ledger = &ledger,
                               .options = f,
                               .bandwidth = o.bandwidth * 1e9,
                               .of_memory = f->memory > 0};
    struct wn_err err;
    int code;

    if (!wn_plan_make(archive, p, &plan, &kept, &err))
        return talk_failed(&err);
    if (p->raw)
        warn_of_raw(&plan);
    warn_of_losers(&kept);
    tell_ghosts(&plan, f, p->fit);
    code = size_and_write(&shown, &plan, &ledger, &err) ? show(&shown) : talk_failed(&err);
    if (code == EXIT_DONE)
        tell_better_budget(&kept);
    wn_plan_kept_release(&kept);
    wn_plan_release(&plan);
    return code;
}

/* With a model: opened if winnow computes it, priced if not. */
static int make_with_model(const char *archive, struct wn_plan_options *p, struct wn_fit_options *f)
{
    const char *inputs[] = {archive, model_path(o.model), o.lo_model};
    struct wn_err err;
    struct wn_model *m = wn_model_open(inputs[1], &err);
    struct wn_pool *pool = make_pool(&err);
    struct wn_fit *fit = NULL;
    int code;

    if (m)
        tell_warning(m);
    else
        talk("%s; only its sizes are known, not what it takes to run", err.msg);
    f->threads = pool ? wn_pool_threads(pool) : 1;
    if (!pool || (o.cut.out && !wn_output_spares(o.cut.out, inputs, 3, m, &err)) ||
        (m && f->context && !context_fits(m, f->context, &err)) || !(fit = wn_fit_new(inputs[1], m, f, &err))) {
        code = talk_failed(&err);
    } else {
        p->fit = fit;
        code = make(archive, p, f);
    }
    wn_fit_free(fit);
    wn_pool_free(pool);
    wn_model_close(m);
    return code;
}

static int run(const struct command *self, int argc, const char **argv)
{
    struct wn_source_weight weights[WEIGHTS_MOST];
    struct wn_plan_options p = {0};
    struct wn_fit_options f = {0};
    struct wn_err err;
    const char **args;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 1, 1, &args, &n, &code) || !read_call(self, &p, &f, &code) ||
        !read_keep(self, &p, &code))
        return code;
    if (!weights_arg(self, o.weights, weights, &p.weight_count))
        return EXIT_USAGE;
    p.weights = p.weight_count ? weights : NULL;
    if (o.model)
        return make_with_model(args[0], &p, &f);
    if (o.cut.out && !wn_output_spares(o.cut.out, args, 1, NULL, &err))
        return talk_failed(&err);
    return make(args[0], &p, &f);
}

const struct command cmd_plan = {"plan", "SAL.npz|IMATRIX.gguf --keep N [-o PLAN.json] [OPTIONS]",
                                 "choose which experts stay, from a saliency archive", run,
                                 "saliency.npz --keep 71% --weights code=2,en=1 --out plan.json"};
