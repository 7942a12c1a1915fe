/* Runs a loop in a thread, hands methods to its lanes, and keeps what the driver reports under a
 * lock, where waiting tests see it. */
#include "node.h"

#include <base/buf.h>
#include <base/log.h>
#include <base/metric.h>
#include <conf/conf.h>
#include <http/fetch.h>
#include <loop/exec.h>
#include <loop/loop.h>
#include <loop/proc.h>
#include <plugin/plugin.h>

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define EXITS_MAX  64
#define OUTPUT_MAX 65536

struct node {
    struct loop *loop;
    pthread_t thread;
    struct fetch *fetch;
    struct proc *proc;
    struct plugin_host *host;
    struct plugin *plugin;
    const struct fn_driver_ops *ops;
    void *inst;
    int64_t deadline_ms, took_ns;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct {
        uint64_t handle;
        struct fn_exit what;
    } exits[EXITS_MAX];
    uint32_t exits_n;
    char output[3][OUTPUT_MAX];
    size_t output_len[3];
    int engine; /* -1 = no report yet */
    struct fn_task own[EXITS_MAX]; /* the host's tasks by handle, id NULL = none */
};


/* ---- reports --------------------------------------------------------------------------------- */

static void on_exited(const struct fn_host *host, uint64_t handle, const struct fn_exit *what)
{
    struct node *n = plugin_impl(host, "fn.driver");

    loop_enter(n->loop); /* as a runner would: a driver must never report from inside the loop */
    loop_leave(n->loop);
    pthread_mutex_lock(&n->lock);
    ck_assert_uint_lt(n->exits_n, EXITS_MAX);
    n->exits[n->exits_n].handle = handle;
    n->exits[n->exits_n++].what = *what;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

static void on_output(const struct fn_host *host, uint64_t handle, uint32_t fd, const void *data,
                      size_t len)
{
    struct node *n = plugin_impl(host, "fn.driver");

    (void)handle;
    ck_assert(fd == 1 || fd == 2);
    pthread_mutex_lock(&n->lock);
    if (len > OUTPUT_MAX - 1 - n->output_len[fd]) {
        len = OUTPUT_MAX - 1 - n->output_len[fd];
    }
    memcpy(n->output[fd] + n->output_len[fd], data, len);
    n->output_len[fd] += len;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

static void on_engine(const struct fn_host *host, uint32_t up, const struct fn_error *why)
{
    struct node *n = plugin_impl(host, "fn.driver");

    (void)why;
    pthread_mutex_lock(&n->lock);
    n->engine = up != 0;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

static int on_inner(const struct fn_host *host, const char *name, const struct fn_driver_ops **ops,
                    void **inst, struct fn_error *reterr)
{
    (void)host;
    (void)ops;
    (void)inst;
    return err_set(reterr, FN_E_NOT_FOUND, "inner driver \"%s\"", name);
}

static const struct fn_task *on_task(const struct fn_host *host, uint64_t handle)
{
    struct node *n = plugin_impl(host, "fn.driver");
    const struct fn_task *own = NULL;

    pthread_mutex_lock(&n->lock);
    if (n->own[handle % EXITS_MAX].id && n->own[handle % EXITS_MAX].handle == handle) {
        own = &n->own[handle % EXITS_MAX];
    }
    pthread_mutex_unlock(&n->lock);
    return own;
}

static const struct fn_driver_if driver_if = { FN_HDR(struct fn_driver_if, FN_MAGIC_DRIVER_IF),
                                               on_exited, on_output, on_engine, on_inner,
                                               on_task };

/* ---- life ------------------------------------------------------------------------------------ */

/* A clock that can be put forward; timers and what operations sleep go by it. */
static int64_t (*real_now_ns)(struct env *e);
static void (*real_timer_set)(struct env *e, struct env_timer *t, int64_t at_ns);
static atomic_llong passed_ns;

static int64_t now_ns(struct env *e)
{
    return real_now_ns(e) + atomic_load(&passed_ns);
}

static void timer_set(struct env *e, struct env_timer *t, int64_t at_ns)
{
    real_timer_set(e, t, at_ns - atomic_load(&passed_ns));
}

void node_pass_ns(int64_t ns)
{
    atomic_fetch_add(&passed_ns, ns);
}

static int op_sleep_until(struct fn_op *op, int64_t at_ns)
{
    return loop_op_if()->sleep_until(op, at_ns - atomic_load(&passed_ns));
}

static struct fn_op_if op_if;

static void take_clock(struct env *e)
{
    op_if = *loop_op_if();
    op_if.sleep_until = op_sleep_until;
    real_now_ns = e->now_ns;
    real_timer_set = e->timer_set;
    e->now_ns = now_ns;
    e->timer_set = timer_set;
}

static void *run_loop(void *arg)
{
    loop_run(arg);
    return NULL;
}

static struct conf_values *bind_options(const struct fn_factory *f, const char *const *options)
{
    struct conf_problems problems;
    struct conf_values *values = NULL;

    conf_problems_init(&problems);
    conf_bind(NULL, NULL, "driver", f->opts, f->conf_size, NULL, NULL, &values, &problems);
    for (; options && *options; options += 2) {
        conf_override(values, options[0], "test", options[1], &problems);
    }
    ck_assert_msg(problems.n == 0, "%.*s", (int)problems.text.len, problems.text.data);
    conf_problems_finish(&problems);
    return values;
}

static int load(struct node *n, const char *file, const char *driver, const char *const *options,
                struct fn_error *reterr)
{
    struct plugin_file *f;
    const struct fn_factory *factory;
    int r = plugin_file_open(n->host, file, &f, reterr);

    if (r < 0) {
        return r;
    }
    factory = plugin_file_factory(f, FN_KIND_DRIVER, driver);
    ck_assert_ptr_nonnull(factory);
    r = plugin_create(n->host, f, factory, driver, bind_options(factory, options), &n->plugin,
                      reterr);
    if (r == 0) {
        n->ops = plugin_ops(n->plugin);
        n->inst = plugin_inst(n->plugin);
    }
    return r;
}

static void close_streams(void *impl, const struct fn_host *host)
{
    fetch_close_all(impl, host);
}

struct node *node_start(const char *file, const char *driver, const char *const *options,
                        struct fn_error *reterr)
{
    struct node *n = calloc(1, sizeof(*n));
    pthread_condattr_t attr;
    int r;

    ck_assert_int_eq(loop_create(NULL, &n->loop, NULL), 0);
    ck_assert_int_eq(fetch_create(loop_env(n->loop), &n->fetch, NULL), 0);
    ck_assert_int_eq(proc_create(&n->proc, NULL), 0);
    take_clock(loop_env(n->loop));
    n->host = plugin_host_create(loop_env(n->loop));
    n->engine = -1;
    n->deadline_ms = NODE_WAIT_MS;
    pthread_mutex_init(&n->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&n->changed, &attr);
    plugin_host_offer(n->host, "fn.exec", 1, 0, exec_if(), NULL);
    plugin_host_offer(n->host, "fn.proc", 1, 1, proc_if(), n->proc);
    plugin_host_on_release(n->host, "fn.proc", false, proc_release);
    plugin_host_offer(n->host, "fn.http", 1, 1, fetch_if(), n->fetch);
    plugin_host_on_release(n->host, "fn.http", false, close_streams);
    plugin_host_offer(n->host, "fn.op", 1, 0, &op_if, NULL);
    plugin_host_offer(n->host, "fn.driver", FN_DRIVER_MAJOR, FN_DRIVER_MINOR, &driver_if, n);
    r = load(n, file, driver, options, reterr);
    pthread_create(&n->thread, NULL, run_loop, n->loop);
    if (r < 0) {
        node_stop(n);
        return NULL;
    }
    return n;
}

/* Directories of this test, which forks; gone with its node. */
static char made[EXITS_MAX][64];
static uint32_t n_made;

static void remove_dir(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d) {
        closedir(d);
    }
    rmdir(path);
}

static void remove_made(void)
{
    while (n_made > 0) {
        remove_dir(made[--n_made]);
    }
}

void node_tidy(void)
{
    char pattern[64];
    glob_t found;

    snprintf(pattern, sizeof(pattern), "/tmp/iofs-test-%d.*", (int)getpid());
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            remove_dir(found.gl_pathv[i]);
        }
        globfree(&found);
    }
}

