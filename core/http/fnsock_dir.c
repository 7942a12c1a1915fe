/* Directories of the containers' sockets: making, locking, removing, sweeping.
 *
 * A process makes its own directory under a temporary name, locks a file in it and only then gives
 * the directory its real name: whoever finds a lock that can be taken there has found a dead one.
 *
 * Functions may leave anything behind. Trees are removed without recursion: what is found in a
 * subdirectory is moved up first, so that depth costs neither stack nor descriptors. Anything that
 * is not quickly done happens on a worker lane. */
#include <http/fnsock_int.h>

#include <dirent.h>
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

#define INSTANCE_PREFIX "fnd-iofs-" /* what begins so and holds a lock file is ours to remove */
#define NEW_PREFIX      ".fnd-iofs-new-"
#define LOCK_NAME       ".lock"
#define ID_MAX          64
#define QUICK_ENTRIES   16
#define ALL_ENTRIES     UINT64_MAX
#define MOVED_NAME      ".gone%" PRIu64

#define TMPFS_BYTES  (1 << 20)
#define TMPFS_INODES 64

/* ---- removing ------------------------------------------------------------------------------- */

static DIR *open_dir(int parent_fd, const char *name)
{
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

    if (!d && fd >= 0) {
        close(fd);
    }
    return d;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Removes `name` in `top`, a directory's content being moved into `top` first. true: something was
 * moved, so that another round is needed. `names` makes the new names differ; `left` counts down
 * the entries that may still be looked at. */
static bool remove_entry(int top_fd, const char *name, uint64_t *names, uint64_t *left)
{
    char moved[32];
    struct dirent *e;
    bool any = false;
    DIR *d;

    if (unlinkat(top_fd, name, 0) == 0 || unlinkat(top_fd, name, AT_REMOVEDIR) == 0) {
        return false;
    }
    d = open_dir(top_fd, name);
    while (d && *left > 0 && (e = readdir(d))) {
        --*left;
        if (is_dots(e->d_name) || unlinkat(dirfd(d), e->d_name, 0) == 0) {
            continue;
        }
        snprintf(moved, sizeof(moved), MOVED_NAME, (*names)++);
        any |= renameat(dirfd(d), e->d_name, top_fd, moved) == 0;
    }
    if (d) {
        closedir(d);
    }
    unlinkat(top_fd, name, AT_REMOVEDIR);
    return any;
}

/* Removes the directory `name` with all it holds. 0, or FN_E_ABORTED when it holds more than `left`
 * entries, at any depth, or something could not be removed. */
static int remove_tree(int parent_fd, const char *name, uint64_t left)
{
    uint64_t names = 0;
    struct dirent *e;
    bool lock_too = false;
    bool moved, again;
    DIR *top;

    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
        return 0;
    }
    top = open_dir(parent_fd, name);
    if (!top) {
        return FN_E_ABORTED;
    }
    do {
        moved = false;
        rewinddir(top);
        while (left > 0 && (e = readdir(top))) {
            left--;
            if (!is_dots(e->d_name) && (lock_too || strcmp(e->d_name, LOCK_NAME) != 0)) {
                moved |= remove_entry(dirfd(top), e->d_name, &names, &left);
            }
        }
        again = moved || !lock_too;
        lock_too = !moved; /* last: whoever finds the rest must know it for ours */
    } while (again && left > 0);
    closedir(top);
    return unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 ? 0 : FN_E_ABORTED;
}

struct removal {
    struct env_work work;
    int parent_fd;
    char name[];
};

static void removal_run(struct env_work *w, struct fn_op *op)
{
    struct removal *r = container_of(w, struct removal, work);

    (void)op;
    if (remove_tree(r->parent_fd, r->name, ALL_ENTRIES) < 0) {
        log_warn("socket directory was not removed", "dir", r->name);
    }
}

static void removal_done(struct env_work *w)
{
    struct removal *r = container_of(w, struct removal, work);

    close(r->parent_fd);
    free(r);
}

static void remove_on_lane(struct fnsocks *all, const char *name)
{
    struct removal *r = calloc(1, sizeof(*r) + strlen(name) + 1);

    if (!r) {
        return; /* the next start sweeps it */
    }
    memcpy(r->name, name, strlen(name) + 1);
    r->parent_fd = fcntl(all->instance_fd, F_DUPFD_CLOEXEC, 0);
    r->work = (struct env_work){ .run = removal_run, .done = removal_done, .lane = ENV_LANE_SLOW };
    if (r->parent_fd < 0 || env_submit(all->env, &r->work) < 0) {
        removal_done(&r->work);
    }
}

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

/* The name carries a random part: the path is reachable for other local users, who must not guess
 * it. */
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

static int mount_tmpfs(struct fnsock *f, struct fn_error *reterr)
{
    const struct fnsock_config *config = &f->all->config;
    const char *more = f->all->tmpfs_opts;
    char *opts;
    int r;

    if (asprintf(&opts, "mode=0700,size=%" PRIu64 ",nr_inodes=%" PRIu64 "%s%s",
                 config->tmpfs_bytes ? config->tmpfs_bytes : TMPFS_BYTES,
                 config->tmpfs_inodes ? config->tmpfs_inodes : TMPFS_INODES, *more ? "," : "",
                 more) < 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "iofs: out of memory");
    }
    r = mount("tmpfs", f->dir, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, opts);
    free(opts);
    if (r < 0) {
        return err_set(reterr, err_from_errno(errno), "iofs: cannot mount a tmpfs on %s: %s",
                       f->dir, strerror(errno));
    }
    f->mounted = true;
    return 0;
}

