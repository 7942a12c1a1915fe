/* What the files of this room share. */
#ifndef PAGE_PAGE_INT_H
#define PAGE_PAGE_INT_H

#include <base/metric.h>
#include <page/history.h>
#include <page/page.h>
#include <sys/queue.h>

#define PAGE_SEARCHES_MAX 8u

struct page_stream;
struct page_search;

/* feed.c */
struct feed {
    LIST_HEAD(, page_stream) streams;
    uint32_t n_streams;
    struct env_timer second;  /* the next snapshot; set while there are streams */
    struct env_timer sampler; /* the next figures for the history; always set */
    struct history history;
    struct buf text; /* the event that is being made, then the last one */
    uint32_t table;  /* that is looked at, or is next */
    struct feed_table {
        struct buf text;
        uint32_t rests; /* snapshots for which it stays as it is */
    } tables[PAGE_TABLES_MAX];
    bool making;
    struct page_look look;
    struct metric *readers, *dropped;
};

struct page {
    struct page_deps deps;
    struct env *env;
    struct http_server *server;
    struct budget bodies;
    struct guard guard;
    struct feed feed;
    LIST_HEAD(, page_search) searches;
    uint32_t n_searches;
};

void feed_init(struct page *p);
void feed_finish(struct page *p);
void feed_open(struct page *p, struct http_request *req);

/* search.c */
void search_begin(struct page *p, struct http_request *req, const char *name);
void searches_finish(struct page *p);

/* {"message": text} */
static inline void page_refuse(struct http_request *req, int status, const char *text)
{
    http_answer_error(req, status, NULL, text);
}

#endif
