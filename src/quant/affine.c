/*
 * Affine rows: packing, decoding, and MLX's rule for scales and biases. Checked against golden/mlx, whose numbers MLX's
 * CPU backend made. (Its Metal kernels round halves away from zero, so codes of a file made on a Mac differ here and
 * there; both decode alike.)
 */
#include "quant/affine.h"
#include "quant/affine_parts.h"
#include "quant/quant.h"
#include "base/bits.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum wn_type wn_affine_type(unsigned bits)
{
    static const enum wn_type types[9] = {
        [2] = WN_AFFINE2, [3] = WN_AFFINE3, [4] = WN_AFFINE4, [5] = WN_AFFINE5, [6] = WN_AFFINE6, [8] = WN_AFFINE8};

    return bits < 9 && types[bits] ? types[bits] : WN_TYPE_COUNT;
}

unsigned wn_affine_bits(enum wn_type t)
{
    for (unsigned bits = 2; bits <= 8; bits++)
        if (wn_affine_type(bits) == t)
            return bits;
    return 0;
}

bool wn_affine_fits(const struct wn_affine_form *f, uint64_t n)
{
    return wn_affine_type(f->bits) != WN_TYPE_COUNT && (f->group == 32 || f->group == 64 || f->group == 128) &&
           (f->stored == WN_BF16 || f->stored == WN_F16 || f->stored == WN_F32) && n % f->group == 0;
}

/* ---- one number of the stored type ---- */

static void store(enum wn_type t, float v, uint8_t *at)
{
    wn_quant_encoder(t)(&v, at, 1);
}

static float load(enum wn_type t, const uint8_t *at)
{
    float v;

    wn_quant_decoder(t)(at, &v, 1);
    return v;
}

float wn_affine_as_stored(enum wn_type t, float v)
{
    uint8_t room[sizeof(float)];

    store(t, v, room);
    return load(t, room);
}

/* ---- codes in a stream of bits; n a multiple of 32, so the stream ends at a byte ---- */

static void pack(const uint8_t *q, size_t n, unsigned bits, uint8_t *codes)
{
    uint32_t held = 0;
    unsigned have = 0;

    for (size_t i = 0; i < n; i++) {
        held |= (uint32_t)q[i] << have;
        for (have += bits; have >= 8; have -= 8, held >>= 8)
            *codes++ = (uint8_t)held;
    }
}

static void unpack(const uint8_t *codes, size_t n, unsigned bits, uint8_t *q)
{
    uint32_t held = 0, mask = (1u << bits) - 1;
    unsigned have = 0;

    for (size_t i = 0; i < n; i++) {
        if (have < bits) {
            held |= (uint32_t)*codes++ << have;
            have += 8;
        }
        q[i] = (uint8_t)(held & mask);
        held >>= bits;
        have -= bits;
    }
}

void wn_affine_decode_row(const struct wn_matrix *m, uint64_t row, float *dst)
{
    const uint8_t *codes = m->data + row * m->row_bytes;
    const uint8_t *scales = m->scales + row * m->scale_row_bytes, *biases = m->biases + row * m->scale_row_bytes;
    unsigned bits = wn_affine_bits(m->type);
    size_t step = wn_type_info(m->scale_type)->block_bytes;
    uint8_t q[32];

    assert(bits && m->group % 32 == 0 && m->cols % m->group == 0);
    for (size_t at = 0; at < m->cols; at += 32, codes += 4 * bits) {
        size_t g = at / m->group;
        float scale = load(m->scale_type, scales + g * step), bias = load(m->scale_type, biases + g * step);

        unpack(codes, 32, bits, q);
        for (int i = 0; i < 32; i++)
            dst[at + (size_t)i] = scale * (float)q[i] + bias;
    }
}

/* ---- encoding ---- */

/*
 * Adding and taking away 1.5 * 2^23 rounds to the nearest whole number, half to even. A NaN fails both comparisons and
 * is code 0.
 */
void wn_affine_quantise(const float *w, size_t n, float scale, float bias, float most, uint8_t *q)
{
    for (size_t i = 0; i < n; i++) {
        float x = (w[i] - bias) / scale;

        x = x > 0 ? x : 0;
        x = x < most ? x : most;
        q[i] = (uint8_t)((x + 0x1.8p23f) - 0x1.8p23f);
    }
}

/*
 * MLX's rule: the range in equal steps from the end of larger magnitude, the step then bent so that zero falls on a
 * code. The codes come from the scale and bias before these are rounded for the file.
 */
static void minmax_group(const float *w, size_t n, unsigned most, struct wn_affine_group *g)
{
    float lo = w[0], hi = w[0], edge, zero;

    for (size_t i = 1; i < n; i++) {
        lo = w[i] < lo ? w[i] : lo;
        hi = w[i] > hi ? w[i] : hi;
    }
    g->scale = fmaxf((hi - lo) / (float)most, 1e-7f);
    if (fabsf(lo) <= fabsf(hi))
        g->scale = -g->scale;
    edge = fabsf(lo) > fabsf(hi) ? lo : hi;
    zero = rintf(edge / g->scale);
    g->bias = 0;
    if (zero != 0) {
        g->scale = edge / zero;
        g->bias = edge;
    }
    wn_affine_quantise(w, n, g->scale, g->bias, (float)most, g->codes);
}

void wn_affine_encode_row(const struct wn_affine_form *f, enum wn_affine_rule rule, const float *src,
                          const float *weights, size_t n, uint8_t *codes, uint8_t *scales, uint8_t *biases)
{
    size_t step = wn_type_info(f->stored)->block_bytes;
    struct wn_affine_group g;

    assert(wn_affine_fits(f, n));
    for (size_t at = 0; at < n; at += f->group, scales += step, biases += step, codes += f->group * f->bits / 8) {
        minmax_group(src + at, f->group, (1u << f->bits) - 1, &g);
        if (rule == WN_AFFINE_LEAST_SQUARES)
            wn_affine_fit(f, src + at, weights ? weights + at : NULL, &g);
        pack(g.codes, f->group, f->bits, codes);
        store(f->stored, g.scale, scales);
        store(f->stored, g.bias, biases);
    }
}
