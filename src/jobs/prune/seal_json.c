/*
 * See seal.h: the record as JSON, docs/formats/provenance.md. Its last field is the SHA-256 of the others in the
 * shortest form, keys sorted, so that it can be held against itself.
 */
#include "jobs/prune/seal_json.h"
#include "base/alloc.h"
#include "jobs/prune/means.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/version.h>

/* A name that is no UTF-8 is shown, not repeated: only those beside the weights are looked for by name. */
static json_t *json_name(const char *name)
{
    json_t *j = json_string(name);
    char shown[1200];

    if (j)
        return j;
    shown[wn_visible(name, strnlen(name, 280), "", shown)] = 0;
    return json_string(shown);
}

static json_t *digest_text(const uint8_t *digest, size_t n)
{
    char text[2 * WN_DIGEST_BYTES + 1];

    wn_hash_text(digest, n, text);
    return json_string(text);
}

static json_t *file_entry(const char *name, uint64_t bytes, const uint8_t *digest)
{
    return json_pack("{so sI so}", "name", json_name(name), "bytes", (json_int_t)bytes, "sha256",
                     digest_text(digest, WN_DIGEST_BYTES));
}

static json_t *weights(const struct wn_seal *r, const struct wn_sink *sink)
{
    json_t *list = json_array();

    for (uint32_t f = 0; f < r->files; f++)
        json_array_append_new(list, file_entry(wn_path_name(wn_sink_file_path(sink, f)), wn_sink_file_bytes(sink, f),
                                               r->file_digest + (size_t)f * WN_DIGEST_BYTES));
    return list;
}

/* path ends in .part */
static bool add_beside(json_t *list, const char *path, struct wn_err *err)
{
    uint8_t digest[WN_DIGEST_BYTES];
    char *name = wn_strdup(wn_path_name(path), err);
    struct wn_file f;
    bool ok = name && wn_hash_file(path, digest, err) && wn_file_open(&f, path, err);

    if (ok) {
        name[strlen(name) - strlen(".part")] = 0;
        json_array_append_new(list, file_entry(name, f.bytes, digest));
        wn_file_close(&f);
    }
    free(name);
    return ok;
}

static bool add_config(json_t *list, const struct wn_buf *config, struct wn_err *err)
{
    uint8_t digest[WN_DIGEST_BYTES];

    if (!wn_hash_bytes(config->at, config->n, digest, err))
        return false;
    json_array_append_new(list, file_entry("config.json", config->n, digest));
    return true;
}

static bool add_experts(json_t *root, const struct wn_seal *r, struct wn_err *err)
{
    size_t n;
    struct wn_expert_digest *e = wn_expert_digests(&r->parts, r->part_digest, &n, err);
    json_t *layers = json_object(), *layer = NULL;

    for (size_t i = 0; e && i < n; i++) {
        if (i == 0 || e[i].layer != e[i - 1].layer) {
            char number[16];

            (void)snprintf(number, sizeof number, "%" PRIu32, e[i].layer);
            layer = json_array();
            json_object_set_new(layers, number, layer);
        }
        json_array_append_new(layer, digest_text(e[i].digest, WN_CHECKSUM_BYTES));
    }
    free(e);
    json_object_set_new(root, "experts", json_pack("{so}", WN_SEAL_EXPERTS, layers));
    return e != NULL;
}

json_t *wn_seal_experts(const json_t *root)
{
    return json_object_get(json_object_get(root, "experts"), WN_SEAL_EXPERTS);
}

/* Of the parent's own record, when it has one: a chain that can be followed. */
static json_t *parent_record(const struct wn_source *source)
{
    struct wn_err ignored;
    json_t *root = wn_seal_load(source, &ignored), *own = json_object_get(root, "record");

    json_incref(own);
    json_decref(root);
    return own ? own : json_null();
}

static json_t *parent(const struct wn_source *source)
{
    json_t *files = json_array();
    char fingerprint[17];

    for (size_t i = 0; i < wn_source_file_count(source); i++) {
        const struct wn_file *f = &wn_source_file_at(source, i)->file;

        json_array_append_new(
            files, json_pack("{so sI}", "name", json_name(wn_path_name(f->path)), "bytes", (json_int_t)f->bytes));
    }
    wn_source_fingerprint(source, fingerprint);
    return json_pack("{ss ss so so}", "fingerprint", fingerprint, "container",
                     wn_source_gguf(source) ? "gguf" : "safetensors", "files", files, "record", parent_record(source));
}

/* By layer, in the new order: what a cut means, without the plan's file. */
static json_t *kept_lists(const struct wn_plan *plan)
{
    json_t *keep = json_object();

    for (uint32_t i = 0; i < plan->layer_count; i++) {
        const struct wn_plan_layer *l = &plan->layers[i];
        json_t *list = json_array();
        char number[16];

        for (uint32_t k = 0; k < l->keep_count; k++)
            json_array_append_new(list, json_integer(l->keep[k]));
        (void)snprintf(number, sizeof number, "%" PRIu32, l->layer);
        json_object_set_new(keep, number, list);
    }
    return keep;
}

