/* What the connections of one address hold together. */
#include <http/server_int.h>

#include <base/share.h>
#include <stdlib.h>

int peers_set_proxies(struct http_server *s)
{
    const struct fn_strlist *texts = &s->config.limits.proxies;
    struct net_network *all = calloc(texts->n + 1, sizeof(*all));
    uint32_t n = 0;

    if (!all) {
        return FN_E_EXHAUSTED;
    }
    for (uint64_t i = 0; i < texts->n; i++) {
        n += net_network_parse(texts->items[i], &all[n]) == 0;
    }
    free(s->proxies);
    s->proxies = all;
    s->proxies_n = n;
    return 0;
}

bool peers_is_proxy(const struct http_server *s, const struct net_address *a)
{
    for (uint32_t i = 0; i < s->proxies_n; i++) {
        if (net_network_has(&s->proxies[i], a)) {
            return true;
        }
    }
    return false;
}

struct visitor *peer_count_take(struct http_server *s, const struct sockaddr *addr)
{
    struct net_address own = net_address_of(addr);
    bool proxy = peers_is_proxy(s, &own);
    struct visitor *p = visitor_come(&s->peers, proxy ? own : net_customer(own));

    if (p) {
        p->is_proxy = proxy;
    }
    return p;
}

bool peer_may_bring(const struct http_server *s, const struct visitor *p, uint64_t bytes)
{
    const struct budget *b = s->config.bodies;

    return !b || !p || p->is_proxy ||
           share_allows(b->limit_bytes, b->used_bytes, p->holds, bytes);
}
