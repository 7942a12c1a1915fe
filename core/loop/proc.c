/* Children and the thread that watches them.
 *
 * A child is in the map from its spawn until its end was told; only the thread frees it, so kill
 * and freeze may use it under `lock`. The thread takes one event at a time: an event of a child
 * that an earlier event freed cannot be in its hands. An instance that goes waits on `changed`
 * until none of the map is its own, so that no callback comes into what it has freed. */
#include <loop/proc.h>
#include <loop/proc_int.h>
#include <loop/thread.h>
#include <base/err.h>
#include <base/log.h>
#include <base/view.h>
#include <plugin/plugin.h>

#include <base/table.h>
#include <errno.h>
#include <inttypes.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_CHUNK      65536
#define FLAGS_KNOWN                                                                                \
    (FN_PROC_NEW_PID | FN_PROC_NEW_MOUNT | FN_PROC_NEW_NET | FN_PROC_NEW_IPC | FN_PROC_NEW_UTS |   \
     FN_PROC_NO_NEW_PRIVS | FN_PROC_READONLY)
#define MARKS_MAX       4
#define LAST_READS_MAX  64 /* of output that is left when a child has ended */

enum watch_kind { WATCH_STOP, WATCH_END, WATCH_OUT, WATCH_ERR };

struct watch {
    enum watch_kind kind;
    int fd; /* -1 = closed */
    struct child *child;
};

struct child {
    uint64_t id;
    UT_hash_handle hh;
    const struct fn_host *host;
    struct fn_proc_cb cb;
    void *ud;
    pid_t pid;
    bool ended;  /* its pid is nobody's, or soon another's; under the lock */
    bool silent; /* its instance is no more: nothing is told; under the lock */
    bool has_cgroup;
    struct cgroup cgroup;
    struct watch end, out[2]; /* the thread's once watched */
};

struct proc {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a child left the map */
    struct child *children;
    uint64_t last_id;
    bool has_thread;
    pthread_t thread;
    int epoll_fd;
    struct watch stop;
    char chunk[READ_CHUNK]; /* the thread's: what it has read */
    /* constant: */
    uint32_t isolation;
    struct cgroup_base cgroups;
    pthread_mutex_t mark_lock; /* marks; held across file operations */
    struct cgroup_mark marks[MARKS_MAX];
    char *marked[MARKS_MAX]; /* names that they mark, NULL = free */
};

/* ---- the thread ------------------------------------------------------------------------------ */

