/* Private to core/runner: the lines that containers print, kept and read. */
#ifndef RUNNER_LINES_H
#define RUNNER_LINES_H

#include <model/call.h>
#include <model/engage.h>
#include <model/ids.h>
#include <sys/queue.h>

struct container;
struct runner;

/* ---- lines kept of a container (rings.c) --------------------------------------------------- */

struct log_tap;

/* Of one container; outlives it for a while. */
struct log_ring {
    struct runner *r;
    TAILQ_ENTRY(log_ring) link; /* logs.rings, or logs.kept once it has ended */
    bool ended;
    const char *app_id, *fn_id; /* in texts */
    char container_id[CALL_ID_LEN + 1];
    struct buf records;
    uint64_t begin;             /* position of the first record; positions only grow */
    uint64_t first_no, next_no; /* numbers of the first line, and of the next to come */
    LIST_HEAD(, log_tap) taps;  /* of who reads it */
    char texts[];
};

TAILQ_HEAD(log_rings, log_ring);

/* Hears of rings: who reads their lines. */
struct ring_watch {
    void (*begins)(struct log_ring *g);
    void (*grew)(struct log_ring *g); /* by a line */
    void (*ends)(struct log_ring *g); /* it is freed */
};

void rings_init(struct runner *r, const struct ring_watch *watch);
void rings_finish(struct runner *r); /* containers are gone */
void rings_set_options(struct runner *r); /* r->opt changed */
struct log_ring *ring_create(struct container *c); /* NULL: no memory */
void ring_keep(struct log_ring *g); /* its container goes */
void ring_add(struct log_ring *g, bool of_stderr, const char *call_id, const char *text,
              size_t len);
/* The line at *pos, which is before the end, and moves behind it; borrowed until the next
 * ring_add(). */
void ring_read(const struct log_ring *g, uint64_t *pos, struct engage_line *ret);
/* Adds the last lines, at most `max` bytes. FN_E_EXHAUSTED. */
int ring_tail(const struct log_ring *g, size_t max, struct buf *out);

/* ---- who reads lines (logs.c) -------------------------------------------------------------- */

/* What a reader asked for; an id that is NULL: all. */
struct log_query {
    const char *app_id, *fn_id, *container_id, *call_id;
    int64_t since_ms;
    uint64_t tail; /* of each container, of what is there */
    bool follow;
    bool mark; /* the end of what was there */
};

bool log_query_wants_of(const struct log_query *q, const char *app_id, const char *fn_id,
                        const char *container_id);
bool log_query_wants(const struct log_query *q, const struct engage_line *l);

/* Where its lines come from makes it larger. */
struct log_reader {
    const struct log_reader_ops *ops;
    LIST_ENTRY(log_reader) link;
    struct runner *r;
    struct engage_logs *logs;
    struct arena arena; /* of the query */
    struct log_query query;
    bool live; /* it has all that was there */
};

struct log_reader_ops {
    size_t size;
    int (*begin)(struct log_reader *); /* its query is there. FN_E_EXHAUSTED */
    void (*wanted)(struct log_reader *);
    void (*forget_timers)(struct log_reader *);
    void (*finish)(struct log_reader *);
};

/* For both; the reader may be gone when they return. */
void log_reader_send(struct log_reader *rd, const struct engage_line *lines, uint32_t n);
void log_reader_goes_live(struct log_reader *rd);
void log_reader_end(struct log_reader *rd, int grpc_status, const char *text);

struct log_store {
    struct log_rings rings; /* of containers that there are */
    struct log_rings kept;  /* of others, oldest first */
    const struct ring_watch *watch;
    uint64_t kept_bytes;
    uint32_t kept_n;
    LIST_HEAD(, log_reader) readers;
    uint32_t streams_n; /* those that somebody reads */
    bool closed; /* no further reader begins */
};

/* FN_E_INVALID or FN_E_EXHAUSTED. */
int log_reader_open(struct runner *r, const struct log_reader_ops *ops, struct engage_logs *logs,
                    struct fn_error *reterr);
void logs_finish(struct runner *r);  /* who reads is not told */
void logs_end_all(struct runner *r); /* the runner stops */
void logs_forget_timers(struct runner *r);
/* For sessions. */
void logs_on_wanted(void *endpoint, struct engage_logs *logs);
void logs_on_gone(void *endpoint, struct engage_logs *logs);

/* ---- lines that the runner keeps (taps.c) -------------------------------------------------- */

extern const struct log_reader_ops taps_ops;
extern const struct ring_watch taps_watch;
/* There are lines that such a reader has not read. */
bool taps_are_behind(const struct engage_logs *logs);

/* ---- lines of the operator's plugin (history.c) -------------------------------------------- */

extern const struct log_reader_ops history_ops;

struct history {
    TAILQ_HEAD(, history_reader) waiting; /* for their turn */
    struct history_reader *now;           /* whose turn it is; NULL: it has gone */
};

void history_init(struct runner *r);

#endif
