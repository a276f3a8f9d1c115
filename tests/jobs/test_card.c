/*
 * The model card: it says what logs say, names the logs, says "not measured" of the rest, and takes no log of another
 * model.
 */
#include "jobs/report/card.h"
#include "base/alloc.h"
#include "ghost_help.h"
#include "jobs/hashing.h"
#include "sys/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TINY_A_HF   "golden/text/tiny-a/hf"
#define TINY_A_GGUF "golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf"
#define TINY_A_KEEP "golden/text/tiny-a/ref/prune_keep.json"

/* tiny-a pruned, with its record, in a folder of its own. */
struct fixture {
    char folder[512], out[600], plan_path[600];
    char fingerprint[17], record[65];
    bool other; /* make it another cut to as many experts */
    struct wn_card_options o;
};

static const char *put_file(const struct fixture *f, const char *name, const char *text)
{
    const char *path = wn_test_path(f->folder, name);
    struct wn_err err;

    CHECK_OK(wn_file_put(path, text, strlen(text), true, &err), &err);
    return path;
}

/* What a budget by probes would write: "code" gains, "en" pays. */
static void predict_losses(struct wn_plan *p)
{
    snprintf(p->budget, sizeof p->budget, "probe");
    p->basis = WN_BASIS_PROBE;
    p->power = 1.5;
    p->loss = 0.015;
    p->loss_same = 0.02;
    p->losses = calloc(2, sizeof *p->losses);
    assert_non_null(p->losses);
    p->losses[0] = (struct wn_plan_loss){"code", 0.01, 0.02};
    p->losses[1] = (struct wn_plan_loss){"en", 0.06, 0.05};
    p->loss_count = 2;
    p->asked_size = 5000000;
    p->bytes = 4901504;
}

/* The last expert that the first layer keeps makes room for one that it dropped. */
static void keep_another(struct wn_plan *p)
{
    struct wn_plan_layer *l = &p->layers[0];
    uint32_t e = 0, i;

    do {
        for (i = 0; i < l->keep_count && l->keep[i] != e; i++)
            ;
        e += i < l->keep_count;
    } while (i < l->keep_count);
    l->keep[l->keep_count - 1] = e;
}

static void read_record(struct fixture *f)
{
    struct wn_err err;
    struct wn_model *m = wn_model_open(f->out, &err);

    CHECK_OK(m, &err);
    wn_record_sha256(m, f->record);
    wn_model_close(m);
}

static void make_build_as(struct fixture *f, const char *source, bool hashes, enum wn_ghosts ghosts)
{
    struct wn_prune_options p = {
        .source = wn_test_need_data(source), .out = f->out, .hashes = hashes, .ghosts = ghosts};
    struct wn_model *m = NULL;
    struct wn_inspection in;
    struct wn_prune_result r;
    struct wn_plan plan;
    struct wn_err err;

    plan_from_reference(&plan, wn_test_need_data(TINY_A_KEEP), 4, 16);
    snprintf(plan.criterion, sizeof plan.criterion, "reap");
    plan.kept = 0.8125;
    if (f->other)
        keep_another(&plan);
    if (ghosts)
        predict_losses(&plan);
    snprintf(f->folder, sizeof f->folder, "%s", wn_test_folder());
    snprintf(f->out, sizeof f->out, "%s/%s", f->folder, strstr(source, ".gguf") ? "out.gguf" : "out");
    snprintf(f->plan_path, sizeof f->plan_path, "%s/plan.json", f->folder);
    CHECK_OK(wn_plan_write(&plan, f->plan_path, false, &err), &err);
    wn_plan_release(&plan);
    CHECK_OK(wn_plan_read(&plan, f->plan_path, &err), &err);
    p.plan = &plan;
    p.plan_file = f->plan_path;
    if (ghosts) {
        m = wn_model_open(p.source, &err);
        CHECK_OK(m, &err);
        p.model = m;
    }
    if (ghosts == WN_GHOSTS_MEAN)
        p.saliency = ghost_archive(p.source);
    CHECK_OK(wn_prune(&p, NULL, &r, &err), &err);
    wn_model_close(m);
    wn_plan_release(&plan);
    CHECK_OK(wn_inspect(f->out, &in, &err), &err);
    memcpy(f->fingerprint, in.fingerprint, sizeof f->fingerprint);
    wn_inspection_release(&in);
    read_record(f);
    assert_int_equal(strlen(f->record), hashes ? 64 : 0);
    f->o = (struct wn_card_options){.build = f->out};
}

static void make_build(struct fixture *f, const char *source, bool hashes)
{
    make_build_as(f, source, hashes, WN_GHOSTS_BUILT);
}

/* The card; free it. */
static char *card_of(const struct wn_card_options *o)
{
    struct wn_err err;
    size_t n;
    char *text = wn_card_text(o, &n, &err);

    if (!text)
        fail_msg("%s", err.msg);
    assert_int_equal(strlen(text), n);
    return text;
}

