/* See recast.h: which file each tensor goes to, and what those are called. */
#include "base/alloc.h"
#include "base/checked.h"
#include "jobs/convert/recast.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MLX_SHARD_BYTES ((uint64_t)5 << 30)
#define GGUF_ALIGNMENT  32

/* A file is closed before it would exceed shard_bytes; one of an MLX folder also with its layer. */
static void lay_out(struct wn_recast_out *o, bool joined, uint64_t shard_bytes)
{
    bool mlx = o->recast.form == &wn_recast_form_mlx;
    uint64_t in_file = 0, limit = joined ? 0 : shard_bytes ? shard_bytes : mlx ? MLX_SHARD_BYTES : 0;

    for (size_t i = 0; i < o->list.n; i++) {
        const struct wn_recast_tensor *t = &o->list.tensors[i];
        uint64_t bytes = wn_recast_bytes(t);
        uint64_t padded = mlx ? bytes : (bytes + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
        bool new_layer = mlx && i > 0 && t->layer != t[-1].layer;

        if (limit && in_file > 0 && (new_layer || in_file + padded > limit)) {
            o->files++;
            in_file = 0;
        }
        in_file += padded;
        o->file[i] = o->files;
        o->bytes += bytes;
    }
    o->files++;
}

/* Five digits on both sides, where HF has six on the second. */
static bool name_shards(struct wn_recast_out *o, struct wn_err *err)
{
    if (o->recast.form != &wn_recast_form_mlx || o->files == 1)
        return true;
    o->names = wn_alloc(o->files, sizeof *o->names, err);
    for (uint32_t f = 0; o->names && f < o->files; f++) {
        o->names[f] = wn_asprintf(err, "model-%05" PRIu32 "-of-%05" PRIu32 ".safetensors", f + 1, o->files);
        if (!o->names[f])
            return false;
    }
    return o->names != NULL;
}

bool wn_recast_out_init(struct wn_recast_out *o, const struct wn_recast *r, bool joined, uint64_t shard_bytes,
                        struct wn_err *err)
{
    bool ok;

    *o = (struct wn_recast_out){.recast = *r};
    ok = wn_recast_list(r, &o->list, err) && (o->file = wn_alloc(o->list.n, sizeof *o->file, err)) != NULL;
    if (ok) {
        lay_out(o, joined, shard_bytes);
        ok = name_shards(o, err) && (r->form != &wn_recast_form_gguf || wn_recast_kv(r, &o->list, &o->kv, err));
    }
    if (!ok)
        wn_recast_out_release(o);
    return ok;
}

uint64_t wn_recast_memory(const struct wn_recast_out *o, unsigned threads)
{
    uint64_t most = 0;

    for (size_t i = 0; i < o->list.n; i++) {
        uint64_t n = wn_recast_stream_memory(&o->list.tensors[i], threads);

        most = n > most ? n : most;
    }
    return most;
}

void wn_recast_out_release(struct wn_recast_out *o)
{
    for (uint32_t f = 0; o->names && f < o->files; f++)
        free(o->names[f]);
    free(o->names);
    free(o->file);
    wn_recast_kv_release(&o->kv);
    wn_recast_list_release(&o->list);
    *o = (struct wn_recast_out){0};
}
