/* See support.h. */
#include "support.h"

#include "quant/quant.h"
#include "sys/cpu.h"
#include "wn_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct wn_kernels scalar, variants[2];
size_t variant_count;
struct wn_rng rng;

static struct {
    char *at; /* SLOT_BYTES and a page that cannot be touched */
    size_t map_bytes;
} slots[SLOTS];

static void seed_choose(void)
{
    const char *given = getenv("WN_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();

    printf("WN_SEED=%llu\n", (unsigned long long)seed);
    rng.state = seed;
}

static void variant_add(unsigned bit, unsigned cpu)
{
    if (wn_cpu_detect() & bit)
        wn_kernels_init(&variants[variant_count++], cpu);
}

int kernels_set_up(void **state)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    (void)state;
    seed_choose();
    wn_kernels_init(&scalar, 0);
    variant_count = 0;
    variant_add(WN_CPU_AVX2, WN_CPU_AVX2);
    variant_add(WN_CPU_AVX512, WN_CPU_AVX2 | WN_CPU_AVX512);
    variant_add(WN_CPU_NEON, WN_CPU_NEON);
    for (size_t i = 0; i < variant_count; i++)
        printf("checking %s\n", variants[i].name);
    for (unsigned i = 0; i < SLOTS; i++) {
        slots[i].map_bytes = SLOT_BYTES + page;
        slots[i].at = mmap(NULL, slots[i].map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (slots[i].at == MAP_FAILED || mprotect(slots[i].at + SLOT_BYTES, page, PROT_NONE) != 0)
            return -1;
    }
    return 0;
}

int kernels_tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < SLOTS; i++)
        munmap(slots[i].at, slots[i].map_bytes);
    return 0;
}

void *guarded(unsigned slot, size_t bytes)
{
    assert_true(slot < SLOTS && bytes <= SLOT_BYTES);
    return slots[slot].at + SLOT_BYTES - bytes;
}

static float float_of_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

static float float_wild(void)
{
    static const float odd[] = {0,
                                -0.0f,
                                0x1p-149f,
                                -0x1p-149f,
                                0x1.fffffcp-127f,
                                0x1p-126f,
                                0x1.fffffep127f,
                                -0x1p127f,
                                INFINITY,
                                -INFINITY,
                                NAN,
                                1,
                                -1,
                                88.7f,
                                -87.4f,
                                -103.9f,
                                0.625f,
                                -0.625f,
                                20,
                                0x1p-64f,
                                -0x1p-70f,
                                0x1.8p+23f,
                                1e-20f};

    if (wn_rng_below(&rng, 4) == 0)
        return float_of_bits((uint32_t)wn_rng_u64(&rng));
    return odd[wn_rng_below(&rng, sizeof(odd) / sizeof(odd[0]))];
}

float float_any(enum mood mood)
{
    if (mood == WILD || (mood == MIXED && wn_rng_below(&rng, 50) == 0))
        return float_wild();
    return (float)((wn_rng_unit(&rng) - 0.5) * (wn_rng_below(&rng, 8) == 0 ? 40 : 4));
}

void floats_fill(float *x, size_t n, enum mood mood)
{
    for (size_t i = 0; i < n; i++)
        x[i] = float_any(mood);
}

/* Where the blocks have an f16; 0xff: no more. */
static const struct {
    enum wn_type type;
    uint8_t at[2];
} halves[] = {
    {WN_F16, {0, 0xff}},    {WN_BF16, {0, 0xff}},   {WN_Q8_0, {0, 0xff}},   {WN_Q4_0, {0, 0xff}},
    {WN_IQ4_NL, {0, 0xff}}, {WN_Q2_K, {80, 82}},    {WN_Q3_K, {108, 0xff}}, {WN_Q4_K, {0, 2}},
    {WN_Q5_K, {0, 2}},      {WN_Q6_K, {208, 0xff}}, {WN_IQ4_XS, {0, 0xff}},
};

/* Numbers of 16 bits below 2 in size, every `step` bytes. */
static void tame_halves(uint8_t *bytes, size_t total, size_t step)
{
    for (size_t i = 0; i < total; i += step)
        bytes[i + 1] &= 0xbf;
}

void stored_fill(enum wn_type type, uint8_t *bytes, uint8_t *scales, size_t n, enum mood mood)
{
    const struct wn_type_info *info = wn_type_info(type);
    size_t total = n / info->block_elements * info->block_bytes;

    for (size_t i = 0; i < total; i++)
        bytes[i] = (uint8_t)wn_rng_u64(&rng);
    for (size_t i = 0; scales && i < n / 32; i++)
        scales[i] = (uint8_t)(mood == WILD ? wn_rng_below(&rng, 256) : 110 + wn_rng_below(&rng, 20));
    if (mood == WILD)
        return;
    if (type == WN_MXFP4)
        for (size_t i = 0; i < total; i += 17)
            bytes[i] = (uint8_t)(110 + wn_rng_below(&rng, 20));
    for (size_t i = 0; i < sizeof(halves) / sizeof(halves[0]); i++)
        for (size_t j = 0; halves[i].type == type && j < 2 && halves[i].at[j] != 0xff && total; j++)
            tame_halves(bytes + halves[i].at[j], total - halves[i].at[j], info->block_bytes);
}

void numbers_fill(enum wn_type type, uint8_t *bytes, size_t n, enum mood mood)
{
    if (type != WN_F32)
        stored_fill(type, bytes, NULL, n, mood);
    else
        for (size_t i = 0; i < n; i++) {
            float f = float_any(mood);

            memcpy(bytes + 4 * i, &f, 4);
        }
}

bool same_floats(const float *a, const float *b, size_t n, size_t *differs_at)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof(*a)) != 0 && !(isnan(a[i]) && isnan(b[i]))) {
            *differs_at = i;
            return false;
        }
    return true;
}

void check_same(const char *what, const char *variant, size_t n, const float *want, const float *got, size_t count)
{
    size_t i;

    if (!same_floats(want, got, count, &i))
        fail_msg("%s, %s, n = %zu: number %zu is %a, scalar has %a", what, variant, n, i, (double)got[i],
                 (double)want[i]);
}
