/*
 * What a run took: time, pages that the system had to fetch, memory. Kept apart for prompt and generation.
 */
#ifndef WN_CLI_LEDGER_H
#define WN_CLI_LEDGER_H

#include "cli.h"
#include <winnow/session.h>

/* One stretch of work; start it, and stop it, which leaves what happened in between. */
struct meter {
    double seconds;
    uint64_t faults;     /* pages that were not in memory when they were read */
    uint64_t disk_bytes; /* read from disk by this process; 0 also where the system does not say */
};
void meter_start(struct meter *m);
void meter_stop(struct meter *m);
/* n in that time, a second; 0 for no time. */
double meter_rate(const struct meter *m, size_t n);

/*
 * True when generating n tokens of token_bytes each waited for the disk: it delivers at most about a tenth of what
 * memory does, so from a tenth of the bytes on it sets the pace.
 */
bool meter_disk_bound(const struct meter *m, size_t n, uint64_t token_bytes);

/*
 * Says what a run takes in all, and returns that: `held` is what the process has when the weights are not loaded yet.
 */
uint64_t tell_memory(const struct wn_inspection *in, const struct wn_weights *w, const struct wn_config *c,
                     const struct wn_session_options *so, unsigned threads, uint64_t held);

struct ledger {
    size_t prompt_tokens, tokens;
    struct meter prompt, generation;
    enum wn_ghosts ghosts;              /* of the model */
    struct wn_routing routed, answered; /* what the router chose: in all, and of that for the generated tokens */
    uint64_t told, peak;                /* memory: announced, and the largest resident set in fact */
    bool ended;                         /* by the end-of-message token */
};
/* At the end of a run, when `answered` still has what the prompt's tokens chose. */
void ledger_routed(struct ledger *l, const struct wn_session *s);
/* The last lines of a run, as talk. */
void tell_ledger(const struct ledger *l, const struct wn_inspection *in);
/* The same as the end of a JSON document, as json_put. */
json_t *json_ledger(json_t *j, const struct ledger *l, const struct wn_inspection *in);

#endif
