/* Finding the tensors of one layer, checking them and making matrices and vectors of them. Shared by bind*.c. */
#ifndef WN_MODEL_BIND_H
#define WN_MODEL_BIND_H

#include "model/names.h"
#include "model/own.h"
#include "model/weights.h"

struct wn_owned; /* a chain of memory blocks; bind.c */

struct wn_binder {
    const struct wn_model *model;
    const struct wn_source *source;
    const struct wn_config *config;
    uint32_t layer;
    struct wn_owned **owned;       /* where new memory is chained */
    const struct wn_tensor **used; /* every tensor found; room for the whole layer */
    size_t used_count, used_room;
    struct wn_err *err;
};

/* n objects that live as long as the layer: zeroed; and not set. */
WN_CHECKED void *wn_bind_alloc(struct wn_binder *b, size_t n, size_t size);
WN_CHECKED void *wn_bind_unset(struct wn_binder *b, size_t n, size_t size);

/*
 * Tensor `which` of a role in a bank; NULL with *err when it is missing. wn_bind_try: NULL says only that it is not
 * there.
 */
WN_CHECKED const struct wn_tensor *wn_bind_find(struct wn_binder *b, enum wn_role role, unsigned which,
                                                enum wn_bank bank);
const struct wn_tensor *wn_bind_try(struct wn_binder *b, const char *name);

/* Compares shapes with their ones left out, so that [4,1,D,1], [4,1,D] and [4,D] are the same. */
WN_CHECKED bool wn_bind_shape(struct wn_binder *b, const struct wn_tensor *t, const uint64_t *want, uint32_t dims);

/*
 * The tensor as a matrix of that many rows and columns; its elements must match (wn_bind_shape), its type be
 * decodable.
 */
WN_CHECKED bool wn_bind_view(struct wn_binder *b, const struct wn_tensor *t, uint64_t rows, uint64_t cols,
                             struct wn_matrix *m);

/* A role that is one matrix, and one that is a vector (or a small table), widened to f32. */
WN_CHECKED bool wn_bind_matrix(struct wn_binder *b, enum wn_role role, uint64_t rows, uint64_t cols,
                               struct wn_matrix *m);
/*
 * Tensor `which` of a role as `count` matrices one after the other: m has their rows together (wn_matrix_rows takes
 * them apart). Not for HF, whose matrices stand alone.
 */
WN_CHECKED bool wn_bind_stack(struct wn_binder *b, enum wn_role role, unsigned which, enum wn_bank bank, uint64_t count,
                              uint64_t rows, uint64_t cols, struct wn_matrix *m);
/*
 * bind_mlx.c: an MLX weight of that shape, quantised or not, with what lies beside it; all but the last dimension
 * become rows.
 */
WN_CHECKED bool wn_bind_mlx(struct wn_binder *b, const struct wn_tensor *t, const uint64_t *shape, uint32_t dims,
                            struct wn_matrix *m);
WN_CHECKED bool wn_bind_vector(struct wn_binder *b, enum wn_role role, uint64_t n, float **v);
WN_CHECKED bool wn_bind_table(struct wn_binder *b, enum wn_role role, uint64_t rows, uint64_t cols, float **v);
/* All elements of a tensor of whatever shape, row by row, into n floats of the caller's. */
WN_CHECKED bool wn_bind_widen(struct wn_binder *b, const struct wn_tensor *t, uint64_t n, float *dst);

/* bind_attention.c, bind_moe.c, bind_ghosts.c */
WN_CHECKED bool wn_bind_kda(struct wn_binder *b, struct wn_kda_weights *w);
WN_CHECKED bool wn_bind_mla(struct wn_binder *b, struct wn_mla_weights *w);
WN_CHECKED bool wn_bind_moe(struct wn_binder *b, struct wn_moe_weights *w);
/* Which of the router's rows are ghosts', and what they give; router, bias and expert_count are set. */
WN_CHECKED bool wn_bind_ghosts(struct wn_binder *b, struct wn_moe_weights *w);

#endif
