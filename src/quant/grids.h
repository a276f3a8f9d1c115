/*
 * Code books of the IQ types: facts of the format, like the layouts. A row is packed in 16 bits: where each of its
 * numbers stands in the book's levels, the first number in the lowest bits, 2 bits each in books of eights, 3 in books
 * of fours. grids.c is written by tools/make_grids.py.
 */
#ifndef WN_QUANT_GRIDS_H
#define WN_QUANT_GRIDS_H

#include <winnow/common.h>

/* Rows of eight. Level 3 of these books is not used by any row. */
extern const int8_t wn_iq1_levels[4], wn_iq2_levels[4];
extern const uint16_t wn_iq1s_grid[2048], wn_iq2xxs_grid[256], wn_iq2xs_grid[512], wn_iq2s_grid[1024];

/* Rows of four. */
extern const int8_t wn_iq3xxs_levels[8], wn_iq3s_levels[8];
extern const uint16_t wn_iq3xxs_grid[256], wn_iq3s_grid[512];

/* What the 16 codes of IQ4_NL and IQ4_XS stand for. */
extern const int8_t wn_iq4nl_values[16];

#endif
