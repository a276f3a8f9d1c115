/*
 * See seal.h: an output held against what it says of itself. Files are hashed as wholes; only where one differs are its
 * experts, to say which.
 */
#include "base/alloc.h"
#include "jobs/prune/folder_more.h"
#include "jobs/prune/seal_json.h"
#include "jobs/talk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct check {
    const struct wn_source *out;
    const struct wn_job *job;
    json_t *root; /* owned */
    struct wn_verify_result *r;
    uint64_t total;
};

static bool fail_form(const char *what, struct wn_err *err)
{
    return wn_fail(err, WN_ERR_FORMAT, "the record '" WN_SEAL_NAME "' is not as winnow writes it: %s", what);
}

bool wn_seal_check_form(json_t *root, char self[2 * WN_DIGEST_BYTES + 1], struct wn_err *err)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    const char *told = json_string_value(json_object_get(root, "record"));
    char want[2 * WN_DIGEST_BYTES + 1];

    if (!format || strcmp(format, WN_SEAL_FORMAT) != 0 || json_integer_value(json_object_get(root, "version")) != 1)
        return fail_form("format and version 1 are not told", err);
    if (!told || strlen(told) != 2 * WN_DIGEST_BYTES)
        return fail_form("its own digest is missing", err);
    memcpy(self, told, 2 * WN_DIGEST_BYTES + 1);
    (void)json_object_del(root, "record");
    if (!wn_seal_self(root, want, err))
        return false;
    return strcmp(want, self) == 0 ||
           wn_fail(err, WN_ERR_DIFFERENT,
                   "the record '" WN_SEAL_NAME "' was changed: its digest is %.16s..., it says %.16s...", want, self);
}

/* What an entry tells of a file; false: it is none. */
static bool read_entry(json_t *entry, uint64_t *bytes, uint8_t digest[WN_DIGEST_BYTES])
{
    const char *sha = json_string_value(json_object_get(entry, "sha256"));
    json_t *n = json_object_get(entry, "bytes");

    if (!sha || !json_is_integer(n) || json_integer_value(n) < 0)
        return false;
    *bytes = (uint64_t)json_integer_value(n);
    return wn_hash_parse(sha, strlen(sha), digest, WN_DIGEST_BYTES);
}

/* *same: as told, and of that length. */
static bool check_file(struct check *c, const char *path, json_t *entry, bool *same, struct wn_err *err)
{
    uint8_t want[WN_DIGEST_BYTES], have[WN_DIGEST_BYTES];
    uint64_t bytes, there;
    struct wn_file f;

    if (!read_entry(entry, &bytes, want))
        return fail_form("a file has no length or digest", err);
    if (!wn_file_open(&f, path, err))
        return false;
    there = f.bytes;
    wn_file_close(&f);
    if (there != bytes)
        return wn_fail(err, WN_ERR_DIFFERENT, "'%s' has %" PRIu64 " bytes, the record says %" PRIu64,
                       wn_path_name(path), there, bytes);
    if (!wn_hash_file(path, have, err))
        return false;
    *same = memcmp(want, have, sizeof want) == 0;
    c->r->hashed_files += *same;
    c->r->hashed_bytes += *same ? bytes : 0;
    return wn_job_progress(c->job, "hashing", c->r->hashed_bytes, c->total, "bytes", err);
}

/* ---- which expert ---- */

/* wn_tensor_fn */
static struct wn_tensor source_tensor(const void *arg, size_t i)
{
    return *wn_source_tensor_at(arg, i);
}

static bool hash_parts(const struct check *c, const struct wn_expert_parts *p, uint8_t *digest, struct wn_err *err)
{
    for (size_t i = 0; i < p->n; i++)
        if (!wn_hash_file_part(&wn_source_file_at(c->out, p->part[i].file)->file, &p->part[i].where,
                               digest + i * WN_CHECKSUM_BYTES, err))
            return false;
    return true;
}

static bool expert_is_as_told(const struct check *c, const struct wn_expert_digest *e)
{
    char number[16], text[2 * WN_CHECKSUM_BYTES + 1];
    const char *told;

    (void)snprintf(number, sizeof number, "%" PRIu32, e->layer);
    told = json_string_value(json_array_get(json_object_get(wn_seal_experts(c->root), number), e->expert));
    wn_hash_text(e->digest, WN_CHECKSUM_BYTES, text);
    return told && strcmp(told, text) == 0;
}

/* Keeps those parts whose experts have one in the file. */
static void keep_experts_of(struct wn_expert_parts *p, uint32_t file)
{
    uint32_t low = UINT32_MAX, high = 0;
    size_t kept = 0;

    for (size_t i = 0; i < p->n; i++)
        if (p->part[i].file == file) {
            low = p->part[i].layer < low ? p->part[i].layer : low;
            high = p->part[i].layer > high ? p->part[i].layer : high;
        }
    for (size_t i = 0; i < p->n; i++)
        if (p->part[i].layer >= low && p->part[i].layer <= high)
            p->part[kept++] = p->part[i];
    p->n = kept;
}

