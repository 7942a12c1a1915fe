/* Log writer: one thread between those who log and whatever takes their lines.
 *
 * Who logs copies the line into a buffer of LOG_QUEUE_BYTES and goes on. A destination that stands
 * still fills the buffer and costs lines, never time: they are counted (fn_log_lost_lines) and told
 * as soon as lines flow again. The last LOG_QUEUE_SEVERE bytes are for warnings and errors alone.
 *
 * What a file or a server does not take goes to standard error, if that takes it at once
 * (fn_log_diverted_lines). A line that a full disk cut is ended before the next one. One per
 * process. */
#ifndef LOOP_LOG_WRITER_H
#define LOOP_LOG_WRITER_H

#include <base/err.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_QUEUE_BYTES  (1024 * 1024)
#define LOG_QUEUE_SEVERE (128 * 1024)

struct log_writer_config {
    int fd;           /* destination; borrowed for ever */
    const char *path; /* NULL, or the file behind fd, for log_writer_reopen(); copied */
    /* Instead of fd: from one thread, must not block. false: the line was not taken. */
    bool (*send)(uint32_t level, int64_t wall_ns, const char *line, size_t len);
};

/* [init] Starts the thread. FN_E_EXHAUSTED: no thread or memory. */
int log_writer_start(const struct log_writer_config *c, struct fn_error *reterr);
/* [any] A sink for log_setup(). */
void log_writer_write(uint32_t level, int64_t wall_ns, const char *line, size_t len);
/* [any] The thread opens the file anew before the next line, so that a moved one can be packed. */
void log_writer_reopen(void);
/* [any, also in signal handlers] Waits until what was written before has been passed on. false: it
 * was not within timeout_ms. */
bool log_writer_flush(int timeout_ms);

#endif
