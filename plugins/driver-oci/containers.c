/* A container: its folder with config.json, and a shim that the host runs.
 *
 * The shim's end is reported on the host's thread; close() waits for it, so that nothing refers to
 * a container after its close() returned. With the shim the kernel ends everything in its PID
 * namespace: only empty cgroups and the folder are left to remove. */
#include "config.h"
#include "fail.h"
#include "runner_lock.h"
#include "shim_exit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHIM_ARGS 5 /* before the layers */
#define SHIM_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* ---- create ---------------------------------------------------------------------------------- */

static int no_memory(struct fn_error *reterr)
{
    return fail_platform(reterr, FN_E_EXHAUSTED, "driver oci: out of memory");
}

static struct config_settings settings_of(const struct ctr *c)
{
    static const int which[] = { RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_SIGPENDING,
                                 RLIMIT_MSGQUEUE };
    struct config_settings s = { .name = c->name, .dir = c->dir, .cgroup_v2 = c->d->cgroup_v2,
                                 .swap_limits = c->d->swap_limits,
                                 .host_network = strcmp(c->d->conf->network, "host") == 0 };

    for (size_t i = 0; i < sizeof(which) / sizeof(which[0]); i++) {
        struct rlimit own = { RLIM_INFINITY, RLIM_INFINITY };

        getrlimit((__rlimit_resource_t)which[i], &own);
        s.limits[i] = own.rlim_max == RLIM_INFINITY ? UINT64_MAX : own.rlim_max;
    }
    return s;
}

/* For a function with no network but its own loopback. */
static int write_hosts(const struct ctr *c)
{
    char text[512];

    snprintf(text, sizeof(text), "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 %.200s\n",
             c->task->hostname && *c->task->hostname ? c->task->hostname : c->name);
    return file_write(c->dir, "hosts", text);
}

static int write_folder(const struct ctr *c, const char *config, struct fn_error *reterr)
{
    char fs[OCI_PATH_MAX + 8], lock[LOCK_LABEL_MAX];

    snprintf(fs, sizeof(fs), "%s/fs", c->dir);
    lock_label(c->task->iofs_dir, lock, sizeof(lock));
    if ((mkdir(c->d->conf->state, 0700) < 0 && errno != EEXIST) || mkdir(c->dir, 0700) < 0 ||
        mkdir(fs, 0700) < 0) {
        return fail_platform(reterr, FN_E_UNAVAILABLE, "%.200s: %s", c->dir, strerror(errno));
    }
    if (file_write(c->dir, "lock", lock) < 0 || write_hosts(c) < 0 ||
        file_write(c->dir, "config.json", config) < 0) {
        return fail_platform(reterr, FN_E_EXHAUSTED, "%.200s: cannot be written: %s", c->dir,
                             strerror(errno));
    }
    return 0;
}

static int fill(struct ctr *c, struct fn_error *reterr)
{
    const struct config_settings s = settings_of(c);
    char *config = NULL;
    int r = image_open(c->d, c->task, &c->image, reterr);

    if (r < 0) {
        return r;
    }
    r = config_make(c->task, &c->image, &s, &config, &c->uid, reterr);
    image_drop(&c->image);
    if (r == 0) {
        r = write_folder(c, config, reterr);
        if (r < 0) {
            tree_remove(c->dir);
        }
    }
    free(config);
    return r;
}

int ctr_create(struct oci *d, const struct fn_task *task, struct ctr **ret, struct fn_error *reterr)
{
    struct ctr *c = calloc(1, sizeof(*c));
    int r = 0;

    if (!c) {
        return no_memory(reterr);
    }
    c->d = d;
    c->task = task;
    c->handle = task->handle;
    atomic_init(&c->state, CTR_CREATED);
    atomic_init(&c->runs, false);
    if (ctr_name(task->owner, task->instance, task->id, c->name, sizeof(c->name)) < 0) {
        r = fail_platform(reterr, FN_E_INVALID, "driver oci: owner or id is too long, or the owner "
                          "has -- or - at its end");
    }
    if (r == 0) {
        snprintf(c->dir, sizeof(c->dir), "%s/%s", d->conf->state, c->name);
        r = fill(c, reterr);
    }
    if (r < 0) {
        free(c);
        return r;
    }
    if (task->syslog_url && *task->syslog_url && !atomic_exchange(&d->told_syslog, true)) {
        oci_log(d, FN_LOG_WARN, "syslog_url of apps has no effect: driver oci has no log drivers");
    }
    pthread_mutex_lock(&d->lock);
    LIST_INSERT_HEAD(&d->ctrs, c, all);
    pthread_mutex_unlock(&d->lock);
    *ret = c;
    return 0;
}

