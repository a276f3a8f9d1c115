/*
 * A model being written: see sink.h. This file keeps the account (what was declared, where it goes, how much of it has
 * come) and owns the files; gguf_sink.c and safetensors_sink.c know what headers look like.
 *
 * begin looks at all outputs, so that one that exists already is found before hours of work. They are opened one after
 * the other and closed as soon as they are complete, since a model may have more files than a process may have open;
 * only the first stays open, for its lock, which keeps another winnow away from all of them. Each stays a .part until
 * commit. A failed write leaves the sink good for nothing but wn_sink_free.
 */
#include "formats/sink.h"
#include "formats/sink_parts.h"
#include "base/alloc.h"
#include "base/checked.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOURNAL WN_PLACING_NAME

struct wn_sink *wn_sink_new(enum wn_container container, const char *out, const struct wn_sink_options *o,
                            struct wn_err *err)
{
    struct wn_sink *s = wn_alloc(1, sizeof *s, err);

    if (!s)
        return NULL;
    s->container = container;
    s->writer = container == WN_CONTAINER_GGUF ? &wn_gguf_writer : &wn_safetensors_writer;
    s->o = *o;
    s->out = wn_strdup(out, err);
    if (!s->out) {
        free(s);
        return NULL;
    }
    return s;
}

/* Sets t->bytes; rows must be whole blocks of the type. */
static bool find_bytes(struct wn_tensor *t, struct wn_err *err)
{
    const struct wn_type_info *type = wn_type_info(t->type);
    uint64_t elements, row = t->dims ? t->shape[t->dims - 1] : 1;

    if (!wn_shape_elements(t->dims, t->shape, &elements))
        return wn_fail(err, WN_ERR_ARG, "its shape overflows 63 bits");
    if (row % type->block_elements != 0 || !wn_type_bytes(t->type, elements, &t->bytes))
        return wn_fail(err, WN_ERR_ARG, "rows of %" PRIu64 " elements are not whole blocks of %s (%" PRIu32 ")", row,
                       type->name, type->block_elements);
    return true;
}

static bool fill_tensor(struct wn_tensor *t, uint32_t dims, const uint64_t *shape, struct wn_err *err)
{
    if (dims > WN_DIMS)
        return wn_fail(err, WN_ERR_ARG, "%" PRIu32 " dimensions: at most %d are kept", dims, WN_DIMS);
    t->dims = dims;
    for (uint32_t d = 0; d < WN_DIMS; d++)
        t->shape[d] = d < dims ? shape[d] : 1;
    return find_bytes(t, err);
}

bool wn_sink_declare(struct wn_sink *s, const char *name, enum wn_type type, uint32_t dims, const uint64_t *shape,
                     uint32_t file, struct wn_err *err)
{
    struct wn_tensor t = {.name = name, .type = type, .file = file};

    assert(s->state == WN_SINK_DECLARING);
    if (s->tensors.n > 0 && file < s->tensors.at[s->tensors.n - 1].file)
        return wn_fail(err, WN_ERR_ARG, "tensor '%s': file %" PRIu32 " after a tensor of file %" PRIu32, name, file,
                       s->tensors.at[s->tensors.n - 1].file);
    if (file > UINT16_MAX)
        return wn_fail(err, WN_ERR_ARG, "tensor '%s': file %" PRIu32 " is beyond the last possible one (%d)", name,
                       file, UINT16_MAX);
    if (!fill_tensor(&t, dims, shape, err) || !s->writer->check(&t, err))
        return wn_fail_in(err, "tensor '%s'", name);
    t.at = s->names.n;
    return wn_buf_add(&s->names, name, strlen(name) + 1, err) && wn_tensor_list_add(&s->tensors, &t, err);
}

void wn_sink_file_count_at_least(struct wn_sink *s, uint32_t n)
{
    assert(s->state == WN_SINK_DECLARING);
    if (s->at_least < n)
        s->at_least = n;
}

