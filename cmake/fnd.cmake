# Compiler settings and the three functions that the rooms use.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_compile_definitions(_GNU_SOURCE FND_VERSION="${PROJECT_VERSION}")
add_compile_options(-Wall -Wextra -Wshadow -Wvla -Wformat=2 -Werror -fno-strict-aliasing
                    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
                    $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>)
if(FND_FUZZ)
    # Everything is built for libFuzzer, which goes by the edges of all rooms (tests/fuzz).
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang" OR NOT FND_SANITIZE STREQUAL "address")
        message(FATAL_ERROR "FND_FUZZ needs CMAKE_C_COMPILER=clang and FND_SANITIZE=address")
    endif()
    # The rows of tables leave out what is 0, which gcc takes from macros without a word.
    add_compile_options(-fsanitize=fuzzer-no-link -Wno-missing-field-initializers)
endif()
# A sanitizer's report names functions and lines: -g1.
if(FND_SANITIZE STREQUAL "address")
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined
                        -fno-omit-frame-pointer -O1 -g1)
    add_link_options(-fsanitize=address,undefined)
elseif(FND_SANITIZE STREQUAL "thread")
    add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -O1 -g1)
    add_link_options(-fsanitize=thread)
elseif(NOT FND_SANITIZE STREQUAL "")
    message(FATAL_ERROR "FND_SANITIZE, got ${FND_SANITIZE}; expected address or thread")
else()
    add_compile_options(-fstack-protector-strong)
    add_link_options(-Wl,-z,relro,-z,now)
    if(CMAKE_BUILD_TYPE MATCHES "Rel")
        add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
    endif()
endif()

# What sanitizers leave in a file doubles the time of the usual linker.
find_program(FND_GOLD ld.gold)
if(FND_GOLD AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT FND_SANITIZE STREQUAL "")
    add_link_options(-fuse-ld=gold)
endif()

if(FND_COVERAGE)
    add_link_options(--coverage) # the library of counters, for who has any
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
pkg_check_modules(NGHTTP2 REQUIRED IMPORTED_TARGET libnghttp2)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(ARCHIVE REQUIRED IMPORTED_TARGET libarchive)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(SSL REQUIRED IMPORTED_TARGET libssl)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(PQ REQUIRED IMPORTED_TARGET libpq)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(CURSES REQUIRED IMPORTED_TARGET ncursesw)
pkg_check_modules(CHECK IMPORTED_TARGET check)
# gRPC C core: a peer that is not ours for tests/unit/rpc, and a transport in a file of its own. pkg-config
# reads a hundred files of abseil for it, for a second each time that CMake asks.
find_library(GRPC_LIBRARY grpc)
find_library(GPR_LIBRARY gpr)
find_path(GRPC_INCLUDE grpc/grpc.h)
if(GRPC_LIBRARY AND GPR_LIBRARY AND GRPC_INCLUDE)
    set(GRPC_FOUND TRUE)
    add_library(grpc INTERFACE)
    target_link_libraries(grpc INTERFACE ${GRPC_LIBRARY} ${GPR_LIBRARY})
    target_include_directories(grpc SYSTEM INTERFACE ${GRPC_INCLUDE})
elseif(FND_TESTS OR FND_TRANSPORT_CORE STREQUAL "ON")
    message(FATAL_ERROR "no gRPC C core; expected libgrpc-dev for the tests and for FND_TRANSPORT_CORE=ON")
endif()
if(NOT FND_TRANSPORT_CORE MATCHES "^(ON|OFF|AUTO)$")
    message(FATAL_ERROR "FND_TRANSPORT_CORE, got ${FND_TRANSPORT_CORE}; expected ON, OFF or AUTO")
endif()

# For scripts/coverage. Plugins are left alone: a trial may not write the files that counts go to.
function(fnd_count_lines target)
    if(FND_COVERAGE)
        target_compile_options(${target} PRIVATE --coverage -fprofile-update=atomic -O1)
    endif()
endfunction()

# fnd_room(name SOURCES ... USES other rooms ... LIBS libraries ... FOLDER where it is)
# A static library fnd_<name>; its headers are included as <room>/<header>.h.
function(fnd_room name)
    cmake_parse_arguments(ROOM "" "FOLDER" "SOURCES;USES;LIBS" ${ARGN})
    if(NOT ROOM_FOLDER)
        set(ROOM_FOLDER core/${name})
    endif()
    add_library(fnd_${name} STATIC ${ROOM_SOURCES})
    set(stage ${CMAKE_BINARY_DIR}/rooms/${name})
    file(MAKE_DIRECTORY ${stage})
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${ROOM_FOLDER} ${stage}/${name} SYMBOLIC)
    target_include_directories(fnd_${name} PUBLIC ${stage} ${CMAKE_SOURCE_DIR}/include)
    foreach(used ${ROOM_USES})
        target_link_libraries(fnd_${name} PUBLIC fnd_${used})
    endforeach()
    target_link_libraries(fnd_${name} PRIVATE ${ROOM_LIBS})
    fnd_count_lines(fnd_${name})
