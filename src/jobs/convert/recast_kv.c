/*
 * See recast.h: the metadata of a GGUF, with the keys, types and order of the converter that K3's GGUFs are made with
 * (docs/formats/config.md has both spellings of each number).
 */
#include "base/alloc.h"
#include "base/bits.h"
#include "jobs/convert/recast.h"
#include "jobs/prune/prune_meta.h"
#include "text/vocab_new.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS_MAX     64
#define FILE_TYPE_BF16  32
#define FILE_TYPE_MXFP4 38 /* experts in MXFP4 */
#define GATING_SIGMOID  2

enum { TOKEN_NORMAL = 1, TOKEN_CONTROL = 3 }; /* tokenizer.ggml.token_type */

struct writer {
    struct wn_recast_kv *out;
    const struct wn_config *c;
    struct wn_err *err;
    bool failed; /* once true, nothing more is written */
};

/* ---- records ---- */

/* The next record's key; the value's bytes are added to what this returns, then finish() is called. NULL: failed. */
static struct wn_buf *begin(struct writer *w, const char *key, enum wn_gguf_value type)
{
    struct wn_recast_kv *o = w->out;
    struct wn_buf *b = &o->own[o->n];
    bool of_model = key[0] == '.'; /* ".block_count": behind the architecture's name */

    if (w->failed)
        return NULL;
    if (!wn_buf_printf(b, w->err, "%s%s", of_model ? w->c->architecture : "", key)) {
        w->failed = true;
        return NULL;
    }
    o->kv[o->n++] = (struct wn_gguf_kv){.key = {NULL, b->n}, .type = type, .element = type, .count = 1};
    return b;
}

static void add(struct writer *w, const void *bytes, size_t n)
{
    if (!w->failed && !wn_buf_add(&w->out->own[w->out->n - 1], bytes, n, w->err))
        w->failed = true;
}

/* Numbers and lengths are little endian. */
static void add_number(struct writer *w, uint64_t v, unsigned bytes)
{
    char room[8];

    wn_store_le(room, bytes, v);
    add(w, room, bytes);
}

static void add_string(struct writer *w, const char *s, size_t n)
{
    add_number(w, n, 8);
    add(w, s, n);
}

static void put_u32(struct writer *w, const char *key, uint32_t v)
{
    if (begin(w, key, WN_GGUF_U32))
        add_number(w, v, 4);
}

static void put_f32(struct writer *w, const char *key, float v)
{
    if (begin(w, key, WN_GGUF_F32))
        add_number(w, wn_bits_of_f32(v), 4);
}

static void put_bool(struct writer *w, const char *key, bool v)
{
    if (begin(w, key, WN_GGUF_BOOL))
        add_number(w, v, 1);
}

static void put_string(struct writer *w, const char *key, const char *s)
{
    if (begin(w, key, WN_GGUF_STRING))
        add_string(w, s, strlen(s));
}

/* The elements follow by add(). */
static void begin_array(struct writer *w, const char *key, enum wn_gguf_value element)
{
    if (!begin(w, key, WN_GGUF_ARRAY))
        return;
    w->out->kv[w->out->n - 1].element = element;
    w->out->kv[w->out->n - 1].count = 0;
}

static void count_one(struct writer *w)
{
    if (!w->failed)
        w->out->kv[w->out->n - 1].count++;
}

/* ---- what the model is ---- */

/* Weights of a tensor in a model that has one expert in each layer; ghosts are left out of it, with their rows. */
static double elements_of(const struct wn_keep *k, const struct wn_recast_tensor *t)
{
    const struct wn_keep_layer *l = t->layer >= 0 ? wn_keep_find(k, (uint32_t)t->layer) : NULL;
    double elements = (double)t->rows * (double)t->cols;
    struct wn_part part;

    wn_part_of(WN_CONTAINER_GGUF, t->name, &part);
    if (part.expert_rows || part.ghost_mean)
        return 0;
    if (part.axis == WN_AXIS_OUTER && !part.router)
        return elements / (double)t->shape[0];
    return part.router && l ? elements / wn_keep_router_rows(k, l) * l->count : elements;
}

/*
 * "896x3.1B": the source's experts in a layer, or its parent's where it has ghosts, which are the router's choices; and
 * what the model would have if each layer had one.
 */
static void put_size_label(struct writer *w, const struct wn_keep *k, const struct wn_recast_list *list)
{
    static const char suffix[] = "KMBT";
    double size = 0, unit = 1e3;
    int i = 0;
    char label[64];

    for (size_t t = 0; t < list->n; t++)
        size += elements_of(k, &list->tensors[t]);
    for (; i < 3 && size > unit * 1e3; i++)
        unit *= 1e3;
    size /= unit;
    (void)snprintf(label, sizeof label, "%" PRIu32 "x%.*f%c", w->c->router_rows, size < 9.5 ? 1 : 0, size, suffix[i]);
    put_string(w, "general.size_label", label);
}

