/*
 * See resume.h. A line of text for each file; each ends with the head of a SHA-256 of itself and of all lines before
 * it, by which a line that a crash cut short, or that somebody edited, is told from a good one.
 */
#include "jobs/prune/resume.h"
#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME          WN_PROGRESS_NAME
#define CHECK_DIGITS  16
#define JOURNAL_LIMIT ((uint64_t)256 << 20)

static char *journal_path(const struct wn_sink *dry, enum wn_container container, struct wn_err *err)
{
    const char *first = wn_sink_file_path(dry, 0);
    char *folder, *path;

    if (container == WN_CONTAINER_GGUF)
        return wn_asprintf(err, "%s." NAME, first);
    folder = wn_path_parent(first, err);
    path = folder ? wn_path_join(folder, NAME, err) : NULL;
    free(folder);
    return path;
}

/* chain = SHA-256(chain, line), and its head as text. */
static bool check_of(uint8_t chain[WN_DIGEST_BYTES], const char *line, size_t n, char text[CHECK_DIGITS + 1],
                     struct wn_err *err)
{
    struct wn_fingerprint f;
    bool ok = wn_fingerprint_begin(&f, err) && wn_fingerprint_add(&f, chain, WN_DIGEST_BYTES, err) &&
              wn_fingerprint_add(&f, line, n, err) && wn_fingerprint_end(&f, chain, err);

    wn_fingerprint_release(&f);
    wn_hash_text(chain, CHECK_DIGITS / 2, text);
    return ok;
}

static bool header_line(const struct wn_resume *r, struct wn_buf *b, struct wn_err *err)
{
    char text[2 * WN_DIGEST_BYTES + 1];

    wn_hash_text(r->identity, WN_DIGEST_BYTES, text);
    return wn_buf_printf(b, err, "winnow-progress 1 %s", text);
}

/* "3 48000000000 1700000000123456789 sha256 part part ..." */
static bool file_line(uint32_t file, const char *part, const struct wn_seal *seal, struct wn_buf *b, struct wn_err *err)
{
    char text[2 * WN_DIGEST_BYTES + 1] = "-";
    uint64_t bytes;
    int64_t changed;
    size_t first, end;
    bool ok;

    if (!wn_path_stamp(part, &bytes, &changed))
        return wn_fail(err, WN_ERR_IO, "'%s' has gone", part);
    if (seal->on)
        wn_hash_text(seal->file_digest + (size_t)file * WN_DIGEST_BYTES, WN_DIGEST_BYTES, text);
    ok = wn_buf_printf(b, err, "%" PRIu32 " %" PRIu64 " %" PRId64 " %s", file, bytes, changed, text);
    if (!seal->on)
        return ok;
    wn_expert_parts_of(&seal->parts, file, &first, &end);
    for (size_t i = first; ok && i < end; i++) {
        wn_hash_text(seal->part_digest + i * WN_CHECKSUM_BYTES, WN_CHECKSUM_BYTES, text);
        ok = wn_buf_add(b, " ", 1, err) && wn_buf_add(b, text, (size_t)2 * WN_CHECKSUM_BYTES, err);
    }
    return ok;
}

/* ---- reading ---- */

/* The next good line, which loses its check, or NULL. */
static char *next_line(struct wn_resume *r, char *text, size_t n)
{
    char *line = text + r->bytes, *end = memchr(line, '\n', n - (size_t)r->bytes), check[CHECK_DIGITS + 1];
    uint8_t chain[WN_DIGEST_BYTES];
    struct wn_err ignored;
    size_t length;

    if (!end || end - line < CHECK_DIGITS + 1)
        return NULL;
    length = (size_t)(end - line) - CHECK_DIGITS - 1;
    if (memchr(line, 0, length)) /* what follows it would be checked and not read */
        return NULL;
    memcpy(chain, r->chain, sizeof chain);
    if (!check_of(chain, line, length, check, &ignored) || line[length] != ' ' ||
        memcmp(line + length + 1, check, CHECK_DIGITS) != 0)
        return NULL;
    line[length] = 0;
    memcpy(r->chain, chain, sizeof chain);
    r->bytes += (uint64_t)(end - line) + 1;
    return line;
}

/* The file is there as the line tells, by its name with `end` behind it. *at moves to the digests. */
static bool is_as_told(const char **at, uint32_t file, const char *path, const char *end, uint64_t wanted)
{
    uint64_t bytes;
    int64_t changed;
    char *name, start[96];
    struct wn_err ignored;
    bool ok =
        (name = wn_asprintf(&ignored, "%s%s", path, end)) && wn_path_stamp(name, &bytes, &changed) && bytes == wanted;

    free(name);
    if (!ok)
        return false;
    (void)snprintf(start, sizeof start, "%" PRIu32 " %" PRIu64 " %" PRId64 " ", file, bytes, changed);
    ok = strncmp(*at, start, strlen(start)) == 0;
    *at += strlen(start);
    return ok;
}

static bool take_digests(const char *at, uint32_t file, struct wn_seal *seal)
{
    size_t first, end, length = strcspn(at, " ");

    if (!seal->on)
        return true;
    if (!wn_hash_parse(at, length, seal->file_digest + (size_t)file * WN_DIGEST_BYTES, WN_DIGEST_BYTES))
        return false;
    wn_expert_parts_of(&seal->parts, file, &first, &end);
    for (size_t i = first; i < end; i++) {
        at += length + (at[length] == ' ');
        length = strcspn(at, " ");
        if (!wn_hash_parse(at, length, seal->part_digest + i * WN_CHECKSUM_BYTES, WN_CHECKSUM_BYTES))
            return false;
    }
    return at[length] == 0;
}

