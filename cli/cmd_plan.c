/*
 * winnow plan: which experts stay, and what share of the saliency they carry.
 */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/plan.h>

static struct {
    char *keep, *weights, *criterion, *out, *mode;
    int min_experts, force;
} o;

static const struct poptOption table[] = {
    {"keep", 'k', POPT_ARG_STRING, &o.keep, 0, "experts to keep in each layer, or a share like 71%", "N|P%"},
    {"mode", 'm', POPT_ARG_STRING, &o.mode, 0, "uniform: the same number in each layer (the default)", "MODE"},
    {"criterion", 0, POPT_ARG_STRING, &o.criterion, 0, "reap (gate x norm over all tokens; the default) or count",
     "NAME"},
    {"weights", 'w', POPT_ARG_STRING, &o.weights, 0, "weight per source; sources not named weigh 0", "en=1,code=2"},
    {"min-experts", 0, POPT_ARG_INT, &o.min_experts, 0, "floor (default: 4 x top-k)", "N"},
    {"out", 'o', POPT_ARG_STRING, &o.out, 0, "where the plan goes; must not exist", "PLAN.json"},
    {"force", 'f', POPT_ARG_NONE, &o.force, 0, "overwrite the output", NULL},
    POPT_TABLEEND};

#define MAX_WEIGHTS 64

static bool read_weights(const struct command *self, struct wn_source_weight *w, size_t *n, int *code)
{
    *n = 0;
    for (char *p = o.weights ? strtok(o.weights, ",") : NULL; p; p = strtok(NULL, ",")) {
        char *equals = strchr(p, '='), *end;

        if (!equals || equals == p || *n == MAX_WEIGHTS) {
            *code = opt_wrong(self, "--weights: '%s' is not SOURCE=WEIGHT", p);
            return false;
        }
        *equals = '\0';
        w[*n].source = p;
        w[*n].weight = strtod(equals + 1, &end);
        if (end == equals + 1 || *end || !isfinite(w[*n].weight) || w[*n].weight < 0) {
            *code = opt_wrong(self, "--weights: '%s' is not a weight for '%s'", equals + 1, p);
            return false;
        }
        ++*n;
    }
    return true;
}

static bool read_keep(const struct command *self, struct wn_plan_options *p, int *code)
{
    char *end;
    double v;

    if (!o.keep) {
        *code = opt_wrong(self, "--keep says how many experts stay");
        return false;
    }
    errno = 0;
    v = strtod(o.keep, &end);
    if (end != o.keep && strcmp(end, "%") == 0 && v > 0 && v <= 100) {
        p->keep_share = v / 100;
        return true;
    }
    if (end != o.keep && *end == '\0' && v >= 1 && v <= UINT32_MAX && v == floor(v)) {
        p->keep = (uint32_t)v;
        return true;
    }
    *code = opt_wrong(self, "--keep %s: a whole number of experts or a share like 71%% is wanted", o.keep);
    return false;
}

static json_t *json_kept(const struct wn_plan *plan, const struct wn_plan_kept *k)
{
    json_t *sources = json_object(), *layers = json_array(), *overlap = json_object();

    for (size_t s = 0; s < k->source_count; s++) {
        json_t *row = json_object();

        sources = json_put(sources, k->source[s], json_real(k->kept_source[s]));
        for (size_t t = 0; t < k->source_count; t++)
            row = json_put(row, k->source[t], json_real(k->overlap[s * k->source_count + t]));
        overlap = json_put(overlap, k->source[s], row);
    }
    for (size_t l = 0; l < k->layer_count; l++)
        layers = json_add(layers, json_real(k->kept_layer[l]));
    return json_pack("{so so sI sI sI sf so so so sf}", "mode", json_text(plan->mode), "criterion",
                     json_text(plan->criterion), "experts", (json_int_t)plan->num_experts, "kept_per_layer",
                     (json_int_t)(plan->layer_count ? plan->layers[0].keep_count : 0), "layers",
                     (json_int_t)plan->layer_count, "kept", k->kept, "kept_per_source", sources, "kept_by_layer",
                     layers, "overlap", overlap, "chance_overlap", k->chance);
}