void node_stop(struct node *n)
{
    loop_stop(n->loop);
    pthread_join(n->thread, NULL);
    plugin_destroy(n->plugin);
    fetch_destroy(n->fetch);
    proc_destroy(n->proc);
    plugin_host_destroy(n->host);
    loop_destroy(n->loop);
    pthread_cond_destroy(&n->changed);
    pthread_mutex_destroy(&n->lock);
    free(n);
    remove_made();
}

/* ---- calls on a lane ------------------------------------------------------------------------- */

enum what { PROBE, PREPARE, CREATE, START, FREEZE, THAW, CLOSE, SWEEP };

struct job {
    struct env_work work;
    int64_t took_ns;
    struct node *n;
    enum what what;
    const struct fn_task *task;
    void *ctr;
    const char *owner, *instance;
    uint32_t removed;
    char version[128];
    struct fn_error err;
    int r;
    bool done;
};

static void job_run(struct env_work *w, struct fn_op *op)
{
    struct job *j = container_of(w, struct job, work);
    const struct fn_driver_ops *ops = j->n->ops;
    void *inst = j->n->inst;
    int64_t start_ns = env_now_ns(loop_env(j->n->loop));

    switch (j->what) {
    case PROBE: j->r = ops->probe(inst, op, j->version, sizeof(j->version), &j->err); break;
    case PREPARE: j->r = ops->prepare_image(inst, op, j->task, &j->err); break;
    case CREATE: j->r = ops->create(inst, op, j->task, &j->ctr, &j->err); break;
    case START: j->r = ops->start(inst, op, j->ctr, &j->err); break;
    case FREEZE: j->r = ops->freeze(inst, op, j->ctr, &j->err); break;
    case THAW: j->r = ops->thaw(inst, op, j->ctr, &j->err); break;
    case CLOSE: j->r = ops->close(inst, op, j->ctr, &j->err); break;
    case SWEEP:
        j->r = ops->sweep(inst, op, j->owner, j->instance, &j->removed, &j->err);
        break;
    }
    j->took_ns = env_now_ns(loop_env(j->n->loop)) - start_ns;
}

