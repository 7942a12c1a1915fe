# The kit for plugin vendors: headers, fnkit, CMake package, pkg-config file, samples, documents.
# scripts/build-kit makes a Debian package of this component.
file(STRINGS ${CMAKE_SOURCE_DIR}/include/fn/abi.h abi_lines REGEX "#define FN_ABI_(MAJOR|MINOR) ")
foreach(line ${abi_lines})
    string(REGEX MATCH "FN_ABI_(MAJOR|MINOR) ([0-9]+)" _ ${line})
    set(FN_ABI_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
endforeach()
set(FN_ABI_VERSION ${FN_ABI_MAJOR}.${FN_ABI_MINOR})
foreach(file fnd-devConfigVersion.cmake fnd-dev.pc)
    configure_file(${CMAKE_CURRENT_LIST_DIR}/${file}.in ${CMAKE_BINARY_DIR}/fnd-dev/${file} @ONLY)
endforeach()

install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/fn DESTINATION include COMPONENT fnd-dev
    FILES_MATCHING PATTERN "*.h")
install(TARGETS fnkit RUNTIME DESTINATION bin COMPONENT fnd-dev)
install(TARGETS fnd-plugprobe RUNTIME DESTINATION libexec/fnd COMPONENT fnd-dev)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/fnd-devConfig.cmake ${CMAKE_CURRENT_LIST_DIR}/fn_plugin.map
    ${CMAKE_BINARY_DIR}/fnd-dev/fnd-devConfigVersion.cmake
    DESTINATION lib/cmake/fnd-dev COMPONENT fnd-dev)
install(FILES ${CMAKE_BINARY_DIR}/fnd-dev/fnd-dev.pc DESTINATION lib/pkgconfig COMPONENT fnd-dev)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/samples DESTINATION share/fnd-dev COMPONENT fnd-dev)
foreach(folder tests/scenario)
    if(EXISTS ${CMAKE_SOURCE_DIR}/${folder})
        install(DIRECTORY ${CMAKE_SOURCE_DIR}/${folder}/ DESTINATION share/fnd-dev/scenarios
            COMPONENT fnd-dev)
    endif()
endforeach()
# All pages, because they name each other, but those about the making of fnd itself.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/ DESTINATION share/doc/fnd-dev COMPONENT fnd-dev
    FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png"
    PATTERN "architecture.md" EXCLUDE PATTERN "decisions" EXCLUDE
    PATTERN "dependencies.md" EXCLUDE)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION share/doc/fnd-dev RENAME copyright
    COMPONENT fnd-dev)
