/* See card.h: the order of a card, what the build is, its files and logs. */
#include "jobs/report/card.h"
#include "base/alloc.h"
#include "jobs/prune/seal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char not_measured[] = "not measured";

static const char *or_not(const char *text)
{
    return *text ? text : not_measured;
}

/* ---- engines ---- */

static bool is_mlx(const struct wn_card *c)
{
    return strcmp(c->in.container, "mlx") == 0;
}

static const char *container_name(const struct wn_card *c)
{
    return wn_source_gguf(c->source) ? "GGUF" : is_mlx(c) ? "an MLX folder" : "an HF folder of safetensors";
}

/* What the form of the files allows, not what was tried. */
static void put_engines(struct wn_html *h, const struct wn_card *c)
{
    struct wn_card_experts e = wn_card_experts(c);
    bool other = false;

    wn_html_put(h, "## Engines that read it\n\nBy its form; no log tells of other engines than winnow.\n\n");
    if (c->in.known)
        wn_html_put(h, "- winnow: <code>winnow run %s --prompt ...</code>\n", c->name);
    if (c->in.ghosts > 0) {
        wn_html_put(
            h,
            "\nNo other: it has ghosts, dropped experts whose router rows stay. <code>winnow convert %s --plain "
            "-o OUT</code> makes the build without them.\n\n",
            c->name);
        return;
    }
    if (wn_source_gguf(c->source) && !wn_card_is_graded(c)) {
        wn_html_put(h, "- llama.cpp, where it has the architecture %s\n", or_not(c->in.architecture));
        other = true;
    } else if (is_mlx(c)) {
        wn_html_put(h, "- mlx-lm with the loader for K3\n");
        other = true;
    } else if (!wn_source_gguf(c->source) && e.fewest == e.most) {
        wn_html_put(h, "- engines that read the checkpoint it was made of\n");
        other = true;
    }
    if (!c->in.known)
        wn_html_put(h, "\nwinnow does not compute this architecture.\n");
    else if (!other)
        wn_html_put(h, "\nNo other: %s\n",
                    wn_card_is_graded(c) ? "it is graded, its layers have experts of two widths in a second bank."
                                         : "its layers keep different numbers of experts.");
    wn_html_put(h, "\n");
}

/* ---- what it is ---- */

static const char *files_of(uint64_t n)
{
    return n == 1 ? "file" : "files";
}

/* what: "made from"; which: the record's key of that parent. */
static void put_parent(struct wn_html *h, const struct wn_card *c, const char *what, const char *which)
{
    json_t *files = json_object_get(json_object_get(c->record, which), "files"), *f;
    uint64_t bytes = 0;
    size_t i;

    json_array_foreach(files, i, f) {
        json_int_t n = json_integer_value(json_object_get(f, "bytes"));

        bytes += n > 0 ? (uint64_t)n : 0;
    }
    wn_html_put(h, "| %s, fingerprint of its headers | %s |\n", what, or_not(wn_card_told(c, which, "fingerprint")));
    if (files)
        wn_html_put(h, "| %s, weights | %s, %zu %s, %'" PRIu64 " bytes |\n", what, wn_card_told(c, which, "container"),
                    json_array_size(files), files_of(json_array_size(files)), bytes);
    if (*wn_card_told(c, which, "record"))
        wn_html_put(h, "| %s, SHA-256 of its record | %s |\n", what, wn_card_told(c, which, "record"));
}

static void put_cut(struct wn_html *h, const struct wn_card *c)
{
    const char *weights = wn_card_cut_told(c, "plan", "weights");

    if (c->record && !wn_card_is_pruned(c)) {
        wn_html_put(h, "| cut | none from what it was made from |\n");
        return;
    }
    wn_html_put(h, "| cut | ");
    if (c->record) {
        wn_html_put(h, "%s, by %s", or_not(wn_card_cut_told(c, "plan", "mode")),
                    or_not(wn_card_cut_told(c, "plan", "criterion")));
        if (*weights)
            wn_html_put(h, ", sources weighed %s", weights);
    } else {
        wn_html_put(h, "%s", not_measured);
    }
    wn_html_put(h, " |\n| plan, SHA-256 | %s |\n", or_not(wn_card_cut_told(c, "plan", "sha256")));
    if (wn_card_is_copy_of_cut(c))
        wn_html_put(h, "| what was cut, before it was made into this, fingerprint of its headers | %s |\n",
                    or_not(wn_card_cut_told(c, "parent", "fingerprint")));
    if (c->has_plan)
        wn_html_put(h, "| experts per layer before the cut | %u |\n", c->plan.num_experts);
}

