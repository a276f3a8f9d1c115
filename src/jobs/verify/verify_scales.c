/*
 * See verify_parts.h: MXFP4 scales that are no numbers. 255 is NaN by the standard and in no real checkpoint, so a file
 * that has it was damaged before winnow saw it; a copy of it is a true copy all the same, which makes this a note.
 */
#include "base/bytes.h"
#include "jobs/talk.h"
#include "jobs/verify/verify_parts.h"

#include <inttypes.h>
#include <stdio.h>

#define NO_NUMBER  255
#define NOTES_MOST 8 /* a file full of them is one piece of news */

static void say(struct wn_scales *s)
{
    const struct wn_keep_tensor *t = s->tensor;
    char where[64] = "", line[512];

    if (s->here == 0)
        return;
    s->all += s->here;
    if (s->notes++ < NOTES_MOST) {
        if (s->expert != WN_DROPPED)
            (void)snprintf(where, sizeof(where), "layer %" PRIu32 ", new expert %" PRIu32 ", ", t->layer->layer,
                           s->expert);
        (void)snprintf(line, sizeof(line), "%s'%s': %" PRIu64 " scale%s of MXFP4 that %s no number (255)", where,
                       t->name, s->here, s->here == 1 ? "" : "s", s->here == 1 ? "is" : "are");
        wn_job_note(s->job, line);
    }
    s->here = 0;
}

/* Counts one scale for the expert that it belongs to. */
static void count(struct wn_scales *s, const struct wn_keep_tensor *t, uint32_t expert)
{
    if (s->tensor != t || s->expert != expert)
        say(s);
    s->tensor = t;
    s->expert = expert;
    s->here++;
}

/* GGUF's blocks begin with their scale; their slabs are whole blocks. */
static void look_at_blocks(struct wn_scales *s, const struct wn_keep_tensor *t, uint64_t at, const uint8_t *bytes,
                           size_t n)
{
    uint32_t block = wn_type_info(WN_MXFP4)->block_bytes;

    for (size_t i = (size_t)((block - at % block) % block); i < n; i += block)
        if (bytes[i] == NO_NUMBER)
            count(s, t, t->axis == WN_AXIS_OUTER ? (uint32_t)((at + i) / t->slab_bytes) : WN_DROPPED);
}

static bool are_scales(const struct wn_keep_tensor *t)
{
    return t->from->type == WN_F8_E8M0 || (t->from->type == WN_U8 && wn_ends_with(t->name, ".weight_scale"));
}

void wn_scales_look(struct wn_scales *s, const struct wn_keep_tensor *t, uint64_t at, const uint8_t *bytes, size_t n)
{
    if (t->from->type == WN_MXFP4)
        look_at_blocks(s, t, at, bytes, n);
    else if (are_scales(t))
        for (const uint8_t *p = bytes; (p = memchr(p, NO_NUMBER, (size_t)(bytes + n - p))) != NULL; p++)
            count(s, t, t->axis == WN_AXIS_NAME ? t->new_expert : WN_DROPPED);
}

void wn_scales_end(struct wn_scales *s)
{
    char line[128];

    say(s);
    if (s->notes <= NOTES_MOST)
        return;
    (void)snprintf(line, sizeof(line), "in all %" PRIu64 " scales that are no number, in %" PRIu64 " matrices", s->all,
                   s->notes);
    wn_job_note(s->job, line);
}
