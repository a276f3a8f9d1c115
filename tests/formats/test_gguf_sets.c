/* Split sets of GGUF files: how they are opened and what is refused. */
#include "formats/gguf_parse.h"
#include "made.h"

#include <stdio.h>
#include <stdlib.h>

/* What is written into the files of a set of three; a test spoils one field. */
struct set {
    uint64_t no[3], count[3], total;
    const char *tensor[3]; /* NULL: the file has none */
    bool absent[3];
    const char *architecture[3]; /* NULL: the file does not say */
    uint32_t alignment[3];       /* 0: the file does not say */
};

static const struct set good = {
    {0, 1, 2}, {3, 3, 3}, 2, {NULL, "in.second", "in.third"}, {false, false, false}, {"kimi-k3", NULL, NULL},
    {0, 0, 0}};

static void make_one(const struct set *set, int i, const char *folder, const char *name)
{
    const uint64_t ne[] = {4};
    struct wn_buf b = {0};
    const uint32_t alignment = set->alignment[i] ? set->alignment[i] : 32;

    made_gguf(&b, set->tensor[i] ? 1 : 0, 3 + (set->architecture[i] != NULL) + (set->alignment[i] != 0));
    made_kv_number(&b, "split.no", WN_GGUF_U32, set->no[i]);
    if (set->architecture[i])
        made_kv_string(&b, "general.architecture", set->architecture[i]);
    made_kv_number(&b, "split.count", WN_GGUF_U16, set->count[i]);
    if (set->alignment[i])
        made_kv_number(&b, "general.alignment", WN_GGUF_U32, set->alignment[i]);
    made_kv_number(&b, "split.tensors.count", WN_GGUF_I32, set->total);
    if (set->tensor[i])
        made_info(&b, set->tensor[i], 1, ne, 0, 0);
    made_pad(&b, alignment);
    if (set->tensor[i])
        made_zeros(&b, alignment < 16 ? 16 : alignment);
    made_file(folder, name, &b);
}

/* Path of the first file. */
static const char *make_set(const struct set *set)
{
    const char *folder = wn_test_folder();
    char name[64];

    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "m-%05d-of-00003.gguf", i + 1);
        if (!set->absent[i])
            make_one(set, i, folder, name);
    }
    return wn_test_path(folder, "m-00001-of-00003.gguf");
}

static void a_set_is_opened_by_its_first_file(void **state)
{
    struct wn_err err;
    struct wn_source *s = wn_source_open(make_set(&good), &err);

    (void)state;
    CHECK_OK(s, &err);
    assert_int_equal(wn_source_file_count(s), 3);
    assert_int_equal(wn_source_tensor_count(s), 2);
    assert_int_equal(wn_source_file_at(s, 0)->tensor_count, 0);
    assert_int_equal(wn_source_find(s, "in.second")->file, 1);
    assert_int_equal(wn_source_find(s, "in.third")->file, 2);
    assert_int_equal(wn_source_gguf(s)->n, 4);
    wn_source_close(s);
}

static void each_file_keeps_its_own_records_in_a_copy(void **state)
{
    struct set set = good;
    const char *first, *folder = wn_test_folder();
    struct wn_source *s;
    struct wn_err err;
    char from[4096], name[64];

    (void)state;
    set.architecture[1] = "kimi-k3";
    set.architecture[2] = "another";
    set.alignment[1] = 128;
    set.alignment[2] = 8;
    first = make_set(&set);
    CHECK_OK(made_identity(first, wn_test_path(folder, "m"), &err), &err);
    for (int i = 1; i <= 3; i++) {
        snprintf(from, sizeof from, "%.*s-%05d-of-00003.gguf", (int)(strlen(first) - 20), first, i);
        snprintf(name, sizeof name, "m-%05d-of-00003.gguf", i);
        wn_test_same_file(from, wn_test_path(folder, name));
    }
    s = wn_source_open(first, &err);
    CHECK_OK(s, &err);
    assert_int_equal(wn_source_gguf_of(s, 1)->n, 5);
    assert_int_equal(wn_source_gguf_of(s, 1)->alignment, 128);
    wn_source_close(s);
}

static bool is_whole(const struct set *set, struct wn_err *err)
{
    struct wn_source *s = wn_source_open(make_set(set), err);
    bool whole;

    CHECK_OK(s, err);
    whole = wn_source_gguf_is_whole(s, err);
    wn_source_close(s);
    return whole;
}

