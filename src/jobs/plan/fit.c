/* See fit.h: what each expert weighs in the container that is asked for, and all else, by the walks that write it. */
#include "jobs/plan/fit.h"
#include "base/alloc.h"
#include "jobs/by_layer.h"
#include "jobs/prune/keep.h"
#include "jobs/convert/recast.h"

#include <inttypes.h>
#include <stdlib.h>

bool wn_fit_has_budget(const struct wn_fit *f)
{
    return f && (f->options.memory || f->options.size);
}

bool wn_fit_has_ghosts(const struct wn_fit *f)
{
    return f->options.ghosts == WN_GHOSTS_SKIP || f->options.ghosts == WN_GHOSTS_MEAN;
}

int64_t wn_fit_row(const struct wn_fit *f, const struct wn_fit_layer *l)
{
    return wn_fit_has_ghosts(f) ? (int64_t)sizeof(int32_t) - (int64_t)f->mean : (int64_t)l->router;
}

unsigned wn_fit_lo_bits(const struct wn_fit *f)
{
    return f->options.lo_bits;
}

static struct wn_fit_layer *find_layer(const struct wn_fit *f, int32_t layer)
{
    size_t i = layer < 0 ? f->layer_count : wn_by_layer(f->layers, f->layer_count, sizeof *f->layers, (uint32_t)layer);

    _Static_assert(offsetof(struct wn_fit_layer, layer) == 0, "wn_by_layer looks there");
    return i < f->layer_count ? &f->layers[i] : NULL;
}

static bool take_layers(struct wn_fit *f, const struct wn_keep *keep, struct wn_err *err)
{
    f->layers = wn_alloc(keep->layer_count, sizeof *f->layers, err);
    for (uint32_t i = 0; f->layers && i < keep->layer_count; i++)
        f->layers[f->layer_count++] =
            (struct wn_fit_layer){.layer = keep->layers[i].layer, .experts = keep->layers[i].experts};
    return f->layers != NULL;
}

/* A tensor of the build with all experts in it; sums of layers are divided at the end. */
static void add_tensor(struct wn_fit *f, enum wn_container container, const char *name, uint64_t bytes)
{
    struct wn_fit_layer *l;
    struct wn_part part;

    wn_part_of(container, name, &part);
    l = part.axis == WN_AXIS_NONE ? NULL : find_layer(f, part.layer);
    f->other_tensors += part.axis != WN_AXIS_NAME;
    if (l) {
        *(part.router ? &l->router : &l->slab) += bytes;
        l->tensors += part.axis == WN_AXIS_NAME;
        return;
    }
    f->rest += bytes;
    if (part.class == WN_CLASS_VISION)
        f->vision += bytes;
    else if (!wn_name_is_embedding(name))
        f->token_rest += bytes;
    else if (f->model) /* one row; tied: and the whole of it as the head */
        f->token_rest +=
            bytes / wn_model_config(f->model)->vocab_size + (wn_model_config(f->model)->tied_embeddings ? bytes : 0);
}

/* Experts of layers must weigh the same: an expert more is then so many bytes more, whichever it is. */
static bool divide(struct wn_fit *f, struct wn_err *err)
{
    for (uint32_t i = 0; i < f->layer_count; i++) {
        struct wn_fit_layer *l = &f->layers[i];

        if (l->slab % l->experts || l->router % l->experts)
            return wn_fail(err, WN_ERR_ARG,
                           "'%s': layer %" PRIu32 ": %" PRIu64 " bytes are no equal parts of %" PRIu32
                           " experts, so no plan of it can be sized",
                           f->path, l->layer, l->slab + l->router, l->experts);
        l->slab /= l->experts;
        l->router /= l->experts;
        l->tensors /= l->experts;
        l->low_slab /= l->experts;
    }
    return true;
}

/* Routers go along whole, and every expert that does not may leave a mean. */
static bool add_ghosts(struct wn_fit *f, struct wn_err *err)
{
    const struct wn_config *c = wn_model_config(f->model);
    bool means = f->options.ghosts == WN_GHOSTS_MEAN;

    f->mean = means ? (uint64_t)2 * (c->latent_size ? c->latent_size : c->hidden_size) : 0;
    for (uint32_t i = 0; i < f->layer_count; i++) {
        const struct wn_fit_layer *l = &f->layers[i];

        if (l->slab < f->mean || (f->options.lo_bits && l->low_slab < f->mean))
            return wn_fail(err, WN_ERR_ARG,
                           "'%s': layer %" PRIu32 ": an expert has fewer bytes than its mean output (%" PRIu64 ")",
                           f->path, l->layer, f->mean);
        f->ghosts += l->experts * (l->router + f->mean);
        f->token_rest += l->experts * l->router;
        f->other_tensors += 1 + means;
    }
    return true;
}

