/* A hash table of addresses, each with its counts. An address stays as long as it has a
 * connection. */
#include <net/visitors.h>

#include <stdlib.h>

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

static void count_open(struct visitors *v, int64_t n)
{
    if (v->open) {
        metric_add(v->open, n);
    }
}

struct visitor *visitor_come(struct visitors *v, struct net_address key)
{
    struct visitor *p;

    HASH_FIND(hh, v->table, &key, sizeof(key), p);
    if (!p) {
        p = calloc(1, sizeof(*p));
        if (!p) {
            return NULL;
        }
        p->all = v;
        p->address = key;
        HASH_ADD(hh, v->table, address, sizeof(key), p);
        if (!table_has(p)) {
            free(p);
            return NULL;
        }
    }
    p->n++;
    v->n++;
    count_open(v, 1);
    return p;
}

void visitor_leave(struct visitor *p)
{
    struct visitors *v = p ? p->all : NULL;

    if (!p) {
        return;
    }
    v->n--;
    count_open(v, -1);
    if (--p->n == 0) {
        HASH_DEL(v->table, p);
        free(p);
    }
    visitors_maybe_free(v);
}
