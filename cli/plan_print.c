/* See plan_print.h. */
#include "plan_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORST 3 /* layers that are named */

/* ---- as JSON ---- */

static json_t *json_layers(const struct wn_plan *plan)
{
    json_t *layers = json_array();

    for (uint32_t i = 0; i < plan->layer_count; i++) {
        const struct wn_plan_layer *l = &plan->layers[i];

        layers =
            json_add(layers, json_pack("{sI sI sI}", "layer", (json_int_t)l->layer, "kept", (json_int_t)l->keep_count,
                                       "low", (json_int_t)(l->lo_bits ? l->keep_count - l->hi_count : 0)));
    }
    return layers;
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

static json_t *json_memory(const struct wn_fit_ledger *l)
{
    return json_pack("{sI sI sI sI sI sI sI sI}", "experts", (json_int_t)l->experts, "rest", (json_int_t)l->rest,
                     "tables", (json_int_t)l->tables, "state", (json_int_t)l->state, "cache", (json_int_t)l->cache,
                     "scratch", (json_int_t)l->scratch, "checkpoints", (json_int_t)l->checkpoints, "total",
                     (json_int_t)l->total);
}

static json_t *json_build(const struct plan_shown *p)
{
    const struct wn_fit_ledger *l = p->ledger;
    json_t *j =
        json_pack("{sI sI sI sI}", "out_bytes", (json_int_t)l->file_bytes, "out_tensor_bytes",
                  (json_int_t)l->tensor_bytes, "files", (json_int_t)l->files, "tensors", (json_int_t)l->tensors);

    if (l->lo_weights) {
        j = json_put(j, "lo_bytes", json_integer((json_int_t)l->lo_bytes));
        j = json_put(j, "lo_weights", json_integer((json_int_t)l->lo_weights));
    }
    if (l->ghosts) {
        j = json_put(j, "ghosts", json_integer((json_int_t)l->ghosts));
        j = json_put(j, "ghost_bytes", json_integer((json_int_t)l->ghost_bytes));
    }
    if (l->budget) {
        j = json_put(j, "budget", json_integer((json_int_t)l->budget));
        j = json_put(j, "budget_of", json_text(p->of_memory ? "fit" : "size"));
    }
    if (l->total)
        j = json_put(j, "memory", json_memory(l));
    if (l->token_bytes) {
        j = json_put(j, "token_bytes", json_integer((json_int_t)l->token_bytes));
        j = json_put(j, "token_expert_bytes", json_integer((json_int_t)l->token_expert_bytes));
    }
    if (l->token_bytes && p->bandwidth > 0)
        j = json_put(j, "tokens_per_second", json_real(p->bandwidth / (double)l->token_bytes));
    return j;
}

/* A number; null: not known. */
static json_t *json_known(double v)
{
    return isnan(v) ? json_null() : json_real(v);
}

static json_t *json_losses(const struct wn_plan_kept *k)
{
    json_t *j = json_pack("{ss sf sb sf sf sf}", "by", wn_plan_basis_name(k->basis), "power", k->power, "power_fitted",
                          (int)k->power_fitted, "loss", k->loss, "loss_same", k->loss_same, "bound", k->loss_bound);
    json_t *sources = json_object(), *same = json_object();

    if (k->probed != WN_GHOSTS_BUILT)
        j = json_put(j, "ghosts", json_text(wn_ghosts_name(k->probed)));
    for (size_t s = 0; s < k->source_count; s++) {
        sources = json_put(sources, k->source[s], json_known(k->loss_source[s]));
        same = json_put(same, k->source[s], json_known(k->loss_same_source[s]));
    }
    j = json_put(j, "sources", sources);
    return json_put(j, "same_sources", same);
}

json_t *json_plan(const struct plan_shown *p)
{
    json_t *j = json_kept(p->plan, p->kept);
    bool measured;

    if (!wn_plan_is_uniform(p->plan) || wn_plan_is_graded(p->plan))
        j = json_put(j, "by_layer", json_layers(p->plan));
    if (wn_plan_is_graded(p->plan)) {
        j = json_put(j, "kept_low", json_real(p->kept->kept_low));
        j = json_put(j, "low_routed", json_real(p->kept->low_routed));
    }
    if (p->kept->bound > 0) {
        j = json_put(j, "reached", json_real(p->kept->reached));
        j = json_put(j, "bound", json_real(p->kept->bound));
    }
    if (p->kept->basis != WN_BASIS_NONE)
        j = json_put(j, "predicted", json_losses(p->kept));
    if (p->fit && wn_plan_is_graded(p->plan)) {
        j = json_put(j, "fidelity", json_real(wn_fit_fidelity(p->fit, &measured)));
        j = json_put(j, "fidelity_measured", json_boolean(measured));
    }
    return p->fit ? json_put(j, "build", json_build(p)) : j;
}

/* ---- as text ---- */

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

/* "121", or "100 to 140" where layers differ. */
static const char *range(const struct wn_plan *plan, bool low, char *buf, size_t size)
{
    uint32_t least = UINT32_MAX, most = 0;

    for (uint32_t i = 0; i < plan->layer_count; i++) {
        const struct wn_plan_layer *l = &plan->layers[i];
        uint32_t hi = l->lo_bits ? l->hi_count : l->keep_count, n = low ? l->keep_count - hi : hi;

        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    if (least == most)
        (void)snprintf(buf, size, "%" PRIu32, least);
    else
        (void)snprintf(buf, size, "%" PRIu32 " to %" PRIu32, least, most);
    return buf;
}

static uint32_t low_bits(const struct wn_plan *plan)
{
    for (uint32_t i = 0; i < plan->layer_count; i++)
        if (plan->layers[i].lo_bits)
            return plan->layers[i].lo_bits;
    return 0;
}

static void print_counts(const struct wn_plan *plan)
{
    char hi[40], low[40];

    bool by_loss = strcmp(plan->budget, "probe") == 0 || strcmp(plan->budget, "proxy") == 0;

    say("plan               %s%s, criterion %s: %s of %" PRIu32 " experts in each of %" PRIu32 " layers\n",
        by_loss ? "budget by " : "", by_loss ? plan->budget : plan->mode, plan->criterion,
        range(plan, false, hi, sizeof hi), plan->num_experts, plan->layer_count);
    if (low_bits(plan))
        say("                   and %s more of %" PRIu32 " bits\n", range(plan, true, low, sizeof low), low_bits(plan));
}

/* The layers that lose most, worst first. */
static void print_worst(const struct wn_plan *plan, const struct wn_plan_kept *k)
{
    double after = -1; /* the last one told: worse ones were told before */
    size_t after_at = 0;

    if (k->layer_count <= WORST)
        return;
    say("worst layers      ");
    for (int n = 0; n < WORST; n++) {
        size_t worst = SIZE_MAX;

        for (size_t i = 0; i < k->layer_count; i++) {
            bool told = k->kept_layer[i] < after || (k->kept_layer[i] == after && i <= after_at);

            if (!told && (worst == SIZE_MAX || k->kept_layer[i] < k->kept_layer[worst]))
                worst = i;
        }
        after = k->kept_layer[worst];
        after_at = worst;
        say("%s %" PRIu32 ": %.2f %%", n ? "," : "", plan->layers[worst].layer, 100 * k->kept_layer[worst]);
    }
    say("\n");
}

static void print_kept(const struct wn_plan *plan, const struct wn_plan_kept *k)
{
    double least = 1, most = 0;

    for (size_t l = 0; l < k->layer_count; l++) {
        least = fmin(least, k->kept_layer[l]);
        most = fmax(most, k->kept_layer[l]);
    }
    say("saliency kept      %.2f %% (by layer %.2f to %.2f %%)\n", 100 * k->kept, 100 * least, 100 * most);
    for (size_t s = 0; s < k->source_count; s++)
        say("  %-16s %.2f %%\n", k->source[s], 100 * k->kept_source[s]);
    print_worst(plan, k);
}

static void print_overlap(const struct wn_plan_kept *k)
{
    char head[16];

    if (k->source_count < 2)
        return;
    say("\nexperts in common between the domains' own best (chance: %.1f %%)\n", 100 * k->chance);
    say("%-10s", "");
    for (size_t s = 0; s < k->source_count; s++)
        say(" %9s", label(k->source[s], 9, head));
    for (size_t s = 0; s < k->source_count; s++) {
        say("\n%-10s", label(k->source[s], 10, head));
        for (size_t t = 0; t < k->source_count; t++)
            say(" %7.1f %%", 100 * k->overlap[s * k->source_count + t]);
    }
    say("\n");
}

/* What fewer bits cost, and how good the choice is. */
static void print_worth(const struct plan_shown *p)
{
    bool measured = false;
    double fidelity = p->fit ? wn_fit_fidelity(p->fit, &measured) : 0;

    if (low_bits(p->plan))
        say("in fewer bits      %.2f %% of the saliency, %.1f %% of the choices\n", 100 * p->kept->kept_low,
            100 * p->kept->low_routed);
    if (low_bits(p->plan) && p->fit)
        say("worth with them    %.2f %% (%" PRIu32 " bits leave %.1f %% of an expert's energy, %s)\n",
            100 * (p->kept->kept - (1 - fidelity) * p->kept->kept_low), low_bits(p->plan), 100 * fidelity,
            measured ? "measured on this model" : "not measured here");
    if (p->kept->bound > 0)
        say("budget             %.2f %% kept, mean over layers; no choice of experts in these bytes keeps more than "
            "%.2f %%\n",
            100 * p->kept->reached, 100 * p->kept->bound);
}

/* Nats are small: thousandths. Of the proxy only ratios mean something. */
static void print_loss(const char *what, double loss, double same, bool nats)
{
    if (isnan(loss))
        return;
    if (nats)
        say("%-18s %.2f thousandths of a nat a token", what, 1000 * loss);
    else
        say("%-18s", what);
    if (same > 0)
        say("%s%+.1f %%", nats ? ", " : " ", 100 * (loss / same - 1));
    say("\n");
}

static void print_losses(const struct wn_plan_kept *k)
{
    bool nats = k->basis == WN_BASIS_PROBE, chosen = k->loss_bound > 0, told = k->probed != WN_GHOSTS_BUILT;
    char name[16], head[24], power[40] = "";

    /* without a unit there is nothing to tell but the difference */
    if (k->basis == WN_BASIS_NONE || (!nats && k->loss == k->loss_same))
        return;
    /* what probes measured needs no power where nothing was chosen by it */
    if (!nats || chosen)
        (void)snprintf(power, sizeof power, "%s power %.2f%s", chosen ? "; chosen by" : ",", k->power,
                       k->power_fitted ? ", fitted" : "");
    say("\npredicted loss, and against the same number in each layer (%s%s%s%s)\n",
        nats ? "KLD by probes" : "by what leaving experts out changes in the residual stream", told ? ", ghosts " : "",
        told ? wn_ghosts_name(k->probed) : "", power);
    print_loss("all", k->loss, k->loss_same, nats);
    for (size_t s = 0; s < k->source_count; s++) {
        (void)snprintf(head, sizeof head, "  %s", label(k->source[s], 14, name));
        print_loss(head, k->loss_source[s], k->loss_same_source[s], nats);
    }
    if (chosen)
        say("by that power no choice of experts in this budget loses less than %.2f %% of what this one does\n",
            100 * k->loss_bound);
}

static void row(const char *what, uint64_t bytes)
{
    char size[32], count[40];

    say("  %-16s %10s  %24s bytes\n", what, text_size(bytes, size, sizeof size),
        text_count(bytes, count, sizeof count));
}

static void print_memory(const struct plan_shown *p)
{
    const struct wn_fit_ledger *l = p->ledger;
    unsigned sessions = p->options->sessions ? p->options->sessions : 1;

    say("\nmemory to run it, %u session%s", sessions, sessions == 1 ? "" : "s");
    say(" of %" PRIu32 " tokens:\n", l->context);
    row("experts", l->experts);
    row("other weights", l->rest);
    row("tables", l->tables);
    row("recurrent state", l->state);
    row("latent cache", l->cache);
    row("scratch", l->scratch);
    row("checkpoints", l->checkpoints);
    row("in all", l->total);
    say("  (files are mapped and nothing is held twice: loading takes no more)\n");
}

/* What is over, against what the next step would take. */
static void print_limit(const struct plan_shown *p)
{
    const struct wn_fit_ledger *l = p->ledger;
    uint64_t taken = p->of_memory ? l->total : l->tensor_bytes;
    char budget[32], left[32], more[32];

    if (!l->budget)
        return;
    if (taken > l->budget)
        say("limit              %s are %s too few for this plan\n", text_size(l->budget, budget, sizeof budget),
            text_size(taken - l->budget, left, sizeof left));
    else
        say("limit              %s: %s are left, and one whole expert more in each layer takes %s\n",
            text_size(l->budget, budget, sizeof budget), text_size(l->budget - taken, left, sizeof left),
            text_size(l->one_more, more, sizeof more));
}

static void print_build(const struct plan_shown *p)
{
    const struct wn_fit_ledger *l = p->ledger;
    char bytes[40], tensors[40], size[32];

    say("\nbuild              %s: %s bytes with headers, %s of tensors, in %" PRIu32 " file%s\n",
        text_size(l->file_bytes, size, sizeof size), text_count(l->file_bytes, bytes, sizeof bytes),
        text_count(l->tensor_bytes, tensors, sizeof tensors), l->files, l->files == 1 ? "" : "s");
    if (l->lo_weights)
        say("second banks       %s of it, from the second model: %.2f bits a weight\n",
            text_size(l->lo_bytes, size, sizeof size), 8 * (double)l->lo_bytes / (double)l->lo_weights);
    if (l->ghosts)
        say("ghosts             %" PRIu64 " in all layers, %s of it\n", l->ghosts,
            text_size(l->ghost_bytes, size, sizeof size));
    if (l->token_bytes)
        say("read per token     %s%s, of them experts %s\n", l->ghosts ? "at most " : "",
            text_size(l->token_bytes, size, sizeof size), text_size(l->token_expert_bytes, bytes, sizeof bytes));
    if (l->token_bytes && p->bandwidth > 0)
        say("at %.1f GB/s: at most %.2f tokens/s\n", p->bandwidth * 1e-9, p->bandwidth / (double)l->token_bytes);
    if (l->total)
        print_memory(p);
    print_limit(p);
}

void print_plan(const struct plan_shown *p)
{
    print_counts(p->plan);
    print_kept(p->plan, p->kept);
    print_worth(p);
    print_losses(p->kept);
    print_overlap(p->kept);
    if (p->fit)
        print_build(p);
}
