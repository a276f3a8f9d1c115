/*
 * How safetensors are written: see sink_parts.h. Headers are compact JSON, padded with spaces to a multiple of 8;
 * tensors lie one behind the other in the order in which they were declared. The index is JSON indented by one space,
 * names sorted bytewise, as the reference numbers' folders have it.
 */
#include "formats/sink_parts.h"
#include "base/bits.h"
#include "formats/safetensors.h"
#include "formats/safetensors_index.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SINGLE_NAME "model" WN_SAFETENSORS_SUFFIX

static bool is_utf8(const char *s)
{
    return wn_utf8_is_valid(s, strlen(s));
}

static bool check(const struct wn_tensor *t, struct wn_err *err)
{
    if (!t->name[0] || strcmp(t->name, "__metadata__") == 0 || !is_utf8(t->name))
        return wn_fail(err, WN_ERR_ARG, "safetensors cannot have a tensor of that name");
    if (!wn_type_info(t->type)->safetensors)
        return wn_fail(err, WN_ERR_ARG, "safetensors has no type %s", wn_type_info(t->type)->name);
    return true;
}

/* The name of a file, which is given or made in `room`. */
static const char *file_name(const struct wn_sink *s, uint32_t file, char room[64])
{
    if (s->o.file_names)
        return s->o.file_names[file];
    if (!s->index_path)
        return SINGLE_NAME;
    (void)snprintf(room, 64, "model-%05" PRIu32 "-of-%06" PRIu32 WN_SAFETENSORS_SUFFIX, file + 1, s->file_count);
    return room;
}

static bool is_ours(const struct wn_sink *s, const char *name)
{
    char room[64];

    for (uint32_t f = 0; f < s->file_count; f++)
        if (strcmp(name, file_name(s, f, room)) == 0)
            return true;
    return false;
}

/* Moves *s behind some digits; false when there are none. */
static bool skip_digits(const char **s)
{
    size_t n = strspn(*s, "0123456789");

    *s += n;
    return n > 0;
}

/* model.safetensors and model-N-of-N.safetensors. */
bool wn_safetensors_usual(const char *name)
{
    if (strcmp(name, SINGLE_NAME) == 0)
        return true;
    if (!wn_starts_with(name, "model-"))
        return false;
    name += strlen("model-");
    if (!skip_digits(&name) || !wn_starts_with(name, "-of-"))
        return false;
    name += strlen("-of-");
    return skip_digits(&name) && strcmp(name, WN_SAFETENSORS_SUFFIX) == 0;
}

/*
 * Whether a file that stands in the folder may stay beside ours, or goes when ours stand. Without an index every
 * *.safetensors of a folder counts as part of the model; with one, loaders that do not look at it still read all of
 * those that have the usual names.
 */
static bool may_stay(const struct wn_sink *s, const char *name)
{
    if (strcmp(name, WN_SAFETENSORS_INDEX) == 0)
        return s->index_path || s->o.overwrite;
    if (!wn_ends_with(name, WN_SAFETENSORS_SUFFIX) || is_ours(s, name))
        return true;
    return s->o.overwrite && (s->index_path || wn_safetensors_usual(name));
}

/* What would be misread afterwards is refused before. What we write ourselves is minded when it is opened. */
static bool check_folder(const struct wn_sink *s, struct wn_err *err)
{
    char **names;
    size_t n;
    bool ok = true;

    if (!wn_path_is_folder(s->out))
        return true;
    if (!wn_path_list(s->out, &names, &n, err))
        return false;
    for (size_t i = 0; ok && i < n; i++)
        ok = may_stay(s, names[i]) ||
             wn_fail(err, WN_ERR_ARG, "folder '%s' holds '%s', which would be read as part of the model", s->out,
                     names[i]);
    wn_names_free(names, n);
    return ok;
}

static bool check_names(const struct wn_sink *s, struct wn_err *err)
{
    if (s->o.file_names && s->o.file_name_count != s->file_count)
        return wn_fail(err, WN_ERR_ARG, "names for %" PRIu32 " files, there are %" PRIu32, s->o.file_name_count,
                       s->file_count);
    return true;
}

static bool settle(struct wn_sink *s, struct wn_err *err)
{
    if (!check_names(s, err))
        return false;
    if (s->file_count > 1 || s->o.write_index) {
        s->index_path = wn_path_join(s->out, WN_SAFETENSORS_INDEX, err);
        if (!s->index_path)
            return false;
    }
    if (!check_folder(s, err))
        return false;
    if (s->o.dry_run)
        return true;
    s->made_folder = !wn_path_exists(s->out);
    return wn_path_make_folder(s->out, err);
}

static bool is_stale(const struct wn_sink *s, const char *name)
{
    return strcmp(name, WN_SAFETENSORS_INDEX) == 0 ? !s->index_path : wn_safetensors_usual(name) && !is_ours(s, name);
}

bool wn_safetensors_stale(const struct wn_sink *s, char ***names, size_t *n, struct wn_err *err)
{
    size_t all, kept = 0;

    if (!wn_path_list(s->out, names, &all, err))
        return false;
    for (size_t i = 0; i < all; i++) {
        if (is_stale(s, (*names)[i]))
            (*names)[kept++] = (*names)[i];
        else
            free((*names)[i]);
    }
    *n = kept;
    return true;
}

static char *path(const struct wn_sink *s, uint32_t file, struct wn_err *err)
{
    char room[64];

    return wn_path_join(s->out, file_name(s, file, room), err);
}

static bool put(struct wn_buf *b, const char *s, struct wn_err *err)
{
    return wn_buf_add(b, s, strlen(s), err);
}

