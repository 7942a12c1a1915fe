/*
 * fdk.h - write an Fn function in C.
 *
 * A function is a process that serves POST /call over a unix socket. The platform says in
 * FN_LISTENER where the socket must appear and sends at most one call at a time. A whole function:
 *
 *     static int greet(struct fdk_call *call, void *ud)
 *     {
 *         (void)ud;
 *         return fdk_answer_printf(call, "Hello %s\n", fdk_body(call, NULL));
 *     }
 *
 *     int main(void)
 *     {
 *         return fdk_handle(greet, NULL) < 0;
 *     }
 *
 * Link statically with fdk.c and libhttp_parser.a; the one file is the whole image, FROM scratch.
 *
 * Errors are negated errno values; 0 is success. There are no threads: the handler runs alone and
 * may block. Every pointer that a function below returns is borrowed and ends with the handler.
 */
#ifndef FDK_H
#define FDK_H

#include <stddef.h>
#include <stdint.h>

#define FDK_VERSION "fdk-c/1.0"

/* Limits of one request. More is answered with 413 or 431. A head may have 80 KiB. */
#define FDK_BODY_MAX_BYTES (100u * 1000 * 1000)
#define FDK_HEADERS_MAX 256

/* One call, from the last byte of its request until the handler returns. */
struct fdk_call;

/*
 * Handles one call. Return 0 to send the answer built so far. Anything else is a function error:
 * the platform gets 502 with the body built so far as its text.
 */
typedef int fdk_handler(struct fdk_call *call, void *ud);

/*
 * Serves calls for ever. Returns only when the socket cannot be set up or served, after one line on
 * stderr; then <0: -EINVAL for a malformed FN_LISTENER or a foreign FN_FORMAT, else the system's.
 */
int fdk_handle(fdk_handler *handler, void *ud);

/*
 * The two halves of fdk_handle(), for functions that need something in between. fdk_listen() takes
 * the value of FN_LISTENER, unix:/dir/name, and returns a listening socket, published there.
 */
int fdk_listen(const char *listener);
int fdk_serve(int listen_fd, fdk_handler *handler, void *ud);

/* The first header of that name, in any case; NULL if absent. Fn-Http-H-<name> is the client's. */
const char *fdk_header(const struct fdk_call *call, const char *name);

/* Header number `index`, from 0, in the order received. Returns 1, or 0 past the last one. */
int fdk_header_at(const struct fdk_call *call, size_t index, const char **name, const char **value);

/* Fn-Deadline in milliseconds since 1970 UTC; INT64_MAX if absent or malformed. */
int64_t fdk_deadline_ms(const struct fdk_call *call);

/* The body, followed by a NUL that `*len` does not count. `len` may be NULL. Never NULL. */
const char *fdk_body(const struct fdk_call *call, size_t *len);

/*
 * Status for the HTTP client behind a trigger, 200..599, at most once. The status on the
 * function's own socket is not for the function to choose: 200, or 502 after an error.
 */
int fdk_answer_status(struct fdk_call *call, int status);

/*
 * Adds a header; behind a trigger it reaches the HTTP client under this name. -EINVAL for what
 * cannot stand in a header and for Content-Length, Transfer-Encoding and Connection, which are the
 * FDK's own.
 */
int fdk_answer_header(struct fdk_call *call, const char *name, const char *value);

/* Appends to the body, which goes out when the handler returns. */
int fdk_answer_write(struct fdk_call *call, const void *data, size_t len);
int fdk_answer_printf(struct fdk_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * The connection itself, for a function that answers by hand: one with a body too large to keep in
 * memory, or one that tests a platform. The FDK sends nothing more on it and closes it when the
 * handler returns.
 */
int fdk_connection(struct fdk_call *call);

#endif