static void watch_close(struct proc *p, struct watch *w)
{
    if (w->fd >= 0) {
        /* A child that is just being started may hold a copy of the descriptor, which would keep
         * the watch alive beyond close(). */
        epoll_ctl(p->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
        close(w->fd);
        w->fd = -1;
    }
}

static bool is_silent(struct proc *p, const struct child *c)
{
    bool silent;

    pthread_mutex_lock(&p->lock);
    silent = c->silent;
    pthread_mutex_unlock(&p->lock);
    return silent;
}

/* Reads once and reports; false when there was nothing. */
static bool read_output(struct proc *p, struct watch *w)
{
    struct child *c = w->child;
    struct plugin_crumb crumb;
    ssize_t n;

    if (w->fd < 0) {
        return false;
    }
    n = read(w->fd, p->chunk, sizeof(p->chunk));
    if (n > 0 && !is_silent(p, c)) {
        plugin_enter(&crumb, plugin_of(c->host), PLUGIN_WORKER, "process callback");
        c->cb.output(c->ud, w->kind == WATCH_OUT ? 1 : 2, p->chunk, (size_t)n);
        plugin_leave(&crumb);
    }
    if (n > 0) {
        return true;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        watch_close(p, w);
    }
    return false;
}

static void child_free(struct proc *p, struct child *c)
{
    watch_close(p, &c->out[0]);
    watch_close(p, &c->out[1]);
    watch_close(p, &c->end);
    free(c);
}

/* The program has ended but is not reaped, so its process group's number is still its own. */
static int reap(struct child *c, bool *ret_oom)
{
    siginfo_t info = { .si_pid = 0 };

    kill(-c->pid, SIGKILL);
    if (c->has_cgroup) {
        cgroup_kill(&c->cgroup);
        *ret_oom = cgroup_oom_killed(&c->cgroup);
    }
    while (waitid(P_PID, (id_t)c->pid, &info, WEXITED) < 0 && errno == EINTR) {
    }
    return info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
}

static void child_ended(struct proc *p, struct child *c)
{
    struct plugin_crumb crumb;
    bool oom = false;
    int code;

    pthread_mutex_lock(&p->lock);
    c->ended = true;
    pthread_mutex_unlock(&p->lock);
    code = reap(c, &oom);
    for (int i = 0; i < 2; i++) {
        for (int n = 0; n < LAST_READS_MAX && read_output(p, &c->out[i]); n++) {
        }
    }
    if (!is_silent(p, c)) {
        plugin_enter(&crumb, plugin_of(c->host), PLUGIN_WORKER, "process callback");
        c->cb.exited(c->ud, code, oom && code == -SIGKILL);
        plugin_leave(&crumb);
    }
    if (c->has_cgroup) {
        cgroup_remove(&c->cgroup);
    }
    pthread_mutex_lock(&p->lock);
    HASH_DEL(p->children, c);
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    child_free(p, c);
}

static void *watch_thread(void *arg)
{
    struct proc *p = arg;
    struct epoll_event ev;
    struct watch *w;

    for (;;) {
        if (epoll_wait(p->epoll_fd, &ev, 1, -1) <= 0) {
            continue;
        }
        w = ev.data.ptr;
        if (w->kind == WATCH_STOP) {
            break;
        }
        if (w->kind == WATCH_END) {
            child_ended(p, w->child);
        } else {
            read_output(p, w);
        }
    }
    return NULL;
}

/* Under the lock. */
static int proc_start_thread(struct proc *p)
{
    p->has_thread = p->has_thread || loop_thread(&p->thread, watch_thread, p) == 0;
    return p->has_thread ? 0 : FN_E_EXHAUSTED;
}

/* ---- spawn ----------------------------------------------------------------------------------- */

static int check_spec(const struct fn_proc_spec *s, const struct fn_proc_cb *cb,
                      struct fn_error *reterr)
{
    if (!s->argv || !s->argv[0] || s->argv[0][0] != '/' || !s->env) {
        return err_set(reterr, FN_E_INVALID,
                       "fn.proc: expected argv with an absolute path, and an environment");
    }
    if (s->flags & ~FLAGS_KNOWN) {
        return err_set(reterr, FN_E_UNIMPLEMENTED, "fn.proc: flags, got 0x%x; expected bits of 0x%x",
                       s->flags, FLAGS_KNOWN);
    }
    if (s->cpu_shares &&
        (s->cpu_shares < CGROUP_SHARES_MIN || s->cpu_shares > CGROUP_SHARES_MAX)) {
        return err_set(reterr, FN_E_INVALID,
                       "fn.proc: cpu_shares, got %" PRIu64 "; expected %u..%u", s->cpu_shares,
                       CGROUP_SHARES_MIN, CGROUP_SHARES_MAX);
    }
    if (!cb->output || !cb->exited) {
        return err_set(reterr, FN_E_INVALID, "fn.proc: callbacks are missing");
    }
    if ((s->bind_from != NULL) != (s->bind_to != NULL) ||
        (s->bind_to && (s->bind_to[0] != '/' ||
                        strlen(s->bind_to) >= sizeof(((struct launch *)0)->bind_parts)))) {
        return err_set(reterr, FN_E_INVALID, "fn.proc: bind_from and bind_to are no pair of paths");
    }
    return 0;
}

static int open_pipe(struct watch *w, int *ret_child_fd)
{
    int fd[2];

    if (pipe2(fd, O_CLOEXEC) < 0) {
        return -1;
    }
    w->fd = fd[0];
    *ret_child_fd = fd[1];
    return fcntl(fd[0], F_SETFL, O_NONBLOCK);
}

static int launch_prepare(struct proc *p, struct child *c, const struct fn_proc_spec *s,
                          struct launch *l, struct fn_error *reterr)
{
    uint64_t tmp = s->tmp_bytes ? s->tmp_bytes : PROC_TMP_BYTES;
    int r;

    l->spec = s;
    l->can_namespaces = (p->isolation & FN_PROC_HAS_NAMESPACES) != 0;
    l->flags = l->can_namespaces ? s->flags : s->flags & FN_PROC_NO_NEW_PRIVS;
    snprintf(l->tmp_options, sizeof(l->tmp_options), "mode=1777,size=%llu",
             (unsigned long long)tmp);
    snprintf(l->bind_parts, sizeof(l->bind_parts), "%s", s->bind_to ? s->bind_to : "");
    l->fd[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (l->fd[0] < 0 || open_pipe(&c->out[0], &l->fd[1]) < 0 ||
        open_pipe(&c->out[1], &l->fd[2]) < 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "fn.proc: %s", strerror(errno));
    }
    if (s->cgroup_name && (p->isolation & FN_PROC_HAS_CGROUP)) {
        r = cgroup_make(&p->cgroups, s->cgroup_name, s, &c->cgroup, reterr);
        if (r < 0) {
            return r;
        }
        c->has_cgroup = true;
        for (int i = 0; i < CGROUP_DIRS_MAX; i++) {
            if (c->cgroup.dir[i][0]) {
                snprintf(l->procs[i], sizeof(l->procs[i]), "%s/cgroup.procs", c->cgroup.dir[i]);
            }
        }
    }
    l->limit_as = s->mem_bytes && !(c->has_cgroup && c->cgroup.has_memory);
    return 0;
}

static int watch_add(struct proc *p, struct watch *w)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.ptr = w };

    return epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, w->fd, &ev);
}

