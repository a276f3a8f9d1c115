/* See hashing.h. One thread, one lock, two signals: more may be read, and so much has been. */
#include "jobs/hashing.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAR_BEHIND ((uint64_t)512 << 20)

struct wn_hashing {
    char *path; /* owned */
    struct wn_hash_wanted wanted;
    uint8_t *buffer; /* [WN_HASHING_BYTES]; owned */
    int fd;
    struct wn_fingerprint whole;
    struct wn_checksum part; /* of wanted.part[next], when some of it was read */
    size_t next;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t fed, read;
    uint64_t may_read, has_read;
    bool complete, stopped, failed;
    struct wn_err err;
};

/* Bytes that may be read behind `at`, when there are any; 0: it was stopped, or the file ends before. */
static uint64_t wait_for_bytes(struct wn_hashing *h, uint64_t at)
{
    uint64_t more;

    pthread_mutex_lock(&h->lock);
    h->has_read = at;
    pthread_cond_signal(&h->read);
    while (h->may_read <= at && !h->complete && !h->stopped)
        pthread_cond_wait(&h->fed, &h->lock);
    more = h->stopped || h->may_read <= at ? 0 : h->may_read - at;
    pthread_mutex_unlock(&h->lock);
    return more;
}

/* What a writer skipped at the end is only made by its last step, and reads as zeros before as after. */
static bool read_bytes(struct wn_hashing *h, uint64_t at, size_t n)
{
    size_t done = 0;

    while (done < n) {
        ssize_t got = pread(h->fd, h->buffer + done, n - done, (off_t)(at + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return wn_fail(&h->err, WN_ERR_IO, "'%s': read at %" PRIu64 ": %s", h->path, at + done, strerror(errno));
        if (got == 0) {
            memset(h->buffer + done, 0, n - done);
            break;
        }
        done += (size_t)got;
    }
    return true;
}

/* The n bytes at `at`, which are in the buffer, as far as they belong to parts. */
static bool add_to_parts(struct wn_hashing *h, uint64_t at, uint64_t n)
{
    for (; h->next < h->wanted.n; h->next++) {
        const struct wn_hash_part *p = &h->wanted.part[h->next];
        uint64_t begin = p->at > at ? p->at : at, end = wn_min_u64(p->at + p->bytes, at + n);

        if (p->at > at + n)
            return true;
        if (p->at >= at && !wn_checksum_begin(&h->part, &h->err))
            return false;
        wn_checksum_add(&h->part, h->buffer + (begin - at), (size_t)(end - begin));
        if (end < p->at + p->bytes)
            return true;
        wn_checksum_end(&h->part, h->wanted.sum + h->next * WN_CHECKSUM_BYTES);
    }
    return true;
}

static bool hash_all(struct wn_hashing *h)
{
    for (uint64_t at = 0, n; at < h->wanted.bytes; at += n) {
        n = wn_min_u64(wait_for_bytes(h, at), wn_min_u64(h->wanted.bytes - at, WN_HASHING_BYTES));
        if (n == 0)
            return wn_fail(&h->err, WN_ERR_IO, "'%s' ends at %" PRIu64 ", before the last byte to be hashed", h->path,
                           at);
        if (!read_bytes(h, at, (size_t)n) || !wn_fingerprint_add(&h->whole, h->buffer, (size_t)n, &h->err) ||
            !add_to_parts(h, at, n))
            return false;
    }
    return wn_fingerprint_end(&h->whole, h->wanted.sha256, &h->err);
}

static void *follow(void *arg)
{
    struct wn_hashing *h = arg;
    bool ok = hash_all(h);

    pthread_mutex_lock(&h->lock);
    h->failed = !ok;
    h->has_read = UINT64_MAX; /* nobody waits for it any more */
    pthread_cond_signal(&h->read);
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static void release(struct wn_hashing *h)
{
    if (h->fd >= 0)
        (void)close(h->fd);
    wn_fingerprint_release(&h->whole);
    wn_checksum_release(&h->part);
    free(h->buffer);
    free(h->path);
    free(h);
}

static bool start_thread(struct wn_hashing *h, struct wn_err *err)
{
    h->fd = open(h->path, O_RDONLY | O_CLOEXEC);
    if (h->fd < 0)
        return wn_fail(err, WN_ERR_IO, "'%s': %s", h->path, strerror(errno));
    if (pthread_mutex_init(&h->lock, NULL) != 0)
        return wn_fail(err, WN_ERR_NOMEM, "a lock could not be made");
    if (pthread_cond_init(&h->fed, NULL) == 0) {
        if (pthread_cond_init(&h->read, NULL) == 0) {
            if (pthread_create(&h->thread, NULL, follow, h) == 0)
                return true;
            (void)pthread_cond_destroy(&h->read);
        }
        (void)pthread_cond_destroy(&h->fed);
    }
    (void)pthread_mutex_destroy(&h->lock);
    return wn_fail(err, WN_ERR_NOMEM, "a thread for the hashes of '%s' could not be made", h->path);
}

struct wn_hashing *wn_hashing_start(const char *path, const struct wn_hash_wanted *w, struct wn_err *err)
{
    struct wn_hashing *h = wn_alloc(1, sizeof *h, err);

    if (!h)
        return NULL;
    h->fd = -1;
    h->wanted = *w;
    if ((h->path = wn_strdup(path, err)) && (h->buffer = wn_alloc(WN_HASHING_BYTES, 1, err)) &&
        wn_fingerprint_begin(&h->whole, err) && start_thread(h, err))
        return h;
    release(h);
    return NULL;
}

void wn_hashing_feed(struct wn_hashing *h, uint64_t bytes)
{
    pthread_mutex_lock(&h->lock);
    h->may_read = bytes > h->may_read ? bytes : h->may_read;
    pthread_cond_signal(&h->fed);
    while (h->has_read < h->may_read && h->may_read - h->has_read > FAR_BEHIND)
        pthread_cond_wait(&h->read, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

static bool join(struct wn_hashing *h, bool stop, struct wn_err *err)
{
    bool ok;

    pthread_mutex_lock(&h->lock);
    h->complete = true;
    h->may_read = UINT64_MAX;
    h->stopped = stop;
    pthread_cond_signal(&h->fed);
    pthread_mutex_unlock(&h->lock);
    (void)pthread_join(h->thread, NULL);
    (void)pthread_cond_destroy(&h->read);
    (void)pthread_cond_destroy(&h->fed);
    (void)pthread_mutex_destroy(&h->lock);
    ok = !h->failed;
    if (!ok)
        *err = h->err;
    release(h);
    return ok;
}

bool wn_hashing_end(struct wn_hashing *h, struct wn_err *err)
{
    return join(h, false, err);
}

void wn_hashing_stop(struct wn_hashing *h)
{
    struct wn_err ignored;

    if (h)
        (void)join(h, true, &ignored);
}

bool wn_hash_file(const char *path, uint8_t digest[WN_DIGEST_BYTES], struct wn_err *err)
{
    struct wn_fingerprint sha = {0};
    struct wn_file f;
    uint8_t *buffer;
    bool ok;

    if (!wn_file_open(&f, path, err))
        return false;
    buffer = wn_alloc(WN_HASHING_BYTES, 1, err);
    ok = buffer && wn_fingerprint_begin(&sha, err);
    for (uint64_t at = 0, n; ok && at < f.bytes; at += n) {
        n = wn_min_u64(f.bytes - at, WN_HASHING_BYTES);
        ok = wn_file_read(&f, at, buffer, (size_t)n, err) && wn_fingerprint_add(&sha, buffer, (size_t)n, err);
    }
    ok = ok && wn_fingerprint_end(&sha, digest, err);
    wn_fingerprint_release(&sha);
    free(buffer);
    wn_file_close(&f);
    return ok;
}

bool wn_hash_file_part(const struct wn_file *f, const struct wn_hash_part *part, uint8_t sum[WN_CHECKSUM_BYTES],
                       struct wn_err *err)
{
    struct wn_checksum c = {0};
    uint8_t *buffer = wn_alloc(WN_HASHING_BYTES, 1, err);
    bool ok = buffer && wn_checksum_begin(&c, err);

    for (uint64_t done = 0, n; ok && done < part->bytes; done += n) {
        n = wn_min_u64(part->bytes - done, WN_HASHING_BYTES);
        ok = wn_file_read(f, part->at + done, buffer, (size_t)n, err);
        if (ok)
            wn_checksum_add(&c, buffer, (size_t)n);
    }
    if (ok)
        wn_checksum_end(&c, sum);
    wn_checksum_release(&c);
    free(buffer);
    return ok;
}

bool wn_hash_bytes(const void *bytes, size_t n, uint8_t digest[WN_DIGEST_BYTES], struct wn_err *err)
{
    struct wn_fingerprint f;
    bool ok =
        wn_fingerprint_begin(&f, err) && wn_fingerprint_add(&f, bytes, n, err) && wn_fingerprint_end(&f, digest, err);

    wn_fingerprint_release(&f);
    return ok;
}

void wn_hash_text(const uint8_t *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = 0;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool wn_hash_parse(const char *text, size_t digits, uint8_t *bytes, size_t n)
{
    if (digits != 2 * n)
        return false;
    for (size_t i = 0; i < n; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
