/* Log: one line per event, logfmt or JSON, to one destination. [any]
 *
 * Every foreign byte is escaped; a field key is written as given. A line is formatted on the stack
 * (LOG_LINE_MAX, cut with "...") and written with one write(2). Lines of one place in the code may
 * be rate limited with LOG_EVERY. Upstream: logrus, whose lines these are. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <fn/host.h>
#include <stdbool.h>
#include <stddef.h>

#define LOG_LINE_MAX 8192

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
int log_level_parse(const char *text, uint32_t *ret_level); /* upstream's words; FN_E_INVALID */

/* Writes msg and fields: pairs of (const char *key, const char *value), ended by NULL; a NULL value
 * leaves its pair out. Numbers: log_num(). */
void log_write(uint32_t level, const char *msg, ...) __attribute__((sentinel));

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

/* At most `burst` lines per interval; the next line that passes carries how many were
 * suppressed. */
struct log_gate {
    int64_t window_ns; /* start of the running window, monotonic */
    uint32_t passed;
    uint32_t suppressed;
};
/* true = write; *ret_suppressed = lines swallowed since the last one. [loop] */
bool log_gate_open(struct log_gate *g, int64_t now_ns, int64_t interval_ns, uint32_t burst,
                   uint32_t *ret_suppressed);

#endif
