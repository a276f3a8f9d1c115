/* A variant's place in the table: everything above, under `name`. */
#ifndef WN_KERNELS_VARIANT_TABLE_H
#define WN_KERNELS_VARIANT_TABLE_H

INLINE void variant_fill(struct wn_kernels *k, const char *name)
{
    *k = (struct wn_kernels){
        .name = name,
        .dot_f32 = dot_f32,
        .dot_bf16 = dot_bf16,
        .dot_f16 = dot_f16,
        .dot_q8_0 = dot_q8_0,
        .dot_mxfp4 = dot_mxfp4,
        .dot_mxfp4_split = dot_mxfp4_split,
        .mul_tile = mul_tile,
        .dot_rows = dot_rows,
        .decode_row = decode_row,
        .axpy = axpy,
        .add = add,
        .mul = mul,
        .scale = scale,
        .sum_squares = sum_squares,
        .sum = sum,
        .max = max,
        .rms_norm = rms_norm,
        .l2_norm = l2_norm,
        .exp = exp_all,
        .sigmoid = sigmoid_all,
        .silu = silu_all,
        .softplus = softplus_all,
        .situ = situ,
        .swiglu = swiglu,
        .softmax = softmax,
        .kda_step = kda_step,
        .conv_step = conv_step,
    };
}

#endif
