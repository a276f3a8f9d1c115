/* See <winnow/model.h>: opening. Everything that names alone can tell is checked here; shapes wait for the binding. */
#include "base/alloc.h"
#include "model/config_read.h"
#include "model/names.h"
#include "model/own.h"
#include "model/weights.h"

#include <stdlib.h>
#include <string.h>

#define CONFIG_LIMIT (16u << 20) /* bytes; real ones have a few thousand */

char *wn_config_text(const struct wn_source *s, size_t *n, struct wn_err *err)
{
    char *path = wn_path_join(wn_source_folder(s), "config.json", err);
    char *text = path ? wn_file_slurp(path, CONFIG_LIMIT, n, err) : NULL;

    if (path && !text)
        wn_source_tell_unfinished(wn_source_path(s), err);
    free(path);
    return text;
}

bool wn_config_of_source(const struct wn_source *s, struct wn_config *c, struct wn_err *err)
{
    char *json;
    size_t n;
    bool ok;

    if (wn_source_container(s) == WN_CONTAINER_GGUF)
        return wn_config_read_gguf(s, c, err);
    *c = (struct wn_config){0};
    json = wn_config_text(s, &n, err);
    ok = json && wn_config_parse_json(json, n, c, err);
    if (ok && !wn_mlx_agrees(json, n, wn_naming_of_source(s), err)) {
        wn_config_release(c);
        ok = false;
    }
    free(json);
    return ok;
}

/* HF's text tensors stand alone or behind the wrapper's prefix. */
static bool find_prefix(struct wn_model *m, struct wn_err *err)
{
    static const char *const prefixes[] = {"language_model.", ""};

    m->prefix = "";
    if (m->naming != WN_NAMING_HF)
        return true;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        char name[WN_NAME_BYTES];

        if (wn_name_write(m->naming, prefixes[i], WN_ROLE_EMBEDDING, 0, 0, 0, name) &&
            wn_source_find(m->source, name)) {
            m->prefix = prefixes[i];
            return true;
        }
    }
    return wn_fail(err, WN_ERR_FORMAT,
                   "neither 'language_model.model.embed_tokens.weight' nor 'model.embed_tokens.weight' is there");
}

/* Tables that can be computed again at will, which old checkpoints carry along. */
static bool is_derived(const char *name)
{
    return strstr(name, "rotary_emb.inv_freq") || strcmp(name, "rope_freqs.weight") == 0;
}

/* What stands in no row of the table, or in a layer that the config does not have, would be dropped silently. */
static bool check_part(const struct wn_model *m, const struct wn_tensor *t, const struct wn_part *p, struct wn_err *err)
{
    if (p->class == WN_CLASS_OTHER && !is_derived(t->name))
        return wn_fail(err, WN_ERR_FORMAT, "tensor '%s' is none of this model's", t->name);
    if (p->layer >= 0 && (uint32_t)p->layer >= m->config.layer_count)
        return wn_fail(err, WN_ERR_FORMAT, "tensor '%s': the config has %u layers only", t->name,
                       m->config.layer_count);
    return true;
}

/* Counts, then places: in_layer is grouped by layer and keeps file order within one. */
static bool index_layers(struct wn_model *m, struct wn_err *err)
{
    size_t n = wn_source_tensor_count(m->source), layers = m->config.layer_count;
    size_t *next = wn_alloc(layers, sizeof(*next), err);
    struct wn_part p;

    m->layer_at = next ? wn_alloc(layers + 1, sizeof(*m->layer_at), err) : NULL;
    m->in_layer = m->layer_at ? wn_alloc(n, sizeof(*m->in_layer), err) : NULL;
    if (!m->in_layer) {
        free(next);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const struct wn_tensor *t = wn_source_tensor_at(m->source, i);

        wn_part_of(m->container, t->name, &p);
        if (!check_part(m, t, &p, err)) {
            free(next);
            return false;
        }
        if (p.layer >= 0)
            m->layer_at[p.layer + 1]++;
    }
    for (size_t l = 0; l < layers; l++) {
        next[l] = m->layer_at[l];
        m->layer_at[l + 1] += m->layer_at[l];
    }
    for (size_t i = 0; i < n; i++) {
        wn_part_of(m->container, wn_source_tensor_at(m->source, i)->name, &p);
        if (p.layer >= 0)
            m->in_layer[next[p.layer]++] = i;
    }
    free(next);
    return true;
}

static bool open_parts(struct wn_model *m, const char *path, struct wn_err *err)
{
    m->path = wn_strdup(path, err);
    m->source = m->path ? wn_source_open(path, err) : NULL;
    if (!m->source)
        return false;
    m->container = wn_source_container(m->source);
    m->naming = wn_naming_of_source(m->source);
    if (!wn_config_of_source(m->source, &m->config, err) || !find_prefix(m, err) || !index_layers(m, err))
        return wn_fail_in(err, "'%s'", path);
    if (m->naming == WN_NAMING_MLX && !(m->mlx = wn_mlx_read(m->source, err)))
        return wn_fail_in(err, "'%s'", path);
    m->slot = wn_alloc(1, sizeof(*m->slot), err);
    if (!m->slot)
        return false;
    if (pthread_mutex_init(&m->slot->lock, NULL) != 0) {
        free(m->slot);
        m->slot = NULL;
        return wn_fail(err, WN_ERR_NOMEM, "a lock could not be made");
    }
    return true;
}

struct wn_model *wn_model_open(const char *path, struct wn_err *err)
{
    struct wn_model *m = wn_alloc(1, sizeof(*m), err);

    if (m && !open_parts(m, path, err)) {
        wn_model_close(m);
        m = NULL;
    }
    return m;
}

void wn_model_close(struct wn_model *m)
{
    if (!m)
        return;
    if (m->slot) {
        wn_vocab_free(m->slot->vocab);
        pthread_mutex_destroy(&m->slot->lock);
        free(m->slot);
    }
    free(m->in_layer);
    free(m->layer_at);
    wn_mlx_free(m->mlx);
    wn_config_release(&m->config);
    wn_source_close(m->source);
    free(m->path);
    free(m);
}

const struct wn_config *wn_model_config(const struct wn_model *m)
{
    return &m->config;
}

const char *wn_model_path(const struct wn_model *m)
{
    return m->path;
}

const char *wn_model_prefix(const struct wn_model *m)
{
    return m->prefix;
}

struct wn_source *wn_model_source(const struct wn_model *m)
{
    return m->source;
}
