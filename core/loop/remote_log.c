/* Parses the address, dials without blocking, and sends lines as datagrams or over a stream,
 * keeping the rest of a line that was sent in part. */
#include <loop/loop_int.h>
#include <loop/remote_log.h>

#include <base/addr.h>
#include <base/log.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define FIRST_DIAL_MS  1000
#define REDIAL_NS      ENV_S
#define HEAD_BYTES     256
#define TAG_BYTES      64
#define DESCRIPTOR_MIN 64

/* fd < 0 = down, until a line comes after redial_ns. `rest` is the
 * end of a line that a stream took in part: it goes first, so that lines stay whole. */
static struct {
    struct sockaddr_storage addr;
    socklen_t addr_len;
    int type; /* SOCK_DGRAM, SOCK_STREAM; 0 = not opened */
    int fd;
    int64_t redial_ns;
    char host[128]; /* "" for a local socket, whose server knows */
    char tag[TAG_BYTES];
    char rest[HEAD_BYTES + LOG_LINE_MAX];
    size_t rest_len;
} remote = { .fd = -1 };

/* ---- addresses ------------------------------------------------------------------------------- */

struct dest {
    int type;         /* of the socket */
    const char *path; /* of a unix socket, or NULL */
    struct addr addr; /* of a host */
};

static int parse_host(const char *text, struct dest *d)
{
    return addr_parse(text, &d->addr) == 0 && *d->addr.host ? 0 : FN_E_INVALID;
}

static int parse(const char *dest, struct dest *d)
{
    *d = (struct dest){ .type = SOCK_DGRAM };
    if (strncmp(dest, "unix:///", 8) == 0) {
        d->path = dest + 7;
        return d->path[1] && strlen(d->path) < sizeof(((struct sockaddr_un *)0)->sun_path)
                   ? 0
                   : FN_E_INVALID;
    }
    if (strncmp(dest, "tcp://", 6) == 0) {
        d->type = SOCK_STREAM;
        return parse_host(dest + 6, d);
    }
    return parse_host(strncmp(dest, "udp://", 6) == 0 ? dest + 6 : dest, d);
}

int remote_log_check(const char *dest)
{
    struct dest d;

    return parse(dest, &d);
}

static int remote_resolve(const struct dest *d, const char *dest, struct fn_error *reterr)
{
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = d->type };
    struct sockaddr_un *un = (struct sockaddr_un *)&remote.addr;
    struct addrinfo *list = NULL;
    int r;

    if (d->path) {
        un->sun_family = AF_UNIX;
        memcpy(un->sun_path, d->path, strlen(d->path) + 1);
        remote.addr_len = sizeof(*un);
        return 0;
    }
    r = getaddrinfo(d->addr.host, d->addr.port, &hints, &list);
    if (r != 0) {
        return err_set(reterr, FN_E_UNAVAILABLE, "log.dest %.100s: %s", dest, gai_strerror(r));
    }
    memcpy(&remote.addr, list->ai_addr, list->ai_addrlen);
    remote.addr_len = list->ai_addrlen;
    freeaddrinfo(list);
    return 0;
}

/* ---- connection ------------------------------------------------------------------------------ */

static void remote_hang_up(void)
{
    if (remote.fd >= 0) {
        close(remote.fd);
    }
    remote.fd = -1;
    remote.rest_len = 0; /* its beginning went to a connection that is gone */
    remote.redial_ns = loop_clock_ns() + REDIAL_NS;
}

/* A plugin that closes what it did not open begins with low numbers. */
static int high(int fd)
{
    int moved = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, DESCRIPTOR_MIN) : -1;

    if (moved < 0) {
        return fd;
    }
    close(fd);
    return moved;
}

