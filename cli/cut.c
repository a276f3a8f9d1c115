/* See cut.h. */
#include "cut.h"

#include <inttypes.h>

static void print_result(const char *out, const struct wn_prune_result *r, bool dry_run)
{
    char source[32], bytes[40], tensor[40], size[32];

    say("%s: %s%" PRIu64 " tensors in %" PRIu32 " file%s\n", out, dry_run ? "would hold " : "", r->tensors, r->files,
        r->files == 1 ? "" : "s");
    say("source             %s\n", text_size(r->source_bytes, source, sizeof source));
    say("output             %s: %s bytes with headers, %s of tensors (%.1f %% of the source)\n",
        text_size(r->out_bytes, size, sizeof size), text_count(r->out_bytes, bytes, sizeof bytes),
        text_count(r->out_tensor_bytes, tensor, sizeof tensor),
        r->source_bytes ? 100.0 * (double)r->out_bytes / (double)r->source_bytes : 0);
    if (!dry_run)
        say("copied             in %.1f s, %s/s\n", r->seconds,
            text_size(r->seconds > 0 ? (uint64_t)((double)r->copied_bytes / r->seconds) : 0, size, sizeof size));
}

static json_t *json_result(const char *out, const struct wn_prune_result *r, bool dry_run)
{
    return json_pack("{so sb sI sI sI sI sI sI sf}", "out", json_text(out), "dry_run", dry_run, "source_bytes",
                     (json_int_t)r->source_bytes, "out_bytes", (json_int_t)r->out_bytes, "out_tensor_bytes",
                     (json_int_t)r->out_tensor_bytes, "files", (json_int_t)r->files, "tensors", (json_int_t)r->tensors,
                     "copied_bytes", (json_int_t)r->copied_bytes, "seconds", r->seconds);
}

int cut(const struct command *self, const char *source, const struct wn_plan *plan, const struct cut_options *o)
{
    struct wn_prune_options p = {.source = source,
                                 .out = o->out,
                                 .plan = plan,
                                 .overwrite = o->force,
                                 .dry_run = o->dry_run,
                                 .force_plan = o->force_plan};
    const char *inputs[] = {o->plan, source}; /* the source too: it may be one without a model */
    struct wn_job job = talk_job();
    struct wn_prune_result r;
    struct wn_model *m;
    struct wn_err err;
    bool ok;

    if (!o->out)
        return opt_wrong(self, "--out is missing");
    if (o->joined && o->shard_size)
        return opt_wrong(self, "--joined and --shard-size exclude each other");
    if (o->shard_size) {
        if (!opt_bytes(self, "shard-size", o->shard_size, &p.shard_bytes))
            return EXIT_USAGE;
        p.layout = WN_LAYOUT_SPLIT;
    } else if (o->joined) {
        p.layout = WN_LAYOUT_JOINED;
    }
    /* any mixture of experts is cut, also one that winnow does not compute: then there is no model to warn of */
    p.model = m = wn_model_open(source, &err);
    if (m)
        tell_warning(m);
    ok = wn_output_spares(o->out, inputs, 2, m, &err) && wn_prune(&p, &job, &r, &err);
    wn_model_close(m);
    if (!ok)
        return talk_failed(&err);
    talk_end_line();
    if (common.json)
        return print_json(json_result(o->out, &r, o->dry_run));
    print_result(o->out, &r, o->dry_run);
    return finish_output();
}
