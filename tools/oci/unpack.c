/* A layer becomes a folder, as an overlay wants it.
 *
 * The parent decompresses and hashes; a child whose root is the folder, without rights over what
 * else the machine has, reads the tar from a pipe and writes. Whatever paths or links a layer
 * names, they end in that folder, and its bytes count against LAYER_MAX on their way through the
 * pipe and when they are written (a sparse file is larger than its bytes). */
#include "oci.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <openssl/evp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define WHITEOUT      ".wh."
#define WHITEOUT_META ".wh..wh."
#define OPAQUE        ".wh..wh..opq"
#define CHILD_FAILED  1

/* ---- the child ------------------------------------------------------------------------------- */

struct writer {
    struct archive *in, *out;
    int64_t left;     /* bytes */
    int64_t entries;
    int64_t left_out; /* devices, sockets, pipes */
};

/* What a layer needs: owners, modes, whiteouts (devices 0:0) and their attributes. */
static int drop_rights(void)
{
    const uint32_t keep = 1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER |
                          1u << CAP_FSETID | 1u << CAP_MKNOD | 1u << CAP_SYS_ADMIN;
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct caps[2] = { { .effective = keep, .permitted = keep } };

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                   unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWNS) < 0 ||
                   syscall(SYS_capset, &head, caps) < 0
               ? -1
               : 0;
}

static int enter(int folder)
{
    if (fchdir(folder) < 0 || chroot(".") < 0 || chdir("/") < 0 || drop_rights() < 0) {
        return complain("cannot enter the folder of a layer: %s", strerror(errno));
    }
    return 0;
}

static void make_parents(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        mkdir(path, 0755);
        *p = '/';
    }
}

/* path: of the marker, "dir/.wh.name". */
static int whiteout(char *path)
{
    char *base = strrchr(path, '/') + 1;

    make_parents(path);
    if (strcmp(base, OPAQUE) == 0) {
        *base = '\0';
        return setxattr(path, "trusted.overlay.opaque", "y", 1, 0);
    }
    if (strncmp(base, WHITEOUT_META, strlen(WHITEOUT_META)) == 0) {
        return 0; /* of aufs */
    }
    memmove(base, base + strlen(WHITEOUT), strlen(base + strlen(WHITEOUT)) + 1);
    if (!*base || strcmp(base, ".") == 0 || strcmp(base, "..") == 0) {
        errno = EINVAL;
        return -1;
    }
    /* What this layer has itself stays: only lower ones are hidden. */
    return mknod(path, S_IFCHR, makedev(0, 0)) < 0 && errno != EEXIST ? -1 : 0;
}

static bool is_left_out(mode_t type)
{
    return type == AE_IFCHR || type == AE_IFBLK || type == AE_IFIFO || type == AE_IFSOCK;
}

/* Absolute, in the folder; given. */
static char *path_of(struct archive_entry *e)
{
    const char *path = archive_entry_pathname(e);
    char *ret = NULL;

    while (path && (*path == '/' || strncmp(path, "./", 2) == 0)) {
        path += *path == '/' ? 1 : 2;
    }
    if (!path || asprintf(&ret, "/%s", path) < 0) {
        return NULL;
    }
    return ret;
}

static int write_file(struct writer *w, struct archive_entry *e)
{
    const void *data;
    size_t len;
    int64_t at;
    int r;

    if (archive_entry_size(e) > w->left) {
        return complain("a layer has more than %lld bytes", (long long)LAYER_MAX);
    }
    w->left -= archive_entry_size(e);
    if (archive_write_header(w->out, e) < ARCHIVE_WARN) {
        return complain("%s", archive_error_string(w->out));
    }
    while ((r = archive_read_data_block(w->in, &data, &len, &at)) == ARCHIVE_OK) {
        if (archive_write_data_block(w->out, data, len, at) < ARCHIVE_WARN) {
            return complain("%s", archive_error_string(w->out));
        }
    }
    if (r != ARCHIVE_EOF) {
        return complain("%s", archive_error_string(w->in));
    }
    return archive_write_finish_entry(w->out) < ARCHIVE_WARN
               ? complain("%s", archive_error_string(w->out))
               : 0;
}

static int write_entry(struct writer *w, struct archive_entry *e)
{
    char *path = path_of(e);
    int r = 0;

    if (!path) {
        return complain("a path in a layer cannot be read");
    }
    if (++w->entries > ENTRIES_MAX) {
        r = complain("a layer has more than %d files", ENTRIES_MAX);
    } else if (strncmp(strrchr(path, '/') + 1, WHITEOUT, strlen(WHITEOUT)) == 0) {
        r = whiteout(path) < 0 ? complain("whiteout %.200s: %s", path, strerror(errno)) : 0;
    } else if (is_left_out(archive_entry_filetype(e))) {
        w->left_out++;
    } else if (strcmp(path, "/") != 0) { /* its own root is the overlay's */
        archive_entry_set_pathname(e, path);
        r = write_file(w, e);
    }
    free(path);
    return r;
}

