/* Rows that somebody looks for, beyond those that everybody is shown. */
#include <page/page_int.h>

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

struct page_search {
    LIST_ENTRY(page_search) link;
    struct page *page;
    struct http_request *req;
    struct page_look look;
};

/* ---- the question ---------------------------------------------------------------------------- */

/* The value of a key of "q=a%20b&n=5" in ret; "" when it is not there or has more than cap - 1
 * characters. */
static void query_value(const char *query, const char *key, char *ret, size_t cap)
{
    size_t key_len = strlen(key), n = 0;
    const char *p = query;

    while (p && !(strncmp(p, key, key_len) == 0 && p[key_len] == '=')) {
        p = strchr(p, '&');
        p = p ? p + 1 : NULL;
    }
    for (p = p ? p + key_len + 1 : ""; *p && *p != '&' && n < cap; n++) {
        int high = *p == '%' ? OPENSSL_hexchar2int((unsigned char)p[1]) : -1;
        int low = high >= 0 ? OPENSSL_hexchar2int((unsigned char)p[2]) : -1;

        ret[n] = low >= 0 ? (char)(high * 16 + low) : *p == '+' ? ' ' : *p;
        p += low >= 0 ? 3 : 1;
    }
    ret[n < cap ? n : 0] = '\0';
}

static uint32_t rows_of(const char *query)
{
    char text[8];
    unsigned long n;

    query_value(query, "n", text, sizeof(text));
    n = strtoul(text, NULL, 10);
    return n >= 1 && n <= PAGE_ROWS_MAX ? (uint32_t)n : PAGE_ROWS_MAX;
}

static const struct page_table *table_of(const struct page *p, const char *name)
{
    for (uint32_t i = 0; i < p->deps.n_tables; i++) {
        if (strcmp(p->deps.tables[i]->name, name) == 0) {
            return p->deps.tables[i];
        }
    }
    return NULL;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void search_end(struct page_search *s)
{
    look_free(&s->look);
    LIST_REMOVE(s, link);
    s->page->n_searches--;
}

static void search_on_gone(struct http_request *req)
{
    search_end(req->ud);
    http_answer_abort(req);
}

static void search_on_looked(struct page_look *l)
{
    struct page_search *s = container_of(l, struct page_search, look);
    struct http_request *req = s->req;
    struct buf text = BUF_INIT(0);
    struct headers h;
    int r = look_print(l, &text);

    search_end(s);
    headers_init(&h, req->arena);
    r |= headers_add(&h, "Content-Type", "application/json; charset=utf-8");
    r |= headers_add(&h, "Cache-Control", "no-store");
    if (r) {
        page_refuse(req, 503, "out of memory");
    } else {
        http_answer(req, 200, &h, text.data, text.len);
    }
    buf_finish(&text);
}

void search_begin(struct page *p, struct http_request *req, const char *name)
{
    const struct page_table *t = table_of(p, name);
    struct page_search *s = arena_alloc(req->arena, sizeof(*s));

    if (!t || !s || p->n_searches >= PAGE_SEARCHES_MAX) {
        page_refuse(req, t ? 503 : 404,
                    t ? "too much is looked for at a time" : "This node has no such table");
        return;
    }
    *s = (struct page_search){ .page = p, .req = req };
    s->look = (struct page_look){ .env = p->env,
                                  .table = t,
                                  .ud = p->deps.ud,
                                  .max = rows_of(req->query),
                                  .done = search_on_looked };
    query_value(req->query, "q", s->look.words, sizeof(s->look.words));
    if (look_begin(&s->look) < 0) {
        page_refuse(req, 503, "out of memory");
        return;
    }
    req->ud = s;
    req->on_gone = search_on_gone;
    LIST_INSERT_HEAD(&p->searches, s, link);
    p->n_searches++;
}

void searches_finish(struct page *p)
{
    while (!LIST_EMPTY(&p->searches)) {
        struct page_search *s = LIST_FIRST(&p->searches);
        struct http_request *req = s->req;

        search_end(s);
        page_refuse(req, 503, "this node is stopping");
    }
}
