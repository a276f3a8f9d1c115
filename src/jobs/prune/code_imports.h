/*
 * Which files beside it a Python file needs: transformers loads code that an auto_map names together with what that
 * imports from its own folder.
 */
#ifndef WN_JOBS_PRUNE_CODE_IMPORTS_H
#define WN_JOBS_PRUNE_CODE_IMPORTS_H

#include "base/bytes.h"

/* A module "x", which is x.py beside the file. */
typedef bool wn_import_fn(void *arg, struct wn_bytes module, struct wn_err *err);

/*
 * Tells each module of "from .x import ..." and "from . import x, y", wherever a line begins so, be it inside a
 * function or a comment in quotes; false as soon as tell is. Modules of packages (.a.b, ..a) are none beside the file.
 */
WN_CHECKED bool wn_code_imports(struct wn_bytes text, wn_import_fn *tell, void *arg, struct wn_err *err);

#endif
