/* What a card says of the plan that a build was cut by: what it keeps, and what it was predicted to lose. */
#include "jobs/report/card.h"
#include "jobs/report/report_draw.h"

#include <math.h>

/* A prediction, which no log of an evaluation stands behind. By the proxy only the ratio means anything. */
static void put_loss(struct wn_html *h, const struct wn_card *c, const char *source, double loss, double same)
{
    bool nats = c->plan.basis == WN_BASIS_PROBE;
    double change = wn_report_change(loss, same);

    if (!nats && isnan(change))
        return;
    wn_html_put(h, "| loss predicted by %s, %s | ", wn_plan_basis_name(c->plan.basis), source);
    if (nats)
        wn_html_put(h, "KLD of %.5f nats a token", loss);
    if (!isnan(change))
        wn_html_put(h, "%s%s%.1f %% against the same number of experts in each layer", nats ? ", " : "",
                    change >= 0 ? "+" : "", change);
    if (wn_report_loses(loss, same))
        wn_html_put(h, ": it loses by this plan");
    wn_card_put_plan_call(h, c);
}

static void put_predicted(struct wn_html *h, const struct wn_card *c)
{
    const struct wn_plan *p = &c->plan;

    if (p->basis == WN_BASIS_NONE)
        return;
    for (uint32_t i = 0; i < p->loss_count; i++)
        put_loss(h, c, p->losses[i].source, p->losses[i].loss, p->losses[i].same);
    put_loss(h, c, "all sources", p->loss, p->loss_same);
}

void wn_card_put_plan(struct wn_html *h, const struct wn_card *c)
{
    const struct wn_plan *p = &c->plan;

    wn_html_put(h, "| share of the criterion '%s' that the plan keeps | %.2f %%", p->criterion, 100 * p->kept);
    if (p->weights[0])
        wn_html_put(h, ", sources weighed %s", p->weights);
    wn_card_put_plan_call(h, c);
    put_predicted(h, c);
}

bool wn_card_tells_kept(const struct wn_card *c)
{
    return c->has_plan && c->plan.criterion[0] && c->plan.kept > 0;
}
