/*
 * What is verified and what is not. A claim is a row: what is claimed, the figure as the log has it, the command that
 * made the log (card_calls.c), and the log's SHA-256. A claim without a log is a row of the second table.
 */
#include "jobs/report/card.h"
#include "jobs/report/report_draw.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void put_count(struct wn_html *h, const json_t *object, const char *key)
{
    wn_report_put_number(h, wn_card_number_at(object, key), 0);
}

/* ---- verify ---- */

static bool has_source(const struct wn_card_log *log)
{
    return wn_card_number_at(log->root, "bytes") > 0;
}

bool wn_card_has_hashes(const struct wn_card_log *log)
{
    return wn_card_number_at(log->root, "hashed_files") > 0;
}

const struct wn_card_log *wn_card_proof(const struct wn_card *c)
{
    for (size_t i = 0; i < c->verify_count; i++)
        if (wn_card_has_hashes(&c->verifies[i]))
            return &c->verifies[i];
    return NULL;
}

static void put_source_row(struct wn_html *h, const struct wn_card *c, const struct wn_card_log *log)
{
    const char *source = wn_card_text_at(log->root, "source_fingerprint"),
               *parent = wn_card_told(c, "parent", "fingerprint");
    const char *low = wn_card_text_at(log->root, "lo_model_fingerprint");

    wn_html_put(h, "| every surviving byte is what the source%s make%s it | ",
                *wn_card_text_at(log->root, "plan") ? " and the plan" : "",
                *wn_card_text_at(log->root, "plan") ? "" : "s");
    put_count(h, log->root, "tensors");
    wn_html_put(h, " tensors, ");
    put_count(h, log->root, "experts");
    wn_html_put(h, " experts, ");
    if (wn_card_number_at(log->root, "ghosts") > 0) {
        put_count(h, log->root, "ghosts");
        wn_html_put(h, " ghosts with their routers, ");
    }
    put_count(h, log->root, "bytes");
    wn_html_put(h, " bytes compared");
    if (*parent && *source && strcmp(parent, source) != 0)
        wn_html_put(h, "; this source (%s) is not the parent that the record names (%s)", source, parent);
    if (*low && strcmp(low, wn_card_told(c, "lo_parent", "fingerprint")) != 0)
        wn_html_put(h, "; this second parent (%s) is not the one that the record names (%s)", low,
                    wn_card_told(c, "lo_parent", "fingerprint"));
    wn_card_put_verify_call(h, c, log);
    if (json_is_true(json_object_get(log->root, "identical_files"))) {
        wn_html_put(h, "| every file is byte for byte the source's | yes");
        wn_card_put_verify_call(h, c, log);
    }
    if (wn_card_number_at(log->root, "bad_scales") > 0) {
        wn_html_put(h, "| MXFP4 scales that are no numbers, as in the source | ");
        put_count(h, log->root, "bad_scales");
        wn_card_put_verify_call(h, c, log);
    }
}

static void put_verify(struct wn_html *h, const struct wn_card *c, const struct wn_card_log *log)
{
    if (has_source(log))
        put_source_row(h, c, log);
    if (wn_card_has_hashes(log)) {
        wn_html_put(h, "| files have the SHA-256 that the record tells | ");
        put_count(h, log->root, "hashed_files");
        wn_html_put(h, wn_card_number_at(log->root, "hashed_files") > 1 ? " files, " : " file, ");
        put_count(h, log->root, "hashed_bytes");
        wn_html_put(h, " bytes");
        wn_card_put_verify_call(h, c, log);
    }
    if (!has_source(log)) {
        wn_html_put(h, "| %s | ",
                    json_is_true(json_object_get(log->root, "parts_bound"))
                        ? "every part of the model is there, with its shape"
                        : "headers and counts agree");
        put_count(h, log->root, "tensors");
        wn_html_put(h, " tensors, ");
        put_count(h, log->root, "experts");
        wn_html_put(h, " experts");
        wn_card_put_verify_call(h, c, log);
    }
}

/* ---- eval ---- */

static bool is_there(const struct wn_report_domain *d, enum wn_report_field f)
{
    return !isnan(d->field[f].value);
}