/* The names stand still from now on. */
static bool fix_names(struct wn_sink *s, struct wn_err *err)
{
    struct wn_name_table table;
    struct wn_tensor *t = s->tensors.at;
    bool ok = true;

    for (size_t i = 0; i < s->tensors.n; i++)
        t[i].name = s->names.at + t[i].at;
    if (!wn_name_table_init(&table, s->tensors.n, err))
        return false;
    for (size_t i = 0; ok && i < s->tensors.n; i++) {
        size_t before;

        ok = wn_name_table_add(&table, t, i, &before, err) &&
             (before == WN_NAME_NONE || wn_fail(err, WN_ERR_ARG, "tensor '%s' was declared twice", t[i].name));
    }
    wn_name_table_release(&table);
    return ok;
}

static bool make_files(struct wn_sink *s, struct wn_err *err)
{
    uint32_t used = s->tensors.n ? s->tensors.at[s->tensors.n - 1].file + 1 : 1;

    s->file_count = used > s->at_least ? used : s->at_least;
    s->files = wn_alloc(s->file_count, sizeof *s->files, err);
    if (!s->files) {
        s->file_count = 0;
        return false;
    }
    for (uint32_t f = 0; f < s->file_count; f++) {
        s->files[f].out.fd = -1;
        s->files[f].alignment = 1;
    }
    for (size_t i = 0; i < s->tensors.n; i++) {
        struct wn_sink_file *f = &s->files[s->tensors.at[i].file];

        if (f->count++ == 0)
            f->first = i;
    }
    return true;
}

/* Where each tensor of a file lies in its data section; *data_bytes of that section. */
static bool place_tensors(const struct wn_sink *s, const struct wn_sink_file *f, uint64_t *data_bytes,
                          struct wn_err *err)
{
    *data_bytes = 0;
    for (size_t i = f->first; i < f->first + f->count; i++) {
        struct wn_tensor *t = &s->tensors.at[i];
        uint64_t end;

        t->at = *data_bytes;
        if (!wn_add_u64(t->at, t->bytes, &end) || !wn_align_u64(end, f->alignment, data_bytes) ||
            *data_bytes > INT64_MAX / 2)
            return wn_fail(err, WN_ERR_ARG, "'%s' would be larger than a file can be", f->path);
    }
    return true;
}

/* Computes a file's name and sizes. */
static bool begin_file(struct wn_sink *s, uint32_t number, struct wn_buf *header, struct wn_err *err)
{
    struct wn_sink_file *f = &s->files[number];
    uint64_t data_bytes;

    f->path = s->writer->path(s, number, err);
    header->n = 0;
    if (!f->path || !place_tensors(s, f, &data_bytes, err) || !s->writer->header(s, number, header, err))
        return false;
    f->header_bytes = header->n;
    f->bytes = header->n + data_bytes;
    s->total_bytes += f->bytes;
    return s->o.dry_run || wn_outfile_may_open(f->path, s->o.overwrite, err);
}

static bool begin_index(struct wn_sink *s, struct wn_buf *text, struct wn_err *err)
{
    text->n = 0;
    if (!wn_safetensors_index(s, text, err))
        return false;
    s->total_bytes += text->n;
    if (s->o.dry_run)
        return true;
    return wn_outfile_open(&s->index, s->index_path, s->o.overwrite, err) &&
           wn_outfile_write(&s->index, text->at, text->n, err);
}

static bool open_file(struct wn_sink *s, uint32_t number, struct wn_err *err)
{
    struct wn_sink_file *f = &s->files[number];
    struct wn_buf header = {0};
    bool ok = s->writer->header(s, number, &header, err) && wn_outfile_open(&f->out, f->path, s->o.overwrite, err) &&
              wn_outfile_write(&f->out, header.at, header.n, err);

    assert(!ok || header.n == f->header_bytes);
    wn_buf_release(&header);
    return ok;
}