static void put_general(struct writer *w, const struct wn_recast *r, const struct wn_recast_list *list)
{
    const char *folder = wn_source_folder(wn_model_source(r->model));

    put_string(w, "general.architecture", w->c->architecture);
    put_string(w, "general.type", "model");
    put_string(w, "general.name", wn_path_name(folder));
    put_size_label(w, r->keep, list);
}

static void put_attention(struct writer *w)
{
    const struct wn_config *c = w->c;

    put_u32(w, ".attention.head_count", c->heads);
    begin_array(w, ".attention.head_count_kv", WN_GGUF_I32); /* 0 marks a KDA layer */
    for (uint32_t i = 0; i < c->layer_count; i++) {
        add_number(w, c->layers[i].attention == WN_ATTENTION_MLA, 4);
        count_one(w);
    }
    put_f32(w, ".attention.layer_norm_rms_epsilon", c->rms_norm_eps);
}

static void put_linear_attention(struct writer *w)
{
    const struct wn_config *c = w->c;

    put_u32(w, ".ssm.conv_kernel", c->conv_taps);
    put_u32(w, ".kda.head_dim", c->kda_head_dim);
    if (c->kda_lower_bound)
        put_f32(w, ".kda.gate_lower_bound", c->gate_lower_bound);
}

static void put_latent_attention(struct writer *w)
{
    const struct wn_config *c = w->c;

    if (c->q_lora_rank)
        put_u32(w, ".attention.q_lora_rank", c->q_lora_rank);
    put_u32(w, ".attention.kv_lora_rank", c->kv_lora_rank);
    put_u32(w, ".rope.dimension_count", c->qk_rope_dim);
    put_u32(w, ".attention.key_length", c->kv_lora_rank + c->qk_rope_dim);
    put_u32(w, ".attention.value_length", c->kv_lora_rank);
    put_u32(w, ".attention.key_length_mla", c->qk_nope_dim + c->qk_rope_dim);
    put_u32(w, ".attention.value_length_mla", c->v_head_dim);
}

static uint32_t leading_dense(const struct wn_config *c)
{
    uint32_t n = 0;

    while (n < c->layer_count && !c->layers[n].moe)
        n++;
    return n;
}

static void put_experts(struct writer *w)
{
    const struct wn_config *c = w->c;

    put_u32(w, ".expert_feed_forward_length", c->moe_intermediate_size);
    put_u32(w, ".expert_shared_count", c->shared_experts);
    put_u32(w, ".leading_dense_block_count", leading_dense(c));
    put_f32(w, ".expert_weights_scale", c->routed_scaling_factor);
    put_bool(w, ".expert_weights_norm", c->renormalize);
    if (c->latent_size)
        put_u32(w, ".expert_latent_length", c->latent_size);
    if (c->activation == WN_ACTIVATION_SITU) {
        put_f32(w, ".activation.situ_beta", c->situ_beta);
        put_f32(w, ".activation.situ_linear_beta", c->situ_linear_beta);
    }
}

static uint32_t file_type(const struct wn_recast_list *list)
{
    for (size_t t = 0; t < list->n; t++)
        if (list->tensors[t].type == WN_MXFP4)
            return FILE_TYPE_MXFP4;
    return FILE_TYPE_BF16;
}

/* What a graded build, or one with ghosts, tells of each layer. */
static void put_lists(struct writer *w, const struct wn_keep *k)
{
    struct wn_layer_list lists[WN_PRUNE_KV_MORE];
    size_t n = wn_prune_lists(k, lists);

    for (size_t i = 0; i < n; i++) {
        char key[64];

        (void)snprintf(key, sizeof key, ".%s", lists[i].key);
        begin_array(w, key, WN_GGUF_U32);
        for (uint32_t layer = 0; layer < w->c->layer_count; layer++) {
            const struct wn_keep_layer *l = wn_keep_find(k, layer);

            add_number(w, l ? lists[i].count(k, l) : 0, 4);
            count_one(w);
        }
    }
}

static void put_model(struct writer *w, const struct wn_recast *r, const struct wn_recast_list *list)
{
    const struct wn_config *c = w->c;

    put_u32(w, ".block_count", c->layer_count);
    put_u32(w, ".context_length", c->context_length);
    put_u32(w, ".embedding_length", c->hidden_size);
    put_u32(w, ".feed_forward_length", c->intermediate_size);
    put_attention(w);
    put_u32(w, ".expert_count", wn_keep_widest(r->keep, true));
    put_lists(w, r->keep);
    put_u32(w, ".expert_used_count", c->experts_per_token);
    put_u32(w, ".expert_group_used_count", 1);
    put_u32(w, ".expert_gating_func", GATING_SIGMOID);
    put_u32(w, "general.file_type", file_type(list));
    put_u32(w, ".vocab_size", c->vocab_size);
    put_linear_attention(w);
    put_latent_attention(w);
    put_experts(w);
    if (c->attn_res_block)
        put_u32(w, ".attn_res.block_size", c->attn_res_block);
    put_u32(w, "general.quantization_version", 2);
}

