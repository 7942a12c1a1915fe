/* What servers take from `http:`: limits, and browsers of other origins. */
#include <conf/opts.h>
#include <http/cors.h>
#include <http/server.h>

#define AT(field) offsetof(struct http_limits, field)
static const struct fn_opt limits_rows[] = {
    LIVE("header_max", BYTES, AT(header_bytes_max), "32KiB", 1 * KIB, 1 * MIB,
         "Size of a request's header block; upstream allows 1 MiB."),
    LIVE("headers_max", INT, AT(headers_max), "100", 1, 10000,
         "Number of header fields; upstream has no limit."),
    LIVE("request_line_max", BYTES, AT(request_line_max), "8KiB", 256, 64 * KIB,
         "Size of the request line."),
    LIVE("body_max", BYTES, AT(body_bytes_max), "6MiB", 0, 4 * GIB,
         "Size of a request body, 0 = no limit; upstream has none unless told."),
    LIVE("header_timeout", DURATION, AT(header_timeout_ns), "10s", 0, H,
         "Time for the whole header block, 0 = no limit as upstream."),
    LIVE("body_timeout", DURATION, AT(body_timeout_ns), "60s", 0, 24 * H,
         "Time for the whole body, 0 = no limit as upstream."),
    LIVE("body_rate_min", BYTES, AT(body_rate_min), "1KiB", 0, 1 * GIB,
         "Bytes per second that a body must bring after its first 10 s, 0 = no limit."),
    LIVE("write_stall", DURATION, AT(write_stall_ns), "30s", 0, H,
         "Time without progress after which a client that does not read is cut, 0 = never as "
         "upstream."),
    LIVE("idle_timeout", DURATION, AT(idle_timeout_ns), "60s", 0, 24 * H,
         "Time between two requests of a connection, 0 = no limit as upstream."),
    LIVE("connections_max", INT, AT(connections_max), "10000", 1, 1000000,
         "Open connections; upstream has no limit."),
    LIVE("connections_per_ip_max", INT, AT(connections_per_ip_max), "256", 1, 1000000,
         "Open connections of one address, which of IPv6 is a /64; upstream has no limit."),
    LIVE_ABSENT("proxies", STRLIST, AT(proxies), 0, 0,
                "Networks of proxies in front of this node, such as 10.1.0.0/16 or fd00::/8: their "
                "many clients are not held to the limits of one address; absent = none."),
    LIVE("requests_per_connection_max", INT, AT(requests_per_connection_max), "10000", 1,
         1000000000, "Requests after which a connection is closed."),
    LIVE("output_buffer", BYTES, AT(out_bytes_high), "64KiB", 4 * KIB, 16 * MIB,
         "Answer bytes that may wait for a slow client before its function is slowed down."),
    { .key = NULL },
};
#undef AT

#define AT(field) offsetof(struct cors, field)
static const struct fn_opt cors_rows[] = {
    LIVE_ABSENT("cors_origins", STRLIST, AT(origins), 0, 0,
                "Origins whose pages may call from a browser: http://... or https://...; * alone = "
                "all. Others are answered 403; absent = CORS is off."),
    LIVE_ABSENT("cors_headers", STRLIST, AT(headers), 0, 0,
                "Request headers that such pages may send; absent = Origin, Content-Length and "
                "Content-Type."),
    { .key = NULL },
};

const struct opt_table http_limits_table = { limits_rows, sizeof(struct http_limits) };
const struct opt_table cors_opt_table = { cors_rows, sizeof(struct cors) };