static bool complete_file(struct wn_sink *s, uint32_t number, struct wn_err *err)
{
    struct wn_outfile *out = &s->files[number].out;

    assert(out->at == s->files[number].bytes);
    if (!(number == 0 ? wn_outfile_sync(out, err) : wn_outfile_finish(out, err)))
        return false;
    if (s->o.complete && !s->o.complete(s->o.arg, number, out->part, err))
        return false;
    if (s->o.keep) {
        wn_outfile_keep(out);
        s->kept = number + 1;
    }
    return true;
}

/* What an earlier run has left: the first file stays open as ever, for its lock. */
static bool take_up(struct wn_sink *s, struct wn_err *err)
{
    assert(s->o.taken <= s->file_count);
    for (; s->opened < s->o.taken; s->opened++) {
        struct wn_sink_file *f = &s->files[s->opened];

        if (!wn_outfile_adopt(&f->out, f->path, s->o.overwrite, f->bytes, s->opened == 0, err))
            return false;
        s->kept = s->o.keep ? s->opened + 1 : 0;
        s->current += f->count;
    }
    return true;
}

/* Opens the file of the current tensor; those before it, which may have no tensors, are complete. */
static bool turn_to_file(struct wn_sink *s, struct wn_err *err)
{
    uint32_t wanted = s->current < s->tensors.n ? s->tensors.at[s->current].file : s->file_count;

    while (s->opened <= wanted) {
        if (s->opened > s->o.taken && !complete_file(s, s->opened - 1, err))
            return false;
        if (s->opened == s->file_count)
            return true;
        if (!open_file(s, s->opened++, err))
            return false;
    }
    return true;
}

/* Goes past tensors that are complete, with the padding behind each (a hole, which reads as zeros). */
static bool go_on(struct wn_sink *s, struct wn_err *err)
{
    if (!turn_to_file(s, err))
        return false;
    while (s->current < s->tensors.n && s->given == s->tensors.at[s->current].bytes) {
        struct wn_sink_file *f = &s->files[s->tensors.at[s->current].file];
        uint64_t past = s->given & (f->alignment - 1);

        if (past && !wn_outfile_skip(&f->out, f->alignment - past, err))
            return false;
        s->current++;
        s->given = 0;
        if (!turn_to_file(s, err))
            return false;
    }
    return true;
}

static bool begin(struct wn_sink *s, struct wn_err *err)
{
    struct wn_buf text = {0};
    bool ok = fix_names(s, err) && make_files(s, err) && s->writer->settle(s, err);

    for (uint32_t f = 0; ok && f < s->file_count; f++)
        ok = begin_file(s, f, &text, err);
    if (ok && s->index_path)
        ok = begin_index(s, &text, err);
    wn_buf_release(&text);
    ok = ok && (s->journal = s->container == WN_CONTAINER_SAFETENSORS
                                 ? wn_path_join(s->out, JOURNAL, err)
                                 : wn_asprintf(err, "%s." JOURNAL, s->files[0].path)) != NULL;
    return ok && (s->o.dry_run || (take_up(s, err) && go_on(s, err)));
}

bool wn_sink_begin(struct wn_sink *s, struct wn_err *err)
{
    bool ok;

    assert(s->state == WN_SINK_DECLARING);
    ok = begin(s, err);
    s->state = ok ? WN_SINK_WRITING : WN_SINK_FAILED;
    return ok;
}

uint64_t wn_sink_total_bytes(const struct wn_sink *s)
{
    return s->total_bytes;
}

uint32_t wn_sink_file_count(const struct wn_sink *s)
{
    return s->file_count;
}

uint64_t wn_sink_file_bytes(const struct wn_sink *s, uint32_t file)
{
    assert(file < s->file_count);
    return s->files[file].bytes;
}

const char *wn_sink_file_path(const struct wn_sink *s, uint32_t file)
{
    assert(file < s->file_count);
    return s->files[file].path;
}

size_t wn_sink_tensor_count(const struct wn_sink *s)
{
    return s->tensors.n;
}

struct wn_tensor wn_sink_tensor(const struct wn_sink *s, size_t i)
{
    struct wn_tensor t = s->tensors.at[i];

    t.at += s->files[t.file].header_bytes;
    return t;
}

