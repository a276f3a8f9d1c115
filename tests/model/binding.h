/* Opening and binding as all binding tests do it. */
#ifndef BINDING_H
#define BINDING_H

#include "model/weights.h"

#define TINY_HF   "golden/text/tiny-a/hf"
#define TINY_GGUF "golden/text/tiny-a/gguf/tiny-a-BF16-MXFP4.gguf"

/* Fails the test with the library's sentence when it cannot be opened. */
struct wn_model *opened(const char *path);

/* Every layer and the ends must bind. */
void binds_whole(const char *path);

/* Opening or binding must fail with a sentence that has `part` in it. */
void bind_refused(const char *path, const char *part);

#endif
