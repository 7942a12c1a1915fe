/* Small files of a container's folder, which only the node and what it starts can write. */
#include "oci.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 8 /* of folders in a container's folder: the runtime makes two */
#define TRIES_MAX 4 /* its shim may write there until it has ended: twice, and a line of the log */

static int open_in(const char *dir, const char *name, int flags)
{
    char path[OCI_PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

bool file_read(const char *dir, const char *name, char *ret, size_t cap)
{
    int fd = open_in(dir, name, O_RDONLY);
    size_t len = 0;
    ssize_t n = 0;

    *ret = '\0';
    if (fd < 0) {
        return false;
    }
    while (len < cap && (n = read(fd, ret + len, cap - len)) > 0) {
        len += (size_t)n;
    }
    close(fd);
    ret[len < cap ? len : cap - 1] = '\0';
    return n >= 0 && len < cap;
}

int file_write(const char *dir, const char *name, const char *text)
{
    int fd = open_in(dir, name, O_WRONLY | O_CREAT | O_EXCL);
    size_t left = strlen(text);
    ssize_t n = 0;

    while (fd >= 0 && left > 0 && (n = write(fd, text, left)) > 0) {
        text += n;
        left -= (size_t)n;
    }
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0 && left == 0 ? 0 : FN_E_EXHAUSTED;
}

bool file_exists(const char *dir, const char *name)
{
    char path[OCI_PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

/* parent: closed. */
static void empty(int parent, int depth)
{
    DIR *d = fdopendir(parent);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        if (unlinkat(dirfd(d), e->d_name, 0) < 0 && errno == EISDIR && depth < DEPTH_MAX) {
            int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

            if (fd >= 0) {
                empty(fd, depth + 1);
            }
            unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
        }
    }
    if (d) {
        closedir(d);
    } else {
        close(parent);
    }
}

bool tree_remove(const char *dir)
{
    bool gone = false;

    for (int i = 0; i < TRIES_MAX && !gone; i++) {
        int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd >= 0) {
            empty(fd, 0);
        }
        gone = rmdir(dir) == 0 || errno == ENOENT;
    }
    return gone;
}
