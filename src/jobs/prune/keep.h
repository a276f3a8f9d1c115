/*
 * What stays of a model, tensor by tensor: the list of the output's tensors and the one walk over the source bytes that
 * each is made of.
 *
 * Everything with an expert axis - slabs of a stacked tensor, router rows, router bias, tensors of one expert - gets
 * its experts here and nowhere else, in prune as in verify. So they cannot disagree about the order, which is the
 * mistake that no shape check sees.
 */
#ifndef WN_JOBS_PRUNE_KEEP_H
#define WN_JOBS_PRUNE_KEEP_H

#include "formats/source.h"
#include "model/parts.h"
#include <winnow/plan.h>

#define WN_DROPPED UINT32_MAX

struct wn_means;

/* One layer with experts. */
struct wn_keep_layer {
    uint32_t layer;
    uint32_t experts; /* in the source */
    uint32_t rows;    /* of the source's router: its experts and its ghosts */
    uint32_t count;   /* experts that stay */
    uint32_t hi;      /* the first of them, which keep their type; the rest are stored in lo_bits. Ungraded: all */
    uint32_t lo_bits; /* 0: not graded; with a second parent in name only: the type is that parent's */
    uint32_t *keep;   /* [count] old expert of each new one; owned */
    uint32_t *new_of; /* [experts] new expert of each old one, or WN_DROPPED; owned */
    uint32_t *row_of; /* [count] the source's row of the router of each new expert; owned */
};

/* Tensors of builds with ghosts that no source has. */
enum wn_keep_made { WN_COPIED, WN_MADE_ROWS, WN_MADE_MEANS };

/* One tensor of the output. */
struct wn_keep_tensor {
    enum wn_keep_made made;            /* otherwise: */
    const struct wn_tensor *from;      /* borrowed from: */
    const struct wn_source *source;    /* the keep's, or its second one; borrowed */
    const char *name;                  /* in the output; borrowed from the source or from the keep */
    const struct wn_keep_layer *layer; /* NULL: no expert axis, all bytes as they are */
    enum wn_expert_axis axis;
    bool router;
    enum wn_type type;
    uint32_t dims;
    uint32_t old_expert, new_expert; /* WN_AXIS_NAME */
    uint32_t first, count;           /* WN_AXIS_OUTER: new experts first .. first + count - 1 of the layer */
    uint64_t slab_bytes;             /* the same: bytes of one expert */
    uint64_t shape[WN_DIMS];         /* in the output, outermost first */
    uint64_t bytes;                  /* in the output */
    uint32_t file;                   /* of the output; as in the source until a layout says otherwise */
};

struct wn_keep {
    const struct wn_source *source; /* borrowed */
    const struct wn_source *low;    /* that second banks are copied from; NULL: there are none; borrowed */
    bool identity;                  /* every expert stays, in its place, and so do ghosts */
    /* Of the output. OFF: a router has a row for each expert; SKIP: it is the source's, whole; MEAN: means, too. */
    enum wn_ghosts ghosts;
    bool new_ghosts;              /* the plan makes them; otherwise they are the source's */
    struct wn_means *means;       /* of new ones; NULL: there are none, or only sizes are asked for; borrowed */
    uint32_t width;               /* of a mean of new ones */
    struct wn_keep_layer *layers; /* by rising layer; owned */
    uint32_t layer_count;
    struct wn_keep_tensor *tensors; /* in output order; owned */
    size_t tensor_count;
    char *names; /* owned */
};

/* What is to be made of a source. All zero: a copy. */
struct wn_keep_how {
    const struct wn_plan *plan; /* NULL: every expert stays */
    /*
     * Of a graded plan a second parent, a GGUF of the same model (jobs/prune/twins.h, which refuses others): in graded
     * layers the experts of the second bank come from it, as tensors of their own behind those of the first. Everything
     * else is the source's. NULL: there is none. Borrowed.
     */
    const struct wn_source *low;
    /*
     * SKIP, MEAN: what the plan drops become ghosts, of a model that winnow computes. OFF: the source's ghosts go.
     * BUILT: none are made; those that are there stay.
     */
    enum wn_ghosts ghosts;
    struct wn_means *means; /* MEAN; NULL: only sizes are asked for. Borrowed */
};

/*
 * Refuses a plan that is not one for this model (other layers, other numbers), a model whose experts contradict each
 * other, and a tensor that seems to run over experts in a way the table of names does not know. Both source and plan
 * are borrowed; the plan only until this returns.
 */
WN_CHECKED bool wn_keep_init(struct wn_keep *k, const struct wn_source *source, const struct wn_keep_how *how,
                             struct wn_err *err);
void wn_keep_release(struct wn_keep *k);

/* NULL when that layer has no experts. */
const struct wn_keep_layer *wn_keep_find(const struct wn_keep *k, uint32_t layer);
/* Experts of the widest layer, before and after; 0 without experts. */
uint32_t wn_keep_widest(const struct wn_keep *k, bool after);
/* True when all layers with experts keep the same number. */
bool wn_keep_is_uniform(const struct wn_keep *k);
/* True when a layer stores some of its experts in fewer bits. */
bool wn_keep_is_graded(const struct wn_keep *k);
/* Rows of a layer's router in the output. */
uint32_t wn_keep_router_rows(const struct wn_keep *k, const struct wn_keep_layer *l);
/* What ghosts a source has: OFF, SKIP or MEAN, by the names of its tensors. */
enum wn_ghosts wn_keep_ghosts_of(const struct wn_source *source);
/*
 * Refuses (WN_ERR_ARG) a source whose router does not know its experts by their numbers, for who counts what it
 * chooses.
 */
WN_CHECKED bool wn_keep_no_ghosts(const struct wn_source *source, struct wn_err *err);

/* A run of source bytes that stays together in the output. */
struct wn_keep_range {
    uint64_t from, to; /* offsets within t->from and the output's tensor */
    uint64_t bytes;
    uint32_t old_expert, new_expert; /* first of the run; WN_DROPPED without an expert axis */
};
typedef bool wn_keep_range_fn(void *arg, const struct wn_keep_tensor *t, const struct wn_keep_range *r,
                              struct wn_err *err);

/*
 * Calls fn for the runs of t, which is copied, in output order; experts that are neighbours in both are one run. Stops
 * when fn fails.
 */
WN_CHECKED bool wn_keep_gather(const struct wn_keep_tensor *t, wn_keep_range_fn *fn, void *arg, struct wn_err *err);

/* The next n bytes of a tensor that is made, `at` its start or behind those before. */
typedef bool wn_keep_bytes_fn(void *arg, const struct wn_keep_tensor *t, uint64_t at, const void *bytes, size_t n,
                              struct wn_err *err);
/* Calls fn for all bytes of t, which is made. Stops when fn fails. */
WN_CHECKED bool wn_keep_make(const struct wn_keep *k, const struct wn_keep_tensor *t, wn_keep_bytes_fn *fn, void *arg,
                             struct wn_err *err);

struct wn_keep_cut {
    bool joined; /* all in one file; otherwise: */
    uint64_t
        shard_bytes; /* 0: files as in the source; else a new one before the sum of padded tensors would exceed this */
    uint32_t alignment; /* of tensors, for that sum */
};

/* Sets `file` of every tensor and puts them in output order; returns the number of files. */
WN_CHECKED bool wn_keep_lay_out(struct wn_keep *k, const struct wn_keep_cut *cut, uint32_t *files, struct wn_err *err);

#endif
