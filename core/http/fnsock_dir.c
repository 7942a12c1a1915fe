/* Directories of the containers' sockets: making, mounting, locking.
 *
 * A process makes its own directory under a temporary name, locks a file in it and only then gives
 * the directory its real name: whoever finds a lock that can be taken there has found a dead one.
 *
 * Only root and the node's user pass through the upper one, unless functions have to.
 *
 * A tmpfs on each container's directory bounds what its function can write. It only serves where
 * the engine sees mounts of this node. Nobody can ask an engine that, so until the first socket
 * appeared in a tmpfs the directory beneath is looked at too: a socket there says that functions do
 * not see the tmpfs, and with FNSOCK_TMPFS_AUTO the node does without from then on. */
#include <http/fnsock_int.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEW_PREFIX ".fnd-iofs-new-"
#define ID_MAX     64

/* ---- one container's directory -------------------------------------------------------------- */

static int random_hex(char *ret, size_t bytes)
{
    unsigned char raw[16];

    if (getrandom(raw, bytes, 0) != (ssize_t)bytes) {
        return FN_E_INTERNAL;
    }
    for (size_t i = 0; i < bytes; i++) {
        snprintf(ret + 2 * i, 3, "%02x", raw[i]);
    }
    return 0;
}

/* The name carries a random part, so that none is used twice. It keeps nobody out: /proc tells
 * every local user what is mounted, and the addresses of unix sockets. */
static char *dir_name(const char *container_id)
{
    char id[ID_MAX + 1];
    char suffix[17];
    size_t n = 0;
    char *name;

    for (; n < ID_MAX && container_id[n]; n++) {
        bool plain = parse_is_token_char(container_id[n]) && container_id[n] != '.';

        id[n] = plain ? container_id[n] : '_';
    }
    id[n] = '\0';
    if (random_hex(suffix, 8) < 0 || asprintf(&name, "iofs%s.%s", id, suffix) < 0) {
        return NULL;
    }
    return name;
}

static int mount_tmpfs(const struct fnsocks *all, const char *path)
{
    const struct fnsock_config *config = &all->config;
    char *opts;
    int r;

    if (asprintf(&opts, "mode=0700,size=%" PRIu64 ",nr_inodes=%" PRIu64 "%s%s",
                 config->dir_bytes_max, config->dir_inodes_max, *all->tmpfs_opts ? "," : "",
                 all->tmpfs_opts) < 0) {
        return -ENOMEM;
    }
    r = mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, opts) < 0 ? -errno : 0;
    free(opts);
    return r;
}

static void no_tmpfs(struct fnsocks *all, const char *why)
{
    all->config.tmpfs = FNSOCK_TMPFS_OFF;
    log_warn("socket directories get no tmpfs: their sizes are only measured, and containers that "
             "fill theirs are ended", "reason", why, "dir", all->instance_dir);
}

/* Only a machine that lacks the right or the means does without; a lack of memory is no verdict. */
static bool cannot_mount(int r)
{
    return r == -EPERM || r == -EACCES || r == -ENOSYS || r == -ENODEV;
}

static int cover(struct fnsock *f, struct fn_error *reterr)
{
    struct fnsocks *all = f->all;
    struct iofs_dir *d = f->d;
    int r = mount_tmpfs(all, d->path);

    if (r < 0 && all->config.tmpfs == FNSOCK_TMPFS_AUTO && cannot_mount(r)) {
        no_tmpfs(all, strerror(-r));
        return 0;
    }
    if (r < 0) {
        return err_set(reterr, err_from_errno(-r), "iofs: cannot mount a tmpfs on %s: %s", d->path,
                       strerror(-r));
    }
    d->mounted = true;
    if (all->config.tmpfs == FNSOCK_TMPFS_AUTO && !all->tmpfs_seen) {
        d->covered_fd = d->fd;
    } else {
        close(d->fd);
    }
    d->fd = -1;
    return 0;
}

