/*
 * How an MLX folder quantises its matrices. config.json's "quantization" has defaults and an entry for each module that
 * differs; a module is a tensor's name without ".weight". Without an entry, a module has the defaults when scales lie
 * beside its weight, and is not quantised otherwise. docs/formats/mlx.md has the form.
 */
#ifndef WN_MODEL_MLX_H
#define WN_MODEL_MLX_H

#include "formats/source.h"
#include "model/naming.h"

enum wn_mlx_mode { WN_MLX_PLAIN, WN_MLX_AFFINE, WN_MLX_MXFP4 };

struct wn_mlx_form {
    enum wn_mlx_mode mode;
    uint32_t bits, group; /* 0 when plain */
};

struct wn_mlx;

/*
 * Reads and checks the "quantization" of the config.json beside s: modes, bits and groups that exist, and modules that
 * do. NULL on failure.
 */
WN_CHECKED struct wn_mlx *wn_mlx_read(const struct wn_source *s, struct wn_err *err);
void wn_mlx_free(struct wn_mlx *m);

/*
 * The form of the tensor named `weight` ("PATH.weight"); scaled: scales lie beside it. What config and files say must
 * agree.
 */
WN_CHECKED bool wn_mlx_form_of(const struct wn_mlx *m, const char *weight, bool scaled, struct wn_mlx_form *f,
                               struct wn_err *err);

/* The type of such rows: WN_MXFP4_SPLIT or an affine one; WN_TYPE_COUNT when plain. */
enum wn_type wn_mlx_type(const struct wn_mlx_form *f);

/* Refuses a config.json (n bytes, well-formed) of the other kind of folder than its tensors' names say. */
WN_CHECKED bool wn_mlx_agrees(const char *json, size_t n, enum wn_naming naming, struct wn_err *err);

#endif
