/*
 * Includes run in one direction: a file may include headers of its own folder and of floors below, nothing beside or
 * above; the command sees the public headers only; public headers see each other only. And other house rules that a
 * compiler does not know: no line is too long, scripts may be run, the version is the same everywhere.
 */
#include "wn_test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <winnow/version.h>

static const struct {
    const char *folder;
    int floor;
} floors[] = {{"base", 0}, {"tensor", 1}, {"sys", 1},   {"quant", 2},  {"formats", 3}, {"kernels", 3},
              {"text", 3}, {"model", 4},  {"graph", 5}, {"engine", 6}, {"jobs", 7},    {"serve", 7}};

static int floor_of(const char *folder, size_t n)
{
    for (size_t i = 0; i < sizeof floors / sizeof floors[0]; i++)
        if (strlen(floors[i].folder) == n && memcmp(floors[i].folder, folder, n) == 0)
            return floors[i].floor;
    return -1;
}

/* What is wrong with `#include "target"` in a file of src/FOLDER; NULL when nothing is. */
static const char *climbs(const char *folder, const char *target)
{
    const char *slash = strchr(target, '/');
    int here = floor_of(folder, strlen(folder)), there;

    if (here < 0)
        return "the folder has no floor: name it in tests/floors";
    if (!slash)
        return "an include names its folder";
    there = floor_of(target, (size_t)(slash - target));
    if (there < 0)
        return "no such folder";
    if (strlen(folder) == (size_t)(slash - target) && memcmp(folder, target, strlen(folder)) == 0)
        return NULL;
    return there < here ? NULL : "climbs";
}

static int complaints, files;

static void complain(const char *path, int line, const char *what, const char *why)
{
    printf("%s:%d: %s: %s\n", path, line, what, why);
    complaints++;
}

/* The quoted include of a line, cut out in place; NULL when there is none. */
static char *quoted_include(char *line)
{
    char *p = line, *end;

    while (*p == ' ' || *p == '\t')
        p++;
    if (strncmp(p, "#include \"", 10) != 0)
        return NULL;
    end = strchr(p + 10, '"');
    if (!end)
        return NULL;
    *end = '\0';
    return p + 10;
}

enum { COLUMNS = 120 };

/* Characters of a line, its end not counted. */
static int columns(const char *line)
{
    int n = 0;

    for (; *line && *line != '\n'; line++)
        n += ((unsigned char)*line & 0xc0) != 0x80;
    return n;
}

enum rule { RULE_SRC, RULE_CLI, RULE_PUBLIC, RULE_COLUMNS };

static void check_file(const char *path, const char *folder, enum rule rule)
{
    char line[1024];
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    files++;
    for (int n = 1; fgets(line, sizeof line, f); n++) {
        const char *why;
        char *target;

        if (rule == RULE_COLUMNS && columns(line) > COLUMNS)
            complain(path, n, "the line is too long", "clang-format leaves comments and texts as they are");
        target = quoted_include(line);
        if (!target)
            continue;
        if (rule == RULE_SRC && (why = climbs(folder, target)) != NULL)
            complain(path, n, target, why);
        if (rule == RULE_CLI && strchr(target, '/'))
            complain(path, n, target, "the command sees <winnow/...> and its own headers only");
        if (rule == RULE_PUBLIC)
            complain(path, n, target, "public headers include <winnow/...> only");
    }
    fclose(f);
}

static void check_folder(const char *path, const char *folder, enum rule rule)
{
    DIR *d = opendir(path);
    struct dirent *e;

    if (!d)
        return;
    while ((e = readdir(d)) != NULL) {
        char sub[2048];
        struct stat st;
        size_t n = strlen(e->d_name);

        snprintf(sub, sizeof sub, "%s/%s", path, e->d_name);
        if (e->d_name[0] == '.' || stat(sub, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode))
            check_folder(sub, folder, rule);
        else if (n > 2 && (strcmp(e->d_name + n - 2, ".c") == 0 || strcmp(e->d_name + n - 2, ".h") == 0))
            check_file(sub, folder, rule);
    }
    closedir(d);
}

