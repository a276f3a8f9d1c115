/*
 * exp and what is made of it, WIDTH values at a time: the steps of scalar/math.c, one for one. See poly.h.
 */
#ifndef WN_KERNELS_VARIANT_MATH_H
#define WN_KERNELS_VARIANT_MATH_H

#include "kernels/poly.h"

/* A NaN fails both comparisons and makes q a NaN, whatever its garbage of a power is. */
INLINE vf vf_exp(vf x)
{
    const vf rounder = vf_set(WN_ROUNDER);
    vf rounded, n, r, q;

    x = vf_pick(vf_less(x, vf_set(WN_EXP_LOW)), vf_set(WN_EXP_LOW), x);
    x = vf_pick(vf_less(vf_set(WN_EXP_HIGH), x), vf_set(WN_EXP_HIGH), x);

    rounded = vf_fma(x, vf_set(WN_LOG2E), rounder);
    n = vf_sub(rounded, rounder);
    r = vf_fma(n, vf_set(-WN_LN2_HIGH), x);
    r = vf_fma(n, vf_set(-WN_LN2_LOW), r);

    q = vf_fma(r, vf_set(WN_EXP_Q4), vf_set(WN_EXP_Q3));
    q = vf_fma(r, q, vf_set(WN_EXP_Q2));
    q = vf_fma(r, q, vf_set(WN_EXP_Q1));
    q = vf_fma(r, q, vf_set(WN_EXP_Q0));
    q = vf_add(vf_fma(vf_mul(r, r), q, r), vf_set(1));
    return vf_times_power(q, rounded, rounder);
}

/* exp(-|x|) */
INLINE vf vf_exp_falling(vf x)
{
    return vf_exp(vf_give_sign(vf_abs(x), vf_set(-0.0f)));
}

INLINE vf vf_sigmoid(vf x)
{
    const vf one = vf_set(1);
    vf e = vf_exp_falling(x);

    return vf_div(vf_pick(vf_less(x, vf_set(0)), e, one), vf_add(one, e));
}

INLINE vf vf_silu(vf x)
{
    return vf_mul(x, vf_sigmoid(x));
}

INLINE vf vf_tanh(vf x)
{
    const vf one = vf_set(1);
    vf a = vf_abs(x), z = vf_mul(a, a), small, large;

    small = vf_fma(z, vf_set(WN_TANH_T4), vf_set(WN_TANH_T3));
    small = vf_fma(z, small, vf_set(WN_TANH_T2));
    small = vf_fma(z, small, vf_set(WN_TANH_T1));
    small = vf_fma(z, small, vf_set(WN_TANH_T0));
    small = vf_fma(vf_mul(a, z), small, a);
    large = vf_sub(one, vf_div(vf_set(2), vf_add(vf_exp(vf_add(a, a)), one)));
    return vf_give_sign(vf_pick(vf_less(a, vf_set(WN_TANH_SPLIT)), small, large), x);
}

INLINE vf vf_softplus(vf x)
{
    vf e = vf_exp_falling(x), s = vf_div(e, vf_add(vf_set(2), e)), z = vf_mul(s, s), a;

    a = vf_fma(z, vf_set(WN_ATANH_A3), vf_set(WN_ATANH_A2));
    a = vf_fma(z, a, vf_set(WN_ATANH_A1));
    a = vf_fma(z, a, vf_set(WN_ATANH_A0));
    a = vf_fma(vf_mul(s, z), a, s);
    a = vf_add(vf_pick(vf_less(vf_set(0), x), x, vf_set(0)), vf_add(a, a));
    return vf_pick(vf_less(vf_set(WN_SOFTPLUS_SPLIT), x), x, a);
}

#endif
