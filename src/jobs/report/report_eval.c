/* See report_eval.h. */
#include "jobs/report/report_eval.h"

#include "base/alloc.h"
#include "sys/file.h"
#include "sys/infile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/model.h>

#define EVAL_BYTES_MAX (64u << 20)

const struct wn_report_field_name wn_report_fields[WN_REPORT_FIELDS] = {
    [WN_REPORT_PERPLEXITY] = {"perplexity", "perplexity", "", 1, 3},
    [WN_REPORT_NLL] = {"nll", "nll", "nats", 1, 4},
    [WN_REPORT_PREDICTED] = {"predicted", "predicted", "", 1, 0},
    [WN_REPORT_WINDOWS] = {"windows", "windows", "", 1, 0},
    [WN_REPORT_GHOSTED] = {"ghosted", "routing to ghosts", "%", 100, 2},
    [WN_REPORT_GHOST_CHOICES] = {"ghost_choices", "choices of ghosts", "%", 100, 2},
    [WN_REPORT_KLD_MEAN] = {"kld_mean", "KLD, mean", "nats", 1, 5},
    [WN_REPORT_KLD_MEDIAN] = {"kld_median", "KLD, median", "nats", 1, 5},
    [WN_REPORT_KLD_P90] = {"kld_p90", "KLD, p90", "nats", 1, 5},
    [WN_REPORT_KLD_P99] = {"kld_p99", "KLD, p99", "nats", 1, 5},
    [WN_REPORT_ARGMAX] = {"argmax_agreement", "same best token", "%", 100, 2},
    [WN_REPORT_PPL_RATIO] = {"ppl_ratio", "PPL ratio", "", 1, 4},
    [WN_REPORT_MISROUTE] = {"misroute", "misrouted", "%", 100, 2},
};

void wn_report_eval_release(struct wn_report_eval *e)
{
    for (size_t i = 0; i < e->domain_count; i++)
        free(e->domains[i].domain);
    free(e->domains);
    free(e->model);
    free(e->masked);
    *e = (struct wn_report_eval){0};
}

const struct wn_report_domain *wn_report_eval_find(const struct wn_report_eval *e, const char *domain)
{
    for (size_t i = 0; i < e->domain_count; i++)
        if (strcmp(e->domains[i].domain, domain) == 0)
            return &e->domains[i];
    return NULL;
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);

    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static struct wn_report_value value_of(const json_t *domain, const char *key)
{
    struct wn_report_value v = {number_of(domain, key), NAN, NAN};
    char interval[64];
    const json_t *ends;

    (void)snprintf(interval, sizeof(interval), "%s_interval", key);
    ends = json_object_get(domain, interval);
    if (json_array_size(ends) == 2 && json_is_number(json_array_get(ends, 0)) &&
        json_is_number(json_array_get(ends, 1))) {
        v.low = json_number_value(json_array_get(ends, 0));
        v.high = json_number_value(json_array_get(ends, 1));
    }
    return v;
}

#define ROUNDING 1e-6 /* is let pass */
#define TOO_MUCH 1e15 /* where html.c ends */

/* Refuses what no text can give. An interval of a value that is not there is none. */
static bool check_value(enum wn_report_field f, struct wn_report_value *v, const char *domain, struct wn_err *err)
{
    const struct wn_report_field_name *name = &wn_report_fields[f];
    bool share = name->scale == 100;
    double least = f == WN_REPORT_PERPLEXITY, most = share ? 1 + ROUNDING : TOO_MUCH;
    const double all[] = {v->value, v->low, v->high};

    if (isnan(v->value)) {
        v->low = v->high = NAN;
        return true;
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] < least - ROUNDING || all[i] >= most)
            return wn_fail(err, WN_ERR_FORMAT, "domain '%s' has a '%s' of %g: it is %s", domain, name->key, all[i],
                           share       ? "a share of 0 .. 1"
                           : least > 0 ? "1 or more, and less than 1e15"
                                       : "0 or more, and less than 1e15");
    return !(v->low > v->high) || wn_fail(err, WN_ERR_FORMAT, "domain '%s': the interval of '%s' goes from %g to %g",
                                          domain, name->key, v->low, v->high);
}

static bool take_domain(struct wn_report_eval *e, const char *name, const json_t *from, struct wn_err *err)
{
    struct wn_report_domain *d = &e->domains[e->domain_count];

    if (!name)
        return wn_fail(err, WN_ERR_FORMAT, "entry %zu of 'domains' has no text 'domain'", e->domain_count);
    if (wn_report_eval_find(e, name))
        return wn_fail(err, WN_ERR_FORMAT, "domain '%s' is in it twice", name);
    d->domain = wn_strdup(name, err);
    if (!d->domain)
        return false;
    e->domain_count++;
    for (unsigned i = 0; i < WN_REPORT_FIELDS; i++) {
        d->field[i] = value_of(from, wn_report_fields[i].key);
        if (!check_value(i, &d->field[i], name, err))
            return false;
    }
    return true;
}

static bool take_eval(struct wn_report_eval *e, const json_t *root, struct wn_err *err)
{
    const json_t *domains = json_object_get(root, "domains"), *overall = json_object_get(root, "overall");
    const char *model = json_string_value(json_object_get(root, "model"));
    const char *masked = json_string_value(json_object_get(root, "masked"));
    const char *ghosts = json_string_value(json_object_get(root, "ghosts"));
    enum wn_ghosts mode;

    if (!json_is_array(domains))
        return wn_fail(err, WN_ERR_FORMAT, "it has no list 'domains', as 'winnow eval --json' writes it");
    e->window = number_of(root, "window");
    e->model = wn_strdup(model ? model : "", err);
    e->masked = wn_strdup(masked ? masked : "", err);
    if (ghosts && wn_ghosts_find(ghosts, &mode))
        (void)snprintf(e->ghosts, sizeof e->ghosts, "%s", wn_ghosts_name(mode));
    e->domains = wn_alloc(json_array_size(domains) + 1, sizeof(*e->domains), err);
    if (!e->model || !e->masked || !e->domains)
        return false;
    for (size_t i = 0; i < json_array_size(domains); i++) {
        const json_t *d = json_array_get(domains, i);

        if (!take_domain(e, json_string_value(json_object_get(d, "domain")), d, err))
            return false;
    }
    return !json_is_object(overall) || take_domain(e, "overall", overall, err);
}

bool wn_report_eval_of(struct wn_report_eval *e, const json_t *root, struct wn_err *err)
{
    *e = (struct wn_report_eval){0};
    if (take_eval(e, root, err))
        return true;
    wn_report_eval_release(e);
    return false;
}

bool wn_report_eval_read(struct wn_report_eval *e, const char *path, struct wn_err *err)
{
    json_error_t at;
    json_t *root;
    size_t n;
    char *text = wn_infile_slurp(path, EVAL_BYTES_MAX, &n, err);
    bool ok;

    *e = (struct wn_report_eval){0};
    if (!text)
        return false;
    root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at);
    free(text);
    ok = root ? wn_report_eval_of(e, root, err) : wn_fail(err, WN_ERR_FORMAT, "line %d: %s", at.line, at.text);
    json_decref(root);
    return ok || wn_fail_in(err, "'%s'", path);
}
