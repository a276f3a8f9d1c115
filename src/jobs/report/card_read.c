/* See card.h: reading, and holding each log against the build. */
#include "base/alloc.h"
#include "jobs/report/card.h"
#include "jobs/prune/seal_json.h"
#include "sys/infile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOG_BYTES_MAX ((uint64_t)64 << 20)

/* ---- what the build tells ---- */

const char *wn_card_told(const struct wn_card *c, const char *part, const char *key)
{
    const char *text = json_string_value(json_object_get(json_object_get(c->record, part), key));

    return text ? text : "";
}

const char *wn_card_cut_told(const struct wn_card *c, const char *part, const char *key)
{
    const char *text = json_string_value(json_object_get(json_object_get(wn_seal_cut_of(c->record), part), key));

    return text ? text : "";
}

bool wn_card_is_pruned(const struct wn_card *c)
{
    return json_is_object(json_object_get(wn_seal_cut_of(c->record), "plan"));
}

bool wn_card_is_copy_of_cut(const struct wn_card *c)
{
    return wn_card_is_pruned(c) && !json_is_object(json_object_get(c->record, "plan"));
}

bool wn_card_has_two_parents(const struct wn_card *c)
{
    return json_is_object(json_object_get(c->record, "lo_parent"));
}

bool wn_card_is_graded(const struct wn_card *c)
{
    const struct wn_config *config = c->in.config;

    for (uint32_t i = 0; config && i < config->layer_count; i++)
        if (config->layers[i].low_count > 0)
            return true;
    return false;
}

bool wn_card_is_quantized(const struct wn_card *c)
{
    json_t *bits = json_object_get(json_object_get(c->record, "options"), "rest_bits");

    return wn_card_is_graded(c) || (json_is_integer(bits) && json_integer_value(bits) < 16);
}

static void count_experts(struct wn_card_experts *e, size_t n)
{
    if (n == 0)
        return;
    e->fewest = e->layers == 0 || n < e->fewest ? n : e->fewest;
    e->most = n > e->most ? n : e->most;
    e->layers++;
}

struct wn_card_experts wn_card_experts(const struct wn_card *c)
{
    const struct wn_config *config = c->in.config;
    struct wn_card_experts e = {0};
    const char *layer;
    json_t *list;

    for (uint32_t i = 0; config && i < config->layer_count; i++)
        count_experts(&e, config->layers[i].expert_count);
    if (!config)
        json_object_foreach(wn_seal_experts(c->record), layer, list)
            count_experts(&e, json_array_size(list));
    return e;
}

/* Where the build's name is only "." or "..", the folder's own. */
static char *name_of(const char *path, struct wn_err *err)
{
    size_t n = strlen(path), last;
    char *real = NULL, *name;

    while (n > 1 && path[n - 1] == '/')
        n--;
    for (last = n; last > 0 && path[last - 1] != '/'; last--)
        ;
    if (n - last <= 2 && strspn(path + last, "./") >= n - last && (real = realpath(path, NULL))) {
        name = wn_strdup(wn_path_name(real), err);
        free(real);
        return name;
    }
    return wn_strndup(path + last, n - last, err);
}

/* The record is whole and of files of these lengths; hashing them is verify's. */
static bool check_record(struct wn_card *c, struct wn_err *err)
{
    json_t *list = json_object_get(c->record, "weights");
    size_t n = wn_source_file_count(c->source);

    if (!wn_seal_check_form(c->record, c->record_sha, err))
        return false;
    if (json_array_size(list) != n)
        return wn_fail(err, WN_ERR_FORMAT, "the record tells of %zu files of weights, there are %zu",
                       json_array_size(list), n);
    for (size_t i = 0; i < n; i++) {
        const struct wn_file *f = &wn_source_file_at(c->source, i)->file;
        json_int_t told = json_integer_value(json_object_get(json_array_get(list, i), "bytes"));

        if (told < 0 || (uint64_t)told != f->bytes)
            return wn_fail(err, WN_ERR_FORMAT, "'%s' has %" PRIu64 " bytes, the record says %" JSON_INTEGER_FORMAT,
                           wn_path_name(f->path), f->bytes, told);
    }
    return true;
}

static bool read_build(struct wn_card *c, const char *path, struct wn_err *err)
{
    if (!(c->name = name_of(path, err)) || !(c->source = wn_source_open(path, err)) || !wn_inspect(path, &c->in, err))
        return false;
    c->record = wn_seal_load(c->source, err);
    return c->record ? check_record(c, err) || wn_fail_in(err, "'%s'", path) : err->msg[0] == 0;
}

/* ---- logs ---- */

/*
 * Two cuts to as many experts have the same headers. Which of them a log is of tells the SHA-256 of the build's record;
 * where neither log nor build has one, headers alone decide.
 */
