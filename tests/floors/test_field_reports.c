/*
 * docs/field-reports.md names the test that guards each line. Here the page is read and every name is looked up, so
 * that it cannot outlive its tests. A name is `FILE: FUNCTION` (of a cmocka group, or a fuzz target), `FOLDER` of a
 * case of the command, or a script; a row without one says that its subject is no part of this version.
 */
#include "wn_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE    "docs/field-reports.md"
#define ABSENT  "no part of this version: "
#define COLUMNS 3

/* The whole file, NUL-terminated; free it. NULL when it is not there. */
static char *text_of(const char *name)
{
    char path[1024], *text = NULL;
    FILE *f;
    long n;

    snprintf(path, sizeof path, "%s/%s", WN_TEST_SOURCE_DIR, name);
    f = fopen(path, "rb");
    if (!f)
        return NULL;
    if (fseek(f, 0, SEEK_END) == 0 && (n = ftell(f)) >= 0 && fseek(f, 0, SEEK_SET) == 0) {
        text = calloc((size_t)n + 1, 1);
        assert_non_null(text);
        assert_int_equal(fread(text, 1, (size_t)n, f), n);
    }
    fclose(f);
    return text;
}

static bool readable(const char *folder, const char *name, int how)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/%s/%s", WN_TEST_SOURCE_DIR, folder, name);
    return access(path, how) == 0;
}

/*
 * `text` defines the function, and its group runs it: "void NAME(" (or "int NAME(") and "NAME)" or "NAME," of a macro.
 */
static bool has_test(const char *text, const char *name)
{
    char defined[256], run[256], run_with[256];

    snprintf(defined, sizeof defined, " %s(", name);
    if (strcmp(name, "LLVMFuzzerTestOneInput") == 0)
        return strstr(text, defined) != NULL;
    snprintf(defined, sizeof defined, "static void %s(void **state)", name);
    snprintf(run, sizeof run, "(%s)", name);
    snprintf(run_with, sizeof run_with, "(%s,", name);
    return strstr(text, defined) && (strstr(text, run) || strstr(text, run_with));
}

/* NULL, or what is wrong with a reference. */
static const char *fault_of_reference(const char *reference)
{
    const char *colon = strstr(reference, ": ");
    const char *const end = reference + strlen(reference);
    char file[512], *text;
    bool ok;

    if (!colon) {
        if (strncmp(reference, "tests/cli/cases/", 16) == 0)
            return readable(reference, "cmd", R_OK) ? NULL : "there is no such case";
        if (end - reference > 3 && strcmp(end - 3, ".sh") == 0)
            return readable(".", reference, X_OK) ? NULL : "there is no such script";
        return "names neither a test, a case nor a script";
    }
    snprintf(file, sizeof file, "%.*s", (int)(colon - reference), reference);
    text = text_of(file);
    if (!text)
        return "there is no such file";
    ok = has_test(text, colon + 2);
    free(text);
    return ok ? NULL : "the file has no such test, or does not run it";
}

/* Looks up every `reference` of a cell. NULL when there is at least one and all are good; otherwise what is wrong. */
static const char *fault_of_cell(const char *cell, unsigned *references)
{
    unsigned n = 0;

    for (const char *p = strchr(cell, '`'), *end; p; p = strchr(end + 1, '`')) {
        char reference[512];
        const char *fault;

        end = strchr(p + 1, '`');
        if (!end)
            return "a reference does not end";
        snprintf(reference, sizeof reference, "%.*s", (int)(end - p - 1), p + 1);
        fault = fault_of_reference(reference);
        if (fault) {
            printf("%s: %s\n", reference, fault);
            return fault;
        }
        n++;
    }
    *references += n;
    return n || strncmp(cell, ABSENT, strlen(ABSENT)) == 0 ? NULL : "names no test and does not say why";
}

struct counts {
    unsigned rows, references, faults;
};

/* A line of the page; only rows of its tables count. Cuts it in place. */
static void check_line(char *line, struct counts *c)
{
    char *cell[COLUMNS], *p = line;
    const char *fault;

    if (strncmp(line, "| ", 2) != 0 || strncmp(line, "| what went wrong |", 19) == 0)
        return;
    c->rows++;
    for (unsigned i = 0; i < COLUMNS; i++) {
        cell[i] = p + 2;
        p = strstr(p + 1, " |");
        if (!p) {
            printf("a row of %u columns: %s\n", i, line);
            c->faults++;
            return;
        }
        *p++ = '\0';
    }
    fault = fault_of_cell(cell[COLUMNS - 1], &c->references);
    if (fault)
        printf("'%s': %s\n", cell[0], fault);
    c->faults += fault != NULL;
}

static struct counts check_text(char *text)
{
    struct counts c = {0};

    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        check_line(line, &c);
    return c;
}

static void every_test_that_the_page_names_exists(void **state)
{
    char *text = text_of(PAGE);
    struct counts c;

    (void)state;
    assert_non_null(text);
    c = check_text(text);
    free(text);
    assert_true(c.rows > 40 && c.references > 70);
    assert_int_equal(c.faults, 0);
}

static unsigned faults(const char *row)
{
    char line[512];

    snprintf(line, sizeof line, "%s", row);
    return check_text(line).faults;
}

static void a_name_that_no_test_has_is_noticed(void **state)
{
    (void)state;
    assert_int_equal(faults("| a | b | `tests/floors/test_floors.c: no_include_climbs` |"), 0);
    assert_int_equal(faults("| a | b | `tests/floors/test_floors.c: no_include_climb` |"), 1);
    assert_int_equal(faults("| a | b | `tests/floors/test_floors.c: check_file` |"), 1); /* a function, but no test */
    assert_int_equal(faults("| a | b | `tests/floors/test_ceilings.c: no_include_climbs` |"), 1);
    assert_int_equal(faults("| a | b | `tests/cli/cases/version` |"), 0);
    assert_int_equal(faults("| a | b | `tests/cli/cases/a-case-that-nobody-wrote` |"), 1);
    assert_int_equal(faults("| a | b | `tests/install/no-such.sh` |"), 1);
    assert_int_equal(faults("| a | b | all is well |"), 1);
    assert_int_equal(faults("| a | | no part of this version: no server |"), 0);
    assert_int_equal(faults("| a | no part of this version: no server |"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_test_that_the_page_names_exists),
        cmocka_unit_test(a_name_that_no_test_has_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