static void has(const char *card, const char *part)
{
    if (!strstr(card, part))
        fail_msg("the card lacks '%s':\n%s", part, card);
}

static void has_not(const char *card, const char *part)
{
    if (strstr(card, part))
        fail_msg("the card has '%s': %.200s", part, strstr(card, part));
}

static char *sha_of(const char *path)
{
    static char text[WN_HEX_DIGEST];
    uint8_t digest[WN_DIGEST_BYTES];
    struct wn_err err;

    CHECK_OK(wn_hash_file(path, digest, &err), &err);
    wn_hash_text(digest, sizeof digest, text);
    return text;
}

/*
 * A log, with what tells the build for the first @ in it: the fingerprint, and behind it the record's digest. For the
 * first ~ the fingerprint alone, as in logs of an older winnow.
 */
static const char *put_log(const struct fixture *f, const char *name, const char *log)
{
    const char *at = strpbrk(log, "@~");
    bool record = at && *at == '@' && *f->record;
    char text[2000];

    if (!at)
        return put_file(f, name, log);
    (void)snprintf(text, sizeof text, "%.*s%s%s%s%s", (int)(at - log), log, f->fingerprint,
                   record ? "\", \"record_sha256\": \"" : "", record ? f->record : "", at + 1);
    return put_file(f, name, text);
}

static const char verify_log[] =
    "{\"model_fingerprint\": \"@\", \"ok\": true, \"difference\": \"\", \"tensors\": 916, \"experts\": 96, \"bytes\": "
    "4901504, \"bad_scales\": 0, \"identical_files\": false, \"source\": \"/secret/hf\", \"plan\": \"p.json\"}";
static const char eval_log[] =
    "{\"model_fingerprint\": \"@\", \"model\": \"x\", \"window\": 64, \"parent\": \"/secret/hf\", "
    "\"parent_fingerprint\": "
    "\"0123456789abcdef\", \"domains\": [{\"domain\": \"en\", \"file\": \"/secret/a.txt\", \"perplexity\": 12.3456, "
    "\"predicted\": 1260, \"windows\": 20, \"kld_mean\": 0.25, \"kld_mean_interval\": [0.125, 0.5], "
    "\"kld_p99\": 2.5, \"kld_p99_interval\": [2, 3.5], "
    "\"argmax_agreement\": 0.75}]}";
static const char run_log[] =
    "{\"model_fingerprint\": \"@\", \"tokens_per_second\": 7.5, \"tokens\": 1000, \"disk_bound\": true, "
    "\"memory_peak\": 123456789}";

/* ---- tests ---- */

static void a_field_without_a_log_reads_not_measured(void **state)
{
    static const char *const claims[] = {
        "| every surviving byte is what the source makes it |",
        "| files have the SHA-256 that the record tells |",
        "| share of the criterion that the plan keeps |",
        "| perplexity |",
        "| speed, generation |",
        "| speed, prompt |",
        "| memory of a run |",
    };
    struct fixture f = {0};
    char *card;

    (void)state;
    make_build(&f, TINY_A_HF, true);
    card = card_of(&f.o);
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        char row[200];

        snprintf(row, sizeof row, "%s not measured |", claims[i]);
        has(card, row);
    }
    has(card, "## Verified\n\nNot measured: there is no log.\n");
    has(card, "| experts | 10 in each of 12 layers |");
    has(card, sha_of(f.plan_path));
    has_not(card, "tokens/s");
    free(card);
}

static void each_claim_names_its_command_and_the_digest_of_its_log(void **state)
{
    struct fixture f = {0};
    const char *evals[1], *verifies[1], *runs[1];
    char want[400], *card, *again;

    (void)state;
    make_build(&f, TINY_A_HF, true);
    evals[0] = put_log(&f, "e.json", eval_log);
    verifies[0] = put_log(&f, "v.json", verify_log);
    runs[0] = put_log(&f, "r.json", run_log);
    f.o = (struct wn_card_options){f.out, evals, verifies, runs, f.plan_path, 1, 1, 1};
    card = card_of(&f.o);
    snprintf(
        want, sizeof want,
        "| every surviving byte is what the source and the plan make it | 916 tensors, 96 experts, 4,901,504 bytes "
        "compared | <code>winnow verify out --source hf --plan p.json --json</code> | %s |\n",
        sha_of(verifies[0]));
    has(card, want);
    snprintf(want, sizeof want,
             "| perplexity, en | 12.346: 1,260 tokens predicted in 20 windows | <code>winnow eval out --text en=a.txt "
             "--against hf --window 64 --json</code> | %s |\n",
             sha_of(evals[0]));
    has(card, want);
    has(card, "| mean 0.25000 nats (95 % interval 0.12500 to 0.50000); p99 2.50000 nats (95 % interval 2.00000 to "
              "3.50000); this parent (0123456789abcdef) is not the one");
    has(card, "| same best token as the parent, en | 75.00 % |");
    snprintf(
        want, sizeof want,
        "| speed, generation | 7.50 tokens/s over 1,000 tokens; generating waited for the disk | <code>winnow run out "
        "--prompt ... --tokens 1000 --json</code> | %s |\n",
        sha_of(runs[0]));
    has(card, want);
    has(card, "| largest resident set | 123,456,789 bytes |");
    has(card, "| share of the criterion 'reap' that the plan keeps | 81.25 % |");
    /* what these logs do not tell */
    has(card, "| routing of the parent that went to dropped experts | not measured |");
    has(card, "| speed, prompt | not measured |");
    has(card, "| files have the SHA-256 that the record tells | not measured |");
    has_not(card, "| perplexity | not measured |");
    has_not(card, "secret");
    again = card_of(&f.o);
    assert_string_equal(card, again);
    free(again);
    free(card);
}