static void put_experts(struct wn_html *h, const struct wn_card *c)
{
    struct wn_card_experts e = wn_card_experts(c);

    if (e.layers == 0)
        wn_html_put(h, "| experts | %s |\n", not_measured);
    else if (e.fewest == e.most)
        wn_html_put(h, "| experts | %zu in each of %zu layers |\n", e.most, e.layers);
    else
        wn_html_put(h, "| experts | %zu to %zu in %zu layers |\n", e.fewest, e.most, e.layers);
    if (c->in.config)
        wn_html_put(h, "| experts per token | %u |\n", c->in.config->experts_per_token);
}

/* How the experts were divided among the layers: what the plan tells. */
static void put_budget(struct wn_html *h, const struct wn_card *c)
{
    if (!wn_card_is_pruned(c))
        return;
    wn_html_put(h, "| budget of layers | %s",
                !c->has_plan      ? not_measured
                : *c->plan.budget ? c->plan.budget
                                  : c->plan.mode);
    if (c->has_plan && c->plan.basis != WN_BASIS_NONE)
        wn_html_put(h, ", losses as the dropped share to the power of %.2f", c->plan.power);
    wn_html_put(h, " |\n");
}

/* What the plan was asked for in bytes, and what it said that the build takes. */
static void put_asked(struct wn_html *h, const struct wn_card *c)
{
    const struct wn_plan *p = &c->plan;

    if (!wn_card_is_pruned(c))
        return;
    wn_html_put(h, "| budget in bytes | ");
    if (!c->has_plan)
        wn_html_put(h, "%s |\n", not_measured);
    else if (p->asked_memory)
        wn_html_put(h, "%'" PRIu64 " of memory to run it (<code>--fit</code>) |\n", p->asked_memory);
    else if (p->asked_size)
        wn_html_put(h, "%'" PRIu64 " of tensors (<code>--size</code>) |\n", p->asked_size);
    else
        wn_html_put(h, "none is told |\n");
    wn_html_put(h, "| bytes of its files as <code>plan</code> foretold them | ");
    if (p->bytes)
        wn_html_put(h, "%'" PRIu64 " |\n", p->bytes);
    else
        wn_html_put(h, "%s |\n", not_measured);
}

static void put_ghosts(struct wn_html *h, const struct wn_card *c)
{
    if (!c->in.known) {
        wn_html_put(h, "| ghosts | %s |\n", not_measured);
    } else if (c->in.ghosts == 0) {
        wn_html_put(h, "| ghosts | none |\n");
    } else {
        wn_html_put(h, "| ghosts | %s: router rows of %'" PRIu64 " dropped experts stay, %'" PRIu64 " bytes",
                    c->in.ghost_mean_bytes ? "mean" : "skip", c->in.ghosts, c->in.ghost_bytes);
        if (c->in.ghost_mean_bytes)
            wn_html_put(h, ", %'" PRIu64 " of them mean outputs", c->in.ghost_mean_bytes);
        wn_html_put(h, " |\n");
    }
    if (*wn_card_told(c, "ghosts", "sha256"))
        wn_html_put(h, "| archive of the ghosts’ means, SHA-256 | %s, %s |\n", wn_card_told(c, "ghosts", "saliency"),
                    wn_card_told(c, "ghosts", "sha256"));
}

