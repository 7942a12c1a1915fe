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

struct peer_count *peer_count_take(struct http_server *s, const struct sockaddr *addr)
{
    struct net_address key = net_address_of(addr);
    bool proxy = peers_is_proxy(s, &key);
    struct peer_count *p;

    key = proxy ? key : net_customer_of(addr);
    HASH_FIND(hh, s->peers, &key, sizeof(key), p);
    if (!p) {
        p = calloc(1, sizeof(*p));
        if (!p) {
            return NULL;
        }
        p->address = key;
        HASH_ADD(hh, s->peers, address, sizeof(key), p);
        if (!table_has(p)) {
            free(p);
            return NULL;
        }
    }
    p->is_proxy = proxy;
    p->n++;
    return p;
}

void peer_count_release(struct http_server *s, struct peer_count *p)
{
    if (p && --p->n == 0) {
        HASH_DEL(s->peers, p);
        free(p);
    }
}

bool peer_may_bring(const struct http_server *s, const struct peer_count *p, uint64_t bytes)
{
    const struct budget *b = s->config.bodies;

    return !b || !p || p->is_proxy ||
           share_allows(b->limit_bytes, b->used_bytes, p->body_bytes, bytes);
}