static void add_copy(struct wn_fit *f, const struct wn_keep *keep)
{
    for (size_t i = 0; i < keep->tensor_count; i++)
        add_tensor(f, wn_source_container(keep->source), keep->tensors[i].from->name, keep->tensors[i].bytes);
}

/* The same weights in the second bank: Q2_K in a GGUF; in MLX affine codes, scales and biases. 0: they do not fit. */
static uint64_t low_bytes(const struct wn_fit *f, const struct wn_recast_tensor *t)
{
    const struct wn_type_info *k = wn_type_info(WN_Q2_K);
    struct wn_recast_tensor low = {.type = wn_affine_type(f->options.lo_bits),
                                   .rows = t->rows,
                                   .cols = t->cols,
                                   .group = wn_recast_group(t->cols)};
    uint64_t bytes = 0;

    if (f->options.format == WN_FORMAT_GGUF)
        return t->cols % k->block_elements ? 0 : t->rows * (t->cols / k->block_elements) * k->block_bytes;
    for (int face = WN_FACE_DATA; low.group && face <= WN_FACE_BIASES; face++) {
        low.face = (enum wn_recast_face)face;
        bytes += wn_recast_bytes(&low);
    }
    return bytes;
}

/* wn_recast_fn */
static bool add_made(void *arg, const struct wn_recast_tensor *t, struct wn_err *err)
{
    struct wn_fit *f = arg;
    enum wn_container container = f->options.format == WN_FORMAT_GGUF ? WN_CONTAINER_GGUF : WN_CONTAINER_SAFETENSORS;
    struct wn_part part;
    struct wn_fit_layer *l;

    add_tensor(f, container, t->name, wn_recast_bytes(t));
    wn_part_of(container, t->name, &part);
    l = part.axis == WN_AXIS_NONE || part.router ? NULL : find_layer(f, part.layer);
    if (l && f->options.lo_bits && t->face == WN_FACE_DATA) {
        uint64_t low = low_bytes(f, t);

        if (low == 0)
            return wn_fail(err, WN_ERR_ARG,
                           "'%s': rows of %" PRIu64 " weights are no whole blocks of the second bank's type%s", t->name,
                           t->cols, f->options.format == WN_FORMAT_GGUF ? " (Q2_K: 256; in MLX folders: 32)" : "");
        l->low_slab += low;
    }
    return true;
}

static bool add_recast(struct wn_fit *f, const struct wn_keep *keep, struct wn_err *err)
{
    const struct wn_fit_options *o = &f->options;
    struct wn_recast r = wn_recast_of(f->model, keep, o->format, o->rest_bits, o->encoder);

    r.sizes_only = true;
    return wn_recast_walk(&r, add_made, f, err);
}

static bool check(const struct wn_fit *f, const struct wn_source *s, struct wn_err *err)
{
    const struct wn_fit_options *o = &f->options;

    if (o->memory && o->size)
        return wn_fail(err, WN_ERR_ARG, "one budget is enough: of memory, or of the build's size");
    if (o->memory && !f->model)
        return wn_fail(err, WN_ERR_ARG, "'%s' is no model that winnow computes, so what it takes to run is not known",
                       f->path);
    if (wn_fit_has_ghosts(f) && !f->model)
        return wn_fail(err, WN_ERR_ARG, "'%s' is no model that winnow computes, and no other program knows ghosts",
                       f->path);
    if (o->lo_source && wn_recast_is_needed(o->format, s))
        return wn_fail(err, WN_ERR_ARG, "two parents are copied, byte for byte, and not made into another container");
    if (wn_recast_is_needed(f->options.format, s) && (!f->model || wn_naming_of_source(s) != WN_NAMING_HF))
        return wn_fail(err, WN_ERR_ARG,
                       "'%s' cannot become another container: that goes from HF folders of K3 and its kin only",
                       f->path);
    if (o->lo_source && o->lo_bits)
        return wn_fail(err, WN_ERR_ARG,
                       "experts of %u bits and a second model to take them from: one of them is enough", o->lo_bits);
    if (o->lo_bits && !wn_recast_is_needed(f->options.format, s))
        return wn_fail(err, WN_ERR_ARG,
                       "experts of %u bits need an MLX folder, or a GGUF made of an HF folder (--format), or two GGUFs "
                       "of the model (--lo-model)",
                       o->lo_bits);
    if (o->lo_bits && o->format == WN_FORMAT_GGUF && o->lo_bits != 2)
        return wn_fail(err, WN_ERR_ARG, "experts of %u bits are not written into a GGUF: 2 are (Q2_K)", o->lo_bits);
    if (o->lo_bits && wn_affine_type(o->lo_bits) == WN_TYPE_COUNT)
        return wn_fail(err, WN_ERR_ARG, "experts of %u bits are not known: 2, 3, 4, 5, 6, 8", o->lo_bits);
    return true;
}

