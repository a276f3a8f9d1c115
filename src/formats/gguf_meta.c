/* See gguf.h: looking at metadata records. The raw bytes of a record have been checked when it was read. */
#include "formats/gguf.h"
#include "formats/gguf_parse.h"
#include "base/bits.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name;
    uint8_t bytes; /* 0: the length varies */
} values[] = {
    [WN_GGUF_U8] = {"u8", 1},       [WN_GGUF_I8] = {"i8", 1},     [WN_GGUF_U16] = {"u16", 2},
    [WN_GGUF_I16] = {"i16", 2},     [WN_GGUF_U32] = {"u32", 4},   [WN_GGUF_I32] = {"i32", 4},
    [WN_GGUF_F32] = {"f32", 4},     [WN_GGUF_BOOL] = {"bool", 1}, [WN_GGUF_STRING] = {"string", 0},
    [WN_GGUF_ARRAY] = {"array", 0}, [WN_GGUF_U64] = {"u64", 8},   [WN_GGUF_I64] = {"i64", 8},
    [WN_GGUF_F64] = {"f64", 8},
};

const char *wn_gguf_value_name(enum wn_gguf_value t)
{
    assert((unsigned)t <= WN_GGUF_F64);
    return values[t].name;
}

unsigned wn_gguf_value_bytes(enum wn_gguf_value t)
{
    assert((unsigned)t <= WN_GGUF_F64);
    return values[t].bytes;
}

const struct wn_gguf_kv *wn_gguf_find(const struct wn_gguf_meta *m, const char *key)
{
    struct wn_bytes wanted = wn_bytes_of(key);

    for (size_t i = m->n; i-- > 0;)
        if (wn_bytes_equal(m->kv[i].key, wanted))
            return &m->kv[i];
    return NULL;
}

bool wn_gguf_same(const struct wn_gguf_kv *a, const struct wn_gguf_kv *b)
{
    return wn_bytes_equal(a->key, b->key) && a->type == b->type && a->element == b->element && a->count == b->count &&
           wn_bytes_equal(a->value, b->value);
}

/* A whole number as its two's complement in 64 bits; *negative tells what the upper half means. */
static bool whole(enum wn_gguf_value type, const char *at, uint64_t *v, bool *negative)
{
    unsigned bytes = values[type].bytes;
    bool has_sign = type == WN_GGUF_I8 || type == WN_GGUF_I16 || type == WN_GGUF_I32 || type == WN_GGUF_I64;

    if (!has_sign && type != WN_GGUF_U8 && type != WN_GGUF_U16 && type != WN_GGUF_U32 && type != WN_GGUF_U64)
        return false;
    assert(bytes > 0 && bytes <= 8);
    *v = wn_load_le(at, bytes);
    *negative = has_sign && (*v >> (bytes * 8 - 1)) != 0;
    if (*negative && bytes < 8)
        *v |= ~(uint64_t)0 << (bytes * 8);
    return true;
}

static bool as_i64(enum wn_gguf_value type, const char *at, int64_t *v)
{
    uint64_t bits;
    bool negative;

    if (!whole(type, at, &bits, &negative) || (!negative && bits > INT64_MAX))
        return false;
    memcpy(v, &bits, sizeof *v);
    return true;
}

bool wn_gguf_as_u64(const struct wn_gguf_kv *kv, uint64_t *v)
{
    uint64_t bits;
    bool negative;

    if (!whole(kv->type, kv->value.at, &bits, &negative) || negative)
        return false;
    *v = bits;
    return true;
}

bool wn_gguf_as_i64(const struct wn_gguf_kv *kv, int64_t *v)
{
    return as_i64(kv->type, kv->value.at, v);
}

bool wn_gguf_as_f64(const struct wn_gguf_kv *kv, double *v)
{
    uint64_t bits;

    if (kv->type == WN_GGUF_F32) {
        uint32_t half = wn_load32(kv->value.at);
        float f;

        memcpy(&f, &half, sizeof f);
        *v = (double)f;
        return true;
    }
    if (kv->type != WN_GGUF_F64)
        return false;
    bits = wn_load64(kv->value.at);
    memcpy(v, &bits, sizeof *v);
    return true;
}

bool wn_gguf_as_bool(const struct wn_gguf_kv *kv, bool *v)
{
    if (kv->type != WN_GGUF_BOOL)
        return false;
    *v = kv->value.at[0] != 0;
    return true;
}

bool wn_gguf_as_string(const struct wn_gguf_kv *kv, struct wn_bytes *v)
{
    if (kv->type != WN_GGUF_STRING)
        return false;
    *v = (struct wn_bytes){kv->value.at + 8, kv->value.n - 8};
    return true;
}

bool wn_gguf_array_i64(const struct wn_gguf_kv *kv, uint64_t i, int64_t *v)
{
    if (kv->type != WN_GGUF_ARRAY || i >= kv->count)
        return false;
    return as_i64(kv->element, kv->value.at + i * values[kv->element].bytes, v);
}

bool wn_gguf_array_string(const struct wn_gguf_kv *kv, uint64_t *at, struct wn_bytes *v)
{
    if (kv->type != WN_GGUF_ARRAY || kv->element != WN_GGUF_STRING || *at >= kv->value.n)
        return false;
    *v = (struct wn_bytes){kv->value.at + *at + 8, (size_t)wn_load64(kv->value.at + *at)};
    *at += 8 + v->n;
    return true;
}