/* Without a plan the experts are those of the source: what it was cut by holds for the output, too. */
static void add_plan(json_t *root, const struct wn_origin *from)
{
    const struct wn_prune_options *o = from->o;
    json_t *plan;

    if (!o->plan) {
        json_object_set_new(root, "plan", json_null());
        json_object_set_new(root, WN_SEAL_ORIGIN, wn_seal_origin(from->source)); /* nothing where that is NULL */
        return;
    }
    plan = json_pack("{ss ss ss sI so}", "mode", o->plan->mode, "criterion", o->plan->criterion, "weights",
                     o->plan->weights, "num_experts", (json_int_t)o->plan->num_experts, "keep", kept_lists(o->plan));
    json_object_set_new(root, "plan", plan);
    if (!o->plan_file)
        return;
    json_object_set_new(plan, "name", json_name(wn_path_name(o->plan_file)));
    json_object_set_new(plan, "sha256", json_string(o->plan->sha256));
}

/* How ghosts were made, or that they went; nothing where neither was asked for. */
static void add_ghosts(json_t *root, const struct wn_origin *from)
{
    const struct wn_prune_options *o = from->o;
    json_t *ghosts;

    if (o->ghosts == WN_GHOSTS_BUILT || (o->ghosts == WN_GHOSTS_OFF && o->plan))
        return;
    ghosts = json_pack("{ss}", "mode", wn_ghosts_name(o->ghosts));
    json_object_set_new(root, "ghosts", ghosts);
    if (!from->means)
        return;
    json_object_set_new(ghosts, "saliency", json_name(wn_path_name(o->saliency)));
    json_object_set_new(ghosts, "sha256", json_string(from->means->sha256));
}

static json_t *options(const struct wn_prune_options *o)
{
    static const char *const layouts[] = {"as-source", "joined", "split"};
    json_t *j = json_pack("{ss sI}", "layout", layouts[o->layout], "shard_bytes", (json_int_t)o->shard_bytes);

    if (o->format == WN_FORMAT_MLX) {
        json_object_set_new(j, "rest_bits", json_integer(o->rest_bits ? o->rest_bits : 8));
        json_object_set_new(j, "encoder", json_string(o->encoder == WN_ENCODER_FIT ? "fit" : "minmax"));
    }
    return j;
}

bool wn_seal_self(json_t *root, char text[2 * WN_DIGEST_BYTES + 1], struct wn_err *err)
{
    uint8_t digest[WN_DIGEST_BYTES];
    char *dump = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    bool ok = dump ? wn_hash_bytes(dump, strlen(dump), digest, err)
                   : wn_fail(err, WN_ERR_NOMEM, "the record of the output cannot be written");

    free(dump);
    if (ok)
        wn_hash_text(digest, WN_DIGEST_BYTES, text);
    return ok;
}

static bool finish(json_t *root, struct wn_buf *out, struct wn_err *err)
{
    char self[2 * WN_DIGEST_BYTES + 1], *text;
    bool ok = wn_seal_self(root, self, err);

    if (!ok)
        return false;
    json_object_set_new(root, "record", json_string(self));
    text = json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS);
    ok = text ? wn_buf_add(out, text, strlen(text), err) && wn_buf_add(out, "\n", 1, err)
              : wn_fail(err, WN_ERR_NOMEM, "the record of the output cannot be written");
    free(text);
    return ok;
}

bool wn_seal_text(const struct wn_seal *r, const struct wn_sink *sink, const struct wn_origin *from,
                  const char *const *beside, size_t n, const struct wn_buf *config, struct wn_buf *out,
                  struct wn_err *err)
{
    json_t *root = json_pack("{ss si ss ss}", "format", WN_SEAL_FORMAT, "version", 1, "winnow", WINNOW_VERSION, "made",
                             from->made);
    json_t *list = json_array();
    bool ok = root && list;

    for (size_t i = 0; ok && i < n; i++)
        ok = add_beside(list, beside[i], err);
    ok = ok && (!config || add_config(list, config, err));
    json_object_set_new(root, "beside", list);
    if (ok) {
        json_object_set_new(root, "weights", weights(r, sink));
        json_object_set_new(root, "parent", parent(from->source));
        if (from->low)
            json_object_set_new(root, "lo_parent", parent(from->low));
        json_object_set_new(root, "options", options(from->o));
        add_plan(root, from);
        add_ghosts(root, from);
        ok = add_experts(root, r, err) && finish(root, out, err);
    }
    json_decref(root);
    return ok;
}

char *wn_seal_name(enum wn_container container, const char *first_file, struct wn_err *err)
{
    return container == WN_CONTAINER_SAFETENSORS ? wn_strdup(WN_SEAL_NAME, err)
                                                 : wn_asprintf(err, "%s." WN_SEAL_NAME, wn_path_name(first_file));
}

json_t *wn_seal_load(const struct wn_source *s, struct wn_err *err)
{
    const char *first = wn_source_file_count(s) ? wn_source_file_at(s, 0)->file.path : "";
    char *name = wn_seal_name(wn_source_container(s), first, err), *path = NULL, *text = NULL;
    json_error_t where;
    json_t *root = NULL;
    size_t n;

    path = name ? wn_path_join(wn_source_folder(s), name, err) : NULL;
    err->msg[0] = 0;
    if (path && wn_path_exists(path) && (text = wn_file_slurp(path, WN_SEAL_LIMIT, &n, err)) &&
        !(root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &where)))
        wn_fail(err, WN_ERR_FORMAT, "'%s': line %d: %s", path, where.line, where.text);
    free(text);
    free(path);
    free(name);
    return root;
}
