/* See prune_parts.h: what two runs must have in common for one to go on with the files of the other. */
#include "jobs/prune/prune_parts.h"

#include <inttypes.h>
#include <winnow/version.h>

static bool put_source(const struct wn_pruning *p, const struct wn_source *s, struct wn_buf *b, struct wn_err *err)
{
    char fingerprint[17];
    bool ok;

    wn_source_fingerprint(s, fingerprint);
    ok = wn_buf_printf(b, err, "winnow " WINNOW_VERSION " from %s consume %d\n", fingerprint, p->o->consume);
    for (size_t i = 0; ok && i < wn_source_file_count(s); i++) {
        const struct wn_file *f = &wn_source_file_at(s, i)->file;
        uint64_t bytes = f->bytes;
        int64_t changed = 0;

        /* what gives bytes away changes; its mark says who may go on */
        if (!p->o->consume)
            (void)wn_path_stamp(f->path, &bytes, &changed);
        ok = wn_buf_printf(b, err, "%s %" PRIu64 " %" PRId64 "\n", wn_path_name(f->path), bytes, changed);
    }
    return ok;
}

static bool put_plan(const struct wn_pruning *p, struct wn_buf *b, struct wn_err *err)
{
    for (uint32_t i = 0; i < p->keep.layer_count; i++) {
        const struct wn_keep_layer *l = &p->keep.layers[i];

        if (!wn_buf_printf(b, err, "layer %" PRIu32 " hi %" PRIu32 " lo-bits %" PRIu32 ":", l->layer, l->hi,
                           l->lo_bits))
            return false;
        for (uint32_t e = 0; e < l->count; e++)
            if (!wn_buf_printf(b, err, " %" PRIu32, l->keep[e]))
                return false;
    }
    return true;
}

/* Rows and means are bytes of no source. */
static bool put_ghosts(const struct wn_pruning *p, struct wn_buf *b, struct wn_err *err)
{
    return p->keep.ghosts == WN_GHOSTS_OFF ||
           wn_buf_printf(b, err, "\nghosts %s %s", wn_ghosts_name(p->keep.ghosts), p->means ? p->means->sha256 : "-");
}

static bool put_output(const struct wn_pruning *p, const struct wn_sink *dry, struct wn_buf *b, struct wn_err *err)
{
    bool ok = wn_buf_printf(b, err, "\nformat %d rest %u encoder %d\n", p->o->format, p->o->rest_bits, p->o->encoder);

    for (uint32_t f = 0; ok && f < wn_sink_file_count(dry); f++)
        ok = wn_buf_printf(b, err, "%s %" PRIu64 "\n", wn_path_name(wn_sink_file_path(dry, f)),
                           wn_sink_file_bytes(dry, f));
    for (size_t i = 0; ok && i < wn_sink_tensor_count(dry); i++) {
        struct wn_tensor t = wn_sink_tensor(dry, i);

        ok =
            wn_buf_printf(b, err, "%s %d %" PRIu32 " %" PRIu64 " %" PRIu64 "\n", t.name, t.type, t.file, t.at, t.bytes);
    }
    return ok;
}

bool wn_pruning_identity(const struct wn_pruning *p, const struct wn_sink *dry, uint8_t digest[WN_DIGEST_BYTES],
                         struct wn_err *err)
{
    struct wn_buf b = {0};
    bool ok = put_source(p, p->source, &b, err) && (!p->low || put_source(p, p->low, &b, err)) &&
              put_plan(p, &b, err) && put_ghosts(p, &b, err) && put_output(p, dry, &b, err) &&
              wn_hash_bytes(b.at, b.n, digest, err);

    wn_buf_release(&b);
    return ok;
}
