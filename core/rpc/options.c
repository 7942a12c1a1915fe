/* What gRPC takes from `grpc:`, and what nobody can set. */
#include <rpc/rpc.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct rpc_port, field)
static const struct fn_opt port_rows[] = {
    OPT("listen", STR, AT(listen), ":9190", 1, 256,
        "Address of the gRPC port of a pure-runner or npm node: host:port, [ipv6]:port, :port (all "
        "addresses) or unix:/path."),
    OPT_CHOICE("transport", AT(transport), "nghttp2", "nghttp2|core",
               "HTTP/2 library for gRPC: nghttp2 = libnghttp2, core = gRPC C core from "
               "transports/grpc-core.so (transport.md says when to choose it). Nodes with either "
               "one work together."),
    OPT_ABSENT("tls", STR, AT(tls), 1, 64,
               "Name of the entry of `tls:` for the gRPC port and for outgoing gRPC connections. "
               "When absent: plain text, as Go Fn."),
    OPT_ABSENT("server_tls", STR, AT(server_tls), 1, 64,
               "Name of the entry of `tls:` for the gRPC port alone. When absent: that of `tls`, "
               "else the entry named TLSGRPCServer if there is one."),
    OPT_ABSENT("client_tls", STR, AT(client_tls), 1, 64,
               "Name of the entry of `tls:` for outgoing gRPC connections alone. When absent: "
               "that of `tls`, else the entry named TLSGRPCClient if there is one."),
    { .key = NULL },
};
#undef AT

#define AT(field) offsetof(struct rpc_config, field)
static const struct fn_opt rows[] = {
    OPT("message_max", BYTES32, AT(message_max_bytes), "4MiB", 64 * KIB, 64 * MIB,
        "Maximum size of a received gRPC message; the call of a larger one ends. A load balancer "
        "answers 400 (LB316) to a call whose configuration and headers do not fit. Set the same "
        "value on load balancers and runners."),
    OPT("streams_max", INT32, AT(streams_max), "4096", 1, 1000000,
        "Maximum number of calls at a time on one connection to this runner. A load balancer "
        "offers further calls to other runners, or lets them wait."),
    OPT("connections_max", INT32, AT(connections_max), "10000", 1, 1000000,
        "Maximum number of open connections to the gRPC port; a further one is closed at once. "
        "Each load balancer and manager needs one. Go Fn has no limit."),
    OPT("connections_per_ip_max", INT32, AT(connections_per_ip_max), "256", 1, 1000000,
        "Maximum number of open connections to the gRPC port from one address; a further one is "
        "closed at once. All of an IPv6 /64 counts as one address."),
    OPT("refuse_interfaces", STRLIST, AT(refuse_interfaces), "fnd0 docker0", 0, 0,
        "Network interfaces (shell patterns with `*`) from which connections to the gRPC port "
        "are closed, and on a pure-runner or npm node those to the HTTP port answered 403. Name "
        "all interfaces to which function containers are attached, so that functions cannot act "
        "as load balancers."),
    OPT("reconnect_first", DURATION, AT(reconnect_first_ns), "100ms", 10 * MS, 10 * S,
        "Pause after the first failed attempt to connect to a runner. It doubles with each "
        "further failure up to reconnect_max."),
    OPT("reconnect_max", DURATION, AT(reconnect_max_ns), "700ms", 10 * MS, 2 * MIN,
        "Longest pause between two attempts to connect to a runner, and so the time in which a "
        "runner that came back is noticed. Go Fn pauses up to 2 minutes."),
    OPT("connect_timeout", DURATION, AT(connect_timeout_ns), "1s", 10 * MS, MIN,
        "Time for one attempt to connect. Raise it only where the network between the nodes is "
        "slow."),
    OPT("probe_interval", DURATION, AT(probe_interval_ns), "2s", 0, H,
        "If a runner has sent nothing for this long, its load balancer pings it, 0 = never. With "
        "probe_timeout this is how fast a dead machine is noticed."),
    OPT("probe_timeout", DURATION, AT(probe_timeout_ns), "2s", 10 * MS, MIN,
        "Time for a runner to answer such a ping. Then the connection is closed, and its running "
        "calls end as `unknown`."),
    OPT("status_interval", DURATION, AT(status_interval_ns), "5s", 0, H,
        "Interval at which a load balancer asks each of its runners for its status, 0 = never. A "
        "runner whose status fails gets no calls until its status is good again (monitoring.md)."),
    OPT("client_silence", DURATION, AT(client_silence_ns), "10s", 0, H,
        "If a load balancer has sent nothing for this long, its runner pings it, and closes the "
        "connection if no answer comes within 5 s. 0 = never."),
    OPT("send_queue", BYTES32, AT(send_queue_bytes), "64KiB", 4 * KIB, 16 * MIB,
        "Bytes of one call that may wait to be sent. When they are reached, the client's or the "
        "function's data is read more slowly, so memory stays bounded."),
    { .key = NULL },
};

const struct opt_table rpc_port_table = { port_rows, sizeof(struct rpc_port) };
const struct opt_table rpc_opt_table = { rows, sizeof(struct rpc_config) };

void rpc_config_fix(struct rpc_config *c)
{
    c->memory_max_bytes = 256 * MIB;
    c->answer_ns = 5 * S;
    c->first_message_ns = 10 * S;
    c->ack_ns = 5 * MIN;
    c->end_timeout_ns = 2 * S;
}

struct rpc_config rpc_config_default(void)
{
    struct rpc_config c = { .transport = NULL };

    opt_defaults(&rpc_opt_table, &c);
    rpc_config_fix(&c);
    return c;
}
