/*
 * What a GGUF says of itself from hostile bytes: the record beside a small file that is as it should be. It may be
 * refused in words, but what is accepted tells of that file only, and kept lists are given for the parent alone that it
 * names.
 *
 * The first byte says what is done to the rest: '!' is the record as it is; anything else, and JSON gets the digest of
 * its own that belongs to it.
 */
#include "base/alloc.h"
#include "jobs/prune/seal_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64], record[128];
static struct wn_source *model, *parent;

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void clean_up(void)
{
    static const char *const names[] = {"m.gguf", "p.gguf", "m.gguf.winnow.json"};

    wn_source_close(model);
    wn_source_close(parent);
    for (size_t i = 0; i < 3; i++) {
        char path[128];

        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)remove(path);
    }
    (void)rmdir(folder);
}

/* A stack of so many experts, all zeros. */
static struct wn_source *put_model(const char *name, uint64_t experts)
{
    static const uint8_t zeros[1024];
    const struct wn_sink_options o = {0};
    const uint64_t shape[] = {experts, 1, 32};
    char path[128];
    struct wn_err err;
    struct wn_source *s;
    struct wn_sink *sink;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    sink = wn_sink_new(WN_CONTAINER_GGUF, path, &o, &err);
    must(sink);
    must(wn_sink_declare(sink, "blk.1.ffn_up_exps.weight", WN_F32, 3, shape, 0, &err) && wn_sink_begin(sink, &err) &&
         wn_sink_write(sink, zeros, (size_t)experts * 128, &err) && wn_sink_commit(sink, &err));
    wn_sink_free(sink);
    s = wn_source_open(path, &err);
    must(s);
    return s;
}

static void set_up(void)
{
    (void)snprintf(folder, sizeof folder, "/tmp/fuzz-record-XXXXXX");
    must(mkdtemp(folder));
    (void)snprintf(record, sizeof record, "%s/m.gguf.winnow.json", folder);
    model = put_model("m.gguf", 2);
    parent = put_model("p.gguf", 4);
    (void)atexit(clean_up);
}

/* With the right "record", where the text is an object; otherwise as it is. */
static void put_record(const uint8_t *data, size_t size)
{
    json_t *root = data[0] == '!' ? NULL : json_loadb((const char *)data + 1, size - 1, JSON_REJECT_DUPLICATES, NULL);
    char self[2 * WN_DIGEST_BYTES + 1];
    FILE *f = fopen(record, "wb");
    struct wn_err err;

    must(f);
    if (json_is_object(root)) {
        (void)json_object_del(root, "record");
        must(wn_seal_self(root, self, &err));
        (void)json_object_set_new(root, "record", json_string(self));
        must(json_dumpf(root, f, JSON_COMPACT) == 0);
    } else {
        must(fwrite(data + 1, 1, size - 1, f) == size - 1);
    }
    must(fclose(f) == 0);
    json_decref(root);
}

static void check(void)
{
    struct wn_verify_result r = {0};
    bool has_record;
    struct wn_err err;

    if (wn_seal_check(model, NULL, &has_record, &r, &err))
        must(has_record && r.hashed_files >= 1 && r.hashed_bytes >= wn_source_file_at(model, 0)->file.bytes);
    else
        must(err.msg[0] != 0 && err.code != WN_OK);
}

static void check_kept(void)
{
    json_t *of_parent = wn_seal_kept(model, parent), *of_itself = wn_seal_kept(model, model);
    char a[17], b[17];

    wn_source_fingerprint(parent, a);
    wn_source_fingerprint(model, b);
    must(strcmp(a, b) != 0);
    must(!of_parent || json_is_object(json_object_get(of_parent, "keep")));
    must(!of_itself || json_is_object(json_object_get(of_itself, "keep")));
    json_decref(of_parent);
    json_decref(of_itself);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!model)
        set_up();
    if (size == 0)
        return 0;
    put_record(data, size);
    check();
    check_kept();
    return 0;
}
