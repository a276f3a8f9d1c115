/*
 * How safetensors are written: see sink_parts.h. Headers are compact JSON, padded with spaces to a multiple of 8;
 * tensors lie one behind the other in the order in which they were declared. The index is JSON indented by one space,
 * names sorted bytewise, as the reference numbers' folders have it.
 */
#include "formats/sink_parts.h"
#include "base/bits.h"
#include "formats/safetensors.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_NAME  "model.safetensors.index.json"
#define SINGLE_NAME "model.safetensors"

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

/*
 * Without an index every *.safetensors of the folder counts as part of the model, and with a stale one none of ours:
 * what would be misread afterwards is refused before.
 */
static bool check_alone(const char *folder, struct wn_err *err)
{
    char **names;
    size_t n;
    bool ok = true;

    if (!wn_path_is_folder(folder))
        return true;
    if (!wn_path_list(folder, &names, &n, err))
        return false;
    for (size_t i = 0; ok && i < n; i++) {
        size_t length = strlen(names[i]);
        bool shard = length > 12 && strcmp(names[i] + length - 12, ".safetensors") == 0;

        if (strcmp(names[i], INDEX_NAME) == 0 || (shard && strcmp(names[i], SINGLE_NAME) != 0))
            ok = wn_fail(err, WN_ERR_ARG, "folder '%s' holds '%s', which would be read as part of the model", folder,
                         names[i]);
    }
    wn_names_free(names, n);
    return ok;
}

static bool settle(struct wn_sink *s, struct wn_err *err)
{
    if (s->file_count > 1 || s->o.write_index) {
        s->index_path = wn_path_join(s->out, INDEX_NAME, err);
        if (!s->index_path)
            return false;
    } else if (!check_alone(s->out, err)) {
        return false;
    }
    if (s->o.dry_run)
        return true;
    s->made_folder = !wn_path_exists(s->out);
    return wn_path_make_folder(s->out, err);
}

static void file_name(const struct wn_sink *s, uint32_t file, char out[64])
{
    if (s->index_path)
        (void)snprintf(out, 64, "model-%05" PRIu32 "-of-%06" PRIu32 ".safetensors", file + 1, s->file_count);
    else
        (void)snprintf(out, 64, SINGLE_NAME);
}

static char *path(const struct wn_sink *s, uint32_t file, struct wn_err *err)
{
    char name[64];

    file_name(s, file, name);
    return wn_path_join(s->out, name, err);
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
        char name[64];

        file_name(s, sorted[i]->file, name);
        if (!put(b, i ? ",\n  " : "\n  ", err) || !put_string(b, sorted[i]->name, err) || !put(b, ": \"", err) ||
            !put(b, name, err) || !put(b, "\"", err))
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
