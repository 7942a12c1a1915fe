/* What gRPC takes from `grpc:`, and what nobody can set. */
#include <rpc/rpc.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct rpc_config, field)
static const struct fn_opt rows[] = {
    OPT("message_max", BYTES32, AT(message_max_bytes), "4MiB", 64 * KIB, 64 * MIB,
        "Size of a received message."),
    OPT("streams_max", INT32, AT(streams_max), "4096", 1, 1000000,
        "Calls at a time on one connection of a runner."),
    OPT("connections_max", INT32, AT(connections_max), "10000", 1, 1000000,
        "Open connections at the gRPC port; upstream has no limit."),
    OPT("connections_per_ip_max", INT32, AT(connections_per_ip_max), "256", 1, 1000000,
        "The same of one address; a /64 of IPv6 counts as one."),
    OPT("refuse_interfaces", STRLIST, AT(refuse_interfaces), "fnd0 docker0", 0, 0,
        "Interfaces, `*` in them as in a shell, by which nobody reaches the gRPC port, nor the HTTP "
        "port of a pure-runner or manager: where functions are."),
    OPT("reconnect_first", DURATION, AT(reconnect_first_ns), "100ms", 10 * MS, 10 * S,
        "Pause after the first failed dial; it doubles up to reconnect_max."),
    OPT("reconnect_max", DURATION, AT(reconnect_max_ns), "700ms", 10 * MS, 2 * MIN,
        "Longest pause between two dials; upstream pauses up to 2 minutes."),
    OPT("connect_timeout", DURATION, AT(connect_timeout_ns), "1s", 10 * MS, MIN,
        "Time for one dial."),
    OPT("probe_interval", DURATION, AT(probe_interval_ns), "2s", 0, H,
        "Silence after which a runner is asked whether it lives, 0 = never."),
    OPT("probe_timeout", DURATION, AT(probe_timeout_ns), "2s", 10 * MS, MIN,
        "Time for its answer, after which the connection is given up."),
    OPT("client_silence", DURATION, AT(client_silence_ns), "10s", 0, H,
        "Silence after which a runner pings its load balancer, 0 = never."),
    OPT("send_queue", BYTES32, AT(send_queue_bytes), "64KiB", 4 * KIB, 16 * MIB,
        "Bytes that one call may have waiting to be sent."),
    { .key = NULL },
};

const struct opt_table rpc_opt_table = { rows, sizeof(struct rpc_config) };

void rpc_config_fix(struct rpc_config *c)
{
    c->memory_max_bytes = 256 * MIB;
    c->answer_ns = 5 * S;
    c->first_message_ns = 10 * S;
    c->end_timeout_ns = 2 * S;
}

struct rpc_config rpc_config_default(void)
{
    struct rpc_config c = { .transport = NULL };

    opt_defaults(&rpc_opt_table, &c);
    rpc_config_fix(&c);
    return c;
}
