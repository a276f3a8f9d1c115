/* See prune_help.h. */
#include "prune_help.h"
#include "kills.h"
#include "formats/source.h"
#include "sys/file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/session.h>

void plan_from_reference(struct wn_plan *p, const char *path, uint32_t top_k, uint32_t num_experts)
{
    json_t *root = json_load_file(path, 0, NULL), *layers = json_object(), *plan;
    const char *key;
    json_t *keep;
    char *text;
    struct wn_err err;

    assert_non_null(root);
    json_object_foreach(json_object_get(root, "keep"), key, keep)
        json_object_set_new(layers, key, json_pack("{s:O}", "keep", keep));
    plan = json_pack("{s:i,s:i,s:o}", "top_k", (int)top_k, "num_experts", (int)num_experts, "layers", layers);
    text = json_dumps(plan, 0);
    CHECK_OK(wn_plan_parse(p, text, strlen(text), &err), &err);
    free(text);
    json_decref(plan);
    json_decref(root);
}

struct wn_prune_result prune_ok(const char *source, const char *out, const struct wn_plan *plan, enum wn_layout layout,
                                uint64_t shard_bytes)
{
    struct wn_prune_options o = {
        .source = source, .out = out, .plan = plan, .layout = layout, .shard_bytes = shard_bytes};
    struct wn_prune_result r;
    struct wn_err err;

    CHECK_OK(wn_prune(&o, NULL, &r, &err), &err);
    return r;
}

static FILE *open_for_change(const char *path)
{
    FILE *f = fopen(path, "r+b");

    if (!f)
        fail_msg("cannot change '%s'", path);
    return f;
}

static void get_at(FILE *f, uint64_t at, void *bytes, size_t n)
{
    assert_int_equal(fseeko(f, (off_t)at, SEEK_SET), 0);
    assert_int_equal(fread(bytes, 1, n, f), n);
}

static void put_at(FILE *f, uint64_t at, const void *bytes, size_t n)
{
    assert_int_equal(fseeko(f, (off_t)at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
}

/* killed_in's */
struct dying {
    const struct wn_prune_options *o;
    long writes;
};

static bool prune_and_die(void *arg)
{
    const struct dying *d = arg;
    struct wn_prune_result r;
    struct wn_err err;

    wn_file_die_of_writes(true);
    wn_file_fail_writes_after(d->writes);
    return wn_prune(d->o, NULL, &r, &err);
}

bool prune_gets_through(const struct wn_prune_options *o, long n)
{
    struct dying d = {o, n};

    return !killed_in(prune_and_die, &d);
}

void flip_byte(const char *path, uint64_t at, uint8_t mask)
{
    FILE *f = open_for_change(path);
    uint8_t byte;

    get_at(f, at, &byte, 1);
    byte ^= mask;
    put_at(f, at, &byte, 1);
    assert_int_equal(fclose(f), 0);
}

void swap_bytes(const char *path, uint64_t a, uint64_t b, size_t n)
{
    FILE *f = open_for_change(path);
    char *x = malloc(n), *y = malloc(n);

    assert_non_null(x);
    assert_non_null(y);
    get_at(f, a, x, n);
    get_at(f, b, y, n);
    put_at(f, a, y, n);
    put_at(f, b, x, n);
    free(x);
    free(y);
    assert_int_equal(fclose(f), 0);
}

bool replace_text(const char *path, const char *from, const char *to)
{
    FILE *f = open_for_change(path);
    size_t n = strlen(from), got;
    char *text = malloc((size_t)8 << 20);
    bool found = false;

    assert_int_equal(n, strlen(to));
    assert_non_null(text);
    got = fread(text, 1, (size_t)8 << 20, f);
    for (size_t i = 0; !found && i + n <= got; i++) {
        if (memcmp(text + i, from, n) != 0)
            continue;
        put_at(f, i, to, n);
        found = true;
    }
    free(text);
    assert_int_equal(fclose(f), 0);
    return found;
}

void find_tensor(const char *model, const char *name, struct place *p)
{
    struct wn_err err;
    struct wn_source *s = wn_source_open(model, &err);
    const struct wn_tensor *t;

    CHECK_OK(s, &err);
    t = wn_source_find(s, name);
    if (!t)
        fail_msg("'%s' has no tensor '%s'", model, name);
    snprintf(p->path, sizeof(p->path), "%s", wn_source_file_at(s, t->file)->file.path);
    p->at = t->at;
    p->bytes = t->bytes;
    wn_source_close(s);
}

int count_entries(const char *folder)
{
    struct wn_err err;
    char **names;
    size_t n;

    if (!wn_path_exists(folder) || !wn_path_list(folder, &names, &n, &err))
        return -1;
    wn_names_free(names, n);
    return (int)n;
}

struct collect {
    float *logits;
    size_t vocab;
};

static bool take(void *arg, uint64_t position, const float *logits)
{
    struct collect *c = arg;

    memcpy(c->logits + position * c->vocab, logits, c->vocab * sizeof(float));
    return true;
}

float *logits_with(const struct wn_model *m, const struct wn_weights *w, const uint32_t *ids, size_t n, size_t *vocab)
{
    struct wn_session_options o = {.context = 512};
    struct wn_session *s;
    struct wn_err err;
    struct wn_pool *pool = wn_pool_new(2, &err);
    struct collect c;

    CHECK_OK(pool, &err);
    s = wn_session_new(m, w, pool, &o, &err);
    CHECK_OK(s, &err);
    c.vocab = *vocab = wn_model_config(m)->vocab_size;
    c.logits = calloc(n * c.vocab, sizeof *c.logits);
    assert_non_null(c.logits);
    CHECK_OK(wn_session_feed(s, ids, n, take, &c, &err), &err);
    wn_session_free(s);
    wn_pool_free(pool);
    return c.logits;
}

float *logits_of(const char *model, const uint32_t *ids, size_t n, size_t *vocab)
{
    struct wn_err err;
    struct wn_model *m = wn_model_open(model, &err);
    struct wn_weights *w;
    float *logits;

    CHECK_OK(m, &err);
    w = wn_weights_load(m, &err);
    CHECK_OK(w, &err);
    logits = logits_with(m, w, ids, n, vocab);
    wn_weights_free(w);
    wn_model_close(m);
    return logits;
}
