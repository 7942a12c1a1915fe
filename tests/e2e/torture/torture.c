/* Preloaded into a node: one of its calls fails. Which one says the file that FND_TORTURE names,
 * shared with the test: of the calls of that kind, the n-th from now on gets `error`, 0 = a short
 * count. `seen` counts them, `hits` those that failed; the test sets both to 0. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLERS_MAX 12

enum kind {
    NONE,
    MALLOC,
    READ,
    WRITE,
    RECV,
    SEND,
    SENDMSG,
    ACCEPT,
    SOCKET,
    CONNECT,
    EPOLL_CTL,
    EPOLL_WAIT,
    EVENTFD,
    OPEN,
    PIPE,
    MKDIR,
    INOTIFY,
    THREAD,
    MMAP,
    MALLOC_ASIDE, /* where none of `aside` itself asked for it */
    BIND,
    LISTEN,
    SETSOCKOPT,
    GETSOCKNAME,
    EPOLL_CREATE,
    SOCKETPAIR,
    MOUNT,
    RENAME,
    FSYNC,
    PWRITE,
    OPENDIR,
    SPAWN,
};

struct torture {
    uint32_t kind, nth, error, seen, hits;
    uint32_t traced; /* the failed one's callers go to standard error, for addr2line */
};

/* OpenSSL's own start crashes without memory, and libseccomp's making of a filter may not end. */
static struct {
    const char *name;
    uintptr_t from, to; /* its code */
} aside[] = { { "libcrypto", 0, 0 }, { "libseccomp", 0, 0 } };
static struct torture off;
static volatile struct torture *torture = &off;

static int find_aside(struct dl_phdr_info *lib, size_t size, void *ud)
{
    (void)size;
    (void)ud;
    for (size_t a = 0; a < sizeof(aside) / sizeof(aside[0]); a++) {
        for (int i = 0; strstr(lib->dlpi_name, aside[a].name) && i < lib->dlpi_phnum; i++) {
            const ElfW(Phdr) *part = &lib->dlpi_phdr[i];

            if (part->p_type == PT_LOAD && part->p_flags & PF_X) {
                aside[a].from = lib->dlpi_addr + part->p_vaddr;
                aside[a].to = aside[a].from + part->p_memsz;
            }
        }
    }
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *file = getenv("FND_TORTURE");
    long fd = file ? syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC) : -1;
    long mem = fd < 0 ? -1 : syscall(SYS_mmap, NULL, sizeof(*torture), PROT_READ | PROT_WRITE,
                                     MAP_SHARED, fd, 0);

    unsetenv("LD_PRELOAD"); /* functions are not meant */
    dl_iterate_phdr(find_aside, NULL);
    if (mem != -1) {
        torture = (volatile struct torture *)mem;
    }
    if (fd >= 0) {
        syscall(SYS_close, fd);
    }
}

/* Whether this call fails; errno is set then. */
static bool fails(enum kind kind)
{
    void *callers[CALLERS_MAX];
    uint32_t n;

    if (torture->kind != kind) {
        return false;
    }
    n = __atomic_add_fetch(&torture->seen, 1, __ATOMIC_RELAXED);
    if (n != torture->nth) {
        return false;
    }
    __atomic_add_fetch(&torture->hits, 1, __ATOMIC_RELAXED);
    if (torture->traced) {
        backtrace_symbols_fd(callers, backtrace(callers, CALLERS_MAX), STDERR_FILENO);
    }
    errno = (int)torture->error;
    return true;
}

/* ---- memory ---------------------------------------------------------------------------------- */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
/* Of AddressSanitizer, in a build that has it. */
__attribute__((weak)) void *__interceptor_malloc(size_t n);
__attribute__((weak)) void *__interceptor_calloc(size_t n, size_t size);
__attribute__((weak)) void *__interceptor_realloc(void *p, size_t n);

#define ALLOCATOR(name) (__interceptor_##name ? __interceptor_##name : __libc_##name)

static bool no_memory(uintptr_t caller)
{
    for (size_t i = 0; torture->kind == MALLOC_ASIDE && i < sizeof(aside) / sizeof(aside[0]); i++) {
        if (caller >= aside[i].from && caller < aside[i].to) {
            return false;
        }
    }
    return fails(MALLOC) || fails(MALLOC_ASIDE);
}

#define NO_MEMORY() no_memory((uintptr_t)__builtin_return_address(0))

void *malloc(size_t n)
{
    return NO_MEMORY() ? NULL : ALLOCATOR(malloc)(n);
}

void *calloc(size_t n, size_t size)
{
    return NO_MEMORY() ? NULL : ALLOCATOR(calloc)(n, size);
}

void *realloc(void *p, size_t n)
{
    return NO_MEMORY() ? NULL : ALLOCATOR(realloc)(p, n);
}

/* ---- system calls ---------------------------------------------------------------------------- */

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* A failure, or half of it where `error` is 0. */
#define MAYBE_SHORT(kind, len)                                                                     \
    do {                                                                                           \
        if (fails(kind)) {                                                                         \
            if (torture->error) {                                                                  \
                return -1;                                                                         \
            }                                                                                      \
            (len) = ((len) + 1) / 2;                                                               \
        }                                                                                          \
    } while (0)

ssize_t read(int fd, void *to, size_t len)
{
    MAYBE_SHORT(READ, len);
    return syscall(SYS_read, fd, to, len);
}

ssize_t write(int fd, const void *from, size_t len)
{
    MAYBE_SHORT(WRITE, len);
    return syscall(SYS_write, fd, from, len);
}

