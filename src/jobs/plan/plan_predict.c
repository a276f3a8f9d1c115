/*
 * What a plan is predicted to lose, told beside what the same number of experts in each layer would.
 */
#include "jobs/plan/plan_make.h"
#include "base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool wn_making_by_loss(const struct wn_plan_options *o)
{
    return o->mode == WN_PLAN_PROBE || o->mode == WN_PLAN_PROXY;
}

static bool predict_by(struct wn_making *m, enum wn_plan_basis basis, struct wn_err *err)
{
    if (wn_loss_init(&m->loss, m->s, m->criterion, &m->choice, m->factor, basis, m->o->power, err) &&
        wn_loss_init_told(&m->told, m->s, m->criterion, &m->choice, m->factor, basis, m->o->power, err))
        return true;
    wn_loss_release(&m->loss);
    return false;
}

bool wn_making_predict(struct wn_making *m, struct wn_err *err)
{
    if (wn_making_by_loss(m->o))
        return predict_by(m, m->o->mode == WN_PLAN_PROBE ? WN_BASIS_PROBE : WN_BASIS_PROXY, err);
    /* what cannot be by one, such as a weight of a source that was not probed, may be by the other, or is not */
    return predict_by(m, WN_BASIS_PROBE, err) ||
           (err->code == WN_ERR_ARG && (predict_by(m, WN_BASIS_PROXY, err) || err->code == WN_ERR_ARG));
}

static void tell_losses(const struct wn_making *m, double *all, double *each)
{
    *all = wn_loss_all(&m->told, &m->choice);
    for (uint32_t s = 0; s < m->s->source_count; s++)
        each[s] = wn_loss_source(&m->told, &m->choice, s);
}

/* The same number in each layer, as many as the budget holds. False: none fits. */
static bool stand_alike(struct wn_making *m)
{
    struct wn_err ignored;

    if (m->keep == 0)
        return wn_solve_same(&m->choice, 0, 0, &ignored);
    wn_choose_same(&m->choice, m->keep, 0);
    for (uint32_t i = 0; i < m->choice.n; i++) {
        struct wn_choice_layer *l = &m->choice.layers[i];

        l->kept = l->hi = l->kept < l->experts ? l->kept : l->experts;
    }
    return true;
}

static void count_untold(const struct wn_making *m, struct wn_plan_kept *kept)
{
    for (uint32_t i = m->choice.n; i-- > 0;)
        if (m->loss.layers[i].untold) {
            kept->untold++;
            kept->untold_layer = m->choice.layers[i].layer;
        }
}

/* Different numbers in each layer, as many as the budget holds, by least loss. */
static bool stand_apart(struct wn_making *m, struct wn_err *err)
{
    double bound;

    if (m->keep) {
        for (uint32_t i = 0; i < m->choice.n; i++)
            m->choice.layers[i].hi_bytes = 1;
        m->choice.room = (uint64_t)m->keep * m->choice.n;
    }
    return wn_solve_loss(&m->choice, &m->loss, &bound, err);
}

/* Losses of the plan, and of what the budget would hold with layers alike, or apart where they are alike. */
static bool compare(struct wn_making *m, struct wn_plan_kept *kept, struct wn_err *err)
{
    tell_losses(m, &kept->loss, kept->loss_source);
    if (m->o->mode == WN_PLAN_UNIFORM || m->o->mode == WN_PLAN_GRADED || !stand_alike(m)) {
        kept->loss_same = kept->loss;
        memcpy(kept->loss_same_source, kept->loss_source, m->s->source_count * sizeof(double));
    } else {
        tell_losses(m, &kept->loss_same, kept->loss_same_source);
    }
    if (m->o->mode != WN_PLAN_UNIFORM)
        return true;
    if (!stand_apart(m, err))
        return err->code == WN_ERR_ARG; /* then there is none */
    kept->loss_apart = wn_loss_all(&m->told, &m->choice);
    return true;
}

bool wn_making_measure(struct wn_making *m, struct wn_plan_kept *kept, struct wn_err *err)
{
    struct wn_choice_layer *chosen;
    uint64_t room = m->choice.room;
    bool ok;

    if (m->loss.basis == WN_BASIS_NONE)
        return true;
    chosen = wn_alloc(m->choice.n, sizeof *chosen, err);
    kept->loss_source = chosen ? wn_alloc(m->s->source_count, sizeof(double), err) : NULL;
    kept->loss_same_source = kept->loss_source ? wn_alloc(m->s->source_count, sizeof(double), err) : NULL;
    ok = kept->loss_same_source != NULL;
    if (ok) {
        kept->basis = m->loss.basis;
        kept->probed = kept->basis == WN_BASIS_PROBE ? m->s->probes.ghosts : WN_GHOSTS_BUILT;
        kept->power = m->loss.power;
        count_untold(m, kept);
        kept->power_fitted = m->loss.fitted;
        kept->loss_bound = m->loss_bound > 0 ? m->loss_bound / wn_loss_all(&m->loss, &m->choice) : 0;
        memcpy(chosen, m->choice.layers, m->choice.n * sizeof *chosen);
        ok = compare(m, kept, err);
        memcpy(m->choice.layers, chosen, m->choice.n * sizeof *chosen);
        m->choice.room = room;
    }
    free(chosen);
    return ok;
}

bool wn_making_note(const struct wn_making *m, const struct wn_plan_kept *kept, struct wn_plan *p, struct wn_err *err)
{
    static const char *const budgets[] = {[WN_PLAN_UNIFORM] = "uniform",
                                          [WN_PLAN_GLOBAL] = "global",
                                          [WN_PLAN_GRADED] = "uniform",
                                          [WN_PLAN_PROBE] = "probe",
                                          [WN_PLAN_PROXY] = "proxy"};
    bool alike = m->o->mode == WN_PLAN_UNIFORM || m->o->mode == WN_PLAN_GRADED;

    if (kept->basis == WN_BASIS_NONE)
        return true;
    (void)snprintf(p->budget, sizeof p->budget, "%s", budgets[m->o->mode]);
    p->basis = kept->basis;
    p->probed = kept->probed;
    p->power = kept->power;
    p->loss = kept->loss;
    p->loss_same = alike ? 0 : kept->loss_same;
    p->losses = wn_alloc(m->s->source_count, sizeof *p->losses, err);
    for (uint32_t s = 0; p->losses && s < m->s->source_count; s++) {
        struct wn_plan_loss *l = &p->losses[p->loss_count];

        if (isnan(kept->loss_source[s]) || strlen(m->s->source[s]) >= sizeof l->source)
            continue;
        (void)snprintf(l->source, sizeof l->source, "%s", m->s->source[s]);
        l->loss = kept->loss_source[s];
        l->same = alike ? 0 : kept->loss_same_source[s];
        p->loss_count++;
    }
    return p->losses != NULL;
}