size_t wn_sink_tensors_taken(const struct wn_sink *s)
{
    size_t n = 0;

    for (uint32_t f = 0; f < s->o.taken; f++)
        n += s->files[f].count;
    return n;
}

uint32_t wn_sink_current(const struct wn_sink *s, const char **part, uint64_t *bytes)
{
    uint32_t file = s->opened - 1;

    assert(s->opened > 0);
    *part = s->files[file].out.part;
    *bytes = s->files[file].out.at;
    return file;
}

const char *wn_sink_index_path(const struct wn_sink *s)
{
    return s->index_path;
}

const struct wn_outfile *wn_sink_index(const struct wn_sink *s)
{
    return s->index_path && !s->o.dry_run ? &s->index : NULL;
}

/* The file that takes the next n bytes; NULL when they may not come. */
static struct wn_outfile *next_file(struct wn_sink *s, uint64_t n, struct wn_err *err)
{
    const struct wn_tensor *t;

    if (s->state != WN_SINK_WRITING || s->o.dry_run) {
        wn_fail(err, WN_ERR_ARG, "'%s': %s", s->out,
                s->o.dry_run ? "a dry run takes no data" : "it was not begun, or has failed");
        return NULL;
    }
    if (s->current == s->tensors.n) {
        wn_fail(err, WN_ERR_ARG, "'%s': %" PRIu64 " bytes behind the last tensor", s->out, n);
        return NULL;
    }
    t = &s->tensors.at[s->current];
    if (n > t->bytes - s->given) {
        wn_fail(err, WN_ERR_ARG, "tensor '%s': %" PRIu64 " bytes, only %" PRIu64 " of its %" PRIu64 " are left",
                t->name, n, t->bytes - s->given, t->bytes);
        return NULL;
    }
    return &s->files[t->file].out;
}

/* Books n bytes that were written, or the failure. */
static bool book(struct wn_sink *s, bool ok, uint64_t n, struct wn_err *err)
{
    s->given += n;
    ok = ok && go_on(s, err);
    if (!ok)
        s->state = WN_SINK_FAILED;
    return ok;
}

bool wn_sink_write(struct wn_sink *s, const void *bytes, size_t n, struct wn_err *err)
{
    struct wn_outfile *out;

    if (n == 0)
        return true;
    out = next_file(s, n, err);
    return out && book(s, wn_outfile_write(out, bytes, n, err), n, err);
}

bool wn_sink_copy(struct wn_sink *s, const struct wn_source *from, const struct wn_tensor *t, uint64_t at, uint64_t n,
                  struct wn_err *err)
{
    struct wn_outfile *out;

    if (!wn_span_fits(at, n, t->bytes))
        return wn_fail(err, WN_ERR_ARG, "tensor '%s': %" PRIu64 " bytes at %" PRIu64 " of its %" PRIu64, t->name, n, at,
                       t->bytes);
    if (n == 0)
        return true;
    out = next_file(s, n, err);
    return out && book(s, wn_outfile_copy(out, &wn_source_file_at(from, t->file)->file, t->at + at, n, err), n, err);
}

void wn_sink_free(struct wn_sink *s)
{
    if (!s)
        return;
    for (uint32_t f = 0; f < s->file_count; f++) {
        if (f < s->kept)
            wn_outfile_leave(&s->files[f].out);
        else
            wn_outfile_abandon(&s->files[f].out);
        free(s->files[f].path);
    }
    wn_outfile_abandon(&s->index);
    for (size_t i = 0; i < s->beside_count; i++) {
        wn_outfile_abandon(&s->beside[i].out);
        free(s->beside[i].path);
    }
    free(s->beside);
    free(s->journal);
    /* fails when somebody else has put something there, which is then none of ours */
    if (s->made_folder && s->state != WN_SINK_COMMITTED)
        (void)wn_path_remove_folder(s->out);
    free(s->files);
    free(s->index_path);
    free(s->out);
    wn_tensor_list_release(&s->tensors);
    wn_buf_release(&s->names);
    free(s);
}
