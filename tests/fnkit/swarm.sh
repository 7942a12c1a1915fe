#!/bin/sh
# A Docker Swarm that remembers: a file per service, with its group and the port of its runner.
# Arguments: METHOD URL BODY. Prints the status and the body.
set -eu
cd "$FNKIT_DIR"
mkdir -p services
path=${2#http://localhost}

say() {
    printf '%s\n%s' "$1" "$2"
    exit 0
}

# each FORMAT: one for every service of the group that the path asks for, as a JSON list.
each() {
    wanted=${path##*fnd.group%3D}
    wanted=${wanted%%%22*}
    comma= list=
    for file in services/*; do
        [ -e "$file" ] || continue
        name=${file#services/}
        read -r group port <"$file"
        [ "$group" = "$wanted" ] || continue
        list=$list$comma$($1)
        comma=,
    done
    say 200 "[$list]"
}

service() {
    printf '{"ID":"%s","Spec":{"Name":"%s","Labels":{"fnd.owner":"fnd","fnd.group":"%s",' "$name" "$name" "$group"
    printf '"fnd.port":"9190","fnd.capacity_mb":"1024"}}}'
}

task() {
    printf '{"ID":"t","ServiceID":"%s","NodeID":"n","DesiredState":"running",' "$name"
    printf '"Status":{"State":"running","PortStatus":{"Ports":[{"PublishedPort":%s}]}}}' "$port"
}

case "$1 $path" in
"GET /services?"*) each service ;;
"GET /tasks?"*) each task ;;
"GET /nodes") say 200 '[{"ID":"n","Status":{"State":"ready","Addr":"192.0.2.1"}}]' ;;
"POST /services/create")
    name=${3#*\"Name\":\"}
    name=${name%%\"*}
    group=${3#*\"fnd.group\":\"}
    group=${group%%\"*}
    [ ! -e "services/$name" ] || say 409 '{"message":"name conflicts with an existing object"}'
    echo "$group $(($(cat last 2>/dev/null || echo 32767) + 1))" >"services/$name"
    sed 's/.* //' "services/$name" >last
    say 201 '{"ID":"x"}'
    ;;
"GET /services/"*)
    name=${path#/services/}
    [ -e "services/$name" ] || say 404 '{"message":"service not found"}'
    read -r group port <"services/$name"
    say 200 "$(service)"
    ;;
"DELETE /services/"*)
    rm "services/${path#/services/}" || say 404 '{"message":"service not found"}'
    say 200 ''
    ;;
esac
say 404 '{"message":"page not found"}'
