/* Files of both versions of cgroups behind one set of functions: making a group, setting its
 * limits, killing, freezing, removing, and sweeping what dead nodes left. */
#include <loop/cgroup.h>
#include <base/err.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROOT           "/sys/fs/cgroup"
#define CPU_PERIOD_US  100000
#define KILL_ROUNDS    50
#define MARK_WORD      "alive"
#define MARK_END       "-" MARK_WORD
#define MARK_TRIES     10
#define MARK_MODE      0700 /* whoever can open it can lock it: what has died would seem alive */
#define REMOVE_STEP_MS 5

static const char *const controllers[CGROUP_DIRS_MAX] = { "freezer", "memory", "pids", "cpu" };

/* ---- files ----------------------------------------------------------------------------------- */

static int cgroup_put(const char *dir, const char *file, const char *text)
{
    char path[CGROUP_PATH_MAX + 64];
    ssize_t n;
    int fd;
    int err;

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    do {
        n = write(fd, text, strlen(text));
    } while (n < 0 && errno == EINTR);
    err = errno;
    close(fd);
    return n < 0 ? -err : 0;
}

static int put_u64(const char *dir, const char *file, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    return cgroup_put(dir, file, text);
}

/* The file's text, NUL-terminated; "" and -errno when it cannot be opened. */
static int get(const char *path, char *ret, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n;

    ret[0] = '\0';
    if (fd < 0) {
        return -errno;
    }
    while (len + 1 < cap &&
           ((n = read(fd, ret + len, cap - 1 - len)) > 0 || (n < 0 && errno == EINTR))) {
        len += n > 0 ? (size_t)n : 0;
    }
    ret[len] = '\0';
    close(fd);
    return 0;
}

/* ---- what the machine offers ----------------------------------------------------------------- */

static bool is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The node's own cgroup in the hierarchy of a v1 controller: lines are "4:memory:/path". "" is the
 * root, where it is told nothing; -errno when it could not look. */
static int own_path(const char *controller, char *ret, size_t cap)
{
    char text[8192];
    char *line, *next, *names, *path, *word, *save;
    int r = get("/proc/self/cgroup", text, sizeof(text));

    ret[0] = '\0';
    for (line = text; *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next) {
            *next++ = '\0';
        }
        names = strchr(line, ':');
        path = names ? strchr(names + 1, ':') : NULL;
        if (!path) {
            continue;
        }
        *path++ = '\0';
        for (word = strtok_r(names + 1, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
            if (strcmp(word, controller) == 0) {
                snprintf(ret, cap, "%s", strcmp(path, "/") == 0 ? "" : path);
                return r;
            }
        }
    }
    return r;
}

/* 0 or the -errno of a moment that cannot tell, as in detect_v2(). */
static int detect_v1(struct cgroup_base *b)
{
    char own[CGROUP_PATH_MAX - 64];
    char dir[CGROUP_PATH_MAX];

    for (int i = 0; i < CGROUP_DIRS_MAX; i++) {
        int r = own_path(controllers[i], own, sizeof(own));

        if (err_passes(-r)) {
            return r;
        }
        snprintf(dir, sizeof(dir), ROOT "/%s%s", controllers[i], own);
        if (!is_dir(dir)) {
            snprintf(dir, sizeof(dir), ROOT "/%s", controllers[i]);
        }
        if (is_dir(dir)) {
            snprintf(b->dir[i], sizeof(b->dir[i]), "%.*s/fnd", CGROUP_PATH_MAX - 8, dir);
            if (mkdir(b->dir[i], 0755) < 0 && errno != EEXIST) {
                if (err_passes(errno)) {
                    return -errno;
                }
                b->dir[i][0] = '\0';
            }
        }
    }
    b->usable = b->dir[CGROUP_FREEZER][0] != '\0' && access(b->dir[CGROUP_FREEZER], W_OK) == 0;
    return 0;
}

static int detect_v2(struct cgroup_base *b)
{
    static const char *const wanted[] = { "+memory", "+pids", "+cpu", NULL };
    int r;

    b->v2 = true;
    snprintf(b->dir[0], sizeof(b->dir[0]), ROOT "/fnd");
    if (mkdir(b->dir[0], 0755) < 0 && errno != EEXIST) {
        return err_passes(errno) ? -errno : 0;
    }
    for (const char *const *w = wanted; *w; w++) {
        r = cgroup_put(ROOT, "cgroup.subtree_control", *w);
        if (!err_passes(-r)) {
            r = cgroup_put(b->dir[0], "cgroup.subtree_control", *w);
        }
        if (err_passes(-r)) {
            return r;
        }
    }
    b->usable = access(b->dir[0], W_OK) == 0;
    return 0;
}