/* A GGUF's is without its ending. */
static void put_title(struct wn_html *h, const char *name)
{
    struct wn_err ignored;
    char *title = wn_ends_with(name, ".gguf") ? wn_strndup(name, strlen(name) - strlen(".gguf"), &ignored) : NULL;

    wn_html_put(h, "# %s\n\n", title && *title ? title : name);
    free(title);
}

static void put_build(struct wn_html *h, const struct wn_card *c)
{
    const char *winnow = json_string_value(json_object_get(c->record, "winnow"));

    put_title(h, c->name);
    wn_html_put(h, "| the build | |\n|---|---|\n| architecture | %s |\n| form | %s%s |\n", or_not(c->in.architecture),
                container_name(c), wn_card_is_graded(c) ? ", graded" : "");
    wn_html_put(h, "| weights | %'" PRIu64 " %s, %'" PRIu64 " bytes, %'" PRIu64 " tensors |\n", c->in.files,
                files_of(c->in.files), c->in.file_bytes, c->in.tensors);
    wn_html_put(h, "| fingerprint of its headers | %s |\n", c->in.fingerprint);
    put_experts(h, c);
    put_cut(h, c);
    put_budget(h, c);
    put_asked(h, c);
    put_ghosts(h, c);
    put_parent(h, c, "made from", "parent");
    if (wn_card_has_two_parents(c))
        put_parent(h, c, "second banks copied from", "lo_parent");
    wn_html_put(h, "| made by winnow | %s |\n| its record, SHA-256 | %s |\n\n", or_not(winnow ? winnow : ""),
                or_not(c->record_sha));
}

/* ---- files and logs ---- */

static void put_file_rows(struct wn_html *h, json_t *list, bool proved)
{
    json_t *f;
    size_t i;

    json_array_foreach(list, i, f) {
        const char *name = json_string_value(json_object_get(f, "name"));
        const char *sha = json_string_value(json_object_get(f, "sha256"));

        if (name && sha && strcmp(name, WN_CARD_NAME) != 0)
            wn_html_put(h, "| %s | %'" PRIu64 " | %s | %s |\n", name,
                        (uint64_t)json_integer_value(json_object_get(f, "bytes")), sha,
                        proved ? "found so" : not_measured);
    }
}

static void put_files(struct wn_html *h, const struct wn_card *c)
{
    const struct wn_card_log *proof = wn_card_proof(c);

    wn_html_put(h, "\n## Files\n\n");
    if (!c->record) {
        wn_html_put(h, "SHA-256 of the files: %s; the build has no record.\n", not_measured);
        return;
    }
    wn_html_put(h, "As the build's record has them. ");
    if (proof)
        wn_html_put(h, "verify read every one of them again and found these digests: log %s, SHA-256 %s.\n",
                    proof->name, proof->sha256);
    else
        wn_html_put(h, "Whether the files have these digests: %s; <code>winnow verify %s --json</code> tells.\n",
                    not_measured, c->name);
    wn_html_put(h, "\n| file | bytes | SHA-256 | by verify |\n|---|---:|---|---|\n");
    put_file_rows(h, json_object_get(c->record, "weights"), proof != NULL);
    put_file_rows(h, json_object_get(c->record, "beside"), proof != NULL);
}

static void put_log(struct wn_html *h, const struct wn_card_log *log, const char *command)
{
    wn_html_put(h, "| %s | winnow %s | %s |\n", log->name, command, log->sha256);
}

static void put_texts(struct wn_html *h, const struct wn_card *c)
{
    json_t *d;
    size_t k;

    for (size_t i = 0; i < c->eval_count; i++) {
        json_array_foreach(json_object_get(c->evals[i].root, "domains"), k, d) {
            const char *file = json_string_value(json_object_get(d, "file"));
            const char *sha = json_string_value(json_object_get(d, "sha256"));

            if (file && sha)
                wn_html_put(h, "| %s | text of %s | %s |\n", wn_path_name(file), c->evals[i].name, sha);
        }
    }
}

