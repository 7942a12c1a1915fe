/* What servers take from `http:`: the port, limits, and browsers of other origins. */
#include <conf/opts.h>
#include <http/cors.h>
#include <http/server.h>

#define AT(field) offsetof(struct http_port, field)
static const struct fn_opt port_rows[] = {
    OPT("listen", STR, AT(listen), ":8080", 1, 256,
        "Address of the HTTP port: host:port, [ipv6]:port, :port (all addresses) or unix:/path."),
    OPT_ABSENT("tls", STR, AT(tls), 1, 64,
               "Entry of `tls:` whose certificate the HTTP port uses, which makes it HTTPS. When "
               "absent: the entry named TLSWebServer if there is one, else plain HTTP."),
    { .key = NULL },
};
#undef AT

#define AT(field) offsetof(struct http_limits, field)
static const struct fn_opt limits_rows[] = {
    LIVE("header_max", BYTES, AT(header_bytes_max), "32KiB", 1 * KIB, 1 * MIB,
         "Maximum size of a request's header block. Go Fn allows 1 MiB."),
    LIVE("headers_max", INT, AT(headers_max), "100", 1, 10000,
         "Maximum number of header fields in a request. Go Fn has no limit."),
    LIVE("request_line_max", BYTES, AT(request_line_max), "8KiB", 256, 64 * KIB,
         "Maximum size of the request line."),
    LIVE("body_max", BYTES, AT(body_bytes_max), "6MiB", 0, 4 * GIB,
         "Maximum size of a request body, 0 = no limit. Go Fn has no limit by default."),
    LIVE("header_timeout", DURATION, AT(header_timeout_ns), "10s", 0, H,
         "Time to receive the complete header block of a request, 0 = no limit (as Go Fn)."),
    LIVE("body_timeout", DURATION, AT(body_timeout_ns), "60s", 0, 24 * H,
         "Time to receive the complete body of a request, 0 = no limit (as Go Fn)."),
    LIVE("body_rate_min", BYTES, AT(body_rate_min), "1KiB", 0, 1 * GIB,
         "Minimum rate of an incoming request body in bytes per second, checked after its first "
         "10 s; a slower upload is answered 408. 0 = no minimum."),
    LIVE("write_stall", DURATION, AT(write_stall_ns), "30s", 0, H,
         "A client that reads nothing of its response for this long is disconnected, 0 = never (as "
         "Go Fn)."),
    LIVE("idle_timeout", DURATION, AT(idle_timeout_ns), "60s", 0, 24 * H,
         "A keep-alive connection without a request is closed after this time, 0 = never (as Go "
         "Fn)."),
    LIVE("connections_max", INT, AT(connections_max), "10000", 1, 1000000,
         "Maximum number of open connections to the HTTP port. Go Fn has no limit."),
    LIVE("connections_per_ip_max", INT, AT(connections_per_ip_max), "256", 1, 1000000,
         "Maximum number of open connections from one client address. All of an IPv6 /64 counts as "
         "one address. Go Fn has no limit."),
    LIVE_ABSENT("proxies", STRLIST, AT(proxies), 0, 0,
                "Networks of reverse proxies in front of this node, such as 10.1.0.0/16 or "
                "fd00::/8. The limits per client address do not apply to them. Absent = none."),
    LIVE_CHOICE("client_from", AT(client_from), "connection",
                "connection|forwarded|x-forwarded-for|proxy-protocol",
                "Where the address of a client stands when one of `proxies` brings its request: "
                "the header that your proxies write, Forwarded (RFC 7239) or X-Forwarded-For, or "
                "the PROXY protocol before everything else, which each of their connections then "
                "must begin with. Choose only what they write or append to, since clients can "
                "send such headers too. "
                "connection = the clients of a proxy are not told apart."),
    LIVE("requests_per_connection_max", INT, AT(requests_per_connection_max), "10000", 1,
         1000000000, "A keep-alive connection is closed after this many requests."),
    LIVE("output_buffer", BYTES, AT(out_bytes_high), "64KiB", 4 * KIB, 16 * MIB,
         "Bytes of a response that are buffered for a slow client. When the buffer is full, the "
         "function is read more slowly."),
    { .key = NULL },
};
#undef AT

#define AT(field) offsetof(struct cors, field)
static const struct fn_opt cors_rows[] = {
    LIVE_ABSENT("cors_origins", STRLIST, AT(origins), 0, 0,
                "CORS: origins whose pages may call from a browser, as http://... or https://...; "
                "a single * allows all. Other origins are answered 403. Absent = CORS is off."),
    LIVE_ABSENT("cors_headers", STRLIST, AT(headers), 0, 0,
                "CORS: request headers that pages of other origins may send. Absent = Origin, "
                "Content-Length and Content-Type."),
    { .key = NULL },
};

const struct opt_table http_port_table = { port_rows, sizeof(struct http_port) };
const struct opt_table http_limits_table = { limits_rows, sizeof(struct http_limits) };
const struct opt_table cors_opt_table = { cors_rows, sizeof(struct cors) };
