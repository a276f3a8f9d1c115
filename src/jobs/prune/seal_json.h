/* What writing a record and checking one share (seal_json.c, seal_check.c). */
#ifndef WN_JOBS_PRUNE_SEAL_JSON_H
#define WN_JOBS_PRUNE_SEAL_JSON_H

#include "jobs/prune/seal.h"

#include <jansson.h>

#define WN_SEAL_FORMAT  "winnow-record"
#define WN_SEAL_EXPERTS "xxh3_128" /* the kind of the experts' digests, and the key that names it */
#define WN_SEAL_ORIGIN  "origin"   /* the cut that the source itself was made by */
#define WN_SEAL_LIMIT   ((uint64_t)256 << 20)

/* The record of an open model, or NULL: there is none (err->msg is empty), or it cannot be read. */
json_t *wn_seal_load(const struct wn_source *s, struct wn_err *err);
/* SHA-256 of a record without its field "record". */
WN_CHECKED bool wn_seal_self(json_t *root, char text[2 * WN_DIGEST_BYTES + 1], struct wn_err *err);
/* Its form and that digest, held against each other; self: the digest. Takes "record" out of it. */
WN_CHECKED bool wn_seal_check_form(json_t *root, char self[2 * WN_DIGEST_BYTES + 1], struct wn_err *err);

/* SHA-256 of the record of an open model; empty: none, or one that was changed or is of files of other lengths. */
void wn_seal_digest(const struct wn_source *s, char text[2 * WN_DIGEST_BYTES + 1]);
/*
 * The same where a record that was changed, or is not of these files, is a difference. What it tells of their bytes is
 * not looked at.
 */
WN_CHECKED bool wn_seal_check_record(const struct wn_source *s, char text[2 * WN_DIGEST_BYTES + 1], struct wn_err *err);

/* {"1": [digest of each expert of layer 1]}, borrowed; NULL: there are none, or they are of another kind. */
json_t *wn_seal_experts(const json_t *root);

/*
 * What of a record tells the cut, borrowed: the record, or its "origin" where it was made without a plan out of a build
 * that was cut. In either "plan", "parent" and "lo_parent" are what they say.
 */
json_t *wn_seal_cut_of(const json_t *root);
/* That of a model's record as a copy of it will tell it, a new reference; NULL: it was not cut, or has no record. */
json_t *wn_seal_origin(const struct wn_source *source);

/*
 * "plan" of cut's record, a new reference, with "num_experts" and "keep": {"1": [old experts, in the new order]}. NULL:
 * there is no such record, it was changed or is another build's by the lengths of its files, or names another parent
 * than this one (NULL: any will do).
 */
json_t *wn_seal_kept(const struct wn_source *cut, const struct wn_source *parent);

#endif
