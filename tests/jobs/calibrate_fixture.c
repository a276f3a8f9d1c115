/* See calibrate_fixture.h. */
#include "calibrate_fixture.h"

#include "base/bytes.h"
#include "base/rng.h"
#include "formats/npz.h"
#include "sys/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const char *calibrate_model, *calibrate_corpus, *calibrate_whole;

static const char *put(struct wn_buf *file)
{
    const char *path = wn_test_path(wn_test_folder(), "corpus.jsonl");
    struct wn_err err;

    CHECK_OK(wn_file_put(path, file->at, file->n, false, &err), &err);
    wn_buf_release(file);
    return path;
}

static int64_t number(const struct wn_npy *a, uint64_t i)
{
    int64_t v;

    assert_true(wn_npy_as_i64(a, i, &v));
    return v;
}

static void add_line(struct wn_buf *file, const struct wn_npy *ids, const struct wn_npy *labels,
                     const struct wn_npy *names, uint64_t first, uint64_t n)
{
    struct wn_err err;
    char label[64];

    CHECK_OK(wn_buf_printf(file, &err, "{\"tokens\": ["), &err);
    for (uint64_t i = first; i < first + n; i++)
        CHECK_OK(wn_buf_printf(file, &err, "%s%" PRId64, i > first ? ", " : "", number(ids, i)), &err);
    CHECK_OK(wn_buf_printf(file, &err, "], \"source\": ["), &err);
    for (uint64_t i = first; i < first + n; i++) {
        CHECK_OK(wn_npy_get_string(names, (uint64_t)number(labels, i), label, sizeof label, &err), &err);
        CHECK_OK(wn_buf_printf(file, &err, "%s\"%s\"", i > first ? ", " : "", label), &err);
    }
    CHECK_OK(wn_buf_printf(file, &err, "]}\n"), &err);
}

const char *golden_corpus(void)
{
    const char *reference = wn_test_need_data("golden/text/tiny-a/ref/saliency.npz");
    struct wn_npy ids, labels;
    struct wn_npz z;
    struct wn_buf file = {0};
    struct wn_err err;

    CHECK_OK(wn_npz_read(&z, reference, &err), &err);
    CHECK_OK(wn_npy_read(&ids, wn_test_need_data("golden/text/tiny-a/ref/calib_tokens.npy"), &err), &err);
    CHECK_OK(wn_npy_read(&labels, wn_test_need_data("golden/text/tiny-a/ref/calib_labels.npy"), &err), &err);
    for (uint64_t i = 0; i < ids.shape[0]; i++)
        add_line(&file, &ids, &labels, wn_npz_find(&z, "source_labels"), i * ids.shape[1], ids.shape[1]);
    wn_npy_release(&ids);
    wn_npy_release(&labels);
    wn_npz_release(&z);
    return put(&file);
}

const char *random_corpus(unsigned lines, unsigned length, unsigned vocab, uint64_t seed)
{
    struct wn_rng rng = {seed};
    struct wn_buf file = {0};
    struct wn_err err;

    for (unsigned line = 0; line < lines; line++) {
        CHECK_OK(wn_buf_printf(&file, &err, "{\"source\": \"%c\", \"tokens\": [", 'a' + (int)(line % 2)), &err);
        for (unsigned i = 0; i < length; i++)
            CHECK_OK(wn_buf_printf(&file, &err, "%s%" PRIu64, i ? "," : "", wn_rng_below(&rng, vocab)), &err);
        CHECK_OK(wn_buf_printf(&file, &err, "]}\n"), &err);
    }
    return put(&file);
}

bool calibrate(struct calibration *c, struct wn_err *err)
{
    struct wn_model *m = wn_model_open(c->model, err);
    struct wn_pool *pool = m ? wn_pool_new(c->threads ? c->threads : 1, err) : NULL;
    bool ok = pool && wn_calibrate(m, pool, &c->o, c->job, &c->result, err);

    wn_pool_free(pool);
    wn_model_close(m);
    return ok;
}

bool calibrate_make_whole(unsigned sequences, double *seconds)
{
    static char paths[3][512];
    const char *model = wn_test_data(TINY);
    struct calibration c = {.model = paths[0], .o = {.corpus = paths[1], .out = paths[2], .means = true}};
    struct wn_err err;

    if (!model)
        return false;
    (void)snprintf(paths[0], sizeof paths[0], "%s", model);
    (void)snprintf(paths[1], sizeof paths[1], "%s", random_corpus(sequences, 24, 400, 7));
    (void)snprintf(paths[2], sizeof paths[2], "%s", wn_test_path(wn_test_folder(), "whole.npz"));
    CHECK_OK(calibrate(&c, &err), &err);
    calibrate_model = paths[0];
    calibrate_corpus = paths[1];
    calibrate_whole = paths[2];
    *seconds = c.result.seconds;
    return true;
}

struct calibration calibrate_fresh(void)
{
    if (!calibrate_model)
        skip();
    return (struct calibration){
        .model = calibrate_model,
        .o = {.corpus = calibrate_corpus, .out = wn_test_path(wn_test_folder(), "sal.npz"), .means = true}};
}

const char *calibrate_work(const struct calibration *c)
{
    static char path[512];

    (void)snprintf(path, sizeof path, "%s.work", c->o.out);
    return path;
}
