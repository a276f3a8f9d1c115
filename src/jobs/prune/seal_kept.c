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

/* The record, whole and of this very build, and its digest. NULL: there is none (err->msg is empty), or it is not. */
static json_t *load_sound(const struct wn_source *s, char self[2 * WN_DIGEST_BYTES + 1], struct wn_err *err)
{
    json_t *root = wn_seal_load(s, err);

    if (!root)
        return NULL;
    if (wn_seal_check_form(root, self, err) &&
        (is_of(root, s) ||
         wn_fail(err, WN_ERR_DIFFERENT, "the record '" WN_SEAL_NAME "' is of files of other numbers or lengths")))
        return root;
    json_decref(root);
    return NULL;
}

bool wn_seal_check_record(const struct wn_source *s, char text[2 * WN_DIGEST_BYTES + 1], struct wn_err *err)
{
    json_t *root = load_sound(s, text, err);

    if (root) {
        json_decref(root);
        return true;
    }
    text[0] = 0;
    return err->msg[0] == 0;
}

void wn_seal_digest(const struct wn_source *s, char text[2 * WN_DIGEST_BYTES + 1])
{
    struct wn_err ignored;
    bool sound = wn_seal_check_record(s, text, &ignored);

    (void)sound; /* the text tells it */
}

void wn_record_sha256(const struct wn_model *m, char sha256[65])
{
    wn_seal_digest(wn_model_source(m), sha256);
}

json_t *wn_seal_cut_of(const json_t *root)
{
    json_t *origin = json_object_get(root, WN_SEAL_ORIGIN);

    return json_is_object(json_object_get(root, "plan")) || !json_is_object(origin) ? (json_t *)(uintptr_t)root
                                                                                    : origin;
}

json_t *wn_seal_origin(const struct wn_source *source)
{
    static const char *const keys[] = {"parent", "lo_parent", "plan"};
    char self[2 * WN_DIGEST_BYTES + 1];
    struct wn_err ignored;
    json_t *root = load_sound(source, self, &ignored), *cut = wn_seal_cut_of(root), *origin = NULL;

    if (json_is_object(json_object_get(cut, "plan")) && (origin = json_object()))
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            if (json_object_get(cut, keys[i]))
                json_object_set(origin, keys[i], json_object_get(cut, keys[i]));
    json_decref(root);
    return origin;
}

static bool is_parent(const json_t *cut, const char *which, const char *fingerprint)
{
    const char *told = json_string_value(json_object_get(json_object_get(cut, which), "fingerprint"));

    return told && strcmp(told, fingerprint) == 0;
}

json_t *wn_seal_kept(const struct wn_source *cut, const struct wn_source *parent)
{
    char fingerprint[17], self[2 * WN_DIGEST_BYTES + 1];
    struct wn_err ignored;
    json_t *root = load_sound(cut, self, &ignored), *from = wn_seal_cut_of(root), *plan = NULL;

    if (parent)
        wn_source_fingerprint(parent, fingerprint);
    if (!parent || is_parent(from, "parent", fingerprint) || is_parent(from, "lo_parent", fingerprint))
        plan = json_object_get(from, "plan");
    plan = json_is_object(json_object_get(plan, "keep")) ? json_incref(plan) : NULL;
    json_decref(root);
    return plan;
}