/* A joined file has room for the first file's records only. */
static void what_the_first_file_does_not_say_is_named(void **state)
{
    struct set set = good;
    struct wn_err err;

    (void)state;
    CHECK_OK(is_whole(&set, &err), &err);
    set.architecture[2] = "kimi-k3";
    set.alignment[2] = 64; /* about that file alone */
    CHECK_OK(is_whole(&set, &err), &err);
    set.architecture[2] = "kimi-k4";
    CHECK_FAILS(is_whole(&set, &err), &err, "key 'general.architecture' of '");
    assert_true(wn_test_contains(err.msg, "m-00003-of-00003.gguf"));
    set.architecture[0] = NULL;
    set.architecture[2] = "kimi-k3";
    CHECK_FAILS(is_whole(&set, &err), &err, "is not in the set's first file with this value");
}

static void naming_a_later_file_says_which_to_name(void **state)
{
    struct wn_err err;
    const char *first = make_set(&good);
    char second[4096];

    (void)state;
    snprintf(second, sizeof second, "%.*s-00002-of-00003.gguf", (int)(strlen(first) - 20), first);
    CHECK_FAILS(wn_source_open(second, &err), &err, "is file 2 of a set of 3: name the first, -00001-of-00003.gguf");
}

static void an_incoherent_set_is_refused_by_name(void **state)
{
    struct wn_err err;
    struct set set;

    (void)state;
    for (int i = 1; i < 3; i++) {
        char says[80];

        set = good;
        set.absent[i] = true;
        snprintf(says, sizeof says, "m-%05d-of-00003.gguf' is missing", i + 1);
        CHECK_FAILS(wn_source_open(make_set(&set), &err), &err, says);
    }
    set = good;
    set.no[2] = 1;
    CHECK_FAILS(wn_source_open(make_set(&set), &err), &err, "m-00003-of-00003.gguf': key 'split.no' is not 2");
    set = good;
    set.count[1] = 2;
    CHECK_FAILS(wn_source_open(make_set(&set), &err), &err, "m-00002-of-00003.gguf': key 'split.count' is not 3");
    set = good;
    set.count[0] = 4;
    CHECK_FAILS(wn_source_open(make_set(&set), &err), &err, "its name should end in '-00001-of-00004.gguf'");
    set = good;
    set.total = 3;
    CHECK_FAILS(wn_source_open(make_set(&set), &err), &err, "has 2 tensors, 'split.tensors.count' says 3");
    set = good;
    set.tensor[2] = "in.second";
    CHECK_FAILS(wn_source_open(make_set(&set), &err), &err, "tensor 'in.second' is in");
    set = good;
    set.count[0] = 65535;
    CHECK_FAILS(wn_source_open(make_set(&set), &err), &err, "its name should end in '-00001-of-65535.gguf'");
}

static void a_set_of_one_is_a_file(void **state)
{
    const char *folder = wn_test_folder();
    struct set set = good;
    struct wn_source *s;
    struct wn_err err;

    (void)state;
    set.count[0] = 1;
    make_one(&set, 0, folder, "any.gguf");
    s = wn_source_open(wn_test_path(folder, "any.gguf"), &err);
    CHECK_OK(s, &err);
    wn_source_close(s);
}

static void the_published_set_and_its_single_file_say_the_same(void **state)
{
    struct wn_err err;
    struct wn_source *one = wn_source_open(wn_test_need_data("golden/text/tiny-b/gguf/tiny-b-IQ1_S.gguf"), &err);
    struct wn_source *set;
    char a[17], b[17];

    (void)state;
    CHECK_OK(one, &err);
    set = wn_source_open(wn_test_need_data("golden/text/tiny-b/gguf/split/tiny-b-IQ1_S-00001-of-00003.gguf"), &err);
    CHECK_OK(set, &err);
    assert_int_equal(wn_source_file_count(set), 3);
    assert_int_equal(wn_source_tensor_count(set), wn_source_tensor_count(one));
    wn_source_fingerprint(one, a);
    wn_source_fingerprint(set, b);
    assert_string_equal(a, b);
    for (size_t i = 0; i < wn_source_tensor_count(set); i++) {
        const struct wn_tensor *x = wn_source_tensor_at(set, i), *y = wn_source_find(one, x->name);
        const uint8_t *p, *q;

        assert_non_null(y);
        assert_int_equal(x->bytes, y->bytes);
        p = wn_source_view(set, x, &err);
        q = wn_source_view(one, y, &err);
        assert_true(p && q);
        assert_memory_equal(p, q, x->bytes);
    }
    wn_source_close(one);
    wn_source_close(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_is_opened_by_its_first_file),
        cmocka_unit_test(each_file_keeps_its_own_records_in_a_copy),
        cmocka_unit_test(what_the_first_file_does_not_say_is_named),
        cmocka_unit_test(naming_a_later_file_says_which_to_name),
        cmocka_unit_test(an_incoherent_set_is_refused_by_name),
        cmocka_unit_test(a_set_of_one_is_a_file),
        cmocka_unit_test(the_published_set_and_its_single_file_say_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
