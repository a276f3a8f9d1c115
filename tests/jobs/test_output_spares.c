/* An output is none of the files that are read for it. */
#include "sys/file.h"
#include "wn_test.h"

#include <string.h>
#include <unistd.h>
#include <winnow/job.h>
#include <winnow/model.h>

#define HF   "golden/text/tiny-a/hf"
#define GGUF "golden/text/tiny-b/gguf/tiny-b-IQ1_S.gguf"

static struct wn_err err;

static void put_file(const char *path)
{
    CHECK_OK(wn_file_put(path, "text", 4, true, &err), &err);
}

static void an_input_is_spared_by_whatever_name(void **state)
{
    const char *folder = wn_test_folder(), *corpus = wn_test_path(folder, "corpus"),
               *other = wn_test_path(folder, "other"), *soft = wn_test_path(folder, "soft");
    const char *inputs[3] = {NULL, wn_test_path(folder, "not there"), corpus};

    (void)state;
    put_file(corpus);
    put_file(other);
    assert_int_equal(symlink(other, soft), 0);
    CHECK_OK(wn_output_spares(other, inputs, 3, NULL, &err), &err);
    CHECK_OK(wn_output_spares(wn_test_path(folder, "new"), inputs, 3, NULL, &err), &err);
    CHECK_FAILS(wn_output_spares(corpus, inputs, 3, NULL, &err), &err, "corpus' is the input '");
    inputs[0] = soft;
    CHECK_FAILS(wn_output_spares(other, inputs, 3, NULL, &err), &err, "other' is the input '");
    /* a hard link */
    inputs[0] = NULL;
    assert_true(wn_path_remove(other));
    assert_int_equal(link(corpus, other), 0);
    CHECK_FAILS(wn_output_spares(other, inputs, 3, NULL, &err), &err, "other' is the input '");
}

static void an_input_that_ends_in_part_is_spared(void **state)
{
    const char *folder = wn_test_folder(), *corpus = wn_test_path(folder, "x.part");

    (void)state;
    put_file(corpus);
    CHECK_FAILS(wn_output_spares(wn_test_path(folder, "x"), &corpus, 1, NULL, &err), &err,
                "x.part', as which the output is written first, is the input '");
}

static void a_models_files_are_spared(void **state)
{
    static const char *const names[] = {"config.json", "model.safetensors.index.json", "tiktoken.model"};
    const char *hf = wn_test_need_data(HF), *gguf = wn_test_need_data(GGUF), *out = wn_test_path(wn_test_folder(), "x");
    struct wn_model *m = wn_model_open(hf, &err);
    size_t found = 0;

    (void)state;
    CHECK_OK(m, &err);
    CHECK_OK(wn_output_spares(out, NULL, 0, m, &err), &err);
    put_file(out);
    CHECK_OK(wn_output_spares(out, NULL, 0, m, &err), &err);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *path = wn_test_path(hf, names[i]);

        if (!wn_path_exists(path))
            continue;
        CHECK_FAILS(wn_output_spares(path, NULL, 0, m, &err), &err, "is a file of the model");
        found++;
    }
    assert_true(found > 0);
    wn_model_close(m);
    m = wn_model_open(gguf, &err);
    CHECK_OK(m, &err);
    CHECK_OK(wn_output_spares(out, NULL, 0, m, &err), &err);
    assert_true(wn_path_remove(out));
    assert_int_equal(symlink(gguf, out), 0);
    CHECK_FAILS(wn_output_spares(out, NULL, 0, m, &err), &err, "is a file of the model,");
    wn_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_input_is_spared_by_whatever_name),
        cmocka_unit_test(an_input_that_ends_in_part_is_spared),
        cmocka_unit_test(a_models_files_are_spared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
