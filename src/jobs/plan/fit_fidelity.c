/*
 * What fewer bits leave of an expert. Rows of some experts of some layers are decoded, encoded as the build will have
 * them, and decoded again. An expert's output is a sum over its rows' products, and independent errors of weights add
 * up in squares, so with a relative RMS error e it keeps about 1 - e^2 of its energy: that is what its saliency is
 * multiplied by.
 */
#include "base/alloc.h"
#include "jobs/plan/fit.h"
#include "jobs/convert/recast.h"
#include "quant/quant.h"

#include <stdlib.h>

#define LAYERS_SAMPLED  6 /* spread over the depth */
#define EXPERTS_SAMPLED 4 /* of each, spread over their numbers */
#define ROWS_SAMPLED    16

/* Two bits by least squares on k3-mini's experts, which are MXFP4: `winnow plan` with --model prints it. */
#define FIDELITY_OF_2_BITS 0.9

struct sample {
    struct wn_affine_form form;
    enum wn_affine_rule rule;
    bool gguf; /* Q2_K instead */
    float *values, *back;
    uint8_t *codes, *scales, *biases;
    double error, energy; /* sums of squares */
};

static void add_row(struct sample *s, const struct wn_matrix *m, uint64_t row)
{
    size_t n = (size_t)m->cols;
    struct wn_matrix low = {.type = wn_affine_type(s->form.bits),
                            .rows = 1,
                            .cols = m->cols,
                            .data = s->codes,
                            .row_bytes = n * s->form.bits / 8,
                            .scales = s->scales,
                            .biases = s->biases,
                            .scale_row_bytes = n / s->form.group * sizeof(uint16_t),
                            .group = s->form.group,
                            .scale_type = s->form.stored};

    wn_quant_decode_row(m, row, s->values);
    if (s->gguf) {
        wn_quant_encoder(WN_Q2_K)(s->values, s->codes, n);
        wn_quant_decoder(WN_Q2_K)(s->codes, s->back, n);
    } else {
        wn_affine_encode_row(&s->form, s->rule, s->values, NULL, n, s->codes, s->scales, s->biases);
        wn_affine_decode_row(&low, 0, s->back);
    }
    for (size_t i = 0; i < n; i++) {
        double x = s->values[i], d = x - s->back[i];

        s->energy += x * x;
        s->error += d * d;
    }
}

static bool add_matrix(struct sample *s, const struct wn_matrix *m, struct wn_err *err)
{
    size_t n = (size_t)m->cols;
    bool ok;

    s->form.group = wn_recast_group(m->cols);
    if (!s->form.group || !wn_quant_can_decode(m->type))
        return true;
    s->values = wn_alloc(n, sizeof(float), err);
    s->back = wn_alloc(n, sizeof(float), err);
    s->codes = wn_alloc(n, 1, err);
    s->scales = wn_alloc(n / s->form.group, sizeof(uint16_t), err);
    s->biases = wn_alloc(n / s->form.group, sizeof(uint16_t), err);
    ok = s->values && s->back && s->codes && s->scales && s->biases;
    for (uint64_t i = 0; ok && i < ROWS_SAMPLED && i < m->rows; i++)
        add_row(s, m, m->rows * i / ROWS_SAMPLED);
    free(s->values);
    free(s->back);
    free(s->codes);
    free(s->scales);
    free(s->biases);
    return ok;
}

static bool add_layer(const struct wn_fit *f, struct sample *s, uint32_t layer, struct wn_err *err)
{
    struct wn_layer l;
    bool ok;

    if (!wn_layer_bind(f->model, layer, &l, err))
        return false;
    ok = true;
    for (uint32_t i = 0; ok && i < EXPERTS_SAMPLED && i < l.mixture.expert_count; i++) {
        const struct wn_expert *e = &l.mixture.experts[(uint64_t)l.mixture.expert_count * i / EXPERTS_SAMPLED];

        ok = add_matrix(s, &e->gate, err) && add_matrix(s, &e->up, err) && add_matrix(s, &e->down, err);
    }
    wn_layer_release(&l);
    return ok;
}

void wn_fit_set_fidelity(struct wn_fit *f, double error, double energy)
{
    f->measured = energy > 0 && error >= 0 && error < energy;
    f->fidelity = f->measured ? 1 - error / energy : FIDELITY_OF_2_BITS;
}

bool wn_fit_measure_fidelity(struct wn_fit *f, struct wn_err *err)
{
    struct sample s = {.form = {.bits = f->options.lo_bits, .stored = WN_BF16},
                       .gguf = f->options.format == WN_FORMAT_GGUF,
                       .rule = f->options.encoder == WN_ENCODER_FIT ? WN_AFFINE_LEAST_SQUARES : WN_AFFINE_MINMAX};

    for (uint32_t i = 0; i < LAYERS_SAMPLED && i < f->layer_count; i++)
        if (!add_layer(f, &s, f->layers[(uint64_t)f->layer_count * i / LAYERS_SAMPLED].layer, err))
            return false;
    wn_fit_set_fidelity(f, s.error, s.energy);
    return true;
}
