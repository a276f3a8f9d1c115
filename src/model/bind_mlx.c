/*
 * Matrices of MLX folders: codes as u32 words, which are bytes in order on the machines that winnow runs on, with
 * scales beside them; MXFP4's bytes are HF's. What config.json says of bits and groups must be what the shapes say.
 */
#include "model/bind.h"

#include <assert.h>

#define WORD_BITS 32

/* What lies beside a weight, or NULL. */
static const struct wn_tensor *beside(struct wn_binder *b, const struct wn_tensor *weight, const char *what)
{
    char name[WN_NAME_BYTES];

    return wn_name_beside(weight->name, what, name) ? wn_bind_try(b, name) : NULL;
}

/* The shape with another innermost dimension, as codes and scales have it. */
static bool check_inner(struct wn_binder *b, const struct wn_tensor *t, const uint64_t *shape, uint32_t dims,
                        uint64_t inner, const struct wn_mlx_form *f)
{
    uint64_t want[WN_DIMS];

    assert(dims >= 1 && dims <= WN_DIMS);
    for (uint32_t i = 0; i < dims; i++)
        want[i] = i + 1 < dims ? shape[i] : inner;
    return wn_bind_shape(b, t, want, dims) ||
           wn_fail_in(b->err, "config.json says %s, %u bits in groups of %u",
                      f->mode == WN_MLX_AFFINE ? "affine" : "mxfp4", f->bits, f->group);
}

static bool wrong_type(struct wn_binder *b, const struct wn_tensor *t, const char *wanted)
{
    return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s' is of type %s, wanted %s", t->name, wn_type_info(t->type)->name,
                   wanted);
}

static bool check_scales(struct wn_binder *b, const struct wn_tensor *weight, const struct wn_tensor *scales,
                         const struct wn_tensor *biases, const struct wn_mlx_form *f)
{
    if (f->mode == WN_MLX_MXFP4) {
        if (biases)
            return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s' has no place: mxfp4 has no biases", biases->name);
        return scales->type == WN_U8 || wrong_type(b, scales, "U8 for mxfp4");
    }
    if (scales->type != WN_BF16 && scales->type != WN_F16 && scales->type != WN_F32)
        return wrong_type(b, scales, "BF16, F16 or F32 for affine");
    if (!biases)
        return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s' is affine and has scales, but its '.biases' are missing",
                       weight->name);
    return biases->type == scales->type || wrong_type(b, biases, wn_type_info(scales->type)->name);
}

static bool view_parts(struct wn_binder *b, const struct wn_tensor *weight, const struct wn_tensor *scales,
                       const struct wn_tensor *biases, struct wn_matrix *m)
{
    m->data = wn_source_view(b->source, weight, b->err);
    m->scales = m->data ? wn_source_view(b->source, scales, b->err) : NULL;
    m->biases = m->scales && biases ? wn_source_view(b->source, biases, b->err) : NULL;
    return (m->data && m->scales && (m->biases || !biases)) || wn_fail_in(b->err, "tensor '%s'", weight->name);
}

bool wn_bind_mlx(struct wn_binder *b, const struct wn_tensor *t, const uint64_t *shape, uint32_t dims,
                 struct wn_matrix *m)
{
    const struct wn_tensor *scales = beside(b, t, "scales"), *biases = beside(b, t, "biases");
    uint64_t cols = shape[dims - 1], rows = 1;
    struct wn_mlx_form f;

    for (uint32_t i = 0; i + 1 < dims; i++)
        rows *= shape[i];
    if (!wn_mlx_form_of(b->model->mlx, t->name, scales != NULL, &f, b->err))
        return false;
    if (f.mode == WN_MLX_PLAIN && biases)
        return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s' has no place: there are no scales beside it", biases->name);
    if (f.mode == WN_MLX_PLAIN)
        return wn_bind_shape(b, t, shape, dims) && wn_bind_view(b, t, rows, cols, m);
    assert(scales); /* or it would be plain */
    if (t->type != WN_U32)
        return wrong_type(b, t, "U32, as it has scales");
    if (cols % f.group != 0)
        return wn_fail(b->err, WN_ERR_FORMAT, "tensor '%s': %llu columns are no whole groups of %u", t->name,
                       (unsigned long long)cols, f.group);
    if (!check_inner(b, t, shape, dims, cols * f.bits / WORD_BITS, &f) ||
        !check_inner(b, scales, shape, dims, cols / f.group, &f) || !check_scales(b, t, scales, biases, &f) ||
        (biases && !check_inner(b, biases, shape, dims, cols / f.group, &f)))
        return false;
    *m = (struct wn_matrix){.type = wn_mlx_type(&f),
                            .rows = rows,
                            .cols = cols,
                            .row_bytes = (size_t)(cols * f.bits / 8),
                            .scale_row_bytes = (size_t)(cols / f.group * wn_type_info(scales->type)->block_bytes)};
    if (f.mode == WN_MLX_AFFINE) {
        m->group = f.group;
        m->scale_type = scales->type;
    }
    return view_parts(b, t, scales, biases, m);
}