static void put_value(struct wn_html *h, const struct wn_report_domain *d, enum wn_report_field f)
{
    const struct wn_report_field_name *name = &wn_report_fields[f];
    const struct wn_report_value *v = &d->field[f];

    wn_report_put_number(h, v->value * name->scale, name->decimals);
    if (*name->unit)
        wn_html_put(h, " %s", name->unit);
    if (isnan(v->low))
        return;
    wn_html_put(h, " (95 %% interval ");
    wn_report_put_number(h, v->low * name->scale, name->decimals);
    wn_html_put(h, " to ");
    wn_report_put_number(h, v->high * name->scale, name->decimals);
    wn_html_put(h, ")");
}

/* The build was scored as it is: a mode of ghosts that was asked for is another model. */
static bool is_as_built(const struct wn_card *c, size_t i)
{
    const char *mode = c->figures[i].ghosts;

    return c->in.ghosts == 0 || !*mode || strcmp(mode, c->in.ghost_mean_bytes ? "mean" : "skip") == 0;
}

/* "| claim, domain | ", with what sets this log apart from one of the whole text and of the build as it is. */
static void put_claim(struct wn_html *h, const struct wn_card *c, size_t i, const char *claim, const char *domain)
{
    double most = wn_card_number_at(c->evals[i].root, "max_windows");

    wn_html_put(h, "| %s, %s", claim, domain);
    if (most > 0)
        wn_html_put(h, ", at most %.0f windows of a text", most);
    if (!is_as_built(c, i))
        wn_html_put(h, ", ghosts %s", c->figures[i].ghosts);
    wn_html_put(h, " | ");
}

static void put_perplexity(struct wn_html *h, const struct wn_card *c, size_t i, const struct wn_report_domain *d)
{
    put_claim(h, c, i, "perplexity", d->domain);
    put_value(h, d, WN_REPORT_PERPLEXITY);
    if (is_there(d, WN_REPORT_PREDICTED)) {
        wn_html_put(h, ": ");
        put_value(h, d, WN_REPORT_PREDICTED);
        wn_html_put(h, " tokens predicted");
    }
    if (is_there(d, WN_REPORT_PREDICTED) && is_there(d, WN_REPORT_WINDOWS)) {
        wn_html_put(h, " in ");
        put_value(h, d, WN_REPORT_WINDOWS);
        wn_html_put(h, " windows");
    }
    wn_card_put_eval_call(h, c, i, d);
}

static void put_divergence(struct wn_html *h, const struct wn_card *c, size_t i, const struct wn_report_domain *d)
{
    static const struct {
        enum wn_report_field field;
        const char *name;
    } more[] = {{WN_REPORT_KLD_MEDIAN, "median"}, {WN_REPORT_KLD_P90, "p90"}, {WN_REPORT_KLD_P99, "p99"}};
    const char *parent = wn_card_text_at(c->evals[i].root, "parent_fingerprint");
    const char *told = wn_card_cut_told(c, "parent", "fingerprint");

    put_claim(h, c, i, "KLD against the parent", d->domain);
    wn_html_put(h, "mean ");
    put_value(h, d, WN_REPORT_KLD_MEAN);
    for (size_t k = 0; k < sizeof more / sizeof *more; k++) {
        if (!is_there(d, more[k].field))
            continue;
        wn_html_put(h, "; %s ", more[k].name);
        put_value(h, d, more[k].field);
    }
    if (*parent && *told && strcmp(parent, told) != 0)
        wn_html_put(h, "; this parent (%s) is not the one that the record names (%s)", parent, told);
    wn_card_put_eval_call(h, c, i, d);
}

static void put_domain(struct wn_html *h, const struct wn_card *c, size_t i, const struct wn_report_domain *d)
{
    static const struct {
        enum wn_report_field field;
        const char *claim;
    } rows[] = {{WN_REPORT_PPL_RATIO, "perplexity by the parent's"},
                {WN_REPORT_ARGMAX, "same best token as the parent"},
                {WN_REPORT_MISROUTE, "routing of the parent that went to dropped experts"},
                {WN_REPORT_GHOSTED, "routing that went to ghosts"},
                {WN_REPORT_GHOST_CHOICES, "choices that fell on ghosts"}};

    if (is_there(d, WN_REPORT_PERPLEXITY))
        put_perplexity(h, c, i, d);
    if (is_there(d, WN_REPORT_KLD_MEAN))
        put_divergence(h, c, i, d);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (!is_there(d, rows[k].field))
            continue;
        put_claim(h, c, i, rows[k].claim, d->domain);
        put_value(h, d, rows[k].field);
        wn_card_put_eval_call(h, c, i, d);
    }
}

