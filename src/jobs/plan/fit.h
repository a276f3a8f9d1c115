/*
 * A fit from within: what one expert of each layer weighs, and all else. fit.c gathers it, fit_memory.c says what a run
 * takes, fit_fidelity.c what fewer bits leave, fit_twins.c both of a second GGUF, fit_predict.c puts the ledger
 * together.
 */
#ifndef WN_JOBS_PLAN_FIT_H
#define WN_JOBS_PLAN_FIT_H

#include "formats/source.h"
#include "jobs/plan/plan_budget.h"
#include <winnow/fit.h>

struct wn_fit_layer {
    uint32_t layer, experts;
    uint64_t slab, low_slab; /* bytes of one expert's three matrices, and the same in lo_bits */
    uint64_t router;         /* bytes of its row of the router and bias; with ghosts all rows are there */
    uint32_t tensors;        /* of one expert alone: of folders that have its number in the name */
};

struct wn_fit {
    struct wn_fit_options options; /* lo_source: owned; lo_bits: known with it */
    char *path;                    /* owned */
    const struct wn_model *model;  /* borrowed; may be NULL */
    struct wn_fit_layer *layers;   /* by rising layer; owned */
    uint32_t layer_count;
    uint64_t rest, vision;          /* bytes of tensors without an expert axis; of the vision tower */
    uint64_t mean;                  /* of one ghost, 0: they have none */
    uint64_t ghosts;                /* bytes of whole routers and, were all experts ghosts, of their means */
    uint64_t token_rest;            /* of the rest, what each token reads */
    uint64_t other_tensors;         /* number of those that no expert has for itself */
    uint64_t owned;                 /* bytes beside the mapped ones, without what grows with experts */
    uint32_t context;               /* of a session */
    uint64_t state, cache, scratch; /* of one session */
    double fidelity;
    bool measured;
};

/* NULL has none. */
bool wn_fit_has_budget(const struct wn_fit *f);
unsigned wn_fit_lo_bits(const struct wn_fit *f);
/* Experts per token of the model; 0: it is not known, or there is none. */
uint32_t wn_fit_top_k(const struct wn_fit *f);
/* Puts before the sentence in err what the budget is and what all but the experts takes of it. False. */
bool wn_fit_say_budget(const struct wn_fit *f, struct wn_err *err);

bool wn_fit_has_ghosts(const struct wn_fit *f);
/*
 * Bytes of the build that one expert more takes beside its weights: its row of the router; with ghosts its entry in the
 * list of rows, and less the mean that it had as a ghost. Less than 0 then, and little beside any weights.
 */
int64_t wn_fit_row(const struct wn_fit *f, const struct wn_fit_layer *l);
/* Bytes of memory that one expert takes beside its weights: its place in tables, its bias, names of its tensors. */
uint64_t wn_fit_beside(const struct wn_fit *f, const struct wn_fit_layer *l);
/* Fills owned and the session's fields; model is not NULL. */
WN_CHECKED bool wn_fit_measure_memory(struct wn_fit *f, struct wn_err *err);
/* All memory but what grows with experts. */
uint64_t wn_fit_fixed_memory(const struct wn_fit *f);
/* Fills fidelity and measured. */
WN_CHECKED bool wn_fit_measure_fidelity(struct wn_fit *f, struct wn_err *err);
/* The same from sums of squares: of the error, and of the weights. */
void wn_fit_set_fidelity(struct wn_fit *f, double error, double energy);

/* Whether the second bank is another GGUF's. */
bool wn_fit_is_of_two(const struct wn_fit *f);
/*
 * What that one makes of it, for layers that are there: low_slab (of all experts, to be divided), lo_bits by name,
 * fidelity. whole: the first parent. Refuses what prune refuses, and experts that are larger in the second.
 */
WN_CHECKED bool wn_fit_add_twin(struct wn_fit *f, const struct wn_source *whole, struct wn_err *err);

/*
 * What experts of these layers weigh, what fewer bits leave of them, and with a budget the room that is left for them.
 * Refuses layers that are not the model's.
 */
WN_CHECKED bool wn_fit_price(const struct wn_fit *f, struct wn_choice *c, struct wn_err *err);

#endif