static bool children_add(struct proc *p, struct child *c)
{
    c->id = ++p->last_id;
    HASH_ADD(hh, p->children, id, sizeof(c->id), c);
    return table_has(c);
}

/* From here on the thread may see its end. A child whose output cannot be watched is killed, and
 * that end reported like any other: once the thread knows it, it cannot be taken back. */
static int child_watch(struct proc *p, struct child *c, uint64_t *ret_id, struct fn_error *reterr)
{
    int r = 0;

    pthread_mutex_lock(&p->lock);
    if (HASH_COUNT(p->children) >= PROC_CHILDREN_MAX || proc_start_thread(p) < 0 ||
        !children_add(p, c)) { /* the thread needs the lock for its end */
        r = err_set(reterr, FN_E_EXHAUSTED, "fn.proc: %d children run, or no thread to be had",
                    PROC_CHILDREN_MAX);
    } else if (watch_add(p, &c->end) < 0) {
        HASH_DEL(p->children, c);
        r = err_set(reterr, FN_E_EXHAUSTED, "fn.proc: %s", strerror(errno));
    } else {
        *ret_id = c->id;
        if (watch_add(p, &c->out[0]) < 0 || watch_add(p, &c->out[1]) < 0) {
            log_stranger(FN_LOG_WARN, "fn.proc: a child's output cannot be watched, it is killed",
                         "error", strerror(errno));
            kill(c->pid, SIGKILL);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return r;
}

static void launch_close(struct launch *l)
{
    for (int i = 0; i < 3; i++) {
        if (l->fd[i] >= 0) {
            close(l->fd[i]);
        }
    }
}

static int proc_spawn(struct proc *p, const struct fn_host *host, const struct fn_proc_spec *s,
                      const struct fn_proc_cb *cb, void *ud, uint64_t *ret_id,
                      struct fn_error *reterr)
{
    struct launch l = { .fd = { -1, -1, -1 } };
    struct child *c;
    bool oom;
    int r = check_spec(s, cb, reterr);

    if (r < 0) {
        return r;
    }
    c = calloc(1, sizeof(*c));
    if (!c) {
        return err_set(reterr, FN_E_EXHAUSTED, "fn.proc: out of memory");
    }
    c->host = host;
    c->cb = *cb;
    c->ud = ud;
    c->end = (struct watch){ WATCH_END, -1, c };
    c->out[0] = (struct watch){ WATCH_OUT, -1, c };
    c->out[1] = (struct watch){ WATCH_ERR, -1, c };
    r = launch_prepare(p, c, s, &l, reterr);
    if (r == 0) {
        r = launch_run(&l, &c->pid, &c->end.fd, reterr);
    }
    launch_close(&l);
    if (r == 0) {
        r = child_watch(p, c, ret_id, reterr);
        if (r == 0) {
            return 0;
        }
        kill(c->pid, SIGKILL);
        reap(c, &oom);
    }
    if (c->has_cgroup) {
        cgroup_remove(&c->cgroup);
    }
    child_free(p, c);
    return r;
}

/* Sizes in version 1.0 of fn.proc. */
#define SPEC_MIN 104
#define CB_MIN   24

/* ---- the table ------------------------------------------------------------------------------- */

static struct proc *of_host(const struct fn_host *host)
{
    return plugin_impl(host, "fn.proc");
}

uint32_t proc_isolation(const struct proc *p)
{
    return p->isolation;
}

static uint32_t if_isolation(const struct fn_host *host)
{
    return proc_isolation(of_host(host));
}

static int if_spawn(const struct fn_host *host, const struct fn_proc_spec *s,
                    const struct fn_proc_cb *cb, void *ud, uint64_t *ret_id,
                    struct fn_error *reterr)
{
    PLUGIN_HOST_CALL("fn.proc.spawn");
    struct fn_proc_spec known;
    struct fn_proc_cb known_cb;
    int r = view_take(&known, sizeof(known), s, SPEC_MIN);

    if (r == 0) {
        r = view_take(&known_cb, sizeof(known_cb), cb, CB_MIN);
    }
    if (r < 0) {
        return err_set(reterr, r, "fn.proc: size of the request or of its callbacks is none that "
                       "this host knows");
    }
    return proc_spawn(of_host(host), host, &known, &known_cb, ud, ret_id, reterr);
}

/* Under the lock; NULL when it has ended or belongs to another instance. */
static struct child *proc_find(struct proc *p, const struct fn_host *host, uint64_t id)
{
    struct child *c;

    HASH_FIND(hh, p->children, &id, sizeof(id), c);
    return c && c->host == host && !c->ended ? c : NULL;
}

/* Under the lock. */
static void child_kill(struct child *c)
{
    kill(-c->pid, SIGKILL);
    kill(c->pid, SIGKILL);
    if (c->has_cgroup) {
        cgroup_kill(&c->cgroup);
    }
}

static int if_kill(const struct fn_host *host, uint64_t id, struct fn_error *reterr)
{
    PLUGIN_HOST_CALL("fn.proc.kill");
    struct proc *p = of_host(host);
    struct child *c;

    (void)reterr;
    pthread_mutex_lock(&p->lock);
    c = proc_find(p, host, id);
    if (c) {
        child_kill(c);
    }
    pthread_mutex_unlock(&p->lock);
    return 0;
}

static int if_freeze(const struct fn_host *host, uint64_t id, uint32_t on, struct fn_error *reterr)
{
    PLUGIN_HOST_CALL("fn.proc.freeze");
    struct proc *p = of_host(host);
    struct child *c;
    int r = 0;

    pthread_mutex_lock(&p->lock);
    c = proc_find(p, host, id);
    if (!c) {
        r = err_set(reterr, FN_E_NOT_FOUND, "fn.proc: the process has ended");
    } else if (c->has_cgroup) {
        r = cgroup_freeze(&c->cgroup, on != 0, reterr);
    } else if (kill(-c->pid, on ? SIGSTOP : SIGCONT) < 0) {
        r = err_set(reterr, err_from_errno(errno), "fn.proc: cannot stop the process: %s",
                    strerror(errno));
    }
    pthread_mutex_unlock(&p->lock);
    return r;
}

/* The name first: a mark that nobody remembers stays locked, and no later sweep could make it. */
static int mark_new(struct proc *p, int i, const char *keep, struct fn_error *reterr)
{
    char *name = strdup(keep);
    int r = name ? cgroup_mark(&p->cgroups, keep, &p->marks[i], reterr)
                 : err_set(reterr, FN_E_EXHAUSTED, "fn.proc: out of memory");

    if (r < 0) {
        free(name);
        return r;
    }
    p->marked[i] = name;
    return 0;
}

/* Whoever sweeps says which names are its own: from now on others see that it lives. */
static int mark(struct proc *p, const char *keep, struct fn_error *reterr)
{
    int i = 0, r = 0;

    pthread_mutex_lock(&p->mark_lock);
    while (i < MARKS_MAX && p->marked[i] && strcmp(p->marked[i], keep) != 0) {
        i++;
    }
    if (i == MARKS_MAX) {
        r = err_set(reterr, FN_E_EXHAUSTED, "fn.proc: sweep for more than %d prefixes", MARKS_MAX);
    } else if (!p->marked[i]) {
        r = mark_new(p, i, keep, reterr);
    }
    pthread_mutex_unlock(&p->mark_lock);
    return r;
}

static int if_sweep(const struct fn_host *host, const char *prefix, const char *keep,
                    uint32_t *ret_removed, struct fn_error *reterr)
{
    PLUGIN_HOST_CALL("fn.proc.sweep");
    struct proc *p = of_host(host);
    int r = mark(p, keep, reterr);

    return r < 0 ? r : cgroup_sweep(&p->cgroups, prefix, keep, ret_removed, reterr);
}

const struct fn_proc_if *proc_if(void)
{
    static const struct fn_proc_if table = { FN_HDR(struct fn_proc_if, FN_MAGIC_PROC), if_isolation,
                                             if_spawn, if_kill, if_freeze, if_sweep };

    return &table;
}

/* ---- instances that go ----------------------------------------------------------------------- */

/* Under the lock. Whether a child of that instance is left; those that run are killed. */
static bool kill_of(struct proc *p, const struct fn_host *host, bool silent)
{
    struct child *c, *next;
    bool found = false;

    HASH_ITER(hh, p->children, c, next) {
        if (c->host != host) {
            continue;
        }
        found = true;
        c->silent = silent;
        if (!c->ended) {
            child_kill(c);
        }
    }
    return found;
}

void proc_release(void *impl, const struct fn_host *host)
{
    struct proc *p = impl;
    bool silent = !plugin_inst(plugin_of(host));

    pthread_mutex_lock(&p->lock);
    while (kill_of(p, host, silent)) {
        pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* A node that took a bad moment for a poor machine would run functions without their walls. */
static int detect(struct proc *p, struct fn_error *reterr)
{
    bool namespaces = false;
    int r = cgroup_detect(&p->cgroups, reterr);

    if (r == 0) {
        r = launch_can_namespaces(&namespaces, reterr);
    }
    p->isolation = (namespaces ? FN_PROC_HAS_NAMESPACES : 0) |
                   (p->cgroups.usable ? FN_PROC_HAS_CGROUP : 0);
    return r;
}

int proc_create(struct proc **ret, struct fn_error *reterr)
{
    struct proc *p = calloc(1, sizeof(*p));
    int r;

    if (!p) {
        return err_set(reterr, FN_E_EXHAUSTED, "fn.proc: out of memory");
    }
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    p->stop = (struct watch){ WATCH_STOP, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), NULL };
    if (p->epoll_fd < 0 || p->stop.fd < 0 || watch_add(p, &p->stop) < 0) {
        r = err_set(reterr, err_from_errno(errno), "fn.proc: %s", strerror(errno));
        close(p->epoll_fd);
        close(p->stop.fd);
        free(p);
        return r;
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    pthread_mutex_init(&p->mark_lock, NULL);
    for (int i = 0; i < MARKS_MAX; i++) {
        p->marks[i].fd = -1;
    }
    r = detect(p, reterr);
    if (r < 0) {
        proc_destroy(p);
        return r;
    }
    *ret = p;
    return 0;
}

void proc_destroy(struct proc *p)
{
    struct child *c, *next;
    uint64_t one = 1;
    bool oom;

    if (!p) {
        return;
    }
    if (p->has_thread && write(p->stop.fd, &one, sizeof(one)) == (ssize_t)sizeof(one)) {
        pthread_join(p->thread, NULL);
    }
    HASH_ITER(hh, p->children, c, next) {
        HASH_DEL(p->children, c);
        child_kill(c);
        reap(c, &oom);
        if (c->has_cgroup) {
            cgroup_remove(&c->cgroup);
        }
        child_free(p, c);
    }
    for (int i = 0; i < MARKS_MAX; i++) {
        cgroup_unmark(&p->marks[i]);
        free(p->marked[i]);
    }
    close(p->stop.fd);
    close(p->epoll_fd);
    pthread_mutex_destroy(&p->mark_lock);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