endfunction()

# fnd_embed(var file ...): sources that hold the files' bytes, as constants named by folder and file:
# ui/app.js is ui_app_js, of length ui_app_js_len.
function(fnd_embed var)
    set(made)
    foreach(file ${ARGN})
        string(REGEX REPLACE "[^a-z0-9]" "_" name ${file})
        set(out ${CMAKE_CURRENT_BINARY_DIR}/${name}.c)
        add_custom_command(OUTPUT ${out}
            COMMAND ${CMAKE_COMMAND} -DIN=${CMAKE_CURRENT_SOURCE_DIR}/${file} -DOUT=${out}
                -DNAME=${name} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
            DEPENDS ${file} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
        list(APPEND made ${out})
    endforeach()
    set(${var} ${made} PARENT_SCOPE)
endfunction()

# fnd_plugin(name SOURCES ...): build/plugins/<name>.so, include/fn only, one exported symbol.
function(fnd_plugin name)
    cmake_parse_arguments(PLUGIN "" "" "SOURCES;LIBS" ${ARGN})
    add_library(${name} MODULE ${PLUGIN_SOURCES})
    set_target_properties(${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name}
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/plugins)
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/include)
    target_link_libraries(${name} PRIVATE ${PLUGIN_LIBS})
    if(FND_SANITIZE STREQUAL "")
        target_link_options(${name} PRIVATE -Wl,-z,defs -Wl,-z,now)
    endif()
    # The loader refuses what group or others may write, which a umask of 002 would make.
    add_custom_command(TARGET ${name} POST_BUILD
        COMMAND chmod go-w $<TARGET_FILE:${name}> $<TARGET_FILE_DIR:${name}> VERBATIM)
endfunction()

# fnd_test(name SOURCES ... USES rooms ... LIBS ... INCLUDES folders ... POOR): a Check binary run
# by ctest; POOR: its tests make allocations fail (tests/unit/lib/poor.h); THREADS: it may start
# threads, so that ThreadSanitizer has something to see (one_thread tests that no other one does);
# COST: seconds, where they are many; what costs most is begun first.
function(fnd_test name)
    cmake_parse_arguments(TEST "POOR;THREADS" "TIMEOUT;COST" "SOURCES;USES;LIBS;INCLUDES;ENVIRONMENT" ${ARGN})
    if(NOT FND_TESTS OR (FND_SANITIZE STREQUAL "thread" AND NOT TEST_THREADS))
        return()
    endif()
    # What a test itself does is not worth an optimiser's time, which is half of its build.
    foreach(source ${TEST_SOURCES})
        cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
        if(path MATCHES "^${CMAKE_SOURCE_DIR}/tests/")
            set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-O0;-U_FORTIFY_SOURCE")
        endif()
    endforeach()
    add_executable(test_${name} ${TEST_SOURCES} ${CMAKE_SOURCE_DIR}/tests/unit/lib/mark.c)
    if(TEST_POOR)
        target_sources(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/unit/lib/poor.c)
        target_link_options(test_${name} PRIVATE
            -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup
            -Wl,--wrap=asprintf,--wrap=__asprintf_chk)
    endif()
    target_include_directories(test_${name} PRIVATE ${TEST_INCLUDES})
    foreach(used ${TEST_USES})
        target_link_libraries(test_${name} PRIVATE fnd_${used})
    endforeach()
    target_link_libraries(test_${name} PRIVATE ${TEST_LIBS} PkgConfig::CHECK Threads::Threads)
    target_link_options(test_${name} PRIVATE -Wl,--wrap=_mark_point)
    set_target_properties(test_${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${name} COMMAND test_${name})
    if(TEST_COST)
        set_tests_properties(${name} PROPERTIES COST ${TEST_COST})
    endif()
    if(NOT TEST_THREADS)
        set_property(GLOBAL APPEND PROPERTY FND_ONE_THREAD $<TARGET_FILE:test_${name}>)
    endif()
    if(NOT TEST_TIMEOUT)
        set(TEST_TIMEOUT 120)
    endif()
    set_tests_properties(${name} PROPERTIES TIMEOUT ${TEST_TIMEOUT}
        ENVIRONMENT "CK_DEFAULT_TIMEOUT=60;${TEST_ENVIRONMENT}")
endfunction()
