/*
 * winnow verify: the proof.
 */
#include "cli.h"

#include <inttypes.h>
#include <winnow/prune.h>

static struct {
    char *source, *plan, *lo_model, *saliency;
} o;

static const struct poptOption table[] = {
    {"source", 's', POPT_ARG_STRING, &o.source, 0, "the model that OUT was made from", "MODEL"},
    {"plan", 'p', POPT_ARG_STRING, &o.plan, 0, "the plan it was cut by (none: the identity)", "FILE"},
    {"lo-model", 0, POPT_ARG_STRING, &o.lo_model, 0, "of a build from two parents: the one of the second banks",
     "LO.gguf"},
    {"saliency", 0, POPT_ARG_STRING, &o.saliency, 0, "of a build whose ghosts have means: the archive they are from",
     "SAL.npz"},
    POPT_TABLEEND};

/* What was verified against what: a log that can be told from another build's. */
static json_t *put_what(json_t *j, const struct wn_plan *plan, const struct wn_verify_result *r)
{
    j = json_put(j, "model_fingerprint", json_text(r->fingerprint));
    j = json_put_record(j, r->record_sha256);
    j = json_put(j, "source", o.source ? json_text(o.source) : json_null());
    j = json_put(j, "source_fingerprint", o.source ? json_text(r->source_fingerprint) : json_null());
    if (o.lo_model) {
        j = json_put(j, "lo_model", json_text(o.lo_model));
        j = json_put(j, "lo_model_fingerprint", json_text(r->lo_fingerprint));
    }
    if (r->ghosts)
        j = json_put(j, "ghosts", json_integer((json_int_t)r->ghosts));
    if (o.saliency)
        j = json_put(j, "saliency", json_text(o.saliency));
    if (o.plan)
        j = json_put(j, "plan_sha256", json_text(plan->sha256));
    return json_put(j, "plan", o.plan ? json_text(o.plan) : json_null());
}

/* ", 224 ghosts", or nothing. */
static const char *ghosts_text(const struct wn_verify_result *r, char *text, size_t n)
{
    char count[40];

    *text = 0;
    if (r->ghosts)
        (void)snprintf(text, n, ", %s ghosts", text_count(r->ghosts, count, sizeof count));
    return text;
}

static int report(const char *out, bool ok, const struct wn_plan *plan, const struct wn_verify_result *r,
                  const struct wn_err *err)
{
    char tensors[40], experts[40], ghosts[60], bytes[32];
    const char *t = text_count(r->tensors, tensors, sizeof tensors),
               *e = text_count(r->experts, experts, sizeof experts);

    talk_end_line();
    if (common.json) {
        json_t *j =
            json_pack("{so sb so sI sI sI sI sb sb sI sI}", "out", json_text(out), "ok", ok, "difference",
                      json_text(ok ? "" : err->msg), "tensors", (json_int_t)r->tensors, "experts",
                      (json_int_t)r->experts, "bytes", (json_int_t)r->bytes, "bad_scales", (json_int_t)r->bad_scales,
                      "identical_files", r->identical_files, "parts_bound", r->parts_bound, "hashed_files",
                      (json_int_t)r->hashed_files, "hashed_bytes", (json_int_t)r->hashed_bytes);
        int code = print_json(put_what(j, plan, r));

        return ok ? code : EXIT_FAILED;
    }
    if (!ok)
        return talk_failed(err);
    if (o.source)
        say("%s: verified: %s tensors, %s experts%s, %s compared\n", out, t, e, ghosts_text(r, ghosts, sizeof ghosts),
            text_size(r->bytes, bytes, sizeof bytes));
    else if (r->hashed_files)
        say("%s: sound by itself (%s tensors, %s experts), and as its record says: SHA-256 of %" PRIu64 " files, %s\n",
            out, t, e, r->hashed_files, text_size(r->hashed_bytes, bytes, sizeof bytes));
    else
        say("%s: sound by itself (%s of %s tensors and %s experts); whether its bytes are the source's takes "
            "--source\n",
            out, r->parts_bound ? "names, shapes and counts" : "headers and counts", t, e);
    if (r->identical_files)
        say("every file is byte for byte its source\n");
    return finish_output();
}

static int run(const struct command *self, int argc, const char **argv)
{
    struct wn_verify_result r = {0};
    struct wn_job job = talk_job();
    struct wn_plan plan = {0};
    struct wn_err err;
    const char **args;
    bool ok;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 1, 1, &args, &n, &code))
        return code;
    if (o.plan && !o.source)
        return opt_wrong(self, "--plan needs --source");
    if (o.saliency && !o.plan)
        return opt_wrong(self, "--saliency needs --source and --plan, which says who became a ghost");
    if (o.lo_model && !o.plan)
        return opt_wrong(self, "--lo-model needs --source and --plan, which says what came from it");
    if (o.plan && !wn_plan_read(&plan, o.plan, &err))
        return talk_failed(&err);
    ok = wn_verify_all(&(struct wn_verify_options){.out = model_path(args[0]),
                                                   .source = o.source ? model_path(o.source) : NULL,
                                                   .lo_source = o.lo_model,
                                                   .plan = o.plan ? &plan : NULL,
                                                   .saliency = o.saliency},
                       &job, &r, &err);
    code = !ok && err.code != WN_ERR_DIFFERENT ? talk_failed(&err) : report(args[0], ok, &plan, &r, &err);
    wn_plan_release(&plan);
    return code;
}

const struct command cmd_verify = {"verify", "OUT [--source MODEL [--plan PLAN.json]]",
                                   "prove that an output is what its source and plan say", run,
                                   "Kimi-K3-640 --source Kimi-K3 --plan plan.json"};
