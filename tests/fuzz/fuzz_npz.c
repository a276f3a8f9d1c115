/*
 * An npz from hostile bytes, or one npy when they do not start as a zip does (a zip's checksums keep most changes from
 * the npy reader). Every element that was read is used.
 */
#include "formats/npz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct wn_npy *a)
{
    struct wn_err err;
    char text[64];
    double real;
    int64_t whole;

    for (uint64_t i = 0; i < a->elements; i++) {
        if (a->kind == WN_NPY_UNICODE) {
            if (wn_npy_get_string(a, i, text, sizeof text, &err) && strlen(text) >= sizeof text)
                abort();
        } else if (!wn_npy_as_f64(a, i, &real)) {
            abort();
        } else if (wn_npy_as_i64(a, i, &whole) && a->kind == WN_NPY_F64 && (double)whole != real) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wn_err err;
    struct wn_npz z;
    struct wn_npy a;

    if (size >= 2 && memcmp(data, "PK", 2) == 0) {
        if (!wn_npz_parse(&z, data, size, &err))
            return 0;
        for (size_t i = 0; i < z.n; i++)
            use(&z.entry[i].array);
        wn_npz_release(&z);
    } else if (wn_npy_parse(&a, data, size, &err)) {
        use(&a);
        wn_npy_release(&a);
    }
    return 0;
}
