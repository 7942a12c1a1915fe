/* Usage: one line of JSON for each call that ended, for billing.
 *
 *     call ends --> [loop] after(): number, record --> queue --> [worker] lines --> file or HTTP
 *
 * The number is given on the loop, where nothing is left out, so that a record which has no place
 * in the queue leaves a gap that a reader sees. A record leaves the queue when it is written, not
 * before: what failed is tried again. */
#ifndef LISTENER_USAGE_H
#define LISTENER_USAGE_H

#include <fn/listener.h>
#include <fn/view.h>

#define STREAM_BYTES   28 /* with its end */
#define LINE_BYTES_MAX 12288u /* of a record whose texts are as long as they may be, escaped */
#define BATCH_BYTES    65536u /* of lines in one write or request */
#define BATCH_RECORDS  256u
#define QUEUE_MAX      1000000
#define KEEP_MAX       999

/* ---- records: record.c ----------------------------------------------------------------------- */

enum { TEXT_CALL, TEXT_FN, TEXT_APP, TEXT_APP_NAME, TEXT_GROUP, TEXT_TYPE, TEXT_OUTCOME, TEXTS_N };

struct record {
    uint64_t seq;
    int64_t ended_wall_ns;
    int64_t took_ns; /* 0: it did not start */
    uint64_t mem_mb;
    uint64_t cpu_milli;
    uint32_t status;
    int32_t code;
    const char *texts[TEXTS_N]; /* in the same piece of memory */
};

/* NULL: no memory. Freed with free(). */
struct record *record_make(const struct fn_view_if *view, const struct fn_call *call,
                           const struct fn_call_end *end);
/* A line with its end in `ret`, which has LINE_BYTES_MAX. Its length. */
size_t record_print(const struct record *r, const char *stream, char *ret);
/* The line behind the last record of a stream. */
size_t record_print_end(const char *stream, uint64_t seq, int64_t wall_ns, uint64_t dropped,
                        char *ret);

/* ---- the queue: queue.c ---------------------------------------------------------------------- */

/* One side adds, the other one takes, without a lock: the loop never waits for a worker. */
struct queue {
    struct record **places;
    uint64_t size;
    uint64_t added; /* atomic; written by the adding side alone */
    uint64_t taken; /* atomic; written by the taking side alone */
};

int queue_init(struct queue *q, uint64_t size); /* 0 or FN_E_EXHAUSTED */
void queue_finish(struct queue *q);             /* frees what is in it */
int queue_add(struct queue *q, struct record *given); /* FN_E_EXHAUSTED: it is full; not taken */
const struct record *queue_at(const struct queue *q, uint64_t i); /* from the oldest, or NULL */
void queue_take(struct queue *q, uint64_t n);                     /* frees the n oldest */
uint64_t queue_waiting(const struct queue *q);

/* ---- the file: file.c ------------------------------------------------------------------------ */

struct file {
    const char *path;
    int64_t rotate_bytes;
    int64_t keep; /* rotated files: path.1 is the newest */
    int sync;     /* lines are on the disk when a write returns */
    int fd;
    int torn; /* its last line has no end */
};

/* Opens or makes it. 0, or FN_E_PRECONDITION with a sentence. */
int file_open(struct file *f, struct fn_error *reterr);
void file_close(struct file *f);
/* Whole lines. *ret_lines of them are in the file, all if 0 is returned; else FN_E_UNAVAILABLE with
 * a sentence. */
int file_write(struct file *f, const char *lines, size_t len, uint64_t *ret_lines,
               struct fn_error *reterr);

/* ---- an instance: plugin.c ------------------------------------------------------------------- */

struct conf {
    const char *path;
    const char *url;
    const char *socket;
    int64_t rotate_bytes;
    int64_t keep;
    int64_t queue;
    uint32_t sync;
};

struct instance {
    const struct fn_host *host;
    const struct fn_view_if *view;
    const struct fn_op_if *op;
    const struct fn_http_if *http;
    const struct conf *conf;
    char stream[STREAM_BYTES];
    struct queue queue;
    uint32_t metric_written, metric_dropped, metric_failed, metric_waiting;

    /* the loop's */
    uint64_t seq; /* of the last call that ended */
    uint64_t dropped;
    int64_t told_ns;

    /* the worker's */
    struct file file;
    int64_t again_ns;
    char lines[BATCH_BYTES];
};

/* ---- on a worker: write.c -------------------------------------------------------------------- */

/* after_worker(): the records of all calls that have ended, of which this is one. */
int usage_write(void *inst, struct fn_op *op, const struct fn_call *call,
                const struct fn_call_end *end, struct fn_error *reterr);
/* The records that are still there, to a server for a few seconds at most; to a file also that
 * there are no more. [init] */
void usage_finish(struct instance *i);

#endif
