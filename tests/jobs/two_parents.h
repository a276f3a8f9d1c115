/* What the tests of builds from two parents share: GGUFs of one model in several types, made of tiny-b's. */
#ifndef WN_TESTS_TWO_PARENTS_H
#define WN_TESTS_TWO_PARENTS_H

#include "formats/sink.h"
#include "model/names.h"
#include "prune_help.h"

#define TWIN_LO     "golden/text/tiny-b/gguf/tiny-b-IQ1_S.gguf"
#define TWIN_LO_SET "golden/text/tiny-b/gguf/split/tiny-b-IQ1_S-00001-of-00003.gguf"

/* A tensor on its way into another file: whatever is changed here is what will be written. */
struct twin_tensor {
    char name[WN_NAME_BYTES];
    enum wn_type type; /* WN_TYPE_COUNT: the tensor is left out */
    uint32_t dims;
    uint64_t shape[WN_DIMS];
    uint8_t *bytes; /* from malloc */
    struct wn_part part;
};
typedef void twin_edit_fn(void *arg, struct twin_tensor *t);

/* Writes `from` to out as one file, each tensor as edit (may be NULL) leaves it; kv: records; NULL: those of from. */
void twin_write(const char *from, const char *out, twin_edit_fn *edit, void *arg, const struct wn_gguf_kv *kv,
                size_t kv_count);
/* All rows in another type, decoded and encoded. */
void twin_encode(struct twin_tensor *t, enum wn_type type);
/* twin_edit_fn: stacks of experts in the type that arg leads to. */
void twin_experts(void *arg, struct twin_tensor *t);
/* `from` in a new folder with experts in that type; tiny-b's IQ1_S. Good until the 16th call after. */
const char *twin_parent_of(const char *from, enum wn_type type);
const char *twin_parent(enum wn_type type);

/* 6 of 10 experts, in orders of their own: in layer 1 three of them whole, in layer 2 two. */
void twin_plan(struct wn_plan *p);

/* Stops with the sentence when it does not work. lo NULL: none. */
struct wn_prune_result twin_prune(const char *hi, const char *lo, const char *out, const struct wn_plan *plan,
                                  enum wn_layout layout, uint64_t shard_bytes);
/* That each slab of out is that of its parent, and all else hi's, by nothing but names and orders. */
void twin_check_bytes(const char *hi, const char *lo, const char *out, const struct wn_plan *plan);

#endif
