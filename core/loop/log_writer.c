/* Two buffers: those who log fill one, the thread empties the other and swaps them. The lock is
 * held for a copy of one line or for the swap, never for a write. `queued` counts lines that were
 * taken, `passed` those that the thread is done with: a signal handler can wait without a lock. */
#include <loop/log_writer.h>

#include <base/log.h>
#include <base/metric.h>
#include <errno.h>
#include <fcntl.h>
#include <loop/loop_int.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_STEPS   10 /* a millisecond */
#define ROUND_UP(n)   (((n) + 7u) & ~(size_t)7)

/* Before each line in a buffer. */
struct head {
    int64_t wall_ns;
    uint32_t level;
    uint32_t len;
};

struct batch {
    char *data; /* LOG_QUEUE_BYTES */
    size_t len;
};

static struct {
    pthread_mutex_t lock; /* for what stands above `queued` */
    pthread_cond_t wake;
    bool waiting, reopen;
    struct batch *fill;   /* one of batches[] */
    uint32_t left_out;    /* lines that found no room in `fill` */
    _Atomic uint64_t queued, passed;
    struct metric *lost, *diverted;
    /* the thread's own: */
    struct log_writer_config config;
    struct batch batches[2];
    uint32_t untold; /* lost lines that the log does not tell yet */
    bool torn;       /* the file ends in the middle of a line */
} w = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

static _Thread_local bool is_writer;

/* ---- passing on ------------------------------------------------------------------------------ */

