/*
 * The model's vocabulary: tokens of GGUF metadata, spelled in GPT-2's printable characters, or the folder's
 * tiktoken.model. It is made when first asked for.
 */
#include "text/vocab_new.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "model/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* tokenizer.ggml.token_type */
enum { GGUF_NORMAL = 1, GGUF_UNKNOWN = 2, GGUF_CONTROL = 3, GGUF_USER = 4, GGUF_UNUSED = 5, GGUF_BYTE = 6 };

static bool kind_of(int64_t type, enum wn_token_kind *kind)
{
    switch (type) {
    case GGUF_NORMAL:
    case GGUF_BYTE:
        *kind = WN_TOKEN_NORMAL;
        return true;
    case GGUF_UNKNOWN:
    case GGUF_CONTROL:
    case GGUF_USER:
        *kind = WN_TOKEN_SPECIAL;
        return true;
    case GGUF_UNUSED:
        *kind = WN_TOKEN_UNUSED;
        return true;
    default:
        return false;
    }
}

struct tokens {
    const struct wn_gguf_kv *texts, *types;
    struct wn_bytes *bytes;
    enum wn_token_kind *kinds;
    char *spelled; /* room for every normal token's bytes; there are never more than characters */
    uint32_t n;
};

/* Normal tokens are unspelled into t->spelled; special ones keep their names as they stand. */
static bool read_tokens(struct tokens *t, struct wn_err *err)
{
    uint64_t at = 0;
    char *to = t->spelled;

    for (uint32_t i = 0; i < t->n; i++) {
        struct wn_bytes text;
        int64_t type;
        size_t n;

        if (!wn_gguf_array_string(t->texts, &at, &text))
            return wn_fail(err, WN_ERR_FORMAT, "key 'tokenizer.ggml.tokens': entry %u is no string", i);
        if (!wn_gguf_array_i64(t->types, i, &type) || !kind_of(type, &t->kinds[i]))
            return wn_fail(err, WN_ERR_FORMAT, "key 'tokenizer.ggml.token_type': entry %u is of no known kind", i);
        t->bytes[i] = text;
        if (t->kinds[i] != WN_TOKEN_NORMAL)
            continue;
        if (!wn_gpt2_unspell(text, to, &n))
            return wn_fail(err, WN_ERR_FORMAT, "key 'tokenizer.ggml.tokens': entry %u is not in GPT-2's spelling", i);
        t->bytes[i] = (struct wn_bytes){to, n};
        to += n;
    }
    return true;
}

static bool find_tokens(const struct wn_gguf_meta *meta, struct tokens *t, struct wn_err *err)
{
    const struct wn_gguf_kv *model = wn_gguf_find(meta, "tokenizer.ggml.model");
    const struct wn_gguf_kv *pre = wn_gguf_find(meta, "tokenizer.ggml.pre");
    struct wn_bytes name, split;

    t->texts = wn_gguf_find(meta, "tokenizer.ggml.tokens");
    t->types = wn_gguf_find(meta, "tokenizer.ggml.token_type");
    if (!model || !t->texts)
        return wn_fail(err, WN_ERR_FORMAT, "the file brings no vocabulary ('tokenizer.ggml.tokens' is missing)");
    if (!wn_gguf_as_string(model, &name) || !wn_bytes_is(name, "gpt2"))
        return wn_fail(err, WN_ERR_FORMAT, "key 'tokenizer.ggml.model' is not 'gpt2'");
    if (!pre || !wn_gguf_as_string(pre, &split) || !wn_bytes_is(split, "kimi-k2"))
        return wn_fail(err, WN_ERR_FORMAT, "key 'tokenizer.ggml.pre' is not 'kimi-k2'");
    if (t->texts->type != WN_GGUF_ARRAY || t->texts->element != WN_GGUF_STRING || t->texts->count == 0 ||
        t->texts->count > INT32_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "key 'tokenizer.ggml.tokens' is no list of strings");
    if (!t->types || t->types->type != WN_GGUF_ARRAY || t->types->count != t->texts->count)
        return wn_fail(err, WN_ERR_FORMAT, "key 'tokenizer.ggml.token_type' has no entry for each of %llu tokens",
                       (unsigned long long)t->texts->count);
    t->n = (uint32_t)t->texts->count;
    return true;
}

static struct wn_vocab *from_gguf(const struct wn_gguf_meta *meta, struct wn_err *err)
{
    struct tokens t = {0};
    struct wn_vocab *v = NULL;

    if (!find_tokens(meta, &t, err))
        return NULL;
    t.bytes = wn_alloc(t.n, sizeof(*t.bytes), err);
    t.kinds = t.bytes ? wn_alloc(t.n, sizeof(*t.kinds), err) : NULL;
    t.spelled = t.kinds ? wn_alloc(t.texts->value.n, 1, err) : NULL;
    if (t.spelled && read_tokens(&t, err))
        v = wn_vocab_new(t.bytes, t.kinds, t.n, err);
    free(t.spelled);
    free(t.kinds);
    free(t.bytes);
    return v;
}

struct wn_vocab *wn_vocab_of_source(const struct wn_source *s, struct wn_err *err)
{
    return wn_source_container(s) == WN_CONTAINER_GGUF ? from_gguf(wn_source_gguf(s), err)
                                                       : wn_vocab_open(wn_source_folder(s), err);
}

/* A vocabulary of another model, and an end of message that would never be recognised. */
static bool check_vocab(const struct wn_model *m, struct wn_vocab_slot *slot)
{
    uint32_t id;

    if (wn_vocab_count(slot->vocab) > m->config.vocab_size)
        return wn_fail(&slot->err, WN_ERR_FORMAT, "the vocabulary has %u tokens, but the model's 'vocab_size' is %u",
                       wn_vocab_count(slot->vocab), m->config.vocab_size);
    if (wn_vocab_special(slot->vocab, "<|end_of_msg|>", &id) && m->config.eos_id != (int64_t)id)
        (void)snprintf(slot->warning, sizeof(slot->warning),
                       "the config's end of text is token %lld, but '<|end_of_msg|>' is %u: a chat may not stop",
                       (long long)m->config.eos_id, id);
    return true;
}

/* Call with the lock held. */
static void make_vocab(const struct wn_model *m, struct wn_vocab_slot *slot)
{
    if (slot->tried)
        return;
    slot->tried = true;
    slot->vocab = wn_vocab_of_source(m->source, &slot->err);
    if (slot->vocab && !check_vocab(m, slot)) {
        wn_vocab_free(slot->vocab);
        slot->vocab = NULL;
    }
}

const struct wn_vocab *wn_model_vocab(const struct wn_model *m, struct wn_err *err)
{
    struct wn_vocab_slot *slot = m->slot;
    const struct wn_vocab *v;

    pthread_mutex_lock(&slot->lock);
    make_vocab(m, slot);
    v = slot->vocab;
    if (!v)
        *err = slot->err;
    pthread_mutex_unlock(&slot->lock);
    return v;
}

const char *wn_model_warning(const struct wn_model *m)
{
    struct wn_vocab_slot *slot = m->slot;
    const char *warning;

    pthread_mutex_lock(&slot->lock);
    make_vocab(m, slot);
    warning = slot->warning[0] ? slot->warning : NULL;
    pthread_mutex_unlock(&slot->lock);
    return warning;
}
