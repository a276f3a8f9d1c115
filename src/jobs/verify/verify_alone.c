/*
 * What can be said of an output without its source: that it is a sound model, and that its bytes are those that winnow
 * wrote, by the digests in its record. Without a record nothing is said of bytes.
 */
#include "jobs/hashing.h"
#include "jobs/prune/prune_meta.h"
#include "jobs/prune/seal.h"
#include "jobs/talk.h"
#include "jobs/verify/verify_parts.h"
#include "model/weights.h"

#include <inttypes.h>
#include <string.h>

/* Every layer's count in the config is the one its tensors have. */
static bool check_counts(const struct wn_keep *k, const struct wn_config *c, struct wn_err *err)
{
    for (uint32_t l = 0; l < c->layer_count; l++) {
        const struct wn_keep_layer *layer = wn_keep_find(k, l);
        uint32_t have = layer ? layer->experts : 0;

        if (c->layers[l].expert_count != have)
            return wn_fail(err, WN_ERR_FORMAT, "layer %" PRIu32 " has %" PRIu32 " experts, the config says %" PRIu32, l,
                           have, c->layers[l].expert_count);
    }
    if (k->layer_count && k->layers[k->layer_count - 1].layer >= c->layer_count)
        return wn_fail(err, WN_ERR_FORMAT, "layer %" PRIu32 " has experts, but the config has %" PRIu32 " layers",
                       k->layers[k->layer_count - 1].layer, c->layer_count);
    return true;
}

static bool check_ids(const struct wn_config *c, struct wn_err *err)
{
    const struct {
        const char *name;
        int64_t id;
    } ids[] = {{"bos", c->bos_id}, {"eos", c->eos_id}, {"pad", c->pad_id}};

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        if (ids[i].id >= (int64_t)c->vocab_size)
            return wn_fail(err, WN_ERR_FORMAT, "the %s id %" PRId64 " is outside the vocabulary of %" PRIu32,
                           ids[i].name, ids[i].id, c->vocab_size);
    return true;
}

/* The pages that a layer's vectors lie on, and those that the system maps around them. */
#define LAYER_PAGES ((uint64_t)2 << 20)

/* Binding a part checks that it is there with the right shape and type. */
static bool check_parts(const struct wn_model *m, const struct wn_job *job, struct wn_err *err)
{
    const struct wn_config *c = wn_model_config(m);
    struct wn_ends ends;
    struct wn_layer layer;

    if (!wn_ends_bind(m, &ends, err))
        return false;
    wn_job_note_memory(job, LAYER_PAGES + WN_HASHING_BYTES); /* the record's hashes come behind */
    wn_ends_release(&ends);
    for (uint32_t l = 0; l < c->layer_count; l++) {
        if (!wn_job_progress(job, "checking", l, c->layer_count, "layers", err) || !wn_layer_bind(m, l, &layer, err))
            return false;
        wn_layer_release(&layer);
        wn_source_drop_pages(wn_model_source(m));
    }
    return true;
}

static bool check_known(const struct wn_model *m, const struct wn_keep *k, const struct wn_job *job, struct wn_err *err)
{
    return check_counts(k, wn_model_config(m), err) && check_ids(wn_model_config(m), err) && check_parts(m, job, err);
}

/*
 * Must it pass the config reader? Folders must, whatever they call themselves: one without a config.json, or with one
 * that is refused, opens nowhere. A GGUF may be of any architecture, and is ours when it says so.
 */
static bool is_ours(const struct wn_source *s)
{
    const struct wn_gguf_kv *kv;
    struct wn_bytes name;

    if (!wn_source_gguf(s))
        return true;
    kv = wn_gguf_find(wn_source_gguf(s), "general.architecture");
    return kv && wn_gguf_as_string(kv, &name) && (wn_bytes_is(name, "kimi-k3") || wn_bytes_is(name, "kimi-linear"));
}

/* m: NULL when it did not open, which *no_model tells about. */
static bool check(const struct wn_source *s, const struct wn_model *m, const struct wn_err *no_model,
                  const struct wn_job *job, struct wn_verify_result *r, struct wn_err *err)
{
    struct wn_keep keep;
    bool ok, has_record;

    if (!wn_keep_init(&keep, s, &(struct wn_keep_how){0}, err))
        return false;
    ok = !wn_source_gguf(s) || !keep.layer_count || wn_prune_kv_agrees(&keep, err);
    r->parts_bound = is_ours(s);
    if (ok && r->parts_bound && !m) {
        *err = *no_model;
        ok = false;
    } else if (ok && !r->parts_bound) {
        wn_job_note_memory(job, WN_HASHING_BYTES); /* the lists were all; the record's hashes come behind */
    } else if (ok) {
        ok = check_known(m, &keep, job, err);
    }
    r->tensors = wn_source_tensor_count(s);
    for (uint32_t i = 0; i < keep.layer_count; i++)
        r->experts += keep.layers[i].experts;
    wn_keep_release(&keep);
    return ok && wn_seal_check(s, job, &has_record, r, err);
}

void wn_verify_tell_unfinished(const char *path, struct wn_err *err)
{
    if (err->code != WN_ERR_CANCELED && err->code != WN_ERR_NOMEM && !strstr(err->msg, "unfinished output ("))
        wn_source_tell_unfinished(path, err);
}

/* Opened as a model, whose source is then at hand; only what is none is opened a second time, to see what it is. */
bool wn_verify_alone(const char *path, const struct wn_job *job, struct wn_verify_result *r, struct wn_err *err)
{
    struct wn_err no_model;
    struct wn_model *m = wn_model_open(path, &no_model);
    struct wn_source *s = m ? wn_model_source(m) : wn_source_open(path, err);
    bool ok;

    if (s)
        wn_source_fingerprint(s, r->fingerprint);
    ok = s && check(s, m, &no_model, job, r, err);
    if (s && !ok && !strstr(err->msg, path))
        wn_fail_in(err, "'%s'", path);
    if (s && !ok)
        wn_verify_tell_unfinished(path, err);
    if (m)
        wn_model_close(m);
    else
        wn_source_close(s);
    return ok;
}
