/* All forms by name, and which of them a matrix has. */
#ifndef WN_KERNELS_VARIANT_FORMS_ALL_H
#define WN_KERNELS_VARIANT_FORMS_ALL_H

/* X(name, part function, span function, blocks and bytes of a span) */
#define FORMS(X)                                                                                                       \
    X(F32, part_f32, span_plain, 1, 128)                                                                               \
    X(BF16, part_bf16, span_plain, 1, 64)                                                                              \
    X(F16, part_f16, span_plain, 1, 64)                                                                                \
    X(Q8_0, part_q8_0, span_f16_scale, 1, 34)                                                                          \
    X(Q4_0, part_q4_0, span_f16_scale, 1, 18)                                                                          \
    X(IQ4_NL, part_iq4_nl, span_f16_scale, 1, 18)                                                                      \
    X(MXFP4, part_mxfp4, span_mxfp4, 1, 17)                                                                            \
    X(MXFP4_SPLIT, part_mxfp4_split, span_mxfp4_split, 1, 16)                                                          \
    X(AFFINE2_32, part_affine2, span_affine, 1, 8)                                                                     \
    X(AFFINE2_64, part_affine2, span_affine, 2, 16)                                                                    \
    X(AFFINE2_128, part_affine2, span_affine, 4, 32)                                                                   \
    X(AFFINE4_32, part_affine4, span_affine, 1, 16)                                                                    \
    X(AFFINE4_64, part_affine4, span_affine, 2, 32)                                                                    \
    X(AFFINE4_128, part_affine4, span_affine, 4, 64)                                                                   \
    X(AFFINE8_32, part_affine8, span_affine, 1, 32)                                                                    \
    X(AFFINE8_64, part_affine8, span_affine, 2, 64)                                                                    \
    X(AFFINE8_128, part_affine8, span_affine, 4, 128)                                                                  \
    X(Q2_K, part_q2_k, span_q2_k, 8, 84)                                                                               \
    X(Q3_K, part_q3_k, span_q3_k, 8, 110)                                                                              \
    X(Q4_K, part_q4_k, span_q4_k, 8, 144)                                                                              \
    X(Q5_K, part_q5_k, span_q4_k, 8, 176)                                                                              \
    X(Q6_K, part_q6_k, span_q6_k, 8, 210)                                                                              \
    X(IQ4_XS, part_iq4_xs, span_iq4_xs, 8, 136)

#define NUMBER(name, part, span, blocks, bytes) FORM_##name,
enum form_id { FORMS(NUMBER) FORM_NONE };
#undef NUMBER

#define FORM(name, part, span, blocks, bytes) static const struct form form_##name = {part, span, blocks, bytes};
FORMS(FORM)
#undef FORM

/* True for blocks that come in the order of v32_apart. */
INLINE bool in_pairs(const struct form f)
{
    return f.part == part_mxfp4_split || f.part == part_affine4;
}

/*
 * The form for rows whose products of scales and codes are exact, so that one rounding gives the bits of two. Of two
 * bits there are four values a group, and nothing is gained.
 */
INLINE struct form exact_form(struct form f)
{
    f.part = f.part == part_affine8 ? part_affine8_exact : f.part;
    return f;
}

/* FORM_NONE: read by its definition. */
static enum form_id form_of(const struct wn_matrix *m)
{
    switch (m->type) {
#define SAME(name)                                                                                                     \
    case WN_##name:                                                                                                    \
        return FORM_##name;
        SAME(BF16)
        SAME(F16)
        SAME(Q8_0)
        SAME(Q4_0)
        SAME(IQ4_NL)
        SAME(MXFP4)
        SAME(MXFP4_SPLIT)
        SAME(Q2_K)
        SAME(Q3_K)
        SAME(Q4_K)
        SAME(Q5_K)
        SAME(Q6_K)
        SAME(IQ4_XS)
#undef SAME
    case WN_F32:
        return ((uintptr_t)m->data | m->row_bytes) % _Alignof(float) == 0 ? FORM_F32 : FORM_NONE;
    case WN_AFFINE2:
        return m->group == 32 ? FORM_AFFINE2_32 : m->group == 64 ? FORM_AFFINE2_64 : FORM_AFFINE2_128;
    case WN_AFFINE4:
        return m->group == 32 ? FORM_AFFINE4_32 : m->group == 64 ? FORM_AFFINE4_64 : FORM_AFFINE4_128;
    case WN_AFFINE8:
        return m->group == 32 ? FORM_AFFINE8_32 : m->group == 64 ? FORM_AFFINE8_64 : FORM_AFFINE8_128;
    default:
        return FORM_NONE;
    }
}

#endif