static void job_done(struct env_work *w)
{
    struct job *j = container_of(w, struct job, work);

    pthread_mutex_lock(&j->n->lock);
    j->done = true;
    pthread_cond_broadcast(&j->n->changed);
    pthread_mutex_unlock(&j->n->lock);
}

static int job(struct node *n, struct job *j, struct fn_error *reterr)
{
    struct env *env = loop_env(n->loop);

    j->n = n;
    j->err = ERR_INIT;
    j->work.run = job_run;
    j->work.done = job_done;
    j->work.lane = ENV_LANE_SLOW;
    loop_enter(n->loop);
    j->work.deadline_ns = env_now_ns(env) + n->deadline_ms * ENV_MS;
    ck_assert_int_eq(env_submit(env, &j->work), 0);
    loop_leave(n->loop);
    pthread_mutex_lock(&n->lock);
    while (!j->done) {
        pthread_cond_wait(&n->changed, &n->lock);
    }
    n->took_ns = j->took_ns;
    pthread_mutex_unlock(&n->lock);
    if (reterr) {
        *reterr = j->err;
    }
    return j->r;
}

int node_probe(struct node *n, char *version, size_t cap, struct fn_error *reterr)
{
    struct job j = { .what = PROBE };
    int r = job(n, &j, reterr);

    snprintf(version, cap, "%s", j.version);
    return r;
}

int node_prepare(struct node *n, const struct fn_task *task, struct fn_error *reterr)
{
    struct job j = { .what = PREPARE, .task = task };

    return job(n, &j, reterr);
}

int node_create_wrapped(struct node *n, const struct fn_task *own, const struct fn_task *task,
                        void **ret_ctr, struct fn_error *reterr)
{
    struct job j = { .what = CREATE, .task = task };
    int r;

    pthread_mutex_lock(&n->lock);
    n->own[own->handle % EXITS_MAX] = *own;
    pthread_mutex_unlock(&n->lock);
    r = job(n, &j, reterr);
    *ret_ctr = j.ctr;
    return r;
}

int node_create(struct node *n, const struct fn_task *task, void **ret_ctr, struct fn_error *reterr)
{
    return node_create_wrapped(n, task, task, ret_ctr, reterr);
}

int node_start_ctr(struct node *n, void *ctr, struct fn_error *reterr)
{
    struct job j = { .what = START, .ctr = ctr };

    return job(n, &j, reterr);
}

