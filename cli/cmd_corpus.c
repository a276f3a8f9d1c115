/*
 * winnow corpus: texts of several sources, mixed by shares of tokens, for calibrate.
 */
#include "cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <winnow/corpus.h>
#include <winnow/model.h>

static struct {
    char *out, *model;
    long long tokens, seed;
    int document_tokens, dry_run, unfiltered, force;
} o = {.tokens = OPT_UNSET, .seed = OPT_UNSET, .document_tokens = OPT_UNSET};

static const struct poptOption table[] = {
    {"out", 'o', POPT_ARG_STRING, &o.out, 0, "where the corpus goes; must not exist", "FILE.jsonl"},
    {"model", 'm', POPT_ARG_STRING, &o.model, 0, "whose tokens are meant (default: k3-mini)", "MODEL"},
    {"tokens", 'n', POPT_ARG_LONGLONG, &o.tokens, 0, "at most N tokens (default: all that the shares allow)", "N"},
    {"document-tokens", 0, POPT_ARG_INT, &o.document_tokens, 0, "longer documents are cut (default 2048)", "N"},
    {"seed", 0, POPT_ARG_LONGLONG, &o.seed, 0, "another draw of documents (default 0)", "N"},
    {"unfiltered", 0, POPT_ARG_NONE, &o.unfiltered, 0, "take damaged and repetitive text too", NULL},
    {"dry-run", 0, POPT_ARG_NONE, &o.dry_run, 0, "say what it would hold, then stop", NULL},
    {"force", 'f', POPT_ARG_NONE, &o.force, 0, "overwrite the output", NULL},
    POPT_TABLEEND};

static double percent(uint64_t part, uint64_t of)
{
    return of ? 100.0 * (double)part / (double)of : 0;
}

static double per_token(const struct wn_mix_count *c)
{
    return c->tokens ? (double)c->bytes / (double)c->tokens : 0;
}

static void print_row(const char *label, const struct wn_mix_count *c, double wanted, double got)
{
    char documents[40], tokens[40];

    say("%-16s %10s %14s %8.2f %% %8.2f %% %12.2f\n", label, text_count(c->documents, documents, sizeof documents),
        text_count(c->tokens, tokens, sizeof tokens), wanted, got, per_token(c));
}

static uint64_t tokens_of_script(const struct wn_mix_taken *t, unsigned script)
{
    return t->tokens[script];
}

static uint64_t chars_of_script(const struct wn_mix_taken *t, unsigned script)
{
    return t->chars[script];
}

typedef uint64_t script_count_fn(const struct wn_mix_taken *t, unsigned script);

static uint64_t sum_of(const struct wn_mix_result *r, script_count_fn *count, unsigned script)
{
    uint64_t sum = 0;

    for (size_t s = 0; s < r->count; s++)
        sum += count(&r->sources[s], script);
    return sum;
}

/* A row for each source, a column for each script that occurs. */
static void print_scripts(const struct wn_mix_result *r, const char *title, script_count_fn *count)
{
    say("\n%-16s", title);
    for (unsigned script = 0; script < WN_MIX_SCRIPTS; script++)
        if (sum_of(r, chars_of_script, script))
            say(" %10s", wn_mix_script_name(script));
    for (size_t s = 0; s < r->count; s++) {
        const struct wn_mix_taken *t = &r->sources[s];
        uint64_t all = 0;

        for (unsigned script = 0; script < WN_MIX_SCRIPTS; script++)
            all += count(t, script);
        say("\n  %-14s", t->label);
        for (unsigned script = 0; script < WN_MIX_SCRIPTS; script++)
            if (sum_of(r, chars_of_script, script))
                say(" %8.2f %%", percent(count(t, script), all));
    }
    putchar('\n');
}

static void print_dropped(const struct wn_mix_taken *t)
{
    char bytes[32];

    for (int why = 0; why < WN_MIX_DROPS; why++)
        if (t->dropped[why].documents)
            say("left out of %s: %" PRIu64 " document%s, %s: %s\n", t->label, t->dropped[why].documents,
                t->dropped[why].documents == 1 ? "" : "s", text_size(t->dropped[why].bytes, bytes, sizeof bytes),
                wn_mix_drop_name((enum wn_mix_drop)why));
    if (t->other)
        say("left out of %s: %" PRIu64 " line%s of other sources\n", t->label, t->other, t->other == 1 ? "" : "s");
}

static int print_result(const struct wn_mix_result *r)
{
    const struct wn_mix_taken *scarce = &r->sources[r->scarcest];
    char had[40], possible[40], size[32];

    for (size_t i = 0; i < r->warning_count; i++)
        talk("warning: %s", r->warnings[i]);
    say("%-16s %10s %14s %10s %10s %12s\n", "source", "documents", "tokens", "wanted", "got", "bytes/token");
    for (size_t s = 0; s < r->count; s++)
        print_row(r->sources[s].label, &r->sources[s].got, 100 * r->sources[s].share,
                  percent(r->sources[s].got.tokens, r->got.tokens));
    print_row("all", &r->got, 100, 100);
    print_scripts(r, "characters", chars_of_script);
    print_scripts(r, "tokens", tokens_of_script);
    say("\n'%s' is the scarcest: its %s tokens allow about %s at these shares\n", scarce->label,
        text_count(scarce->had.tokens, had, sizeof had), text_count(r->possible, possible, sizeof possible));
    for (size_t s = 0; s < r->count; s++)
        print_dropped(&r->sources[s]);
    if (o.dry_run)
        say("%s would be written\n", text_size(r->out_bytes, size, sizeof size));
    else
        say("%s: %s\n", o.out, text_size(r->out_bytes, size, sizeof size));
    return finish_output();
}

