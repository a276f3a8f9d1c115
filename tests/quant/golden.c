/* See golden.h. */
#include "golden.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const enum wn_type golden_types[] = {
    WN_F32,    WN_F16,    WN_BF16,  WN_Q4_0,  WN_Q4_1,  WN_Q5_0,    WN_Q5_1,   WN_Q8_0,  WN_Q2_K,    WN_Q3_K,
    WN_Q4_K,   WN_Q5_K,   WN_Q6_K,  WN_IQ1_S, WN_IQ1_M, WN_IQ2_XXS, WN_IQ2_XS, WN_IQ2_S, WN_IQ3_XXS, WN_IQ3_S,
    WN_IQ4_NL, WN_IQ4_XS, WN_TQ1_0, WN_TQ2_0, WN_MXFP4, WN_NVFP4,   WN_Q1_0,   WN_Q2_0,
};
const size_t golden_type_count = sizeof golden_types / sizeof golden_types[0];

uint8_t *golden_file(const char *name, size_t *n)
{
    char path[64];
    FILE *f;
    long end;
    uint8_t *bytes;

    snprintf(path, sizeof path, "golden/quants/%s", name);
    f = fopen(wn_test_need_data(path), "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    end = ftell(f);
    assert_true(end > 0);
    rewind(f);
    *n = (size_t)end;
    bytes = malloc(*n);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *n, f), *n);
    fclose(f);
    return bytes;
}

/* The next section of n bytes; sections start at multiples of 32. */
static const void *section(const uint8_t *file, size_t file_bytes, size_t *at, size_t n)
{
    const uint8_t *p = file + *at;

    assert_true(*at <= file_bytes && n <= file_bytes - *at);
    *at = (*at + n + 31) / 32 * 32;
    return p;
}

void golden_open(struct golden *g, enum wn_type t)
{
    char name[40];
    size_t n, at = 64;
    uint32_t head[10];

    snprintf(name, sizeof name, "%s.bin", wn_type_info(t)->name);
    for (char *p = name; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    g->file = golden_file(name, &n);
    assert_true(n > 64);
    assert_memory_equal(g->file, "WQGOLD01", 8);
    assert_string_equal((char *)g->file + 48, wn_type_info(t)->name);
    memcpy(head, g->file + 8, sizeof head);
    g->id = head[0];
    g->block_elements = head[1];
    g->block_bytes = head[2];
    g->rows = head[3];
    g->cols = head[4];
    g->row_bytes = head[5];
    g->random_elements = head[6];
    g->random_bytes = head[7];
    g->row_blocks = section(g->file, n, &at, (size_t)g->rows * g->row_bytes);
    g->row_values = section(g->file, n, &at, (size_t)g->rows * g->cols * 4);
    g->activation = section(g->file, n, &at, (size_t)g->cols * 4);
    g->dots = section(g->file, n, &at, (size_t)g->rows * 8);
    g->magnitudes = section(g->file, n, &at, (size_t)g->rows * 8);
    section(g->file, n, &at, (size_t)g->rows * 4); /* another implementation's dot: not the truth */
    g->random = section(g->file, n, &at, g->random_bytes);
    g->random_values = section(g->file, n, &at, (size_t)g->random_elements * 4);
}

void golden_close(struct golden *g)
{
    free(g->file);
}

const void *golden_array(const uint8_t *file, size_t file_bytes, const char *name, size_t bytes)
{
    uint64_t header, begin, end;
    char key[64];
    char *text;
    const char *at;

    memcpy(&header, file, 8);
    assert_true(file_bytes > 8 && header <= file_bytes - 8);
    text = calloc(1, header + 1);
    assert_non_null(text);
    memcpy(text, file + 8, header);
    snprintf(key, sizeof key, "\"%s\"", name);
    at = strstr(text, key);
    at = at ? strstr(at, "data_offsets") : NULL;
    at = at ? strchr(at, '[') : NULL;
    if (!at)
        fail_msg("no array '%s'", name);
    assert_int_equal(sscanf(at, "[%" SCNu64 ",%" SCNu64, &begin, &end), 2);
    free(text);
    assert_true(begin <= end && end <= file_bytes - 8 - header);
    assert_int_equal(end - begin, bytes);
    return file + 8 + header + begin;
}

void check_same_floats(const char *what, const float *found, const float *wanted, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t a, b;

        memcpy(&a, &found[i], 4);
        memcpy(&b, &wanted[i], 4);
        if (a != b && !(found[i] != found[i] && wanted[i] != wanted[i]))
            fail_msg("%s: element %zu is %a (%08x), wanted %a (%08x)", what, i, (double)found[i], (unsigned)a,
                     (double)wanted[i], (unsigned)b);
    }
}
