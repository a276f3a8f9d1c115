/*
 * The 32 lanes of the summing order as registers. A variant file includes its register operations first, then this.
 */
#ifndef WN_KERNELS_VARIANT_LANES_H
#define WN_KERNELS_VARIANT_LANES_H

#define LANES 32

/* Short loops over registers must be unrolled, or the registers become an array in memory. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* How many of the first n lanes fall into register i. */
INLINE size_t lanes_of(size_t n, size_t i)
{
    return n > i * WIDTH ? n - i * WIDTH : 0;
}

INLINE v32 v32_set(float f)
{
    v32 r;

#define STEP(i) r.at[i] = vf_set(f);
    EACH(STEP)
#undef STEP
    return r;
}

INLINE v32 v32_load(const float *p)
{
    v32 r;

#define STEP(i) r.at[i] = vf_load(p + (i)*WIDTH);
    EACH(STEP)
#undef STEP
    return r;
}

INLINE void v32_store(float *p, v32 a)
{
#define STEP(i) vf_store(p + (i)*WIDTH, a.at[i]);
    EACH(STEP)
#undef STEP
}

/* The first n floats, n <= 32; the others 0. */
INLINE v32 v32_load_first(const float *p, size_t n)
{
    v32 r;

#define STEP(i) r.at[i] = lanes_of(n, i) ? vf_load_first(p + (i)*WIDTH, lanes_of(n, i)) : vf_set(0);
    EACH(STEP)
#undef STEP
    return r;
}

INLINE void v32_store_first(float *p, v32 a, size_t n)
{
#define STEP(i)                                                                                                        \
    if (lanes_of(n, i))                                                                                                \
        vf_store_first(p + (i)*WIDTH, a.at[i], lanes_of(n, i));
    EACH(STEP)
#undef STEP
}

INLINE v32 v32_fma(v32 a, v32 b, v32 c)
{
#define STEP(i) c.at[i] = vf_fma(a.at[i], b.at[i], c.at[i]);
    EACH(STEP)
#undef STEP
    return c;
}

INLINE v32 v32_mul(v32 a, v32 b)
{
#define STEP(i) a.at[i] = vf_mul(a.at[i], b.at[i]);
    EACH(STEP)
#undef STEP
    return a;
}

INLINE v32 v32_add(v32 a, v32 b)
{
#define STEP(i) a.at[i] = vf_add(a.at[i], b.at[i]);
    EACH(STEP)
#undef STEP
    return a;
}

INLINE v32 v32_sub(v32 a, v32 b)
{
#define STEP(i) a.at[i] = vf_sub(a.at[i], b.at[i]);
    EACH(STEP)
#undef STEP
    return a;
}

/* b where b > a, else a (so a where either is a NaN) */
INLINE v32 v32_greater(v32 a, v32 b)
{
#define STEP(i) a.at[i] = vf_pick(vf_less(a.at[i], b.at[i]), b.at[i], a.at[i]);
    EACH(STEP)
#undef STEP
    return a;
}

/*
 * The first n lanes of a, the others of `old`. A lane that a short tail does not reach must stay as it is: adding 0 * 0
 * would turn a -0 into +0.
 */
INLINE v32 v32_first(size_t n, v32 a, v32 old)
{
#define STEP(i) a.at[i] = vf_pick(vf_first(lanes_of(n, i)), a.at[i], old.at[i]);
    EACH(STEP)
#undef STEP
    return a;
}

/* Folds registers in halves, until one is left: lane j += lane j + 16, and so on down to lane j + WIDTH. */
INLINE vf v32_fold_to_one(v32 a)
{
    UNROLL
    for (size_t half = REGS / 2; half > 0; half /= 2) {
        UNROLL
        for (size_t i = 0; i < half; i++)
            a.at[i] = vf_add(a.at[i], a.at[i + half]);
    }
    return a.at[0];
}

INLINE float v32_fold(v32 a)
{
    return vf_fold(v32_fold_to_one(a));
}

/* y[i] = the fold of a[i], i < 4: the same additions, several sums at a time. */
INLINE void v32_fold_4(const v32 *a, float *y)
{
    vf_fold_4(v32_fold_to_one(a[0]), v32_fold_to_one(a[1]), v32_fold_to_one(a[2]), v32_fold_to_one(a[3]), y);
}

#endif