static void dial(int type)
{
    const struct sockaddr *addr = (const struct sockaddr *)&remote.addr;

    remote.fd = high(socket(addr->sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (remote.fd < 0 || (connect(remote.fd, addr, remote.addr_len) < 0 && errno != EINPROGRESS)) {
        remote_hang_up();
    }
}

/* A local socket may be of either type. */
static void redial(void)
{
    dial(remote.type);
    if (remote.fd < 0 && remote.addr.ss_family == AF_UNIX && errno == EPROTOTYPE) {
        remote.type = remote.type == SOCK_DGRAM ? SOCK_STREAM : SOCK_DGRAM;
        dial(remote.type);
    }
}

int remote_log_open(const char *dest, const char *tag, struct fn_error *reterr)
{
    struct pollfd p = { .events = POLLOUT };
    struct dest d;
    int r = parse(dest, &d);

    r = r < 0 ? err_set(reterr, r, "log.dest %.100s: no address", dest)
              : remote_resolve(&d, dest, reterr);
    if (r < 0) {
        return r;
    }
    remote_hang_up();
    remote.type = d.type;
    remote.redial_ns = 0;
    remote.host[0] = '\0';
    if (!d.path) {
        gethostname(remote.host, sizeof(remote.host) - 1);
    }
    snprintf(remote.tag, sizeof(remote.tag), "%s", tag);
    redial();
    p.fd = remote.fd;
    if (p.fd >= 0 && remote.type == SOCK_STREAM) {
        poll(&p, 1, FIRST_DIAL_MS);
    }
    return 0;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int severity(uint32_t level)
{
    return level == FN_LOG_ERROR ? 3 : level == FN_LOG_WARN ? 4 : level == FN_LOG_INFO ? 6 : 7;
}

static size_t make_head(char *ret, uint32_t level, int64_t wall_ns)
{
    time_t seconds = (time_t)(wall_ns / ENV_S);
    bool local = remote.host[0] == '\0';
    char when[40];
    struct tm tm;
    int n;

    if (local) {
        localtime_r(&seconds, &tm);
        strftime(when, sizeof(when), "%b %e %H:%M:%S", &tm);
    } else {
        gmtime_r(&seconds, &tm);
        strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
    }
    n = snprintf(ret, HEAD_BYTES, "<%d>%s%s%s %s[%d]: ", severity(level), when, local ? "" : " ",
                 remote.host, remote.tag, (int)getpid());
    return n < HEAD_BYTES ? (size_t)n : HEAD_BYTES - 1;
}

/* A server that closed is seen before a line is lost in its socket. */
static bool peer_is_gone(void)
{
    char c;

    return remote.type == SOCK_STREAM && recv(remote.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static bool flush_rest(void)
{
    ssize_t n;

    if (remote.rest_len == 0) {
        return true;
    }
    n = send(remote.fd, remote.rest, remote.rest_len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) {
        remote.rest_len -= (size_t)n;
        memmove(remote.rest, remote.rest + n, remote.rest_len);
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
        remote_hang_up();
        return false;
    }
    return remote.rest_len == 0;
}

static void keep_rest(const struct iovec *iov, size_t sent)
{
    for (int i = 0; i < 2; i++) {
        size_t skip = sent < iov[i].iov_len ? sent : iov[i].iov_len;

        memcpy(remote.rest + remote.rest_len, (const char *)iov[i].iov_base + skip,
               iov[i].iov_len - skip);
        remote.rest_len += iov[i].iov_len - skip;
        sent -= skip;
    }
}

static bool send_line(uint32_t level, int64_t wall_ns, const char *line, size_t len)
{
    char head[HEAD_BYTES];
    struct iovec iov[2] = { { head, make_head(head, level, wall_ns) },
                            { (void *)(uintptr_t)line, len } };
    struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
    ssize_t n;

    if (remote.fd >= 0 && peer_is_gone()) {
        remote_hang_up();
        remote.redial_ns = 0;
    }
    if (remote.fd < 0 && loop_clock_ns() >= remote.redial_ns) {
        redial();
    }
    if (remote.fd < 0 || !flush_rest()) {
        return false;
    }
    n = sendmsg(remote.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == ECONNREFUSED && remote.type == SOCK_DGRAM) {
        n = sendmsg(remote.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL); /* the answer to an earlier one */
    }
    if (n < 0 && errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
        remote_hang_up();
    }
    if (n >= 0 && (size_t)n < iov[0].iov_len + len) {
        keep_rest(iov, (size_t)n);
    }
    return n >= 0;
}

bool remote_log_send(uint32_t level, int64_t wall_ns, const char *line, size_t len)
{
    len = len < LOG_LINE_MAX ? len : LOG_LINE_MAX;
    return remote.type != 0 && send_line(level, wall_ns, line, len);
}