static const char ghost_eval_log[] =
    "{\"model_fingerprint\": \"@\", \"ghosts\": \"mean\", \"domains\": [{\"domain\": \"en\", \"file\": \"a.txt\", "
    "\"perplexity\": 12, \"ghosted\": 0.125, \"ghost_choices\": 0.25}]}";
static const char ghost_run_log[] =
    "{\"model_fingerprint\": \"@\", \"tokens_per_second\": 7.5, \"tokens\": 10, \"ghosts\": {\"mode\": \"mean\", "
    "\"chosen\": 1200, \"ghosts\": 300, \"misroute\": 0.2, \"token_bytes_saved\": 4567}}";

static const char ghost_verify_log[] = "{\"model_fingerprint\": \"@\", \"ok\": true, \"tensors\": 916, \"experts\": "
                                       "120, \"ghosts\": 72, \"bytes\": 4901504, "
                                       "\"source\": \"hf\", \"plan\": \"p.json\"}";

static void ghosts_and_a_budget_are_told_as_logs_and_plan_have_them(void **state)
{
    struct fixture f = {0};
    const char *evals[1], *verifies[1], *runs[1];
    char *card;

    (void)state;
    make_build_as(&f, TINY_A_HF, true, WN_GHOSTS_MEAN);
    card = card_of(&f.o);
    /* 12 layers of 10 of 16: 6 rows of 128 bf16 and a bias of f32 each, 10 numbers, 6 means of 96 f16 */
    has(card, "| ghosts | mean: router rows of 72 dropped experts stay, 33,024 bytes, 13,824 of them mean outputs |");
    has(card, "| archive of the ghosts’ means, SHA-256 | means.npz, ");
    has(card, "| budget of layers | not measured |");
    has(card, "| budget in bytes | not measured |");
    has(card, "| bytes of its files as <code>plan</code> foretold them | not measured |");
    has(card, "| loss that the plan was predicted to have | not measured |");
    has(card, "| routing that went to ghosts | not measured |");
    has(card, "No other: it has ghosts");
    has(card, "<code>winnow convert out --plain -o OUT</code>");
    has(card, "- \"ghosts\"\n");
    free(card);
    evals[0] = put_log(&f, "e.json", ghost_eval_log);
    runs[0] = put_log(&f, "r.json", ghost_run_log);
    verifies[0] = put_log(&f, "v.json", ghost_verify_log);
    f.o = (struct wn_card_options){f.out, evals, verifies, runs, f.plan_path, 1, 1, 1};
    card = card_of(&f.o);
    has(card, "| 916 tensors, 120 experts, 72 ghosts with their routers, 4,901,504 bytes compared |");
    has(card,
        "| routing that went to ghosts, en | 12.50 % | <code>winnow eval out --text en=a.txt --ghosts mean --json");
    has(card, "| choices that fell on ghosts, en | 25.00 % |");
    has(card, "| routing of a run that went to ghosts (mean) | 20.00 %; 300 of 1,200 choices, 4,567 bytes a token not "
              "read |");
    has(card, "| budget of layers | probe, losses as the dropped share to the power of 1.50 |");
    has(card, "| budget in bytes | 5,000,000 of tensors (<code>--size</code>) |");
    has(card, "| bytes of its files as <code>plan</code> foretold them | 4,901,504 |");
    has(card,
        "| loss predicted by probe, code | KLD of 0.01000 nats a token, -50.0 % against the same number of experts "
        "in each layer | <code>winnow plan SAL.npz --keep 10 --criterion reap --budget probe --power 1.5");
    has(card, "+20.0 % against the same number of experts in each layer: it loses by this plan |");
    has(card, "| loss predicted by probe, all sources | KLD of 0.01500 nats a token, -25.0 % against");
    has_not(card, "| routing that went to ghosts | not measured |");
    free(card);
    make_build(&f, TINY_A_HF, true);
    card = card_of(&f.o);
    has(card, "| ghosts | none |");
    has_not(card, "routing that went to ghosts");
    free(card);
}

