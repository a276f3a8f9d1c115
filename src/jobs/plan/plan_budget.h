/*
 * How many experts each layer keeps. A layer's experts are ranked, and a choice is two numbers: the first `hi` keep
 * their bytes, the next until `kept` are stored in fewer bits. All that is decided here is those two numbers, for each
 * layer.
 */
#ifndef WN_JOBS_PLAN_PLAN_BUDGET_H
#define WN_JOBS_PLAN_PLAN_BUDGET_H

#include "jobs/plan/plan_rank.h"

struct wn_choice_layer {
    uint32_t layer, experts;
    uint32_t hi, kept;           /* hi <= kept <= experts */
    struct wn_ranked *rank;      /* [experts] protected ones first, then the best; owned */
    double scale;                /* of a score, for comparing layers */
    double *before;              /* [experts + 1] scaled scores of the first n; owned */
    uint64_t hi_bytes, lo_bytes; /* of one expert; where no sizes are known 1 and 0 */
};

struct wn_choice {
    struct wn_choice_layer *layers; /* owned */
    uint32_t n;
    uint32_t floor;   /* kept by each layer at least */
    uint32_t protect; /* of them with their bytes */
    uint32_t lo_bits; /* 0: no second bank */
    double fidelity;  /* what is left of an expert's value in lo_bits, 0..1 */
    uint64_t room;    /* bytes for experts */
    double bound;     /* set by the solvers: what no choice within the room can exceed */
};

void wn_choice_release(struct wn_choice *c);
/* Sum over layers of what is kept, as before[] counts. */
double wn_choice_value(const struct wn_choice *c);
uint64_t wn_choice_bytes(const struct wn_choice *c);

/* hi + lo of each layer; the caller has checked that layers are that wide. */
void wn_choose_same(struct wn_choice *c, uint32_t hi, uint32_t lo);

/*
 * Every layer at the least that it must have: the floor, and of that with their bytes whoever is protected, but one at
 * least. The second refuses (WN_ERR_ARG) a room that does not hold that.
 */
void wn_choice_floor(const struct wn_choice *c, struct wn_choice_layer *l);
WN_CHECKED bool wn_choice_start(struct wn_choice *c, struct wn_err *err);
/* Whether few bits are a better trade than whole experts, as they nearly always are. */
bool wn_low_is_worth(const struct wn_choice *c, const struct wn_choice_layer *l);
/*
 * The most that can be gained from the floor within the room, in parts of experts and in any order, where the expert at
 * a place of its layer's ranking is worth value [layer][place].
 */
WN_CHECKED bool wn_choice_most(const struct wn_choice *c, const double *const *value, double *most, struct wn_err *err);

/*
 * Into `room`, or WN_ERR_ARG with what the floor takes. solve_same: the numbers that are 0 are solved, the same for all
 * layers: the pair that keeps the most, by trying each hi. solve_apart: layer by layer, the best bytes first; with
 * lo_bits an expert comes in with few bits and is raised later, or at once where that is the better trade.
 * Both set bound: the linear relaxation of solve_apart's problem.
 */
WN_CHECKED bool wn_solve_same(struct wn_choice *c, uint32_t hi, uint32_t lo, struct wn_err *err);
WN_CHECKED bool wn_solve_apart(struct wn_choice *c, struct wn_err *err);

#endif
