/* See wn_test.h. */
#include "wn_test.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RING      16
#define PATH_ROOM 4096

static char ring[RING][PATH_ROOM];
static unsigned ring_at;

static char *next_path(void)
{
    return ring[ring_at++ % RING];
}

static int exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

const char *wn_test_data(const char *name)
{
    const char *shared = getenv("WINNOW_SHARED");
    char *path = next_path();

    snprintf(path, PATH_ROOM, "%s/tests/data/%s", WN_TEST_SOURCE_DIR, name);
    if (exists(path))
        return path;
    snprintf(path, PATH_ROOM, "%s/data/%s", WN_TEST_SOURCE_DIR, name);
    if (exists(path))
        return path;
    if (shared)
        snprintf(path, PATH_ROOM, "%s/%s", shared, name);
    else
        snprintf(path, PATH_ROOM, "%s/../shared/%s", WN_TEST_SOURCE_DIR, name);
    if (exists(path))
        return path;
    printf("skipped: '%s' is not here (looked in tests/data, data and %s)\n", name, shared ? shared : "../shared");
    return NULL;
}

const char *wn_test_need_data(const char *name)
{
    const char *path = wn_test_data(name);

    if (!path)
        skip();
    return path;
}

const char *wn_test_need_sparse(const char *name)
{
    const char *root = getenv("WINNOW_SPARSE"), *path;

    if (!root) {
        printf("skipped: WINNOW_SPARSE names no folder of full-size sparse models (make sparse)\n");
        skip();
    }
    path = wn_test_path(root, name);
    if (!exists(path))
        fail_msg("'%s' is not there (make sparse)", path);
    return path;
}

/* All folders of a run lie in one, which the process that began removes at its end, those of killed children too. */
static char root[] = "/tmp/winnow-test-XXXXXX";
static pid_t made_by;

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static void remove_root(void)
{
    if (getpid() == made_by)
        nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Before main, so that no child can be the first. */
__attribute__((constructor)) static void make_root(void)
{
    if (!mkdtemp(root)) {
        perror(root);
        exit(1);
    }
    made_by = getpid();
    atexit(remove_root);
}

const char *wn_test_folder(void)
{
    char *path = next_path();

    snprintf(path, PATH_ROOM, "%s/XXXXXX", root);
    if (!mkdtemp(path)) {
        fail_msg("no temporary folder: %s", strerror(errno));
        return NULL;
    }
    return path;
}

const char *wn_test_path(const char *folder, const char *name)
{
    char *path = next_path();
    char joined[PATH_ROOM];

    snprintf(joined, sizeof joined, "%.2000s/%.2000s", folder, name);
    memcpy(path, joined, sizeof joined);
    return path;
}

int wn_test_contains(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

void wn_test_same_file(const char *a, const char *b)
{
    FILE *fa = fopen(a, "rb"), *fb = fopen(b, "rb");
    unsigned long long at = 0;
    int ca, cb;

    if (!fa || !fb)
        fail_msg("cannot open '%s' and '%s'", a, b);
    do {
        ca = getc(fa);
        cb = getc(fb);
        at++;
    } while (ca == cb && ca != EOF);
    fclose(fa);
    fclose(fb);
    if (ca != cb)
        fail_msg("'%s' and '%s' differ at byte %llu", a, b, at - 1);
}
