/* Remote log: log lines to a syslog server over udp, tcp or a local socket.
 *
 * A line is one datagram, or one line of a stream, with the head that Go's log/syslog writes:
 * "<severity>time host tag[pid]: " (facility 0, as Go Fn does). Nothing waits: what cannot be sent
 * at once is refused, as is everything while a stream is down; it is dialled again once a second,
 * when there is something to say. One per process, used by one thread at a time.
 * Go Fn: FN_LOG_DEST. */
#ifndef LOOP_REMOTE_LOG_H
#define LOOP_REMOTE_LOG_H

#include <base/err.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "udp://host:port", "tcp://host:port", "host:port" (udp) or "unix:///path". */
int remote_log_check(const char *dest); /* [any] FN_E_INVALID */
/* [init] Resolves the host and dials; a stream gets a second, and is dialled again later when it
 * does not answer. tag is copied. FN_E_UNAVAILABLE when the host has no address. */
int remote_log_open(const char *dest, const char *tag, struct fn_error *reterr);
/* For log_writer_start(): true = sent, or on its way as the rest of a line that was begun. */
bool remote_log_send(uint32_t level, int64_t wall_ns, const char *line, size_t len);

#endif
