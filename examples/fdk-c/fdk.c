/*
 * fdk.c - the socket contract of an Fn function, and a small HTTP/1.1 server for it.
 *
 * One struct fdk_call per connection, reused for each call on it, with its memory. The parser fills
 * the request, the handler builds the answer, all in one thread. More than one connection can be
 * open, because a platform may open the next before an aborted one is quite gone.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fdk.h"

#include <errno.h>
#include <http_parser.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 8
#define BACKLOG 16
#define READ_BYTES (64 * 1024)
#define SEND_TIMEOUT_S 330 /* no call lives longer than 300 s */
#define BIND_SUFFIX ".fdk"
#define TOKEN_CHARS "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

struct buf {
    char *data; /* NUL after len; NULL until first used */
    size_t len, cap;
};

enum part { PART_NONE, PART_TARGET, PART_NAME, PART_VALUE };

struct fdk_call {
    int fd; /* -1: this place is free */
    http_parser parser;
    fdk_handler *handler;
    void *ud;

    struct buf head; /* target, names and values, each with its NUL */
    enum part part;  /* of the head that the parser delivers */
    struct {
        size_t name, value; /* offsets into head */
    } headers[FDK_HEADERS_MAX];
    size_t headers_count;
    struct buf body;
    int refusal; /* status for a request that is not taken; 0: malformed */

    struct buf out_headers, out_body;
    int by_hand; /* the handler took the connection */
};

static int buf_add(struct buf *buf, const void *data, size_t len)
{
    if (buf->len + len + 1 > buf->cap) {
        size_t cap = (buf->len + len + 1) * 2;
        char *grown = realloc(buf->data, cap);

        if (!grown)
            return -ENOMEM;
        buf->data = grown;
        buf->cap = cap;
    }
    if (len)
        memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
    return 0;
}