/* ---- start ----------------------------------------------------------------------------------- */

static void on_output(void *ud, uint32_t fd, const void *data, size_t len)
{
    struct ctr *c = ud;

    c->d->driver->output(c->d->host, c->handle, fd, data, len);
}

/* "code 3" or "signal 9"; a shim that could not write it was killed. */
static void on_exited(void *ud, int32_t code, uint32_t oom)
{
    struct ctr *c = ud;
    struct fn_exit what = { .size = sizeof(what), .reason = FN_EXIT_SIGNAL, .status = 9 };
    char text[64];

    (void)oom;
    c->shim_code = code;
    if (file_read(c->dir, "exit", text, sizeof(text))) {
        what.reason = strncmp(text, "code ", 5) == 0 ? FN_EXIT_CODE : FN_EXIT_SIGNAL;
        what.status = (int32_t)strtol(text + strcspn(text, " "), NULL, 10);
    }
    if (what.reason == FN_EXIT_SIGNAL && what.status == 9 &&
        cgroup_oom_killed(c->d->cgroup_v2, c->name)) {
        what.reason = FN_EXIT_OOM;
        what.status += 128;
    }
    if (atomic_load(&c->runs) || file_exists(c->dir, "running")) { /* else start() says why not */
        c->d->driver->exited(c->d->host, c->handle, &what);
    }
    atomic_store(&c->state, CTR_ENDED); /* the last touch: close() may free it now */
}

/* The root file system lies in memory: no more of it than the function may have. */
static void root_bytes(const struct fn_task *t, char ret[24])
{
    uint64_t bytes = t->fs_bytes ? t->fs_bytes : t->mem_bytes;

    snprintf(ret, 24, "%" PRIu64, bytes);
}

static int spawn_shim(struct ctr *c, struct fn_error *reterr)
{
    static const struct fn_proc_cb cb = { FN_HDR(struct fn_proc_cb, 0), on_output, on_exited };
    static const char *const env[] = { SHIM_PATH, NULL };
    const char *argv[SHIM_ARGS + STORE_LAYERS_MAX + 1] = { c->d->shim, c->dir, c->d->runtime,
                                                           c->name };
    const struct fn_proc_spec spec = { .size = sizeof(spec), .flags = FN_PROC_NEW_PID,
                                       .argv = argv, .env = env };
    size_t step = strlen(c->d->conf->store) + sizeof("/layers/") + STORE_HEX;
    char *paths = malloc(c->image.n_layers * step);
    char bytes[24];
    int r;

    if (!paths) {
        return no_memory(reterr);
    }
    root_bytes(c->task, bytes);
    argv[SHIM_ARGS - 1] = bytes;
    for (uint32_t i = 0; i < c->image.n_layers; i++) {
        snprintf(paths + i * step, step, "%s/layers/%s", c->d->conf->store, c->image.layers[i]);
        argv[SHIM_ARGS + i] = paths + i * step;
    }
    r = c->d->proc->spawn(c->d->host, &spec, &cb, c, &c->proc, reterr);
    free(paths);
    return r;
}