static bool check_record_of(const struct wn_card *c, const struct wn_card_log *log, struct wn_err *err)
{
    json_t *v = json_object_get(log->root, "record_sha256");
    const char *told = json_string_value(v);

    if (!c->record)
        return !told || wn_fail(err, WN_ERR_FORMAT,
                                "it is of a build whose record has the SHA-256 %.16s..., and '%s' has no record: it "
                                "may be another cut to as many experts",
                                told, c->name);
    if (!told)
        return wn_fail(err, WN_ERR_FORMAT,
                       json_is_null(v) ? "it is of a build without a record, and '%s' has one, of SHA-256 %.16s..."
                                       : "it has no 'record_sha256': whether it is of '%s', whose record is "
                                         "%.16s..., or of another cut to as many experts is not told",
                       c->name, c->record_sha);
    return strcmp(told, c->record_sha) == 0 ||
           wn_fail(err, WN_ERR_FORMAT,
                   "it is by another record, that of another build: its SHA-256 is %.16s..., that of '%s' is "
                   "%.16s...",
                   told, c->name, c->record_sha);
}

/* What a log says it went by is the plan of the record, where both are known. */
static bool check_plan_of(const struct wn_card *c, const struct wn_card_log *log, struct wn_err *err)
{
    const char *plan = json_string_value(json_object_get(log->root, "plan_sha256"));
    const char *told = wn_card_cut_told(c, "plan", "sha256");

    return !plan || !*told || strcmp(plan, told) == 0 ||
           wn_fail(err, WN_ERR_FORMAT,
                   "it is by another plan: its SHA-256 is %.16s..., that of the build's is %.16s...", plan, told);
}

/* Of `command`, which every log of has `key`, and of this very build. */
static bool check_log(const struct wn_card *c, const struct wn_card_log *log, const char *command, const char *key,
                      struct wn_err *err)
{
    const char *model = json_string_value(json_object_get(log->root, "model_fingerprint"));

    if (!json_object_get(log->root, key))
        return wn_fail(err, WN_ERR_FORMAT, "it has no '%s', as 'winnow %s --json' writes it", key, command);
    if (!model)
        return wn_fail(err, WN_ERR_FORMAT, "it has no 'model_fingerprint': which model it is of is not told");
    if (strcmp(model, c->in.fingerprint) != 0)
        return wn_fail(err, WN_ERR_FORMAT, "it is of another model: its fingerprint is %.40s, that of '%s' is %s",
                       model, c->name, c->in.fingerprint);
    return check_record_of(c, log, err) && check_plan_of(c, log, err);
}

static bool read_log(const struct wn_card *c, struct wn_card_log *log, const char *path, const char *command,
                     const char *key, struct wn_err *err)
{
    uint8_t digest[WN_DIGEST_BYTES];
    json_error_t at;
    size_t n;
    char *text = wn_infile_slurp(path, LOG_BYTES_MAX, &n, err);
    bool ok = text && wn_hash_bytes(text, n, digest, err);

    if (ok && !(log->root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at)))
        ok = wn_fail(err, WN_ERR_FORMAT, "'%s': line %d: %s", path, at.line, at.text);
    free(text);
    if (!ok)
        return false;
    log->name = wn_path_name(path);
    wn_hash_text(digest, sizeof digest, log->sha256);
    return check_log(c, log, command, key, err) || wn_fail_in(err, "'%s'", path);
}

/* All of the build's experts took part. */
static bool check_eval(const struct wn_card_log *log, struct wn_err *err)
{
    return !json_is_string(json_object_get(log->root, "masked")) ||
           wn_fail(err, WN_ERR_FORMAT, "it is of the model with experts masked, not of the build");
}

static bool read_evals(struct wn_card *c, const struct wn_card_options *o, struct wn_err *err)
{
    c->evals = wn_alloc(o->eval_count, sizeof *c->evals, err);
    c->figures = c->evals ? wn_alloc(o->eval_count, sizeof *c->figures, err) : NULL;
    if (!c->figures)
        return false;
    for (size_t i = 0; i < o->eval_count; i++) {
        c->eval_count++;
        if (!read_log(c, &c->evals[i], o->evals[i], "eval", "domains", err))
            return false;
        if (!check_eval(&c->evals[i], err) || !wn_report_eval_of(&c->figures[i], c->evals[i].root, err))
            return wn_fail_in(err, "'%s'", o->evals[i]);
    }
    return true;
}

