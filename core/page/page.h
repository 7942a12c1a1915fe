/* Page: the operator's page of a node, over a port of its own.
 *
 *   GET /, /ui/...        files, which are part of the program
 *   GET /session          the token, for whoever has a client certificate
 *   GET /feed             server-sent events: "history" once, then a "snapshot" a second
 *   GET /tables/NAME      ?q=WORDS&n=ROWS: rows that the snapshot does not have
 *   any /admin/...        what the admin socket answers, with a line in the log for each act
 *
 * All but files and the session need the token (guard.h). A snapshot is made once a second, in
 * slices, while anybody reads, and is one text for all of them: what a further page costs is its
 * copy. [loop] */
#ifndef PAGE_PAGE_H
#define PAGE_PAGE_H

#include <admin/admin.h>
#include <loop/loop.h>
#include <net/tls.h>
#include <page/guard.h>
#include <page/look.h>

#define PAGE_TABLES_MAX  8u
#define PAGE_STREAMS_MAX 64u

struct page;

/* What it is wired to. Everything is borrowed and outlives the page; the struct is copied. */
struct page_deps {
    struct loop *loop;
    const char *listen;
    struct net_identity *identity; /* with an authority of clients; NULL: loopback, plain HTTP */
    struct fn_strlist refuse_interfaces; /* see net_came_by() */
    struct admin *admin;
    const struct page_table *tables[PAGE_TABLES_MAX];
    uint32_t n_tables;
    const char *const *series; /* names of the figures of sample(), NULL ends */
    void (*sample)(void *ud, int64_t *ret);
    int (*about)(void *ud, struct buf *out); /* adds a JSON object: what else a snapshot says */
    void *ud;
};

int page_create(const struct page_deps *deps, struct page **ret, struct fn_error *reterr);
uint16_t page_port(const struct page *p); /* the bound one */
const char *page_token(const struct page *p);
/* Readers are cut off. Requests that went to the admin's handlers must have ended. NULL ok. */
void page_destroy(struct page *p);

#endif
