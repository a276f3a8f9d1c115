/* See imatrix.h. */
#include "jobs/plan/imatrix.h"
#include "base/alloc.h"
#include "formats/source.h"
#include "model/parts.h"
#include <winnow/config.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNTS     ".counts"
#define NAME_BYTES 256
#define SUMS_MAX   (1 << 24)  /* layers x experts: K3 has 83,328, and a small file must not ask for all memory */
#define EXACT_MAX  16777216.0 /* beyond it f32 leaves numbers out: a count there has been rounded */

struct reading {
    const struct wn_source *source;
    uint32_t *experts; /* [WN_LAYERS_MAX] of each layer, 0: none */
    uint32_t layers;
    double tokens; /* the most that any matrix saw; 0: not told */
    struct wn_saliency *s;
};

bool wn_imatrix_is(const char *path, bool *is, struct wn_err *err)
{
    char magic[4] = "";
    struct wn_file f;
    bool ok;

    if (!wn_file_open(&f, path, err))
        return false;
    ok = f.bytes < sizeof magic || wn_file_read(&f, 0, magic, sizeof magic, err);
    wn_file_close(&f);
    *is = memcmp(magic, "GGUF", sizeof magic) == 0;
    return ok;
}

static bool check_kind(const struct wn_source *s, struct wn_err *err)
{
    const struct wn_gguf_kv *kv =
        wn_source_container(s) == WN_CONTAINER_GGUF ? wn_gguf_find(wn_source_gguf(s), "general.type") : NULL;
    struct wn_bytes type;

    if (kv && wn_gguf_as_string(kv, &type) && wn_bytes_is(type, "imatrix"))
        return true;
    return wn_fail(
        err, WN_ERR_FORMAT,
        "a GGUF whose 'general.type' is not 'imatrix'; a plan is made from a saliency archive or an imatrix");
}

/* The name of what was counted, without ".counts"; false when t is no counts. */
static bool counted(const struct wn_tensor *t, char name[NAME_BYTES], struct wn_part *part)
{
    size_t n = strlen(t->name);

    if (!wn_ends_with(t->name, COUNTS) || t->type != WN_F32 || n >= NAME_BYTES)
        return false;
    memcpy(name, t->name, n - strlen(COUNTS));
    name[n - strlen(COUNTS)] = '\0';
    wn_part_of(WN_CONTAINER_GGUF, name, part);
    return true;
}

/* A stack of routed experts; the router and its bias run over experts too, but see every token. */
static bool is_stack(const struct wn_tensor *t, const struct wn_part *part)
{
    return part->class == WN_CLASS_ROUTED && !part->router && part->layer >= 0 && part->layer < WN_LAYERS_MAX &&
           wn_tensor_elements(t) > 1;
}

static bool read_count(const struct reading *r, const struct wn_tensor *t, uint64_t i, double *count,
                       struct wn_err *err)
{
    float v;

    if (!wn_source_read(r->source, t, i * sizeof v, &v, sizeof v, err))
        return false;
    *count = v;
    if (v >= 0 && (double)v <= EXACT_MAX && floorf(v) == v)
        return true;
    return wn_fail(err, WN_ERR_FORMAT, "'%s' entry %" PRIu64 ": %g is no count (a whole number up to %.0f)", t->name, i,
                   (double)v, EXACT_MAX);
}

/* First walk: shapes, and how many tokens there were. */
static bool look(struct reading *r, struct wn_err *err)
{
    uint32_t widest = 0;

    for (size_t i = 0; i < wn_source_tensor_count(r->source); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(r->source, i);
        uint64_t n = wn_tensor_elements(t);
        char name[NAME_BYTES];
        struct wn_part part;
        double count;

        if (!counted(t, name, &part))
            continue;
        if (!is_stack(t, &part)) {
            if (n != 1)
                continue;
            if (!read_count(r, t, 0, &count, err))
                return false;
            r->tokens = fmax(r->tokens, count);
            continue;
        }
        if (n > WN_LAYERS_MAX || (r->experts[part.layer] && r->experts[part.layer] != n))
            return wn_fail(err, WN_ERR_FORMAT, "'%s' counts %" PRIu64 " experts, others of layer %" PRId32 " %" PRIu32,
                           t->name, n, part.layer, r->experts[part.layer]);
        r->experts[part.layer] = (uint32_t)n;
        widest = n > widest ? (uint32_t)n : widest;
        r->layers = (uint32_t)part.layer >= r->layers ? (uint32_t)part.layer + 1 : r->layers;
    }
    if ((uint64_t)r->layers * widest > SUMS_MAX)
        return wn_fail(err, WN_ERR_FORMAT,
                       "%" PRIu32 " layers of up to %" PRIu32 " experts are more than are planned for", r->layers,
                       widest);
    return r->layers > 0 || wn_fail(err, WN_ERR_FORMAT, "no '...exps.weight.counts': the model has no experts");
}

