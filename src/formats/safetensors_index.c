/*
 * See safetensors_index.h. K3's index is 59.8 MB with 497 220 lines that name 96 files. While it is scanned only
 * neighbours are compared: lines that follow one another mostly share a file. The names that are left are sorted and
 * numbered afterwards, so that the work stays n log n whatever the index says.
 */
#include "formats/safetensors_index.h"
#include "formats/json_scan.h"
#include "base/alloc.h"
#include "sys/file.h"

#include <stdlib.h>

#define INDEX_LIMIT ((uint64_t)1 << 30)

struct parse {
    struct wn_json json;
    struct wn_safetensors_index *index;
    size_t line_room;
    const char **runs; /* owned; the file of each run of lines, which the lines number until the files are sorted */
    size_t run_n, run_room;
    bool seen;
};

static bool add_run(struct parse *p, struct wn_bytes file)
{
    struct wn_err *err = p->json.err;
    const char **more;

    if (p->run_n > 0 && wn_bytes_is(file, p->runs[p->run_n - 1]))
        return true;
    if (file.n == 0 || strchr(file.at, '/') || strcmp(file.at, ".") == 0 || strcmp(file.at, "..") == 0)
        return wn_fail(err, WN_ERR_FORMAT, "'%.200s' is not the name of a file beside the index", file.at);
    if (p->run_n >= UINT32_MAX)
        return wn_fail(err, WN_ERR_FORMAT, "more tensors than winnow can number");
    more = wn_grow(p->runs, &p->run_room, p->run_n + 1, sizeof *more, err);
    if (!more)
        return false;
    p->runs = more;
    p->runs[p->run_n++] = file.at;
    return true;
}

/* wn_json_member */
static bool parse_line(void *arg, struct wn_bytes tensor)
{
    struct parse *p = arg;
    struct wn_safetensors_index *x = p->index;
    struct wn_safetensors_line *more;
    struct wn_bytes file;

    if (!wn_json_string(&p->json, &file) || !add_run(p, file))
        return false;
    more = wn_grow(x->lines, &p->line_room, x->line_n + 1, sizeof *more, p->json.err);
    if (!more)
        return false;
    x->lines = more;
    x->lines[x->line_n++] = (struct wn_safetensors_line){tensor.at, (uint32_t)(p->run_n - 1)};
    return true;
}

/* wn_json_member. A total_size that is no whole number is nobody's reason to refuse the model. */
static bool parse_metadata(void *arg, struct wn_bytes key)
{
    struct parse *p = arg;
    struct wn_json before = p->json;

    if (!wn_bytes_is(key, "total_size") || wn_json_u64(&p->json, &p->index->total_size))
        return wn_bytes_is(key, "total_size") || wn_json_skip(&p->json);
    p->index->total_size = UINT64_MAX;
    p->json = before;
    return wn_json_skip(&p->json);
}

static bool is_object(const struct wn_json *j)
{
    const char *at = j->at;

    while (at < j->end && strchr(" \t\r\n", *at))
        at++;
    return at < j->end && *at == '{';
}

/* wn_json_member */
static bool parse_key(void *arg, struct wn_bytes key)
{
    struct parse *p = arg;

    if (wn_bytes_is(key, "metadata") && is_object(&p->json))
        return wn_json_object(&p->json, parse_metadata, p);
    if (!wn_bytes_is(key, "weight_map"))
        return wn_json_skip(&p->json);
    if (p->seen)
        return wn_fail(p->json.err, WN_ERR_FORMAT, "'weight_map' occurs twice");
    p->seen = true;
    return wn_json_object(&p->json, parse_line, p);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool sort_files(struct parse *p)
{
    struct wn_safetensors_index *x = p->index;

    x->files = wn_alloc(p->run_n, sizeof *x->files, p->json.err);
    if (!x->files)
        return false;
    if (p->run_n == 0)
        return true;
    memcpy(x->files, p->runs, p->run_n * sizeof *x->files);
    qsort(x->files, p->run_n, sizeof *x->files, by_name);
    for (size_t i = 0; i < p->run_n; i++)
        if (i == 0 || strcmp(x->files[i], x->files[x->file_n - 1]) != 0)
            x->files[x->file_n++] = x->files[i];
    if (x->file_n > UINT16_MAX)
        return wn_fail(p->json.err, WN_ERR_FORMAT, "more than %d files", UINT16_MAX);
    return true;
}

/* Lines of one run are neighbours, so each run is looked up once. */
static void number_files(struct parse *p)
{
    struct wn_safetensors_index *x = p->index;
    uint32_t run = UINT32_MAX, file = 0;

    for (size_t i = 0; i < x->line_n; i++) {
        if (x->lines[i].file != run) {
            const char **found;

            run = x->lines[i].file;
            found = bsearch(&p->runs[run], x->files, x->file_n, sizeof *x->files, by_name);
            file = (uint32_t)(found - x->files);
        }
        x->lines[i].file = file;
    }
}

static bool parse_index(struct parse *p)
{
    if (!wn_json_object(&p->json, parse_key, p))
        return false;
    if (!p->seen)
        return wn_fail(p->json.err, WN_ERR_FORMAT, "'weight_map' is missing");
    if (!wn_json_end(&p->json) || !sort_files(p))
        return false;
    number_files(p);
    return true;
}

bool wn_safetensors_index_read(struct wn_safetensors_index *x, const char *path, struct wn_err *err)
{
    struct parse p = {.index = x};
    size_t n = 0;
    bool ok;

    *x = (struct wn_safetensors_index){.total_size = UINT64_MAX};
    x->text = wn_file_slurp(path, INDEX_LIMIT, &n, err);
    if (!x->text)
        return false;
    p.json = wn_json_of(x->text, n, err);
    ok = parse_index(&p);
    free(p.runs);
    return ok || wn_fail_in(err, "'%s'", path);
}

void wn_safetensors_index_release(struct wn_safetensors_index *x)
{
    free(x->text);
    free(x->files);
    free(x->lines);
    *x = (struct wn_safetensors_index){0};
}
