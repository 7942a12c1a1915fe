#!/bin/sh
# The arrows between the rooms (docs/architecture.md), read from the sources and from what was
# built; sizes; error codes.
# Usage: check.sh <source folder> <build folder>
set -u
root=$1
build=$2
failed=0
n=0
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT

complain() {
    echo "FAILED: $*"
    failed=$((failed + 1))
}

# What each room may include of other rooms; fn (include/fn) is open to all.
allowed() {
    case $1 in
    base) echo "base" ;;
    conf) echo "base conf" ;;
    trace) echo "base conf trace" ;;
    model) echo "base model" ;;
    plugin) echo "base conf plugin" ;;
    place) echo "base conf model plugin place" ;;
    override) echo "base model plugin override" ;;
    lb) echo "base conf trace model plugin override place lb" ;;
    store) echo "base conf model store" ;;
    api) echo "base conf model plugin override store api" ;;
    runner) echo "base conf trace model plugin override runner" ;;
    npm) echo "base conf model plugin npm" ;;
    loop) echo "base conf plugin loop" ;;
    net) echo "base loop net" ;;
    http) echo "base conf model plugin loop net http" ;;
    rpc) echo "base conf model plugin loop net rpc" ;;
    config) echo "base conf trace model plugin place lb runner npm store api loop net http rpc admin \
        config" ;;
    web) echo "base model lb store api loop net http web" ;;
    admin) echo "base conf loop net http admin" ;;
    poolserver) echo "base model npm rpc poolserver" ;;
    tls) echo "base net http rpc config admin tls" ;;
    page) echo "base model loop net http web admin page" ;;
    process) echo "base conf plugin loop config process" ;;
    node) echo "base conf trace model plugin place override lb runner npm store api loop net http rpc config web \
        admin poolserver tls process page node" ;;
    cli) echo "base conf model plugin http loop config admin tls process node cli" ;;
    main) echo "cli main" ;;
    sim) echo "base conf model plugin place sim" ;;
    npm_sim) echo "npm" ;;
    world_sim) echo "base conf model plugin place override lb runner npm store api poolserver rpc sim" ;;
    wire_sim) echo "base conf model plugin place lb runner npm poolserver web http rpc net loop sim" ;;
    *) echo "" ;;
    esac
}

rooms="base conf trace model plugin place override lb runner npm store api loop net http rpc config web admin \
poolserver tls process page node cli main sim npm_sim world_sim wire_sim"

# Lines "file room/header" of all #include lines that name a room.
includes() {
    find "$1" -name '*.[ch]' -exec awk '
        /^[ \t]*#[ \t]*include/ {
            line = $0
            sub(/^[ \t]*#[ \t]*include[ \t]*/, "", line)
            name = substr(line, 2)
            sub(/[>"].*$/, "", name)
            print FILENAME, substr(line, 1, 1), name
        }' {} +
}

for folder in "$root"/core/*; do
    n=$((n + 1))
    case " $rooms " in
    *" ${folder##*/} "*) ;;
    *) complain "core/${folder##*/} is no room; expected one of: $rooms" ;;
    esac
done

# No circle, so that a room is understood with those it stands on.
n=$((n + 1))
out=$(for room in $rooms; do
    for other in $(allowed "$room"); do
        [ "$other" = "$room" ] || echo "$room $other"
    done
done | tsort 2>&1 >/dev/null | tr '\n' ' ')
[ -z "$out" ] || complain "rooms stand on each other: $out"

# The same of the files of a room, by what they call: each is read from the bottom up. Where one machine has several
# files, they stand as one.
machines() {
    case $1 in
    base) echo "metric,metric_fold,metric_open,metric_print" ;;
    http) echo "conn_answer,introduction,server,server_conn,server_shake fetch,fetch_stream fnsock,fnsock_call,fnsock_dir" ;;
    loop) echo "lanes,loop" ;;
    http_h2) echo "mux,mux_answer,mux_recv,mux_stream" ;;
    rpc) echo "attempt,health,link,unary h2,h2_recv,h2_stream,transport life,stream logs_server,server,service,session peer,raw" ;;
    runner) echo "call,call_end,container,engine,fair,image,slots,warm" ;;
    esac
}

