/* Log: one line per event, logfmt or JSON, to one destination. [any]
 *
 * Every foreign byte is escaped; a field key is written as given. A line is formatted on the stack
 * (LOG_LINE_MAX, cut with "...") and given to a sink that does not block: a node's is
 * loop/log_writer.h. Without one it goes to a descriptor, which is waited for LOG_DIRECT_WAIT_MS.
 *
 * Who may cause a line decides how it is written. What the node or its operator does is told with
 * log_info() and its kin. What a stranger can cause as often as he likes (a client, a function, a
 * peer, a plugin) is told with log_stranger(), which lets LOG_GATE_LINES of a kind through in
 * LOG_GATE_NS and counts the others. Go Fn: logrus, whose lines these are. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <fn/host.h>
#include <stdbool.h>
#include <stddef.h>

#define LOG_LINE_MAX       8192
#define LOG_DIRECT_WAIT_MS 1000
#define LOG_GATE_NS        INT64_C(10000000000)
#define LOG_GATE_LINES     100
#define LOG_LOST_LINES     2000 /* the same of lost detached calls, which only the log names: as
                                   many as a machine has, and as a writer's queue takes */

enum log_format { LOG_TEXT, LOG_JSON };

struct log_config {
    uint32_t level; /* FN_LOG_*: highest level that is written */
    enum log_format format;
    int fd;                   /* destination */
    int64_t (*wall_ns)(void); /* the only clock it knows */
    /* Instead of fd when not NULL: whole lines with their newline; any thread, must not block. */
    void (*sink)(uint32_t level, int64_t wall_ns, const char *line, size_t len);
};

/* Process-wide; before the first line. Until then lines go to standard error as text. */
void log_setup(const struct log_config *config);
uint32_t log_level(void);
void log_set_level(uint32_t level); /* while lines are being written */
const uint32_t *log_level_address(void);
int log_level_parse(const char *text, uint32_t *ret_level); /* Go Fn's words; FN_E_INVALID */

/* Writes msg and fields: pairs of (const char *key, const char *value), ended by NULL; a NULL value
 * leaves its pair out. Numbers: log_num(). */
void log_write(uint32_t level, const char *msg, ...) __attribute__((sentinel));

/* Each line of `text` as a message of its own, as far as LOG_LINE_MAX. */
void log_lines(uint32_t level, const char *text);

/* Text of a number for the line being written; one of 16 rotating buffers of this thread. */
const char *log_num(int64_t n);

#define log_error(...) log_write(FN_LOG_ERROR, __VA_ARGS__, (char *)NULL)
#define log_warn(...)  log_write(FN_LOG_WARN, __VA_ARGS__, (char *)NULL)
#define log_info(...)  log_write(FN_LOG_INFO, __VA_ARGS__, (char *)NULL)
#define log_debug(...)                                                                             \
    do {                                                                                           \
        if (log_level() >= FN_LOG_DEBUG) {                                                         \
            log_write(FN_LOG_DEBUG, __VA_ARGS__, (char *)NULL);                                    \
        }                                                                                          \
    } while (0)

/* A kind of line that is rate limited: one place in the code, or one per object. The next line that
 * passes carries how many were suppressed; fn_log_suppressed_lines counts all of them. */
struct log_gate {
    int64_t window_ns; /* start of the running window; zeroed = none */
    uint32_t passed;
    uint32_t suppressed;
};

/* true = write; *ret_suppressed = lines swallowed since the last one. Who calls serialises. */
bool log_gate_open(struct log_gate *g, int64_t now_ns, int64_t interval_ns, uint32_t burst,
                   uint32_t *ret_suppressed);
/* log_write() through a gate, at most `lines` in LOG_GATE_NS but for debug lines; adds
 * suppressed=N. [any] */
void log_write_gated(struct log_gate *g, uint32_t lines, uint32_t level, const char *msg, ...)
    __attribute__((sentinel));

/* A line that strangers can cause: each place in the code is a kind of its own. [any] */
#define log_stranger(level, ...)                                                                   \
    do {                                                                                           \
        static struct log_gate kind_;                                                              \
        log_write_gated(&kind_, LOG_GATE_LINES, (level), __VA_ARGS__, (char *)NULL);               \
    } while (0)

/* Writes what fd takes within timeout_ms, in pieces that a pipe takes whole or not at all. Returns
 * the bytes that were written. [any, also in signal handlers] */
size_t log_put(int fd, const char *data, size_t len, int timeout_ms);

#endif
