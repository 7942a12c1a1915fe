/* Two questions before the API is asked anything: is the client of a network that may, and does the
 * request come from a page that somebody else wrote. */
#include <web/manage.h>

#include <base/err.h>
#include <string.h>
#include <strings.h>

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

/* Where origins are configured, core/web has judged already. */
static bool is_foreign(const struct cors *cors, const struct http_request *req)
{
    const char *origin = cors->origins.n ? NULL : headers_get(&req->headers, "Origin");
    const char *host = origin ? strstr(origin, "://") : NULL;

    return origin && (!host || !req->host || strcasecmp(host + 3, req->host) != 0);
}

int manage_check(const struct fn_strlist *clients, const struct cors *cors,
                 const struct http_request *req, struct fn_error *reterr)
{
    if (clients->n > 0 && !is_of(clients, req)) {
        return err_set_http(reterr, FN_E_PERMISSION, 403, FN_BLAME_USER,
                            "API1107 the API of this node is not for %.64s; expected a client of "
                            "api.clients", req->peer);
    }
    if (is_foreign(cors, req)) {
        return err_set_http(reterr, FN_E_PERMISSION, 403, FN_BLAME_USER,
                            "API1107 the API of this node is not for pages of another origin; "
                            "expected it among http.cors_origins");
    }
    return 0;
}