int fnsock_dir_make(struct fnsock *f, const char *container_id, struct fn_error *reterr)
{
    struct fnsocks *all = f->all;
    int r;

    f->name = dir_name(container_id);
    if (!f->name || asprintf(&f->dir, "%s/%s", all->instance_dir, f->name) < 0 ||
        asprintf(&f->engine_dir, "%s/%s/%s", all->engine_path, all->instance, f->name) < 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "iofs: out of memory");
    }
    if (mkdirat(all->instance_fd, f->name, 0700) < 0) {
        return err_set(reterr, err_from_errno(errno), "iofs: %s: %s", f->dir, strerror(errno));
    }
    if (all->config.tmpfs && (r = mount_tmpfs(f, reterr)) < 0) {
        return r;
    }
    f->dir_fd = openat(all->instance_fd, f->name,
                       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (f->dir_fd < 0) {
        return err_set(reterr, err_from_errno(errno), "iofs: %s: %s", f->dir, strerror(errno));
    }
    return 0;
}

int fnsock_dir_open(struct fnsock *f, struct fn_error *reterr)
{
    if (!f->all->config.private_dirs && fchmod(f->dir_fd, 0777) < 0) {
        return err_set(reterr, err_from_errno(errno), "iofs: chmod of %s: %s", f->dir,
                       strerror(errno));
    }
    return 0;
}

void fnsock_dir_remove(struct fnsock *f)
{
    if (f->dir_fd >= 0) {
        close(f->dir_fd);
    }
    if (f->mounted && umount2(f->dir, MNT_DETACH | UMOUNT_NOFOLLOW) < 0) {
        log_warn("tmpfs was not unmounted", "dir", f->dir, "error", strerror(errno));
    }
    if (f->name && remove_tree(f->all->instance_fd, f->name, QUICK_ENTRIES) < 0) {
        remove_on_lane(f->all, f->name);
    }
    free(f->name);
    free(f->dir);
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
        all->lock_fd = openat(all->instance_fd, LOCK_NAME,
                              O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    /* 0711: a function's process that is no container has to pass through */
    if (all->lock_fd < 0 || flock(all->lock_fd, LOCK_EX | LOCK_NB) < 0 ||
        fchmod(all->instance_fd, 0711) < 0 ||
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
    return 0;
}

void fnsock_dir_stop(struct fnsocks *all)
{
    int base_fd;

    if (all->instance_dir) {
        base_fd = open(all->iofs_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (base_fd >= 0) {
            remove_tree(base_fd, all->instance, ALL_ENTRIES);
            close(base_fd);
        }
    }
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

/* ---- sweeping ------------------------------------------------------------------------------- */

static void unmount_below(const char *base, const char *instance, int instance_fd)
{
    int fd = openat(instance_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;
    char path[4096];

    while (d && (e = readdir(d))) {
        if (!is_dots(e->d_name) && snprintf(path, sizeof(path), "%s/%s/%s", base, instance,
                                            e->d_name) < (int)sizeof(path)) {
            umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW); /* no mount there: fails, no matter */
        }
    }
    if (d) {
        closedir(d);
    } else if (fd >= 0) {
        close(fd);
    }
}

/* true when the directory belonged to a dead process of ours and is gone now. One without a lock
 * file may be anybody's: it goes only when it is empty. */
static bool sweep_one(const char *base, int base_fd, const char *name)
{
    struct stat st;
    bool dead = false;
    int lock_fd = -1;
    int fd = openat(base_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid()) {
        lock_fd = openat(fd, LOCK_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        dead = lock_fd >= 0 ? flock(lock_fd, LOCK_EX | LOCK_NB) == 0
                            : unlinkat(base_fd, name, AT_REMOVEDIR) == 0;
    }
    if (dead) {
        unmount_below(base, name, fd);
        dead = remove_tree(base_fd, name, ALL_ENTRIES) == 0;
    }
    if (lock_fd >= 0) {
        close(lock_fd);
    }
    if (fd >= 0) {
        close(fd);
    }
    return dead;
}

int fnsock_sweep(const struct fnsock_config *config, struct fn_error *reterr)
{
    const char *base = iofs_path(config);
    DIR *d = opendir(base);
    struct dirent *e;
    int removed = 0;

    if (!d && errno == ENOENT) {
        return 0;
    }
    if (!d) {
        return err_set(reterr, err_from_errno(errno), "iofs: %s: %s", base, strerror(errno));
    }
    while ((e = readdir(d))) {
        if (strncmp(e->d_name, INSTANCE_PREFIX, strlen(INSTANCE_PREFIX)) == 0 &&
            sweep_one(base, dirfd(d), e->d_name)) {
            log_info("removed the socket directory of a dead process", "dir", e->d_name);
            removed++;
        }
    }
    closedir(d);
    return removed;
}
