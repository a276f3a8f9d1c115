/* See type.h. Block sizes are facts of the formats (docs/formats/quants.md). */
#include "tensor/type.h"
#include "base/checked.h"

#include <assert.h>
#include <string.h>

static const struct wn_type_info table[WN_TYPE_COUNT] = {
    [WN_F32] = {"F32", 1, 4, 0, "F32"},
    [WN_F16] = {"F16", 1, 2, 1, "F16"},
    [WN_BF16] = {"BF16", 1, 2, 30, "BF16"},
    [WN_F64] = {"F64", 1, 8, 28, "F64"},
    [WN_Q4_0] = {"Q4_0", 32, 18, 2, NULL},
    [WN_Q4_1] = {"Q4_1", 32, 20, 3, NULL},
    [WN_Q5_0] = {"Q5_0", 32, 22, 6, NULL},
    [WN_Q5_1] = {"Q5_1", 32, 24, 7, NULL},
    [WN_Q8_0] = {"Q8_0", 32, 34, 8, NULL},
    [WN_Q2_K] = {"Q2_K", 256, 84, 10, NULL},
    [WN_Q3_K] = {"Q3_K", 256, 110, 11, NULL},
    [WN_Q4_K] = {"Q4_K", 256, 144, 12, NULL},
    [WN_Q5_K] = {"Q5_K", 256, 176, 13, NULL},
    [WN_Q6_K] = {"Q6_K", 256, 210, 14, NULL},
    [WN_IQ1_S] = {"IQ1_S", 256, 50, 19, NULL},
    [WN_IQ1_M] = {"IQ1_M", 256, 56, 29, NULL},
    [WN_IQ2_XXS] = {"IQ2_XXS", 256, 66, 16, NULL},
    [WN_IQ2_XS] = {"IQ2_XS", 256, 74, 17, NULL},
    [WN_IQ2_S] = {"IQ2_S", 256, 82, 22, NULL},
    [WN_IQ3_XXS] = {"IQ3_XXS", 256, 98, 18, NULL},
    [WN_IQ3_S] = {"IQ3_S", 256, 110, 21, NULL},
    [WN_IQ4_NL] = {"IQ4_NL", 32, 18, 20, NULL},
    [WN_IQ4_XS] = {"IQ4_XS", 256, 136, 23, NULL},
    [WN_TQ1_0] = {"TQ1_0", 256, 54, 34, NULL},
    [WN_TQ2_0] = {"TQ2_0", 256, 66, 35, NULL},
    [WN_MXFP4] = {"MXFP4", 32, 17, 39, NULL},
    [WN_NVFP4] = {"NVFP4", 64, 36, 40, NULL},
    [WN_Q1_0] = {"Q1_0", 128, 18, 41, NULL},
    [WN_Q2_0] = {"Q2_0", 64, 18, 42, NULL},
    [WN_MXFP4_SPLIT] = {"MXFP4 (split)", 32, 16, -1, NULL},
    [WN_AFFINE2] = {"affine 2-bit", 32, 8, -1, NULL},
    [WN_AFFINE3] = {"affine 3-bit", 32, 12, -1, NULL},
    [WN_AFFINE4] = {"affine 4-bit", 32, 16, -1, NULL},
    [WN_AFFINE5] = {"affine 5-bit", 32, 20, -1, NULL},
    [WN_AFFINE6] = {"affine 6-bit", 32, 24, -1, NULL},
    [WN_AFFINE8] = {"affine 8-bit", 32, 32, -1, NULL},
    [WN_I8] = {"I8", 1, 1, 24, "I8"},
    [WN_I16] = {"I16", 1, 2, 25, "I16"},
    [WN_I32] = {"I32", 1, 4, 26, "I32"},
    [WN_I64] = {"I64", 1, 8, 27, "I64"},
    [WN_U8] = {"U8", 1, 1, -1, "U8"},
    [WN_U16] = {"U16", 1, 2, -1, "U16"},
    [WN_U32] = {"U32", 1, 4, -1, "U32"},
    [WN_U64] = {"U64", 1, 8, -1, "U64"},
    [WN_BOOL] = {"BOOL", 1, 1, -1, "BOOL"},
    [WN_F8_E4M3] = {"F8_E4M3", 1, 1, -1, "F8_E4M3"},
    [WN_F8_E5M2] = {"F8_E5M2", 1, 1, -1, "F8_E5M2"},
    [WN_F8_E8M0] = {"F8_E8M0", 1, 1, -1, "F8_E8M0"},
    [WN_C64] = {"C64", 1, 8, -1, "C64"},
};

const struct wn_type_info *wn_type_info(enum wn_type t)
{
    assert((unsigned)t < WN_TYPE_COUNT);
    return &table[t];
}

bool wn_type_from_gguf(uint32_t id, enum wn_type *t)
{
    for (int i = 0; i < WN_TYPE_COUNT; i++) {
        if (table[i].gguf_id >= 0 && (uint32_t)table[i].gguf_id == id) {
            *t = (enum wn_type)i;
            return true;
        }
    }
    return false;
}

bool wn_type_from_safetensors(const char *dtype, size_t n, enum wn_type *t)
{
    for (int i = 0; i < WN_TYPE_COUNT; i++) {
        const char *name = table[i].safetensors;

        if (name && strlen(name) == n && memcmp(name, dtype, n) == 0) {
            *t = (enum wn_type)i;
            return true;
        }
    }
    return false;
}

bool wn_type_from_name(const char *name, enum wn_type *t)
{
    for (int i = 0; i < WN_TYPE_COUNT; i++) {
        if (strcmp(table[i].name, name) == 0) {
            *t = (enum wn_type)i;
            return true;
        }
    }
    return false;
}

bool wn_type_bytes(enum wn_type t, uint64_t n, uint64_t *bytes)
{
    const struct wn_type_info *i = wn_type_info(t);

    return n % i->block_elements == 0 && wn_mul_u64(n / i->block_elements, i->block_bytes, bytes);
}
