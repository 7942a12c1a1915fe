/* The sealed copy: a file in memory that nobody can change any more, not even this process. It is
 * what is hashed, checked, tried and mapped, so that nothing can be swapped in between, and so that
 * overwriting the file on disk cannot crash the node. Its descriptor stays open as long as anything
 * of it is mapped: the linker knows a file by its name, and a number that is used twice would give
 * the old code again. */
#include <plugin/plugin_int.h>

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif

#define COPY_BYTES 65536
#define NAME_MAX_MEMFD 200

static int no_copy(struct plugin_check *c, const char *what)
{
    return plugin_problem(c, FN_E_EXHAUSTED, "PLG919", "%s in memory: %s", what, strerror(errno));
}

/* Named after the file: that is what /proc/<pid>/maps, perf and a core dump show. */
static int create_memfd(const char *path)
{
    const char *slash = strrchr(path, '/');
    char name[NAME_MAX_MEMFD + 1];
    int fd;

    snprintf(name, sizeof(name), "%.*s", NAME_MAX_MEMFD, slash ? slash + 1 : path);
    fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) {
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    return fd;
}

static bool seal_write_all(int fd, const char *data, size_t len)
{
    ssize_t n;

    while (len > 0) {
        n = write(fd, data, len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        data += n;
        len -= (size_t)n;
    }
    return true;
}

static int seal_copy(struct plugin_check *c, int from, int to, uint64_t size)
{
    char part[COPY_BYTES];
    uint64_t got = 0;
    ssize_t n;

    for (;;) {
        n = pread(from, part, sizeof(part), (off_t)got);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return plugin_problem(c, err_from_errno(errno), "PLG901", "cannot be read: %s",
                                  strerror(errno));
        }
        if (n == 0) {
            break;
        }
        got += (uint64_t)n;
        if (got > size) {
            break;
        }
        if (!seal_write_all(to, part, (size_t)n)) {
            return no_copy(c, "cannot be copied");
        }
    }
    if (got != size) {
        return plugin_problem(c, FN_E_UNAVAILABLE, "PLG919",
                              "changed while it was read; expected a file that is complete");
    }
    return 0;
}

int plugin_seal_copy(struct plugin_check *c, int fd, const struct plugin_stat *st,
                     void **ret_bytes)
{
    int to = create_memfd(st->path);
    int r;

    if (to < 0) {
        return no_copy(c, "no copy can be made");
    }
    r = seal_copy(c, fd, to, st->size);
    if (r == 0 &&
        fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        r = no_copy(c, "its copy cannot be sealed");
    }
    *ret_bytes = NULL;
    if (r == 0 && st->size > 0) {
        *ret_bytes = mmap(NULL, st->size, PROT_READ, MAP_PRIVATE, to, 0);
        r = *ret_bytes == MAP_FAILED ? no_copy(c, "its copy cannot be read") : 0;
    }
    if (r < 0) {
        close(to);
        return r;
    }
    return to;
}

int plugin_seal_hash(struct plugin_check *c, const void *bytes, uint64_t size, char ret[65])
{
    unsigned char hash[SHA256_DIGEST_LENGTH];

    if (EVP_Digest(size ? bytes : "", size, hash, NULL, EVP_sha256(), NULL) != 1) {
        return plugin_problem(c, FN_E_INTERNAL, "PLG919", "SHA-256 is not available");
    }
    for (size_t i = 0; i < sizeof(hash); i++) {
        snprintf(ret + 2 * i, 3, "%02x", hash[i]);
    }
    return 0;
}

void plugin_seal_name(int fd, char ret[64])
{
    struct stat a;
    struct stat b;

    snprintf(ret, 64, "/proc/%d/fd/%d", (int)getpid(), fd);
    /* Where /proc shows another pid namespace, only "self" is us. */
    if (stat(ret, &a) < 0 || fstat(fd, &b) < 0 || a.st_ino != b.st_ino || a.st_dev != b.st_dev) {
        snprintf(ret, 64, "/proc/self/fd/%d", fd);
    }
}
