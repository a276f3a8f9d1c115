/*
 * What `inspect` tells: sums over the list of tensors. Bytes by class need only names; bytes per token and memory need
 * a config that winnow computes.
 */
#include "base/alloc.h"
#include "base/checked.h"
#include "model/config_read.h"
#include "model/memory.h"
#include "model/names.h"
#include "model/own.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one pass over the tensors gathers beside the inspection itself. */
struct tally {
    struct wn_type_bytes by_type[WN_TYPE_COUNT];
    uint64_t *routed;         /* [layer_count] bytes of routed experts; NULL when the config is not known; owned */
    uint64_t embedding_table; /* bytes of the embedding matrix, of which a token reads one row */
    uint32_t listed;          /* layers that say whose the router's rows are */
    uint64_t expert_rows;     /* of builds with ghosts: bytes of what says whose the router's rows are */
};

static void copy_name(char *dst, size_t size, const char *s, size_t n)
{
    (void)snprintf(dst, size, "%.*s", (int)wn_min_size(n, size - 1), s);
}

/* model_type of config.json; stays empty when there is none. */
static void json_architecture(const struct wn_source *s, char out[64])
{
    struct wn_err ignored;
    size_t n;
    char *text = wn_config_text(s, &n, &ignored);
    json_t *root = text ? json_loadb(text, n, 0, NULL) : NULL;
    const char *type = json_string_value(json_object_get(root, "model_type"));

    if (type)
        copy_name(out, 64, type, strlen(type));
    json_decref(root);
    free(text);
}

static void read_architecture(const struct wn_source *s, char out[64])
{
    struct wn_bytes name;
    const struct wn_gguf_kv *kv;

    if (wn_source_container(s) == WN_CONTAINER_SAFETENSORS) {
        json_architecture(s, out);
        return;
    }
    kv = wn_gguf_find(wn_source_gguf(s), "general.architecture");
    if (kv && wn_gguf_as_string(kv, &name))
        copy_name(out, 64, name.at, name.n);
}

/* The config, when it is one that is computed; otherwise in->why_unknown says why not. */
static bool read_config(const struct wn_source *s, struct wn_inspection *in, struct wn_err *err)
{
    struct wn_config *c = wn_alloc(1, sizeof(*c), err);
    struct wn_err why;

    if (!c)
        return false;
    in->known = wn_config_of_source(s, c, &why);
    if (in->known) {
        in->config = c;
        copy_name(in->architecture, sizeof(in->architecture), c->architecture, strlen(c->architecture));
        return true;
    }
    free(c);
    copy_name(in->why_unknown, sizeof(in->why_unknown), why.msg, strlen(why.msg));
    read_architecture(s, in->architecture);
    return true;
}

static void add_files(const struct wn_source *s, struct wn_inspection *in)
{
    in->files = wn_source_file_count(s);
    for (size_t i = 0; i < in->files; i++) {
        const struct wn_source_file *f = wn_source_file_at(s, i);

        in->file_bytes += f->file.bytes;
        in->header_bytes += f->header_bytes;
    }
}

/* MLX: codes, scales and biases of a matrix together are of its type, whose MXFP4 is called by its usual name. */
static enum wn_type type_of(const struct wn_source *s, const struct wn_mlx *mlx, const struct wn_tensor *t)
{
    static const char *const tails[] = {".weight", ".scales", ".biases"};
    char weight[WN_NAME_BYTES], scales[WN_NAME_BYTES];
    struct wn_mlx_form f;
    struct wn_err ignored;
    size_t n = strlen(t->name);
    bool ends = false;

    for (size_t i = 0; i < 3; i++)
        ends = ends || wn_ends_with(t->name, tails[i]);
    if (!mlx || !ends || n >= sizeof(weight))
        return t->type;
    (void)snprintf(weight, sizeof(weight), "%.*s.weight", (int)(n - strlen(".weight")), t->name);
    if (!wn_name_beside(weight, "scales", scales) || !wn_source_find(s, scales) ||
        !wn_mlx_form_of(mlx, weight, true, &f, &ignored))
        return t->type;
    return f.mode == WN_MLX_MXFP4 ? WN_MXFP4 : wn_mlx_type(&f);
}