/* Two logs of one text and one build, that differ by an option, are two claims and two commands. */
static void commands_have_the_options_that_change_a_figure(void **state)
{
    static const char first[] =
        "{\"model_fingerprint\": \"@\", \"ghosts\": \"off\", \"window\": 32, \"max_windows\": 12, "
        "\"domains\": [{\"domain\": \"en\", \"file\": \"a.txt\", \"perplexity\": 12, "
        "\"predicted\": 372, \"windows\": 12}]}";
    static const char ran[] =
        "{\"model_fingerprint\": \"@\", \"tokens_per_second\": 7.5, \"tokens\": 10, \"options\": {\"tokens\": 64, "
        "\"ctx\": null, \"temperature\": 0.699999988079071, \"top_k\": 40, \"top_p\": 1.0, \"min_p\": 0.0, "
        "\"seed\": 7, \"ghosts\": \"skip\", \"special\": false, \"ignore_eos\": true, \"threads\": 4}}";
    struct fixture f = {0};
    const char *evals[2], *runs[1];
    char *card;

    (void)state;
    make_build_as(&f, TINY_A_HF, true, WN_GHOSTS_MEAN);
    evals[0] = put_log(&f, "e.json", first);
    runs[0] = put_log(&f, "r.json", ran);
    f.o = (struct wn_card_options){f.out, evals, NULL, runs, f.plan_path, 1, 0, 1};
    card = card_of(&f.o);
    has(card,
        "| perplexity, en, at most 12 windows of a text, ghosts off | 12.000: 372 tokens predicted in 12 windows | "
        "<code>winnow eval out --text en=a.txt --window 32 --max-windows 12 --ghosts off --json</code> | ");
    has(card, "<code>winnow run out --prompt ... --tokens 64 --temperature 0.7 --top-k 40 --seed 7 --ghosts skip "
              "--ignore-eos --threads 4 --json</code> | ");
    /* the build without its ghosts is not the build */
    has(card, "| perplexity | not measured |");
    free(card);
    evals[1] = put_log(&f, "e2.json", ghost_eval_log);
    f.o.eval_count = 2;
    card = card_of(&f.o);
    has(card, "| perplexity, en | 12.000");
    has_not(card, "| perplexity | not measured |");
    free(card);
}

static void is_refused(struct fixture *f, const char *kind, const char *log, const char *part)
{
    const char *path = put_log(f, "log.json", log);
    struct wn_card_options o = {.build = f->out};
    struct wn_err err;
    size_t n;

    if (strcmp(kind, "eval") == 0)
        o.evals = &path, o.eval_count = 1;
    else if (strcmp(kind, "verify") == 0)
        o.verifies = &path, o.verify_count = 1;
    else
        o.runs = &path, o.run_count = 1;
    CHECK_FAILS(wn_card_text(&o, &n, &err), &err, part);
    CHECK_FAILS(wn_card_text(&o, &n, &err), &err, "log.json");
}

static void a_log_that_is_not_of_this_build_is_refused_by_name(void **state)
{
    struct fixture f = {0};

    (void)state;
    make_build(&f, TINY_A_HF, true);
    is_refused(&f, "eval", "{\"model_fingerprint\": \"feedfeedfeedfeed\", \"domains\": []}",
               "it is of another model: its fingerprint is feedfeedfeedfeed, that of 'out' is ");
    is_refused(&f, "verify", "{\"model_fingerprint\": \"feedfeedfeedfeed\", \"ok\": true}", "another model");
    is_refused(&f, "run", "{\"model_fingerprint\": \"feedfeedfeedfeed\", \"tokens_per_second\": 1}", "another model");
    is_refused(&f, "run", "{\"tokens_per_second\": 1}", "no 'model_fingerprint'");
    is_refused(&f, "run", eval_log, "it has no 'tokens_per_second', as 'winnow run --json' writes it");
    is_refused(&f, "eval", run_log, "it has no 'domains'");
    is_refused(&f, "eval", "{\"model_fingerprint\": \"@\", \"domains\": [], \"plan_sha256\": \"ab\"}",
               "it is by another plan");
    is_refused(&f, "verify", "{\"model_fingerprint\": \"@\", \"ok\": true, \"plan_sha256\": \"ab\"}",
               "it is by another plan: its SHA-256 is ab..., that of the build's is ");
    is_refused(&f, "eval", "{\"model_fingerprint\": \"@\", \"domains\": [], \"masked\": \"p.json\"}",
               "experts masked, not of the build");
    is_refused(&f, "eval", "{\"model_fingerprint\": \"@\", \"domains\": [{}]}", "no text 'domain'");
    is_refused(&f, "eval", "{\"model_fingerprint\": \"@\", \"domains\": [{\"domain\": \"en\", \"perplexity\": -5}]}",
               "domain 'en' has a 'perplexity' of -5: it is 1 or more, and less than 1e15");
    is_refused(&f, "eval", "{\"model_fingerprint\": \"@\", \"domains\": [{\"domain\": \"en\", \"misroute\": 1.5}]}",
               "domain 'en' has a 'misroute' of 1.5: it is a share of 0 .. 1");
    is_refused(&f, "eval",
               "{\"model_fingerprint\": \"@\", \"domains\": [{\"domain\": \"en\", \"kld_mean\": 1, "
               "\"kld_mean_interval\": [3, 2]}]}",
               "the interval of 'kld_mean' goes from 3 to 2");
    is_refused(&f, "run", "{\"model_fingerprint\": \"@\", \"tokens_per_second\": -1}",
               "it has a 'tokens_per_second' of -1: it is 0 or more");
    is_refused(&f, "verify", "{\"model_fingerprint\": \"@\", \"ok\": false, \"difference\": \"byte 7\"}",
               "verify found a difference: byte 7");
    is_refused(&f, "eval", "{", "line 1");
    is_refused(&f, "eval", "[]", "no 'domains'");
}