static json_t *json_count(const struct wn_mix_count *c)
{
    return json_pack("{sI sI sI}", "documents", (json_int_t)c->documents, "bytes", (json_int_t)c->bytes, "tokens",
                     (json_int_t)c->tokens);
}

static json_t *json_taken(const struct wn_mix_result *r, const struct wn_mix_taken *t)
{
    json_t *scripts = json_object(), *dropped = json_object();

    for (unsigned s = 0; s < WN_MIX_SCRIPTS; s++)
        if (t->chars[s] || t->tokens[s])
            scripts = json_put(
                scripts, wn_mix_script_name(s),
                json_pack("{sI sI}", "characters", (json_int_t)t->chars[s], "tokens", (json_int_t)t->tokens[s]));
    for (int why = 0; why < WN_MIX_DROPS; why++)
        if (t->dropped[why].documents)
            dropped = json_put(dropped, wn_mix_drop_name((enum wn_mix_drop)why),
                               json_pack("{sI sI}", "documents", (json_int_t)t->dropped[why].documents, "bytes",
                                         (json_int_t)t->dropped[why].bytes));
    return json_pack("{so sf sf sI so so so so sI}", "source", json_text(t->label), "share_wanted", t->share, "share",
                     percent(t->got.tokens, r->got.tokens) / 100, "files", (json_int_t)t->files, "taken",
                     json_count(&t->got), "available", json_count(&t->had), "scripts", scripts, "dropped", dropped,
                     "lines_of_other_sources", (json_int_t)t->other);
}

static json_t *json_result(const struct wn_mix_result *r)
{
    json_t *sources = json_array(), *warnings = json_array();

    for (size_t s = 0; s < r->count; s++)
        sources = json_add(sources, json_taken(r, &r->sources[s]));
    for (size_t i = 0; i < r->warning_count; i++)
        warnings = json_add(warnings, json_text(r->warnings[i]));
    return json_pack("{so? sb so so sI so sI sI so}", "out", o.out ? json_text(o.out) : NULL, "dry_run", o.dry_run,
                     "sources", sources, "taken", json_count(&r->got), "possible_tokens", (json_int_t)r->possible,
                     "scarcest", json_text(r->sources[r->scarcest].label), "longest_document", (json_int_t)r->longest,
                     "out_bytes", (json_int_t)r->out_bytes, "warnings", warnings);
}

/* A SPEC is LABEL=PATH..., or a JSON file that says it all. Files first, then what the command line says. */
static bool read_specs(const struct command *self, const char **args, struct wn_mix_spec *spec, int *code)
{
    struct wn_err err;

    for (size_t i = 0; args[i]; i++) {
        if (!strchr(args[i], '=')) {
            if (!wn_mix_spec_read(spec, args[i], &err)) {
                *code = talk_failed(&err);
                return false;
            }
        } else if (!wn_mix_spec_add(spec, args[i], &err)) {
            *code = opt_wrong(self, "%s", err.msg);
            return false;
        }
    }
    if (o.tokens != OPT_UNSET)
        spec->tokens = (uint64_t)o.tokens;
    if (o.document_tokens != OPT_UNSET)
        spec->document_tokens = (uint32_t)o.document_tokens;
    if (o.seed != OPT_UNSET)
        spec->seed = (uint64_t)o.seed;
    return true;
}

static int mix(const struct wn_mix_spec *spec, const char **args)
{
    struct wn_mix_options w = {
        .spec = spec, .out = o.dry_run ? NULL : o.out, .overwrite = o.force, .unfiltered = o.unfiltered};
    struct wn_job job = talk_job();
    struct wn_mix_result r;
    struct wn_model *m;
    struct wn_err err;
    size_t n = 0;
    int code;

    while (args[n])
        n++;
    m = wn_model_open(model_path(o.model ? o.model : spec->model), &err);
    if (!m)
        return talk_failed(&err);
    w.vocab = wn_model_vocab(m, &err);
    if (!w.vocab || (w.out && !wn_output_spares(w.out, args, n, m, &err)) || !wn_mix(&w, &job, &r, &err)) {
        wn_model_close(m);
        return talk_failed(&err);
    }
    talk_end_line();
    code = common.json ? print_json(json_result(&r)) : print_result(&r);
    wn_mix_result_release(&r);
    wn_model_close(m);
    return code;
}

static bool is_negative(long long n)
{
    return n < 0 && n != OPT_UNSET;
}

static int run(const struct command *self, int argc, const char **argv)
{
    struct wn_mix_spec spec = {0};
    const char **args;
    int n, code;

    if (!opt_parse(self, table, argc, argv, 1, 1024, &args, &n, &code))
        return code;
    if (!o.out && !o.dry_run)
        return opt_wrong(self, "--out is missing");
    if (is_negative(o.tokens) || is_negative(o.seed) || is_negative(o.document_tokens))
        return opt_wrong(self, "--tokens, --document-tokens and --seed are not negative");
    if (read_specs(self, args, &spec, &code))
        code = mix(&spec, args);
    wn_mix_spec_release(&spec);
    return code;
}

const struct command cmd_corpus = {"corpus", "SPEC... -o FILE.jsonl [OPTIONS]",
                                   "mix texts into a calibration corpus (SPEC: LABEL=PATH[,PATH...][:SHARE], or a "
                                   "SPEC.json)",
                                   run, "code=src:40% en=books,news.jsonl:60% --tokens 131072 --out corpus.jsonl"};