/* The whole of it, however long that takes; *ret_done of it went out before an error. */
static bool writer_write_all(const char *data, size_t len, size_t *ret_done)
{
    struct pollfd p = { .fd = w.config.fd, .events = POLLOUT };

    *ret_done = 0;
    while (*ret_done < len) {
        ssize_t n = write(w.config.fd, data + *ret_done, len - *ret_done);

        if (n > 0) {
            *ret_done += (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            poll(&p, 1, -1); /* somebody who shares it made it non-blocking */
        } else if (n == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

static bool writer_write_line(const char *line, size_t len)
{
    size_t done;

    if (w.torn && !writer_write_all("\n", 1, &done)) {
        return false;
    }
    w.torn = false;
    if (writer_write_all(line, len, &done)) {
        return true;
    }
    w.torn = done > 0;
    return false;
}

static void lose(uint32_t lines)
{
    metric_add(w.lost, lines);
    w.untold += lines;
}

static bool pass_on(uint32_t level, int64_t wall_ns, const char *line, size_t len)
{
    bool taken =
        w.config.send ? w.config.send(level, wall_ns, line, len) : writer_write_line(line, len);

    if (taken) {
        return true;
    }
    if (log_put(STDERR_FILENO, line, len, 0) == len) {
        metric_add(w.diverted, 1);
    } else {
        lose(1);
    }
    return false;
}

/* Behind the gap, when there is somebody to read it. */
static void tell_lost(void)
{
    uint32_t lines = w.untold;

    w.untold = 0;
    log_warn("log lines were lost: whoever takes them was too slow", "lines", log_num(lines));
    w.untold += w.untold > 0 ? lines : 0; /* this one, too */
}

static void pass_batch(const struct batch *b)
{
    bool taken = true;

    for (size_t at = 0; at < b->len;) {
        struct head h;

        memcpy(&h, b->data + at, sizeof(h));
        taken = pass_on(h.level, h.wall_ns, b->data + at + sizeof(h), h.len);
        at += ROUND_UP(sizeof(h) + h.len);
        if (taken && w.untold > 0) {
            tell_lost();
        }
        atomic_fetch_add(&w.passed, 1);
    }
}

/* ---- rotation -------------------------------------------------------------------------------- */

static bool is_other_file(int fd)
{
    struct stat a, b;

    return fstat(fd, &a) < 0 || fstat(w.config.fd, &b) < 0 || a.st_dev != b.st_dev ||
           a.st_ino != b.st_ino;
}

/* The number stays: a crash report knows it. */
static void reopen_file(void)
{
    int fd = open(w.config.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (fd < 0) {
        log_error("the log file cannot be opened again, lines go on into the old one", "path",
                  w.config.path, "error", strerror(errno));
        return;
    }
    w.torn = w.torn && !is_other_file(fd);
    dup3(fd, w.config.fd, O_CLOEXEC);
    close(fd);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static struct batch *take_batch(bool *ret_reopen, uint32_t *ret_left_out)
{
    struct batch *full;

    pthread_mutex_lock(&w.lock);
    while (w.fill->len == 0 && !w.reopen) {
        w.waiting = true;
        pthread_cond_wait(&w.wake, &w.lock);
        w.waiting = false;
    }
    full = w.fill;
    w.fill = full == &w.batches[0] ? &w.batches[1] : &w.batches[0];
    *ret_reopen = w.reopen;
    w.reopen = false;
    *ret_left_out = w.left_out;
    w.left_out = 0;
    pthread_mutex_unlock(&w.lock);
    return full;
}

static void *writer_run(void *arg)
{
    (void)arg;
    is_writer = true;
    for (;;) {
        uint32_t left_out;
        bool reopen;
        struct batch *b = take_batch(&reopen, &left_out);

        if (reopen && w.config.path) {
            reopen_file();
        }
        pass_batch(b);
        b->len = 0;
        if (left_out > 0) {
            w.untold += left_out;
            tell_lost();
        }
    }
    return NULL;
}

int log_writer_start(const struct log_writer_config *c, struct fn_error *reterr)
{
    pthread_t thread;

    w.config = *c;
    w.config.path = c->path ? strdup(c->path) : NULL;
    w.batches[0].data = malloc(LOG_QUEUE_BYTES);
    w.batches[1].data = malloc(LOG_QUEUE_BYTES);
    w.fill = &w.batches[0];
    w.lost = metric_simple("fn_log_lost_lines", METRIC_COUNTER,
                           "Log lines that nobody took: the destination and standard error were "
                           "full or failed.");
    w.diverted = metric_simple("fn_log_diverted_lines", METRIC_COUNTER,
                               "Log lines that went to standard error because log.dest did not "
                               "take them.");
    if ((c->path && !w.config.path) || !w.batches[0].data || !w.batches[1].data ||
        loop_thread(&thread, writer_run, NULL) != 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "log: no memory or thread for its writer");
    }
    pthread_detach(thread);
    return 0;
}

/* ---- those who log --------------------------------------------------------------------------- */

static size_t room_for(uint32_t level)
{
    return LOG_QUEUE_BYTES - (level <= FN_LOG_WARN ? 0 : LOG_QUEUE_SEVERE);
}

static void append(const struct head *h, const char *line)
{
    memcpy(w.fill->data + w.fill->len, h, sizeof(*h));
    memcpy(w.fill->data + w.fill->len + sizeof(*h), line, h->len);
    w.fill->len += ROUND_UP(sizeof(*h) + h->len);
    atomic_fetch_add(&w.queued, 1);
    if (w.waiting) {
        pthread_cond_signal(&w.wake);
    }
}

void log_writer_write(uint32_t level, int64_t wall_ns, const char *line, size_t len)
{
    const struct head h = { .wall_ns = wall_ns, .level = level, .len = (uint32_t)len };

    if (is_writer) { /* its own lines stand where they belong */
        pass_on(level, wall_ns, line, len);
        return;
    }
    pthread_mutex_lock(&w.lock);
    if (w.fill->len + ROUND_UP(sizeof(h) + len) <= room_for(level)) {
        append(&h, line);
    } else {
        w.left_out++;
        metric_add(w.lost, 1);
    }
    pthread_mutex_unlock(&w.lock);
}

void log_writer_reopen(void)
{
    pthread_mutex_lock(&w.lock);
    w.reopen = true;
    pthread_cond_signal(&w.wake);
    pthread_mutex_unlock(&w.lock);
}

bool log_writer_flush(int timeout_ms)
{
    const struct timespec step = { 0, 1000000L / FLUSH_STEPS };
    uint64_t queued = atomic_load(&w.queued);
    int64_t steps = (int64_t)timeout_ms * FLUSH_STEPS;

    while (!is_writer && atomic_load(&w.passed) < queued && steps-- > 0) {
        nanosleep(&step, NULL);
    }
    return atomic_load(&w.passed) >= queued;
}