/* Logs of a build whose headers are those of f, and whose record has this digest: a JSON value, or "" for none. */
static void logs_by_record(struct fixture *f, const char *record, const char *part)
{
    static const struct {
        const char *kind, *rest;
    } logs[] = {{"eval", "\"domains\": []"},
                {"verify", "\"ok\": true, \"bytes\": 7"},
                {"verify", "\"ok\": true, \"parts_bound\": true"},
                {"run", "\"tokens_per_second\": 1"}};

    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
        struct wn_card_options o = {.build = f->out};
        char log[300];
        const char *path;

        snprintf(log, sizeof log, "{\"model_fingerprint\": \"~\", %s%s%s%s}", *record ? "\"record_sha256\": " : "",
                 record, *record ? ", " : "", logs[i].rest);
        if (part) {
            is_refused(f, logs[i].kind, log, part);
            continue;
        }
        path = put_log(f, "log.json", log);
        if (logs[i].kind[0] == 'e')
            o.evals = &path, o.eval_count = 1;
        else if (logs[i].kind[0] == 'v')
            o.verifies = &path, o.verify_count = 1;
        else
            o.runs = &path, o.run_count = 1;
        free(card_of(&o));
    }
}

/* Headers of two GGUFs that keep as many experts are the same; records are not. */
static void logs_of_another_cut_to_as_many_experts_are_refused(void **state)
{
    struct fixture f = {0}, other = {.other = true};
    struct wn_verify_result v;
    struct wn_plan plan;
    struct wn_err err;
    char record[80], want[200];

    (void)state;
    make_build(&other, TINY_A_GGUF, true);
    make_build(&f, TINY_A_GGUF, true);
    assert_string_equal(f.fingerprint, other.fingerprint);
    assert_string_not_equal(f.record, other.record);
    /* with the source no file is hashed, and the record is told nonetheless */
    CHECK_OK(wn_plan_read(&plan, other.plan_path, &err), &err);
    CHECK_OK(wn_verify(other.out, wn_test_need_data(TINY_A_GGUF), &plan, NULL, &v, &err), &err);
    wn_plan_release(&plan);
    assert_string_equal(v.record_sha256, other.record);
    snprintf(record, sizeof record, "\"%s\"", other.record);
    snprintf(want, sizeof want,
             "it is by another record, that of another build: its SHA-256 is %.16s..., that of 'out.gguf' is %.16s...",
             other.record, f.record);
    logs_by_record(&f, record, want);
    logs_by_record(&f, "null", "it is of a build without a record, and 'out.gguf' has one, of SHA-256 ");
    logs_by_record(&f, "", "it has no 'record_sha256': whether it is of 'out.gguf'");
    snprintf(record, sizeof record, "\"%s\"", f.record);
    logs_by_record(&f, record, NULL);
    /* without a record the headers are all there is */
    make_build(&f, TINY_A_GGUF, false);
    logs_by_record(&f, record, "and 'out.gguf' has no record");
    logs_by_record(&f, "null", NULL);
    logs_by_record(&f, "", NULL);
}

static void a_plan_that_is_not_the_builds_is_refused(void **state)
{
    struct wn_err err;
    struct fixture f = {0};
    size_t n;

    (void)state;
    make_build(&f, TINY_A_HF, true);
    f.o.plan_path = f.plan_path;
    assert_true(replace_text(f.plan_path, "0.8125", "0.9125"));
    CHECK_FAILS(wn_card_text(&f.o, &n, &err), &err, "plan.json': its SHA-256 is ");
    make_build(&f, TINY_A_HF, false);
    f.o.plan_path = f.plan_path;
    CHECK_FAILS(wn_card_text(&f.o, &n, &err), &err, "no record (winnow.json)");
}