/*
 * Gate, up and down of a layer saw the same tokens; the most counts, for a part of them may not have been watched
 * throughout.
 */
static bool fill(struct reading *r, struct wn_err *err)
{
    for (size_t i = 0; i < wn_source_tensor_count(r->source); i++) {
        const struct wn_tensor *t = wn_source_tensor_at(r->source, i);
        char name[NAME_BYTES];
        struct wn_part part;
        double count;

        if (!counted(t, name, &part) || !is_stack(t, &part))
            continue;
        for (uint64_t e = 0; e < wn_tensor_elements(t); e++) {
            uint64_t *to = r->s->source_counts + wn_saliency_source_row(r->s, 0, (uint32_t)part.layer) + e;

            if (!read_count(r, t, e, &count, err))
                return false;
            *to = (uint64_t)count > *to ? (uint64_t)count : *to;
        }
    }
    return true;
}

static uint64_t layer_sum(const struct wn_saliency *s, uint32_t layer)
{
    uint64_t sum = 0;

    for (uint32_t e = 0; e < s->layer_experts[layer]; e++)
        sum += s->source_counts[wn_saliency_source_row(s, 0, layer) + e];
    return sum;
}

/* As many as a token is given to, told by the first layer with experts. */
static bool find_top_k(const struct reading *r, struct wn_err *err)
{
    uint32_t first = 0;
    uint64_t sum;
    bool tells;
    double k;

    while (r->s->layer_experts[first] == 0)
        first++;
    sum = layer_sum(r->s, first);
    k = r->tokens > 0 ? (double)sum / r->tokens : 0;
    tells = k >= 1 && floor(k) == k && k <= r->s->layer_experts[first];
    if (tells && r->s->top_k && r->s->top_k != (uint32_t)k)
        return wn_fail(err, WN_ERR_ARG,
                       "layer %" PRIu32 " was given %" PRIu64 " tokens of %.0f, so its top-k is %.0f and not %" PRIu32,
                       first, sum, r->tokens, k, r->s->top_k);
    if (r->s->top_k == 0 && !tells)
        return wn_fail(err, WN_ERR_FORMAT,
                       "layer %" PRIu32 " was given %" PRIu64
                       " tokens of %.0f, which is no whole number each: --top-k says the experts per token, or "
                       "--model",
                       first, sum, r->tokens);
    if (r->s->top_k == 0)
        r->s->top_k = (uint32_t)k;
    r->s->source_tokens[0] = r->tokens > 0 ? (uint64_t)r->tokens : sum / r->s->top_k;
    return true;
}

/* What was not summed is not there, rather than zero. */
static void drop_sums(struct wn_saliency *s)
{
    double **sums[] = {&s->sum_gate, &s->sum_norm,  &s->sum_sq,       &s->max_norm,
                       &s->sum_top2, &s->sum_share, &s->half_saliency};

    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        free(*sums[i]);
        *sums[i] = NULL;
    }
}

static bool read_all(struct reading *r, uint32_t top_k, struct wn_err *err)
{
    static const char *const label[] = {"imatrix"};

    if (!check_kind(r->source, err) || !look(r, err) ||
        !wn_saliency_init(r->s, r->layers, r->experts, top_k, 0, 1, label, err))
        return false;
    if (!fill(r, err) || !find_top_k(r, err)) {
        wn_saliency_release(r->s);
        return false;
    }
    wn_saliency_add_up(r->s);
    drop_sums(r->s);
    (void)snprintf(r->s->settings, sizeof r->s->settings, "routing counts of an imatrix");
    return true;
}

bool wn_imatrix_read(struct wn_saliency *s, const char *path, uint32_t top_k, struct wn_err *err)
{
    struct wn_source *source = wn_source_open(path, err);
    struct reading r = {.source = source, .s = s};
    bool ok;

    *s = (struct wn_saliency){0};
    if (!source)
        return false;
    r.experts = wn_alloc(WN_LAYERS_MAX, sizeof *r.experts, err);
    ok = r.experts && (read_all(&r, top_k, err) || wn_fail_in(err, "'%s'", path));
    free(r.experts);
    wn_source_close(source);
    return ok;
}