/* ---- the vocabulary ---- */

static void put_tokens(struct writer *w, const struct wn_vocab *v, char *room)
{
    begin_array(w, "tokenizer.ggml.tokens", WN_GGUF_STRING);
    for (uint32_t id = 0; id < wn_vocab_count(v); id++) {
        struct wn_bytes token;

        token.at = wn_vocab_token(v, id, &token.n);
        if (wn_vocab_is_special(v, id))
            add_string(w, token.at, token.n);
        else
            add_string(w, room, wn_gpt2_spell(token, room));
        count_one(w);
    }
    begin_array(w, "tokenizer.ggml.token_type", WN_GGUF_I32);
    for (uint32_t id = 0; id < wn_vocab_count(v); id++) {
        add_number(w, wn_vocab_is_special(v, id) ? TOKEN_CONTROL : TOKEN_NORMAL, 4);
        count_one(w);
    }
}

/* "left right" in GPT-2's spelling, where a space is a letter of its own. room: twice the longest token and one. */
static void put_merges(struct writer *w, const struct wn_vocab *v, char *room)
{
    struct wn_merge m = {0};

    begin_array(w, "tokenizer.ggml.merges", WN_GGUF_STRING);
    for (uint32_t id = 0; !w->failed && id < wn_vocab_count(v); id++) {
        struct wn_bytes token;
        size_t left, n;

        token.at = wn_vocab_token(v, id, &token.n);
        if (!wn_vocab_merge_of(v, &m, id, &left, w->err))
            w->failed = true;
        else if (left) {
            n = wn_gpt2_spell((struct wn_bytes){token.at, left}, room);
            room[n++] = ' ';
            n += wn_gpt2_spell((struct wn_bytes){token.at + left, token.n - left}, room + n);
            add_string(w, room, n);
            count_one(w);
        }
    }
    wn_merge_release(&m);
}

static void put_id(struct writer *w, const char *key, int64_t id)
{
    if (id >= 0)
        put_u32(w, key, (uint32_t)id);
}

static void put_vocab(struct writer *w, const struct wn_vocab *v)
{
    size_t longest = 0;
    char *room;

    for (uint32_t id = 0; id < wn_vocab_count(v); id++) {
        size_t n;

        (void)wn_vocab_token(v, id, &n);
        longest = n > longest ? n : longest;
    }
    room = wn_alloc(2 * longest + 1, 1, w->err);
    w->failed = w->failed || !room;
    put_string(w, "tokenizer.ggml.model", "gpt2");
    put_string(w, "tokenizer.ggml.pre", "kimi-k2");
    put_tokens(w, v, room);
    put_merges(w, v, room);
    put_id(w, "tokenizer.ggml.bos_token_id", w->c->bos_id);
    put_id(w, "tokenizer.ggml.eos_token_id", w->c->eos_id);
    put_id(w, "tokenizer.ggml.padding_token_id", w->c->pad_id);
    free(room);
}

/* Keys and values lie in each record's own buffer, which does not move any more. */
static void settle(struct wn_recast_kv *o)
{
    for (size_t i = 0; i < o->n; i++) {
        o->kv[i].key.at = o->own[i].at;
        o->kv[i].value = (struct wn_bytes){o->own[i].at + o->kv[i].key.n, o->own[i].n - o->kv[i].key.n};
    }
}

bool wn_recast_kv(const struct wn_recast *r, const struct wn_recast_list *list, struct wn_recast_kv *out,
                  struct wn_err *err)
{
    struct writer w = {.out = out, .c = wn_model_config(r->model), .err = err};
    const struct wn_vocab *v = wn_model_vocab(r->model, err);

    *out = (struct wn_recast_kv){0};
    if (!v)
        return false;
    out->kv = wn_alloc(RECORDS_MAX, sizeof *out->kv, err);
    out->own = out->kv ? wn_alloc(RECORDS_MAX, sizeof *out->own, err) : NULL;
    if (!out->own) {
        wn_recast_kv_release(out);
        return false;
    }
    put_general(&w, r, list);
    put_model(&w, r, list);
    put_vocab(&w, v);
    if (w.failed) {
        wn_recast_kv_release(out);
        return false;
    }
    settle(out);
    return true;
}

void wn_recast_kv_release(struct wn_recast_kv *kv)
{
    for (size_t i = 0; kv->own && i < RECORDS_MAX; i++)
        wn_buf_release(&kv->own[i]);
    free(kv->own);
    free(kv->kv);
    *kv = (struct wn_recast_kv){0};
}
