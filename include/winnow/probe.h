/*
 * Probing: what each layer costs at the output when some of its experts are gone and all other layers are whole. For
 * each layer and each share of experts that stay, KLD of the whole model's next-token distribution against that of the
 * model with the layer masked, per source, over some thousand tokens of the calibration corpus. Budgets over layers are
 * planned from it (plan.h).
 *
 * The model is read once, layer by layer. A masked layer's tokens leave the whole model's way there and then go through
 * all later layers on their own, so with L layers the tokens go through about L^2 / 2 layers for each share. Their
 * activations lie in a work folder; a run that was stopped or killed goes on behind the last way that it took through a
 * layer, and ends with the same bytes. What comes out does not depend on threads, memory or interruptions.
 */
#ifndef WINNOW_PROBE_H
#define WINNOW_PROBE_H

#include <winnow/job.h>
#include <winnow/model.h>
#include <winnow/plan.h>
#include <winnow/pool.h>

#define WN_PROBE_TOKENS 4096 /* where nobody says otherwise */
#define WN_PROBE_KEPT   0.5

struct wn_layer_probe_need;
typedef bool wn_layer_probe_need_fn(void *arg, const struct wn_layer_probe_need *need);

struct wn_layer_probe_options {
    const char *archive; /* SAL.npz of this model, by calibrate or merge: it ranks the experts */
    const char *corpus;  /* as calibrate has it; its sources are the archive's, or some of them */
    const char *out; /* a copy of the archive with the probes; must not exist unless overwrite. May be the archive */
    bool overwrite;
    /* [kept_count] shares of experts that stay, above 0 and below 1, rising or not; NULL: WN_PROBE_KEPT alone. */
    const double *kept;
    size_t kept_count;
    const char *criterion; /* which experts go, as plans have it; NULL: as plans choose it */
    const struct wn_source_weight *weights;
    size_t weight_count;
    enum wn_ghosts ghosts; /* what the dropped give in their layer; WN_GHOSTS_BUILT is off. Means are the archive's */
    bool force_plan;       /* accept an archive whose model fingerprint is another's, as prune does a plan's */
    uint32_t sequence;     /* tokens; 0: 512 */
    uint64_t max_tokens;   /* 0: WN_PROBE_TOKENS. Whole sequences, evenly from the front of the corpus: the mix stays */
    const char *work; /* folder of the resumable state (its parent must exist); NULL: OUT.work. Removed when done */
    bool fresh;       /* ignore what an earlier run left */
    uint64_t ram;     /* bytes; 0: no limit. A need above it is refused with the smallest workable number */
    /* Told what the run takes, before anything is written; false stops it there. May be NULL. */
    wn_layer_probe_need_fn *told;
    void *told_arg;
};

/* What a run takes; memory, disk and reading as in wn_calibrate_need. */
struct wn_layer_probe_need {
    uint64_t sequences, tokens, sources, layers; /* layers: those with experts, each probed */
    uint64_t points;                             /* shares of experts at which each is probed */
    uint64_t alike;        /* shares that are not, as they keep as many experts in each layer as another one */
    uint64_t token_layers; /* tokens times layers that are computed */
    uint64_t token_heads;  /* tokens times heads */
    uint64_t activations;  /* bytes on disk at most */
    uint64_t held;         /* of those, bytes in memory besides: all, where ram allows, or 0 */
    uint64_t model_read, moved;
    uint64_t layer, scratch, records, base, peak;
    uint32_t chunk;
    /* Multiplications of the whole run: of rows of routed experts, which are few tokens' at a time; of all else. */
    double expert_work, other_work;
};

struct wn_layer_probe_result {
    struct wn_layer_probe_need need;
    uint64_t done, resumed; /* ways through a layer: computed by this run; taken over from an earlier one */
    double seconds;
};

/* What it will take, without running it. Reads corpus and archive and binds all layers. */
WN_API WN_CHECKED bool wn_layer_probe_plan(const struct wn_model *m, unsigned threads,
                                           const struct wn_layer_probe_options *o, struct wn_layer_probe_need *need,
                                           struct wn_err *err);
/*
 * About how long its arithmetic takes here, in seconds: some of the model's matrices are multiplied, for about a second
 * on a model that is in memory.
 */
WN_API WN_CHECKED bool wn_layer_probe_seconds(const struct wn_model *m, struct wn_pool *pool,
                                              const struct wn_layer_probe_need *need, double *seconds,
                                              struct wn_err *err);

/*
 * Runs it. Refused (WN_ERR_ARG): an archive of a model of other layers or experts, or without sums per source; a source
 * that the archive does not have; shares that are none. The rest as wn_calibrate has it.
 */
WN_API WN_CHECKED bool wn_layer_probe(const struct wn_model *m, struct wn_pool *pool,
                                      const struct wn_layer_probe_options *o, const struct wn_job *job,
                                      struct wn_layer_probe_result *result, struct wn_err *err);

#endif
