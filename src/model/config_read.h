/*
 * Reading a model's shape (<winnow/config.h>) out of config.json or GGUF keys, and checking that it is one coherent
 * shape.
 */
#ifndef WN_MODEL_CONFIG_READ_H
#define WN_MODEL_CONFIG_READ_H

#include "formats/source.h"
#include <winnow/config.h>

/*
 * config.json: the wrapper (KimiK3ForConditionalGeneration, text_config inside) or the flat form. A key that is
 * unknown, or known with a value that winnow does not compute, is refused by name. On failure c owns nothing.
 */
WN_CHECKED bool wn_config_parse_json(const char *json, size_t n, struct wn_config *c, struct wn_err *err);

/*
 * Keys of architecture kimi-k3 or kimi-linear; expert counts come from the tensors' shapes. On failure c owns
 * nothing.
 */
WN_CHECKED bool wn_config_read_gguf(const struct wn_source *s, struct wn_config *c, struct wn_err *err);

/* The config of an open source, from its own keys or the folder's config.json. On failure c owns nothing. */
WN_CHECKED bool wn_config_of_source(const struct wn_source *s, struct wn_config *c, struct wn_err *err);

/* Refuses shapes that contradict themselves or could overflow anywhere. Both readers end with it. */
WN_CHECKED bool wn_config_check(struct wn_config *c, struct wn_err *err);

void wn_config_release(struct wn_config *c);

#endif
