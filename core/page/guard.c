/* Three questions, three sentences. */
#include <page/guard.h>

#include <base/addr.h>
#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>

/* Ports are not compared: a tunnel (ssh -L) has its own. */
static bool is_loopback_name(const char *host)
{
    struct addr a;

    return host && addr_parse_host(host, &a) == 0 && addr_is_local(&a);
}

static bool is_foreign(const struct guard *g, const char *host, const struct headers *h)
{
    const char *origin = headers_get(h, "Origin");
    const char *site = headers_get(h, "Sec-Fetch-Site");
    const char *scheme = g->tls ? "https://" : "http://";

    if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0) {
        return true;
    }
    return origin && (strncmp(origin, scheme, strlen(scheme)) != 0 || !host ||
                      strcasecmp(origin + strlen(scheme), host) != 0);
}

int guard_page(const struct guard *g, const char *host, const struct headers *h,
               struct fn_error *reterr)
{
    if (!g->tls && !is_loopback_name(host)) {
        return err_set_http(reterr, FN_E_PERMISSION, 403, FN_BLAME_USER,
                            "ADM1301 the operator's page, got the host %.64s; expected localhost "
                            "or an address of the loopback",
                            host ? host : "(none)");
    }
    if (is_foreign(g, host, h)) {
        return err_set_http(reterr, FN_E_PERMISSION, 403, FN_BLAME_USER,
                            "ADM1302 the operator's page is not for pages of another origin");
    }
    return 0;
}

/* All characters are looked at, whichever is wrong. */
static bool is_token(const char *token, const char *given)
{
    return strlen(given) == GUARD_TOKEN_HEX && CRYPTO_memcmp(token, given, GUARD_TOKEN_HEX) == 0;
}

int guard_token(const struct guard *g, const struct headers *h, struct fn_error *reterr)
{
    static const char bearer[] = "Bearer ";
    const char *given = headers_get(h, GUARD_HEADER);

    if (!given) {
        given = headers_get(h, "Authorization");
        given = given && strncasecmp(given, bearer, sizeof(bearer) - 1) == 0
                    ? given + sizeof(bearer) - 1
                    : NULL;
    }
    if (!given || !is_token(g->token, given)) {
        return err_set_http(reterr, FN_E_PERMISSION, 401, FN_BLAME_USER,
                            "ADM1303 the operator's page, got %s token; expected the one that "
                            "`fnd page` prints on this machine",
                            given ? "another" : "no");
    }
    return 0;
}
