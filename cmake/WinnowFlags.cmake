# Flags that every file of winnow is built with. They live on one interface target so that a test, a
# kernel variant and the command cannot drift apart.
#
# -ffp-contract=off: clang fuses a*b+c in C11 mode and gcc does not; winnow promises the same bits from
# both, so fusing is only ever written out (fmaf or an intrinsic).
find_package(Threads REQUIRED)

add_library(wn_flags INTERFACE)
target_compile_options(wn_flags INTERFACE
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wundef -Wvla -Wformat=2
    -ffp-contract=off -fno-strict-aliasing
    # cutting a long message is what snprintf is called for
    $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>
    # gcc's guess differs with every level of optimisation and sanitizer; clang's analyzer looks instead (make lint)
    $<$<C_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
target_compile_definitions(wn_flags INTERFACE _POSIX_C_SOURCE=200809L _FILE_OFFSET_BITS=64)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    # copy_file_range, SEEK_HOLE, fallocate: only src/sys uses them
    target_compile_definitions(wn_flags INTERFACE _GNU_SOURCE)
elseif(APPLE)
    target_compile_definitions(wn_flags INTERFACE _DARWIN_C_SOURCE)
endif()
target_include_directories(wn_flags INTERFACE ${CMAKE_SOURCE_DIR}/include)
# -iquote: "sys/file.h" is ours, <sys/file.h> stays the system's
target_compile_options(wn_flags INTERFACE -iquote${CMAKE_SOURCE_DIR}/src)
target_link_libraries(wn_flags INTERFACE Threads::Threads m)
if(WINNOW_WERROR)
    target_compile_options(wn_flags INTERFACE -Werror)
endif()
if(WINNOW_SANITIZE)
    target_compile_options(wn_flags INTERFACE -fsanitize=${WINNOW_SANITIZE} -fno-omit-frame-pointer
                           -fno-sanitize-recover=all)
    target_link_options(wn_flags INTERFACE -fsanitize=${WINNOW_SANITIZE})
endif()
if(WINNOW_FUZZ)
    target_compile_options(wn_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
