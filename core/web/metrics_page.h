/* Metrics page: GET /metrics, made on a worker and shared by those who ask.
 *
 * Pages are made one at a time and METRICS_PAUSE_NS apart, each for all who asked before it was
 * begun: nobody reads a page that is older than his request, and a thousand scrapes cost no more
 * than ten a second. It is printed in each format that one of them wants, and lives as long as
 * somebody reads it. There are METRICS_PAGES_MAX at most: the readers of the oldest are cut off for
 * a new one. Making a page sweeps the series of functions that are gone; where nobody reads one for
 * METRICS_SWEEP_NS, one is made for nobody. [loop] */
#ifndef WEB_METRICS_PAGE_H
#define WEB_METRICS_PAGE_H

#include <base/env.h>
#include <base/err.h>
#include <base/metric.h>

#define METRICS_PAUSE_NS  (100 * ENV_MS)
#define METRICS_PAGES_MAX 16
#define METRICS_SWEEP_NS  (3600 * ENV_S)

struct metrics_pages;
struct metrics_page;

enum metrics_word {
    METRICS_READY,  /* metrics_piece() has it */
    METRICS_FAILED, /* no memory or no worker; the reader has left */
    METRICS_CUT,    /* after METRICS_READY: too slow; the reader has left */
};

/* Embed it, with tell and format. tell() may run from inside metrics_read(). */
struct metrics_reader {
    void (*tell)(struct metrics_reader *r, enum metrics_word word);
    enum metric_format format;
    struct metrics_pages *pages;
    struct metrics_page *page; /* NULL = waits, or has left */
    size_t at;
    TAILQ_ENTRY(metrics_reader) link;
};

struct metrics_pages *metrics_pages_create(struct env *env); /* NULL: out of memory */
/* [init] No worker makes a page any more. Readers are forgotten. NULL ok */
void metrics_pages_destroy(struct metrics_pages *all);

void metrics_read(struct metrics_pages *all, struct metrics_reader *r);
size_t metrics_size(const struct metrics_reader *r);
/* The next part of the page; 0 = that was all. */
size_t metrics_piece(struct metrics_reader *r, const void **ret_data);
void metrics_leave(struct metrics_reader *r);

#endif
