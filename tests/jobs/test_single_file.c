/*
 * A model that is named by its one safetensors file: what lies beside it is mostly the user's. And folders with odd
 * things.
 */
#include "prune_help.h"
#include "sys/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TINY_A_HF "golden/text/tiny-a/hf"

static struct wn_err err;

static void put_text(const char *folder, const char *name, const char *text)
{
    CHECK_OK(wn_file_put(wn_test_path(folder, name), text, strlen(text), true, &err), &err);
}

/* tiny-a joined into one file, with things beside it that are the model's, and others. */
static void make_source(char source[512], char file[600])
{
    static const char *const mine[] = {"generation_config.json", "tokenizer.json", "chat_template.jinja",
                                       "configuration_kimi_k3.py", "cache.py"};
    static const char *const others[] = {"id_rsa", "movie.mkv", "setup.py", "README.md", "other.safetensors"};

    snprintf(source, 512, "%s/source", wn_test_folder());
    snprintf(file, 600, "%s/model.safetensors", source);
    prune_ok(wn_test_need_data(TINY_A_HF), source, NULL, WN_LAYOUT_JOINED, 0);
    for (size_t i = 0; i < sizeof(mine) / sizeof(mine[0]); i++)
        put_text(source, mine[i], "mine");
    /* what the named code imports belongs to it, and what that imports, round and round */
    put_text(
        source, "modeling_kimi_k3.py",
        "import setup\nfrom .ops import conv\nfrom .configuration_kimi_k3 import Config\nfrom .not_there import x\n");
    put_text(source, "ops.py",
             "def f():\n    from . import (cache as c,  # id_rsa\n                   "
             "modeling_kimi_k3)\n");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        put_text(source, others[i], "private");
    assert_int_equal(mkfifo(wn_test_path(source, "pipe"), 0600), 0);
}

static void of_a_single_file_only_the_models_companions_go_along(void **state)
{
    static const char *const want[] = {"cache.py",
                                       "chat_template.jinja",
                                       "config.json",
                                       "configuration_kimi_k3.py",
                                       "generation_config.json",
                                       "model.safetensors",
                                       "modeling_kimi_k3.py",
                                       "ops.py",
                                       "tiktoken.model",
                                       "tokenizer.json",
                                       "tokenizer_config.json"};
    struct wn_verify_result v;
    char source[512], file[600], out[600];
    char **names;
    size_t n;

    (void)state;
    make_source(source, file);
    snprintf(out, sizeof(out), "%s/cut", source); /* beside the file is no folder of its model */
    prune_ok(file, out, NULL, WN_LAYOUT_AS_SOURCE, 0);
    CHECK_OK(wn_path_list(out, &names, &n, &err), &err);
    assert_int_equal(n, sizeof(want) / sizeof(want[0]));
    for (size_t i = 0; i < n; i++)
        assert_string_equal(names[i], want[i]);
    wn_names_free(names, n);
    CHECK_OK(wn_verify(out, file, NULL, NULL, &v, &err), &err);
    assert_true(v.identical_files);
}

static void a_single_file_is_not_cut_into_its_own_folder(void **state)
{
    struct wn_prune_result r;
    char source[512], file[600];

    (void)state;
    make_source(source, file);
    assert_int_equal(unlink(wn_test_path(source, "other.safetensors")), 0);
    CHECK_FAILS(wn_prune(&(struct wn_prune_options){.source = file, .out = source, .overwrite = true}, NULL, &r, &err),
                &err, "lies in the source's folder");
}

struct notes {
    int pipes, links;
};

static void keep_note(void *arg, const char *line)
{
    struct notes *n = arg;

    n->pipes += strcmp(line, "'pipe' is not copied: it is no regular file") == 0;
    n->links += strcmp(line, "'nowhere' is not copied: it is no regular file") == 0;
}

static void what_is_no_regular_file_of_a_folder_is_told_and_left(void **state)
{
    struct notes notes = {0};
    struct wn_job job = {.note = keep_note, .arg = &notes};
    struct wn_prune_result r;
    struct wn_verify_result v;
    char source[512], out[512];

    (void)state;
    snprintf(source, sizeof(source), "%s/source", wn_test_folder());
    snprintf(out, sizeof(out), "%s/out", wn_test_folder());
    prune_ok(wn_test_need_data(TINY_A_HF), source, NULL, WN_LAYOUT_AS_SOURCE, 0);
    assert_int_equal(mkfifo(wn_test_path(source, "pipe"), 0600), 0);
    assert_int_equal(symlink("gone", wn_test_path(source, "nowhere")), 0);
    assert_int_equal(symlink("config.json", wn_test_path(source, "linked.json")), 0);
    CHECK_OK(wn_prune(&(struct wn_prune_options){.source = source, .out = out}, &job, &r, &err), &err);
    assert_int_equal(notes.pipes, 1);
    assert_int_equal(notes.links, 1);
    assert_false(wn_path_exists(wn_test_path(out, "pipe")));
    wn_test_same_file(wn_test_path(source, "config.json"), wn_test_path(out, "linked.json"));
    CHECK_OK(wn_verify(out, source, NULL, NULL, &v, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_single_file_only_the_models_companions_go_along),
        cmocka_unit_test(a_single_file_is_not_cut_into_its_own_folder),
        cmocka_unit_test(what_is_no_regular_file_of_a_folder_is_told_and_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
