/* The sockets of a service manager, and those that it keeps. */
#include <net/inherit.h>

#include <base/log.h>
#include <fcntl.h>
#include <net/bind.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_FD   3 /* sd_listen_fds(3) */
#define NAME_BYTES 80
#define NAME_OURS  "fnd " /* begins the names that nodes give; units of sockets have others */

struct held {
    int fd;
    char name[NAME_BYTES];
};

/* As long as the process, as what the manager has. */
static struct {
    struct held waiting[NET_INHERIT_MAX]; /* for somebody who opens their port */
    uint32_t n_waiting;
    struct held kept[NET_INHERIT_MAX]; /* copies of what the manager keeps */
    uint32_t n_kept;
    const struct net_keeper *keeper; /* NULL: nobody keeps */
    bool keeps_no_more;
} inherited;

static long number_of(const char *variable)
{
    const char *text = getenv(variable);

    return text ? strtol(text, NULL, 10) : 0;
}

/* The next of the names between colons; "" when there are no more. */
static void next_name(const char **names, char ret[NAME_BYTES])
{
    size_t len = strcspn(*names, ":");

    snprintf(ret, NAME_BYTES, "%.*s", (int)(len < NAME_BYTES ? len : 0), *names);
    *names += len + ((*names)[len] == ':');
}

void net_inherit_begin(int above_pid, int fd_min)
{
    const char *names = getenv("LISTEN_FDNAMES");
    long pid = number_of("LISTEN_PID");
    long n = number_of("LISTEN_FDS");

    names = names ? names : "";
    if (pid <= 0 || (pid != (long)getpid() && pid != (long)above_pid)) {
        n = 0;
    }
    for (int fd = FIRST_FD; fd < FIRST_FD + n && inherited.n_waiting < NET_INHERIT_MAX; fd++) {
        struct held *h = &inherited.waiting[inherited.n_waiting];

        next_name(&names, h->name);
        h->fd = fcntl(fd, F_DUPFD_CLOEXEC, fd_min);
        if (h->fd >= 0) {
            close(fd);
            inherited.n_waiting++;
        }
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
}

void net_inherit_keep(const struct net_keeper *keeper)
{
    inherited.keeper = keeper;
}

static bool is_same(const struct sockaddr *a, const struct sockaddr *b)
{
    const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
    const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

    if (a->sa_family != b->sa_family) {
        return false;
    }
    if (a->sa_family == AF_INET) {
        return a4->sin_port == b4->sin_port && a4->sin_addr.s_addr == b4->sin_addr.s_addr;
    }
    return a->sa_family == AF_INET6 && a6->sin6_port == b6->sin6_port &&
           memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
}

/* One that was shut down has its address still, and is no port any more. */
static bool listens_at(int fd, const struct sockaddr *addr)
{
    struct sockaddr_storage at = { .ss_family = AF_UNSPEC };
    socklen_t len = sizeof(at);
    int listening = 0;
    socklen_t size = sizeof(listening);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening &&
           getsockname(fd, (struct sockaddr *)&at, &len) == 0 &&
           is_same((struct sockaddr *)&at, addr);
}

static bool is_ours(const struct held *h)
{
    return strncmp(h->name, NAME_OURS, strlen(NAME_OURS)) == 0;
}

static void note_kept(const struct held *h)
{
    if (inherited.n_kept < NET_INHERIT_MAX) {
        struct held *k = &inherited.kept[inherited.n_kept];

        *k = *h;
        k->fd = fcntl(h->fd, F_DUPFD_CLOEXEC, h->fd);
        inherited.n_kept += k->fd >= 0;
    }
}

static void inherit_drop(const struct held *h)
{
    if (inherited.keeper) {
        inherited.keeper->drop(h->name);
    }
}

int net_inherit_take(const struct sockaddr *addr)
{
    for (uint32_t i = 0; i < inherited.n_waiting; i++) {
        struct held h = inherited.waiting[i];

        if (listens_at(h.fd, addr)) {
            inherited.waiting[i] = inherited.waiting[--inherited.n_waiting];
            fcntl(h.fd, F_SETFL, fcntl(h.fd, F_GETFL) | O_NONBLOCK);
            if (is_ours(&h) && inherited.keeps_no_more) {
                inherit_drop(&h);
            } else if (is_ours(&h)) {
                note_kept(&h);
            }
            log_info("a port is taken over with who waits at it", "name", h.name);
            return h.fd;
        }
    }
    return -1;
}

void net_inherit_opened(int fd, const char *address)
{
    struct held h = { .fd = fd };

    if (inherited.keeper && !inherited.keeps_no_more) {
        snprintf(h.name, sizeof(h.name), NAME_OURS "%s", address);
        for (char *p = h.name; (p = strchr(p, ':'));) {
            *p = '_'; /* a colon ends a name */
        }
        inherited.keeper->keep(fd, h.name);
        note_kept(&h);
    }
}

void net_inherit_keep_no_more(void)
{
    inherited.keeps_no_more = true;
}

void net_inherit_settle(void)
{
    while (inherited.n_waiting > 0) {
        const struct held *h = &inherited.waiting[--inherited.n_waiting];
        struct sockaddr_storage at = { .ss_family = AF_UNSPEC };
        socklen_t len = sizeof(at);
        char text[64];

        getsockname(h->fd, (struct sockaddr *)&at, &len);
        net_peer_text((struct sockaddr *)&at, text, sizeof(text));
        log_warn("the service manager holds a port that this node has not; who waits at it is let go",
                 "name", h->name, "address", text);
        close(h->fd);
        if (is_ours(h)) {
            inherit_drop(h);
        }
    }
}

void net_inherit_end(void)
{
    while (inherited.n_kept > 0) {
        int fd = inherited.kept[--inherited.n_kept].fd;

        shutdown(fd, SHUT_RDWR);
        close(fd);
    }
}