static void a_record_of_other_files_is_refused(void **state)
{
    struct wn_err err;
    struct fixture f = {0};
    char path[700];
    size_t n;

    (void)state;
    make_build(&f, TINY_A_HF, true);
    snprintf(path, sizeof path, "%s/winnow.json", f.out);
    assert_true(replace_text(path, "\"mode\": \"uniform\"", "\"mode\": \"unifarm\""));
    CHECK_FAILS(wn_card_text(&f.o, &n, &err), &err, "was changed");
}

static void a_build_without_a_record_is_told_by_its_headers_only(void **state)
{
    struct fixture f = {0};
    char *card;

    (void)state;
    make_build(&f, TINY_A_HF, false);
    card = card_of(&f.o);
    has(card, "| cut | not measured |\n| plan, SHA-256 | not measured |");
    has(card, "| its record, SHA-256 | not measured |");
    has(card, "SHA-256 of the files: not measured");
    has_not(card, "\"pruned\"");
    free(card);
}

static void what_files_say_is_never_markup(void **state)
{
    struct fixture f = {0};
    const char *log;
    char *card;

    (void)state;
    make_build(&f, TINY_A_HF, true);
    log =
        put_log(&f, "a|b`*.json",
                "{\"model_fingerprint\": \"@\", \"domains\": [{\"domain\": \"<script>|*x*\\n# y\", \"perplexity\": 2, "
                "\"file\": \"a_[b](c).txt\", \"sha256\": \"00\"}]}");
    f.o.evals = &log;
    f.o.eval_count = 1;
    card = card_of(&f.o);
    has(card, "| perplexity, &lt;script&gt;\\|\\*x\\*\xef\xbf\xbd\\# y |");
    has(card, "a\\_\\[b\\](c).txt");
    has(card, "| a\\|b\\`\\*.json | winnow eval |");
    has_not(card, "<script");
    free(card);
}

/* ---- front matter ---- */

static void check_yaml(const char *text, const char *want)
{
    struct wn_err err;
    struct wn_html h = {.err = &err};

    wn_card_put_yaml(&h, text);
    if (h.b.n != strlen(want) || memcmp(h.b.at, want, h.b.n) != 0)
        fail_msg("wrote %.*s, wanted %s", (int)h.b.n, h.b.at, want);
    wn_buf_release(&h.b);
}

static void any_text_is_a_yaml_scalar_of_one_line(void **state)
{
    (void)state;
    check_yaml("plain", "\"plain\"");
    check_yaml("", "\"\"");
    check_yaml("no: #\"'\\", "\"no: #\\\"'\\\\\"");
    check_yaml("a\n---\tb\x7f\xc2\x85\xe2\x80\xa8", "\"a\\u000a---\\u0009b\\u007f\\u0085\\u2028\"");
    check_yaml("\xe6\x97\xa5\xf0\x9f\x98\x80\xff", "\"\xe6\x97\xa5\xf0\x9f\x98\x80\xef\xbf\xbd\"");
}

static char *card_beside(const struct fixture *f, const char *readme)
{
    char path[700];
    struct wn_err err;

    snprintf(path, sizeof path, "%s/README.md", f->out);
    CHECK_OK(wn_file_put(path, readme, strlen(readme), true, &err), &err);
    return card_of(&f->o);
}

static void the_licence_is_the_sources_and_a_base_model_only_a_cards_of_ours(void **state)
{
    struct fixture f = {0};
    char *card;

    (void)state;
    make_build(&f, TINY_A_HF, true);
    card = card_beside(&f, "---\nlicense: other\nlicense_name: 'kimi: k3'\nbase_model: who/what\n---\ntext\n");
    has(card, "\nlicense: \"other\"\nlicense_name: \"kimi: k3\"\nlibrary_name: \"transformers\"\n");
    has(card, "\n# base_model: ");
    has_not(card, "who/what");
    free(card);
    card = card_beside(
        &f, "---\n# Written by winnow card 0.0.1.\nbase_model:\n- who/what\nlicense: \"a \\\"b\\\"\"\n---\n");
    has(card, "\nbase_model: \"who/what\"\nlicense: \"a \\\"b\\\"\"\n");
    free(card);
    card = card_beside(&f, "license: mit\n");
    has(card, "\n# license: NAME");
    free(card);
    card = card_beside(&f, "---\nlicense: mit\n");
    has(card, "\n# license: NAME");
    free(card);
}

/* ---- the output ---- */

