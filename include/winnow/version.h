/*
 * The version of these headers; the project's in CMakeLists.txt is the same (tests/floors).
 */
#ifndef WINNOW_VERSION_H
#define WINNOW_VERSION_H

#define WINNOW_VERSION "0.1.0"

#endif
