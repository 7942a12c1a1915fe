/* What servers take from `http:`: the port, limits, and browsers of other origins. */
#include <conf/opts.h>
#include <http/cors.h>
#include <http/server.h>

#define AT(field) offsetof(struct http_port, field)
static const struct fn_opt port_rows[] = {
    OPT("listen", STR, AT(listen), ":8080", 1, 256,
        "Address of the HTTP port: host:port, [ipv6]:port, :port (all addresses) or unix:/path. "
        "When absent, node `api` listens at 127.0.0.1:8080."),
    OPT_ABSENT("tls", STR, AT(tls), 1, 64,
               "Name of the entry of `tls:` whose certificate the HTTP port uses, which makes it "
               "an HTTPS port. When absent: the entry named TLSWebServer if there is one, else "
               "the port is plain HTTP."),
    { .key = NULL },
};
#undef AT

#define AT(field) offsetof(struct http_limits, field)
static const struct fn_opt limits_rows[] = {
    LIVE("header_max", BYTES, AT(header_bytes_max), "32KiB", 1 * KIB, 1 * MIB,
         "Maximum size of all headers of a request together; beyond it, 431. Raise it if clients "
         "send large cookies or tokens. Go Fn allows 1 MiB."),
    LIVE("headers_max", INT, AT(headers_max), "100", 1, 10000,
         "Maximum number of header fields in a request; beyond it, 431. Go Fn has no limit."),
    LIVE("request_line_max", BYTES, AT(request_line_max), "8KiB", 256, 64 * KIB,
         "Maximum size of the request line (method and URL); beyond it, 414. Raise it for "
         "functions that are called with long query strings."),
    LIVE("body_max", BYTES, AT(body_bytes_max), "6MiB", 0, 4 * GIB,
         "Maximum size of a request body, 0 = no limit; beyond it, 413. Bodies are held in "
         "memory: see lb.body_memory. Go Fn has no limit by default."),
    LIVE("header_timeout", DURATION, AT(header_timeout_ns), "10s", 0, H,
         "Time to receive all headers of a request, 0 = no limit (as Go Fn); then 408. On an "
         "HTTPS port it is also the time for the TLS handshake."),
    LIVE("body_timeout", DURATION, AT(body_timeout_ns), "60s", 0, 24 * H,
         "Time to receive the whole body of a request, 0 = no limit (as Go Fn); then 408. Raise "
         "it for large uploads over slow networks."),
    LIVE("body_rate_min", BYTES, AT(body_rate_min), "1KiB", 0, 1 * GIB,
         "Minimum rate of an upload in bytes per second, checked after its first 10 s; a slower "
         "one is answered 408. 0 = no minimum."),
    LIVE("write_stall", DURATION, AT(write_stall_ns), "30s", 0, H,
         "If a client reads nothing of its response for this long, it is disconnected and its "
         "call is cancelled. 0 = never (as Go Fn)."),
    LIVE("idle_timeout", DURATION, AT(idle_timeout_ns), "60s", 0, 24 * H,
         "Time after which a keep-alive connection without a request is closed, 0 = never (as Go "
         "Fn). If a proxy in front keeps connections for longer, set this above the proxy's time."),
    LIVE("connections_max", INT, AT(connections_max), "10000", 1, 1000000,
         "Maximum number of open connections to the HTTP port; a further one is answered 503 and "
         "closed. Each takes one file descriptor of the process. Go Fn has no limit."),
    LIVE("connections_per_ip_max", INT, AT(connections_per_ip_max), "256", 1, 1000000,
         "Maximum number of open connections from one client address; a further one is answered "
         "429 and closed. All of an IPv6 /64 counts as one address. Behind a reverse proxy, set "
         "`proxies` instead of raising it. Go Fn has no limit."),
    LIVE_ABSENT("proxies", STRLIST, AT(proxies), 0, 0,
                "Networks of the reverse proxies in front of this node, such as 10.1.0.0/16 or "
                "fd00::/8. Limits per client address do not apply to their connections, because "
                "these bring requests of many clients. When absent: there are none."),
    LIVE_CHOICE("client_from", AT(client_from), "connection",
                "connection|forwarded|x-forwarded-for|proxy-protocol",
                "How a proxy of `proxies` tells the client's address: forwarded = header "
                "Forwarded (RFC 7239), x-forwarded-for = header X-Forwarded-For, proxy-protocol "
                "= PROXY protocol at the beginning of each connection, connection = not at all. "
                "Choose only what your proxies set or append to, because clients can send such "
                "headers too."),
    LIVE("requests_per_connection_max", INT, AT(requests_per_connection_max), "10000", 1,
         1000000000,
         "After this many requests a keep-alive connection is closed, with `Connection: close` "
         "in the last response. This spreads long-lived clients over new load balancers."),
    LIVE("output_buffer", BYTES, AT(out_bytes_high), "64KiB", 4 * KIB, 16 * MIB,
         "Bytes of a response that are buffered for a client that reads slowly. When the buffer "
         "is full, the function is read more slowly, so memory stays bounded."),
    LIVE("h2", BOOL, AT(h2), "true", 0, 0,
         "HTTP/2 on an HTTPS port, for clients that offer it (ALPN); others get HTTP/1.1, as from "
         "Go Fn. Open connections stay when this changes."),
    LIVE("h2_streams_max", INT, AT(h2_streams_max), "250", 1, 10000,
         "Maximum number of requests at a time on one HTTP/2 connection; further ones wait in "
         "the client. Each request beyond the first counts as a connection for connections_max "
         "and connections_per_ip_max. As Go Fn."),
    { .key = NULL },
};
#undef AT

#define AT(field) offsetof(struct cors, field)
static const struct fn_opt cors_rows[] = {
    LIVE_ABSENT("cors_origins", STRLIST, AT(origins), 0, 0,
                "CORS: origins (http://... or https://...) whose pages may call from a browser; "
                "a single * allows all. Requests from other origins are answered 403. When "
                "absent: CORS is off, and no origin is checked."),
    LIVE_ABSENT("cors_headers", STRLIST, AT(headers), 0, 0,
                "CORS: request headers that pages of other origins may send. When absent: "
                "Origin, Content-Length and Content-Type."),
    { .key = NULL },
};

const struct opt_table http_port_table = { port_rows, sizeof(struct http_port) };
const struct opt_table http_limits_table = { limits_rows, sizeof(struct http_limits) };
const struct opt_table cors_opt_table = { cors_rows, sizeof(struct cors) };
