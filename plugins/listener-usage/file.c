/* The file that lines are added to, with rotation.
 *
 * A reload makes a new instance while the old one writes its last records: both add whole lines to
 * the same file, in one write() each, which the kernel does not mix. Who finds the file moved, by
 * the other one or by logrotate, opens the new one. A file is moved under a lock on it, by one. */
#include "usage.h"

#include "fail.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE 0640

/* A process that was killed while it wrote may have left half a line. */
static int ends_in_a_line(int fd, off_t size)
{
    char last = '\n';

    return size == 0 || pread(fd, &last, 1, size - 1) != 1 || last == '\n';
}

int file_open(struct file *f, struct fn_error *reterr)
{
    struct stat st;

    f->fd = open(f->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
                 FILE_MODE);
    if (f->fd < 0) {
        return fail_platform(reterr, FN_E_PRECONDITION, "path: got \"%.80s\": %s; expected a file "
                             "that this node may write", f->path, strerror(errno));
    }
    if (fstat(f->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        file_close(f);
        return fail_platform(reterr, FN_E_PRECONDITION, "path: got \"%.80s\"; expected a regular "
                             "file", f->path);
    }
    f->torn = !ends_in_a_line(f->fd, st.st_size);
    return 0;
}

void file_close(struct file *f)
{
    if (f->fd >= 0) {
        close(f->fd);
    }
    f->fd = -1;
}

static int move(const struct file *f, int64_t from, int64_t to)
{
    char a[PATH_MAX];
    char b[PATH_MAX];

    snprintf(a, sizeof(a), from ? "%s.%lld" : "%s", f->path, (long long)from);
    snprintf(b, sizeof(b), "%s.%lld", f->path, (long long)to);
    return rename(a, b);
}

/* Those that a larger `keep` has left, up to the first that is not there. */
static void remove_older(const struct file *f)
{
    char name[PATH_MAX];

    for (int64_t i = f->keep + 1; i <= KEEP_MAX; i++) {
        snprintf(name, sizeof(name), "%s.%lld", f->path, (long long)i);
        if (unlink(name) < 0) {
            break;
        }
    }
}

/* Whether the path still leads to what is open, of which *ret tells. */
static bool is_in_place(const struct file *f, struct stat *ret)
{
    struct stat there;

    return fstat(f->fd, ret) == 0 && stat(f->path, &there) == 0 && ret->st_ino == there.st_ino &&
           ret->st_dev == there.st_dev;
}

/* path.1 becomes path.2 and so on; what was path.<keep> is gone. */
static void move_up(const struct file *f)
{
    remove_older(f);
    for (int64_t i = f->keep - 1; i >= 0; i--) {
        move(f, i, i + 1); /* there may be fewer */
    }
}

/* Where somebody else has the lock nothing is moved, and the next write tries again: who holds it
 * for ever stops no record. Once it is ours, the other one may have moved the file already: what is
 * there now is his new one. */
static void rotate(struct file *f)
{
    struct stat here;

    if (flock(f->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        return;
    }
    if (is_in_place(f, &here)) {
        move_up(f);
    }
    file_close(f);
}

/* Open, where the path says, and not too long for `len` more bytes. */
static int prepare(struct file *f, size_t len, struct fn_error *reterr)
{
    struct stat here;

    if (f->fd >= 0 && !is_in_place(f, &here)) {
        file_close(f);
    } else if (f->fd >= 0 && here.st_size > 0 && here.st_size + (off_t)len > f->rotate_bytes) {
        rotate(f);
    }
    return f->fd >= 0 ? 0 : file_open(f, reterr);
}

static uint64_t count_lines(const char *lines, size_t len)
{
    const char *end = lines + len;
    uint64_t n = 0;

    while ((lines = memchr(lines, '\n', (size_t)(end - lines)))) {
        lines++;
        n++;
    }
    return n;
}

int file_write(struct file *f, const char *lines, size_t len, uint64_t *ret_lines,
               struct fn_error *reterr)
{
    ssize_t n;

    *ret_lines = 0;
    if (prepare(f, len, reterr) < 0) {
        return FN_E_UNAVAILABLE;
    }
    if (f->torn && write(f->fd, "\n", 1) == 1) {
        f->torn = 0;
    }
    n = f->torn ? -1 : write(f->fd, lines, len);
    if (n > 0) {
        *ret_lines = count_lines(lines, (size_t)n);
        f->torn = lines[n - 1] != '\n';
    }
    if (n != (ssize_t)len) {
        return fail_platform(reterr, FN_E_UNAVAILABLE, "path: got \"%.80s\": %s; records wait",
                             f->path, n < 0 ? strerror(errno) : "no room for all lines");
    }
    if (f->sync && fdatasync(f->fd) < 0) {
        *ret_lines = 0; /* perhaps they are on the disk: they come once more */
        return fail_platform(reterr, FN_E_UNAVAILABLE, "path: got \"%.80s\": %s; records wait",
                             f->path, strerror(errno));
    }
    return 0;
}
