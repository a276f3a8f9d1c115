/*
 * See card.h: the calls behind a card's claims, as far as logs and plan tell them, with every option that changes the
 * figure. What is a file there is its name only.
 */
#include "base/number.h"
#include "jobs/report/card.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *wn_card_text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

double wn_card_number_at(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);

    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

/* " --name value" of a text at the key; nothing where there is none. */
static void put_file(struct wn_html *h, const json_t *object, const char *key, const char *name)
{
    const char *path = wn_card_text_at(object, key);

    if (*path)
        wn_html_put(h, " --%s %s", name, wn_path_name(path));
}

/* The same of a number, unless it is the one that stands without the option. */
static void put_number(struct wn_html *h, const json_t *object, const char *key, const char *name, double usual)
{
    const json_t *value = json_object_get(object, key);
    double v = wn_card_number_at(object, key);
    char text[WN_NUMBER_BYTES];

    if (isnan(v) || v == usual)
        return;
    if (json_is_integer(value))
        (void)snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        (void)wn_number_text(round(v * 1e6) / 1e6, text); /* an option's float, as it was typed */
    wn_html_put(h, " --%s %s", name, text);
}

static void put_switch(struct wn_html *h, const json_t *object, const char *key, const char *name)
{
    if (json_is_true(json_object_get(object, key)))
        wn_html_put(h, " --%s", name);
}

static void end_row(struct wn_html *h, const struct wn_card_log *log)
{
    wn_html_put(h, " --json</code> | %s |\n", log->sha256);
}

void wn_card_put_verify_call(struct wn_html *h, const struct wn_card *c, const struct wn_card_log *log)
{
    wn_html_put(h, " | <code>winnow verify %s", c->name);
    put_file(h, log->root, "source", "source");
    put_file(h, log->root, "lo_model", "lo-model");
    put_file(h, log->root, "plan", "plan");
    put_file(h, log->root, "saliency", "saliency");
    end_row(h, log);
}

static void put_text_option(struct wn_html *h, const json_t *domain)
{
    wn_html_put(h, " --text %s=%s", wn_card_text_at(domain, "domain"), wn_path_name(wn_card_text_at(domain, "file")));
}

/* Of one text, whose figures do not depend on the others; of all for what is overall. */
void wn_card_put_eval_call(struct wn_html *h, const struct wn_card *c, size_t i, const struct wn_report_domain *d)
{
    const json_t *root = c->evals[i].root, *domain;
    size_t k;

    wn_html_put(h, " | <code>winnow eval %s", c->name);
    json_array_foreach(json_object_get(root, "domains"), k, domain)
        if (strcmp(d->domain, "overall") == 0 || strcmp(d->domain, wn_card_text_at(domain, "domain")) == 0)
            put_text_option(h, domain);
    put_file(h, root, "parent", "against");
    put_file(h, root, "plan", "plan");
    put_number(h, root, "window", "window", (double)NAN);
    put_number(h, root, "max_windows", "max-windows", 0);
    if (c->in.ghosts > 0 && *c->figures[i].ghosts)
        wn_html_put(h, " --ghosts %s", c->figures[i].ghosts);
    put_switch(h, root, "streamed", "stream");
    end_row(h, &c->evals[i]);
}

/* Speed hangs on the machine and its threads, which are told as they were; the prompt is not in the log. */
void wn_card_put_run_call(struct wn_html *h, const struct wn_card *c, const struct wn_card_log *log)
{
    const json_t *o = json_object_get(log->root, "options");

    wn_html_put(h, " | <code>winnow run %s --prompt ...", c->name);
    put_number(h, o ? o : log->root, "tokens", "tokens", (double)NAN);
    put_number(h, o, "ctx", "ctx", 0);
    if (wn_card_number_at(o, "temperature") > 0) {
        put_number(h, o, "temperature", "temperature", 0);
        put_number(h, o, "top_k", "top-k", 0);
        put_number(h, o, "top_p", "top-p", 1);
        put_number(h, o, "min_p", "min-p", 0);
        put_number(h, o, "seed", "seed", 0);
    }
    if (c->in.ghosts > 0 && *wn_card_text_at(o, "ghosts"))
        wn_html_put(h, " --ghosts %s", wn_card_text_at(o, "ghosts"));
    put_switch(h, o, "special", "special");
    put_switch(h, o, "ignore_eos", "ignore-eos");
    put_number(h, o, "threads", "threads", 0);
    end_row(h, log);
}