static int write_entries(struct writer *w)
{
    struct archive_entry *e;
    int r;

    while ((r = archive_read_next_header(w->in, &e)) == ARCHIVE_OK || r == ARCHIVE_WARN) {
        if (write_entry(w, e) < 0) {
            return -1;
        }
    }
    if (r != ARCHIVE_EOF) {
        return complain("layer: %s", archive_error_string(w->in));
    }
    /* Modes and times of folders are set last. */
    return archive_write_close(w->out) < ARCHIVE_WARN ? complain("%s", archive_error_string(w->out))
                                                      : 0;
}

/* What follows the end of a tar: the parent hashes it too. */
static void drain(int fd)
{
    char chunk[4096];

    while (read(fd, chunk, sizeof(chunk)) > 0) {
    }
}

static _Noreturn void child(int folder, int in)
{
    struct writer w = { .in = archive_read_new(), .out = archive_write_disk_new(),
                        .left = LAYER_MAX };

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    umask(0);
    if (!w.in || !w.out || enter(folder) < 0) {
        _exit(CHILD_FAILED);
    }
    archive_read_support_format_tar(w.in);
    archive_read_support_format_empty(w.in);
    archive_write_disk_set_options(w.out, ARCHIVE_EXTRACT_OWNER | ARCHIVE_EXTRACT_PERM |
                                              ARCHIVE_EXTRACT_TIME |
                                              ARCHIVE_EXTRACT_SECURE_NODOTDOT);
    if (archive_read_open_fd(w.in, in, COPY_CHUNK) != ARCHIVE_OK) {
        complain("layer: %s", archive_error_string(w.in));
        _exit(CHILD_FAILED);
    }
    if (write_entries(&w) < 0) {
        _exit(CHILD_FAILED);
    }
    drain(in);
    if (w.left_out > 0) {
        fprintf(stderr, "fnd-oci: %lld devices, pipes or sockets of a layer were left out\n",
                (long long)w.left_out);
    }
    _exit(0);
}

/* ---- the parent ------------------------------------------------------------------------------ */

static int send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -1; /* the child has said why */
        }
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Uncompressed bytes from `a` to `out`; their hash. */
static int pump(struct archive *a, int out, char ret_hash[STORE_HEX + 1])
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    char *chunk = malloc(COPY_CHUNK);
    int64_t left = LAYER_MAX;
    la_ssize_t n = -1;
    int r = md && chunk && EVP_DigestInit_ex(md, EVP_sha256(), NULL) ? 0 : complain("out of memory");

    while (r == 0 && (n = archive_read_data(a, chunk, COPY_CHUNK)) > 0) {
        left -= n;
        EVP_DigestUpdate(md, chunk, (size_t)n);
        r = left < 0 ? complain("a layer has more than %lld bytes", (long long)LAYER_MAX)
                     : send_all(out, chunk, (size_t)n);
    }
    if (r == 0 && n < 0) {
        r = complain("layer: %s", archive_error_string(a));
    }
    if (r == 0 && EVP_DigestFinal_ex(md, bytes, NULL)) {
        store_hex(bytes, ret_hash);
    }
    EVP_MD_CTX_free(md);
    free(chunk);
    return r;
}

static int decompress(int fd, int out, char ret_hash[STORE_HEX + 1])
{
    struct archive *a = archive_read_new();
    struct archive_entry *e;
    int r;

    if (!a) {
        return complain("out of memory");
    }
    archive_read_support_format_raw(a);
    archive_read_support_format_empty(a);
    archive_read_support_filter_gzip(a);
    archive_read_support_filter_zstd(a);
    if (archive_read_open_fd(a, fd, COPY_CHUNK) != ARCHIVE_OK) {
        r = complain("layer: %s", archive_error_string(a));
    } else {
        r = archive_read_next_header(a, &e) == ARCHIVE_OK
                ? pump(a, out, ret_hash)
                : complain("a layer is empty; expected a tar");
    }
    archive_read_free(a);
    return r;
}

static int end_of(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

int unpack_layer(int fd, int tmp, const char *name, const char *diff_id)
{
    char hash[STORE_HEX + 1] = "";
    int ends[2] = { -1, -1 };
    int folder = mkdirat(tmp, name, 0755) == 0
                     ? openat(tmp, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                     : -1;
    pid_t pid;
    int r;

    if (folder < 0 || pipe2(ends, O_CLOEXEC) < 0) {
        return complain("cannot make a folder for a layer: %s", strerror(errno));
    }
    pid = fork();
    if (pid == 0) {
        close(ends[1]);
        child(folder, ends[0]);
    }
    close(ends[0]);
    r = pid < 0 ? complain("cannot start a process: %s", strerror(errno))
                : decompress(fd, ends[1], hash);
    close(ends[1]);
    if (pid > 0 && end_of(pid) < 0) {
        r = -1;
    }
    if (r == 0 && strcmp(hash, diff_id) != 0) {
        r = complain("a layer has the SHA-256 %s; expected %s", hash, diff_id);
    }
    if (r == 0 && syncfs(folder) < 0) {
        r = complain("cannot write to the disk: %s", strerror(errno));
    }
    close(folder);
    return r;
}