# file_circles LIBRARY [MACHINE...]
file_circles() {
    local lib=$1
    shift
    nm -A "$lib" 2>/dev/null | awk -F: -v machines="$*" '
        BEGIN {
            for (n = split(machines, machine, " "); n > 0; n--)
                for (i = split(machine[n], of, ","); i > 0; i--) stands_as[of[i] ".c.o"] = machine[n]
        }
        { split($NF, part, " "); file = $(NF - 1) }
        file in stands_as { file = stands_as[file] }
        part[1] == "U" { wants[file " " part[2]] = 1; next }
        part[2] ~ /[A-TV-Z]/ { owner[part[3]] = file }
        END {
            for (want in wants) {
                split(want, x, " ")
                if (x[2] in owner && owner[x[2]] != x[1]) print x[1], owner[x[2]]
            }
        }' | tsort 2>&1 >/dev/null | grep -v 'a loop:$' | sort -u | tr '\n' ' '
}

for lib in "$build"/core/*/libfnd_*.a; do
    room=${lib##*/libfnd_}
    room=${room%.a}
    n=$((n + 1))
    [ -f "$lib" ] || complain "$lib is not built"
    out=$(file_circles "$lib" $(machines "$room"))
    [ -z "$out" ] || complain "files of $room stand on each other: $out"
done

