/* Reads and writes of one stream, plain and under TLS. */
#include <net/net_int.h>

#include <errno.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what is waited for ---------------------------------------------------------------------- */

static bool wants_read(const struct net_io *io)
{
    return io->reading && !io->ended && !io->broken;
}

static void io_watch(struct net_io *io)
{
    uint32_t events = 0;

    if (io->hung || io->shaking) {
        return;
    }
    if (wants_read(io) || io->write_wants_read) {
        events |= LOOP_READ;
    }
    if (!io->broken && (io->waits_write || io->stage || io->ending || io->read_wants_write)) {
        events |= LOOP_WRITE;
    }
    loop_fd_set(io->loop, &io->w, events);
}

/* ---- errors ---------------------------------------------------------------------------------- */

void io_tls_reason(struct net_io *io, char *ret, size_t cap)
{
    long verify = SSL_get_verify_result(io->ssl);
    unsigned long e = ERR_peek_error();
    const char *text = e ? ERR_reason_error_string(e) : NULL;
    const char *alert = text ? strstr(text, " alert ") : NULL;

    if (verify == X509_V_ERR_APPLICATION_VERIFICATION) {
        snprintf(ret, cap, "TLS805 the certificate names none of the peers that are allowed");
    } else if (verify != X509_V_OK) {
        snprintf(ret, cap, "the peer's certificate was refused: %s",
                 X509_verify_cert_error_string(verify));
    } else if (alert) {
        snprintf(ret, cap, "TLS: the peer says \"%s\"", alert + strlen(" alert "));
    } else if (io->eof) {
        snprintf(ret, cap, "the peer hung up");
    } else if (io->error_no) {
        snprintf(ret, cap, "%s", strerror(io->error_no));
    } else {
        snprintf(ret, cap, "TLS: %s", text ? text : "broken");
    }
    ERR_clear_error();
}

int io_break(struct net_io *io, const char *fmt, ...)
{
    va_list ap;

    if (!io->broken) {
        io->broken = true;
        free(io->error);
        va_start(ap, fmt);
        if (vasprintf(&io->error, fmt, ap) < 0) {
            io->error = NULL;
        }
        va_end(ap);
        io_watch(io);
    }
    return NET_ERROR;
}

const char *net_io_error(const struct net_io *io)
{
    return io->error ? io->error : io->broken ? "out of memory" : "";
}

static int break_tls(struct net_io *io)
{
    char reason[NET_TEXT_BYTES];

    io_tls_reason(io, reason, sizeof(reason));
    return io_break(io, "%s", reason);
}

/* ---- what nobody tells of -------------------------------------------------------------------- */

/* Whether there is something to read that no event of the socket will tell about. */
static bool has_more(const struct net_io *io)
{
    return wants_read(io) && !io->shaking &&
           (io->hung || (io->ssl && !io->drained && SSL_has_pending(io->ssl)));
}

static void look_for_more(struct net_io *io)
{
    if (has_more(io)) {
        env_defer(io->env, &io->later);
    }
}

void net_io_set(struct net_io *io, const struct net_io_cb *cb, void *ud)
{
    io->cb = cb;
    io->ud = ud;
    net_io_want_read(io, true);
}

void net_io_count(struct net_io *io, struct metric *received, struct metric *sent)
{
    io->received = received;
    io->sent = sent;
}

void net_io_want_read(struct net_io *io, bool on)
{
    io->reading = on;
    io_watch(io);
    look_for_more(io);
}

/* ---- reading --------------------------------------------------------------------------------- */

static ssize_t ended(struct net_io *io)
{
    io->ended = true;
    io_watch(io);
    return 0;
}

static ssize_t tls_read(struct net_io *io, void *buf, size_t cap)
{
    size_t n = 0;
    int e;

    ERR_clear_error();
    if (SSL_read_ex(io->ssl, buf, cap, &n) == 1) {
        io->drained = false;
        look_for_more(io);
        return (ssize_t)n;
    }
    e = SSL_get_error(io->ssl, 0);
    switch (e) {
    case SSL_ERROR_WANT_READ:
        io->drained = true;
        return NET_AGAIN;
    case SSL_ERROR_WANT_WRITE:
        io->drained = true;
        io->read_wants_write = true;
        io_watch(io);
        return NET_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return ended(io);
    default:
        return break_tls(io);
    }
}

static ssize_t plain_read(struct net_io *io, void *buf, size_t cap)
{
    ssize_t n = recv(io->w.fd, buf, cap, MSG_DONTWAIT);

    if (n > 0) {
        return n;
    }
    if (n == 0) {
        return ended(io);
    }
    return errno == EAGAIN || errno == EINTR ? NET_AGAIN : io_break(io, "%s", strerror(errno));
}

