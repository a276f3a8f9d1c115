/*
 * See prune_parts.h: an output that is complete already, because the run that made it was killed between its last
 * rename and the end of its tidying up. What is left of that is the journal, and what was set aside.
 *
 * Or because its source was consumed for it, which the mark beside the source tells for good.
 */
#include "base/alloc.h"
#include "jobs/prune/prune_parts.h"
#include "jobs/prune/seal_json.h"
#include "jobs/talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK_LIMIT ((uint64_t)1 << 16)

static bool is_there(const char *folder, const char *name, bool *there, struct wn_err *err)
{
    char *path = wn_path_join(folder, name, err);

    *there = path && wn_path_is_file(path);
    free(path);
    return path != NULL;
}

/* All that was to get its name with the weights. */
static bool all_beside(const struct wn_pruning *p, const struct wn_sink *dry, bool *all, struct wn_err *err)
{
    char *folder = wn_path_parent(wn_sink_file_path(dry, 0), err);
    bool ok = folder != NULL, whole_folder = !wn_pruning_makes_gguf(p);

    *all = true;
    if (ok && p->o->hashes)
        ok = is_there(folder, p->seal_name, all, err);
    for (size_t i = 0; ok && *all && whole_folder && i < p->folder.n; i++)
        ok = is_there(folder, p->folder.copied[i], all, err);
    if (ok && *all && whole_folder && p->folder.has_config)
        ok = is_there(folder, "config.json", all, err);
    free(folder);
    *all = *all && (!wn_sink_index_path(dry) || wn_path_is_file(wn_sink_index_path(dry)));
    return ok;
}

/* Whether the source's mark names this output. */
static bool was_given_to(const struct wn_pruning *p)
{
    struct wn_err ignored;
    char *mark = wn_source_consumed_mark(p->source, &ignored), *real = realpath(p->o->out, NULL), *text = NULL;
    bool yes = false;
    size_t n;

    if (mark && real && wn_path_is_file(mark) && (text = wn_file_slurp(mark, MARK_LIMIT, &n, &ignored)))
        yes = strcmp(text, real) == 0;
    free(text);
    free(real);
    free(mark);
    return yes;
}

static bool has_all_weights(const struct wn_sink *dry)
{
    bool all = true;

    for (uint32_t i = 0; all && i < wn_sink_file_count(dry); i++) {
        struct wn_err ignored;
        struct wn_file f;

        all = wn_file_open(&f, wn_sink_file_path(dry, i), &ignored);
        if (!all)
            break;
        all = f.bytes == wn_sink_file_bytes(dry, i);
        wn_file_close(&f);
    }
    return all;
}

static bool tells(json_t *record, const char *part, const char *key, const char *text)
{
    const char *told = json_string_value(json_object_get(json_object_get(record, part), key));

    return told && strcmp(told, text) == 0;
}

/* By its record the output is of this source and this plan. */
static bool is_by_record(const struct wn_pruning *p, const struct wn_sink *dry)
{
    const char *path = wn_pruning_makes_gguf(p) ? wn_sink_file_path(dry, 0) : p->o->out;
    char self[2 * WN_DIGEST_BYTES + 1], source[17];
    struct wn_err ignored;
    struct wn_source *out = wn_source_open(path, &ignored);
    json_t *record = out ? wn_seal_load(out, &ignored) : NULL;
    bool yes;

    wn_source_fingerprint(p->source, source);
    yes = record && wn_seal_check_form(record, self, &ignored) && tells(record, "parent", "fingerprint", source) &&
          (p->o->plan ? tells(record, "plan", "sha256", p->o->plan->sha256)
                      : json_is_null(json_object_get(record, "plan")));
    json_decref(record);
    wn_source_close(out);
    return yes;
}

bool wn_pruning_find_finished(struct wn_pruning *p, const struct wn_sink *dry, struct wn_err *err)
{
    enum wn_container container = wn_pruning_container(p);
    uint8_t identity[WN_DIGEST_BYTES];

    p->finished = false;
    if (!p->o->resume || wn_sink_is_half_placed(dry))
        return true;
    if (!wn_resume_is_left(dry, container))
        return !p->o->consume || !was_given_to(p) || !has_all_weights(dry) || !is_by_record(p, dry) ||
               all_beside(p, dry, &p->finished, err);
    if (!wn_pruning_identity(p, dry, identity, err) ||
        !wn_resume_read_placed(&p->resume, dry, container, identity, &p->finished, err) ||
        (p->finished && !all_beside(p, dry, &p->finished, err)))
        return false;
    if (!p->finished)
        wn_resume_release(&p->resume);
    return true;
}

/* The journal last: without it nothing would tell that the rest may go. */
static bool remove_leftovers(struct wn_pruning *p, const struct wn_sink *dry, struct wn_err *err)
{
    if (!wn_sink_tidy(dry, p->seal_name, err))
        return false;
    wn_resume_remove(&p->resume);
    return true;
}

bool wn_pruning_tidy(struct wn_pruning *p, const struct wn_sink *dry, struct wn_err *err)
{
    char *line;

    if (!p->resume.on) {
        line = wn_asprintf(err, "'%s' is complete already; '%s' gave its weights away for it", p->o->out, p->o->source);
        if (line)
            wn_job_note(p->job, line);
        free(line);
        return line != NULL;
    }
    if (!p->o->dry_run && !remove_leftovers(p, dry, err))
        return false;
    line = wn_asprintf(err, "'%s' %s complete already; leftovers of the run that made it %s removed", p->o->out,
                       p->o->dry_run ? "is" : "was", p->o->dry_run ? "would be" : "are");
    if (line)
        wn_job_note(p->job, line);
    free(line);
    return line != NULL;
}
