/* See binding.h. */
#include "binding.h"
#include "wn_test.h"

struct wn_model *opened(const char *path)
{
    struct wn_err err;
    struct wn_model *m = wn_model_open(path, &err);

    if (!m)
        fail_msg("%s", err.msg);
    return m;
}

void binds_whole(const char *path)
{
    struct wn_model *m = opened(path);
    const struct wn_config *c = wn_model_config(m);
    struct wn_ends ends;
    struct wn_err err;

    for (uint32_t i = 0; i < c->layer_count; i++) {
        struct wn_layer layer;

        CHECK_OK(wn_layer_bind(m, i, &layer, &err), &err);
        assert_true(wn_layer_bytes(m, &layer) > 0);
        wn_layer_will_need(m, &layer);
        wn_layer_dont_need(m, &layer);
        wn_layer_release(&layer);
    }
    CHECK_OK(wn_ends_bind(m, &ends, &err), &err);
    wn_ends_release(&ends);
    wn_model_close(m);
}

void bind_refused(const char *path, const char *part)
{
    struct wn_err err = {0};
    struct wn_model *m = wn_model_open(path, &err);
    bool ok = m != NULL;

    for (uint32_t i = 0; ok && i < wn_model_config(m)->layer_count; i++) {
        struct wn_layer layer;

        ok = wn_layer_bind(m, i, &layer, &err);
        if (ok)
            wn_layer_release(&layer);
        else
            assert_null(layer.owned);
    }
    if (ok) {
        struct wn_ends ends;

        ok = wn_ends_bind(m, &ends, &err);
        if (ok)
            wn_ends_release(&ends);
    }
    wn_model_close(m);
    CHECK_FAILS(ok, &err, part);
}
