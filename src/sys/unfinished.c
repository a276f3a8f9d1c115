/*
 * See unfinished.h. A list that only grows and whose names never change: a signal handler walks it while any thread is
 * anywhere. A name that is written again gets its old entry, so the list is as long as there are different outputs.
 */
#include "sys/unfinished.h"
#include "base/alloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <winnow/job.h>

struct wn_unfinished {
    char *path; /* owned */
    atomic_bool there;
    struct wn_unfinished *next;
};

static _Atomic(struct wn_unfinished *) all;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER; /* one thread puts an entry before `all` at a time */

static struct wn_unfinished *find(const char *path)
{
    struct wn_unfinished *u = atomic_load(&all);

    while (u && strcmp(u->path, path) != 0)
        u = u->next;
    return u;
}

static struct wn_unfinished *add(const char *path, struct wn_err *err)
{
    struct wn_unfinished *u = wn_alloc(1, sizeof *u, err);

    if (!u)
        return NULL;
    u->path = wn_strdup(path, err);
    if (!u->path) {
        free(u);
        return NULL;
    }
    u->next = atomic_load(&all);
    atomic_store(&all, u);
    return u;
}

struct wn_unfinished *wn_unfinished_note(const char *path, struct wn_err *err)
{
    struct wn_unfinished *u;

    pthread_mutex_lock(&adding);
    u = find(path);
    if (!u)
        u = add(path, err);
    pthread_mutex_unlock(&adding);
    if (u)
        atomic_store(&u->there, true);
    return u;
}

void wn_unfinished_forget(struct wn_unfinished *u)
{
    if (u)
        atomic_store(&u->there, false);
}

void wn_remove_unfinished(void)
{
    for (const struct wn_unfinished *u = atomic_load(&all); u; u = u->next)
        if (atomic_load(&u->there))
            (void)unlink(u->path);
}