/* What is overall of one text is that text's. */
static void put_eval(struct wn_html *h, const struct wn_card *c, size_t i)
{
    const struct wn_report_eval *e = &c->figures[i];

    for (size_t k = 0; k < e->domain_count; k++)
        if (e->domain_count != 2 || strcmp(e->domains[k].domain, "overall") != 0)
            put_domain(h, c, i, &e->domains[k]);
}

/* ---- run ---- */

static void put_speed(struct wn_html *h, const struct wn_card *c, const struct wn_card_log *log, const char *what,
                      const char *key, const char *tokens)
{
    if (!(wn_card_number_at(log->root, tokens) > 0) || isnan(wn_card_number_at(log->root, key)))
        return;
    wn_html_put(h, "| speed, %s | ", what);
    wn_report_put_number(h, wn_card_number_at(log->root, key), 2);
    wn_html_put(h, " tokens/s over ");
    put_count(h, log->root, tokens);
    wn_html_put(h, " tokens");
    if (json_is_true(json_object_get(log->root, "disk_bound")))
        wn_html_put(h, "; generating waited for the disk");
    wn_card_put_run_call(h, c, log);
}

static void put_bytes_row(struct wn_html *h, const struct wn_card *c, const struct wn_card_log *log, const char *what,
                          const char *key)
{
    if (isnan(wn_card_number_at(log->root, key)))
        return;
    wn_html_put(h, "| %s | ", what);
    put_count(h, log->root, key);
    wn_html_put(h, " bytes");
    wn_card_put_run_call(h, c, log);
}

static void put_ghosts_row(struct wn_html *h, const struct wn_card *c, const struct wn_card_log *log)
{
    const json_t *ghosts = json_object_get(log->root, "ghosts");

    if (isnan(wn_card_number_at(ghosts, "misroute")))
        return;
    wn_html_put(h, "| routing of a run that went to ghosts (%s) | ", wn_card_text_at(ghosts, "mode"));
    wn_report_put_number(h, 100 * wn_card_number_at(ghosts, "misroute"), 2);
    wn_html_put(h, " %%; ");
    put_count(h, ghosts, "ghosts");
    wn_html_put(h, " of ");
    put_count(h, ghosts, "chosen");
    wn_html_put(h, " choices");
    if (!isnan(wn_card_number_at(ghosts, "token_bytes_saved"))) {
        wn_html_put(h, ", ");
        put_count(h, ghosts, "token_bytes_saved");
        wn_html_put(h, " bytes a token not read");
    }
    wn_card_put_run_call(h, c, log);
}

static void put_run(struct wn_html *h, const struct wn_card *c, const struct wn_card_log *log)
{
    put_speed(h, c, log, "generation", "tokens_per_second", "tokens");
    put_speed(h, c, log, "prompt", "prompt_tokens_per_second", "prompt_tokens");
    put_bytes_row(h, c, log, "read per generated token", "token_bytes");
    put_bytes_row(h, c, log, "largest resident set", "memory_peak");
    put_ghosts_row(h, c, log);
}

/* ---- both tables ---- */

static bool any_domain(const struct wn_card *c, enum wn_report_field f)
{
    for (size_t i = 0; i < c->eval_count; i++)
        for (size_t k = 0; is_as_built(c, i) && k < c->figures[i].domain_count; k++)
            if (is_there(&c->figures[i].domains[k], f))
                return true;
    return false;
}

static bool any(const struct wn_card_log *logs, size_t n, bool (*is)(const struct wn_card_log *))
{
    for (size_t i = 0; i < n; i++)
        if (is(&logs[i]))
            return true;
    return false;
}

static bool has_generated(const struct wn_card_log *log)
{
    return wn_card_number_at(log->root, "tokens") > 0;
}

