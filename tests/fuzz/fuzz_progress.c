/*
 * The journal of a prune from hostile bytes. Three files of an output lie there, complete; whatever the journal says,
 * no more are taken up than it tells of as they are, and going on behind them gives a journal that the next run reads.
 *
 * The first byte says what is done to the rest: '!' is the journal as it is; anything else, and each line gets the
 * check that belongs to it, which no mutation would ever find.
 */
#include "base/alloc.h"
#include "jobs/prune/resume.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FILES    3
#define STARTED  1700000000 /* seconds; a file was changed so many after it as it has files before it */
#define IDENTITY "0505050505050505050505050505050505050505050505050505050505050505"

static char folder[64];
static struct wn_sink *sink;

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void clean_up(void)
{
    struct wn_err err;
    char **names;
    size_t n;

    if (wn_path_list(folder, &names, &n, &err)) {
        for (size_t i = 0; i < n; i++) {
            char *path = wn_path_join(folder, names[i], &err);

            if (path)
                (void)remove(path);
            free(path);
        }
        wn_names_free(names, n);
    }
    (void)rmdir(folder);
    wn_sink_free(sink);
}

static void part_path(uint32_t file, char path[160])
{
    (void)snprintf(path, 160, "%s.part", wn_sink_file_path(sink, file));
}

/* As long as the output will be, a hole, and of a known time. */
static void put_part(uint32_t file)
{
    const struct timespec at[2] = {{.tv_sec = STARTED + file}, {.tv_sec = STARTED + file}};
    char path[160];
    int fd;

    part_path(file, path);
    fd = open(path, O_CREAT | O_RDWR, 0600);
    must(fd >= 0 && ftruncate(fd, (off_t)wn_sink_file_bytes(sink, file)) == 0 && futimens(fd, at) == 0);
    must(close(fd) == 0);
}

/* Two experts in each file. */
static void set_up(void)
{
    const uint64_t shape[] = {2, 1, 32};
    const struct wn_sink_options o = {.dry_run = true};
    char out[96], name[64];
    struct wn_err err;

    (void)snprintf(folder, sizeof folder, "/tmp/fuzz-progress-XXXXXX");
    must(mkdtemp(folder));
    (void)snprintf(out, sizeof out, "%s/o.gguf", folder);
    sink = wn_sink_new(WN_CONTAINER_GGUF, out, &o, &err);
    must(sink);
    for (uint32_t f = 0; f < FILES; f++) {
        (void)snprintf(name, sizeof name, "blk.%" PRIu32 ".ffn_up_exps.weight", f);
        must(wn_sink_declare(sink, name, WN_F32, 3, shape, f, &err));
    }
    must(wn_sink_begin(sink, &err));
    for (uint32_t f = 0; f < FILES; f++)
        put_part(f);
    (void)atexit(clean_up);
}

/* The line, and " CHECK" behind it: the head of SHA-256(digest of the lines before, line). */
static void put_line(FILE *to, const char *line, size_t n, uint8_t chain[WN_DIGEST_BYTES])
{
    struct wn_fingerprint f;
    char check[17];
    struct wn_err err;

    must(wn_fingerprint_begin(&f, &err) && wn_fingerprint_add(&f, chain, WN_DIGEST_BYTES, &err) &&
         wn_fingerprint_add(&f, line, n, &err) && wn_fingerprint_end(&f, chain, &err));
    wn_fingerprint_release(&f);
    wn_hash_text(chain, 8, check);
    must(fwrite(line, 1, n, to) == n && fprintf(to, " %s\n", check) > 0);
}

static void put_journal(const char *path, const uint8_t *data, size_t size)
{
    uint8_t chain[WN_DIGEST_BYTES] = {0};
    const char *at = (const char *)data + 1, *end = (const char *)data + size;
    FILE *to = fopen(path, "wb");

    must(to);
    if (data[0] == '!')
        must(fwrite(at, 1, size - 1, to) == size - 1);
    while (data[0] != '!' && at < end) {
        const char *line = memchr(at, '\n', (size_t)(end - at));

        put_line(to, at, (size_t)((line ? line : end) - at), chain);
        at = line ? line + 1 : end;
    }
    must(fclose(to) == 0);
}

/* How many files the text tells of as they are, by their beginnings: no more may be taken up. */
static uint32_t most_told(const uint8_t *data, size_t size)
{
    static const char head[] = "winnow-progress 1 " IDENTITY;
    const char *at = (const char *)data + 1, *end = (const char *)data + size;
    uint32_t n = 0;

    if ((size_t)(end - at) < sizeof head - 1 || memcmp(at, head, sizeof head - 1) != 0)
        return 0;
    for (; n < FILES; n++) {
        char want[96];
        int length = snprintf(want, sizeof want, "%" PRIu32 " %" PRIu64 " %lld000000000 ", n,
                              wn_sink_file_bytes(sink, n), (long long)STARTED + n);

        at = memchr(at, '\n', (size_t)(end - at));
        if (!at || end - ++at < length || memcmp(at, want, (size_t)length) != 0)
            return n;
    }
    return n;
}

static uint32_t read_journal(struct wn_resume *r, struct wn_seal *seal, bool strict, bool *ok)
{
    uint8_t identity[WN_DIGEST_BYTES];
    struct wn_err err;

    memset(identity, 5, sizeof identity);
    must(wn_seal_init(seal, sink, WN_CONTAINER_GGUF, &err));
    *ok = wn_resume_read(r, sink, WN_CONTAINER_GGUF, identity, seal, strict, &err);
    must(*ok || (strict && err.code == WN_ERR_ARG));
    return r->taken;
}

static void end(struct wn_resume *r, struct wn_seal *seal)
{
    wn_resume_release(r);
    wn_seal_release(seal);
}

/* The next file is entered; then there is one more, and the digests are those that were there. */
static void go_on(struct wn_resume *r, struct wn_seal *seal)
{
    uint32_t taken = r->taken;
    uint8_t digest[FILES][WN_DIGEST_BYTES];
    char path[160];
    struct wn_err err;
    bool ok;

    part_path(taken, path);
    must(wn_resume_add(r, taken, path, seal, &err));
    memcpy(digest, seal->file_digest, sizeof digest);
    end(r, seal);
    must(read_journal(r, seal, false, &ok) == taken + 1);
    must(memcmp(digest, seal->file_digest, (size_t)(taken + 1) * WN_DIGEST_BYTES) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wn_resume r;
    struct wn_seal seal;
    char path[160];
    uint32_t taken;
    bool ok;

    if (!sink)
        set_up();
    if (size == 0)
        return 0;
    (void)snprintf(path, sizeof path, "%s.progress.part", wn_sink_file_path(sink, 0));
    put_journal(path, data, size);
    taken = read_journal(&r, &seal, true, &ok);
    must(!ok || taken > 0);
    end(&r, &seal);
    taken = read_journal(&r, &seal, false, &ok);
    must(ok && taken <= FILES && (data[0] == '!' || taken <= most_told(data, size)));
    if (taken < FILES)
        go_on(&r, &seal);
    end(&r, &seal);
    (void)remove(path);
    return 0;
}
