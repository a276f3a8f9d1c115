/*
 * Between the walk over a bound layer (recast.c) and what a container makes of each part (recast_gguf.c, recast_mlx.c).
 */
#ifndef WN_JOBS_CONVERT_RECAST_PARTS_H
#define WN_JOBS_CONVERT_RECAST_PARTS_H

#include "jobs/convert/recast.h"

#define WN_RECAST_TENSORS 160 /* of one layer: each matrix of MLX is up to three */

/* The tensors of one layer while it is bound, and the parts that belong to them. */
struct wn_recast_layer {
    const struct wn_recast *r;
    const struct wn_config *config;
    int32_t number; /* -1: what is outside the layers */
    struct wn_recast_tensor tensors[WN_RECAST_TENSORS];
    struct wn_matrix single[WN_RECAST_TENSORS]; /* where a tensor is one matrix */
    size_t n;
    const struct wn_keep_layer *keep; /* of a layer with experts */
    uint32_t router_rows;             /* keep->count, or all of the source's in builds with ghosts */
    struct wn_matrix *router;         /* owned; [router_rows] rows in the new order */
    struct wn_matrix *experts[3];     /* owned; gate, up, down: [keep->count] in the new order */
    float *bias;                      /* owned; [router_rows] */
    uint8_t *rows;                    /* owned; [keep->count] I32: the row of each expert, with ghosts */
    struct wn_matrix *ghosts;         /* owned; [router_rows - keep->count] means of new ghosts */
    float *padded;                    /* owned; a vector made longer */
    struct wn_err *err;
    bool failed; /* once true, *err is set and nothing more is added */
};

/*
 * What a container makes of a part. Each adds tensors to the layer; what the parts lead to lives as long as the layer
 * is bound. Matrices without rows and vectors that are NULL are not shown.
 */
struct wn_recast_form {
    enum wn_naming naming;
    bool vision; /* the tensors of the vision tower go along; otherwise they are left out */
    bool sorted; /* a layer's tensors go by name; otherwise in the order of the walk */
    void (*matrix)(struct wn_recast_layer *l, enum wn_role role, const struct wn_matrix *m);
    void (*vector)(struct wn_recast_layer *l, enum wn_role role, const float *v, uint64_t n);
    /* The fused AttnRes score of n; the two vectors that it is the product of are the source's. */
    void (*score)(struct wn_recast_layer *l, enum wn_role role, const float *v, uint64_t n);
    void (*conv)(struct wn_recast_layer *l, enum wn_role role, const float *v, uint64_t channels, uint64_t taps);
    /* a: exp(A_log), to be changed at will */
    void (*decay)(struct wn_recast_layer *l, float *a, uint64_t heads);
    void (*per_head)(struct wn_recast_layer *l, unsigned which, const struct wn_matrix *heads, uint64_t count);
    void (*router)(struct wn_recast_layer *l);
    void (*experts)(struct wn_recast_layer *l, enum wn_role role, const struct wn_matrix *m);
};
/* The next tensor, named, with one part that is *m (or none yet: NULL); dims and shape are the caller's to set. */
struct wn_recast_tensor *wn_recast_add(struct wn_recast_layer *l, const char *name, enum wn_type type,
                                       const struct wn_matrix *m);
/* n floats in memory as a matrix. */
struct wn_matrix wn_recast_floats(const float *v, uint64_t rows, uint64_t cols);
/*
 * Of a layer with ghosts, whose router is gathered: the tensor of its experts' rows, and their means' where it has them
 * (recast_ghosts.c). The same in all containers.
 */
void wn_recast_ghosts(struct wn_recast_layer *l, const struct wn_moe_weights *w);
/* First of a stack of n matrices of the same shape and type, for one tensor; fails the layer when they are not. */
bool wn_recast_alike(struct wn_recast_layer *l, const struct wn_matrix *m, uint32_t n);

#endif