ssize_t recv(int fd, void *to, size_t len, int flags)
{
    MAYBE_SHORT(RECV, len);
    return syscall(SYS_recvfrom, fd, to, len, flags, NULL, NULL);
}

ssize_t send(int fd, const void *from, size_t len, int flags)
{
    MAYBE_SHORT(SEND, len);
    return syscall(SYS_sendto, fd, from, len, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    struct iovec first;
    struct msghdr half = *m;
    size_t len = m->msg_iovlen > 0 ? m->msg_iov[0].iov_len : 0, all = len;

    MAYBE_SHORT(SENDMSG, len);
    if (len < all) {
        first = (struct iovec){ m->msg_iov[0].iov_base, len };
        half.msg_iov = &first;
        half.msg_iovlen = 1;
        m = &half;
    }
    return syscall(SYS_sendmsg, fd, m, flags);
}

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
    return fails(ACCEPT) ? -1 : (int)syscall(SYS_accept4, fd, addr, len, flags);
}

int socket(int domain, int type, int protocol)
{
    return fails(SOCKET) ? -1 : (int)syscall(SYS_socket, domain, type, protocol);
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    return fails(CONNECT) ? -1 : (int)syscall(SYS_connect, fd, addr, len);
}

int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
    return fails(BIND) ? -1 : (int)syscall(SYS_bind, fd, addr, len);
}

int listen(int fd, int backlog)
{
    return fails(LISTEN) ? -1 : (int)syscall(SYS_listen, fd, backlog);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    return fails(SETSOCKOPT) ? -1 : (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}

int getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
    return fails(GETSOCKNAME) ? -1 : (int)syscall(SYS_getsockname, fd, addr, len);
}

int socketpair(int domain, int type, int protocol, int ret[2])
{
    return fails(SOCKETPAIR) ? -1 : (int)syscall(SYS_socketpair, domain, type, protocol, ret);
}

int epoll_create1(int flags)
{
    return fails(EPOLL_CREATE) ? -1 : (int)syscall(SYS_epoll_create1, flags);
}

/* The kernel needs no memory for the others. */
int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    return op == EPOLL_CTL_ADD && fails(EPOLL_CTL)
               ? -1
               : (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
}

int epoll_wait(int fd, struct epoll_event *events, int n, int timeout_ms)
{
    return fails(EPOLL_WAIT) ? -1 : (int)syscall(SYS_epoll_wait, fd, events, n, timeout_ms);
}

int epoll_pwait2(int fd, struct epoll_event *events, int n, const struct timespec *timeout,
                 const sigset_t *mask)
{
    return fails(EPOLL_WAIT) ? -1
                             : (int)syscall(SYS_epoll_pwait2, fd, events, n, timeout, mask,
                                            sizeof(uint64_t));
}

int eventfd(unsigned count, int flags)
{
    return fails(EVENTFD) ? -1 : (int)syscall(SYS_eventfd2, count, flags);
}

static int open_at(int dir, const char *path, int flags, va_list more)
{
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;

    return fails(OPEN) ? -1 : (int)syscall(SYS_openat, dir, path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
    va_list more;
    int fd;

    va_start(more, flags);
    fd = open_at(dir, path, flags, more);
    va_end(more);
    return fd;
}

int open(const char *path, int flags, ...)
{
    va_list more;
    int fd;

    va_start(more, flags);
    fd = open_at(AT_FDCWD, path, flags, more);
    va_end(more);
    return fd;
}

int pipe2(int ret[2], int flags)
{
    return fails(PIPE) ? -1 : (int)syscall(SYS_pipe2, ret, flags);
}

int mkdirat(int dir, const char *path, mode_t mode)
{
    return fails(MKDIR) ? -1 : (int)syscall(SYS_mkdirat, dir, path, mode);
}

int mount(const char *from, const char *to, const char *type, unsigned long flags,
          const void *options)
{
    return fails(MOUNT) ? -1 : (int)syscall(SYS_mount, from, to, type, flags, options);
}

int rename(const char *from, const char *to)
{
    return fails(RENAME) ? -1 : (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return fails(RENAME) ? -1 : (int)syscall(SYS_renameat, from_dir, from, to_dir, to);
}

int fsync(int fd)
{
    return fails(FSYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return fails(FSYNC) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

ssize_t pwrite(int fd, const void *from, size_t len, off_t at)
{
    MAYBE_SHORT(PWRITE, len);
    return syscall(SYS_pwrite64, fd, from, len, at);
}

/* Of libraries that were built for large files. */
ssize_t pwrite64(int fd, const void *from, size_t len, off_t at);
ssize_t pwrite64(int fd, const void *from, size_t len, off_t at)
{
    return pwrite(fd, from, len, at);
}

DIR *opendir(const char *path)
{
    return fails(OPENDIR) ? NULL : NEXT(opendir)(path);
}

DIR *fdopendir(int fd)
{
    return fails(OPENDIR) ? NULL : NEXT(fdopendir)(fd);
}

int posix_spawnp(pid_t *ret, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
    return fails(SPAWN) ? errno : NEXT(posix_spawnp)(ret, file, actions, attr, argv, env);
}

int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    return fails(INOTIFY) ? -1 : (int)syscall(SYS_inotify_add_watch, fd, path, mask);
}

int pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*start)(void *), void *ud)
{
    return fails(THREAD) ? errno : NEXT(pthread_create)(ret, attr, start, ud);
}

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    return fails(MMAP) ? MAP_FAILED
                       : (void *)syscall(SYS_mmap, at, len, prot, flags, fd, offset);
}
