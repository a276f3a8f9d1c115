/* Which modules beside it a Python file is found to import. */
#include "wn_test.h"

#include "jobs/prune/code_imports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct told {
    char names[256];
    int left; /* calls until it says no; negative: never */
};

static bool tell(void *arg, struct wn_bytes module, struct wn_err *err)
{
    struct told *t = arg;
    size_t n = strlen(t->names);

    if (t->left-- == 0)
        return wn_fail(err, WN_ERR_NOMEM, "enough");
    (void)snprintf(t->names + n, sizeof t->names - n, "%.*s;", (int)module.n, module.at);
    return true;
}

static void check(const char *text, const char *want)
{
    struct told t = {.left = -1};
    char *copy = malloc(strlen(text)); /* a step past its end is seen */
    struct wn_err err;

    assert_true(copy || !*text);
    memcpy(copy, text, strlen(text));
    CHECK_OK(wn_code_imports((struct wn_bytes){copy, strlen(text)}, tell, &t, &err), &err);
    free(copy);
    assert_string_equal(t.names, want);
}

static void modules_beside_the_file_are_told(void **state)
{
    (void)state;
    check("from .a import b, c\n", "a;");
    check("import os\n    from\t.a_1  import (\n  x,\n)\nfrom .b import *", "a_1;b;");
    check("from . import a\r\nfrom . import b as x, c , d", "a;b;c;d;");
    check("from . import (a, # one\n  b as bee,\n\n  c)\nfrom .d import e\n", "a;b;c;d;");
    check("try:\n  from .fast import f\nexcept ImportError:\n  from .slow import f\n", "fast;slow;");
}

static void nothing_else_is(void **state)
{
    (void)state;
    check("", "");
    check("from", "");
    check("from .", "");
    check("from .a", "");
    check("from . import", "");
    check("from . import (", "");
    check("from .a.b import c\nfrom ..a import b\nfrom ... import c\n", "");
    check("from a import b\nimport .a\nimport a\nfrom .a importlib\nfromm .a import b\n", "");
    check("# from .a import b\nx = 1 # from .a import b\n", "");
    check("from . import a; from .b import c\n", "a;");
}

static void a_refusal_ends_it(void **state)
{
    static const char *const text[] = {"from .a import b\nfrom .c import d\n", "from . import a, c\n"};
    struct wn_err err;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct told t = {.left = 1};

        CHECK_FAILS(wn_code_imports(wn_bytes_of(text[i]), tell, &t, &err), &err, "enough");
        assert_string_equal(t.names, "a;");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_beside_the_file_are_told),
        cmocka_unit_test(nothing_else_is),
        cmocka_unit_test(a_refusal_ends_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