static int send_all(int fd, struct iovec *iov, size_t count)
{
    while (count) {
        struct msghdr msg = { .msg_iov = iov, .msg_iovlen = count };
        ssize_t sent = sendmsg(fd, &msg, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return -errno;
        for (; count && (size_t)sent >= iov->iov_len; iov++, count--) {
            sent -= (ssize_t)iov->iov_len;
        }
        if (count) {
            iov->iov_base = (char *)iov->iov_base + sent;
            iov->iov_len -= (size_t)sent;
        }
    }
    return 0;
}

/* The request, as the handler sees it. */

const char *fdk_header(const struct fdk_call *call, const char *name)
{
    const char *other, *value;

    for (size_t i = 0; fdk_header_at(call, i, &other, &value); i++) {
        if (strcasecmp(other, name) == 0)
            return value;
    }
    return NULL;
}

int fdk_header_at(const struct fdk_call *call, size_t index, const char **name, const char **value)
{
    if (index >= call->headers_count)
        return 0;
    *name = call->head.data + call->headers[index].name;
    *value = call->head.data + call->headers[index].value;
    return 1;
}

int64_t fdk_deadline_ms(const struct fdk_call *call)
{
    const char *text = fdk_header(call, "Fn-Deadline");
    struct tm tm = { 0 };
    long zone_s;

    if (!text || !strptime(text, "%Y-%m-%dT%H:%M:%S%z", &tm))
        return INT64_MAX;
    zone_s = tm.tm_gmtoff; /* timegm() clears it */
    return ((int64_t)timegm(&tm) - zone_s) * 1000;
}

const char *fdk_body(const struct fdk_call *call, size_t *len)
{
    if (len)
        *len = call->body.len;
    return call->body.len ? call->body.data : "";
}

/* The answer. */

int fdk_answer_status(struct fdk_call *call, int status)
{
    char line[40];

    if (status < 200 || status > 599)
        return -EINVAL;
    (void)snprintf(line, sizeof(line), "Fn-Http-Status: %d\r\n", status);
    return buf_add(&call->out_headers, line, strlen(line));
}

int fdk_answer_header(struct fdk_call *call, const char *name, const char *value)
{
    const char *intent = fdk_header(call, "Fn-Intent");
    int prefixed = intent && !strcmp(intent, "httprequest") && strcasecmp(name, "Content-Type");
    const char *const parts[] = { prefixed ? "Fn-Http-H-" : "", name, ": ", value, "\r\n" };
    int rc = 0;

    if (!*name || name[strspn(name, TOKEN_CHARS)] || strpbrk(value, "\r\n") ||
        !strcasecmp(name, "Content-Length") || !strcasecmp(name, "Transfer-Encoding") ||
        !strcasecmp(name, "Connection"))
        return -EINVAL;
    for (size_t i = 0; rc == 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
        rc = buf_add(&call->out_headers, parts[i], strlen(parts[i]));
    }
    return rc;
}

int fdk_answer_write(struct fdk_call *call, const void *data, size_t len)
{
    return buf_add(&call->out_body, data, len);
}

int fdk_answer_printf(struct fdk_call *call, const char *format, ...)
{
    char *text;
    va_list args;
    int len, rc;

    va_start(args, format);
    len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        return -ENOMEM;
    rc = buf_add(&call->out_body, text, (size_t)len);
    free(text);
    return rc;
}

int fdk_connection(struct fdk_call *call)
{
    call->by_hand = 1;
    return call->fd;
}

static int answer_send(struct fdk_call *call, int status, int keep_alive)
{
    char start[256];
    struct iovec iov[] = {
        {start, 0},
        {call->out_headers.data, call->out_headers.len},
        {"\r\n", 2},
        {call->out_body.data, call->out_body.len},
    };

    iov[0].iov_len = (size_t)snprintf(
        start, sizeof(start),
        "HTTP/1.1 %d %s\r\nContent-Length: %zu\r\nFn-Fdk-Version: " FDK_VERSION "\r\n%s", status,
        http_status_str((enum http_status)status), call->out_body.len,
        keep_alive ? "" : "Connection: close\r\n");
    return send_all(call->fd, iov, sizeof(iov) / sizeof(iov[0]));
}

/* The parser's callbacks. Any value but 0 ends the connection. */

static int on_begin(http_parser *parser)
{
    struct fdk_call *call = parser->data;

    call->head.len = call->body.len = call->out_headers.len = call->out_body.len = 0;
    call->part = PART_NONE;
    call->headers_count = 0;
    call->refusal = 0;
    return 0;
}

static int head_add(struct fdk_call *call, enum part part, const char *data, size_t len)
{
    if (part != call->part && call->part != PART_NONE && buf_add(&call->head, "", 1) < 0)
        return -1;
    if (part != call->part && part == PART_NAME) {
        if (call->headers_count == FDK_HEADERS_MAX) {
            call->refusal = 431;
            return -1;
        }
        call->headers[call->headers_count++].name = call->head.len;
    } else if (part != call->part && part == PART_VALUE) {
        call->headers[call->headers_count - 1].value = call->head.len;
    }
    call->part = part;
    return buf_add(&call->head, data, len);
}

#define HEAD_CALLBACK(name, part)                                         \
    static int name(http_parser *parser, const char *data, size_t len)    \
    {                                                                     \
        return head_add(parser->data, part, data, len);                   \
    }
HEAD_CALLBACK(on_target, PART_TARGET)
HEAD_CALLBACK(on_name, PART_NAME)
HEAD_CALLBACK(on_value, PART_VALUE)

static int on_body(http_parser *parser, const char *data, size_t len)
{
    struct fdk_call *call = parser->data;

    if (call->body.len + len > FDK_BODY_MAX_BYTES) {
        call->refusal = 413;
        return -1;
    }
    return buf_add(&call->body, data, len);
}

static int on_end(http_parser *parser)
{
    struct fdk_call *call = parser->data;
    int keep_alive = http_should_keep_alive(parser), failed;

    if (parser->method != HTTP_POST || strcmp(call->head.data, "/call") != 0) {
        call->refusal = parser->method != HTTP_POST ? 405 : 404;
        return -1;
    }
    failed = call->handler(call, call->ud) != 0;
    if (call->by_hand)
        return -1;
    if (failed)
        call->out_headers.len = 0;
    return answer_send(call, failed ? 502 : 200, keep_alive) < 0 || !keep_alive;
}

static const http_parser_settings callbacks = {
    .on_message_begin = on_begin,
    .on_url = on_target,
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_body = on_body,
    .on_message_complete = on_end,
};

/* Connections. */

static int connection_open(struct fdk_call *call, int listen_fd)
{
    static const struct timeval send_timeout = { .tv_sec = SEND_TIMEOUT_S };

    call->fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (call->fd < 0)
        return errno == EINTR || errno == ECONNABORTED ? 0 : -1;
    (void)setsockopt(call->fd, SOL_SOCKET, SO_SNDTIMEO, &send_timeout, sizeof(send_timeout));
    http_parser_init(&call->parser, HTTP_REQUEST);
    call->parser.data = call;
    call->by_hand = 0;
    return 0;
}

/* Takes what has arrived; every call that it completes is handled on the way. */
static void connection_receive(struct fdk_call *call)
{
    static char data[READ_BYTES];
    ssize_t len = recv(call->fd, data, sizeof(data), 0);
    enum http_errno error;

    if (len < 0 && errno == EINTR)
        return;
    if (len > 0)
        (void)http_parser_execute(&call->parser, &callbacks, data, (size_t)len);
    error = HTTP_PARSER_ERRNO(&call->parser);
    if (len > 0 && error == HPE_OK)
        return;
    if (call->refusal || (error != HPE_OK && error != HPE_CB_message_complete)) {
        int status = error == HPE_HEADER_OVERFLOW ? 431 : call->refusal ? call->refusal : 400;

        (void)on_begin(&call->parser);
        (void)answer_send(call, status, 0);
    }
    (void)close(call->fd);
    call->fd = -1;
}

int fdk_serve(int listen_fd, fdk_handler *handler, void *ud)
{
    static struct fdk_call calls[CONNECTIONS_MAX];
    struct pollfd polls[CONNECTIONS_MAX + 1] = {{.fd = listen_fd, .events = POLLIN}};

    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        calls[i] = (struct fdk_call){ .fd = -1, .handler = handler, .ud = ud };
    }
    for (;;) {
        struct fdk_call *vacant = NULL;

        for (int i = 0; i < CONNECTIONS_MAX; i++) {
            polls[i + 1] = (struct pollfd){ .fd = calls[i].fd, .events = POLLIN };
            if (calls[i].fd < 0)
                vacant = &calls[i];
        }
        polls[0].fd = vacant ? listen_fd : -1;
        if (poll(polls, CONNECTIONS_MAX + 1, -1) < 0) {
            if (errno != EINTR)
                return -errno;
            continue;
        }
        for (int i = 0; i < CONNECTIONS_MAX; i++) {
            if (polls[i + 1].revents)
                connection_receive(&calls[i]);
        }
        if (polls[0].revents && connection_open(vacant, listen_fd) < 0)
            return -errno;
    }
}

