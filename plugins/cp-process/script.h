/* What the control plane has the shell do. State is the file system's: a folder per runner, so that
 * a restarted manager finds its runners again.
 *
 *   <state>/<group>/<id>/   fn.yaml, log, pid, labels, grpc.sock, http.sock
 *   <state>/<group>/<id>/log.1   what was in the log before it had 8 MiB
 *   <state>/<group>/last.log   of the runner that ended last without being asked
 *   <state>/managers   which manager has which group (claims.h)
 *
 * A runner that ended by itself is listed once more, as gone, with the last line that it wrote.
 *
 * The plugin has asked whose the folders are (home.h); what is in them is asked here.
 *
 * An id is made of the request that asked for it, so that a repeated request makes nothing
 * twice. */
#ifndef CP_PROCESS_SCRIPT_H
#define CP_PROCESS_SCRIPT_H

/* sh -c SCRIPT sh <verb> <state> <group> ... */
#define SCRIPT                                                                                     \
    "set -u\n"                                                                                     \
    "verb=$1 home=$2/$3 me=$(id -u)\n"                                                             \
    /* A folder, no link to one, that nobody else can write to. */                                 \
    "ours() { [ -n \"$(find \"$1\" -prune -type d -user \"$me\" ! -perm -020 ! -perm -002 \\\n"    \
    "    2>/dev/null)\" ]; }\n"                                                                    \
    "strange() { echo \"$1: expected a folder that nobody else can write to\" >&2; exit 1; }\n"    \
    /* A pid may be somebody else's by now: ours names the folder in its command line. */          \
    "alive() { [ -s \"$1/pid\" ] && pid=$(cat \"$1/pid\") &&\n"                                    \
    "    tr '\\0' '\\n' <\"/proc/$pid/cmdline\" 2>/dev/null | grep -qxF \"$1/fn.yaml\"; }\n"       \
    "case $verb in\n"                                                                              \
    /* look: nothing is changed. */                                                                \
    "list | look)\n"                                                                               \
    "    for d in \"$home\"/*/; do\n"                                                              \
    "        d=${d%/}\n"                                                                           \
    /* The list is complete, or none. */                                                           \
    "        ours \"$d\" || { [ -e \"$d\" ] || continue; strange \"$d\"; }\n"                      \
    /* Of a try that was cut short, unless it is under way. */                                     \
    "        if [ ! -e \"$d/fn.yaml\" ]; then\n"                                                   \
    "            [ \"$verb\" = look ] ||\n"                                                        \
    "                [ -z \"$(find \"$d\" -maxdepth 0 -mmin +1 2>/dev/null)\" ] ||\n"              \
    "                rm -rf \"$d\"\n"                                                              \
    "            continue\n"                                                                       \
    "        fi\n"                                                                                 \
    /* What it said last is all that tells why it ended. Some echoes make lines of a "\n". */      \
    "        if ! alive \"$d\"; then\n"                                                            \
    "            [ \"$verb\" = list ] || continue\n"                                               \
    "            [ -e \"$d/removed\" ] ||\n"                                                       \
    "                printf 'gone %s %s\\n' \"${d##*/}\" \\\n"                                     \
    "                    \"$(tail -n 1 \"$d/log\" 2>/dev/null |\n"                                 \
    "                    tr -cd '[:print:]' | cut -c 1-400)\"\n"                                   \
    "            mv \"$d/log\" \"$home/last.log\" 2>/dev/null\n"                                   \
    "            rm -rf \"$d\"\n"                                                                  \
    "            continue\n"                                                                       \
    "        fi\n"                                                                                 \
    /* Beyond 8 MiB it begins anew: standard error of a runner cannot be moved under it. */        \
    "        if [ \"$verb\" = list ] && [ -n \"$(find \"$d/log\" -size +16384 2>/dev/null)\" ]\n"  \
    "        then\n"                                                                               \
    "            cp \"$d/log\" \"$d/log.1\"\n"                                                     \
    "            : >\"$d/log\"\n"                                                                  \
    "        fi\n"                                                                                 \
    "        if [ -S \"$d/grpc.sock\" ]; then\n"                                                   \
    "            echo \"ready ${d##*/} unix:$d/grpc.sock $(cat \"$d/labels\" 2>/dev/null)\"\n"     \
    "        else echo \"starting ${d##*/} -\"; fi\n"                                              \
    "    done ;;\n"                                                                                \
    /* provision <program> <base> <memory> "<id> <labels>"... */                                   \
    "provision)\n"                                                                                 \
    "    program=$4 base=$5 memory=$6\n"                                                           \
    "    [ -n \"$program\" ] || program=$(readlink \"/proc/$PPID/exe\")\n"                         \
    /* Of a manager whose file was replaced, by an upgrade: new runners are of the new one. */     \
    "    program=${program%' (deleted)'}\n"                                                        \
    "    shift 6\n"                                                                                \
    "    mkdir -p -m 700 \"$home\" || exit 1\n"                                                    \
    "    for word; do\n"                                                                           \
    "        id=${word%% *} labels=${word#* } d=$home/${word%% *}\n"                               \
    /* A folder without fn.yaml is of a try that was cut short. */                                 \
    "        [ ! -e \"$d/fn.yaml\" ] || { echo \"started $id\"; continue; }\n"                     \
    "        mkdir -p -m 700 \"$d\" || exit 1\n"                                                   \
    "        ours \"$d\" || strange \"$d\"\n"                                                      \
    "        { printf 'node: pure-runner\\nadmin: { socket: \"off\" }\\n' &&\n"                    \
    "          printf 'http: { listen: \"unix:%s/http.sock\" }\\n' \"$d\" &&\n"                    \
    "          printf 'grpc: { listen: \"unix:%s/grpc.sock\" }\\n' \"$d\" &&\n"                    \
    "          if [ -n \"$base\" ]; then cat \"$base\"; else\n"                                    \
    "              printf 'runner: { memory_total: %sMiB }\\n' \"$memory\"; fi\n"                  \
    "        } >\"$d/fn.yaml.new\" && echo \"$labels\" >\"$d/labels\" &&\n"                        \
    "            mv \"$d/fn.yaml.new\" \"$d/fn.yaml\" ||\n"                                        \
    "            { rm -rf \"$d\"; echo \"$d: fn.yaml cannot be written\" >&2; exit 1; }\n"         \
    /* The host ends this process group at a deadline: the runner writes its pid in a session of */\
    /* its own, so that it is known, or ends because its folder is gone. */                        \
    "        setsid sh -c 'echo $$ >\"$1/pid.new\" && mv \"$1/pid.new\" \"$1/pid\" &&\n"           \
    "            exec \"$2\" run --config \"$3\"' sh \"$d\" \"$program\" \"$d/fn.yaml\" \\\n"      \
    "            </dev/null >>\"$d/log\" 2>&1 &\n"                                                 \
    "        tries=0\n"                                                                            \
    "        until [ -s \"$d/pid\" ] || [ $tries -ge 200 ]; do\n"                                  \
    "            tries=$((tries + 1))\n"                                                           \
    "            sleep 0.01\n"                                                                     \
    "        done\n"                                                                               \
    "        if [ -s \"$d/pid\" ]; then echo \"started $id\"\n"                                    \
    "        else rm -rf \"$d\"; echo \"$d: the runner did not start\" >&2; fi\n"                  \
    "    done ;;\n"                                                                                \
    /* remove <id>; asked again and again until it is gone. Its calls get a minute: a second */    \
    /* SIGTERM would end them at once. */                                                          \
    "remove)\n"                                                                                    \
    "    d=$home/$4\n"                                                                             \
    "    ours \"$d\" || exit 0\n"                                                                  \
    "    if ! alive \"$d\"; then rm -rf \"$d\"\n"                                                  \
    "    elif [ -n \"$(find \"$d/removed\" -mmin +1 2>/dev/null)\" ]; then kill -KILL \"$pid\"\n"  \
    "    elif [ ! -e \"$d/removed\" ]; then touch \"$d/removed\"; kill -TERM \"$pid\"\n"           \
    "    fi 2>/dev/null\n"                                                                         \
    /* It may have ended in between. */                                                            \
    "    exit 0 ;;\n"                                                                              \
    "esac\n"

#endif