static int open_dir(struct fnsock *f, struct fn_error *reterr)
{
    f->d->fd = openat(f->all->instance_fd, f->d->name,
                      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return f->d->fd >= 0 ? 0 : err_set(reterr, err_from_errno(errno), "iofs: %s: %s", f->d->path,
                                       strerror(errno));
}

int fnsock_dir_make(struct fnsock *f, const char *container_id, struct fn_error *reterr)
{
    struct fnsocks *all = f->all;
    struct iofs_dir *d = calloc(1, sizeof(*d));
    int r;

    if (!d) {
        return err_set(reterr, FN_E_EXHAUSTED, "iofs: out of memory");
    }
    *d = (struct iofs_dir){ .fd = -1, .covered_fd = -1, .owner = f };
    d->name = dir_name(container_id);
    if (!d->name || asprintf(&d->path, "%s/%s", all->instance_dir, d->name) < 0 ||
        asprintf(&f->engine_dir, "%s/%s/%s", all->engine_path, all->instance, d->name) < 0) {
        free(d->path);
        free(d->name);
        free(d);
        return err_set(reterr, FN_E_EXHAUSTED, "iofs: out of memory");
    }
    f->d = d;
    if (mkdirat(all->instance_fd, d->name, 0700) < 0) {
        return err_set(reterr, err_from_errno(errno), "iofs: %s: %s", d->path, strerror(errno));
    }
    r = open_dir(f, reterr);
    if (r == 0 && all->config.tmpfs != FNSOCK_TMPFS_OFF) {
        r = cover(f, reterr);
    }
    if (r == 0 && d->fd < 0) {
        r = open_dir(f, reterr);
    }
    return r;
}

int fnsock_dir_open(struct fnsock *f, struct fn_error *reterr)
{
    struct iofs_dir *d = f->d;

    if (!f->all->config.private_dirs &&
        (fchmod(d->fd, 0777) < 0 || (d->covered_fd >= 0 && fchmod(d->covered_fd, 0777) < 0))) {
        return err_set(reterr, err_from_errno(errno), "iofs: chmod of %s: %s", d->path,
                       strerror(errno));
    }
    if (!d->mounted) {
        fnsock_measure(f->all, d);
    }
    return 0;
}

bool fnsock_dir_uncover(struct fnsock *f)
{
    struct fnsocks *all = f->all;
    struct iofs_dir *d = f->d;
    struct stat st;

    if (d->covered_fd < 0 ||
        fstatat(d->covered_fd, FNSOCK_NAME, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return false;
    }
    if (all->config.tmpfs != FNSOCK_TMPFS_OFF) {
        no_tmpfs(all, "the container engine does not see what this node mounts");
    }
    umount2(d->path, MNT_DETACH | UMOUNT_NOFOLLOW); /* empty: nobody sees it */
    close(d->fd);
    d->fd = d->covered_fd;
    d->covered_fd = -1;
    d->mounted = false;
    fnsock_measure(all, d);
    return true;
}

void fnsock_dir_seen(struct fnsock *f)
{
    if (f->d->covered_fd >= 0) {
        close(f->d->covered_fd);
        f->d->covered_fd = -1;
        f->all->tmpfs_seen = true;
    }
}

void fnsock_dir_remove(struct fnsock *f)
{
    if (f->d) {
        bin_put(f->all->bin, f->d);
    }
    free(f->engine_dir);
}

/* ---- the process's directory ---------------------------------------------------------------- */

static const char *iofs_path(const struct fnsock_config *config)
{
    const char *tmp = getenv("TMPDIR");

    if (config->iofs_path && *config->iofs_path) {
        return config->iofs_path;
    }
    return tmp && *tmp ? tmp : "/tmp";
}

static int make_instance(struct fnsocks *all, struct fn_error *reterr)
{
    const char *text = all->instance + strlen(INSTANCE_PREFIX);
    char fresh[64];
    int base_fd = open(all->iofs_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (base_fd < 0) {
        return err_set(reterr, err_from_errno(errno), "iofs: %s: %s", all->iofs_path,
                       strerror(errno));
    }
    memcpy(all->instance, INSTANCE_PREFIX, sizeof(INSTANCE_PREFIX));
    if (random_hex(all->instance + strlen(INSTANCE_PREFIX), 8) < 0) {
        close(base_fd);
        return err_set(reterr, FN_E_INTERNAL, "iofs: no randomness");
    }
    snprintf(fresh, sizeof(fresh), NEW_PREFIX "%s", text);
    if (mkdirat(base_fd, fresh, 0700) == 0) {
        all->instance_fd = openat(base_fd, fresh, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (all->instance_fd >= 0) {
        all->lock_fd = openat(all->instance_fd, IOFS_LOCK_NAME,
                              O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    /* What functions get mounted is mounted by root, or by this user. */
    if (all->lock_fd < 0 || flock(all->lock_fd, LOCK_EX | LOCK_NB) < 0 ||
        fchmod(all->instance_fd, all->config.by_path ? 0711 : 0700) < 0 ||
        renameat(base_fd, fresh, base_fd, all->instance) < 0) {
        err_set(reterr, err_from_errno(errno), "iofs: cannot make %s/%s: %s", all->iofs_path,
                all->instance, strerror(errno));
        unlinkat(base_fd, fresh, AT_REMOVEDIR);
        close(base_fd);
        return FN_E_UNAVAILABLE;
    }
    close(base_fd);
    return 0;
}

static int start_bin(struct fnsocks *all, struct fn_error *reterr)
{
    const struct bin_config config = { .base = all->iofs_path,
                                       .instance = all->instance,
                                       .instance_fd = all->instance_fd,
                                       .lock_fd = all->lock_fd,
                                       .bytes_max = all->config.dir_bytes_max,
                                       .inodes_max = all->config.dir_inodes_max };

    if (bin_create(&config, &all->bin) < 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "iofs: no memory or thread to remove directories");
    }
    all->lock_fd = -1;
    return 0;
}

int fnsock_dir_start(struct fnsocks *all, struct fn_error *reterr)
{
    const struct fnsock_config *config = &all->config;
    int r;

    all->iofs_path = realpath(iofs_path(config), NULL);
    if (!all->iofs_path && errno == ENOENT && mkdir(iofs_path(config), 0755) == 0) {
        all->iofs_path = realpath(iofs_path(config), NULL);
    }
    if (!all->iofs_path) {
        return err_set(reterr, err_from_errno(errno), "iofs: %s: %s", iofs_path(config),
                       strerror(errno));
    }
    all->engine_path = strdup(config->engine_path && *config->engine_path ? config->engine_path
                                                                          : all->iofs_path);
    all->tmpfs_opts = strdup(config->tmpfs_opts ? config->tmpfs_opts : "");
    if (!all->engine_path || !all->tmpfs_opts) {
        return err_set(reterr, FN_E_EXHAUSTED, "iofs: out of memory");
    }
    r = make_instance(all, reterr);
    if (r < 0) {
        return r;
    }
    if (asprintf(&all->instance_dir, "%s/%s", all->iofs_path, all->instance) < 0) {
        all->instance_dir = NULL;
        return err_set(reterr, FN_E_EXHAUSTED, "iofs: out of memory");
    }
    return start_bin(all, reterr);
}

/* Without a bin nothing was made but the directory itself, whose lock is free when we are gone. */
void fnsock_dir_stop(struct fnsocks *all)
{
    bin_destroy(all->bin);
    if (all->lock_fd >= 0) {
        close(all->lock_fd);
    }
    if (all->instance_fd >= 0) {
        close(all->instance_fd);
    }
    free(all->instance_dir);
    free(all->iofs_path);
    free(all->engine_path);
    free(all->tmpfs_opts);
}