/* What found the files' digests did so by a record. */
static bool check_verify(const struct wn_card *c, const struct wn_card_log *log, struct wn_err *err)
{
    json_t *what = json_object_get(log->root, "difference");

    if (!json_is_true(json_object_get(log->root, "ok")))
        return wn_fail(err, WN_ERR_FORMAT, "verify found a difference: %s",
                       json_is_string(what) ? json_string_value(what) : "it does not say which");
    return c->record || !wn_card_has_hashes(log) ||
           wn_fail(err, WN_ERR_FORMAT, "files were hashed by a record, and '%s' has none", c->name);
}

static bool read_verifies(struct wn_card *c, const struct wn_card_options *o, struct wn_err *err)
{
    c->verifies = wn_alloc(o->verify_count, sizeof *c->verifies, err);
    for (size_t i = 0; c->verifies && i < o->verify_count; i++) {
        c->verify_count++;
        if (!read_log(c, &c->verifies[i], o->verifies[i], "verify", "ok", err))
            return false;
        if (!check_verify(c, &c->verifies[i], err))
            return wn_fail_in(err, "'%s'", o->verifies[i]);
    }
    return c->verifies != NULL;
}

/* What no run can have had. */
static bool check_run(const struct wn_card_log *log, struct wn_err *err)
{
    static const char *const keys[] = {
        "tokens_per_second", "prompt_tokens_per_second", "tokens", "prompt_tokens", "token_bytes", "memory_peak"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (wn_card_number_at(log->root, keys[i]) < 0)
            return wn_fail(err, WN_ERR_FORMAT, "it has a '%s' of %g: it is 0 or more", keys[i],
                           wn_card_number_at(log->root, keys[i]));
    return true;
}

static bool read_runs(struct wn_card *c, const struct wn_card_options *o, struct wn_err *err)
{
    c->runs = wn_alloc(o->run_count, sizeof *c->runs, err);
    for (size_t i = 0; c->runs && i < o->run_count; i++) {
        c->run_count++;
        if (!read_log(c, &c->runs[i], o->runs[i], "run", "tokens_per_second", err))
            return false;
        if (!check_run(&c->runs[i], err))
            return wn_fail_in(err, "'%s'", o->runs[i]);
    }
    return c->runs != NULL;
}

static bool check_plan(const struct wn_card *c, struct wn_err *err)
{
    const char *told = wn_card_cut_told(c, "plan", "sha256"), *parent = wn_card_cut_told(c, "parent", "fingerprint");

    if (!c->record)
        return wn_fail(err, WN_ERR_FORMAT, "'%s' has no record (winnow.json) that a plan could be held against",
                       c->name);
    if (!wn_card_is_pruned(c))
        return wn_fail(err, WN_ERR_FORMAT, "by its record '%s' was made without a plan", c->name);
    if (*told && strcmp(told, c->plan_log.sha256) != 0)
        return wn_fail(err, WN_ERR_FORMAT, "its SHA-256 is %.16s..., that of the build's plan is %.16s...",
                       c->plan_log.sha256, told);
    if (!*told && c->plan.model_fingerprint[0] && strcmp(parent, c->plan.model_fingerprint) != 0 &&
        strcmp(wn_card_cut_told(c, "lo_parent", "fingerprint"), c->plan.model_fingerprint) != 0)
        return wn_fail(err, WN_ERR_FORMAT, "it is for model %s, the build's parent is %.40s", c->plan.model_fingerprint,
                       parent);
    return true;
}

static bool read_plan(struct wn_card *c, const char *path, struct wn_err *err)
{
    c->plan_log.name = wn_path_name(path);
    c->has_plan = wn_plan_read(&c->plan, path, err);
    if (!c->has_plan)
        return false;
    memcpy(c->plan_log.sha256, c->plan.sha256, sizeof c->plan_log.sha256);
    return check_plan(c, err) || wn_fail_in(err, "'%s'", path);
}

bool wn_card_read(struct wn_card *c, const struct wn_card_options *o, struct wn_err *err)
{
    *c = (struct wn_card){0};
    return read_build(c, o->build, err) && read_evals(c, o, err) && read_verifies(c, o, err) && read_runs(c, o, err) &&
           (!o->plan_path || read_plan(c, o->plan_path, err));
}

static void release_logs(struct wn_card_log *logs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        json_decref(logs[i].root);
    free(logs);
}

void wn_card_release(struct wn_card *c)
{
    for (size_t i = 0; i < c->eval_count; i++)
        wn_report_eval_release(&c->figures[i]);
    free(c->figures);
    release_logs(c->evals, c->eval_count);
    release_logs(c->verifies, c->verify_count);
    release_logs(c->runs, c->run_count);
    wn_plan_release(&c->plan);
    json_decref(c->record);
    wn_inspection_release(&c->in);
    wn_source_close(c->source);
    free(c->name);
    *c = (struct wn_card){0};
}
