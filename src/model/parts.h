/*
 * What a tensor's name means for pruning and inspecting, without opening the model for computing: its class, its layer,
 * and how the expert axis runs through it. The one table of names (names.c) answers for HF, MLX and GGUF alike, so
 * that loading, pruning, verifying and inspecting cannot disagree.
 */
#ifndef WN_MODEL_PARTS_H
#define WN_MODEL_PARTS_H

#include "formats/source.h"
#include "model/naming.h"
#include <winnow/model.h>

enum wn_expert_axis {
    WN_AXIS_NONE,  /* no expert axis: copied as it is */
    WN_AXIS_OUTER, /* the outermost dimension counts experts (slabs of GGUF and MLX, router rows, router bias) */
    WN_AXIS_NAME   /* the tensor belongs to one expert, whose number is part of its name (HF) */
};

struct wn_part {
    enum wn_class class;
    int32_t layer; /* -1: outside the layers */
    enum wn_expert_axis axis;
    uint32_t expert;                 /* WN_AXIS_NAME only */
    size_t expert_at, expert_digits; /* WN_AXIS_NAME: where in the name the number stands */
    bool router;                     /* router matrix or bias */
    bool low;                        /* the experts' second bank (enum wn_bank) */
    bool expert_rows, ghost_mean;    /* of builds with ghosts: docs/formats/ghosts.md */
    enum wn_naming naming;           /* the only one that has this name; WN_NAMING_COUNT: HF and MLX, or unknown */
};

/*
 * Any name gets an answer; an unknown one is WN_CLASS_OTHER without an expert axis. Knows any GGUF MoE's *_exps
 * tensors.
 */
void wn_part_of(enum wn_container container, const char *name, struct wn_part *part);

#endif
