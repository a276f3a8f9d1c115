/*
 * What a run takes beside its weights. The same sums that `winnow run` tells when the build is there (its session's
 * need, what the bound layers own), made from the source: a build differs from it in the experts that are gone and, in
 * containers that have keys per head turned already, in what a folder's binding turns.
 */
#include "jobs/plan/fit.h"
#include "base/checked.h"
#include "model/names.h"
#include "model/weights.h"
#include <winnow/session.h>

/*
 * The program, and what an open model holds for each tensor: names, shapes, places. Measured: resident memory of
 * `winnow run` before it binds, on k3-mini and on K3's checkpoint of 497,220 tensors; docs/commands/plan.md has the
 * figures.
 */
#define PROGRAM_BYTES ((uint64_t)5700000)
#define TENSOR_BYTES  390

#define USUAL_CONTEXT 4096 /* wn_session_options has it */

uint64_t wn_fit_beside(const struct wn_fit *f, const struct wn_fit_layer *l)
{
    size_t bias = wn_fit_has_ghosts(f) ? 0 : sizeof(float);

    return sizeof(struct wn_expert) + bias + (uint64_t)l->tensors * TENSOR_BYTES;
}

/*
 * What binding an HF folder owns and binding the build does not: turned copies of keys per head, which folders have the
 * other way round; beside a GGUF also one of the two factors of each AttnRes score.
 */
static uint64_t owned_by_hf(const struct wn_fit *f, const struct wn_layer *l)
{
    const struct wn_config *c = wn_model_config(f->model);
    uint64_t bytes = 0, vector = c->hidden_size * sizeof(float);

    if (f->options.format != WN_FORMAT_MLX && f->options.format != WN_FORMAT_GGUF)
        return 0;
    if (wn_naming_of_source(wn_model_source(f->model)) != WN_NAMING_HF)
        return 0;
    for (uint32_t h = 0; l->attention == WN_ATTENTION_MLA && h < c->heads; h++)
        bytes += l->mla.k_b[h].rows * l->mla.k_b[h].row_bytes;
    if (f->options.format == WN_FORMAT_GGUF)
        bytes += (l->attn_res_score ? vector : 0) + (l->ffn_res_score ? vector : 0);
    return bytes;
}

static bool add_layer(struct wn_fit *f, uint32_t i, struct wn_err *err)
{
    struct wn_layer l;

    if (!wn_layer_bind(f->model, i, &l, err))
        return false;
    f->owned += sizeof l + wn_owned_bytes(l.owned) - owned_by_hf(f, &l);
    if (l.moe)
        f->owned -= l.mixture.expert_count * (sizeof(struct wn_expert) + sizeof(float));
    if (l.moe && wn_fit_has_ghosts(f)) /* every row has a bias, and somebody whom it serves */
        f->owned += l.mixture.router.rows * (sizeof(float) + sizeof(*l.mixture.serves));
    wn_layer_release(&l);
    return true;
}

bool wn_fit_measure_memory(struct wn_fit *f, struct wn_err *err)
{
    const struct wn_config *c = wn_model_config(f->model);
    struct wn_session_options o;
    struct wn_session_memory need;
    struct wn_ends ends;

    if (!wn_ends_bind(f->model, &ends, err))
        return false;
    f->owned = wn_owned_bytes(ends.owned);
    wn_ends_release(&ends);
    for (uint32_t i = 0; i < c->layer_count; i++)
        if (!add_layer(f, i, err))
            return false;
    f->context = f->options.context ? f->options.context : (uint32_t)wn_min_u64(c->context_length, USUAL_CONTEXT);
    o = (struct wn_session_options){.context = f->context};
    wn_session_need(c, &o, f->options.threads ? f->options.threads : 1, &need);
    f->state = need.state;
    f->cache = need.cache;
    f->scratch = need.scratch;
    return true;
}

uint64_t wn_fit_fixed_memory(const struct wn_fit *f)
{
    uint64_t sessions = f->options.sessions ? f->options.sessions : 1;
    uint64_t timeline = wn_add_capped(f->state, f->cache);
    uint64_t each = wn_add_capped(wn_add_capped(timeline, f->scratch), wn_mul_capped(f->options.checkpoints, timeline));

    return wn_add_capped(f->rest - f->vision + f->ghosts + PROGRAM_BYTES + f->other_tensors * TENSOR_BYTES + f->owned,
                         wn_mul_capped(sessions, each));
}