/* The start of a label that fits `room` bytes: whole characters of it. */
static const char *label(const char *text, size_t room, char *buf)
{
    size_t n = strlen(text);

    if (n > room)
        for (n = room; n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80; n--)
            ;
    memcpy(buf, text, n);
    buf[n] = '\0';
    return buf;
}

static void print_kept(const struct wn_plan *plan, const struct wn_plan_kept *k)
{
    double least = 1, most = 0;
    char head[16];

    for (size_t l = 0; l < k->layer_count; l++) {
        least = fmin(least, k->kept_layer[l]);
        most = fmax(most, k->kept_layer[l]);
    }
    say("plan               %s, criterion %s: %u of %u experts in each of %u layers\n", plan->mode, plan->criterion,
        plan->layer_count ? plan->layers[0].keep_count : 0, plan->num_experts, plan->layer_count);
    say("saliency kept      %.2f %% (by layer %.2f to %.2f %%)\n", 100 * k->kept, 100 * least, 100 * most);
    for (size_t s = 0; s < k->source_count; s++)
        say("  %-16s %.2f %%\n", k->source[s], 100 * k->kept_source[s]);
    if (k->source_count < 2)
        return;
    say("\nexperts in common between the domains' own best (chance: %.1f %%)\n%-10s", 100 * k->chance, "");
    for (size_t s = 0; s < k->source_count; s++)
        say(" %9s", label(k->source[s], 9, head));
    for (size_t s = 0; s < k->source_count; s++) {
        say("\n%-10s", label(k->source[s], 10, head));
        for (size_t t = 0; t < k->source_count; t++)
            say(" %7.1f %%", 100 * k->overlap[s * k->source_count + t]);
    }
    putchar('\n');
}

static int run(const struct command *self, int argc, const char **argv)
{
    struct wn_source_weight weights[MAX_WEIGHTS];
    struct wn_plan_options p = {0};
    struct wn_plan_kept kept;
    struct wn_plan plan;
    struct wn_err err;
    const char **args;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 1, 1, &args, &n, &code))
        return code;
    if (o.mode && strcmp(o.mode, "uniform") != 0)
        return opt_wrong(self, "--mode %s: this version knows uniform", o.mode);
    if (o.criterion && !wn_plan_criterion_known(o.criterion, &err))
        return opt_wrong(self, "--criterion: %s", err.msg);
    if (o.min_experts < 0)
        return opt_wrong(self, "--min-experts %d is negative", o.min_experts);
    if (!read_keep(self, &p, &code) || !read_weights(self, weights, &p.weight_count, &code))
        return code;
    p.criterion = o.criterion;
    p.weights = p.weight_count ? weights : NULL;
    p.min_experts = (uint32_t)o.min_experts;
    if (o.out && !wn_output_spares(o.out, args, 1, NULL, &err))
        return talk_failed(&err);
    if (!wn_plan_make(args[0], &p, &plan, &kept, &err))
        return talk_failed(&err);
    if (o.out && !wn_plan_write(&plan, o.out, o.force, &err)) {
        code = talk_failed(&err);
    } else if (common.json) {
        code = print_json(json_kept(&plan, &kept));
    } else {
        print_kept(&plan, &kept);
        if (!o.out)
            talk("nothing written: -o PLAN.json writes the plan");
        code = finish_output();
    }
    wn_plan_kept_release(&kept);
    wn_plan_release(&plan);
    return code;
}

const struct command cmd_plan = {"plan", "SAL.npz --keep N [-o PLAN.json] [OPTIONS]",
                                 "choose which experts stay, from a saliency archive", run,
                                 "saliency.npz --keep 71% --weights code=2,en=1 --out plan.json"};
