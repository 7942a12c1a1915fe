/* driver/oci: functions in containers that runc or crun start, without an engine.
 *
 * The shortest way to a container: an image is a list of folders that are there already, and one
 * program of the machine makes the container. Images come into the store by fnd-oci. */
#include "cgroup_usage.h"
#include "fail.h"
#include "oci.h"
#include "say_line.h"
#include "shipped.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void oci_log(struct oci *d, uint32_t level, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say_v(d->host, level, fmt, ap);
    va_end(ap);
}

/* ---- the table ------------------------------------------------------------------------------- */

static int op_prepare(void *inst, struct fn_op *op, const struct fn_task *task,
                      struct fn_error *reterr)
{
    return images_prepare(inst, op, task, reterr);
}

static int op_create(void *inst, struct fn_op *op, const struct fn_task *task, void **ret_ctr,
                     struct fn_error *reterr)
{
    struct ctr *c = NULL;
    int r = ctr_create(inst, task, &c, reterr);

    (void)op;
    if (r == 0) {
        *ret_ctr = c;
    }
    return r;
}

static int op_start(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    (void)inst;
    return ctr_start(ctr, op, reterr);
}

static int op_freeze(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    return ctr_freeze(ctr, true, reterr);
}

static int op_thaw(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    return ctr_freeze(ctr, false, reterr);
}

static int op_close(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    (void)inst;
    return ctr_close(ctr, op, reterr);
}

static int op_sweep(void *inst, struct fn_op *op, const char *owner, const char *instance,
                    uint32_t *ret_removed, struct fn_error *reterr)
{
    return ctr_sweep(inst, op, owner, instance, ret_removed, reterr);
}

/* The first line of what it says of itself: "runc version 1.1.5". */
static int ask_version(struct oci *d, struct fn_op *op, struct fn_error *reterr)
{
    const char *const argv[] = { d->runtime, "--version", NULL };
    const struct fn_exec_request rq = { .size = sizeof(rq), .timeout_ms = VERSION_TIMEOUT_MS,
                                        .argv = argv };
    struct fn_exec_result result = { .size = sizeof(result) };
    int r = d->exec->run(d->host, op, &rq, &result, reterr);

    if (r < 0) {
        return fail_retry(reterr, r);
    }
    if (result.exit_code != 0 || !result.out || !*result.out) {
        r = fail_platform(reterr, FN_E_PRECONDITION, "runtime %.200s --version: exit code %d",
                          d->runtime, result.exit_code);
    } else {
        pthread_mutex_lock(&d->lock);
        snprintf(d->version, sizeof(d->version), "%.*s", (int)strcspn(result.out, "\n"),
                 result.out);
        pthread_mutex_unlock(&d->lock);
    }
    d->exec->free_result(&result);
    return r;
}

static int op_probe(void *inst, struct fn_op *op, char *ret_version, size_t cap,
                    struct fn_error *reterr)
{
    struct oci *d = inst;
    bool known;
    int r = 0;

    pthread_mutex_lock(&d->lock);
    known = d->version[0] != '\0';
    pthread_mutex_unlock(&d->lock);
    if (!known) {
        r = ask_version(d, op, reterr);
    } else if (access(d->runtime, X_OK) < 0) {
        r = fail_platform(reterr, FN_E_PRECONDITION, "runtime %.200s: %s", d->runtime,
                          strerror(errno));
    }
    if (r == 0) {
        pthread_mutex_lock(&d->lock);
        snprintf(ret_version, cap, "%s", d->version);
        pthread_mutex_unlock(&d->lock);
    }
    return r;
}

static uint32_t op_uid(void *inst, void *ctr)
{
    (void)inst;
    return ((struct ctr *)ctr)->uid;
}

/* Files of this machine: some microseconds for each. One that goes meanwhile has no figures. */
static int op_usage(void *inst, struct fn_op *op, struct fn_usage *items, uint32_t n,
                    struct fn_error *reterr)
{
    static const char *const places[] = { CGROUP_PARENT "/%s" };
    struct oci *d = inst;
    struct ctr *c;

    (void)reterr;
    for (uint32_t i = 0; i < n && !d->op->cancelled(op); i++) {
        char name[CTR_NAME_MAX] = "";

        pthread_mutex_lock(&d->lock);
        LIST_FOREACH(c, &d->ctrs, all) {
            if (c->handle == items[i].handle) {
                memcpy(name, c->name, sizeof(name));
                break;
            }
        }
        pthread_mutex_unlock(&d->lock);
        if (*name) {
            usage_read("", places, 1, name, &items[i]);
        }
    }
    return 0;
}

static const struct fn_driver_ops ops = {
    .hdr = FN_HDR(struct fn_driver_ops, FN_MAGIC_DRIVER),
    .prepare_image = op_prepare,
    .create = op_create,
    .start = op_start,
    .freeze = op_freeze,
    .thaw = op_thaw,
    .close = op_close,
    .sweep = op_sweep,
    .probe = op_probe,
    .uid = op_uid,
    .usage = op_usage,
};

/* ---- life ------------------------------------------------------------------------------------ */

static int inst_create(const struct fn_host *host, const void *conf, void **ret_inst,
                       struct fn_error *reterr)
{
    struct oci *d = calloc(1, sizeof(*d));
    int r;

    if (!d) {
        return fail_platform(reterr, FN_E_EXHAUSTED, "driver oci: out of memory");
    }
    d->host = host;
    d->conf = conf;
    d->proc = host->get(host, "fn.proc", 1);
    d->exec = host->get(host, "fn.exec", 1);
    d->op = host->get(host, "fn.op", 1);
    d->driver = host->get(host, "fn.driver", 1);
    r = options_check(d, reterr);
    if (r < 0) {
        free(d);
        return r;
    }
    d->cgroup_v2 = cgroup_is_v2();
    d->swap_limits = cgroup_limits_swap(d->cgroup_v2);
    LIST_INIT(&d->ctrs);
    pthread_mutex_init(&d->lock, NULL);
    load_file_init(&d->load_file, d->conf->load_file, images_load_file, d);
    if (strcmp(d->conf->network, "host") == 0) {
        oci_log(d, FN_LOG_WARN, "network: host: functions reach every service of this machine; see "
                "docs/drivers.md");
    }
    *ret_inst = d;
    return 0;
}

static void inst_destroy(void *inst)
{
    struct oci *d = inst;

    if (d) {
        pthread_mutex_destroy(&d->lock);
        load_file_finish(&d->load_file);
        free(d);
    }
}

static const struct fn_need needs[] = {
    { .iface = "fn.proc", .major = 1, .minor_min = 0 },
    { .iface = "fn.exec", .major = 1, .minor_min = 0 },
    { .iface = "fn.op", .major = 1, .minor_min = 0 },
    { .iface = "fn.driver", .major = 1, .minor_min = 0 },
    { .iface = NULL },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_DRIVER,
    .name = "oci",
    .summary = "Functions in containers of runc or crun, without an engine.",
    .kind_major = FN_DRIVER_MAJOR,
    .kind_minor = FN_DRIVER_MINOR,
    .conf_size = sizeof(struct oci_conf),
    .needs = needs,
    .opts = oci_options,
    .ops = &ops,
    .create = inst_create,
    .destroy = inst_destroy,
};

SHIPPED_PLUGIN(driver_oci, "driver-oci", &factory)
