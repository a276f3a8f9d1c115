/*
 * See prune_parts.h: an output that is complete already, because the run that made it was killed between its last
 * rename and the end of its tidying up. What is left of that is the journal, and what was set aside.
 */
#include "base/alloc.h"
#include "jobs/prune/prune_parts.h"
#include "jobs/talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

bool wn_pruning_find_finished(struct wn_pruning *p, const struct wn_sink *dry, struct wn_err *err)
{
    enum wn_container container = wn_pruning_container(p);
    uint8_t identity[WN_DIGEST_BYTES];

    p->finished = false;
    if (!p->o->resume || wn_sink_is_half_placed(dry) || !wn_resume_is_left(dry, container))
        return true;
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

    if (!p->o->dry_run && !remove_leftovers(p, dry, err))
        return false;
    line = wn_asprintf(err, "'%s' %s complete already; leftovers of the run that made it %s removed", p->o->out,
                       p->o->dry_run ? "is" : "was", p->o->dry_run ? "would be" : "are");
    if (line)
        wn_job_note(p->job, line);
    free(line);
    return line != NULL;
}
