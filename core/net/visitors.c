/* A hash table of addresses, each with its counts. An address stays as long as it has a
 * connection. */
#include <net/visitors.h>

#include <base/table.h>
#include <stdlib.h>

struct visitor {
    UT_hash_handle hh;
    struct visitors *all;
    struct net_address address; /* key */
    uint32_t n;
    uint32_t handshakes;
    bool has_address;
};

struct visitors {
    struct visitor *table;
    uint32_t n;
    struct metric *open;
    bool closed;
};

struct visitors *visitors_create(struct metric *open)
{
    struct visitors *v = calloc(1, sizeof(*v));

    if (v) {
        v->open = open;
    }
    return v;
}

static void visitors_maybe_free(struct visitors *v)
{
    if (v->closed && v->n == 0) {
        free(v);
    }
}

void visitors_unref(struct visitors *v)
{
    if (v) {
        v->closed = true;
        visitors_maybe_free(v);
    }
}

struct visitor *visitor_come(struct visitors *v, const struct sockaddr *addr)
{
    struct net_address key = net_customer_of(addr);
    struct visitor *p;

    HASH_FIND(hh, v->table, &key, sizeof(key), p);
    if (!p) {
        p = calloc(1, sizeof(*p));
        if (!p) {
            return NULL;
        }
        p->all = v;
        p->address = key;
        p->has_address = addr->sa_family == AF_INET || addr->sa_family == AF_INET6;
        HASH_ADD(hh, v->table, address, sizeof(key), p);
        if (!table_has(p)) {
            free(p);
            return NULL;
        }
    }
    p->n++;
    v->n++;
    metric_add(v->open, 1);
    return p;
}

void visitor_leave(struct visitor *p)
{
    struct visitors *v = p ? p->all : NULL;

    if (!p) {
        return;
    }
    v->n--;
    metric_add(v->open, -1);
    if (--p->n == 0) {
        HASH_DEL(v->table, p);
        free(p);
    }
    visitors_maybe_free(v);
}

uint32_t visitors_n(const struct visitors *v)
{
    return v->n;
}

uint32_t visitor_n(const struct visitor *p)
{
    return p->n;
}

bool visitor_has_address(const struct visitor *p)
{
    return p->has_address;
}

uint32_t *visitor_handshakes(struct visitor *p)
{
    return &p->handshakes;
}
