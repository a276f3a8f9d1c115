/*
 * GPT-2's byte alphabet, as GGUF vocabularies spell their tokens: a byte that is printable in Latin-1 stands for
 * itself, and the other 68 are U+0100, U+0101, ... in the order of their values.
 */
#include "base/utf8.h"
#include "text/vocab_new.h"

/* Bytes without a shape of their own come in three runs: 00..20, 7f..a0 and ad. */
static bool byte_of(uint32_t code, unsigned char *byte)
{
    if ((code >= 0x21 && code <= 0x7e) || (code >= 0xa1 && code <= 0xff && code != 0xad))
        *byte = (unsigned char)code;
    else if (code >= 0x100 && code <= 0x120)
        *byte = (unsigned char)(code - 0x100);
    else if (code >= 0x121 && code <= 0x142)
        *byte = (unsigned char)(code - 0x121 + 0x7f);
    else if (code == 0x143)
        *byte = 0xad;
    else
        return false;
    return true;
}

bool wn_gpt2_unspell(struct wn_bytes s, char *out, size_t *out_n)
{
    size_t n = 0;

    for (size_t at = 0; at < s.n;) {
        uint32_t code;
        size_t step = wn_utf8_decode(s.at + at, s.n - at, &code);
        unsigned char byte;

        if (step == 0 || !byte_of(code, &byte))
            return false;
        out[n++] = (char)byte;
        at += step;
    }
    *out_n = n;
    return true;
}

size_t wn_gpt2_spell(struct wn_bytes s, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        unsigned char byte = (unsigned char)s.at[i];
        uint32_t code = byte;

        if (byte <= 0x20)
            code = 0x100 + byte;
        else if (byte >= 0x7f && byte <= 0xa0)
            code = 0x121 + byte - 0x7f;
        else if (byte == 0xad)
            code = 0x143;
        n += wn_utf8_encode(code, out + n);
    }
    return n;
}
