/* The wrapped calls one by one: which kernel a descriptor belongs to is said by its number. */
#include "syscalls.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define DESCRIPTORS_MAX (1u << 30) /* more than the kernel numbers */

static struct kernel *kernel;
static struct host *acting; /* NULL: nobody's process runs */

void syscalls_open(struct kernel *k)
{
    kernel = k;
    acting = NULL;
}

struct host *syscalls_as(struct host *h)
{
    struct host *last = acting;

    acting = h;
    return last;
}

static struct sock *of(int fd)
{
    return kernel_sock(kernel, fd);
}

#define WRAP(type, name, ...)                                                                      \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

/* ---- addresses ------------------------------------------------------------------------------- */

static uint32_t ip_of(const struct sockaddr *a)
{
    return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr);
}

static uint16_t port_of(const struct sockaddr *a)
{
    return ntohs(((const struct sockaddr_in *)(const void *)a)->sin_port);
}

static void put_address(struct sockaddr *a, socklen_t *len, uint32_t ip, uint16_t port)
{
    struct sockaddr_in in = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(ip) };

    memcpy(a, &in, *len < sizeof(in) ? *len : sizeof(in));
    *len = sizeof(in);
}

/* ---- making connections ---------------------------------------------------------------------- */

WRAP(int, socket, int domain, int type, int protocol)
{
    return acting && domain == AF_INET ? sock_open(acting)
                                       : __real_socket(domain, type, protocol);
}

WRAP(int, bind, int fd, const struct sockaddr *a, socklen_t len)
{
    struct sock *s = of(fd);

    return s ? sock_bind(s, ip_of(a), port_of(a)) : __real_bind(fd, a, len);
}

WRAP(int, listen, int fd, int backlog)
{
    struct sock *s = of(fd);

    return s ? sock_listen(s) : __real_listen(fd, backlog);
}

WRAP(int, accept4, int fd, struct sockaddr *a, socklen_t *len, int flags)
{
    struct sock *s = of(fd);
    uint32_t ip = 0;
    uint16_t port = 0;
    int r;

    if (!s) {
        return __real_accept4(fd, a, len, flags);
    }
    r = sock_accept(s, &ip, &port);
    if (r >= 0) {
        put_address(a, len, ip, port);
    }
    return r;
}

WRAP(int, connect, int fd, const struct sockaddr *a, socklen_t len)
{
    struct sock *s = of(fd);

    return s ? sock_connect(s, ip_of(a), port_of(a)) : __real_connect(fd, a, len);
}

WRAP(int, getsockname, int fd, struct sockaddr *a, socklen_t *len)
{
    struct sock *s = of(fd);

    if (!s) {
        return __real_getsockname(fd, a, len);
    }
    put_address(a, len, sock_host(s)->ip, sock_port(s));
    return 0;
}

/* ---- reading and writing --------------------------------------------------------------------- */

WRAP(ssize_t, recv, int fd, void *buf, size_t cap, int flags)
{
    struct sock *s = of(fd);

    return s ? sock_recv(s, buf, cap) : __real_recv(fd, buf, cap, flags);
}

WRAP(ssize_t, send, int fd, const void *data, size_t len, int flags)
{
    struct sock *s = of(fd);

    return s ? sock_send(s, data, len) : __real_send(fd, data, len, flags);
}

/* Piece by piece, until one is not taken whole. */
WRAP(ssize_t, sendmsg, int fd, const struct msghdr *msg, int flags)
{
    struct sock *s = of(fd);
    ssize_t sent = 0;

    if (!s) {
        return __real_sendmsg(fd, msg, flags);
    }
    for (size_t i = 0; i < msg->msg_iovlen; i++) {
        const struct iovec *iov = &msg->msg_iov[i];
        ssize_t n = iov->iov_len > 0 ? sock_send(s, iov->iov_base, iov->iov_len) : 0;

        if (n < 0) {
            return sent > 0 ? sent : -1;
        }
        sent += n;
        if ((size_t)n < iov->iov_len) {
            break;
        }
    }
    return sent;
}

WRAP(int, poll, struct pollfd *p, nfds_t n, int timeout_ms)
{
    struct sock *s = n == 1 ? of(p->fd) : NULL;
    int64_t later_ns;

    if (!s) {
        return __real_poll(p, n, timeout_ms);
    }
    p->revents = (short)(sock_poll(s, &later_ns) & (p->events | POLLERR | POLLHUP));
    return p->revents != 0;
}

/* ---- ends and options ------------------------------------------------------------------------ */

WRAP(int, shutdown, int fd, int how)
{
    struct sock *s = of(fd);

    return s ? sock_shut(s) : __real_shutdown(fd, how);
}

WRAP(int, close, int fd)
{
    struct sock *s = of(fd);

    if (!s) {
        return __real_close(fd);
    }
    sock_close(s);
    return 0;
}

WRAP(int, getsockopt, int fd, int level, int name, void *value, socklen_t *len)
{
    struct sock *s = of(fd);

    if (!s || level != SOL_SOCKET || name != SO_ERROR) {
        return __real_getsockopt(fd, level, name, value, len);
    }
    *(int *)value = sock_error(s);
    return 0;
}

WRAP(int, setsockopt, int fd, int level, int name, const void *value, socklen_t len)
{
    struct sock *s = of(fd);

    if (!s) {
        return __real_setsockopt(fd, level, name, value, len);
    }
    if (level == SOL_SOCKET && name == SO_LINGER) {
        sock_reset_at_close(s);
    }
    return 0;
}

WRAP(int, getrlimit, int what, struct rlimit *ret)
{
    int r = __real_getrlimit(what, ret);

    if (r == 0 && what == RLIMIT_NOFILE && kernel) {
        ret->rlim_cur = DESCRIPTORS_MAX;
    }
    return r;
}
