/* The protocol is a datagram to a unix socket, so that no library is needed for it. The socket is
 * kept: a manager that hears nothing kills the node, also one that has no descriptor left. */
#include <process/notify.h>

#include <base/log.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define NS_PER_US 1000
#define TEXT_BYTES 160 /* of a message with a name */
#define PLACE_WAIT_MS 500 /* for a place in the queue of the manager */
#define PERIOD_US_MAX 3600000000LL /* longer ones are none */

/* A path, or an abstract name behind an @. 0: there is none that can be used. */
static socklen_t notify_address(struct sockaddr_un *ret)
{
    const char *path = getenv("NOTIFY_SOCKET");
    size_t len = path ? strlen(path) : 0;

    if (len < 2 || len >= sizeof(ret->sun_path) || (path[0] != '/' && path[0] != '@')) {
        return 0;
    }
    *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy(ret->sun_path, path, len);
    if (path[0] == '@') {
        ret->sun_path[0] = '\0';
    }
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

/* -1: there is none yet, and none can be made. [any] */
static int notify_socket(void)
{
    static atomic_int kept = -1;
    const struct timeval wait = { .tv_usec = PLACE_WAIT_MS * 1000 };
    int fd = atomic_load(&kept), none = -1;

    if (fd >= 0) {
        return fd;
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    }
    if (fd >= 0 && !atomic_compare_exchange_strong(&kept, &none, fd)) {
        close(fd);
        fd = none; /* another thread's */
    }
    return fd;
}

/* With a descriptor, or -1. flags: of sendmsg(2). */
static void notify_send(const char *state, int with_fd, int flags)
{
    struct sockaddr_un at;
    socklen_t len = notify_address(&at);
    int fd = len ? notify_socket() : -1;
    struct iovec text = { (void *)(uintptr_t)state, strlen(state) };
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = { .bytes = { 0 } };
    struct msghdr m = { .msg_name = &at, .msg_namelen = len, .msg_iov = &text, .msg_iovlen = 1 };

    if (with_fd >= 0) {
        m.msg_control = control.bytes;
        m.msg_controllen = sizeof(control.bytes);
        *CMSG_FIRSTHDR(&m) = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                                               .cmsg_type = SCM_RIGHTS,
                                               .cmsg_len = CMSG_LEN(sizeof(int)) };
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &with_fd, sizeof(int));
    }
    if (len && (fd < 0 || sendmsg(fd, &m, flags | MSG_NOSIGNAL) < 0)) {
        log_warn("the service manager could not be told", "state", state, "error",
                 strerror(errno));
    }
}

void notify_tell(const char *state)
{
    notify_send(state, -1, 0);
}

void notify_keep(int fd, const char *name)
{
    char text[TEXT_BYTES];

    /* Not watched: the end of a socket is for its process to tell. */
    snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
    notify_send(text, fd, 0);
}

void notify_drop(const char *name)
{
    char text[TEXT_BYTES];

    snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
    notify_send(text, -1, 0);
}

/* ---- the watchdog ---------------------------------------------------------------------------- */

struct beat {
    struct env *env;
    struct env_timer timer;
    int64_t period_ns;
};

static void on_beat(struct env_timer *t)
{
    struct beat *b = container_of(t, struct beat, timer);

    notify_send("WATCHDOG=1", -1, MSG_DONTWAIT);
    env_timer_set(b->env, t, env_now_ns(b->env) + b->period_ns);
}

/* Half of what the manager allows; 0: it asks for none, or another process. */
static int64_t beat_period_ns(void)
{
    const char *usec = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    long long us = usec ? strtoll(usec, NULL, 10) : 0;

    if (us <= 0 || us > PERIOD_US_MAX || (pid && strtoll(pid, NULL, 10) != (long long)getpid())) {
        return 0;
    }
    return us * NS_PER_US / 2;
}

void notify_begin_watchdog(struct env *env)
{
    static struct beat beat; /* as long as the process */

    beat.period_ns = beat_period_ns();
    if (beat.period_ns > 0) {
        beat.env = env;
        beat.timer.cb = on_beat;
        on_beat(&beat.timer);
    }
}
