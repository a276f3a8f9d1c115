/*
 * What a prune does to metadata, and to nothing else there: the number of experts, in GGUF keys or in config.json. All
 * other bytes stay. Used by prune to write and by verify to know what should have been written.
 */
#ifndef WN_JOBS_PRUNE_PRUNE_META_H
#define WN_JOBS_PRUNE_PRUNE_META_H

#include "base/bytes.h"
#include "jobs/prune/keep.h"

/*
 * Records of the output: the source's, in their order, but for those of ghosts that go, and behind them what a second
 * bank and ghosts need. `kv` is owned, what it points to is the source's, `value` or `own`: the struct must not be
 * moved.
 */
#define WN_PRUNE_KV_MORE 3
struct wn_prune_kv {
    struct wn_gguf_kv *kv;
    size_t n;
    char value[8];                       /* the new expert count, in the type it had */
    struct wn_buf own[WN_PRUNE_KV_MORE]; /* key and value of each record more */
    size_t own_count;
};

/*
 * plan: NULL for the identity. Refuses what one expert count for all layers cannot say, and routers that the cut would
 * change: groups of experts, more experts per token than a layer keeps, a plan made for another top-k.
 */
WN_CHECKED bool wn_prune_kv(const struct wn_keep *k, const struct wn_plan *plan, struct wn_prune_kv *out,
                            struct wn_err *err);
/*
 * GGUF has one expert count for all layers: refuses what keeps different numbers, but for builds that only winnow
 * reads.
 */
WN_CHECKED bool wn_prune_is_even(const struct wn_keep *k, struct wn_err *err);
/* A count of each layer for a GGUF, under `.key`. */
typedef uint32_t wn_layer_count_fn(const struct wn_keep *k, const struct wn_keep_layer *l);
struct wn_layer_list {
    const char *key;
    wn_layer_count_fn *count;
};
/* Those that the output needs, in the order in which they are written. Returns how many. */
size_t wn_prune_lists(const struct wn_keep *k, struct wn_layer_list out[WN_PRUNE_KV_MORE]);
/* The source's own expert count (0 when there is none) must be what its tensors have in their widest layer. */
WN_CHECKED bool wn_prune_kv_agrees(const struct wn_keep *k, struct wn_err *err);
void wn_prune_kv_release(struct wn_prune_kv *kv);

/*
 * Records of files 2 .. of a set that is laid out as its source. `meta` is owned, what it leads to is the source's or
 * kv's.
 */
struct wn_prune_later {
    struct wn_gguf_meta *meta;
    uint32_t n;
};
/* kv: what file 1 will have. None for other containers and single files. */
WN_CHECKED bool wn_prune_later(const struct wn_source *s, const struct wn_prune_kv *kv, struct wn_prune_later *out,
                               struct wn_err *err);
void wn_prune_later_release(struct wn_prune_later *l);

/* The names of the source's files without their folder, borrowed from it; free the array. */
WN_CHECKED bool wn_prune_names(const struct wn_source *s, const char ***names, struct wn_err *err);

/*
 * The text of config.json after the prune, appended to out: the count is replaced wherever it stands, in the wrapper as
 * in its text config; "expert_counts" (one number a layer, 0 for dense ones) is put behind it when layers differ, and
 * "router_rows" in builds with ghosts. The same refusals; and of a family that winnow reads, a text that it would not
 * read any more.
 */
WN_CHECKED bool wn_prune_config(const struct wn_keep *k, const struct wn_plan *plan, const char *text, size_t n,
                                struct wn_buf *out, struct wn_err *err);

/* A config.json that large is none. */
#define WN_CONFIG_BYTES_MAX ((uint64_t)64 << 20)

#endif
