/* From the name lsnr.sock to a connection that is safe to use.
 *
 * The directory belongs to the function: at any moment the name may become a link to the container
 * engine's socket or to another function's directory, and the runner is a more powerful process
 * than the one that made the link. So the name is resolved by the kernel beneath the directory's
 * descriptor, what was found is held by a descriptor, and that very object is connected to. */
#include <http/fnsock_int.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define RESOLVE_TRIES 8 /* openat2 says EAGAIN when something was renamed meanwhile */

static enum link_outcome outcome_of(int err)
{
    switch (err) {
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
        return LINK_NO_ROOM;
    case EAGAIN:
        return LINK_LATER;
    case ECONNREFUSED:
        return LINK_NOBODY;
    default:
        return LINK_BAD;
    }
}

static int open_beneath(int dir_fd, const char *name, uint64_t resolve)
{
    struct open_how how = { .flags = O_PATH | O_CLOEXEC,
                            .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV |
                                       resolve };
    long fd = -1;

    for (int i = 0; i < RESOLVE_TRIES; i++) {
        fd = syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));
        if (fd >= 0 || errno != EAGAIN) {
            break;
        }
    }
    return (int)fd;
}

/* The name in a link; points into target, which the link's text was read into. */
static const char *link_name(const char *target)
{
    return strncmp(target, "./", 2) == 0 ? target + 2 : target;
}

/* The contract's link, a name beside it, where the file system was mounted not to follow any
 * (behind fnd-docker-broker). */
static int open_target(int dir_fd)
{
    char target[108];
    ssize_t n = readlinkat(dir_fd, FNSOCK_NAME, target, sizeof(target) - 1);

    target[n > 0 ? n : 0] = '\0';
    if (n <= 0 || strchr(link_name(target), '/')) {
        errno = ELOOP;
        return -1;
    }
    return open_beneath(dir_fd, link_name(target), RESOLVE_NO_SYMLINKS);
}

/* O_PATH descriptor of the socket. */
static enum link_outcome link_resolve(const struct fnsock *f, int *ret_fd, char *text, size_t size)
{
    struct stat st;
    int fd = open_beneath(f->d->fd, FNSOCK_NAME, 0);

    if (fd < 0 && errno == ELOOP) {
        fd = open_target(f->d->fd);
    }
    if (fd < 0) {
        int err = errno;

        switch (err) {
        case ENOENT:
            snprintf(text, size, "no " FNSOCK_NAME);
            return LINK_ABSENT;
        case EXDEV:
        case ELOOP:
            snprintf(text, size, "FN604 socket leaves its directory");
            return LINK_ESCAPE;
        default:
            snprintf(text, size, FNSOCK_NAME ": %s", strerror(err));
            return outcome_of(err);
        }
    }
    if (fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode)) {
        snprintf(text, size, FNSOCK_NAME " is not a socket");
        close(fd);
        return LINK_BAD;
    }
    *ret_fd = fd;
    return LINK_OK;
}

enum link_outcome fnsock_link_check(const struct fnsock *f, char *text, size_t size)
{
    enum link_outcome outcome;
    char target[108];
    const char *name;
    struct stat st;
    ssize_t n;
    int fd;

    outcome = link_resolve(f, &fd, text, size);
    if (outcome == LINK_OK) {
        close(fd);
    }
    n = readlinkat(f->d->fd, FNSOCK_NAME, target, sizeof(target) - 1);
    if (n < 0) {
        return outcome; /* no link */
    }
    target[n] = '\0';
    if (outcome == LINK_ABSENT) { /* the link may have come since */
        outcome = link_resolve(f, &fd, text, size);
        if (outcome == LINK_OK) {
            close(fd);
        }
    }
    name = link_name(target);
    if (outcome == LINK_ABSENT) {
        snprintf(text, size, FNSOCK_NAME " is a dangling link to \"%.60s\"", target);
        return LINK_BAD;
    }
    if (outcome != LINK_OK) {
        return outcome;
    }
    /* the rule of the contract: a link to a name in the same directory, once */
    if (strchr(name, '/') || (fstatat(f->d->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                              S_ISLNK(st.st_mode))) {
        snprintf(text, size, FNSOCK_NAME " is a link to \"%.60s\"; expected a socket beside it",
                 target);
        return LINK_BAD;
    }
    return LINK_OK;
}

bool fnsock_link_peer_ok(const struct fnsock *f, int fd, char *text, size_t size)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (f->uid == UINT32_MAX) {
        return true;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0) {
        snprintf(text, size, "FN604 socket without owner: %s", strerror(errno));
        return false;
    }
    if (cred.uid != f->uid) {
        snprintf(text, size, "FN604 socket belongs to uid %u; expected %u", (unsigned)cred.uid,
                 f->uid);
        return false;
    }
    return true;
}

enum link_outcome fnsock_link_connect(const struct fnsock *f, int *ret_fd, char *text, size_t size)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    enum link_outcome outcome;
    int path_fd;
    int fd;
    int err = 0;

    outcome = link_resolve(f, &path_fd, text, size);
    if (outcome != LINK_OK) {
        return outcome;
    }
    snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d", path_fd);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        err = errno;
    }
    close(path_fd);
    if (err == 0 && !fnsock_link_peer_ok(f, fd, text, size)) {
        close(fd);
        return LINK_ESCAPE;
    }
    if (err == 0) {
        *ret_fd = fd;
        return LINK_OK;
    }
    if (fd >= 0) {
        close(fd);
    }
    snprintf(text, size, "connect: %s", strerror(err));
    return outcome_of(err);
}