/* The first of what does not go together is told; a build that nobody can run is counted all the same. */
static void trouble(struct wn_inspection *in, uint32_t layer, const char *what, uint64_t have, const char *wanted,
                    uint64_t want)
{
    if (have != want && !*in->ghost_trouble)
        (void)snprintf(in->ghost_trouble, sizeof in->ghost_trouble,
                       "layer %" PRIu32 ": %s %" PRIu64 ", but by the config %s %" PRIu64
                       " ('router_rows'; without it one for each expert)",
                       layer, what, have, wanted, want);
}

static void check_ghosts(const struct wn_part *part, const struct wn_tensor *t, struct wn_inspection *in)
{
    const struct wn_layer_config *l = &in->config->layers[part->layer];
    uint32_t layer = (uint32_t)part->layer;

    if (part->router && t->dims == 2)
        trouble(in, layer, "the router's rows are", t->shape[0], "they are", l->router_rows);
    if (part->expert_rows)
        trouble(in, layer, "the experts whose rows are told are", wn_tensor_elements(t), "the experts are",
                l->expert_count);
    if (part->ghost_mean && t->dims > 0)
        trouble(in, layer, "the ghosts that have means are", t->shape[0], "the ghosts are",
                l->router_rows - l->expert_count);
}

/* Rows of a router that are no experts', and the tensors that only builds with ghosts have. */
static void add_ghosts(const struct wn_part *part, const struct wn_tensor *t, struct wn_inspection *in,
                       struct tally *tally)
{
    const struct wn_layer_config *l;

    if (!in->config || part->layer < 0 || (uint32_t)part->layer >= in->config->layer_count)
        return;
    l = &in->config->layers[part->layer];
    check_ghosts(part, t, in);
    if (part->expert_rows) {
        tally->listed++;
        tally->expert_rows += t->bytes;
        in->ghosts += l->router_rows - l->expert_count;
    }
    if (part->ghost_mean)
        in->ghost_mean_bytes += t->bytes;
    if (part->expert_rows || part->ghost_mean)
        in->ghost_bytes += t->bytes;
    else if (part->router && l->router_rows)
        in->ghost_bytes += t->bytes / l->router_rows * (l->router_rows - l->expert_count);
}

static void add_tensors(const struct wn_source *s, const struct wn_mlx *mlx, struct wn_inspection *in,
                        struct tally *tally)
{
    enum wn_container container = wn_source_container(s);
    enum wn_type type;
    struct wn_part part;

    in->tensors = wn_source_tensor_count(s);
    for (size_t i = 0; i < in->tensors; i++) {
        const struct wn_tensor *t = wn_source_tensor_at(s, i);

        wn_part_of(container, t->name, &part);
        in->tensor_bytes += t->bytes;
        in->class_bytes[part.class] += t->bytes;
        in->class_tensors[part.class]++;
        type = type_of(s, mlx, t);
        tally->by_type[type].bytes += t->bytes;
        tally->by_type[type].tensors++;
        if (part.class == WN_CLASS_ROUTED && tally->routed && part.layer >= 0 &&
            (uint32_t)part.layer < in->config->layer_count)
            tally->routed[part.layer] += t->bytes;
        add_ghosts(&part, t, in, tally);
        if (part.class == WN_CLASS_EMBEDDING && wn_name_is_embedding(t->name))
            tally->embedding_table += t->bytes;
    }
}

/* Of a build with ghosts each layer with experts says whose the rows are. */
static void check_lists(const struct tally *tally, struct wn_inspection *in)
{
    uint32_t moe = 0, with_ghosts = 0;

    for (uint32_t i = 0; i < in->config->layer_count; i++) {
        moe += in->config->layers[i].moe;
        with_ghosts += in->config->layers[i].router_rows > in->config->layers[i].expert_count;
    }
    if ((tally->listed > 0 || with_ghosts > 0) && tally->listed != moe && !*in->ghost_trouble)
        (void)snprintf(in->ghost_trouble, sizeof in->ghost_trouble,
                       "%" PRIu32 " of %" PRIu32 " layers with experts say whose their router's rows are",
                       tally->listed, moe);
}

