/* Roads from a source to an output, which can be killed on their way and gone again. */
#ifndef ROAD_H
#define ROAD_H

#include "prune_help.h"

#define HF      "golden/text/tiny-a/hf"
#define SET     "golden/text/tiny-b/gguf/split/tiny-b-IQ1_S-00001-of-00003.gguf"
#define JOURNAL "progress.part"

enum { STEPS_MOST = 2000 };

/* A command, and what it makes when nobody disturbs it. */
struct road {
    struct wn_prune_options o;
    struct wn_plan plan;
    struct wn_model *model;
    char source[512], second[512], out[600], folder[512]; /* folder: all that it makes lies in it */
    char want[512];
    bool no_hashes;
    const char *name; /* of a GGUF; NULL: that of the first of three */
};

/* Begins a road, which goes through once: into `want`. Four shards, cut; a set of three files as they are; ... */
void road_hf_cut(struct road *r);
void road_gguf_set(struct road *r);
/* ... another container; experts in Q8_0 whole, in IQ1_S the others. */
void road_made(struct road *r, enum wn_format format);
void road_two_parents(struct road *r);
/* The same with a source of the test data. r->o may have options already. */
void start_road(struct road *r, const char *source);
void end_road(struct road *r);

/* A new folder to go to. */
void new_place(struct road *r);
struct wn_prune_result make_ok(struct road *r);
/* The run ends by kill -9 before its n-th write-like call; true: it got through before. */
bool killed_before_write(const struct road *r, long n);

/* All files of want are in have, byte for byte, and no others. */
void check_same_folder(const char *want, const char *have);
/* No name of the finished output is there unless all are, or the next run would take it for one. */
bool has_final_name(const struct road *r);
/* Journals: of the renames, of finished files. */
bool is_placing(const struct road *r);
bool has_journal(const struct road *r);

#endif
