/*
 * Where the files lie that are installed with winnow: $WINNOW_DATA; else beside the program that runs, so that an
 * installed tree may be moved or unpacked anywhere; else where this build was meant to be installed.
 */
#include "cli.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *program = ""; /* argv[0] */

void data_dir_of_program(const char *argv0)
{
    program = argv0 ? argv0 : "";
}

/* The file that `program` names, the way a shell looks for it: by its path, or the first on the PATH. */
static bool find_program(char *path, size_t size)
{
    const char *list = getenv("PATH");

    if (strchr(program, '/'))
        return (size_t)snprintf(path, size, "%s", program) < size;
    while (list && *program) {
        int n = (int)strcspn(list, ":");

        if ((size_t)snprintf(path, size, "%.*s/%s", n, n ? list : ".", program) < size && access(path, X_OK) == 0)
            return true;
        list = list[n] ? list + n + 1 : NULL;
    }
    return false;
}

/* False when there is no such folder beside the program. */
static bool beside_program(char *dir, size_t size)
{
    char found[PATH_MAX], *file, *slash;
    bool ok;

    if (!find_program(found, sizeof found) || !(file = realpath(found, NULL)))
        return false;
    slash = strrchr(file, '/');
    *slash = '\0';
    ok = (size_t)snprintf(dir, size, "%s/" WINNOW_DATA_FROM_PROGRAM, file) < size && access(dir, R_OK) == 0;
    free(file);
    return ok;
}

const char *data_dir(void)
{
    static char dir[PATH_MAX];
    const char *wanted = getenv("WINNOW_DATA");

    if (wanted && *wanted)
        return wanted;
    if (dir[0] == '\0' && !beside_program(dir, sizeof dir))
        snprintf(dir, sizeof dir, "%s", WINNOW_DATA_DIR);
    return dir;
}