/* Everything is read once a token, but: chosen experts only, one row of the embedding, nothing of vision and ghosts. */
static void add_token_bytes(const struct tally *tally, struct wn_inspection *in)
{
    const struct wn_config *c = in->config;
    uint64_t routed = 0, row = tally->embedding_table / c->vocab_size;

    for (uint32_t i = 0; i < c->layer_count; i++) {
        uint32_t experts = c->layers[i].expert_count;

        if (experts == 0)
            continue;
        /* a graded layer's experts weigh more or less: which are chosen is not known, so their mean counts */
        routed += tally->routed[i] / experts * c->experts_per_token +
                  tally->routed[i] % experts * c->experts_per_token / experts;
        if (in->expert_bytes == 0)
            in->expert_bytes = tally->routed[i] / experts;
    }
    memcpy(in->class_token_bytes, in->class_bytes, sizeof(in->class_token_bytes));
    in->class_token_bytes[WN_CLASS_ROUTED] = routed;
    in->class_token_bytes[WN_CLASS_VISION] = 0;
    /* read once, and in the place of experts */
    in->class_token_bytes[WN_CLASS_ROUTER] -= tally->expert_rows + in->ghost_mean_bytes;
    /* tied: the same table is read as a row, and whole as the head */
    if (c->tied_embeddings)
        in->class_token_bytes[WN_CLASS_EMBEDDING] += row;
    else
        in->class_token_bytes[WN_CLASS_EMBEDDING] -= tally->embedding_table - row;
    for (int i = 0; i < WN_CLASS_COUNT; i++)
        in->token_bytes += in->class_token_bytes[i];
}

static void add_memory(struct wn_inspection *in)
{
    for (uint32_t i = 0; i < in->config->layer_count; i++) {
        in->state_bytes += wn_layer_state_bytes(in->config, i);
        in->kv_bytes_per_token += wn_layer_cache_bytes_per_token(in->config, i);
    }
}

static int by_falling_bytes(const void *a, const void *b)
{
    const struct wn_type_bytes *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->type, y->type);
}

static bool list_types(const struct tally *tally, struct wn_inspection *in, struct wn_err *err)
{
    in->types = wn_alloc(WN_TYPE_COUNT, sizeof(*in->types), err);
    if (!in->types)
        return false;
    for (int t = 0; t < WN_TYPE_COUNT; t++) {
        if (tally->by_type[t].tensors == 0)
            continue;
        in->types[in->type_count] = tally->by_type[t];
        in->types[in->type_count++].type = wn_type_info((enum wn_type)t)->name;
    }
    qsort(in->types, in->type_count, sizeof(*in->types), by_falling_bytes);
    return true;
}

static bool inspect_source(const struct wn_source *s, struct wn_inspection *in, struct wn_err *err)
{
    static const char *const containers[] = {"gguf", "safetensors", "mlx"};
    enum wn_naming naming = wn_naming_of_source(s);
    struct tally tally = {0};
    struct wn_err ignored;
    struct wn_mlx *mlx;
    bool ok;

    (void)snprintf(in->container, sizeof(in->container), "%s", containers[naming]);
    wn_source_fingerprint(s, in->fingerprint);
    if (!read_config(s, in, err))
        return false;
    if (in->known) {
        tally.routed = wn_alloc(in->config->layer_count, sizeof(*tally.routed), err);
        if (!tally.routed)
            return false;
    }
    add_files(s, in);
    mlx = in->known && naming == WN_NAMING_MLX ? wn_mlx_read(s, &ignored) : NULL;
    add_tensors(s, mlx, in, &tally);
    wn_mlx_free(mlx);
    if (in->known) {
        check_lists(&tally, in);
        add_token_bytes(&tally, in);
        add_memory(in);
    }
    ok = list_types(&tally, in, err);
    free(tally.routed);
    return ok;
}

bool wn_model_inspect(const struct wn_model *m, struct wn_inspection *out, struct wn_err *err)
{
    *out = (struct wn_inspection){0};
    if (inspect_source(m->source, out, err))
        return true;
    wn_inspection_release(out);
    return false;
}

bool wn_inspect(const char *path, struct wn_inspection *out, struct wn_err *err)
{
    struct wn_source *s = wn_source_open(path, err);
    bool ok;

    *out = (struct wn_inspection){0};
    if (!s)
        return false;
    ok = inspect_source(s, out, err);
    wn_source_close(s);
    if (!ok)
        wn_inspection_release(out);
    return ok;
}

void wn_inspection_release(struct wn_inspection *in)
{
    if (in->config) {
        /* owned by the inspection; const only for those who read it */
        struct wn_config *c = (struct wn_config *)(uintptr_t)in->config;

        wn_config_release(c);
        free(c);
    }
    free(in->types);
    *in = (struct wn_inspection){0};
}