int cgroup_detect(struct cgroup_base *ret, struct fn_error *reterr)
{
    bool v2 = access(ROOT "/cgroup.controllers", F_OK) == 0;
    int r;

    memset(ret, 0, sizeof(*ret));
    r = v2 ? detect_v2(ret) : detect_v1(ret);
    return r == 0 ? 0 : err_set(reterr, FN_E_EXHAUSTED, "cgroups: cannot look which there are: %s",
                                strerror(-r));
}

/* ---- one cgroup ------------------------------------------------------------------------------ */

static bool has_file(const char *dir, const char *file)
{
    char path[CGROUP_PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    return access(path, F_OK) == 0;
}

#define WEIGHT_MAX 10000u

/* As container engines translate them, so that 1024 is the same beside their containers. */
static uint64_t weight_of(uint64_t shares)
{
    return 1 + (shares - CGROUP_SHARES_MIN) * (WEIGHT_MAX - 1) /
                   (CGROUP_SHARES_MAX - CGROUP_SHARES_MIN);
}

static int set_v1(struct cgroup *g, const struct fn_proc_spec *s)
{
    int r = 0;

    if (g->has_memory && s->mem_bytes) {
        r = put_u64(g->dir[CGROUP_MEMORY], "memory.limit_in_bytes", s->mem_bytes);
        put_u64(g->dir[CGROUP_MEMORY], "memory.memsw.limit_in_bytes", s->mem_bytes);
        cgroup_put(g->dir[CGROUP_MEMORY], "memory.swappiness", "0");
    }
    if (r == 0 && g->dir[CGROUP_PIDS][0] && s->pids_max) {
        r = put_u64(g->dir[CGROUP_PIDS], "pids.max", s->pids_max);
    }
    if (r == 0 && g->dir[CGROUP_CPU][0] && s->cpu_milli) {
        put_u64(g->dir[CGROUP_CPU], "cpu.cfs_period_us", CPU_PERIOD_US);
        r = put_u64(g->dir[CGROUP_CPU], "cpu.cfs_quota_us", s->cpu_milli * (CPU_PERIOD_US / 1000));
    }
    if (r == 0 && g->dir[CGROUP_CPU][0] && s->cpu_shares) {
        r = put_u64(g->dir[CGROUP_CPU], "cpu.shares", s->cpu_shares);
    }
    return r;
}

static int set_v2(struct cgroup *g, const struct fn_proc_spec *s)
{
    char text[64];
    int r = 0;

    if (g->has_memory && s->mem_bytes) {
        r = put_u64(g->dir[0], "memory.max", s->mem_bytes);
        cgroup_put(g->dir[0], "memory.swap.max", "0");
    }
    if (r == 0 && s->pids_max && has_file(g->dir[0], "pids.max")) {
        r = put_u64(g->dir[0], "pids.max", s->pids_max);
    }
    if (r == 0 && s->cpu_milli && has_file(g->dir[0], "cpu.max")) {
        snprintf(text, sizeof(text), "%" PRIu64 " %d", s->cpu_milli * (CPU_PERIOD_US / 1000),
                 CPU_PERIOD_US);
        r = cgroup_put(g->dir[0], "cpu.max", text);
    }
    if (r == 0 && s->cpu_shares && has_file(g->dir[0], "cpu.weight")) {
        r = put_u64(g->dir[0], "cpu.weight", weight_of(s->cpu_shares));
    }
    return r;
}

static void name_dirs(const struct cgroup_base *base, const char *name, struct cgroup *g)
{
    memset(g, 0, sizeof(*g));
    g->v2 = base->v2;
    for (int i = 0; i < CGROUP_DIRS_MAX; i++) {
        if (base->dir[i][0]) {
            snprintf(g->dir[i], sizeof(g->dir[i]), "%.*s/%s", CGROUP_PATH_MAX - 160, base->dir[i],
                     name);
        }
    }
}

static bool name_ok(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n <= 128 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

int cgroup_make(const struct cgroup_base *base, const char *name, const struct fn_proc_spec *spec,
                struct cgroup *ret, struct fn_error *reterr)
{
    struct cgroup g;
    int r;

    if (!name_ok(name)) {
        return err_set(reterr, FN_E_INVALID,
                       "cgroup name, got \"%.60s\"; expected [a-z0-9-]{1,128}", name);
    }
    name_dirs(base, name, &g);
    for (int i = 0; i < CGROUP_DIRS_MAX; i++) {
        if (g.dir[i][0] && mkdir(g.dir[i], 0755) < 0 && errno != EEXIST) {
            r = errno;
            cgroup_remove(&g);
            return err_set(reterr, err_from_errno(r), "cgroup %.100s: %s", g.dir[i], strerror(r));
        }
    }
    g.has_memory = g.v2 ? has_file(g.dir[0], "memory.max") : g.dir[CGROUP_MEMORY][0] != '\0';
    r = g.v2 ? set_v2(&g, spec) : set_v1(&g, spec);
    if (r < 0) {
        cgroup_remove(&g);
        return err_set(reterr, err_from_errno(-r), "cgroup %.80s: a limit cannot be set: %s", name,
                       strerror(-r));
    }
    *ret = g;
    return 0;
}

/* Sends SIGKILL to every process of a directory; returns how many there were. Without memory of its
 * own: what is not killed is never gone. */
static int kill_all(const char *dir)
{
    char path[CGROUP_PATH_MAX + 64];
    char text[4096];
    pid_t pid = 0;
    ssize_t len;
    int n = 0;
    int fd;

    snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && ((len = read(fd, text, sizeof(text))) > 0 || (len < 0 && errno == EINTR))) {
        for (ssize_t i = 0; i < len; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
            } else if (pid > 0) {
                kill(pid, SIGKILL);
                n++;
                pid = 0;
            }
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return n;
}

/* Frozen processes of v1 die only when thawed, also those that somebody else has killed. A process
 * may fork while we read: again until none is left; those that are dying already count, so the
 * rounds are bounded. */
void cgroup_kill(const struct cgroup *g)
{
    int n = 1;

    if (g->v2 && cgroup_put(g->dir[0], "cgroup.kill", "1") == 0) {
        return;
    }
    for (int i = 0; i < KILL_ROUNDS && n > 0; i++) {
        n = kill_all(g->dir[0]);
        cgroup_freeze(g, false, NULL);
    }
}

int cgroup_freeze(const struct cgroup *g, bool on, struct fn_error *reterr)
{
    int r = g->v2 ? cgroup_put(g->dir[0], "cgroup.freeze", on ? "1" : "0")
                  : cgroup_put(g->dir[CGROUP_FREEZER], "freezer.state", on ? "FROZEN" : "THAWED");

    return r < 0 ? err_set(reterr, err_from_errno(-r), "cgroup %.100s: cannot %s: %s", g->dir[0],
                           on ? "freeze" : "thaw", strerror(-r))
                 : 0;
}

bool cgroup_oom_killed(const struct cgroup *g)
{
    char path[CGROUP_PATH_MAX + 64];
    char text[1024];
    char *word;

    if (!g->has_memory) {
        return false;
    }
    snprintf(path, sizeof(path), "%s/%s", g->v2 ? g->dir[0] : g->dir[CGROUP_MEMORY],
             g->v2 ? "memory.events" : "memory.oom_control");
    get(path, text, sizeof(text));
    word = strstr(text, "oom_kill ");
    return word && strtol(word + strlen("oom_kill "), NULL, 10) > 0;
}

bool cgroup_remove(const struct cgroup *g)
{
    const struct timespec step = { 0, REMOVE_STEP_MS * 1000000L };
    int waited_ms = 0;
    bool gone = true;

    for (int i = 0; i < CGROUP_DIRS_MAX; i++) {
        while (g->dir[i][0] && rmdir(g->dir[i]) < 0 && errno == EBUSY &&
               waited_ms < CGROUP_REMOVE_MS) {
            nanosleep(&step, NULL);
            waited_ms += REMOVE_STEP_MS;
        }
        gone &= !g->dir[i][0] || access(g->dir[i], F_OK) < 0;
    }
    return gone;
}

/* ---- sweeping -------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t k = strlen(end);

    return n >= k && strcmp(text + n - k, end) == 0;
}

/* Opens and locks a mark; -1 when it is held, or not there. */
static int mark_lock(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Of another node with the same prefix, which holds its mark: "<prefix><instance>-alive". */
static bool is_alive(const struct cgroup_base *base, const char *name, const char *prefix)
{
    size_t n = strlen(prefix) + strcspn(name + strlen(prefix), "-");
    char mark[NAME_MAX + sizeof(MARK_END)];
    struct cgroup g;
    int fd;

    snprintf(mark, sizeof(mark), "%.*s" MARK_END, (int)n, name);
    name_dirs(base, mark, &g);
    if (access(g.dir[0], F_OK) < 0) {
        return false;
    }
    fd = mark_lock(g.dir[0]);
    if (fd >= 0) {
        close(fd);
    }
    return fd < 0;
}

/* Removes every cgroup that begins with `prefix`; with `keep`, not those that begin so, nor those
 * of nodes that live. */
static int remove_all(const struct cgroup_base *base, const char *prefix, const char *keep,
                      uint32_t *ret_removed, struct fn_error *reterr)
{
    struct dirent *e;
    struct cgroup g;
    DIR *d = opendir(base->dir[0]);
    int r = 0;

    if (!d) {
        return err_set(reterr, err_from_errno(errno), "cgroup %.100s: %s", base->dir[0],
                       strerror(errno));
    }
    while ((e = readdir(d))) {
        if (!name_ok(e->d_name) || strncmp(e->d_name, prefix, strlen(prefix)) != 0 ||
            ends_with(e->d_name, MARK_END) ||
            (keep && (strncmp(e->d_name, keep, strlen(keep)) == 0 ||
                      is_alive(base, e->d_name, prefix)))) {
            continue;
        }
        name_dirs(base, e->d_name, &g);
        cgroup_kill(&g);
        if (cgroup_remove(&g)) {
            ++*ret_removed;
        } else {
            r = err_set(reterr, FN_E_UNAVAILABLE, "cgroup %.100s: killed, but not gone", e->d_name);
        }
    }
    closedir(d);
    return r;
}

/* The mark goes last: what is left when we die meanwhile is found by the next one. */
static int remove_dead(const struct cgroup_base *base, const char *mark, uint32_t *ret_removed,
                       struct fn_error *reterr)
{
    struct cgroup g;
    char prefix[NAME_MAX + 1];
    int r, fd;

    name_dirs(base, mark, &g);
    fd = mark_lock(g.dir[0]);
    if (fd < 0) {
        return 0;
    }
    snprintf(prefix, sizeof(prefix), "%.*s", (int)(strlen(mark) - strlen(MARK_END) + 1), mark);
    r = remove_all(base, prefix, NULL, ret_removed, reterr);
    if (r == 0) {
        rmdir(g.dir[0]);
    }
    close(fd);
    return r;
}

/* One whose processes do not go keeps no other from its end. */
static int sweep_dead(const struct cgroup_base *base, uint32_t *ret_removed,
                      struct fn_error *reterr)
{
    DIR *d = opendir(base->dir[0]);
    struct dirent *e;
    int r = 0;

    if (!d) {
        return err_set(reterr, err_from_errno(errno), "cgroup %.100s: %s", base->dir[0],
                       strerror(errno));
    }
    while ((e = readdir(d))) {
        if (name_ok(e->d_name) && ends_with(e->d_name, MARK_END)) {
            int one = remove_dead(base, e->d_name, ret_removed, reterr);

            r = r < 0 ? r : one;
        }
    }
    closedir(d);
    return r;
}

int cgroup_sweep(const struct cgroup_base *base, const char *prefix, const char *keep,
                 uint32_t *ret_removed, struct fn_error *reterr)
{
    uint32_t n = 0;
    int r = 0;

    if (base->usable) {
        int others = sweep_dead(base, &n, reterr);

        r = remove_all(base, prefix, keep, &n, reterr);
        r = r < 0 ? r : others;
    }
    if (r == 0) {
        *ret_removed = n;
    }
    return r;
}

int cgroup_mark(const struct cgroup_base *base, const char *keep, struct cgroup_mark *ret,
                struct fn_error *reterr)
{
    struct stat ours, named;
    struct cgroup g;
    char name[NAME_MAX + 1];

    if (!base->usable) {
        return 0;
    }
    if (snprintf(name, sizeof(name), "%s" MARK_WORD, keep) >= (int)sizeof(name) ||
        !name_ok(name)) {
        return err_set(reterr, FN_E_INVALID, "cgroup name, got \"%.60s\"; expected [a-z0-9-]{1,128}",
                       name);
    }
    name_dirs(base, name, &g);
    for (int i = 0; i < MARK_TRIES; i++) { /* a sweeper may take it before we have locked it */
        if (mkdir(g.dir[0], MARK_MODE) < 0 && errno != EEXIST) {
            break;
        }
        ret->fd = mark_lock(g.dir[0]);
        if (ret->fd >= 0 && fstat(ret->fd, &ours) == 0 && stat(g.dir[0], &named) == 0 &&
            ours.st_ino == named.st_ino) {
            memcpy(ret->dir, g.dir[0], sizeof(ret->dir));
            return 0;
        }
        if (ret->fd >= 0) {
            close(ret->fd);
            ret->fd = -1;
        }
    }
    return err_set(reterr, FN_E_UNAVAILABLE, "cgroup %.100s: cannot be made and locked", g.dir[0]);
}

void cgroup_unmark(struct cgroup_mark *m)
{
    if (m->fd >= 0) {
        rmdir(m->dir);
        close(m->fd);
        m->fd = -1;
    }
}