ssize_t net_io_read(struct net_io *io, void *buf, size_t cap)
{
    ssize_t n;

    if (io->broken) {
        return NET_ERROR;
    }
    if (io->ended) {
        return 0;
    }
    n = io->ssl ? tls_read(io, buf, cap) : plain_read(io, buf, cap);
    if (n > 0 && io->received) {
        metric_add(io->received, n);
    }
    return n;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A peer that refuses this side says why before it hangs up: who writes meets the end first, while
 * the reason waits to be read. */
static int write_broke(struct net_io *io)
{
    char byte;
    size_t n;

    ERR_clear_error();
    SSL_read_ex(io->ssl, &byte, 1, &n);
    return break_tls(io);
}

/* One record, or a part of it that OpenSSL took. > 0, NET_AGAIN, NET_ERROR. After NET_AGAIN OpenSSL
 * must see the same bytes again. */
static ssize_t write_record(struct net_io *io, const char *data, size_t len)
{
    size_t n = 0;
    int e;

    ERR_clear_error();
    if (SSL_write_ex(io->ssl, data, len, &n) == 1) {
        return (ssize_t)n;
    }
    e = SSL_get_error(io->ssl, 0);
    if (e == SSL_ERROR_SYSCALL) {
        return write_broke(io);
    }
    if (e != SSL_ERROR_WANT_WRITE && e != SSL_ERROR_WANT_READ) {
        return break_tls(io);
    }
    io->write_wants_read = e == SSL_ERROR_WANT_READ;
    return NET_AGAIN;
}

/* 0: nothing waits any more. */
static int flush_stage(struct net_io *io)
{
    size_t off = 0;
    ssize_t n = 0;

    while (io->stage && off < io->stage_len) {
        n = write_record(io, io->stage + off, io->stage_len - off);
        if (n < 0) {
            break;
        }
        off += (size_t)n;
    }
    if (n < 0) {
        memmove(io->stage, io->stage + off, io->stage_len - off);
        io->stage_len -= off;
        return (int)n;
    }
    free(io->stage);
    io->stage = NULL;
    io->stage_len = 0;
    return 0;
}

/* What the socket has no room for waits in the stage. *taken grows by what this or the stage took:
 * on NET_ERROR by what the peer may have read. */
static int put_record(struct net_io *io, const char *data, size_t len, size_t *taken)
{
    ssize_t n = 0;

    while (len > 0 && (n = write_record(io, data, len)) > 0) {
        data += n;
        len -= (size_t)n;
        *taken += (size_t)n;
    }
    if (len == 0 || n == NET_ERROR) {
        return n == NET_ERROR ? NET_ERROR : 0;
    }
    io->stage = malloc(len);
    if (!io->stage) {
        return io_break(io, "out of memory");
    }
    memcpy(io->stage, data, len);
    io->stage_len = len;
    *taken += len;
    return NET_AGAIN;
}

struct source {
    const struct iovec *iov;
    int n;
    size_t off; /* in the first one */
};

static size_t gather(struct source *s, char *to, size_t cap)
{
    size_t len = 0;

    while (s->n > 0 && len < cap) {
        size_t left = s->iov->iov_len - s->off;
        size_t part = left < cap - len ? left : cap - len;

        if (part > 0) {
            memcpy(to + len, (const char *)s->iov->iov_base + s->off, part);
        }
        len += part;
        s->off += part;
        if (s->off == s->iov->iov_len) {
            s->iov++;
            s->n--;
            s->off = 0;
        }
    }
    return len;
}

static ssize_t tls_writev(struct net_io *io, const struct iovec *iov, int n)
{
    struct source source = { iov, n, 0 };
    char record[NET_STAGE_MAX];
    size_t taken = 0;
    int r = flush_stage(io);
    size_t len;

    while (r == 0 && (len = gather(&source, record, sizeof(record))) > 0) {
        r = put_record(io, record, len, &taken);
    }
    return taken > 0 ? (ssize_t)taken : r;
}

/* What the peer sent before it hung up may still be read. */
static ssize_t io_write_failed(struct net_io *io, int err)
{
    if (!io->error) {
        io->error = strdup(strerror(err));
    }
    return NET_ERROR;
}

static ssize_t plain_writev(struct net_io *io, const struct iovec *iov, int n)
{
    struct msghdr msg = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n };
    ssize_t r;

    r = sendmsg(io->w.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (r >= 0) {
        return r;
    }
    return errno == EAGAIN || errno == EINTR ? NET_AGAIN : io_write_failed(io, errno);
}

ssize_t net_io_writev(struct net_io *io, const struct iovec *iov, int n)
{
    ssize_t r;

    if (io->broken) {
        return NET_ERROR;
    }
    if (n == 0 && !io->stage) {
        return 0;
    }
    r = io->ssl ? tls_writev(io, iov, n) : plain_writev(io, iov, n);
    io->waits_write = r == NET_AGAIN;
    if (r > 0 && io->sent) {
        metric_add(io->sent, r);
    }
    if (r == NET_AGAIN && io->hung) {
        return io_break(io, "the peer hung up"); /* nobody would tell that there is room again */
    }
    if (r == NET_AGAIN || io->stage || io->w.events & LOOP_WRITE) {
        io_watch(io);
    }
    return r;
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void try_end(struct net_io *io)
{
    if (io->stage || io->broken) {
        return;
    }
    if (io->ssl && !io->shaking) {
        ERR_clear_error();
        if (SSL_shutdown(io->ssl) < 0 && SSL_get_error(io->ssl, -1) == SSL_ERROR_WANT_WRITE) {
            return;
        }
        ERR_clear_error();
    }
    io->ending = false;
    shutdown(io->w.fd, SHUT_WR);
}

void net_io_end(struct net_io *io)
{
    io->ending = true;
    try_end(io);
    io_watch(io);
}

static void io_release(struct net_io *io)
{
    if (io->gone) {
        *io->gone = true;
    }
    if (io->shaking) {
        io->shake_cancel(io);
    }
    env_undefer(io->env, &io->later);
    if (!io->hung) {
        loop_fd_remove(io->loop, &io->w);
    }
    close(io->w.fd);
    visitor_leave(io->visitor);
    SSL_free(io->ssl);
    net_identity_unref(io->identity);
    free(io->stage);
    free(io->error);
    free(io);
}

void net_io_close(struct net_io *io)
{
    if (!io) {
        return;
    }
    if (io->ssl && !io->shaking && !io->stage && !io->broken) {
        ERR_clear_error();
        SSL_shutdown(io->ssl);
        ERR_clear_error();
    }
    io_release(io);
}

void net_io_reset(struct net_io *io)
{
    struct linger hard = { .l_onoff = 1, .l_linger = 0 };

    setsockopt(io->w.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    io_release(io);
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool is_hung(const struct net_io *io)
{
    struct pollfd p = { .fd = io->w.fd };

    return poll(&p, 1, 0) == 1 && p.revents & (POLLHUP | POLLERR);
}

/* The socket takes bytes again. false: the owner closed the stream. */
static bool io_on_writable(struct net_io *io)
{
    bool gone = false;
    int r = io->ssl ? flush_stage(io) : 0;

    if (r == NET_AGAIN) {
        return true;
    }
    if (io->ending) {
        try_end(io);
    }
    io->gone = &gone;
    if (io->waits_write) {
        io->waits_write = false;
        io->cb->writable(io->ud);
    } else if (io->broken || io->read_wants_write) {
        io->read_wants_write = false;
        io->cb->readable(io->ud);
    }
    if (!gone) {
        io->gone = NULL;
        io_watch(io);
    }
    return !gone;
}

static void tell_readable(struct net_io *io)
{
    bool gone = false;

    io->gone = &gone;
    io->cb->readable(io->ud);
    if (!gone) {
        io->gone = NULL;
        look_for_more(io);
    }
}

/* Reading is off and the socket has something to say all the same. An event that was fetched before
 * reading was turned off means nothing. */
static void on_hang_up(struct net_io *io)
{
    if (!is_hung(io)) {
        return;
    }
    io->hung = true;
    loop_fd_remove(io->loop, &io->w);
    tell_readable(io);
}

void io_event(struct loop_fd *w, uint32_t events)
{
    struct net_io *io = container_of(w, struct net_io, w);
    bool write = events & LOOP_WRITE && w->events & LOOP_WRITE;
    bool read = events & LOOP_READ && w->events & LOOP_READ;
    bool odd = events & LOOP_READ && !(w->events & LOOP_READ);

    if (read && io->write_wants_read) {
        io->write_wants_read = false;
        write = true;
    }
    io->drained = io->drained && !read;
    if (write && !io_on_writable(io)) {
        return;
    }
    if (read && wants_read(io)) {
        tell_readable(io);
    } else if (odd && !io->hung) {
        on_hang_up(io);
    }
}

static void on_later(struct env_task *t)
{
    struct net_io *io = container_of(t, struct net_io, later);

    if (has_more(io)) {
        tell_readable(io);
    }
}

/* ---- start ----------------------------------------------------------------------------------- */

int net_io_create(struct loop *loop, int fd, const char *peer, struct net_io **ret,
                  struct fn_error *reterr)
{
    struct net_io *io = calloc(1, sizeof(*io));
    int r;

    if (!io) {
        close(fd);
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    io->loop = loop;
    io->env = loop_env(loop);
    io->w = (struct loop_fd){ .fd = fd, .cb = io_event };
    io->later.cb = on_later;
    snprintf(io->peer, sizeof(io->peer), "%s", peer);
    r = loop_fd_add(loop, &io->w, 0, reterr);
    if (r < 0) {
        close(fd);
        free(io);
        return r;
    }
    *ret = io;
    return 0;
}

const char *net_io_peer(const struct net_io *io)
{
    return io->peer;
}

int net_io_fd(const struct net_io *io)
{
    return io->w.fd;
}
