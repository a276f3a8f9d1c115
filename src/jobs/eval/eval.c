/*
 * An evaluation as a whole: what was asked, the texts, one of the two roads, the figures. See eval.h for what is
 * predicted and eval_parts.h for who does what.
 */
#include "base/alloc.h"
#include "jobs/eval/eval_need.h"
#include "jobs/made_for.h"
#include "model/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 512

bool wn_eval_check_finite(const struct wn_eval_job *e, size_t t, size_t w, struct wn_err *err)
{
    size_t n = wn_eval_predicted(e), at = (e->text[t].first + w) * n;

    for (size_t i = at; i < at + n; i++)
        if (!isfinite(e->losses.nll[i]))
            return wn_fail(err, WN_ERR_FORMAT, "window %zu: %s logits are not finite", w + 1,
                           e->sides > 1 ? "the model's or the parent's" : "the model's");
    return true;
}

static bool check_domains(const struct wn_eval_options *o, struct wn_err *err)
{
    for (size_t i = 0; i < o->text_count; i++) {
        if (strlen(o->texts[i].domain) >= sizeof((struct wn_eval_domain *)0)->domain)
            return wn_fail(err, WN_ERR_ARG, "domain '%s': its name is longer than 63 bytes", o->texts[i].domain);
        for (size_t k = 0; k < i; k++)
            if (strcmp(o->texts[i].domain, o->texts[k].domain) == 0)
                return wn_fail(err, WN_ERR_ARG, "two texts are called '%s': DOMAIN=FILE tells them apart",
                               o->texts[i].domain);
    }
    return true;
}

static bool check_options(const struct wn_eval_job *e, struct wn_err *err)
{
    const struct wn_eval_options *o = e->o;

    for (unsigned i = 0; i < e->sides; i++) {
        uint32_t most = e->side[i].config->context_length ? e->side[i].config->context_length : UINT32_MAX;

        if (e->window < 2 || e->window > most)
            return wn_fail(err, WN_ERR_ARG, "windows of %" PRIu32 " tokens: wanted 2 to %" PRIu32, e->window, most);
    }
    if (o->plan && o->masked)
        return wn_fail(err, WN_ERR_ARG,
                       "a plan for the misroute rate and another one to mask with: one of them is wanted");
    if (!o->masked && o->force_plan)
        return wn_fail(err, WN_ERR_ARG, "a plan of another model is taken to mask with, and there is none");
    if (!o->masked && (o->ghosts != WN_GHOSTS_BUILT || o->saliency))
        return wn_fail(err, WN_ERR_ARG, "a plan to mask with says which experts become ghosts, and there is none");
    if (o->plan && !o->against)
        return wn_fail(err, WN_ERR_ARG, "a plan tells what was dropped of a parent, and there is none");
    return check_domains(o, err);
}

/* What is dropped of the model at hand is a matter of this very model; a plan need not tell which that is. */
static bool fits_model(const struct wn_eval_job *e, const struct wn_plan *p, struct wn_err *err)
{
    const struct wn_model *m = e->side[WN_EVAL_MODEL].model;

    if (!e->o->masked)
        return wn_dropped_check_plan(m, p, err);
    return e->o->force_plan || !*p->model_fingerprint ||
           wn_made_for("the plan was made for", p->model_fingerprint, wn_model_source(m), NULL, err);
}

/* masked: experts of the model that are never chosen; e->dropped: those of the parent that the misroute rate counts. */
static bool apply_plan(struct wn_eval_job *e, const struct wn_plan *p, struct wn_dropped *masked, struct wn_err *err)
{
    const struct wn_config *mine = e->side[WN_EVAL_MODEL].config;

    if (e->o->masked) {
        if (wn_plan_is_graded(p))
            return wn_fail(err, WN_ERR_ARG,
                           "some of the experts that it keeps have fewer bits in the build, and a mask would score "
                           "them with their own: prune, and evaluate the build");
        if (!wn_dropped_init(masked, p, mine, NULL, err) ||
            !wn_dropped_make_ghosts(masked, e->o->ghosts, e->o->saliency, e->side[WN_EVAL_MODEL].model,
                                    e->o->force_plan, err))
            return false;
        e->side[WN_EVAL_MODEL].masked = masked;
    }
    return e->sides == 1 ||
           wn_dropped_init(&e->dropped, p, e->side[WN_EVAL_PARENT].config, e->o->masked ? NULL : mine, err);
}

