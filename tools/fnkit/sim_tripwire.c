/* Tripwire: a plugin that reaches for the real outside while it is simulated.
 *
 * This file defines the C library's doors to time, chance, sockets, threads and processes in the
 * executable, where the dynamic linker finds them before the library's own. A call that comes while
 * a plugin's breadcrumb is set and no host function runs is the plugin's, or that of a library it
 * uses: it gets one sentence and the run ends. Return addresses would miss `return time(NULL)`,
 * which is a jump and looks like the host calling; the breadcrumb does not.
 * Direct system calls and rdtsc pass unseen; two runs with unequal hashes show those.
 *
 * Left out under sanitizers, which put their own functions in the same places. */
#include "sim_tripwire.h"

#include <plugin/plugin.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

void tripwire_handler(void (*cb)(const char *sentence))
{
    (void)cb;
}

bool tripwire_set(void)
{
    return false;
}

#else

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void (*handler)(const char *sentence);

void tripwire_handler(void (*cb)(const char *sentence))
{
    handler = cb;
}

bool tripwire_set(void)
{
    return true;
}

static void tripped(const char *function)
{
    const struct plugin_crumb *c = plugin_current();
    char text[512];

    snprintf(text, sizeof(text),
             "SIM103 %s %s: %s() called %s(); expected time, chance, files of devices, sockets, "
             "threads and processes to come from the host's tables",
             plugin_factory(c->plugin)->kind, plugin_name(c->plugin), c->method, function);
    handler(text);
    abort();
}

static inline void watch(const char *function)
{
    if (__builtin_expect(handler && plugin_running(), 0)) {
        tripped(function);
    }
}

static void watch_path(const char *function, const char *path)
{
    if (path && (strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0 ||
                 strncmp(path, "/sys/", 5) == 0)) {
        watch(function);
    }
}

static void *real(void **kept, const char *name)
{
    if (!*kept) {
        *kept = dlsym(RTLD_NEXT, name);
        if (!*kept) {
            abort();
        }
    }
    return *kept;
}

#pragma GCC visibility push(default)

/* A door: watched, then the library's own function of the same name. */
#define DOOR(type, name, params, args)                                                             \
    type name params                                                                               \
    {                                                                                              \
        static void *kept;                                                                         \
                                                                                                   \
        watch(#name);                                                                              \
        return ((type(*) params)real(&kept, #name)) args;                                          \
    }

DOOR(int, clock_gettime, (clockid_t id, struct timespec *t), (id, t))
DOOR(time_t, time, (time_t * t), (t))
DOOR(int, gettimeofday, (struct timeval *restrict tv, void *restrict tz), (tv, tz))
DOOR(int, timespec_get, (struct timespec * t, int base), (t, base))
DOOR(clock_t, clock, (void), ())
DOOR(int, nanosleep, (const struct timespec *t, struct timespec *left), (t, left))
DOOR(int, clock_nanosleep,
     (clockid_t id, int flags, const struct timespec *t, struct timespec *left),
     (id, flags, t, left))
DOOR(int, usleep, (useconds_t us), (us))
DOOR(unsigned, sleep, (unsigned s), (s))
DOOR(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
DOOR(int, ppoll,
     (struct pollfd * fds, nfds_t n, const struct timespec *t, const sigset_t *set),
     (fds, n, t, set))
DOOR(int, select,
     (int n, fd_set *restrict r, fd_set *restrict w, fd_set *restrict e,
      struct timeval *restrict t),
     (n, r, w, e, t))
DOOR(int, epoll_create1, (int flags), (flags))
DOOR(int, epoll_wait, (int fd, struct epoll_event *events, int n, int ms), (fd, events, n, ms))
DOOR(int, socket, (int domain, int type, int protocol), (domain, type, protocol))
DOOR(int, socketpair, (int domain, int type, int protocol, int fds[2]),
     (domain, type, protocol, fds))
DOOR(int, connect, (int fd, const struct sockaddr *to, socklen_t len), (fd, to, len))
DOOR(int, bind, (int fd, const struct sockaddr *to, socklen_t len), (fd, to, len))
DOOR(ssize_t, getrandom, (void *to, size_t n, unsigned flags), (to, n, flags))
DOOR(int, getentropy, (void *to, size_t n), (to, n))
DOOR(int, rand, (void), ())
DOOR(void, srand, (unsigned seed), (seed))
DOOR(long, random, (void), ())
DOOR(double, drand48, (void), ())
DOOR(uint32_t, arc4random, (void), ())
DOOR(int, pthread_create,
     (pthread_t *restrict t, const pthread_attr_t *restrict a, void *(*fn)(void *),
      void *restrict ud),
     (t, a, fn, ud))
DOOR(pid_t, fork, (void), ())
DOOR(int, posix_spawn,
     (pid_t *restrict pid, const char *restrict path,
      const posix_spawn_file_actions_t *restrict actions, const posix_spawnattr_t *restrict attr,
      char *const argv[restrict], char *const env[restrict]),
     (pid, path, actions, attr, argv, env))
DOOR(int, posix_spawnp,
     (pid_t *restrict pid, const char *restrict path,
      const posix_spawn_file_actions_t *restrict actions, const posix_spawnattr_t *restrict attr,
      char *const argv[restrict], char *const env[restrict]),
     (pid, path, actions, attr, argv, env))
DOOR(int, execve, (const char *path, char *const argv[], char *const env[]), (path, argv, env))
DOOR(int, system, (const char *command), (command))
DOOR(FILE *, popen, (const char *command, const char *mode), (command, mode))

/* Files are allowed, devices are not. */
#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        static void *kept;                                                                         \
        va_list ap;                                                                                \
        mode_t mode;                                                                               \
                                                                                                   \
        va_start(ap, flags);                                                                       \
        mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(ap, mode_t) : 0;                           \
        va_end(ap);                                                                                \
        watch_path(#name, path);                                                                   \
        return ((int (*)(const char *, int, ...))real(&kept, #name))(path, flags, mode);           \
    }
OPEN(open)
OPEN(open64)

#define FOPEN(name)                                                                                \
    FILE *name(const char *restrict path, const char *restrict mode)                               \
    {                                                                                              \
        static void *kept;                                                                         \
                                                                                                   \
        watch_path(#name, path);                                                                   \
        return ((FILE * (*)(const char *, const char *)) real(&kept, #name))(path, mode);          \
    }
FOPEN(fopen)
FOPEN(fopen64)

#pragma GCC visibility pop

#endif