/*
 * Who waits for the socket may connect as soon as the name appears, so it appears last: the socket
 * listens under another name, and the published one is a link to that, relative because the
 * directory has another path outside.
 */
int fdk_listen(const char *listener)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    const char *path = listener && strncmp(listener, "unix:/", 6) == 0 ? listener + 5 : "";
    int len = snprintf(addr.sun_path, sizeof(addr.sun_path), "%s" BIND_SUFFIX, path);
    int fd, rc;

    if (!*path || len >= (int)sizeof(addr.sun_path)) {
        (void)fprintf(stderr, "fdk: FN_LISTENER, got \"%s\"; expected unix: and a path below %zu "
                              "bytes\n", listener ? listener : "", sizeof(addr.sun_path) - 4);
        return -EINVAL;
    }
    (void)unlink(path);
    (void)unlink(addr.sun_path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 &&
        listen(fd, BACKLOG) == 0 && chmod(addr.sun_path, 0666) == 0 &&
        symlink(strrchr(addr.sun_path, '/') + 1, path) == 0)
        return fd;
    rc = -errno;
    (void)fprintf(stderr, "fdk: %s: %s\n", path, strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

int fdk_handle(fdk_handler *handler, void *ud)
{
    const char *format = getenv("FN_FORMAT");
    int rc;

    if (format && strcmp(format, "http-stream") != 0) {
        (void)fprintf(stderr, "fdk: FN_FORMAT, got \"%s\"; expected http-stream\n", format);
        return -EINVAL;
    }
    rc = fdk_listen(getenv("FN_LISTENER"));
    return rc < 0 ? rc : fdk_serve(rc, handler, ud);
}
