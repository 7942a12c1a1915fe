# What of the product is no target of a room: configuration, units, man pages, completion, documents.
# Component fnd; scripts/build-deb makes a Debian package of it.
set(made ${CMAKE_BINARY_DIR}/product)
install(CODE "set(fnd_source \"${CMAKE_SOURCE_DIR}\")
set(fnd_binary \"${CMAKE_BINARY_DIR}\")" COMPONENT fnd)
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/product-install.cmake COMPONENT fnd)
set(systemd ${CMAKE_SOURCE_DIR}/etc/systemd)
install(FILES ${systemd}/sysusers.conf DESTINATION lib/sysusers.d RENAME fnd.conf COMPONENT fnd)
install(FILES ${systemd}/tmpfiles.conf DESTINATION lib/tmpfiles.d RENAME fnd.conf COMPONENT fnd)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/ DESTINATION share/doc/fnd COMPONENT fnd
    FILES_MATCHING PATTERN "*.md" PATTERN "openapi.json"
    PATTERN "architecture.md" EXCLUDE PATTERN "decisions" EXCLUDE PATTERN "internals" EXCLUDE
    PATTERN "img" EXCLUDE PATTERN "dependencies.md" EXCLUDE)
# What the documents point to; two of the samples run from the source tree alone.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/etc/ DESTINATION share/doc/fnd/examples/etc COMPONENT fnd
    FILES_MATCHING PATTERN "*.yaml"
    PATTERN "fn.yaml" EXCLUDE PATTERN "runner-process.yaml" EXCLUDE
    PATTERN "debian" EXCLUDE PATTERN "man" EXCLUDE PATTERN "systemd" EXCLUDE)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/deploy DESTINATION share/doc/fnd/examples COMPONENT fnd
    FILES_MATCHING PATTERN "*.yaml" PATTERN "*.json")
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION share/doc/fnd RENAME copyright COMPONENT fnd)
# A first function, for driver process.
if(TARGET function_hello)
    install(PROGRAMS ${CMAKE_BINARY_DIR}/functions/hello DESTINATION lib/fnd/functions COMPONENT fnd)
endif()

# A sanitizer's program may not print a page without its report.
if(NOT FND_SANITIZE STREQUAL "" OR FND_COVERAGE)
    return()
endif()
get_property(plugins GLOBAL PROPERTY FND_PLUGINS_INSTALLED)
set(pages ${made}/man/fnd.1 ${made}/man/fnd-oci.1 ${made}/man/fnd-docker-broker.1 ${made}/man/fn.yaml.5)
add_custom_command(OUTPUT ${pages} ${made}/completion/fnd
    COMMAND ${CMAKE_SOURCE_DIR}/scripts/man-pages ${made}/man $<TARGET_FILE:fnd> ${plugins}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${made}/completion
    COMMAND ${CMAKE_SOURCE_DIR}/scripts/completion $<TARGET_FILE:fnd> > ${made}/completion/fnd
    DEPENDS fnd scripts/man-pages scripts/completion docs/fn-yaml.md etc/man/fnd.txt
        etc/bash-completion.in
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} VERBATIM)
add_custom_target(pages ALL DEPENDS ${pages} ${made}/completion/fnd)
install(FILES ${made}/man/fnd.1 ${made}/man/fnd-oci.1 ${made}/man/fnd-docker-broker.1
    DESTINATION share/man/man1 COMPONENT fnd)
install(FILES ${made}/man/fn.yaml.5 DESTINATION share/man/man5 COMPONENT fnd)
install(FILES ${made}/completion/fnd DESTINATION share/bash-completion/completions COMPONENT fnd)
