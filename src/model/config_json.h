/* Values of config.json, each read as the one kind that it must be. Shared by config_json*.c. */
#ifndef WN_MODEL_CONFIG_JSON_H
#define WN_MODEL_CONFIG_JSON_H

#include <jansson.h>
#include <winnow/config.h>

/* The value of a key; NULL when it is absent or null. */
const json_t *wn_json_get(const json_t *o, const char *key);

/* A value as a person would read it, cut to fit a sentence. */
void wn_json_show(const json_t *v, char out[64]);

/* "config: 'KEY' is V, wanted WANTED"; always false. */
bool wn_json_wrong(const char *key, const json_t *v, const char *wanted, struct wn_err *err);

WN_CHECKED bool wn_json_count(const char *key, const json_t *v, uint32_t *out, struct wn_err *err);
WN_CHECKED bool wn_json_number(const char *key, const json_t *v, float *out, struct wn_err *err);
WN_CHECKED bool wn_json_flag(const char *key, const json_t *v, bool *out, struct wn_err *err);

/* True when v is what the JSON text `json` says. */
bool wn_json_is(const json_t *v, const char *json);

/* config_json_refuse.c: what must be refused because it is not computed, and what may be passed over. */
WN_CHECKED bool wn_json_check_demands(const json_t *text, struct wn_err *err);
bool wn_json_is_demanded(const char *key);
bool wn_json_is_harmless(const char *key);
WN_CHECKED bool wn_json_check_quantization(const json_t *o, struct wn_err *err);
/* The family is what model_type and architectures say; never guessed. where: put before the key in the sentence. */
WN_CHECKED bool wn_json_check_family(const json_t *o, const char *where, bool required, struct wn_err *err);

#endif