static bool is_ours(struct wn_resume *r, char *text, size_t n, struct wn_err *err)
{
    struct wn_buf want = {0};
    char *line = next_line(r, text, n);
    bool ok = line && header_line(r, &want, err) && strlen(line) == want.n && memcmp(line, want.at, want.n) == 0;

    wn_buf_release(&want);
    return ok;
}

/*
 * Files of good lines that are as told, and those of all good lines: strict runs want them to be as many. end: ".part",
 * or nothing for files that have their names.
 */
static void take_lines(struct wn_resume *r, const struct wn_sink *dry, const char *end, char *text, size_t n,
                       struct wn_seal *seal, uint32_t *told)
{
    uint8_t chain[WN_DIGEST_BYTES];
    uint64_t bytes = r->bytes;
    char *line;

    memcpy(chain, r->chain, sizeof chain);
    for (*told = 0; *told < wn_sink_file_count(dry) && (line = next_line(r, text, n)); ++*told) {
        const char *at = line;

        if (r->taken < *told ||
            !is_as_told(&at, *told, wn_sink_file_path(dry, *told), end, wn_sink_file_bytes(dry, *told)) ||
            !take_digests(at, *told, seal))
            continue;
        r->taken++;
        bytes = r->bytes;
        memcpy(chain, r->chain, sizeof chain);
    }
    r->bytes = bytes;
    memcpy(r->chain, chain, sizeof chain);
}

static void forget(struct wn_resume *r)
{
    r->taken = 0;
    r->bytes = 0;
    memset(r->chain, 0, sizeof r->chain);
}

bool wn_resume_read(struct wn_resume *r, const struct wn_sink *dry, enum wn_container container,
                    const uint8_t identity[WN_DIGEST_BYTES], struct wn_seal *seal, bool strict, struct wn_err *err)
{
    char *text = NULL;
    uint32_t told = 0;
    size_t n = 0;
    bool ours = false;

    *r = (struct wn_resume){.on = true, .path = journal_path(dry, container, err)};
    memcpy(r->identity, identity, WN_DIGEST_BYTES);
    if (!r->path)
        return false;
    if (wn_path_exists(r->path) && !(text = wn_file_slurp(r->path, JOURNAL_LIMIT, &n, err)))
        return false;
    if (text && (ours = is_ours(r, text, n, err)))
        take_lines(r, dry, ".part", text, n, seal, &told);
    if (!ours || r->taken == 0)
        forget(r);
    free(text);
    if (strict && (!ours || r->taken == 0 || r->taken != told))
        return wn_fail(err, WN_ERR_ARG,
                       "the source has given bytes away to files of which '%s' tells, and %s: there is nothing to make "
                       "them from again",
                       r->path,
                       !text  ? "that journal is not there"
                       : ours ? "not all of those are there as it tells"
                              : "that journal is of another command");
    return true;
}

bool wn_resume_is_left(const struct wn_sink *dry, enum wn_container container)
{
    struct wn_err ignored;
    char *path = journal_path(dry, container, &ignored);
    bool there = path && wn_path_exists(path);

    free(path);
    return there;
}

bool wn_resume_read_placed(struct wn_resume *r, const struct wn_sink *dry, enum wn_container container,
                           const uint8_t identity[WN_DIGEST_BYTES], bool *placed, struct wn_err *err)
{
    struct wn_seal none = {0};
    uint32_t told = 0;
    size_t n;
    char *text;

    *placed = false;
    *r = (struct wn_resume){.on = true, .path = journal_path(dry, container, err)};
    memcpy(r->identity, identity, WN_DIGEST_BYTES);
    if (!r->path || !(text = wn_file_slurp(r->path, JOURNAL_LIMIT, &n, err)))
        return false;
    if (is_ours(r, text, n, err))
        take_lines(r, dry, "", text, n, &none, &told);
    *placed = told == wn_sink_file_count(dry) && r->taken == told;
    free(text);
    return true;
}

/* ---- writing ---- */

static bool add_line(struct wn_resume *r, struct wn_buf *line, struct wn_err *err)
{
    uint8_t chain[WN_DIGEST_BYTES];
    char check[CHECK_DIGITS + 1];

    memcpy(chain, r->chain, sizeof chain);
    if (!check_of(chain, line->at, line->n, check, err) || !wn_buf_printf(line, err, " %s\n", check) ||
        !wn_appended_add(&r->log, line->at, line->n, err))
        return false;
    memcpy(r->chain, chain, sizeof chain);
    r->bytes += line->n;
    return true;
}

static bool begin(struct wn_resume *r, struct wn_err *err)
{
    struct wn_buf line = {0};
    bool ok;

    if (r->log.path)
        return true;
    ok = wn_appended_open(&r->log, r->path, r->bytes, err) &&
         (r->bytes > 0 || (header_line(r, &line, err) && add_line(r, &line, err)));
    wn_buf_release(&line);
    return ok;
}

bool wn_resume_add(struct wn_resume *r, uint32_t file, const char *part, const struct wn_seal *seal, struct wn_err *err)
{
    struct wn_buf line = {0};
    bool ok = !r->on || (begin(r, err) && file_line(file, part, seal, &line, err) && add_line(r, &line, err));

    wn_buf_release(&line);
    return ok;
}

void wn_resume_remove(struct wn_resume *r)
{
    if (r->on && r->path && !wn_file_refuses())
        (void)wn_path_remove(r->path);
}

void wn_resume_release(struct wn_resume *r)
{
    wn_appended_close(&r->log);
    free(r->path);
    *r = (struct wn_resume){0};
}
