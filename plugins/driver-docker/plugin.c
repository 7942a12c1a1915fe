/* driver/docker: functions in containers of a Docker engine, over its HTTP API.
 * Go Fn: api/agent/drivers/docker. */
#include "docker.h"
#include "fail.h"
#include "shipped.h"

#include <stdlib.h>

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
    int r = ctr_create(inst, op, task, &c, reterr);

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
    return ctr_freeze(ctr, op, true, reterr);
}

static int op_thaw(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    (void)inst;
    return ctr_freeze(ctr, op, false, reterr);
}

static int op_close(void *inst, struct fn_op *op, void *ctr, struct fn_error *reterr)
{
    (void)inst;
    return ctr_close(ctr, op, reterr);
}

static int op_sweep(void *inst, struct fn_op *op, const char *owner, const char *instance,
                    uint32_t *ret_removed, struct fn_error *reterr)
{
    int r = ctr_sweep(inst, op, owner, instance, ret_removed, reterr);

    cleaner_run(inst, op);
    return r;
}

static int op_probe(void *inst, struct fn_op *op, char *ret_version, size_t cap,
                    struct fn_error *reterr)
{
    return engine_probe(inst, op, ret_version, cap, reterr);
}

static uint32_t op_uid(void *inst, void *ctr)
{
    struct docker *d = inst;
    struct ctr *c = ctr;
    uint32_t uid;

    pthread_mutex_lock(&d->lock);
    uid = c->privileged_user || !d->info_known || d->info.userns ? UINT32_MAX : 1000;
    pthread_mutex_unlock(&d->lock);
    return uid;
}

static int op_usage(void *inst, struct fn_op *op, struct fn_usage *items, uint32_t n,
                    struct fn_error *reterr)
{
    return usage_tell(inst, op, items, n, reterr);
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

static void tick(void *ud)
{
    struct docker *d = ud;

    events_tick(d);
    presence_tick(d);
    disk_tick(d);
    orphans_tick(d);
    if (d->host->timer->arm(d->host, engine_now_ns(d) + EVENTS_RETRY_NS, tick, d, &d->timer) < 0) {
        engine_log(d, FN_LOG_ERROR, "no timer: the end of containers will not be noticed");
        d->timer = 0;
    }
}

/* The host's own network and other containers' are not for functions. */
static int check_networks(const struct fn_strlist *list, struct fn_error *reterr)
{
    if (list->n > NETWORKS_MAX) {
        return fail_platform(reterr, FN_E_INVALID, "networks, got %llu; expected at most %d",
                             (unsigned long long)list->n, NETWORKS_MAX);
    }
    for (uint64_t i = 0; i < list->n; i++) {
        const char *name = list->items[i];

        if (!*name || strcmp(name, "host") == 0 || strpbrk(name, ": \t/") != NULL) {
            return fail_platform(reterr, FN_E_INVALID,
                                 "networks, got \"%.60s\"; expected the name of an engine network "
                                 "other than host",
                                 name);
        }
    }
    return 0;
}

static void inst_destroy(void *inst)
{
    struct docker *d = inst;
    struct ctr *c, *next;

    if (!d) {
        return;
    }
    if (d->timer) {
        d->host->timer->cancel(d->host, d->timer);
    }
    events_close(d);
    presence_close(d);
    HASH_ITER(hh, d->ctrs, c, next) {
        ctr_drop(c);
    }
    presence_finish(d);
    pthread_mutex_destroy(&d->lock);
    load_file_finish(&d->load_file);
    pthread_mutex_destroy(&d->network_lock);
    pthread_mutex_destroy(&d->output_lock);
    free(d);
}

/* The address first: the rules look at where the engine's socket is. */
static int check_options(struct docker *d, struct fn_error *reterr)
{
    struct auth *auth = NULL; /* only looked at */
    int r = engine_address(d, d->conf->docker_host, reterr);

    if (r < 0) {
        return r;
    }
    r = check_networks(&d->conf->networks, reterr);
    if (r < 0) {
        return r;
    }
    r = rules_check(&d->conf->allow, d->unix_path, reterr);
    if (r < 0) {
        return r;
    }
    r = images_check_file(d, reterr);
    if (r < 0) {
        return r;
    }
    r = images_read_auth(d, &auth, reterr);
    auth_destroy(auth);
    return r;
}

/* The timer last: nothing of a refused driver runs. */
static int begin(struct docker *d, struct fn_error *reterr)
{
    const struct fn_host *host = d->host;
    int r = check_options(d, reterr);

    if (r < 0) {
        return r;
    }
    r = disk_declare(d);
    if (r < 0) {
        return r;
    }
    r = host->metric->declare(host, "containers_of_others", FN_METRIC_GAUGE, &d->others_metric);
    if (r < 0) {
        return r;
    }
    return host->timer->arm(host, engine_now_ns(d), tick, d, &d->timer);
}

static int inst_create(const struct fn_host *host, const void *conf, void **ret_inst,
                       struct fn_error *reterr)
{
    struct docker *d = calloc(1, sizeof(*d));
    int r;

    if (!d) {
        return fail_platform(reterr, FN_E_EXHAUSTED, "driver docker: out of memory");
    }
    d->host = host;
    d->conf = conf;
    d->http = host->get(host, "fn.http", 1);
    d->driver = host->get(host, "fn.driver", 1);
    d->op = host->get(host, "fn.op", 1);
    d->exec = host->get(host, "fn.exec", 1);
    d->events.tried_ns = engine_now_ns(d) - EVENTS_RETRY_NS;
    d->clean_wanted = true;
    LIST_INIT(&d->questions);
    pthread_mutex_init(&d->lock, NULL);
    load_file_init(&d->load_file, d->conf->load_file, images_load_file, d);
    pthread_mutex_init(&d->network_lock, NULL);
    pthread_mutex_init(&d->output_lock, NULL);
    r = begin(d, reterr);
    if (r < 0) {
        inst_destroy(d);
        return r;
    }
    *ret_inst = d;
    return 0;
}

static const struct fn_need needs[] = {
    { .iface = "fn.http", .major = 1, .minor_min = 0 },
    { .iface = "fn.driver", .major = 1, .minor_min = 0 },
    { .iface = "fn.op", .major = 1, .minor_min = 0 },
    { .iface = "fn.exec", .major = 1, .minor_min = 0 },
    { .iface = NULL },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_DRIVER,
    .name = "docker",
    .summary = "Functions in containers of a Docker engine.",
    .kind_major = FN_DRIVER_MAJOR,
    .kind_minor = FN_DRIVER_MINOR,
    .conf_size = sizeof(struct docker_conf),
    .needs = needs,
    .opts = docker_options,
    .ops = &ops,
    .create = inst_create,
    .destroy = inst_destroy,
};

SHIPPED_PLUGIN(driver_docker, "driver-docker", &factory)