static void the_folders_own_card_may_be_written_and_nothing_else_of_it(void **state)
{
    struct wn_verify_result r;
    char path[700], first[65];
    struct wn_err err;
    struct fixture f = {0};
    uint64_t bytes;

    (void)state;
    make_build(&f, TINY_A_HF, true);
    snprintf(path, sizeof path, "%s/config.json", f.out);
    CHECK_FAILS(wn_card_write(&f.o, path, false, &bytes, &err), &err, "exists");
    CHECK_FAILS(wn_card_write(&f.o, path, true, &bytes, &err), &err, "config.json");
    snprintf(path, sizeof path, "%s/model-00001-of-000004.safetensors", f.out);
    CHECK_FAILS(wn_card_write(&f.o, path, true, &bytes, &err), &err, "model-00001");
    f.o.plan_path = f.plan_path;
    CHECK_FAILS(wn_card_write(&f.o, f.plan_path, true, &bytes, &err), &err, "the output");
    snprintf(path, sizeof path, "%s/README.md", f.out);
    CHECK_OK(wn_card_write(&f.o, path, false, &bytes, &err), &err);
    snprintf(first, sizeof first, "%s", sha_of(path));
    CHECK_FAILS(wn_card_write(&f.o, path, false, &bytes, &err), &err, "exists");
    CHECK_OK(wn_card_write(&f.o, path, true, &bytes, &err), &err);
    assert_string_equal(sha_of(path), first);
    CHECK_OK(wn_verify(f.out, NULL, NULL, NULL, &r, &err), &err);
    assert_string_equal(r.fingerprint, f.fingerprint);
}

/* What verify --json prints of a build without its source; record: "null" or a text in quotes. */
static const char *put_sound_log(const struct fixture *f, const char *name, const char *record)
{
    char text[400];

    snprintf(text, sizeof text,
             "{\"model_fingerprint\": \"~\", \"ok\": true, \"tensors\": 916, \"experts\": 96, \"bytes\": 0, "
             "\"parts_bound\": true, \"hashed_files\": 5, \"hashed_bytes\": 4901504, \"record_sha256\": %s}",
             record);
    return put_log(f, name, text);
}

static void of_each_file_it_is_said_whether_verify_found_its_digest(void **state)
{
    struct wn_verify_result v;
    struct fixture f = {0};
    struct wn_err err;
    const char *log;
    char want[400], record[80], *card;
    size_t n;

    (void)state;
    make_build(&f, TINY_A_HF, true);
    CHECK_OK(wn_verify(f.out, NULL, NULL, NULL, &v, &err), &err);
    assert_int_equal(strlen(v.record_sha256), 64);
    card = card_of(&f.o);
    has(card, "| config.json | ");
    has(card, "Whether the files have these digests: not measured; <code>winnow verify out --json</code> tells.");
    has(card, " | not measured |\n");
    has_not(card, "found so");
    free(card);

    snprintf(record, sizeof record, "\"%s\"", v.record_sha256);
    log = put_sound_log(&f, "s.json", record);
    f.o.verifies = &log;
    f.o.verify_count = 1;
    card = card_of(&f.o);
    snprintf(want, sizeof want, " | %s | found so |\n", sha_of(wn_test_path(f.out, "config.json")));
    has(card, want);
    snprintf(want, sizeof want, "verify read every one of them again and found these digests: log s.json, SHA-256 %s.",
             sha_of(log));
    has(card, want);
    has_not(strstr(card, "## Files"), "not measured");
    free(card);

    /* another build's record, and a log that does not tell */
    record[1] = record[1] == '0' ? '1' : '0';
    log = put_sound_log(&f, "other.json", record);
    assert_null(wn_card_text(&f.o, &n, &err));
    assert_true(wn_test_contains(err.msg, "it is by another record, that of another build: its SHA-256 is "));
    log = put_sound_log(&f, "old.json", "null");
    assert_null(wn_card_text(&f.o, &n, &err));
    assert_true(wn_test_contains(err.msg, "it is of a build without a record, and 'out' has one"));
}

static void a_card_that_came_along_may_be_replaced_and_the_record_holds(void **state)
{
    struct wn_prune_options p = {.hashes = true};
    struct wn_prune_result r;
    struct wn_verify_result v;
    char source[600], out[600], path[700];
    struct wn_err err;
    struct fixture f = {0};
    uint64_t bytes;
    char *card;

    (void)state;
    make_build(&f, TINY_A_HF, true);
    free(card_beside(&f, "---\nlicense: mit\n---\nthe source's words\n"));
    snprintf(source, sizeof source, "%s", f.out);
    snprintf(out, sizeof out, "%s/copy", f.folder);
    p.source = source;
    p.out = out;
    CHECK_OK(wn_prune(&p, NULL, &r, &err), &err);
    f.o.build = out;
    snprintf(path, sizeof path, "%s/README.md", out);
    CHECK_OK(wn_card_write(&f.o, path, true, &bytes, &err), &err);
    CHECK_OK(wn_verify(out, NULL, NULL, NULL, &v, &err), &err);
    assert_true(v.hashed_files > 0);
    card = card_of(&f.o);
    has(card, "\nlicense: \"mit\"\n");
    has(card, "| made from, SHA-256 of its record | ");
    has(card, "| cut | uniform, by "); /* the source's */
    has(card, "| what was cut, before it was made into this, fingerprint of its headers | ");
    has_not(card, "README.md");
    free(card);
}

