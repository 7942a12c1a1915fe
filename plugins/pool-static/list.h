/* The list of a static pool: its addresses and their labels. Pure. */
#ifndef POOL_STATIC_LIST_H
#define POOL_STATIC_LIST_H

#include <fn/pool.h>

#define LIST_RUNNERS_MAX 10000u

struct list_entry {
    const char *address;
    const char *labels; /* NULL: none */
};

struct list {
    struct list_entry *entries;
    uint32_t n;
    char *text; /* of all of them */
};

/* 0, or FN_E_INVALID with a sentence: "host:port", "[v6]:port" or "unix:/path", none twice, each
 * with labels behind it or without. */
int list_init(struct list *l, const struct fn_strlist *runners, struct fn_error *reterr);
void list_finish(struct list *l);

#endif