# The transports of core/rpc are rooms of their own, behind one header, and have one file in common.
for transport in core nghttp2; do
    includes "$root/core/rpc" >"$tmp"
    while read -r file kind name; do
        n=$((n + 1))
        case $file:$name in
        "$root/core/rpc/$transport/"*:"rpc/$transport/"* | "$root/core/rpc/$transport/"*:rpc/transport.h | \
            "$root/core/rpc/$transport/"*:rpc/life.h) ;;
        "$root/core/rpc/$transport/"*:rpc/*)
            complain "$file includes <$name>; a transport may use <rpc/transport.h> and <rpc/life.h>" ;;
        *:"rpc/$transport/"*)
            complain "$file includes <$name>; a transport is reached by <rpc/transport.h>" ;;
        esac
    done <"$tmp"
done

# HTTP/2 is a room of its own inside core/http, above the server, whom it knows by one header; it is
# reached by core/web and core/page alone, which hand it to their servers.
for folder in "$root"/core/*; do
    includes "$folder" >"$tmp"
    while read -r file kind name; do
        n=$((n + 1))
        case $file:$name in
        "$root/core/http/h2/"*:http/h2/* | "$root/core/http/h2/"*:http/server.h | \
            "$root/core/http/h2/"*:http/server_int.h | "$root/core/web/"*:http/h2/h2.h | "$root/core/page/"*:http/h2/h2.h) ;;
        "$root/core/http/h2/"*:http/*)
            complain "$file includes <$name>; HTTP/2 may use <http/server_int.h>" ;;
        "$root/core/http/h2/"*:conf/* | "$root/core/http/h2/"*:plugin/*)
            complain "$file includes <$name>; HTTP/2 has no options of its own" ;;
        *:http/h2/*)
            complain "$file includes <$name>; HTTP/2 is handed over by core/web and core/page, as <http/h2/h2.h>" ;;
        esac
    done <"$tmp"
done

# No room holds more than a reader wants to: 12 % of core.
n=$((n + 1))
out=$(find "$root/core" -name '*.[ch]' -exec wc -l {} + | awk -v at="$root/core/" '
    $2 != "total" {
        room = substr($2, length(at) + 1)
        sub(/\/[^\/]*$/, "", room)
        lines[room] += $1
        all += $1
    }
    END {
        for (room in lines)
            if (lines[room] * 100 >= all * 12)
                print "core/" room ": " lines[room] " lines of " all "; expected less than 12 %"
    }')
[ -z "$out" ] || complain "$out"

for room in $rooms; do
    folder=$root/core/$room
    [ "$room" = sim ] && folder=$root/sim
    [ "$room" = npm_sim ] && folder=$root/sim/npm
    [ "$room" = world_sim ] && folder=$root/sim/world
    [ "$room" = wire_sim ] && folder=$root/sim/wire
    [ -d "$folder" ] || continue
    may=" $(allowed "$room") fn "
    includes "$folder" >"$tmp"
    [ "$room" = sim ] && sed -i "\\|^$root/sim/[a-z]*/|d" "$tmp" # programs of their own
    while read -r file kind name; do
        n=$((n + 1))
        top=${name%%/*}
        [ "$name" = net/if.h ] && top=system # a header of the system's
        case " $rooms fn " in
        *" $top "*)
            case $name in
            */*)
                case $may in
                *" $top "*) ;;
                *) complain "$file includes <$name>; room $room may use:$may" ;;
                esac
                ;;
            esac
            ;;
        esac
        # Libraries that belong to one room.
        case $name in
        grpc/*)
            [ "${file#"$root"/core/rpc/core/}" != "$file" ] ||
                complain "$file includes <$name>; only core/rpc/core may" ;;
        nghttp2/*)
            [ "${file#"$root"/core/rpc/nghttp2/}" != "$file" ] ||
                [ "${file#"$root"/core/http/h2/}" != "$file" ] ||
                [ "$room" = wire_sim ] ||
                complain "$file includes <$name>; only core/rpc/nghttp2, core/http/h2 and sim/wire may" ;;
        protobuf-c/*)
            [ "$room" = rpc ] || complain "$file includes <$name>; only core/rpc may" ;;
        yaml.h)
            [ "$room" = conf ] || complain "$file includes <$name>; only core/conf may" ;;
        sys/epoll.h | sys/timerfd.h | sys/signalfd.h | sys/eventfd.h)
            [ "$room" = loop ] || complain "$file includes <$name>; only core/loop may" ;;
        sqlite3.h)
            [ "$file" = "$root/core/store/sqlite.c" ] ||
                complain "$file includes <$name>; only core/store/sqlite.c may" ;;
        http_parser.h)
            [ "$room" = wire_sim ] ||
                complain "$file includes <$name>; only sim/wire and tests/unit/http may" ;;
        curl/*)
            [ "$room" = http ] || complain "$file includes <$name>; only core/http may" ;;
        esac
        # State machines and the simulator have no outside of their own.
        case $room in
        trace | override | place | lb | runner | npm | api | sim)
            case $name in
            sys/socket.h | netinet/* | arpa/* | pthread.h | time.h | sys/time.h | poll.h | netdb.h)
                complain "$file includes <$name>; room $room gets its outside as tables" ;;
            esac
            ;;
        esac
    done <"$tmp"
done

# Plugins and examples of plugins: <fn/...>, their own headers, the C library and declared libraries.
for folder in "$root"/plugins/* "$root"/examples/plugins/*; do
    [ -d "$folder" ] || continue
    includes "$folder" >"$tmp"
    while read -r file kind name; do
        n=$((n + 1))
        if [ "$kind" = '"' ]; then
            [ -f "$folder/$name" ] || [ -f "$root/plugins/common/$name" ] ||
                complain "$file includes \"$name\"; expected a header beside it or in plugins/common"
            continue
        fi
        top=${name%%/*}
        case " $rooms " in
        *" $top "*)
            case $name in
            */*) complain "$file includes <$name>; a plugin may include <fn/...> only" ;;
            esac
            ;;
        esac
        case $name in
        sys/epoll.h | sys/socket.h | time.h | curl/* | grpc/* | nghttp2/*)
            complain "$file includes <$name>; a plugin gets that from its host" ;;
        esac
    done <"$tmp"
done

# Tables that end the process when memory is out.
n=$((n + 1))
out=$(grep -rn 'include <uthash.h>' "$root"/core | grep -v '/base/table.h:' || true)
[ -z "$out" ] || complain "$out; expected <base/table.h>"

# Which type of node it is: asked of tables. A side's own file may say what is peculiar to it.
n=$((n + 1))
out=$(grep -nE 'SIDE_(LB|RUNNER|NPM|API)\b|type->(word|inside|sides) *[=!]=|strcmp\([^)]*type->word' \
    "$root"/core/node/*.[ch] "$root"/core/cli/*.[ch] "$root"/core/admin/*.[ch] "$root"/core/web/*.[ch] \
    "$root"/core/process/*.[ch] "$root"/core/tls/*.[ch] | grep -v '^[^:]*/node/side')
[ -z "$out" ] || complain "$out; expected a column of core/node/side.h or of config/config.h"