static bool gather(struct wn_fit *f, const struct wn_source *s, struct wn_err *err)
{
    struct wn_keep keep = {0};
    bool ok = check(f, s, err) && wn_keep_init(&keep, s, &(struct wn_keep_how){0}, err) && take_layers(f, &keep, err);

    if (ok && f->layer_count == 0)
        ok = wn_fail(err, WN_ERR_ARG, "'%s' has no layer with experts", f->path);
    if (ok && wn_recast_is_needed(f->options.format, s))
        ok = add_recast(f, &keep, err);
    else if (ok)
        add_copy(f, &keep);
    if (ok && wn_fit_is_of_two(f))
        ok = wn_fit_add_twin(f, s, err);
    wn_keep_release(&keep);
    return ok && divide(f, err) && (!wn_fit_has_ghosts(f) || add_ghosts(f, err));
}

struct wn_fit *wn_fit_new(const char *path, const struct wn_model *m, const struct wn_fit_options *o,
                          struct wn_err *err)
{
    struct wn_fit *f = wn_alloc(1, sizeof *f, err);
    struct wn_source *s = f && !m ? wn_source_open(path, err) : NULL;
    bool ok = f && (m || s);

    if (ok) {
        f->options = *o;
        f->model = m;
        ok = (!o->lo_source || (f->options.lo_source = wn_strdup(o->lo_source, err))) &&
             (f->path = wn_strdup(path, err)) && gather(f, m ? wn_model_source(m) : s, err) &&
             (!m || wn_fit_measure_memory(f, err)) && (!o->lo_bits || wn_fit_measure_fidelity(f, err));
    }
    wn_source_close(s);
    if (ok)
        return f;
    wn_fit_free(f);
    return NULL;
}

void wn_fit_free(struct wn_fit *f)
{
    if (!f)
        return;
    free(f->path);
    free((char *)(uintptr_t)f->options.lo_source);
    free(f->layers);
    free(f);
}

double wn_fit_fidelity(const struct wn_fit *f, bool *measured)
{
    *measured = f->measured;
    return f->fidelity;
}

uint32_t wn_fit_top_k(const struct wn_fit *f)
{
    return f && f->model ? wn_model_config(f->model)->experts_per_token : 0;
}

/* What all but the experts takes of the budget. */
static uint64_t taken(const struct wn_fit *f)
{
    return f->options.size ? f->rest + f->ghosts : wn_fit_fixed_memory(f);
}

static uint64_t budget(const struct wn_fit *f)
{
    return f->options.size ? f->options.size : f->options.memory;
}

static uint64_t room(const struct wn_fit *f)
{
    return budget(f) > taken(f) ? budget(f) - taken(f) : 0;
}

bool wn_fit_say_budget(const struct wn_fit *f, struct wn_err *err)
{
    return wn_fail_in(err, "of %" PRIu64 " bytes of %s all but the experts takes %" PRIu64, budget(f),
                      f->options.size ? "tensors" : "memory", taken(f));
}

bool wn_fit_price(const struct wn_fit *f, struct wn_choice *c, struct wn_err *err)
{
    if (c->n != f->layer_count)
        return wn_fail(err, WN_ERR_ARG, "the archive has %" PRIu32 " layers with experts, '%s' has %" PRIu32, c->n,
                       f->path, f->layer_count);
    for (uint32_t i = 0; i < c->n; i++) {
        const struct wn_fit_layer *l = &f->layers[i];
        uint64_t beside = (uint64_t)wn_fit_row(f, l) + (f->options.memory ? wn_fit_beside(f, l) : 0);

        if (c->layers[i].layer != l->layer || c->layers[i].experts != l->experts)
            return wn_fail(err, WN_ERR_ARG,
                           "the archive has %" PRIu32 " experts in layer %" PRIu32 ", '%s' has %" PRIu32
                           " in layer %" PRIu32,
                           c->layers[i].experts, c->layers[i].layer, f->path, l->experts, l->layer);
        c->layers[i].hi_bytes = l->slab + beside;
        c->layers[i].lo_bytes = l->low_slab + beside;
    }
    if (c->lo_bits)
        c->fidelity = f->fidelity;
    c->room = wn_fit_has_budget(f) ? room(f) : 0;
    return true;
}
