/* What can be said of runners in fn.yaml; nothing else. */
#ifndef CP_SWARM_OPTIONS_H
#define CP_SWARM_OPTIONS_H

#include "swarm_api.h"

#define SWARM_OPTION(name, field, opt_type, ...)                                                   \
    {                                                                                              \
        .key = (name), .type = (opt_type), .offset = offsetof(struct swarm_conf, field),           \
        __VA_ARGS__                                                                                \
    }

static const struct fn_opt swarm_opts[] = {
    SWARM_OPTION("docker_host", docker_host, FN_OPT_STR, .dflt = "unix:///var/run/docker.sock",
                 .min = 1, .max = 256,
                 .doc = "API of a Docker Engine that is a manager node of the Swarm: unix:///path "
                        "or tcp://host:port (plain HTTP)."),
    SWARM_OPTION("image", image, FN_OPT_STR, .dflt = "fnd/runner:latest", .min = 1, .max = 255,
                 .doc = "Image of a runner; images/build-runner makes one. Every Swarm node must "
                        "have it or be able to pull it. An image given by its id (sha256:...) is "
                        "never pulled."),
    SWARM_OPTION("owner", owner, FN_OPT_STR, .dflt = "fnd", .min = 1, .max = 16,
                 .doc = "Label that marks the runners of this manager; services with another one "
                        "are never touched. Managers that share a Swarm need different ones."),
    SWARM_OPTION("network", network, FN_OPT_STR, .min = 1, .max = 128,
                 .flags = FN_OPT_MAY_BE_ABSENT,
                 .doc = "Name of the overlay network of the runners, to which load balancers and "
                        "manager must be attached too; or host = the network of the Swarm node, so "
                        "one runner per node. When absent: each runner is published on a free port "
                        "of its node."),
    SWARM_OPTION("grpc_port", grpc_port, FN_OPT_INT, .dflt = "9190", .min = 1, .max = 65535,
                 .doc = "The runner's gRPC port in its container, or on its node with network: "
                        "host."),
    SWARM_OPTION("capacity", capacity_mb, FN_OPT_INT, .dflt = "1024", .min = 16, .max = 16 << 20,
                 .doc = "Memory of a runner for functions, in MB."),
    SWARM_OPTION("overhead", overhead_mb, FN_OPT_INT, .dflt = "0", .min = 0, .max = 16 << 20,
                 .doc = "Memory of a runner beyond capacity, in MB. The sum is reserved on the "
                        "Swarm node and is the limit of the runner's container. 0 = what a runner "
                        "keeps for itself: a tenth, at least 256 MB."),
    SWARM_OPTION("stop_grace", stop_grace_ns, FN_OPT_DURATION, .dflt = "330s",
                 .max = 86400000000000,
                 .doc = "Time that the Swarm gives a runner to end its calls when it is stopped; "
                        "then it is killed. Keep it above npm.drain_timeout."),
    SWARM_OPTION("constraints", constraints, FN_OPT_STRLIST, .flags = FN_OPT_MAY_BE_ABSENT,
                 .doc = "Swarm placement constraints of the runners, such as node.labels.zone==a "
                        "or node.role!=manager."),
    SWARM_OPTION("env", env, FN_OPT_STRLIST, .flags = FN_OPT_MAY_BE_ABSENT,
                 .doc = "Environment variables of the runner, as NAME=value. FN_NODE_TYPE, "
                        "FN_GRPC_PORT and FN_MAX_TOTAL_MEMORY_BYTES are set unless they are given "
                        "here."),
    SWARM_OPTION("mounts", mounts, FN_OPT_STRLIST, .flags = FN_OPT_MAY_BE_ABSENT,
                 .doc = "Mounts of the runner, as source:/target or source:/target:ro. The source "
                        "is a path of the Swarm node or a volume, such as "
                        "/var/run/docker.sock:/var/run/docker.sock for driver docker."),
    SWARM_OPTION("capabilities", capabilities, FN_OPT_STRLIST, .flags = FN_OPT_MAY_BE_ABSENT,
                 .doc = "Linux capabilities that are added to the engine's default ones, such as "
                        "CAP_SYS_ADMIN for driver process with namespaces."),
    SWARM_OPTION("labels", labels, FN_OPT_STR, .min = 1, .max = 255,
                 .flags = FN_OPT_MAY_BE_ABSENT,
                 .doc = "Labels of each new runner, such as \"class=gpu disk=ssd\" (labels.md)."),
    SWARM_OPTION("node_labels", node_labels, FN_OPT_STRLIST, .flags = FN_OPT_MAY_BE_ABSENT,
                 .doc = "Keys of labels of Swarm nodes, such as zone. A runner also has the labels "
                        "of its node with these keys, and follows their changes."),
    {.key = NULL},
};

#endif
