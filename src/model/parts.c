/* See parts.h: names are taken apart, and what is left of them is looked up in the table of names.c. */
#include "base/bytes.h"
#include "model/names.h"

#include <assert.h>
#include <string.h>

/* If s starts with `start`, what follows; otherwise NULL. */
static const char *after(const char *s, const char *start)
{
    size_t n = strlen(start);

    return strncmp(s, start, n) == 0 ? s + n : NULL;
}

/* Reads "123." and returns what follows the dot; NULL when it is not a number that fits (or has leading zeros). */
static const char *number_dot(const char *s, uint32_t *v, size_t *digits)
{
    uint64_t n = 0;
    size_t i = 0;

    while (s[i] >= '0' && s[i] <= '9' && i < 10)
        n = n * 10 + (uint64_t)(s[i++] - '0');
    if (i == 0 || s[i] != '.' || n > INT32_MAX || (i > 1 && s[0] == '0'))
        return NULL;
    *v = (uint32_t)n;
    *digits = i;
    return s + i + 1;
}

/* The class of a name in the table, given without what stands before it. */
static bool look_up(enum wn_container container, const char *stem, bool in_layer, struct wn_part *part)
{
    for (int i = 0; i < WN_ROLE_COUNT; i++) {
        const struct wn_role_names *row = wn_role_names((enum wn_role)i);
        const char *const *names = container == WN_CONTAINER_GGUF ? row->gguf : row->hf;

        for (int k = 0; k < 2 && names[k]; k++) {
            if (row->in_layer == in_layer && strcmp(stem, names[k]) == 0) {
                part->class = row->class;
                return true;
            }
        }
    }
    return false;
}

static void set_router(struct wn_part *part)
{
    part->class = WN_CLASS_ROUTER;
    part->axis = WN_AXIS_OUTER;
    part->router = true;
}

/* Conventions that all GGUF architectures share, for models whose other names are not in the table. */
static enum wn_class gguf_class_by_habit(const char *stem)
{
    const char *dot = strchr(stem, '.');
    size_t n = dot ? (size_t)(dot - stem) : strlen(stem);
    char head[64];

    if (n >= sizeof(head))
        return WN_CLASS_OTHER;
    memcpy(head, stem, n);
    head[n] = '\0';
    if (wn_ends_with(head, "_shexp") || strcmp(head, "ffn_gate") == 0 || strcmp(head, "ffn_up") == 0 ||
        strcmp(head, "ffn_down") == 0)
        return WN_CLASS_SHARED;
    if (after(head, "attn_") || after(head, "ssm_"))
        return strcmp(head, "attn_norm") == 0 || strcmp(head, "attn_post_norm") == 0 ? WN_CLASS_ROUTER
                                                                                     : WN_CLASS_ATTENTION;
    return wn_ends_with(head, "_norm") ? WN_CLASS_ROUTER : WN_CLASS_OTHER;
}

/* "ffn_up_exps.weight", ".bias", ".scale" ...: whatever hangs on a stack of experts counts experts outermost. */
static bool gguf_is_expert_stack(const char *stem)
{
    static const char *const stacks[] = {"ffn_gate_exps.", "ffn_up_exps.", "ffn_down_exps.", "ffn_gate_up_exps."};

    for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++)
        if (after(stem, stacks[i]))
            return true;
    return false;
}

static void gguf_part(const char *name, struct wn_part *part)
{
    const char *stem = after(name, "blk.");
    uint32_t layer;
    size_t digits;

    if (stem)
        stem = number_dot(stem, &layer, &digits);
    if (!stem) {
        if (after(name, "v.") || after(name, "mm."))
            part->class = WN_CLASS_VISION;
        else if (!look_up(WN_CONTAINER_GGUF, name, false, part) && strcmp(name, "output.bias") == 0)
            part->class = WN_CLASS_EMBEDDING;
        return;
    }
    part->layer = (int32_t)layer;
    if (gguf_is_expert_stack(stem)) {
        part->class = WN_CLASS_ROUTED;
        part->axis = WN_AXIS_OUTER;
    } else if (after(stem, "ffn_gate_inp.") || strcmp(stem, "exp_probs_b.bias") == 0 ||
               strcmp(stem, "exp_probs_b") == 0 || strcmp(stem, "exp_probs_b.weight") == 0) {
        set_router(part);
    } else if (!look_up(WN_CONTAINER_GGUF, stem, true, part)) {
        part->class = gguf_class_by_habit(stem);
    }
}

/*
 * rest: behind "...layers.N."; moe: the block's name with its dot. True when the name is one of its router or
 * experts.
 */
static bool hf_moe_part(const char *name, const char *rest, const char *moe, struct wn_part *part)
{
    const char *in = after(rest, moe), *number;

    if (!in)
        return false;
    if (strcmp(in, "gate.weight") == 0 || strcmp(in, "gate.e_score_correction_bias") == 0) {
        set_router(part);
        return true;
    }
    number = after(in, "experts.");
    if (!number || !number_dot(number, &part->expert, &part->expert_digits))
        return false;
    part->class = WN_CLASS_ROUTED;
    part->axis = WN_AXIS_NAME;
    part->expert_at = (size_t)(number - name);
    return true;
}

static void hf_part(const char *name, struct wn_part *part)
{
    const char *text = after(name, "language_model.");
    const char *rest;
    uint32_t layer;
    size_t digits;

    if (!text)
        text = name;
    rest = after(text, "model.layers.");
    if (rest)
        rest = number_dot(rest, &layer, &digits);
    if (!rest) {
        if (after(name, "vision_tower.") || after(name, "mm_projector."))
            part->class = WN_CLASS_VISION;
        else
            (void)look_up(WN_CONTAINER_SAFETENSORS, text, false, part);
        return;
    }
    part->layer = (int32_t)layer;
    if (!hf_moe_part(name, rest, "block_sparse_moe.", part) && !hf_moe_part(name, rest, "mlp.", part))
        (void)look_up(WN_CONTAINER_SAFETENSORS, rest, true, part);
}

void wn_part_of(enum wn_container container, const char *name, struct wn_part *part)
{
    *part = (struct wn_part){.class = WN_CLASS_OTHER, .layer = -1, .axis = WN_AXIS_NONE};
    if (container == WN_CONTAINER_GGUF)
        gguf_part(name, part);
    else
        hf_part(name, part);
}

const char *wn_class_name(enum wn_class c)
{
    static const char *const names[WN_CLASS_COUNT] = {
        [WN_CLASS_ROUTED] = "routed experts",
        [WN_CLASS_SHARED] = "shared experts and dense layers",
        [WN_CLASS_ATTENTION] = "attention",
        [WN_CLASS_LATENT] = "latent projections",
        [WN_CLASS_EMBEDDING] = "embeddings and head",
        [WN_CLASS_ROUTER] = "routers and norms",
        [WN_CLASS_VISION] = "vision",
        [WN_CLASS_OTHER] = "other",
    };

    assert((unsigned)c < WN_CLASS_COUNT);
    return names[c];
}