static bool has_prompt(const struct wn_card_log *log)
{
    return wn_card_number_at(log->root, "prompt_tokens") > 0;
}

static bool has_peak(const struct wn_card_log *log)
{
    return !isnan(wn_card_number_at(log->root, "memory_peak"));
}

/* A row of the second table, which the first one opens. claim, command, options: text without markup of its own. */
static void put_missing(struct wn_html *h, const struct wn_card *c, bool *some, const char *claim, const char *command,
                        const char *options)
{
    if (!*some)
        wn_html_put(h, "| claim | figure | a log of |\n|---|---|---|\n");
    *some = true;
    wn_html_put(h, "| %s | not measured | <code>winnow %s%s%s</code> |\n", claim, command, c->name, options);
}

static void put_not_verified(struct wn_html *h, const struct wn_card *c)
{
    bool some = false, pruned = wn_card_is_pruned(c);

    wn_html_put(h, "\n## Not verified\n\n");
    if (!any(c->verifies, c->verify_count, has_source))
        put_missing(h, c, &some, "every surviving byte is what the source makes it", "verify ",
                    !pruned                      ? " --source SOURCE --json"
                    : wn_card_has_two_parents(c) ? " --source SOURCE --lo-model LO.gguf --plan PLAN.json --json"
                                                 : " --source SOURCE --plan PLAN.json --json");
    if (!wn_card_proof(c))
        put_missing(h, c, &some, "files have the SHA-256 that the record tells", "verify ", " --json");
    if (pruned && !wn_card_tells_kept(c))
        put_missing(h, c, &some, "share of the criterion that the plan keeps", "card ", " --plan PLAN.json");
    if (!any_domain(c, WN_REPORT_PERPLEXITY))
        put_missing(h, c, &some, "perplexity", "eval ", " --text DOMAIN=FILE --json");
    if (!any_domain(c, WN_REPORT_KLD_MEAN))
        put_missing(h, c, &some, "divergence from the parent, and how often the best token is the same", "eval ",
                    " --text DOMAIN=FILE --against PARENT --json");
    if (pruned && !any_domain(c, WN_REPORT_MISROUTE))
        put_missing(h, c, &some, "routing of the parent that went to dropped experts", "eval ",
                    " --text DOMAIN=FILE --against PARENT --plan PLAN.json --json");
    if (pruned && !c->has_plan)
        put_missing(h, c, &some, "loss that the plan was predicted to have", "card ", " --plan PLAN.json");
    if (c->in.ghosts > 0 && !any_domain(c, WN_REPORT_GHOSTED))
        put_missing(h, c, &some, "routing that went to ghosts", "eval ", " --text DOMAIN=FILE --json");
    if (!any(c->runs, c->run_count, has_generated))
        put_missing(h, c, &some, "speed, generation", "run ", " --prompt TEXT --json");
    if (!any(c->runs, c->run_count, has_prompt))
        put_missing(h, c, &some, "speed, prompt", "run ", " --prompt TEXT --json");
    if (!any(c->runs, c->run_count, has_peak))
        put_missing(h, c, &some, "memory of a run", "run ", " --prompt TEXT --json");
    if (!some)
        wn_html_put(h, "Nothing is missing: winnow has measured all that it can.\n");
}

void wn_card_put_claims(struct wn_html *h, const struct wn_card *c)
{
    wn_html_put(h, "## Verified\n\n");
    if (c->verify_count + c->eval_count + c->run_count == 0 && !wn_card_tells_kept(c)) {
        wn_html_put(h, "Not measured: there is no log.\n");
    } else {
        wn_html_put(h, "| claim | figure | command | SHA-256 of its log |\n|---|---|---|---|\n");
        for (size_t i = 0; i < c->verify_count; i++)
            put_verify(h, c, &c->verifies[i]);
        if (wn_card_tells_kept(c))
            wn_card_put_plan(h, c);
        for (size_t i = 0; i < c->eval_count; i++)
            put_eval(h, c, i);
        for (size_t i = 0; i < c->run_count; i++)
            put_run(h, c, &c->runs[i]);
    }
    put_not_verified(h, c);
}
