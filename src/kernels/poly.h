/*
 * The constants of our exp, tanh and softplus, shared by the scalar text and the variants, which take the same steps
 * with them. Each polynomial is a minimax fit of the relative error over the interval named, its coefficients then
 * rounded to f32; "off by" is the fit's own error in units of the last place, before any rounding of the steps.
 *
 *   exp(x)   n = x / ln 2 rounded to even, r = x - n ln 2, |r| <= ln 2 / 2;  1 + r + r^2 q(r), off by 0.05;  times 2^n.
 *            n is added to the exponent in two halves, each an exact multiplication but for the last rounding, so
 *            results below the smallest normal number are rounded once, overflow gives inf, and no processor differs.
 *   tanh(x)  |x| < 0.625: x + x^3 t(x^2), off by 0.07, so small x keep all their digits;
 *            otherwise 1 - 2 / (exp(2 |x|) + 1). The sign of x is put back at the end.
 *   softplus max(x, 0) + log(1 + e), e = exp(-|x|); with s = e / (2 + e), 0 <= s <= 1/3:
 *            log(1 + e) = 2 atanh(s) = 2 (s + s^3 a(s^2)), off by 0.07.
 */
#ifndef WN_KERNELS_POLY_H
#define WN_KERNELS_POLY_H

/*
 * exp(x) is 0 below the first and inf above the second: half the smallest denormal is e^-103.97, the largest float
 * e^88.72.
 */
#define WN_EXP_LOW  (-104.0f)
#define WN_EXP_HIGH 89.0f

#define WN_LOG2E 0x1.715476p+0f
/* Adding it to |v| < 2^22 and taking it off again rounds v to an integer; the sum's low bits are that integer. */
#define WN_ROUNDER 0x1.8p+23f
/* ln 2 = high + low */
#define WN_LN2_HIGH 0x1.62e430p-1f
#define WN_LN2_LOW  (-0x1.05c610p-29f)

#define WN_EXP_Q0 0x1.fffffcp-2f
#define WN_EXP_Q1 0x1.555492p-3f
#define WN_EXP_Q2 0x1.5558f2p-5f
#define WN_EXP_Q3 0x1.1239e8p-7f
#define WN_EXP_Q4 0x1.6a242cp-10f

#define WN_TANH_SPLIT 0.625f
#define WN_TANH_T0    (-0x1.555532p-2f)
#define WN_TANH_T1    0x1.110726p-3f
#define WN_TANH_T2    (-0x1.b83c5ap-5f)
#define WN_TANH_T3    0x1.52269cp-6f
#define WN_TANH_T4    (-0x1.75e1ccp-8f)

#define WN_ATANH_A0 0x1.555502p-2f
#define WN_ATANH_A1 0x1.99d208p-3f
#define WN_ATANH_A2 0x1.1ebd0ep-3f
#define WN_ATANH_A3 0x1.1ed7bep-3f

#define WN_SOFTPLUS_SPLIT 20.0f

#endif