# What the state machines really call. A forbidden name shows up as an undefined symbol.
forbidden='clock_gettime|gettimeofday|time|nanosleep|usleep|sleep|pthread_create|socket|connect|bind|listen|accept4?|epoll_(create1?|ctl|wait)|poll|select|fork|execve?|rand|random|rand_r|getrandom|read|write|open|openat'
for room in trace override place lb runner npm api sim; do
    lib=$build/core/$room/libfnd_$room.a
    [ "$room" = sim ] && lib=$build/sim/libfnd_sim.a
    [ -f "$lib" ] || continue
    n=$((n + 1))
    bad=$(nm -u "$lib" 2>/dev/null | awk '{ print $2 }' | sed 's/@.*//' |
        grep -xE "$forbidden" | sort -u | tr '\n' ' ')
    [ -z "$bad" ] || complain "core/$room calls $bad; expected only tables"
done

# The same for plugins, who may lock and read files.
outside='clock_gettime|gettimeofday|time|nanosleep|usleep|sleep|pthread_create|socket|connect|bind|listen|accept4?|epoll_(create1?|ctl|wait)|poll|select|fork|vfork|posix_spawnp?|execve?|rand|random|rand_r|getrandom|setenv|putenv|chdir|signal|sigaction|exit|_exit|atexit'
for so in "$build"/plugins/*.so; do
    [ -f "$so" ] || continue
    n=$((n + 1))
    bad=$(nm -D -u "$so" 2>/dev/null | awk '{ print $2 }' | sed 's/@.*//' |
        grep -xE "$outside" | sort -u | tr '\n' ' ')
    [ -z "$bad" ] || complain "$so calls $bad; a plugin gets that from its host"
done

# Functions that nobody may call.
banned='strcpy|strcat|sprintf|vsprintf|strtok|rand|random|srand|usleep|system|popen|gets|mktemp|tmpnam'
for lib in "$build"/core/*/libfnd_*.a "$build"/sim/libfnd_sim.a "$build"/plugins/*.so; do
    [ -f "$lib" ] || continue
    n=$((n + 1))
    bad=$(nm -u "$lib" 2>/dev/null | awk '{ print $2 }' | sed 's/@.*//' | grep -xE "$banned" |
        sort -u | tr '\n' ' ')
    [ -z "$bad" ] || complain "$lib calls $bad"
done

# One exported symbol per plugin, and no variable that outlives an instance.
for so in "$build"/plugins/*.so; do
    [ -f "$so" ] || continue
    n=$((n + 1))
    out=$(nm -D --defined-only "$so" | awk '{ print $3 }' |
        grep -vxE '_init|_fini|_edata|_end|__bss_start|__(asan|odr_asan|tsan|ubsan).*' |
        tr '\n' ' ')
    [ "$out" = "fn_plugin_v1 " ] || complain "$so exports $out; expected fn_plugin_v1"
    case $(nm "$so" 2>/dev/null) in
    *__asan* | *__tsan* | *__ubsan*) continue ;;
    esac
    out=$(objdump -t "$so" 2>/dev/null | grep ' O ' |
        grep -E '[[:space:]]\.(data|bss|tdata|tbss)[[:space:]]' | awk '{ print $NF }' |
        grep -vE '^(completed\.[0-9]+|__dso_handle|__TMC_END__)$' | tr '\n' ' ')
    [ -z "$out" ] || complain "$so has variables: $out; expected everything to hang off an instance"
done

# Sizes that a reader can hold, in what is shipped.
find "$root/core" "$root/include" "$root/plugins" "$root/sim" "$root/tools" "$root/samples" \
    "$root/examples" -name '*.[ch]' | sort >"$tmp"
n=$((n + 1))
out=$(xargs awk '
    function end_of_file() {
        max = name ~ /\.h$/ ? 400 : name ~ /^.*\/plugins\/[^\/]*\/plugin\.c$/ ? 300 : 899
        if (lines > max) print name ": " lines " lines; expected at most " max
    }
    FNR == 1 { if (name) end_of_file(); name = FILENAME; from = 0 }
    { lines = FNR }
    # A sentence in quotes stays whole, and so do the released headers.
    length($0) > 100 && !/^[^"]*"([^"\\]|\\.)*"[);,]*$/ && name !~ /\/include\/fn\// {
        text = $0
        gsub(/[\200-\277]/, "", text)
        if (length(text) > 100)
            print name ":" FNR ": line of " length(text) " columns; expected at most 100"
    }
    /^\{/ { from = FNR }
    /^\}/ {
        if (from && FNR - from + 1 > 70)
            print name ":" from ": function of " FNR - from + 1 " lines; expected at most 70"
        from = 0
    }
    END { end_of_file() }' <"$tmp")
[ -z "$out" ] || complain "$out"

# Tests and benchmarks are read, too.
n=$((n + 1))
out=$(find "$root/tests" "$root/bench" -name '*.c' -exec awk '
    FNR == 900 { print FILENAME ": 900 lines and more; expected at most 899" }' {} +)
[ -z "$out" ] || complain "$out"

# Each file says at its top what it is.
n=$((n + 1))
out=$(find "$root/core" "$root/plugins" "$root/sim" "$root/tools" "$root/tests" "$root/bench" \
    "$root/examples" "$root/samples" -name '*.c' -exec awk '
    FNR == 1 && !/^\/\*/ { print FILENAME }' {} +)
