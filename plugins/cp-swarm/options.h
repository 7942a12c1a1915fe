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
                 .doc = "Engine that is a manager of the Swarm: unix:///path or tcp://host:port."),
    SWARM_OPTION("image", image, FN_OPT_STR, .dflt = "fnd/runner:latest", .min = 1, .max = 255,
                 .doc = "Image of a runner; every node must have it or be able to pull it. An id "
                        "(sha256:...) is never pulled. images/build-runner makes one."),
    SWARM_OPTION("owner", owner, FN_OPT_STR, .dflt = "fnd", .min = 1, .max = 16,
                 .doc = "Whose the runners are: managers that share a Swarm need different ones."),
    SWARM_OPTION("network", network, FN_OPT_STR, .min = 1, .max = 128,
                 .flags = FN_OPT_MAY_BE_ABSENT,
                 .doc = "Overlay network of runners, where load balancers are too; or host: the "
                        "node's own, one runner per node; when absent each runner gets a free port "
                        "of its node."),
    SWARM_OPTION("grpc_port", grpc_port, FN_OPT_INT, .dflt = "9190", .min = 1, .max = 65535,
                 .doc = "The runner's gRPC port in its container, or on its node with network: "
                        "host."),
    SWARM_OPTION("capacity", capacity_mb, FN_OPT_INT, .dflt = "1024", .min = 16, .max = 16 << 20,
                 .doc = "Memory for functions that a runner has, in MB."),
    SWARM_OPTION("overhead", overhead_mb, FN_OPT_INT, .dflt = "0", .min = 0, .max = 16 << 20,
                 .doc = "Memory beyond capacity, in MB; both together are reserved on the node and "
                        "the limit of the container. 0 = what a runner keeps back of its "
                        "container: a tenth, at least 256 MB."),
    SWARM_OPTION("stop_grace", stop_grace_ns, FN_OPT_DURATION, .dflt = "330s",
                 .max = 86400000000000,
                 .doc = "Time that a runner has to end its calls when it is stopped."),
    SWARM_OPTION("constraints", constraints, FN_OPT_STRLIST, .flags = FN_OPT_MAY_BE_ABSENT,
                 .doc = "Nodes that runners may be placed on: node.labels.zone==a, "
                        "node.role!=manager."),
    SWARM_OPTION("env", env, FN_OPT_STRLIST, .flags = FN_OPT_MAY_BE_ABSENT,
                 .doc = "Variables of the runner, NAME=value; FN_NODE_TYPE, FN_GRPC_PORT and "
                        "FN_MAX_TOTAL_MEMORY_BYTES are set unless they are here."),
    SWARM_OPTION("mounts", mounts, FN_OPT_STRLIST, .flags = FN_OPT_MAY_BE_ABSENT,
                 .doc = "source:/target or source:/target:ro; a path of the node or a volume, such "
                        "as /var/run/docker.sock:/var/run/docker.sock for driver docker."),
    SWARM_OPTION("capabilities", capabilities, FN_OPT_STRLIST, .flags = FN_OPT_MAY_BE_ABSENT,
                 .doc = "Linux capabilities of the runner beyond the engine's own, such as "
                        "CAP_SYS_ADMIN for driver process with namespaces."),
    {.key = NULL},
};

#endif
