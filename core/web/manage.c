/* Three questions before the API is asked anything: is the client of a network that may, does the
 * request come from a page that somebody else wrote, and is the name it uses one of this node. */
#include <web/manage.h>

#include <base/addr.h>
#include <base/err.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static bool is_unknown(const struct net_address *a)
{
    static const struct net_address nobody;

    return memcmp(a, &nobody, sizeof(nobody)) == 0;
}

/* Addresses of IPv6 are known to their first half, of which ::1 has none; nor is who comes by a
 * proxy that does not name its clients. */
static bool is_of(const struct fn_strlist *clients, const struct http_request *req)
{
    struct net_network n;
    bool unknown = is_unknown(&req->client);

    if (unknown && strncmp(req->peer, "unix", 4) == 0) {
        return true;
    }
    for (uint64_t i = 0; i < clients->n; i++) {
        bool loopback = strcmp(clients->items[i], "::1") == 0;

        if (unknown ? loopback && strncmp(req->peer, "[::1]:", 6) == 0
                    : net_network_parse(clients->items[i], &n) == 0 &&
                          net_network_has(&n, &req->client)) {
            return true;
        }
    }
    return false;
}

static bool is_loopback(const struct http_request *req)
{
    static const char *const texts[] = { "127.0.0.0/8", "::1" };
    static const struct fn_strlist loopback = { texts, 2 };

    return strncmp(req->peer, "unix", 4) != 0 && is_of(&loopback, req);
}

/* Pages of the node's own origin send the Host with its scheme. */
static bool is_same_origin(const struct http_request *req, const char *origin)
{
    const char *host = strstr(origin, "://");

    return host && req->host && strcasecmp(host + 3, req->host) == 0;
}

/* Where origins are configured, core/web has judged already. */
static bool is_foreign(const struct cors *cors, const struct http_request *req)
{
    const char *origin = cors->origins.n ? NULL : headers_get(&req->headers, "Origin");

    return origin && !is_same_origin(req, origin);
}

/* Of "https://fn.example.com/": the name before port and path. */
static bool is_host_of(const char *url, const char *host)
{
    const char *at = url ? strstr(url, "://") : NULL;
    size_t len = at ? strcspn(at + 3, ":/") : 0;

    return len > 0 && strlen(host) == len && strncasecmp(at + 3, host, len) == 0;
}

/* What no stranger's name server can say; ports are not compared. */
static bool is_own_name(const struct api_options *o, const char *host)
{
    char machine[ADDR_HOST_MAX + 1] = "";
    struct net_network n;
    struct addr a;

    if (addr_parse_host(host, &a) < 0) {
        return false;
    }
    (void)gethostname(machine, sizeof(machine) - 1);
    return strcasecmp(a.host, "localhost") == 0 || net_network_parse(a.host, &n) == 0 ||
           strcasecmp(a.host, machine) == 0 || is_host_of(o->public_url, a.host);
}

/* A page that only reads sends no Origin, as programs do: the name tells them apart from strangers'
 * pages, and what the API keeps may be secret. */
static bool is_rebound(const struct manage_rules *m, const struct http_request *req)
{
    const char *origin = headers_get(&req->headers, "Origin");

    return req->host && *req->host && !m->tls && m->options->tokens.n == 0 &&
           (!origin || is_same_origin(req, origin)) && is_loopback(req) &&
           !is_own_name(m->options, req->host);
}

int manage_check(const struct manage_rules *m, const struct http_request *req,
                 struct fn_error *reterr)
{
    const struct fn_strlist *clients = &m->options->clients;

    if (clients->n > 0 && !is_of(clients, req)) {
        return err_set_http(reterr, FN_E_PERMISSION, 403, FN_BLAME_USER,
                            "API1107 the API of this node is not for %.64s; expected a client of "
                            "api.clients", req->peer);
    }
    if (is_foreign(m->cors, req)) {
        return err_set_http(reterr, FN_E_PERMISSION, 403, FN_BLAME_USER,
                            "API1107 the API of this node is not for pages of another origin; "
                            "expected it among http.cors_origins");
    }
    if (is_rebound(m, req)) {
        return err_set_http(reterr, FN_E_PERMISSION, 403, FN_BLAME_USER,
                            "API1107 the API of this node, got the host %.64s; expected localhost, "
                            "an address, the name of this machine or that of api.public_url",
                            req->host);
    }
    return 0;
}
