/*
 * What a card is made of. card_read.c reads it and refuses what does not go together, card_front.c writes the hub's
 * front matter, card_claims.c the tables of what is verified and what is not, card_plan.c the rows of the plan in them,
 * card_calls.c the commands behind the rows, card.c the rest.
 */
#ifndef WN_JOBS_REPORT_CARD_H
#define WN_JOBS_REPORT_CARD_H

#include "formats/source.h"
#include "jobs/fingerprint.h"
#include "jobs/report/html.h"
#include "jobs/report/report_eval.h"

#include <jansson.h>
#include <winnow/card.h>
#include <winnow/model.h>
#include <winnow/plan.h>

#define WN_HEX_DIGEST (2 * WN_DIGEST_BYTES + 1)

/* A log as it was read: the digest is of the very bytes that the figures are from. */
struct wn_card_log {
    const char *name; /* of its file, without the folder */
    char sha256[WN_HEX_DIGEST];
    json_t *root; /* owned; NULL for a plan, which is read by its own reader */
};

struct wn_card {
    char *name; /* of the build; owned */
    struct wn_source *source;
    struct wn_inspection in;
    json_t *record; /* of the build; NULL: it has none. Owned; its own digest is here: */
    char record_sha[WN_HEX_DIGEST];
    struct wn_card_log *evals, *verifies, *runs; /* owned */
    struct wn_report_eval *figures;              /* [eval_count], of evals; owned */
    size_t eval_count, verify_count, run_count;  /* read so far */
    bool has_plan;
    struct wn_plan plan;
    struct wn_card_log plan_log;
};

/* Release it either way. */
WN_CHECKED bool wn_card_read(struct wn_card *c, const struct wn_card_options *o, struct wn_err *err);
void wn_card_release(struct wn_card *c);

/* A text of the record at plan.key or parent.key, "" where there is none. */
const char *wn_card_told(const struct wn_card *c, const char *part, const char *key);
/* The same of the cut: of a build that was made without a plan out of one that was cut, as that one's record told. */
const char *wn_card_cut_told(const struct wn_card *c, const char *part, const char *key);
/* It is known that the build was cut; that weights were given fewer bits; that experts of a layer have two widths. */
bool wn_card_is_pruned(const struct wn_card *c);
/* The cut is what its source was made by. */
bool wn_card_is_copy_of_cut(const struct wn_card *c);
bool wn_card_is_quantized(const struct wn_card *c);
bool wn_card_is_graded(const struct wn_card *c);
/* Second banks were copied from another parent than all else. */
bool wn_card_has_two_parents(const struct wn_card *c);

/* Layers with experts, and how many those have; all 0 when neither config nor record tells. */
struct wn_card_experts {
    size_t layers, fewest, most;
};
struct wn_card_experts wn_card_experts(const struct wn_card *c);

/* A double-quoted scalar, of any bytes: what is not UTF-8 becomes U+FFFD. It is a JSON string, too. */
void wn_card_put_yaml(struct wn_html *h, const char *text);
/* From --- to ---, and a line end. */
WN_CHECKED bool wn_card_put_front(struct wn_html *h, const struct wn_card *c, struct wn_err *err);

/* A log of verify that found the files' digests as the record has them; of those that were given the first, or NULL. */
bool wn_card_has_hashes(const struct wn_card_log *log);
const struct wn_card_log *wn_card_proof(const struct wn_card *c);

/* Of a log: the text at a key, "" where there is none; the number, or NaN. */
const char *wn_card_text_at(const json_t *object, const char *key);
double wn_card_number_at(const json_t *object, const char *key);

/*
 * The last two columns of a row: the command that made the log, with what the log tells of options that change the
 * figure, and the log's SHA-256.
 */
void wn_card_put_verify_call(struct wn_html *h, const struct wn_card *c, const struct wn_card_log *log);
void wn_card_put_eval_call(struct wn_html *h, const struct wn_card *c, size_t i, const struct wn_report_domain *d);
void wn_card_put_run_call(struct wn_html *h, const struct wn_card *c, const struct wn_card_log *log);
void wn_card_put_plan_call(struct wn_html *h, const struct wn_card *c);

/* Rows of the plan's claims (card_plan.c); only where it tells what it keeps. */
bool wn_card_tells_kept(const struct wn_card *c);
void wn_card_put_plan(struct wn_html *h, const struct wn_card *c);

/* Both tables, with their headings. */
void wn_card_put_claims(struct wn_html *h, const struct wn_card *c);

#endif