/* The last line that the runtime or the shim wrote which says something. */
static void read_cause(struct ctr *c, char *ret, size_t cap)
{
    char *text = malloc(OCI_TEXT_MAX);
    char *save = NULL;

    snprintf(ret, cap, "no word of the runtime");
    if (text && file_read(c->dir, "log", text, OCI_TEXT_MAX)) {
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
            json_t *entry = json_loads(line, 0, NULL);
            const char *level = json_string_value(json_object_get(entry, "level"));
            const char *msg = json_string_value(json_object_get(entry, "msg"));

            if (!entry || (msg && level && strcmp(level, "error") == 0)) {
                snprintf(ret, cap, "%s", msg ? msg : line);
            }
            if (entry && msg) {
                json_decref(entry);
                break; /* what follows is the shim's word that it failed */
            }
            json_decref(entry);
        }
    }
    free(text);
}

/* No fault of the image, and nothing was executed: killed from outside, or what this machine lacks.
 * The engine is not suspected: it may be one image whose layer is gone. */
static int not_its_fault(const struct ctr *c, struct fn_error *reterr)
{
    fail(reterr, FN_E_ABORTED, 503, FN_BLAME_PLATFORM, "container %.30s: %s", c->task->id,
         c->shim_code < 0 ? "killed before it ran" : "this machine could not start it");
    return fail_retry(reterr, FN_E_ABORTED);
}

/* What is said of the cause names paths of the node: for its log, not for callers. */
static int not_started(struct ctr *c, struct fn_error *reterr)
{
    char cause[512];

    if (c->shim_code >= 0) {
        read_cause(c, cause, sizeof(cause));
        oci_log(c->d, FN_LOG_WARN, "image %.200s: container not started: %s", c->task->image,
                cause);
    }
    if (c->shim_code != SHIM_REFUSED) {
        return not_its_fault(c, reterr);
    }
    return fail_user(reterr, FN_E_PRECONDITION, 502,
                     "Container failed to initialize: the program of image '%.100s' could not be "
                     "started", c->task->image);
}

int ctr_start(struct ctr *c, struct fn_op *op, struct fn_error *reterr)
{
    struct oci *d = c->d;
    int r;

    atomic_store(&c->state, CTR_RUNNING);
    r = spawn_shim(c, reterr);
    if (r < 0) {
        atomic_store(&c->state, CTR_CREATED);
        return fail_retry(reterr, r);
    }
    for (;;) {
        bool ended = atomic_load(&c->state) == CTR_ENDED;

        if (file_exists(c->dir, "running")) {
            atomic_store(&c->runs, true);
            return 0;
        }
        if (ended) {
            return not_started(c, reterr);
        }
        r = d->op->sleep_until(op, d->host->clock->now_ns(d->host) + START_POLL_NS);
        if (r < 0) {
            return fail_platform(reterr, r, "container %.30s: the runtime has not started it in "
                                 "time", c->task->id);
        }
    }
}

/* ---- freeze, close --------------------------------------------------------------------------- */

int ctr_freeze(struct ctr *c, bool on, struct fn_error *reterr)
{
    int r = on == c->frozen ? 0 : cgroup_freeze(c->d->cgroup_v2, c->name, on);

    if (r < 0) {
        return fail_platform(reterr, r, "container %.30s: its cgroup cannot be %s", c->task->id,
                             on ? "frozen" : "thawed");
    }
    c->frozen = on;
    return 0;
}

int ctr_close(struct ctr *c, struct fn_op *op, struct fn_error *reterr)
{
    struct oci *d = c->d;
    int r = 0;

    if (atomic_load(&c->state) == CTR_RUNNING) {
        r = d->proc->kill(d->host, c->proc, reterr);
        cgroup_freeze(d->cgroup_v2, c->name, false); /* what is frozen in v1 does not die */
    }
    while (r == 0 && atomic_load(&c->state) == CTR_RUNNING) {
        r = d->op->sleep_until(op, d->host->clock->now_ns(d->host) + END_POLL_NS);
    }
    if (r < 0) {
        return fail_platform(reterr, r, "container %.30s: killed, but its end was not seen in time",
                             c->task->id);
    }
    r = ctr_remove(d, op, c->name, reterr);
    if (r == 0) {
        pthread_mutex_lock(&d->lock);
        LIST_REMOVE(c, all);
        pthread_mutex_unlock(&d->lock);
        free(c);
    }
    return r;
}
