/* See golden.h. */
#include "golden.h"

#include "formats/source.h"
#include "sys/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct loaded golden_open(const char *path)
{
    struct loaded l = {0};
    struct wn_err err;

    l.model = wn_model_open(path, &err);
    CHECK_OK(l.model, &err);
    l.weights = wn_weights_load(l.model, &err);
    CHECK_OK(l.weights, &err);
    l.config = wn_model_config(l.model);
    return l;
}

struct loaded golden_load(const char *name)
{
    return golden_open(wn_test_need_data(name));
}

void golden_refused(const char *path, const char *part)
{
    struct wn_err err = {0};
    struct wn_model *m = wn_model_open(path, &err);
    struct wn_weights *w = m ? wn_weights_load(m, &err) : NULL;
    bool ok = w != NULL;

    wn_weights_free(w);
    wn_model_close(m);
    CHECK_FAILS(ok, &err, part);
}

void golden_unload(struct loaded *l)
{
    wn_weights_free(l->weights);
    wn_model_close(l->model);
}

struct wn_source *golden_ref(const char *name)
{
    const char *path = wn_test_need_data(name);
    struct wn_err err;
    struct wn_source *s = wn_source_open(path, &err);

    CHECK_OK(s, &err);
    return s;
}

static const void *golden_tensor(const struct wn_source *ref, const char *name, enum wn_type type, size_t *n)
{
    const struct wn_tensor *t = wn_source_find(ref, name);
    const void *data;
    struct wn_err err;

    if (!t || t->type != type)
        fail_msg("the reference has no '%s' of this type", name);
    data = wn_source_view(ref, t, &err);
    CHECK_OK(data, &err);
    *n = wn_tensor_elements(t);
    return data;
}

const float *golden_f32(const struct wn_source *ref, const char *name, size_t *n)
{
    return golden_tensor(ref, name, WN_F32, n);
}

const uint32_t *golden_ids(const struct wn_source *ref, const char *name, size_t *n)
{
    return golden_tensor(ref, name, WN_I32, n);
}

static struct wn_pool *pools[8];

static void free_pools(void)
{
    for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++)
        wn_pool_free(pools[i]);
}

struct wn_pool *golden_pool(unsigned threads)
{
    static bool registered;
    struct wn_err err;

    assert_true(threads < sizeof pools / sizeof pools[0]);
    if (!registered)
        atexit(free_pools);
    registered = true;
    if (!pools[threads]) {
        pools[threads] = wn_pool_new(threads, &err);
        CHECK_OK(pools[threads], &err);
    }
    return pools[threads];
}

struct wn_session *golden_session(const struct wn_weights *w, struct how how)
{
    struct wn_session_options o = {.context = 400, .chunk = how.chunk ? how.chunk : 400};
    struct wn_err err;
    const struct wn_kernels *kernels = how.kernels ? how.kernels : wn_kernels_get(&err);
    struct wn_session *s;

    CHECK_OK(kernels, &err);
    s = wn_session_new_with(w, golden_pool(how.threads ? how.threads : 1), kernels, &o, &err);
    CHECK_OK(s, &err);
    wn_session_probe(s, how.probe);
    return s;
}

struct store {
    float *logits;
    size_t vocab;
    uint64_t first, next;
};

static bool store_logits(void *arg, uint64_t position, const float *logits)
{
    struct store *s = arg;

    assert_int_equal(position, s->next);
    memcpy(s->logits + (position - s->first) * s->vocab, logits, s->vocab * sizeof *logits);
    s->next++;
    return true;
}

void golden_feed(struct wn_session *s, const uint32_t *ids, size_t n, float *logits)
{
    struct store store = {logits, s->ctx.config->vocab_size, wn_session_position(s), wn_session_position(s)};
    struct wn_err err;

    CHECK_OK(wn_session_feed(s, ids, n, store_logits, &store, &err), &err);
    assert_int_equal(store.next, store.first + n);
    assert_int_equal(wn_session_position(s), store.next);
}

float *golden_logits(const struct wn_weights *w, struct how how, const uint32_t *ids, size_t n)
{
    struct wn_session *s = golden_session(w, how);
    float *logits = malloc(n * w->config->vocab_size * sizeof *logits);

    assert_non_null(logits);
    golden_feed(s, ids, n, logits);
    wn_session_free(s);
    return logits;
}

void golden_greedy(const struct wn_weights *w, struct how how, const uint32_t *prompt, size_t prompt_n,
                   uint32_t *tokens, size_t n)
{
    struct wn_session *s = golden_session(w, how);
    struct wn_err err;
    struct wn_sampler *greedy = wn_sampler_new(&(struct wn_sampling){0}, w->config->vocab_size, &err);

    CHECK_OK(greedy, &err);
    CHECK_OK(wn_session_feed(s, prompt, prompt_n, NULL, NULL, &err), &err);
    for (size_t i = 0; i < n; i++) {
        CHECK_OK(wn_sampler_next(greedy, wn_session_logits(s), &tokens[i], &err), &err);
        CHECK_OK(wn_session_feed(s, &tokens[i], 1, NULL, NULL, &err), &err);
    }
    wn_sampler_free(greedy);
    wn_session_free(s);
}

