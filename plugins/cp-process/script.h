/* What the control plane has the shell do. State is the file system's: a folder per runner, so that a
 * restarted manager finds its runners again.
 *
 *   <state>/<group>/<id>/   fn.yaml, log, pid, grpc.sock, http.sock
 *
 * An id is made of the request that asked for it, so that a repeated request makes nothing twice: a
 * folder can be made only once. */
#ifndef CP_PROCESS_SCRIPT_H
#define CP_PROCESS_SCRIPT_H

/* sh -c SCRIPT sh <verb> <state> <group> ... */
#define SCRIPT                                                                                     \
    "set -u\n"                                                                                     \
    "verb=$1 home=$2/$3\n"                                                                         \
    /* A pid may have been given to somebody else: it is ours if its command line names the folder.*/ \
    "alive() { [ -s \"$1/pid\" ] && pid=$(cat \"$1/pid\") &&\n"                                    \
    "    tr '\\0' '\\n' <\"/proc/$pid/cmdline\" 2>/dev/null | grep -qxF \"$1/fn.yaml\"; }\n"       \
    "case $verb in\n"                                                                              \
    "list)\n"                                                                                      \
    "    for d in \"$home\"/*/; do\n"                                                              \
    "        d=${d%/}\n"                                                                           \
    "        [ -e \"$d/fn.yaml\" ] || continue\n"                                                  \
    "        if ! alive \"$d\"; then rm -rf \"$d\"; continue; fi\n"                                \
    "        if [ -S \"$d/grpc.sock\" ]; then echo \"ready ${d##*/} unix:$d/grpc.sock\"\n"         \
    "        else echo \"starting ${d##*/} -\"; fi\n"                                              \
    "    done ;;\n"                                                                                \
    /* provision <program> <base> <memory> <id>... */                                              \
    "provision)\n"                                                                                 \
    "    program=$4 base=$5 memory=$6\n"                                                           \
    "    [ -n \"$program\" ] || program=$(readlink \"/proc/$PPID/exe\")\n"                         \
    "    shift 6\n"                                                                                \
    "    mkdir -p \"$home\" || exit 1\n"                                                           \
    "    for id; do\n"                                                                             \
    "        d=$home/$id\n"                                                                        \
    "        mkdir \"$d\" 2>/dev/null || continue\n"                                               \
    "        { printf 'node: pure-runner\\nadmin: { socket: \"off\" }\\n'\n"                       \
    "          printf 'http: { listen: \"unix:%s/http.sock\" }\\n' \"$d\"\n"                       \
    "          printf 'grpc: { listen: \"unix:%s/grpc.sock\" }\\n' \"$d\"\n"                       \
    "          if [ -n \"$base\" ]; then cat \"$base\"; else\n"                                    \
    "              printf 'runner: { memory_total: %sMiB }\\n' \"$memory\"; fi\n"                  \
    "        } >\"$d/fn.yaml.new\" || exit 1\n"                                                    \
    "        mv \"$d/fn.yaml.new\" \"$d/fn.yaml\"\n"                                               \
    "        setsid \"$program\" run --config \"$d/fn.yaml\" </dev/null >\"$d/log\" 2>&1 &\n"      \
    "        echo $! >\"$d/pid\"\n"                                                                \
    /* The host ends the shell's process group with the shell: wait until the runner has left it. */ \
    "        tries=0\n"                                                                            \
    "        while [ \"$(cut -d' ' -f6 /proc/$!/stat 2>/dev/null)\" != $! ]; do\n"                 \
    "            tries=$((tries + 1)); [ $tries -lt 200 ] || break; sleep 0.01\n"                  \
    "        done\n"                                                                               \
    "        echo \"started $id\"\n"                                                               \
    "    done ;;\n"                                                                                \
    "remove)\n"                                                                                    \
    "    d=$home/$4\n"                                                                             \
    "    [ -e \"$d\" ] || exit 0\n"                                                                \
    "    if alive \"$d\"; then kill -TERM \"$pid\"; else rm -rf \"$d\"; fi ;;\n"                   \
    "esac\n"

#endif
