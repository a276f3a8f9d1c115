/* See parts.h: names are taken apart, and what is left of them is looked up in the table of names.c. */
#include "base/bytes.h"
#include "model/names.h"

#include <assert.h>
#include <stdio.h>
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

static bool is_named(const struct wn_role_names *row, enum wn_naming naming, const char *stem)
{
    for (int k = 0; k < 2 && row->name[naming][k]; k++)
        if (strcmp(stem, row->name[naming][k]) == 0)
            return true;
    return false;
}

/* The class of a name in the table, given without what stands before it; and which of two namings has it alone. */
static bool look_up(enum wn_naming one, enum wn_naming other, const char *stem, bool in_layer, struct wn_part *part)
{
    for (int i = 0; i < WN_ROLE_COUNT; i++) {
        const struct wn_role_names *row = wn_role_names((enum wn_role)i);
        bool by_one = row->in_layer == in_layer && is_named(row, one, stem);
        bool by_other = row->in_layer == in_layer && is_named(row, other, stem);

        if (!by_one && !by_other)
            continue;
        part->class = row->class;
        part->expert_rows = i == WN_ROLE_EXPERT_ROWS;
        part->ghost_mean = i == WN_ROLE_GHOST_MEAN;
        if (one == other || by_one != by_other)
            part->naming = by_one ? one : other;
        return true;
    }
    return false;
}

static bool gguf_look_up(const char *stem, bool in_layer, struct wn_part *part)
{
    return look_up(WN_NAMING_GGUF, WN_NAMING_GGUF, stem, in_layer, part);
}

/* MLX keeps scales and biases beside a quantised weight, which is what the table has. */
static bool folder_look_up(const char *stem, bool in_layer, struct wn_part *part)
{
    static const char *const beside[] = {".scales", ".biases"};
    char weight[WN_NAME_BYTES];

    for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
        size_t n = strlen(stem);

        if (!wn_ends_with(stem, beside[i]))
            continue;
        n -= strlen(beside[i]);
        if (n + sizeof(".weight") > sizeof(weight))
            return false;
        (void)snprintf(weight, sizeof(weight), "%.*s.weight", (int)n, stem);
        if (!look_up(WN_NAMING_MLX, WN_NAMING_MLX, weight, in_layer, part))
            return false;
        part->naming = WN_NAMING_MLX;
        return true;
    }
    return look_up(WN_NAMING_HF, WN_NAMING_MLX, stem, in_layer, part);
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

/*
 * "ffn_up_exps.weight", ".bias", ".scale" ...: whatever hangs on a stack of experts counts experts outermost.
 * "_exps_lo" is the second stack of a graded build.
 */
static bool gguf_is_expert_stack(const char *stem, bool *low)
{
    static const char *const stacks[] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_gate_up_exps"};

    for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
        const char *rest = after(stem, stacks[i]);

        *low = rest && after(rest, "_lo.");
        if (*low || (rest && *rest == '.'))
            return true;
    }
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
        else if (!gguf_look_up(name, false, part) && strcmp(name, "output.bias") == 0)
            part->class = WN_CLASS_EMBEDDING;
        return;
    }
    part->layer = (int32_t)layer;
    if (gguf_is_expert_stack(stem, &part->low)) {
        part->class = WN_CLASS_ROUTED;
        part->axis = WN_AXIS_OUTER;
    } else if (after(stem, "ffn_gate_inp.") || strcmp(stem, "exp_probs_b.bias") == 0 ||
               strcmp(stem, "exp_probs_b") == 0 || strcmp(stem, "exp_probs_b.weight") == 0) {
        set_router(part);
    } else if (!gguf_look_up(stem, true, part)) {
        part->class = gguf_class_by_habit(stem);
    }
}

/* "switch_mlp.up_proj.weight", "switch_mlp.bank_lo.up_proj.scales": a stack of MLX's, the first or the second. */
static bool mlx_is_expert_stack(const char *in, bool *low)
{
    static const char *const stacks[] = {"gate_proj.", "up_proj.", "down_proj."};
    const char *rest = after(in, "switch_mlp."), *bank;

    if (!rest)
        return false;
    bank = after(rest, "bank_lo.");
    *low = bank != NULL;
    if (!bank)
        bank = after(rest, "bank_hi.");
    for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
        const char *tail = after(bank ? bank : rest, stacks[i]);

        if (tail && (strcmp(tail, "weight") == 0 || strcmp(tail, "scales") == 0 || strcmp(tail, "biases") == 0))
            return true;
    }
    return false;
}

/* The router's matrix (MLX: with what lies beside it) or its bias. Says whose name it is where only one has it. */
static bool is_router(const char *in, enum wn_naming *naming)
{
    static const struct {
        const char *name;
        enum wn_naming naming;
    } names[] = {
        {"gate.weight", WN_NAMING_COUNT},
        {"gate.scales", WN_NAMING_MLX},
        {"gate.biases", WN_NAMING_MLX},
        {"gate.e_score_correction_bias", WN_NAMING_HF},
        {"e_score_correction_bias", WN_NAMING_MLX},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(in, names[i].name) == 0) {
            *naming = names[i].naming;
            return true;
        }
    }
    return false;
}

/*
 * rest: behind "...layers.N."; moe: the block's name with its dot. True when the name is one of its router or
 * experts.
 */
static bool folder_moe_part(const char *name, const char *rest, const char *moe, struct wn_part *part)
{
    const char *in = after(rest, moe), *number;

    if (!in)
        return false;
    if (is_router(in, &part->naming)) {
        set_router(part);
        return true;
    }
    if (mlx_is_expert_stack(in, &part->low)) {
        part->class = WN_CLASS_ROUTED;
        part->axis = WN_AXIS_OUTER;
        part->naming = WN_NAMING_MLX;
        return true;
    }
    number = after(in, "experts.");
    if (!number || !number_dot(number, &part->expert, &part->expert_digits))
        return false;
    part->class = WN_CLASS_ROUTED;
    part->axis = WN_AXIS_NAME;
    part->naming = WN_NAMING_HF;
    part->expert_at = (size_t)(number - name);
    return true;
}

static void folder_part(const char *name, struct wn_part *part)
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
            (void)folder_look_up(text, false, part);
        return;
    }
    part->layer = (int32_t)layer;
    if (!folder_moe_part(name, rest, "block_sparse_moe.", part) && !folder_moe_part(name, rest, "mlp.", part))
        (void)folder_look_up(rest, true, part);
}

void wn_part_of(enum wn_container container, const char *name, struct wn_part *part)
{
    *part = (struct wn_part){.class = WN_CLASS_OTHER, .layer = -1, .axis = WN_AXIS_NONE, .naming = WN_NAMING_COUNT};
    if (container == WN_CONTAINER_GGUF)
        gguf_part(name, part);
    else
        folder_part(name, part);
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
