/* See road.h. */
#include "road.h"
#include "two_parents.h"
#include "jobs/hashing.h"
#include "sys/file.h"
#include <winnow/pool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void place(struct road *r, const char *folder)
{
    const char *name = r->name ? r->name : "t-00001-of-00003.gguf";
    bool is_file = r->o.format == WN_FORMAT_GGUF || strstr(r->source, ".gguf");

    snprintf(r->folder, sizeof r->folder, "%s", folder);
    snprintf(r->out, sizeof r->out, "%s%s%s", folder, is_file ? "/" : "", is_file ? name : "");
}

struct wn_prune_result make_ok(struct road *r)
{
    struct wn_prune_result result;
    struct wn_err err;

    CHECK_OK(wn_prune(&r->o, NULL, &result, &err), &err);
    return result;
}

static void start_road_at(struct road *r)
{
    r->o.source = r->source;
    r->o.out = r->out;
    r->o.resume = true;
    r->o.hashes = !r->no_hashes;
    place(r, wn_test_folder());
    make_ok(r);
    snprintf(r->want, sizeof r->want, "%s", r->folder);
}

void start_road(struct road *r, const char *source)
{
    snprintf(r->source, sizeof r->source, "%s", wn_test_need_data(source));
    start_road_at(r);
}

void new_place(struct road *r)
{
    place(r, wn_test_folder());
}

void end_road(struct road *r)
{
    wn_model_close((struct wn_model *)r->model);
    wn_plan_release(&r->plan);
}

void road_hf_cut(struct road *r)
{
    *r = (struct road){0};
    plan_from_reference(&r->plan, wn_test_need_data("golden/text/tiny-a/ref/prune_keep.json"), 4, 16);
    r->o.plan = &r->plan;
    start_road(r, HF);
}

void road_gguf_set(struct road *r)
{
    *r = (struct road){0};
    start_road(r, SET);
}

void road_made(struct road *r, enum wn_format format)
{
    struct wn_err err;

    *r = (struct road){.o = {.format = format}};
    r->model = wn_model_open(wn_test_need_data(HF), &err);
    CHECK_OK(r->model, &err);
    r->o.model = r->model;
    if (format == WN_FORMAT_GGUF) {
        r->o.layout = WN_LAYOUT_SPLIT;
        r->o.shard_bytes = 2000000;
    }
    start_road(r, HF);
}

void road_two_parents(struct road *r)
{
    const char *hi = twin_parent(WN_Q8_0);

    *r = (struct road){.o = {.layout = WN_LAYOUT_SPLIT, .shard_bytes = 800000}};
    snprintf(r->second, sizeof r->second, "%s", wn_test_need_data(SET));
    snprintf(r->source, sizeof r->source, "%s", hi);
    twin_plan(&r->plan);
    r->o.plan = &r->plan;
    r->o.lo_source = r->second;
    start_road_at(r);
}

void check_same_folder(const char *want, const char *have)
{
    struct wn_err err;
    char **names;
    size_t n;

    CHECK_OK(wn_path_list(want, &names, &n, &err), &err);
    for (size_t i = 0; i < n; i++) {
        uint8_t a[WN_DIGEST_BYTES], b[WN_DIGEST_BYTES];

        CHECK_OK(wn_hash_file(wn_test_path(want, names[i]), a, &err), &err);
        CHECK_OK(wn_hash_file(wn_test_path(have, names[i]), b, &err), &err);
        if (memcmp(a, b, sizeof a) != 0)
            fail_msg("'%s' differs in '%s' and '%s'", names[i], want, have);
    }
    assert_int_equal(count_entries(have), n);
    wn_names_free(names, n);
}

bool has_final_name(const struct road *r)
{
    struct wn_err err;
    char **names;
    size_t n, final = 0;

    if (!wn_path_exists(r->folder))
        return false;
    CHECK_OK(wn_path_list(r->folder, &names, &n, &err), &err);
    for (size_t i = 0; i < n; i++)
        final += strlen(names[i]) < 5 || strcmp(names[i] + strlen(names[i]) - 5, ".part") != 0;
    wn_names_free(names, n);
    return final > 0;
}

/* In the folder, or beside the file. */
static bool is_beside(const struct road *r, const char *journal)
{
    char path[700];

    snprintf(path, sizeof path, "%s%s%s", r->out, strcmp(r->out, r->folder) == 0 ? "/" : ".", journal);
    return wn_path_exists(path);
}

bool is_placing(const struct road *r)
{
    return is_beside(r, "placing.part");
}

bool has_journal(const struct road *r)
{
    return is_beside(r, JOURNAL);
}

bool killed_before_write(const struct road *r, long n)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        struct wn_prune_result result;
        struct wn_err err;

        wn_file_die_of_writes(true);
        wn_file_fail_writes_after(n);
        _exit(wn_prune(&r->o, NULL, &result, &err) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return !WIFSIGNALED(status);
}
