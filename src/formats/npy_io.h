/*
 * npy arrays from any place that bytes come from one after the other: memory, a file, an entry of a zip.
 */
#ifndef WN_FORMATS_NPY_IO_H
#define WN_FORMATS_NPY_IO_H

#include "formats/npy_header.h"

struct wn_npy_input {
    /* The next n bytes, all of them. */
    bool (*read)(void *arg, void *dst, size_t n, struct wn_err *err);
    void *arg;
    uint64_t bytes; /* what there is in all: header and data must come to just this */
};

/*
 * What stands before the data: *used bytes. Refused unless the data are as many bytes as it asks for (h->known; of
 * other dtypes nothing is looked at).
 */
WN_CHECKED bool wn_npy_read_head(struct wn_npy_header *h, const struct wn_npy_input *in, uint64_t *used,
                                 struct wn_err *err);

/*
 * Reads one array. Nothing is allocated that `bytes` does not cover. *known is false, and *a empty, for a dtype that
 * winnow has no use for; *descr then names it.
 */
WN_CHECKED bool wn_npy_read_from(struct wn_npy *a, const struct wn_npy_input *in, bool *known, char descr[24],
                                 struct wn_err *err);

#endif
