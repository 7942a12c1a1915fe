/* The files of an archive by name. manifest.json may be anywhere in it, and layers may be links to
 * each other (archives of Docker before 25), so its files are copied beside each other first, under
 * numbers: no name of an archive becomes a name on the disk. */
#include "oci.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINKS_MAX 8

struct blob {
    char *name;
    char *link; /* to another name, or NULL */
};

struct archive_files {
    int dir; /* of blobs by number, or the folder itself */
    bool is_folder;
    struct blob *blobs;
    size_t n;
};

/* "./a//b/../c" is "a/c"; in place. False: it leads out. */
static bool normalize(char *path)
{
    char *parts[64];
    size_t n = 0;
    char *save = NULL, *to = path;

    for (char *p = strtok_r(path, "/", &save); p; p = strtok_r(NULL, "/", &save)) {
        if (strcmp(p, "..") == 0) {
            if (n == 0) {
                return false;
            }
            n--;
        } else if (strcmp(p, ".") != 0) {
            if (n == sizeof(parts) / sizeof(parts[0])) {
                return false;
            }
            parts[n++] = p;
        }
    }
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(parts[i]);

        memmove(to, parts[i], len);
        to += len;
        *to++ = '/';
    }
    to[to > path ? -1 : 0] = '\0';
    return n > 0;
}

/* Target of a link as a name of the archive; given, NULL: it leads out. */
static char *link_target(const char *name, const char *target, bool hard)
{
    const char *slash = strrchr(name, '/');
    char *ret = NULL;

    if (asprintf(&ret, "%.*s%s", hard || !slash ? 0 : (int)(slash - name + 1), name, target) < 0) {
        return NULL;
    }
    if (!normalize(ret)) {
        free(ret);
        return NULL;
    }
    return ret;
}

static int copy_blob(struct archive *a, int dir, size_t number, int64_t *left)
{
    char file[32];
    int fd, r;

    snprintf(file, sizeof(file), "%zu", number);
    fd = openat(dir, file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return complain("cannot write: %s", strerror(errno));
    }
    r = archive_read_data_into_fd(a, fd) == ARCHIVE_OK ? 0 : -1;
    *left -= lseek(fd, 0, SEEK_END);
    close(fd);
    return r < 0 ? complain("%s", archive_error_string(a)) : 0;
}

static int take_entry(struct archive_files *f, struct archive *a, struct archive_entry *e,
                      int64_t *left)
{
    const char *path = archive_entry_pathname(e);
    const char *hard = archive_entry_hardlink(e);
    const char *soft = archive_entry_symlink(e);
    struct blob *b = &f->blobs[f->n];

    if (!path || archive_entry_filetype(e) == AE_IFDIR) {
        return 0;
    }
    if (f->n == BLOBS_MAX) {
        return complain("more than %d files; expected an archive of images", BLOBS_MAX);
    }
    b->name = strdup(path);
    if (!b->name || !normalize(b->name)) {
        free(b->name);
        b->name = NULL;
        return 0; /* nothing refers to it */
    }
    f->n++;
    if (hard || soft) {
        b->link = link_target(b->name, hard ? hard : soft, hard != NULL);
        return 0;
    }
    if (archive_entry_filetype(e) != AE_IFREG) {
        return 0;
    }
    if (archive_entry_size(e) > *left) {
        return complain("more than %lld bytes; expected a smaller archive", (long long)ARCHIVE_MAX);
    }
    return copy_blob(a, f->dir, f->n - 1, left);
}

static int read_entries(struct archive_files *f, struct archive *a)
{
    struct archive_entry *e;
    int64_t left = ARCHIVE_MAX;
    int r;

    while ((r = archive_read_next_header(a, &e)) == ARCHIVE_OK || r == ARCHIVE_WARN) {
        if (take_entry(f, a, e, &left) < 0) {
            return -1;
        }
    }
    return r == ARCHIVE_EOF ? 0 : complain("%s", archive_error_string(a));
}

static int read_archive(struct archive_files *f, const char *path)
{
    struct archive *a = archive_read_new();
    int r;

    f->blobs = calloc(BLOBS_MAX, sizeof(*f->blobs));
    if (!a || !f->blobs) {
        archive_read_free(a);
        return complain("out of memory");
    }
    archive_read_support_format_tar(a);
    archive_read_support_filter_gzip(a);
    archive_read_support_filter_zstd(a);
    archive_read_support_filter_xz(a);
    if (archive_read_open_filename(a, strcmp(path, "-") == 0 ? NULL : path, COPY_CHUNK) !=
        ARCHIVE_OK) {
        r = complain("%s: %s", path, archive_error_string(a));
    } else {
        r = read_entries(f, a);
    }
    archive_read_free(a);
    return r;
}

struct archive_files *files_open(const char *path, int tmp)
{
    struct archive_files *f = calloc(1, sizeof(*f));
    struct stat st;

    if (!f) {
        complain("out of memory");
        return NULL;
    }
    f->dir = -1;
    f->is_folder = strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (f->is_folder) {
        f->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } else if (mkdirat(tmp, "files", 0700) == 0) {
        f->dir = openat(tmp, "files", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (f->dir < 0) {
        complain("%s: %s", path, strerror(errno));
    } else if (f->is_folder || read_archive(f, path) == 0) {
        return f;
    }
    files_close(f);
    return NULL;
}

void files_close(struct archive_files *f)
{
    for (size_t i = 0; i < f->n; i++) {
        free(f->blobs[i].name);
        free(f->blobs[i].link);
    }
    if (f->dir >= 0) {
        close(f->dir);
    }
    free(f->blobs);
    free(f);
}

/* The last one of a name counts, as when an archive is unpacked. */
static int get_blob(struct archive_files *f, const char *name, int links)
{
    char file[32];

    for (size_t i = f->n; i > 0; i--) {
        const struct blob *b = &f->blobs[i - 1];

        if (strcmp(b->name, name) != 0) {
            continue;
        }
        if (b->link && links < LINKS_MAX) {
            return get_blob(f, b->link, links + 1);
        }
        snprintf(file, sizeof(file), "%zu", i - 1);
        return openat(f->dir, file, O_RDONLY | O_CLOEXEC);
    }
    errno = ENOENT;
    return -1;
}

int files_get(struct archive_files *f, const char *name)
{
    const struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                                  .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };

    return f->is_folder ? (int)syscall(SYS_openat2, f->dir, name, &how, sizeof(how))
                        : get_blob(f, name, 0);
}

json_t *files_json(struct archive_files *f, const char *name, char ret_hash[STORE_HEX + 1])
{
    int fd = files_get(f, name);
    char *text = malloc(STORE_CONFIG_MAX + 1);
    size_t len = 0;
    ssize_t n = 0;
    json_t *ret = NULL;

    while (fd >= 0 && text && len <= STORE_CONFIG_MAX &&
           (n = read(fd, text + len, STORE_CONFIG_MAX + 1 - len)) > 0) {
        len += (size_t)n;
    }
    if (fd >= 0 && text && n == 0 && len <= STORE_CONFIG_MAX) {
        ret = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
        if (ret_hash) {
            store_hash(text, len, ret_hash);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    free(text);
    return ret;
}
