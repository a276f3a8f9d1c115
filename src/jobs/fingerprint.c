/* See fingerprint.h. */
#include "jobs/fingerprint.h"

#include <openssl/evp.h>
#include <stdio.h>

static bool fail_crypto(struct wn_err *err)
{
    return wn_fail(err, WN_ERR_NOMEM, "the SHA-256 of the crypto library failed");
}

bool wn_fingerprint_begin(struct wn_fingerprint *f, struct wn_err *err)
{
    f->state = EVP_MD_CTX_new();
    if (f->state && EVP_DigestInit_ex(f->state, EVP_sha256(), NULL) == 1)
        return true;
    wn_fingerprint_release(f);
    return fail_crypto(err);
}

bool wn_fingerprint_add(struct wn_fingerprint *f, const void *bytes, size_t n, struct wn_err *err)
{
    return EVP_DigestUpdate(f->state, bytes, n) == 1 || fail_crypto(err);
}

bool wn_fingerprint_end(struct wn_fingerprint *f, uint8_t digest[WN_DIGEST_BYTES], struct wn_err *err)
{
    return EVP_DigestFinal_ex(f->state, digest, NULL) == 1 || fail_crypto(err);
}

void wn_fingerprint_release(struct wn_fingerprint *f)
{
    EVP_MD_CTX_free(f->state);
    f->state = NULL;
}

void wn_fingerprint_text(const uint8_t digest[WN_DIGEST_BYTES], char out[17])
{
    for (int i = 0; i < 8; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", digest[i]);
}