int node_freeze(struct node *n, void *ctr, bool on, struct fn_error *reterr)
{
    struct job j = { .what = on ? FREEZE : THAW, .ctr = ctr };

    return job(n, &j, reterr);
}

int node_close(struct node *n, void *ctr, struct fn_error *reterr)
{
    struct job j = { .what = CLOSE, .ctr = ctr };

    return job(n, &j, reterr);
}

int node_sweep(struct node *n, const char *owner, const char *instance, uint32_t *ret_removed,
               struct fn_error *reterr)
{
    struct job j = { .what = SWEEP, .owner = owner, .instance = instance };
    int r = job(n, &j, reterr);

    *ret_removed = j.removed;
    return r;
}

uint32_t node_uid(struct node *n, void *ctr)
{
    return n->ops->uid(n->inst, ctr);
}

void node_deadline_ms(struct node *n, int64_t ms)
{
    n->deadline_ms = ms;
}

int64_t node_took_ns(struct node *n)
{
    int64_t took_ns;

    pthread_mutex_lock(&n->lock);
    took_ns = n->took_ns;
    pthread_mutex_unlock(&n->lock);
    return took_ns;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static bool wait_until(struct node *n, bool (*ready)(struct node *n, const void *what),
                       const void *what)
{
    struct timespec until;
    bool ok;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += NODE_WAIT_MS / 1000;
    pthread_mutex_lock(&n->lock);
    while (!(ok = ready(n, what))) {
        if (pthread_cond_timedwait(&n->changed, &n->lock, &until) == ETIMEDOUT) {
            break;
        }
    }
    pthread_mutex_unlock(&n->lock);
    return ok;
}

struct exit_wanted {
    uint64_t handle;
    struct fn_exit *ret;
};

static bool has_exit(struct node *n, const void *what)
{
    const struct exit_wanted *w = what;

    for (uint32_t i = 0; i < n->exits_n; i++) {
        if (n->exits[i].handle == w->handle) {
            *w->ret = n->exits[i].what;
            return true;
        }
    }
    return false;
}

bool node_wait_exit(struct node *n, uint64_t handle, struct fn_exit *ret)
{
    struct exit_wanted w = { handle, ret };

    return wait_until(n, has_exit, &w);
}

struct output_wanted {
    uint32_t fd;
    const char *part;
};

static bool has_output(struct node *n, const void *what)
{
    const struct output_wanted *w = what;

    return memmem(n->output[w->fd], n->output_len[w->fd], w->part, strlen(w->part)) != NULL;
}

bool node_wait_output(struct node *n, uint32_t fd, const char *part)
{
    struct output_wanted w = { fd, part };

    return wait_until(n, has_output, &w);
}

static bool engine_is(struct node *n, const void *what)
{
    return n->engine == *(const int *)what;
}

bool node_wait_engine(struct node *n, bool up)
{
    int wanted = up;

    return wait_until(n, engine_is, &wanted);
}

uint32_t node_exits(struct node *n)
{
    uint32_t exits;

    pthread_mutex_lock(&n->lock);
    exits = n->exits_n;
    pthread_mutex_unlock(&n->lock);
    return exits;
}

/* ---- what is told beside the answers --------------------------------------------------------- */

int64_t node_metric(const char *driver, const char *name)
{
    struct buf page = BUF_INIT(1 << 20);
    char series[128];
    const char *at;
    int64_t value = -1;

    snprintf(series, sizeof(series), "\nfn_plugin_driver_%s_%s", driver, name);
    ck_assert_int_eq(metric_print(&page), 0);
    at = strstr(buf_text(&page), series);
    at = at ? strchr(at + 1, ' ') : NULL;
    if (at) {
        value = strtoll(at, NULL, 10);
    }
    buf_finish(&page);
    return value;
}

static char logged[65536];
static size_t logged_len;
static pthread_mutex_t logged_lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t no_time(void)
{
    return 0;
}

static void keep_line(uint32_t level, int64_t wall_ns, const char *line, size_t len)
{
    (void)level;
    (void)wall_ns;
    pthread_mutex_lock(&logged_lock);
    if (logged_len + len < sizeof(logged)) {
        memcpy(logged + logged_len, line, len);
        logged_len += len;
    }
    pthread_mutex_unlock(&logged_lock);
}

void node_note_log(void)
{
    log_setup(&(struct log_config){ .level = FN_LOG_INFO, .fd = 2, .wall_ns = no_time,
                                    .sink = keep_line });
}

uint32_t node_logged(const char *part)
{
    uint32_t n = 0;

    pthread_mutex_lock(&logged_lock);
    for (const char *at = logged; (at = strstr(at, part)); at++) {
        n++;
    }
    pthread_mutex_unlock(&logged_lock);
    return n;
}

/* ---- tasks and calls ------------------------------------------------------------------------- */

const char *node_owner(const char *otherwise)
{
    const char *owner = getenv("FND_OWNER");

    return owner ? owner : otherwise;
}

void node_task(struct fn_task *t, const char *image, uint64_t handle, char iofs_dir[64])
{
    static char ids[EXITS_MAX][40];
    static const struct fn_kv env[] = { { "FN_FORMAT", "http-stream" },
                                        { "FN_LISTENER", "unix:/tmp/iofs/lsnr.sock" },
                                        { "GREETING", "hello" } };
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(ids[handle % EXITS_MAX], sizeof(ids[0]), "01FNDTEST%012llX%05X",
             (unsigned long long)(now.tv_sec * 1000000LL + now.tv_nsec / 1000), (unsigned)handle);
    snprintf(iofs_dir, 64, "/tmp/iofs-test-%d.XXXXXX", (int)getppid());
    ck_assert_ptr_nonnull(mkdtemp(iofs_dir));
    ck_assert_uint_lt(n_made, EXITS_MAX);
    memcpy(made[n_made++], iofs_dir, 64);
    ck_assert_int_eq(chmod(iofs_dir, 0777), 0);
    *t = (struct fn_task){ .hdr = FN_HDR(struct fn_task, FN_MAGIC_TASK),
                           .owner = node_owner("test-driver"),
                           .instance = "0123456789abcdef0123456789abcdef", .fn_id = "fn-1",
                           .app_id = "app-1", .image = image, .env = env, .n_env = 3,
                           .iofs_dir = iofs_dir, .iofs_engine_dir = iofs_dir,
                           .iofs_inside = "/tmp/iofs", .hostname = "runner", .pids_max = 50,
                           .mem_bytes = 64 * 1024 * 1024, .nofile_max = 350, .memlock_max = 65536,
                           .sigpending_max = 5000, .msgqueue_max = 819200,
                           .flags = FN_TASK_NO_NETWORK };
    t->id = ids[handle % EXITS_MAX];
    t->handle = handle;
}

static int dial(const char *iofs_dir)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(un.sun_path, sizeof(un.sun_path), "%s/lsnr.sock", iofs_dir);
    if (connect(fd, (struct sockaddr *)&un, sizeof(un)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

bool node_wait_socket(const char *iofs_dir)
{
    struct timespec now;
    int64_t until_s;
    char drop[4096];
    int ino = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    struct pollfd p = { .fd = ino, .events = POLLIN };
    int fd;

    clock_gettime(CLOCK_MONOTONIC, &now);
    until_s = now.tv_sec + NODE_WAIT_MS / 1000;
    ck_assert_int_ge(inotify_add_watch(ino, iofs_dir, IN_CREATE | IN_MOVED_TO | IN_ATTRIB), 0);
    while ((fd = dial(iofs_dir)) < 0 && now.tv_sec < until_s) {
        poll(&p, 1, 100);
        while (read(ino, drop, sizeof(drop)) > 0) {
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    close(ino);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

int node_call(const char *iofs_dir, const char *body, char *ret, size_t cap)
{
    char rq[1024];
    size_t len = 0;
    ssize_t n;
    int fd;

    if (!node_wait_socket(iofs_dir) || (fd = dial(iofs_dir)) < 0) {
        return -1;
    }
    snprintf(
        rq, sizeof(rq),
        "POST /call HTTP/1.1\r\nHost: localhost\r\nFn-Call-Id: 01CALL\r\n"
        "Fn-Deadline: 2099-01-01T00:00:00Z\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
        strlen(body), body);
    ck_assert_int_eq(write(fd, rq, strlen(rq)), (ssize_t)strlen(rq));
    while (len + 1 < cap && (n = read(fd, ret + len, cap - 1 - len)) > 0) {
        len += (size_t)n;
    }
    ret[len] = '\0';
    close(fd);
    return len > 12 ? (int)strtol(ret + 9, NULL, 10) : -1;
}
