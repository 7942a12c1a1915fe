# At installation: what depends on the prefix. fnd_source is the source tree.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(etc /etc)
else()
    set(etc ${CMAKE_INSTALL_PREFIX}/etc)
endif()

# As `fnd init` prints them. A file that is there is an operator's.
foreach(node api full lb npm runner)
    if(NOT EXISTS "$ENV{DESTDIR}${etc}/fnd/${node}.yaml")
        file(INSTALL DESTINATION ${etc}/fnd TYPE FILE FILES ${fnd_source}/core/cli/init/${node}.yaml)
    endif()
endforeach()

# unit(from to): of systemd, with the program and the files of this prefix.
function(unit from to)
    file(READ ${fnd_source}/etc/systemd/${from} text)
    string(REPLACE "/usr/bin/" "${CMAKE_INSTALL_PREFIX}/bin/" text "${text}")
    string(REPLACE "/etc/fnd/" "${etc}/fnd/" text "${text}")
    file(WRITE ${fnd_binary}/product/units/${to} "${text}")
    file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/systemd/system TYPE FILE
        FILES ${fnd_binary}/product/units/${to})
endfunction()
unit(fnd@.service fnd@.service)
unit(fnd-worker.service fnd@runner.service) # runs functions
unit(fnd-worker.service fnd@full.service)
unit(fnd-docker-broker.service fnd-docker-broker.service)
unit(fnd-docker-broker.socket fnd-docker-broker.socket)
unit(run-fndiofs.mount run-fndiofs.mount)
