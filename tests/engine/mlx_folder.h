/* MLX folders made of the small HF models. */
#ifndef MLX_FOLDER_H
#define MLX_FOLDER_H

#include "graded.h"

/* How the matrices that are no experts are stored. */
struct rest {
    unsigned bits, group; /* affine; 0: as they are */
    bool as_floats;       /* the affine values, decoded again and stored as F32 without quantisation */
};

/*
 * The MLX form of an HF model. graded: per layer, or NULL. Low banks come from `low`, a file of golden/text (NULL
 * without graded).
 */
struct made made_mlx(const struct loaded *hf, struct rest rest, const struct graded_layer *graded,
                     const struct wn_source *low);
#endif
