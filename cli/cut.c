/* See cut.h. */
#include "cut.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a dry run without --out: a place where nothing is, in nobody's folder. */
#define NOWHERE     "/winnow-dry-run"
#define SHARD_LEAST 65536 /* smaller files than that come of a forgotten unit */

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
    if (r->lo_weights)
        say("second banks       %s of it, from the second model: %.2f bits a weight\n",
            text_size(r->lo_bytes, size, sizeof size), 8 * (double)r->lo_bytes / (double)r->lo_weights);
    if (!dry_run && r->files_taken_up)
        say("taken up           %" PRIu32 " file%s that an earlier run finished\n", r->files_taken_up,
            r->files_taken_up == 1 ? "" : "s");
    if (!dry_run && r->copied_bytes)
        say("copied             in %.1f s, %s/s\n", r->seconds,
            text_size(r->seconds > 0 ? (uint64_t)((double)r->copied_bytes / r->seconds) : 0, size, sizeof size));
}

static json_t *json_result(const char *out, const struct wn_prune_result *r, bool dry_run)
{
    json_t *j = json_pack("{so sb sI sI sI sI sI sI sI sf}", "out", out ? json_text(out) : json_null(), "dry_run",
                          dry_run, "source_bytes", (json_int_t)r->source_bytes, "out_bytes", (json_int_t)r->out_bytes,
                          "out_tensor_bytes", (json_int_t)r->out_tensor_bytes, "files", (json_int_t)r->files, "tensors",
                          (json_int_t)r->tensors, "files_taken_up", (json_int_t)r->files_taken_up, "copied_bytes",
                          (json_int_t)r->copied_bytes, "seconds", r->seconds);

    if (!r->lo_weights)
        return j;
    j = json_put(j, "lo_bytes", json_integer((json_int_t)r->lo_bytes));
    return json_put(j, "lo_weights", json_integer((json_int_t)r->lo_weights));
}

/* What stands behind the last slash. */
static const char *plan_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

bool cut_take_format(const struct command *self, const struct cut_options *o, struct wn_prune_options *p)
{
    static const char *const formats[] = {"gguf", "hf", "mlx"}, *const encoders[] = {"fit", "minmax"},
                             *const bits[] = {"8", "2", "3", "4", "5", "6", "16"};
    int format, encoder, rest;

    if (!opt_word(self, "format", o->format, formats, 3, &format) ||
        !opt_word(self, "encoder", o->encoder, encoders, 2, &encoder) ||
        !opt_word(self, "rest-bits", o->rest_bits, bits, 7, &rest))
        return false;
    if (o->format)
        p->format = format == 0 ? WN_FORMAT_GGUF : format == 1 ? WN_FORMAT_HF : WN_FORMAT_MLX;
    if ((o->encoder || o->rest_bits) && p->format != WN_FORMAT_MLX) {
        (void)opt_wrong(self, "--%s goes with --format mlx", o->encoder ? "encoder" : "rest-bits");
        return false;
    }
    p->encoder = encoder == 0 ? WN_ENCODER_FIT : WN_ENCODER_MINMAX;
    p->rest_bits = (unsigned)strtoul(bits[rest], NULL, 10);
    return true;
}

/* --ghosts and --saliency of prune, --plain of convert. */
static bool take_ghosts(const struct command *self, const struct cut_options *o, struct wn_prune_options *p)
{
    if (!opt_ghosts(self, o->ghosts, &p->ghosts))
        return false;
    if (o->plain)
        p->ghosts = WN_GHOSTS_OFF;
    p->saliency = o->saliency;
    if (o->saliency && p->ghosts != WN_GHOSTS_MEAN)
        (void)opt_wrong(self, "--saliency has the means of --ghosts mean");
    else if (p->ghosts == WN_GHOSTS_MEAN && !o->saliency && !o->dry_run)
        (void)opt_wrong(self, "--ghosts mean needs --saliency, the archive that 'calibrate --means' wrote");
    else
        return true;
    return false;
}

/* The one option that destroys something. */
static bool take_consume(const struct command *self, const struct cut_options *o)
{
    if (o->consume && !o->yes && !o->dry_run)
        (void)opt_wrong(self, "--consume destroys the source's weights on the way; it needs --yes");
    else if (o->yes && !o->consume)
        (void)opt_wrong(self, "--yes goes with --consume");
    else if (o->consume && o->lo_model)
        (void)opt_wrong(self, "--consume and --lo-model exclude each other: each parent is whole without the other");
    else if (o->consume && (o->no_hash || o->force))
        (void)opt_wrong(self, "--consume and --%s exclude each other", o->no_hash ? "no-hash" : "force");
    else
        return true;
    return false;
}

int cut(const struct command *self, const char *source, const struct wn_plan *plan, const struct cut_options *o)
{
    struct wn_prune_options p = {.source = source,
                                 .lo_source = o->lo_model,
                                 .out = o->out ? o->out : NOWHERE,
                                 .plan = plan,
                                 .overwrite = o->force,
                                 .dry_run = o->dry_run,
                                 .force_plan = o->force_plan,
                                 .resume = true,
                                 .hashes = !o->no_hash,
                                 .plan_file = o->plan,
                                 .consume = o->consume};
    const char *inputs[] = {o->plan, source, o->lo_model,
                            o->saliency}; /* the source too: it may be one without a model */
    struct wn_job job = talk_job();
    struct wn_prune_result r;
    struct wn_model *m;
    struct wn_err err;
    bool ok;

    if (!o->out && !o->dry_run)
        return opt_wrong(self, "--out is missing");
    if (o->joined && o->shard_size)
        return opt_wrong(self, "--joined and --shard-size exclude each other");
    if (!take_consume(self, o))
        return EXIT_USAGE;
    if (o->shard_size) {
        if (!opt_bytes(self, "shard-size", o->shard_size, &p.shard_bytes))
            return EXIT_USAGE;
        if (p.shard_bytes < SHARD_LEAST)
            return opt_wrong(self,
                             "--shard-size %s: files of so few bytes are not meant; is a unit missing, like in 48GB?",
                             o->shard_size);
        p.layout = WN_LAYOUT_SPLIT;
    } else if (o->joined) {
        p.layout = WN_LAYOUT_JOINED;
    }
    if (!cut_take_format(self, o, &p) || !take_ghosts(self, o, &p))
        return EXIT_USAGE;
    p.plan_name = o->plan ? plan_name(o->plan) : NULL;
    /* any mixture of experts is cut, also one that winnow does not compute: then there is no model to warn of */
    p.model = m = wn_model_open(source, &err);
    if (m)
        tell_warning(m);
    ok = wn_output_spares(p.out, inputs, 4, m, &err) && (p.pool = make_pool(&err)) && wn_prune(&p, &job, &r, &err);
    wn_pool_free(p.pool);
    wn_model_close(m);
    if (!ok)
        return talk_failed(&err);
    talk_end_line();
    if (common.json)
        return print_json(json_result(o->out, &r, o->dry_run));
    print_result(o->out ? o->out : "the output", &r, o->dry_run);
    return finish_output();
}