static bool find_dropped(struct wn_eval_job *e, struct wn_dropped *masked, struct wn_err *err)
{
    const char *path = e->o->masked ? e->o->masked : e->o->plan;
    struct wn_plan plan;
    bool ok;

    if (path) {
        if (!wn_plan_read(&plan, path, err))
            return false;
        (void)snprintf(e->result->plan_sha256, sizeof e->result->plan_sha256, "%s", plan.sha256);
        ok = fits_model(e, &plan, err) && apply_plan(e, &plan, masked, err);
        wn_plan_release(&plan);
        e->result->dropped = "plan";
        return ok || wn_fail_in(err, "'%s'", path);
    }
    if (e->sides == 1)
        return true;
    if (!wn_dropped_read(&e->dropped, e->side[WN_EVAL_MODEL].model, e->side[WN_EVAL_PARENT].model, err))
        return false;
    e->result->dropped = e->dropped.by_record ? "record" : e->dropped.flags ? "model" : NULL;
    return true;
}

/* Known before the need is told: their meters are part of it. */
static void decide_ghosts(struct wn_eval_job *e)
{
    const struct wn_dropped *masked = e->side[WN_EVAL_MODEL].masked;

    e->result->ghosts = !masked          ? wn_model_ghosts(e->side[WN_EVAL_MODEL].model)
                        : masked->serves ? e->o->ghosts
                                         : WN_GHOSTS_OFF;
}

static void tell_tokens(const struct wn_eval_job *e)
{
    const struct wn_eval_losses *l = &e->losses;

    for (size_t t = 0; e->o->token && t < e->o->text_count; t++)
        for (size_t w = 0; w < e->result->domains[t].windows; w++)
            for (uint32_t i = 0; i < wn_eval_predicted(e); i++) {
                size_t at = (e->text[t].first + w) * wn_eval_predicted(e) + i;
                struct wn_eval_token token = {.text = t, .window = w, .position = i, .nll = l->nll[at]};

                if (l->kld) {
                    token.parent_nll = l->parent_nll[at];
                    token.kld = l->kld[at];
                    token.same_best = l->same[at];
                }
                e->o->token(e->o->token_arg, &token);
            }
}

static bool run(struct wn_eval_job *e, struct wn_dropped *masked, struct wn_err *err)
{
    size_t texts = e->o->text_count;

    e->kernels = wn_kernels_get(err);
    if (!e->kernels || !check_options(e, err) || !find_dropped(e, masked, err))
        return false;
    decide_ghosts(e);
    e->text = wn_alloc(texts, sizeof *e->text, err);
    e->result->domains = e->text ? wn_alloc(texts, sizeof *e->result->domains, err) : NULL;
    if (!e->result->domains || !wn_eval_read_texts(e, err))
        return false;
    wn_eval_measure_base(e);
    if (!(e->o->stream ? wn_eval_stream(e, err) : wn_eval_resident(e, err)) || !wn_eval_figures(e, err))
        return false;
    tell_tokens(e);
    return true;
}

static void release(struct wn_eval_job *e)
{
    for (size_t t = 0; e->text && t < e->o->text_count; t++)
        free(e->text[t].ids);
    free(e->text);
    free(e->losses.nll);
    free(e->losses.parent_nll);
    free(e->losses.kld);
    free(e->losses.same);
    free(e->losses.misroute);
    free(e->losses.meter);
    free(e->losses.ghosted);
    free(e->logits);
    wn_dropped_release(&e->dropped);
}

bool wn_eval(const struct wn_model *m, struct wn_pool *pool, const struct wn_eval_options *o, const struct wn_job *job,
             struct wn_eval_result *result, struct wn_err *err)
{
    struct wn_eval_job e = {.o = o, .job = job, .pool = pool, .sides = o->against ? 2 : 1, .result = result};
    struct wn_dropped masked = {0};
    bool ok;

    *result = (struct wn_eval_result){.window = o->window ? o->window : WINDOW, .max_windows = o->max_windows};
    e.window = result->window;
    e.side[WN_EVAL_MODEL] = (struct wn_eval_side){.model = m, .config = wn_model_config(m)};
    wn_source_fingerprint(wn_model_source(m), result->model_fingerprint);
    if (o->against) {
        e.side[WN_EVAL_PARENT] = (struct wn_eval_side){.model = o->against, .config = wn_model_config(o->against)};
        wn_source_fingerprint(wn_model_source(o->against), result->parent_fingerprint);
    }
    ok = run(&e, &masked, err);
    release(&e);
    wn_dropped_release(&masked);
    if (!ok)
        wn_eval_result_release(result);
    return ok;
}

void wn_eval_result_release(struct wn_eval_result *r)
{
    free(r->domains);
    *r = (struct wn_eval_result){0};
}
