/*
 * The main of a fuzz target where there is no libFuzzer: feeds each file named on the command line, or each file of a
 * folder named there, to the target once. Finding no file at all is a failure.
 */
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>

#define FILE_LIMIT ((uint64_t)64 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t fed;

static bool feed(const char *path, struct wn_err *err)
{
    size_t n;
    char *text = wn_file_slurp(path, FILE_LIMIT, &n, err);
    uint8_t *exact;

    if (!text)
        return false;
    /* without the NUL behind it, so that a sanitizer sees reads past the end */
    exact = malloc(n ? n : 1);
    if (exact) {
        for (size_t i = 0; i < n; i++)
            exact[i] = (uint8_t)text[i];
        (void)LLVMFuzzerTestOneInput(exact, n);
        fed++;
    }
    free(exact);
    free(text);
    return exact != NULL;
}

static bool feed_folder(const char *folder, struct wn_err *err)
{
    char **names;
    size_t n;
    bool ok = true;

    if (!wn_path_list(folder, &names, &n, err))
        return false;
    for (size_t i = 0; ok && i < n; i++) {
        char *path = wn_path_join(folder, names[i], err);

        ok = path && feed(path, err);
        free(path);
    }
    wn_names_free(names, n);
    return ok;
}

int main(int argc, char **argv)
{
    struct wn_err err = {0};

    for (int i = 1; i < argc; i++) {
        if (!(wn_path_is_folder(argv[i]) ? feed_folder(argv[i], &err) : feed(argv[i], &err))) {
            fprintf(stderr, "%s\n", err.msg);
            return 1;
        }
    }
    printf("%zu files\n", fed);
    return fed == 0;
}