/* Names the first expert of the file that is not as told, or says that none is. */
static bool name_expert(const struct check *c, uint32_t file, struct wn_err *err)
{
    const char *name = wn_path_name(wn_source_file_at(c->out, file)->file.path);
    struct wn_expert_parts p;
    struct wn_expert_digest *e = NULL;
    uint8_t *digest = NULL;
    size_t n = 0, i = 0;
    bool ok;

    if (!wn_seal_experts(c->root))
        return wn_fail(err, WN_ERR_DIFFERENT,
                       "'%s' is not as its record says, which has no " WN_SEAL_EXPERTS " of experts to tell more",
                       name);
    if (!wn_expert_parts_find(&p, wn_source_container(c->out), wn_source_tensor_count(c->out), source_tensor, c->out,
                              err))
        return false;
    keep_experts_of(&p, file);
    ok = (digest = wn_alloc(p.n, WN_CHECKSUM_BYTES, err)) && hash_parts(c, &p, digest, err) &&
         (e = wn_expert_digests(&p, digest, &n, err));
    while (ok && i < n && expert_is_as_told(c, &e[i]))
        i++;
    if (ok && i < n)
        wn_fail(err, WN_ERR_DIFFERENT,
                "'%s' is not as its record says: layer %" PRIu32 ", expert %" PRIu32 " has other bytes", name,
                e[i].layer, e[i].expert);
    else if (ok)
        wn_fail(err, WN_ERR_DIFFERENT,
                "'%s' is not as its record says, though all of its experts are: other bytes of it differ", name);
    free(e);
    free(digest);
    wn_expert_parts_release(&p);
    return false;
}

/* ---- all files ---- */

static bool check_weights(struct check *c, struct wn_err *err)
{
    json_t *list = json_object_get(c->root, "weights");
    size_t n = wn_source_file_count(c->out);
    bool same;

    if (json_array_size(list) != n)
        return wn_fail(err, WN_ERR_DIFFERENT, "the record tells of %zu files of weights, there are %zu",
                       json_array_size(list), n);
    for (size_t i = 0; i < n; i++) {
        if (!check_file(c, wn_source_file_at(c->out, i)->file.path, json_array_get(list, i), &same, err))
            return false;
        if (!same)
            return name_expert(c, (uint32_t)i, err);
    }
    return true;
}

static bool check_beside(struct check *c, struct wn_err *err)
{
    json_t *entry;
    size_t i;

    json_array_foreach(json_object_get(c->root, "beside"), i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        char *path;
        bool ok, same = false;

        if (!name || strchr(name, '/'))
            return fail_form("a file has no name", err);
        path = wn_path_join(wn_source_folder(c->out), name, err);
        ok = path && (wn_path_exists(path) || wn_fail(err, WN_ERR_DIFFERENT, "'%s' is missing", name)) &&
             check_file(c, path, entry, &same, err) &&
             (same || wn_fail(err, WN_ERR_DIFFERENT, "'%s' is not as its record says", name));
        free(path);
        /* a card may be written anew or go */
        if (!ok && !(err->code == WN_ERR_DIFFERENT && strcmp(name, WN_CARD_NAME) == 0))
            return false;
    }
    return true;
}

/* wn_folder_known_fn */
static bool is_told(const void *arg, const char *name)
{
    const json_t *entry;
    size_t i;

    json_array_foreach((const json_t *)arg, i, entry) {
        const char *told = json_string_value(json_object_get(entry, "name"));

        if (told && strcmp(told, name) == 0)
            return true;
    }
    return strcmp(name, WN_SEAL_NAME) == 0;
}

static bool check_names(const struct check *c, struct wn_err *err)
{
    bool more;

    return wn_folder_check_more(c->out, is_told, json_object_get(c->root, "beside"),
                                "is not in its record: it was added, and is of a kind that loaders read", &more, err);
}

bool wn_seal_check(const struct wn_source *out, const struct wn_job *job, bool *has_record, struct wn_verify_result *r,
                   struct wn_err *err)
{
    struct check c = {.out = out, .job = job, .root = wn_seal_load(out, err), .r = r};
    char self[2 * WN_DIGEST_BYTES + 1];
    bool ok;

    *has_record = c.root != NULL;
    if (!c.root)
        return err->msg[0] == 0;
    for (size_t i = 0; i < wn_source_file_count(out); i++)
        c.total += wn_source_file_at(out, i)->file.bytes;
    ok = wn_seal_check_form(c.root, self, err) && check_names(&c, err) && check_weights(&c, err) &&
         check_beside(&c, err);
    if (ok)
        memcpy(r->record_sha256, self, sizeof self);
    json_decref(c.root);
    return ok;
}
