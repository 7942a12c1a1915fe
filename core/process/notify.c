/* The protocol is a datagram to a unix socket, so that no library is needed for it. */
#include <process/notify.h>

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define NS_PER_US 1000
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

void notify_tell(const char *state)
{
    struct sockaddr_un at;
    socklen_t len = notify_address(&at);
    int fd = len ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;

    if (fd >= 0) {
        sendto(fd, state, strlen(state), MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&at, len);
        close(fd);
    }
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

    notify_tell("WATCHDOG=1");
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