struct distance golden_distance(const float *a, const float *b, size_t n)
{
    struct distance d = {0};

    for (size_t i = 0; i < n; i++) {
        double x = fabs((double)a[i] - (double)b[i]);

        if (!(x <= d.most)) /* a NaN shows too */
            d.most = x;
        d.mean += x / (double)n;
    }
    return d;
}

void golden_close(const char *what, const float *got, const float *wanted, size_t n, double most, double mean)
{
    struct distance d = golden_distance(got, wanted, n);

    if (getenv("WINNOW_TEST_FIGURES"))
        print_message("%-40s max %.2e mean %.2e\n", what, d.most, d.mean);
    if (!(d.most <= most) || !(d.mean <= mean))
        fail_msg("%s: differs by at most %g, %g on average; allowed %g and %g", what, d.most, d.mean, most, mean);
}

struct keeps golden_keeps(const char *name)
{
    struct keeps k = {0};
    struct wn_err err;
    size_t n;
    char *text = wn_file_slurp(wn_test_need_data(name), 1 << 20, &n, &err), *at;

    CHECK_OK(text, &err);
    at = strchr(strstr(text, "\"keep\""), '{');
    assert_non_null(at);
    for (char *end = strchr(at, '}'), *list; (at = strchr(at, '"')) != NULL && at < end; at = strchr(list, ']') + 1) {
        long layer = strtol(at + 1, NULL, 10);

        assert_true(layer >= 0 && layer < 64);
        list = strchr(at, '[');
        for (char *next = list + 1; *next != ']'; next += *next == ',') {
            k.old[layer][k.counts[layer]++] = (uint32_t)strtol(next, &next, 10);
            assert_true(k.counts[layer] < 64);
        }
    }
    free(text);
    return k;
}

static void *keep(struct variant *v, void *p)
{
    assert_non_null(p);
    assert_true(v->owned_n < sizeof v->owned / sizeof v->owned[0]);
    return v->owned[v->owned_n++] = p;
}

static void *copy(struct variant *v, const void *p, size_t bytes)
{
    return memcpy(keep(v, malloc(bytes ? bytes : 1)), p, bytes);
}

static struct variant *variant_of(const struct wn_weights *w)
{
    struct variant *v = calloc(1, sizeof *v);

    assert_non_null(v);
    v->weights = *w;
    v->config = *w->config;
    v->config.layers = copy(v, w->config->layers, w->config->layer_count * sizeof *v->config.layers);
    v->weights.config = &v->config;
    v->weights.layers = copy(v, w->layers, w->config->layer_count * sizeof *w->layers);
    return v;
}

struct variant *golden_masked(const struct wn_weights *w, const struct keeps *k)
{
    struct variant *v = variant_of(w);

    for (uint32_t i = 0; i < w->config->layer_count; i++) {
        struct wn_moe_weights *m = &v->weights.layers[i].mixture;
        float *bias;

        if (!v->weights.layers[i].moe)
            continue;
        bias = copy(v, m->router_bias, m->expert_count * sizeof *bias);
        for (uint32_t e = 0; e < m->expert_count; e++)
            bias[e] = -INFINITY;
        for (uint32_t j = 0; j < k->counts[i]; j++)
            bias[k->old[i][j]] = m->router_bias[k->old[i][j]];
        m->router_bias = bias;
    }
    return v;
}

static void renumber(struct variant *v, struct wn_moe_weights *m, const uint32_t *old, uint32_t n)
{
    uint8_t *rows = keep(v, malloc(n * m->router.row_bytes));
    float *bias = keep(v, malloc(n * sizeof *bias));
    struct wn_expert *experts = keep(v, malloc(n * sizeof *experts));

    assert_null(m->router.scales);
    for (uint32_t j = 0; j < n; j++) {
        memcpy(rows + j * m->router.row_bytes, m->router.data + old[j] * m->router.row_bytes, m->router.row_bytes);
        bias[j] = m->router_bias[old[j]];
        experts[j] = m->experts[old[j]];
    }
    m->router.data = rows;
    m->router.rows = n;
    m->router_bias = bias;
    m->experts = experts;
    m->expert_count = n;
}

struct variant *golden_renumbered(const struct wn_weights *w, const struct keeps *k)
{
    struct variant *v = variant_of(w);

    v->config.expert_count = 0;
    for (uint32_t i = 0; i < w->config->layer_count; i++) {
        if (!v->weights.layers[i].moe)
            continue;
        renumber(v, &v->weights.layers[i].mixture, k->old[i], k->counts[i]);
        v->config.layers[i].expert_count = k->counts[i];
        if (k->counts[i] > v->config.expert_count)
            v->config.expert_count = k->counts[i];
    }
    return v;
}

void golden_variant_free(struct variant *v)
{
    for (size_t i = 0; i < v->owned_n; i++)
        free(v->owned[i]);
    free(v);
}