static void no_include_climbs(void **state)
{
    (void)state;
    complaints = files = 0;
    for (size_t i = 0; i < sizeof floors / sizeof floors[0]; i++) {
        char path[1024];

        snprintf(path, sizeof path, "%s/src/%s", WN_TEST_SOURCE_DIR, floors[i].folder);
        check_folder(path, floors[i].folder, RULE_SRC);
    }
    check_folder(WN_TEST_SOURCE_DIR "/cli", "cli", RULE_CLI);
    check_folder(WN_TEST_SOURCE_DIR "/include/winnow", "winnow", RULE_PUBLIC);
    assert_true(files > 20);
    assert_int_equal(complaints, 0);
}

static void an_include_that_climbs_is_noticed(void **state)
{
    (void)state;
    assert_null(climbs("graph", "kernels/kernels.h"));
    assert_null(climbs("graph", "graph/graph.h"));
    assert_non_null(climbs("kernels", "model/weights.h"));
    assert_non_null(climbs("formats", "kernels/kernels.h"));
    assert_non_null(climbs("text", "formats/gguf.h"));
    assert_non_null(climbs("base", "sys/file.h"));
    assert_non_null(climbs("graph", "graph.h"));
    assert_non_null(climbs("nowhere", "base/bytes.h"));
}

static void no_line_is_longer_than_its_columns(void **state)
{
    static const char *const folders[] = {"src", "include", "cli", "tests", "bench"};
    char line[2 * COLUMNS + 4] = "";

    (void)state;
    complaints = files = 0;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char path[1024];

        snprintf(path, sizeof path, "%s/%s", WN_TEST_SOURCE_DIR, folders[i]);
        check_folder(path, folders[i], RULE_COLUMNS);
    }
    assert_true(files > 100);
    assert_int_equal(complaints, 0);
    /* characters count, not bytes */
    for (int i = 0; i < COLUMNS; i++)
        strcat(line, "\xc3\xa9");
    assert_int_equal(columns(line), COLUMNS);
    assert_int_equal(columns(strcat(line, "x\n")), COLUMNS + 1);
}

/* ---- scripts ---- */

/* Whether the file begins as a script does ("#!") but may not be run. */
static bool is_locked_script(const char *path, const struct stat *st)
{
    char head[2] = "";
    FILE *f = fopen(path, "rb");
    bool script;

    assert_non_null(f);
    script = fread(head, 1, 2, f) == 2 && memcmp(head, "#!", 2) == 0;
    fclose(f);
    files += script;
    return script && !(st->st_mode & S_IXUSR);
}

static void find_locked_scripts(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;

    while (d && (e = readdir(d)) != NULL) {
        char sub[2048];
        struct stat st;

        snprintf(sub, sizeof sub, "%s/%s", path, e->d_name);
        /* lstat: test data may be links to a folder elsewhere */
        if (e->d_name[0] == '.' || lstat(sub, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode))
            find_locked_scripts(sub);
        else if (S_ISREG(st.st_mode) && is_locked_script(sub, &st))
            complain(sub, 1, "#!", "the script may not be run");
    }
    if (d)
        closedir(d);
}

static void every_script_may_be_run(void **state)
{
    static const char *const folders[] = {".ci", "tools", "tests", "cmake"};
    const char *made = wn_test_path(wn_test_folder(), "script.sh");
    FILE *f = fopen(made, "w");
    struct stat st;

    (void)state;
    complaints = files = 0;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char path[1024];

        snprintf(path, sizeof path, "%s/%s", WN_TEST_SOURCE_DIR, folders[i]);
        find_locked_scripts(path);
    }
    assert_true(files > 5);
    assert_int_equal(complaints, 0);
    /* and one without the bit is noticed */
    assert_non_null(f);
    fputs("#!/bin/sh\n", f);
    fclose(f);
    assert_int_equal(stat(made, &st), 0);
    assert_true(is_locked_script(made, &st));
}

static void the_version_of_the_headers_is_the_projects(void **state)
{
    (void)state;
    assert_string_equal(WINNOW_VERSION, WN_PROJECT_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_include_climbs),
        cmocka_unit_test(an_include_that_climbs_is_noticed),
        cmocka_unit_test(no_line_is_longer_than_its_columns),
        cmocka_unit_test(every_script_may_be_run),
        cmocka_unit_test(the_version_of_the_headers_is_the_projects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