static void put_logs(struct wn_html *h, const struct wn_card *c)
{
    if (c->verify_count + c->eval_count + c->run_count == 0 && !c->has_plan)
        return;
    wn_html_put(h,
                "\n## Logs\n\nA log belongs to this build by the fingerprint of its headers (names, types and shapes "
                "of the tensors, not their data), %s.\n\n| file | is of | SHA-256 |\n|---|---|---|\n",
                c->record ? "and tells the SHA-256 of this build’s record"
                          : "and by nothing else: the build has no record, and another cut to as many experts has the "
                            "same headers");
    for (size_t i = 0; i < c->verify_count; i++)
        put_log(h, &c->verifies[i], "verify");
    if (c->has_plan)
        put_log(h, &c->plan_log, "plan");
    for (size_t i = 0; i < c->eval_count; i++)
        put_log(h, &c->evals[i], "eval");
    for (size_t i = 0; i < c->run_count; i++)
        put_log(h, &c->runs[i], "run");
    put_texts(h, c);
}

/* ---- the card ---- */

static bool draw(struct wn_html *h, const struct wn_card *c, struct wn_err *err)
{
    if (!wn_card_put_front(h, c, err))
        return false;
    put_build(h, c);
    put_engines(h, c);
    wn_card_put_claims(h, c);
    put_files(h, c);
    put_logs(h, c);
    return wn_html_ok(h);
}

/* The text, NUL and all, in h->b. */
static bool make(const struct wn_card *c, struct wn_html *h, struct wn_err *err)
{
    h->err = err;
    h->markdown = true;
    return draw(h, c, err) && wn_buf_add(&h->b, "", 1, err);
}

char *wn_card_text(const struct wn_card_options *o, size_t *n, struct wn_err *err)
{
    struct wn_card c;
    struct wn_html h = {0};
    bool ok = wn_card_read(&c, o, err) && make(&c, &h, err);

    wn_card_release(&c);
    if (!ok) {
        wn_buf_release(&h.b);
        return NULL;
    }
    *n = h.b.n - 1;
    return h.b.at;
}

/* All of a folder but its card. */
static bool spares_folder(const char *out, const char *folder, struct wn_err *err)
{
    char **names;
    size_t n;
    bool ok;

    if (!wn_path_list(folder, &names, &n, err))
        return false;
    ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        char *path = strcmp(names[i], WN_CARD_NAME) != 0 ? wn_path_join(folder, names[i], err) : NULL;

        ok = (path || strcmp(names[i], WN_CARD_NAME) == 0) &&
             wn_output_spares(out, (const char *const *)&path, 1, NULL, err);
        free(path);
    }
    wn_names_free(names, n);
    return ok;
}

static bool spares_build(const char *out, const struct wn_source *s, struct wn_err *err)
{
    for (size_t i = 0; i < wn_source_file_count(s); i++) {
        const char *path = wn_source_file_at(s, i)->file.path;

        if (!wn_output_spares(out, &path, 1, NULL, err))
            return false;
    }
    return wn_source_gguf(s) != NULL || spares_folder(out, wn_source_folder(s), err);
}

static bool spares(const struct wn_card_options *o, const struct wn_card *c, const char *out, struct wn_err *err)
{
    return wn_output_spares(out, o->evals, o->eval_count, NULL, err) &&
           wn_output_spares(out, o->verifies, o->verify_count, NULL, err) &&
           wn_output_spares(out, o->runs, o->run_count, NULL, err) &&
           wn_output_spares(out, &o->plan_path, 1, NULL, err) && spares_build(out, c->source, err);
}

bool wn_card_write(const struct wn_card_options *o, const char *out, bool overwrite, uint64_t *bytes,
                   struct wn_err *err)
{
    struct wn_card c;
    struct wn_html h = {0};
    bool ok = wn_outfile_may_open(out, overwrite, err);

    if (!ok)
        return false;
    ok = wn_card_read(&c, o, err) && spares(o, &c, out, err) && make(&c, &h, err) &&
         wn_file_put(out, h.b.at, h.b.n - 1, overwrite, err);
    *bytes = ok ? h.b.n - 1 : 0;
    wn_buf_release(&h.b);
    wn_card_release(&c);
    return ok;
}
