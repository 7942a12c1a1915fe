# fnd-dev: what a plugin for fnd is built with.
#
#   find_package(fnd-dev 1.0 REQUIRED)
#   fn_add_plugin(placer-mine placer.c more.c)     # placer-mine.so, and placer-mine_static on request
#   fn_check_plugin(placer-mine)                   # a test of ctest: fnkit check
#
# FN_FNKIT is the program fnkit of the kit, FN_INCLUDE_DIR the folder of <fn/...>.
get_filename_component(FN_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(FN_INCLUDE_DIR ${FN_PREFIX}/include)
set(FN_FNKIT ${FN_PREFIX}/bin/fnkit)
set(FN_PLUGIN_MAP ${CMAKE_CURRENT_LIST_DIR}/fn_plugin.map)

if(NOT EXISTS ${FN_INCLUDE_DIR}/fn/abi.h)
    set(fnd-dev_FOUND FALSE)
    set(fnd-dev_NOT_FOUND_MESSAGE "${FN_INCLUDE_DIR}/fn/abi.h is missing; install fnd-dev again")
    return()
endif()

if(NOT TARGET fnd-dev::headers)
    add_library(fnd-dev::headers INTERFACE IMPORTED)
    set_target_properties(fnd-dev::headers PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES ${FN_INCLUDE_DIR})
endif()

# fn_add_plugin(name sources ...)
# name.so in the build folder: hidden symbols, one export, everything resolved when it is loaded. A C++
# plugin carries its own C++ library, unless FN_SHARED_CXX is set (for fnkit check's look at imports and
# variables, which cannot tell the library's from the plugin's). name_static, built only when something asks for it, has the entry
# fn_plugin_v1_<id> instead, so that several plugins fit into one program for sanitizers and fuzzers.
function(fn_add_plugin name)
    add_library(${name} MODULE ${ARGN})
    set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX ".so" OUTPUT_NAME ${name}
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
        LINK_DEPENDS ${FN_PLUGIN_MAP})
    target_link_options(${name} PRIVATE -Wl,-z,now -Wl,-z,relro
        -Wl,--version-script=${FN_PLUGIN_MAP})
    if(NOT FN_SHARED_CXX)
        target_link_options(${name} PRIVATE
            $<$<LINK_LANGUAGE:CXX>:-static-libstdc++> $<$<LINK_LANGUAGE:CXX>:-static-libgcc>)
    endif()
    # A sanitizer's functions are in the program, so that a plugin built with one cannot be whole.
    if(NOT "${CMAKE_C_FLAGS} ${CMAKE_CXX_FLAGS}" MATCHES "-fsanitize=")
        target_link_options(${name} PRIVATE -Wl,-z,defs)
    endif()
    # fnd loads no file that group or others may write, which a umask of 002 would make.
    add_custom_command(TARGET ${name} POST_BUILD
        COMMAND chmod go-w $<TARGET_FILE:${name}> $<TARGET_FILE_DIR:${name}> VERBATIM)

    add_library(${name}_static STATIC EXCLUDE_FROM_ALL ${ARGN})
    target_compile_definitions(${name}_static PUBLIC FN_PLUGIN_STATIC)

    foreach(target ${name} ${name}_static)
        target_link_libraries(${target} PRIVATE fnd-dev::headers)
        set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
            C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    endforeach()
endfunction()

# fn_check_plugin(name arguments of fnkit check ...)
function(fn_check_plugin name)
    add_test(NAME fnkit-${name} COMMAND ${FN_FNKIT} check ${ARGN} $<TARGET_FILE:${name}>)
endfunction()