[ -z "$out" ] || complain "no opening comment in $out"

# A backtrace says where it is: no static function has the name of one in two other files.
n=$((n + 1))
out=$(find "$root/core" -name '*.c' -exec awk '
    FNR == 1 { delete seen }
    /^static .*[ *][a-z_0-9]+\(/ {
        sub(/\(.*/, "")
        sub(/.*[ *]/, "")
        if ($0 !~ /^__/ && !($0 in seen)) { seen[$0] = 1; print }
    }' {} + | sort | uniq -c | awk '$1 > 2 { print $2 " (" $1 " files)" }' | tr '\n' ' ')
[ -z "$out" ] || complain "static functions with one name in three or more files: $out; expected the file's word before it, as in dial_begin()"

# Lines of the log in rooms that strangers reach (clients, functions, peers, plugins): what they can
# cause goes through a gate, what only the node or its operator causes stands in node-lines.txt.
n=$((n + 1))
out=$(find "$root/core/http" "$root/core/net" "$root/core/rpc" "$root/core/override" \
    "$root/core/place" "$root/core/lb" "$root/core/runner" "$root/core/plugin" -name '*.c' | sort |
    xargs awk '
    {
        text = held $0
        held = ""
    }
    text ~ /(^|[^a-z_])log_(error|warn|info|write)\([^"]*$/ { # its sentence stands on the next line
        if (text !~ /;$/) { held = text; next }
    }
    text ~ /(^|[^a-z_])log_(error|warn|info|write)\(/ {
        room = FILENAME
        sub(/^.*\/core\//, "", room)
        sub(/^.*log_(error|warn|info|write)\(/, "", text)
        if (text ~ /"/) { sub(/^[^"]*"/, "", text); sub(/ *".*$/, "", text) } else text = "(a variable)"
        print room ": " text
    }' | sort -u | grep -vxFf "$root/tests/arrows/node-lines.txt")
[ -z "$out" ] || complain "log lines that a stranger may cause: $out; expected log_stranger() or log_write_gated(), or a line in tests/arrows/node-lines.txt when only the node or its operator does"

# An assertion where bytes of strangers arrive says who could break it; what bytes can break is an error.
n=$((n + 1))
out=$(find "$root/core/rpc" "$root/core/http" "$root/core/net" -name '*.[ch]' -exec awk '
    FNR == 1 { told = 0 }
    /(^|[^a-z_])assert\(/ {
        asserts++
        if (!told && !/Broken by /) print FILENAME ":" FNR
    }
    /\/\* Broken by / { told = 1 }
    !/^ *(\/\*| \*)/ { told = 0 }
    END { if (asserts == 0) print "no assertion in " FILENAME " and the others" }' {} +)
[ -z "$out" ] || complain "assertions at $out; expected a comment before each: /* Broken by ... */"

# Each error code that is told stands in the docs, and the other way round.
n=$((n + 1))
codes='(CFG|TLS|PLG|HTTP|LB|FN|RUN|NPM|SIM|DOC)[0-9]{3,4}'
find "$root/core" "$root/plugins" "$root/sim" "$root/tools" -name '*.c' -exec \
    grep -ohE "\"$codes" {} + | tr -d '"' | sort -u >"$tmp"
out=$(cat "$root/docs/errors.md" "$root/docs/abi.md" "$root/docs/simulator.md" |
    grep -oE "^\| $codes " | tr -d '| ' | sort | comm -3 "$tmp" - | tr -d '\t' | tr '\n' ' ')
[ -z "$out" ] || complain "codes $out: told by the code or by docs/errors.md alone; expected both"

echo "$n checks, $failed failed"
[ "$failed" -eq 0 ]
