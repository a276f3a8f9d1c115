/*
 * What every public header of winnow needs: export marks and compiler hints. Nothing here has a meaning of its own.
 */
#ifndef WINNOW_COMMON_H
#define WINNOW_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define WN_API             __attribute__((visibility("default")))
#define WN_CHECKED         __attribute__((warn_unused_result))
#define WN_PRINTF(fmt, at) __attribute__((format(printf, fmt, at)))
#else
#define WN_API
#define WN_CHECKED
#define WN_PRINTF(fmt, at)
#endif

#endif