static bool put_number(struct wn_buf *b, uint64_t v, struct wn_err *err)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, v);

    return wn_buf_add(b, digits, (size_t)n, err);
}

static bool put_escape(struct wn_buf *b, char c, struct wn_err *err)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *which = strchr(from, c);
    char text[8];

    if (which)
        (void)snprintf(text, sizeof text, "\\%c", to[which - from]);
    else
        (void)snprintf(text, sizeof text, "\\u%04x", (unsigned)(unsigned char)c);
    return put(b, text, err);
}

/* Quoted and escaped; what needs no escape is added in one piece. */
static bool put_string(struct wn_buf *b, const char *s, struct wn_err *err)
{
    if (!put(b, "\"", err))
        return false;
    while (*s) {
        size_t plain = 0;

        while ((unsigned char)s[plain] >= 0x20 && s[plain] != '"' && s[plain] != '\\')
            plain++;
        if (!wn_buf_add(b, s, plain, err))
            return false;
        s += plain;
        if (*s && !put_escape(b, *s++, err))
            return false;
    }
    return put(b, "\"", err);
}

static bool put_metadata(const struct wn_sink *s, struct wn_buf *b, struct wn_err *err)
{
    if (!put(b, "\"__metadata__\":{", err))
        return false;
    for (const char *const *m = s->o.metadata; m[0]; m += 2) {
        if (!is_utf8(m[0]) || !is_utf8(m[1]))
            return wn_fail(err, WN_ERR_ARG, "'__metadata__' must be UTF-8");
        if ((m != s->o.metadata && !put(b, ",", err)) || !put_string(b, m[0], err) || !put(b, ":", err) ||
            !put_string(b, m[1], err))
            return false;
    }
    return put(b, "}", err);
}

static bool put_tensor(const struct wn_tensor *t, struct wn_buf *b, struct wn_err *err)
{
    if (!put_string(b, t->name, err) || !put(b, ":{\"dtype\":\"", err) ||
        !put(b, wn_type_info(t->type)->safetensors, err) || !put(b, "\",\"shape\":[", err))
        return false;
    for (uint32_t d = 0; d < t->dims; d++)
        if ((d > 0 && !put(b, ",", err)) || !put_number(b, t->shape[d], err))
            return false;
    return put(b, "],\"data_offsets\":[", err) && put_number(b, t->at, err) && put(b, ",", err) &&
           put_number(b, t->at + t->bytes, err) && put(b, "]}", err);
}

static bool put_object(const struct wn_sink *s, const struct wn_sink_file *f, struct wn_buf *b, struct wn_err *err)
{
    bool first = true;

    if (!put(b, "{", err))
        return false;
    if (s->o.metadata && s->o.metadata[0]) {
        if (!put_metadata(s, b, err))
            return false;
        first = false;
    }
    for (size_t i = f->first; i < f->first + f->count; i++, first = false)
        if ((!first && !put(b, ",", err)) || !put_tensor(&s->tensors.at[i], b, err))
            return false;
    return put(b, "}", err);
}

static bool header(const struct wn_sink *s, uint32_t file, struct wn_buf *b, struct wn_err *err)
{
    char length[8] = {0};

    if (!wn_buf_add(b, length, sizeof length, err) || !put_object(s, &s->files[file], b, err))
        return false;
    while (b->n % 8 != 0)
        if (!put(b, " ", err))
            return false;
    if (b->n - 8 >= WN_SAFETENSORS_HEADER_LIMIT)
        return wn_fail(err, WN_ERR_ARG, "'%s': a header of %zu bytes, the format's limit is 100000000",
                       s->files[file].path, b->n - 8);
    wn_store_le(b->at, 8, b->n - 8);
    return true;
}

const struct wn_sink_writer wn_safetensors_writer = {check, settle, path, header};

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct wn_tensor *const *)a)->name, (*(const struct wn_tensor *const *)b)->name);
}

static const struct wn_tensor **sorted_by_name(const struct wn_sink *s, struct wn_err *err)
{
    const struct wn_tensor **sorted = wn_alloc(s->tensors.n, sizeof *sorted, err);

    if (!sorted)
        return NULL;
    for (size_t i = 0; i < s->tensors.n; i++)
        sorted[i] = &s->tensors.at[i];
    if (s->tensors.n > 1)
        qsort(sorted, s->tensors.n, sizeof *sorted, by_name);
    return sorted;
}

static bool put_weight_map(const struct wn_sink *s, const struct wn_tensor *const *sorted, struct wn_buf *b,
                           struct wn_err *err)
{
    for (size_t i = 0; i < s->tensors.n; i++) {
        char room[64];

        if (!put(b, i ? ",\n  " : "\n  ", err) || !put_string(b, sorted[i]->name, err) || !put(b, ": ", err) ||
            !put_string(b, file_name(s, sorted[i]->file, room), err))
            return false;
    }
    return put(b, s->tensors.n ? "\n }\n}" : "}\n}", err);
}

bool wn_safetensors_index(const struct wn_sink *s, struct wn_buf *b, struct wn_err *err)
{
    const struct wn_tensor **sorted = sorted_by_name(s, err);
    uint64_t total = 0;
    bool ok;

    if (!sorted)
        return false;
    for (size_t i = 0; i < s->tensors.n; i++)
        total += s->tensors.at[i].bytes;
    ok = put(b, "{\n \"metadata\": {\n  \"total_size\": ", err) && put_number(b, total, err) &&
         put(b, "\n },\n \"weight_map\": {", err) && put_weight_map(s, (const struct wn_tensor *const *)sorted, b, err);
    free(sorted);
    return ok;
}
