/* The node's own tables for plugins that need a real outside: their loop, their processes, their
 * containers, and the sockets that these make. */
#include "world.h"
#include "outside.h"
#include "real.h"

#include <dirent.h>
#include <http/fetch.h>
#include <loop/exec.h>
#include <loop/loop.h>
#include <loop/proc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_NS   (100 * ENV_MS)
#define EXITS_MAX  256

static struct env *world_env;
static struct fetch *fetch;
static struct proc *proc;

/* Written by threads of the host. */
static pthread_mutex_t exits_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t exits[EXITS_MAX];
static uint32_t n_exits;

/* ---- fn.driver ------------------------------------------------------------------------------- */

static void driver_exited(const struct fn_host *host, uint64_t handle, const struct fn_exit *what)
{
    (void)host;
    must(what && what->size >= 12 && what->reason >= FN_EXIT_CODE &&
             what->reason <= FN_EXIT_REMOVED,
         "an exit was reported without a reason; expected FN_EXIT_*");
    pthread_mutex_lock(&exits_lock);
    if (n_exits < EXITS_MAX) {
        exits[n_exits++] = handle;
    }
    pthread_mutex_unlock(&exits_lock);
}

bool world_exited(uint64_t handle)
{
    bool found = false;

    pthread_mutex_lock(&exits_lock);
    for (uint32_t i = 0; i < n_exits; i++) {
        found = found || exits[i] == handle;
    }
    pthread_mutex_unlock(&exits_lock);
    return found;
}

static void driver_output(const struct fn_host *host, uint64_t handle, uint32_t fd,
                          const void *data, size_t len)
{
    (void)host;
    (void)handle;
    must((fd == 1 || fd == 2) && (data || len == 0), "output was reported of descriptor %u", fd);
}

static void driver_engine(const struct fn_host *host, uint32_t up, const struct fn_error *why)
{
    (void)host;
    (void)up;
    (void)why;
}

static int driver_inner(const struct fn_host *host, const char *name,
                        const struct fn_driver_ops **ret_ops, void **ret_inst,
                        struct fn_error *reterr)
{
    (void)host;
    (void)ret_ops;
    (void)ret_inst;
    return err_set(reterr, FN_E_NOT_FOUND, "there is no other driver here, got \"%.60s\"", name);
}

static const struct fn_task *driver_task(const struct fn_host *host, uint64_t handle)
{
    (void)host;
    return contract_task(handle);
}

static const struct fn_driver_if driver_if = {FN_HDR(struct fn_driver_if, FN_MAGIC_DRIVER_IF),
                                              driver_exited, driver_output, driver_engine,
                                              driver_inner, driver_task};

/* ---- tables ---------------------------------------------------------------------------------- */

bool world_offers(const char *iface)
{
    static const char *const names[] = {"fn.op", "fn.http", "fn.exec", "fn.proc", "fn.driver"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], iface) == 0) {
            return true;
        }
    }
    return false;
}

static void close_streams(void *impl, const struct fn_host *host)
{
    fetch_close_all(impl, host);
}

void world_open(struct plugin_host *host, struct env *env)
{
    struct fn_error e = ERR_INIT;

    world_env = env;
    must(fetch_create(env, &fetch, &e) == 0 && proc_create(&proc, &e) == 0,
         "the machine gives no tables: %.200s", e.msg);
    plugin_host_offer(host, "fn.op", 1, 0, loop_op_if(), NULL);
    plugin_host_offer(host, "fn.http", 1, 1, fetch_if(), fetch);
    plugin_host_on_release(host, "fn.http", false, close_streams);
    plugin_host_offer(host, "fn.exec", 1, 0, exec_if(), NULL);
    plugin_host_offer(host, "fn.proc", 1, 1, proc_if(), proc);
    plugin_host_on_release(host, "fn.proc", false, proc_release);
    plugin_host_offer(host, "fn.driver", FN_DRIVER_MAJOR, FN_DRIVER_MINOR, &driver_if, NULL);
}

void world_close(void)
{
    fetch_destroy(fetch);
    proc_destroy(proc);
}

/* ---- operations ------------------------------------------------------------------------------ */

struct job {
    struct env_work work;
    struct env_timer cancel;
    void (*run)(void *ud, struct fn_op *op);
    void *ud;
};

static void job_run(struct env_work *w, struct fn_op *op)
{
    struct job *j = container_of(w, struct job, work);

    j->run(j->ud, op);
}

static void job_done(struct env_work *w)
{
    (void)w;
    real_wake();
}

static void job_cancel(struct env_timer *t)
{
    env_cancel(world_env, &container_of(t, struct job, cancel)->work);
}

void world_work(void (*run)(void *ud, struct fn_op *op), void *ud, int64_t deadline_ns,
                int64_t cancel_at_ns)
{
    struct job j = {.run = run, .ud = ud};

    j.cancel.cb = job_cancel;
    j.work = (struct env_work){.run = job_run, .done = job_done, .lane = ENV_LANE_SLOW};
    j.work.deadline_ns = deadline_ns == INT64_MAX ? 0 : deadline_ns;
    must(env_submit(world_env, &j.work) == 0, "the machine gives no thread");
    if (cancel_at_ns != INT64_MAX) {
        env_timer_set(world_env, &j.cancel, cancel_at_ns);
    }
    real_wait();
    env_timer_clear(world_env, &j.cancel);
}

void world_pause(void)
{
    real_turn(PAUSE_NS);
}

struct instance *world_instance(void)
{
    struct fn_error e = ERR_INIT;
    struct instance *in = NULL;
    int r = instance_make(NULL, &in, &e);

    if (r < 0) {
        skip("not in this world: create(): %.200s", e.msg);
    }
    return in;
}

uint64_t world_unique(uint64_t n)
{
    static uint64_t base;
    struct timespec t;

    if (!base) {
        clock_gettime(CLOCK_REALTIME, &t);
        base = ((uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000) * 1000;
    }
    return base + n;
}

/* ---- sockets of containers ------------------------------------------------------------------- */

const char *world_socket_dir(void)
{
    char *dir = NULL;

    must(asprintf(&dir, "%s/iofs-XXXXXX", case_dir()) > 0 && mkdtemp(dir) && chmod(dir, 0777) == 0,
         "no folder for sockets can be made in %s", case_dir());
    return dir;
}

/* Calls cb for every path in it. */
static bool each_entry(const char *dir, bool (*cb)(const char *path))
{
    DIR *d = opendir(dir);
    char path[512];
    bool found = false;

    for (struct dirent *e; d && !found && (e = readdir(d));) {
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
            found = cb(path);
        }
    }
    if (d) {
        closedir(d);
    }
    return found;
}

static bool is_socket(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

static bool drop(const char *path)
{
    return unlink(path) < 0;
}

bool world_listens(const char *dir)
{
    return each_entry(dir, is_socket);
}

void world_remove_dir(const char *dir)
{
    each_entry(dir, drop);
    must(rmdir(dir) == 0, "%s cannot be removed: something of a container is left in it", dir);
}
