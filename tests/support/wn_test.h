/*
 * What tests share: cmocka with its system headers, where data lies, temporary folders, and checks that print the
 * library's sentence. A test executable is `int main(void) { return cmocka_run_group_tests(tests, NULL, NULL); }`.
 */
#ifndef WN_TEST_H
#define WN_TEST_H

/* clang-format off: cmocka wants these before it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <winnow/error.h>

/* Sanitizers bring memory of their own, which moves what a process holds by megabytes, and time. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WN_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define WN_TEST_SANITIZED 1
#endif
#endif
#ifndef WN_TEST_SANITIZED
#define WN_TEST_SANITIZED 0
#endif

/*
 * Path of test data, by its name under tests/data, data/ or the shared folder (WINNOW_SHARED, or ../shared beside the
 * project): "golden/text/tiny-a/hf", "models/k3-mini". NULL when it is nowhere; the caller then skips, and the reason
 * has been printed. The string is good until the 16th call after.
 */
const char *wn_test_data(const char *name);
/* The same, but the test skips (with the printed reason) instead of returning NULL. */
const char *wn_test_need_data(const char *name);

/*
 * The same for a name in the folder of full-size sparse models that WINNOW_SPARSE names (`make sparse` makes it): "hf",
 * "gguf-r1", "gguf-r2". Without the variable the test skips; a folder that lacks the name fails it.
 */
const char *wn_test_need_sparse(const char *name);

/* A new empty folder, removed (with all in it) at exit. Good until the 16th call after. */
const char *wn_test_folder(void);
/* folder/name. Good until the 16th call after. */
const char *wn_test_path(const char *folder, const char *name);

/* Fails with the library's sentence. */
#define CHECK_OK(call, err)                                                                                            \
    do {                                                                                                               \
        if (!(call))                                                                                                   \
            fail_msg("%s: %s", #call, (err)->msg);                                                                     \
    } while (0)

/* The call must fail, and its sentence must contain `part`. */
#define CHECK_FAILS(call, err, part)                                                                                   \
    do {                                                                                                               \
        if (call)                                                                                                      \
            fail_msg("%s worked, but should have failed with '%s'", #call, part);                                      \
        if (!wn_test_contains((err)->msg, part))                                                                       \
            fail_msg("%s: said '%s', wanted '%s' in it", #call, (err)->msg, part);                                     \
    } while (0)

int wn_test_contains(const char *text, const char *part);

/* Fails unless both files have the same bytes. */
void wn_test_same_file(const char *a, const char *b);

#endif
