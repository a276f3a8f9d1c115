/* See seal_json.h: a record as others ask for it: which it is, and which experts it says were kept of a parent. */
#include "jobs/prune/seal_json.h"
#include "model/weights.h"

#include <string.h>

/* The files of weights are as many and as long as the record tells: it was not left behind by another build. */
static bool is_of(const json_t *root, const struct wn_source *s)
{
    const json_t *list = json_object_get(root, "weights");

    if (json_array_size(list) != wn_source_file_count(s))
        return false;
    for (size_t i = 0; i < wn_source_file_count(s); i++) {
        const json_t *bytes = json_object_get(json_array_get(list, i), "bytes");

        if (!json_is_integer(bytes) || json_integer_value(bytes) < 0 ||
            (uint64_t)json_integer_value(bytes) != wn_source_file_at(s, i)->file.bytes)
            return false;
    }
    return true;
}

void wn_seal_digest(const struct wn_source *s, char text[2 * WN_DIGEST_BYTES + 1])
{
    struct wn_err ignored;
    json_t *root = wn_seal_load(s, &ignored);

    if (!root || !wn_seal_check_form(root, text, &ignored) || !is_of(root, s))
        text[0] = 0;
    json_decref(root);
}

void wn_record_sha256(const struct wn_model *m, char sha256[65])
{
    wn_seal_digest(wn_model_source(m), sha256);
}

static bool is_parent(const json_t *root, const char *which, const char *fingerprint)
{
    const char *told = json_string_value(json_object_get(json_object_get(root, which), "fingerprint"));

    return told && strcmp(told, fingerprint) == 0;
}

json_t *wn_seal_kept(const struct wn_source *cut, const struct wn_source *parent)
{
    struct wn_err ignored;
    json_t *root = wn_seal_load(cut, &ignored), *plan = NULL;
    char fingerprint[17], self[2 * WN_DIGEST_BYTES + 1];

    if (parent)
        wn_source_fingerprint(parent, fingerprint);
    if (root && wn_seal_check_form(root, self, &ignored) && is_of(root, cut) &&
        (!parent || is_parent(root, "parent", fingerprint) || is_parent(root, "lo_parent", fingerprint)))
        plan = json_object_get(root, "plan");
    plan = json_is_object(json_object_get(plan, "keep")) ? json_incref(plan) : NULL;
    json_decref(root);
    return plan;
}
