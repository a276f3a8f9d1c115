# wn_floor(NAME DEPS floor... LIBS target...): one folder of src/ as a library of its own.
#
# Each folder becomes an object library (collected into libwinnow) and a static library wn_NAME that tests
# link with, which brings the floors below along. So a test of the GGUF reader builds without a single kernel,
# and a folder that reaches upwards fails to link.
function(wn_floor name)
    cmake_parse_arguments(F "" "" "DEPS;LIBS" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.c
         ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*/*.c)
    list(FILTER sources EXCLUDE REGEX "/(x86|arm)/[^/]*$")
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
        file(GLOB arch CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/x86/*.c)
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
        file(GLOB arch CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/arm/*.c)
    endif()
    list(APPEND sources ${arch})
    if(NOT sources)
        return()
    endif()
    # A variant file is the only code built for its processor: no newer instruction can leak elsewhere.
    foreach(f ${sources})
        if(f MATCHES "_avx512\\.c$")
            set_source_files_properties(${f} PROPERTIES COMPILE_OPTIONS
                "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx2;-mfma;-mf16c")
        elseif(f MATCHES "_avx2\\.c$")
            set_source_files_properties(${f} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
        endif()
    endforeach()
    add_library(wn_${name}_obj OBJECT ${sources})
    target_link_libraries(wn_${name}_obj PRIVATE wn_flags ${F_LIBS})
    add_library(wn_${name} STATIC $<TARGET_OBJECTS:wn_${name}_obj>)
    set_target_properties(wn_${name} PROPERTIES ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/floors)
    target_link_libraries(wn_${name} PUBLIC wn_flags ${F_LIBS})
    foreach(d ${F_DEPS})
        if(TARGET wn_${d})
            target_link_libraries(wn_${name} PUBLIC wn_${d})
        endif()
    endforeach()
    set_property(GLOBAL APPEND PROPERTY WN_FLOOR_OBJECTS $<TARGET_OBJECTS:wn_${name}_obj>)
    set_property(GLOBAL APPEND PROPERTY WN_FLOOR_LIBS ${F_LIBS})
endfunction()