static void a_whole_model_that_was_copied_is_not_cut(void **state)
{
    const char *out = wn_test_path(wn_test_folder(), "copy");
    const struct wn_prune_options p = {.source = wn_test_need_data(TINY_A_HF), .out = out, .hashes = true};
    const struct wn_card_options o = {.build = out};
    struct wn_prune_result r;
    struct wn_err err;
    char *card;

    (void)state;
    CHECK_OK(wn_prune(&p, NULL, &r, &err), &err);
    card = card_of(&o);
    has(card, "| cut | none from what it was made from |\n");
    free(card);
}

static void a_gguf_says_which_engines_read_it(void **state)
{
    struct fixture f = {0};
    char *card;

    (void)state;
    make_build(&f, TINY_A_GGUF, true);
    card = card_of(&f.o);
    has(card, "\n# out\n");
    has(card, "\nlibrary_name: \"gguf\"\n");
    has(card, "- llama.cpp, where it has the architecture kimi-k3\n");
    has(card, "<code>winnow verify out.gguf --json</code>");
    has_not(card, "mlx-lm");
    free(card);
}

/* A build with ghosts is winnow's alone, in whichever form. */
static void no_other_engine_is_told_to_read_ghosts(void **state)
{
    static const char *const sources[] = {TINY_A_GGUF, TINY_A_HF};
    char *card;

    (void)state;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct fixture f = {0};

        make_build_as(&f, sources[i], true, WN_GHOSTS_SKIP);
        card = card_of(&f.o);
        has(card, "No other: it has ghosts, dropped experts whose router rows stay. <code>winnow convert out");
        has(card, " --plain -o OUT</code> makes the build without them.");
        has_not(card, "llama.cpp");
        has_not(card, "mlx-lm");
        has_not(card, "engines that read the checkpoint");
        free(card);
    }
}

static void whatever_memory_is_refused_the_card_says_so(void **state)
{
    struct fixture f = {0};
    const char *log;
    char *card = NULL;
    size_t n;
    long i;

    (void)state;
    make_build(&f, TINY_A_GGUF, true);
    log = put_log(&f, "e.json", eval_log);
    f.o.evals = &log;
    f.o.eval_count = 1;
    f.o.plan_path = f.plan_path;
    for (i = 0; !card && i < 20000; i++) {
        struct wn_err err = {0};

        wn_alloc_fail_after(i);
        card = wn_card_text(&f.o, &n, &err);
        wn_alloc_fail_after(-1);
        if (!card && err.code != WN_ERR_NOMEM)
            fail_msg("allocation %ld: %s", i, err.msg);
    }
    assert_non_null(card);
    assert_true(i > 20);
    free(card);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_without_a_log_reads_not_measured),
        cmocka_unit_test(each_claim_names_its_command_and_the_digest_of_its_log),
        cmocka_unit_test(ghosts_and_a_budget_are_told_as_logs_and_plan_have_them),
        cmocka_unit_test(commands_have_the_options_that_change_a_figure),
        cmocka_unit_test(a_log_that_is_not_of_this_build_is_refused_by_name),
        cmocka_unit_test(logs_of_another_cut_to_as_many_experts_are_refused),
        cmocka_unit_test(a_plan_that_is_not_the_builds_is_refused),
        cmocka_unit_test(a_record_of_other_files_is_refused),
        cmocka_unit_test(a_build_without_a_record_is_told_by_its_headers_only),
        cmocka_unit_test(what_files_say_is_never_markup),
        cmocka_unit_test(any_text_is_a_yaml_scalar_of_one_line),
        cmocka_unit_test(the_licence_is_the_sources_and_a_base_model_only_a_cards_of_ours),
        cmocka_unit_test(the_folders_own_card_may_be_written_and_nothing_else_of_it),
        cmocka_unit_test(of_each_file_it_is_said_whether_verify_found_its_digest),
        cmocka_unit_test(a_card_that_came_along_may_be_replaced_and_the_record_holds),
        cmocka_unit_test(a_whole_model_that_was_copied_is_not_cut),
        cmocka_unit_test(a_gguf_says_which_engines_read_it),
        cmocka_unit_test(no_other_engine_is_told_to_read_ghosts),
        cmocka_unit_test(whatever_memory_is_refused_the_card_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