/* ---- plan ---- */

/* The first bank's number, and of a graded plan the second's, where all layers have the same. */
static bool is_alike(const struct wn_plan *p)
{
    for (uint32_t i = 1; i < p->layer_count; i++)
        if (p->layers[i].keep_count != p->layers[0].keep_count || p->layers[i].hi_count != p->layers[0].hi_count)
            return false;
    return p->layer_count > 0;
}

/* Experts per layer that such a plan was made for; 0: a budget in bytes left no whole number. */
static uint64_t mean_kept(const struct wn_plan *p)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < p->layer_count; i++)
        sum += p->layers[i].keep_count;
    return p->layer_count && sum % p->layer_count == 0 ? sum / p->layer_count : 0;
}

static uint32_t lesser_bits(const struct wn_plan *p)
{
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (p->layers[i].lo_bits)
            return p->layers[i].lo_bits;
    return 0;
}

/* What the budget in bytes left, or where that is no number of experts the budget; older plans do not tell it. */
static void put_how_many(struct wn_html *h, const struct wn_plan *p)
{
    const struct wn_plan_layer *l = p->layers;
    uint64_t keep = mean_kept(p);
    uint32_t bits = lesser_bits(p);

    if (!bits && keep)
        wn_html_put(h, " --keep %" PRIu64, keep);
    else if (bits && is_alike(p))
        wn_html_put(h, " --mode graded --hi %u --lo %u", l->hi_count, l->keep_count - l->hi_count);
    else if (p->asked_memory)
        wn_html_put(h, " --model MODEL --fit %" PRIu64, p->asked_memory);
    else if (p->asked_size)
        wn_html_put(h, " --model MODEL --size %" PRIu64, p->asked_size);
    else
        wn_html_put(h, " --size ...");
    if (bits)
        wn_html_put(h, " --lo-bits %u", bits);
}

/*
 * The power as an option has it, a float. One that was fitted to probes is none, but by chance: the same call fits it
 * again.
 */
static void put_power(struct wn_html *h, const struct wn_plan *p)
{
    char text[WN_NUMBER_BYTES];

    if (p->basis != WN_BASIS_NONE && (double)(float)p->power == p->power)
        wn_html_put(h, " --power %s", wn_number_text(p->power, text));
}

void wn_card_put_plan_call(struct wn_html *h, const struct wn_card *c)
{
    const struct wn_plan *p = &c->plan;
    const char *budget = *p->budget ? p->budget : strcmp(p->mode, "global") == 0 ? p->mode : "";

    wn_html_put(h, " | <code>winnow plan SAL.npz");
    put_how_many(h, p);
    wn_html_put(h, " --criterion %s", p->criterion);
    if (p->weights[0])
        wn_html_put(h, " --weights %s", p->weights);
    if (*budget)
        wn_html_put(h, " --budget %s", budget);
    put_power(h, p);
    if (p->protect)
        wn_html_put(h, " --protect %u", p->protect);
    if (p->raw)
        wn_html_put(h, " --raw");
    if (p->min_experts)
        wn_html_put(h, " --min-experts %u", p->min_experts);
    wn_html_put(h, "</code>");
    if (p->saliency_fingerprint[0])
        wn_html_put(h, ", archive %s", p->saliency_fingerprint);
    wn_html_put(h, " | %s |\n", c->plan_log.sha256);
}
