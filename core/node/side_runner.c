/* The runner side of a node: driver, function sockets, slots, the gRPC port. */
#include <node/node.h>

#include <base/log.h>
#include <base/metric.h>
#include <errno.h>
#include <fcntl.h>
#include <http/fnsock.h>
#include <loop/proc.h>
#include <net/home.h>
#include <node/engine_calls.h>
#include <node/owner.h>
#include <node/rights.h>
#include <plugin/answer.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROBE_TIMEOUT_NS (5 * ENV_S)
#define SIDE_CUT_NS      ENV_S        /* for what it says of that */
#define FILES_SLACK      4096         /* pipes and process descriptors of containers */
#define PROCESSORS_MAX   8192         /* that a kernel is built for at most */
#define RECEIVED_BYTES   (256u << 20) /* of messages under way, which rpc holds at most */

/* ---- who this runner is ---------------------------------------------------------------------- */

static int name_self(struct node *n, struct fn_error *reterr)
{
    unsigned char random[16];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return err_set(reterr, FN_E_UNAVAILABLE, "no random bytes for the identity of this runner");
    }
    for (size_t i = 0; i < sizeof(random); i++) {
        snprintf(n->instance + 2 * i, 3, "%02x", random[i]);
    }
    if (n->config->runner->owner) {
        snprintf(n->owner, sizeof(n->owner), "%s", n->config->runner->owner);
    } else {
        owner_derive(n->hostname,
                     n->config->type->inside ? n->config->http->listen : n->config->grpc->listen,
                     n->instance, n->owner);
    }
    return 0;
}

/* ---- what it may use ------------------------------------------------------------------------- */

static int side_read_file(void *ud, const char *path, char *ret, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t got = 0;
    ssize_t len = 0;

    (void)ud;
    if (fd < 0) {
        return err_passes(errno) ? FN_E_EXHAUSTED : FN_E_NOT_FOUND;
    }
    /* The kernel makes such files by the page, and a read() ends with one. */
    while (got < cap - 1 && (len = read(fd, ret + got, cap - 1 - got)) > 0) {
        got += (size_t)len;
    }
    close(fd);
    if (len < 0) {
        return FN_E_UNAVAILABLE;
    }
    ret[got] = '\0';
    return (int)got;
}

/* That this process may run on, as Go Fn counts them. */
static uint32_t processors(void)
{
    cpu_set_t set[PROCESSORS_MAX / CPU_SETSIZE];
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    if (sched_getaffinity(0, sizeof(set), set) == 0) {
        return (uint32_t)CPU_COUNT_S(sizeof(set), set);
    }
    return online > 0 ? (uint32_t)online : 1;
}

static bool side_file_exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

static struct runner_options options_of(const struct node *n)
{
    struct runner_options o = *n->config->runner;

    runner_options_fix(&o);
    o.owner = n->owner;
    o.instance = n->instance;
    o.hostname = n->hostname;
    o.count_calls = !n->config->type->inside;
    return o;
}

static void set_lanes(const struct node *n, const struct runner_options *o)
{
    uint32_t threads = runner_slow_operations_max(o);

    if (loop_set_threads(n->loop, ENV_LANE_SLOW, threads) < 0) {
        log_warn("out of memory for worker threads", "wanted", log_num(threads));
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static int open_fnsock(struct node *n, struct fn_error *reterr)
{
    struct fnsock_config config = *n->config->fnsock;
    bool apart = geteuid() != 0 || (proc_isolation(n->proc) & FN_PROC_HAS_NAMESPACES);

    config.by_path = rights_sockets_by_path(&n->config->drivers, apart);
    config.private_dirs = n->config->runner->privileged;
    config.limits.answer_bytes_max = n->config->runner->answer_bytes_max;
    return fnsock_create(n->loop, &config, &n->fnsock, reterr);
}

static int open_hub(struct node *n, struct fn_error *reterr)
{
    n->hub = driver_hub_create(n->env, n->host);
    return n->hub ? 0 : err_set(reterr, FN_E_EXHAUSTED, "out of memory");
}

/* The drivers in order of creation; the last one is the outermost. */
static int open_drivers(struct node *n, struct fn_error *reterr)
{
    int r = open_hub(n, reterr);

    for (uint32_t i = 0; i < n->config->drivers.n && r == 0; i++) {
        r = node_plugin(n, &n->config->drivers.items[i], &n->driver, reterr);
        r = r < 0 ? r : driver_hub_add(n->hub, n->driver, reterr);
    }
    return r;
}

static int open_local(struct node *n, struct local **ret, struct fn_error *reterr)
{
    void *ud;
    int r = runner_attach(n->runner, local_server_table(), &n->local_cb, &ud, reterr);

    if (r < 0) {
        return r;
    }
    *ret = local_create(n->env, &n->local_cb, ud);
    return *ret ? 0 : err_set(reterr, FN_E_EXHAUSTED, "out of memory");
}

static int runner_open(struct node *n, struct fn_error *reterr)
{
    struct runner_deps deps = {
        .env = n->env,
        .fnsock = &n->fnsock,
        .ids = &n->ids,
        .tracer = n->tracer,
        .reader = { side_read_file, NULL },
        .leads_home = net_url_leads_home,
        .file_exists = side_file_exists,
        .settings = &node_settings,
        .settings_ud = n,
    };
    int r = name_self(n, reterr);

    r = r < 0 ? r : account_detect(&deps.reader, processors(), n->config->account, &deps.totals,
                               reterr);
    r = r < 0 ? r : open_fnsock(n, reterr);
    r = r < 0 ? r : open_drivers(n, reterr);
    if (r < 0) {
        return r;
    }
    deps.options = options_of(n);
    deps.hub = n->hub;
    deps.driver = n->driver;
    r = node_plugin(n, &n->config->operator_, &deps.operator_, reterr);
    r = r < 0 ? r : runner_check_operator(&deps.options, deps.operator_, reterr);
    r = r < 0 ? r : node_plugin(n, &n->config->warm, &deps.predictor, reterr);
    r = r < 0 ? r : runner_check_predictor(deps.predictor, reterr);
    if (r < 0) {
        return r;
    }
    set_lanes(n, &deps.options);
    engine_calls_watch(n->fetch);
    metric_set_subjects(METRIC_OF_RUNNER, n->config->metrics->functions_max);
    r = runner_create(&deps, &n->runner, reterr);
    return r < 0 ? r : open_local(n, n->config->type->inside ? &n->local : &n->log_local, reterr);
}

static void runner_apply(struct node *n)
{
    const struct runner_options options = options_of(n);
    struct fnsock_limits limits = n->config->fnsock->limits;

    limits.answer_bytes_max = options.answer_bytes_max;
    runner_set_options(n->runner, &options);
    set_lanes(n, &options);
    metric_set_subjects(METRIC_OF_RUNNER, n->config->metrics->functions_max);
    fnsock_set_limits(&n->fnsock, &limits);
}

/* The driver's first answer: what runner.prepare waits for. */
struct engine_probe {
    struct node *node;
    void (*done)(void *ud, const struct fn_error *why_not);
    void *ud;
    struct env_work work;
    int result;
    struct fn_error error;
};

static void probe_run(struct env_work *w, struct fn_op *op)
{
    struct engine_probe *probe = container_of(w, struct engine_probe, work);
    struct node *n = probe->node;
    const struct fn_driver_ops *ops = plugin_ops(n->driver);
    struct plugin_crumb crumb;

    plugin_enter(&crumb, n->driver, PLUGIN_WORKER, "probe");
    probe->result = ops->probe(plugin_inst(n->driver), op, n->engine_version,
                               sizeof(n->engine_version), &probe->error);
    plugin_leave(&crumb);
    probe->result = plugin_answer_result(n->driver, "probe", probe->result, 0, &probe->error);
    (void)plugin_answer_text(n->driver, "probe", n->engine_version, sizeof(n->engine_version));
}

static void probe_done(struct env_work *w)
{
    struct engine_probe *probe = container_of(w, struct engine_probe, work);

    probe->node->probe = NULL;
    probe->error.code = FN_E_UNAVAILABLE;
    probe->done(probe->ud, probe->result < 0 ? &probe->error : NULL);
    free(probe);
}

static int runner_prepare(struct node *n, void (*done)(void *ud, const struct fn_error *why_not),
                          void *ud, struct fn_error *reterr)
{
    n->probe = calloc(1, sizeof(*n->probe));
    if (!n->probe) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    *n->probe = (struct engine_probe){ .node = n, .done = done, .ud = ud };
    n->probe->work = (struct env_work){ .run = probe_run,
                                        .done = probe_done,
                                        .lane = ENV_LANE_FAST,
                                        .deadline_ns = env_now_ns(n->env) + PROBE_TIMEOUT_NS };
    if (env_submit(n->env, &n->probe->work) < 0) {
        free(n->probe);
        n->probe = NULL;
        return err_set(reterr, FN_E_UNAVAILABLE, "no worker thread can be started");
    }
    return 0;
}

static int runner_serve(struct node *n, struct fn_error *reterr)
{
    void *ud;
    int r;

    if (n->local) {
        return 0;
    }
    n->log_link = local_client(n->log_local)->link_open(local_client(n->log_local), "local:", NULL,
                                                        NULL, NULL);
    if (!n->log_link) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    r = runner_attach(n->runner, rpc_server_table(), &n->rpc_cb, &ud, reterr);
    return r < 0 ? r
                 : rpc_server_open(n->rpc, n->config->grpc->listen, &n->rpc_cb, ud, &n->rpc_server,
                                   reterr);
}

/* Removes what an earlier process of this owner left, which would be another one's that runs. */
static void runner_begin(struct node *n)
{
    runner_start(n->runner);
}

static void on_runner_drained(void *ud, bool clean)
{
    struct node *n = ud;

    if (!clean) {
        log_warn("the runner did not drain in time; leftovers are removed at the next start");
    }
    n->drained(n->drained_ud);
}

static void drain_containers(void *ud)
{
    struct node *n = ud;

    runner_drain(n->runner, env_now_ns(n->env) + n->config->top->drain_timeout_ns,
                 on_runner_drained, n);
}

static void runner_drain_calls(struct node *n, void (*done)(void *ud), void *ud)
{
    n->drained = done;
    n->drained_ud = ud;
    if (n->local) {
        local_drain(n->local, drain_containers, n); /* no attempt is left: links go down */
    } else {
        drain_containers(n);
    }
}

static uint64_t runner_in_flight(const struct node *n)
{
    struct runner_counts c;

    runner_count(n->runner, &c);
    return c.active;
}

static void runner_cut_calls(struct node *n)
{
    runner_cut(n->runner);
}

static void runner_close(struct node *n)
{
    if (n->rpc_server) {
        rpc_server_close(n->rpc_server);
    }
    if (n->log_link) {
        local_client(n->log_local)->link_close(n->log_link);
    }
    local_destroy(n->log_local);
    local_destroy(n->local);
    runner_destroy(n->runner);
    fnsock_destroy(&n->fnsock);
}

/* ---- in a check ------------------------------------------------------------------------------ */

/* Drivers may stand on those before them: behind one that is refused none is judged. */
static void runner_try_plugins(struct node *n)
{
    const struct config_list_plugin *list = &n->config->drivers;
    struct plugin *driver = NULL, *operator_ = NULL, *predictor = NULL;
    struct fn_error e = ERR_INIT;

    for (uint32_t i = 0; i < list->n && node_plugin(n, &list->items[i], &driver, &e) == 0; i++) {
        if (driver && driver_hub_add(n->hub, driver, &e) < 0) {
            conf_problem(n->problems, "CFG712", list->items[i].where, "%s", e.msg);
        }
    }
    if (node_plugin(n, &n->config->operator_, &operator_, &e) == 0) {
        const struct runner_options options = options_of(n);

        if (runner_check_operator(&options, operator_, &e) < 0) {
            conf_problem(n->problems, "CFG712", n->config->operator_.where, "%s",
                         e.msg);
        }
    }
    if (node_plugin(n, &n->config->warm, &predictor, &e) == 0 &&
        runner_check_predictor(predictor, &e) < 0) {
        conf_problem(n->problems, "CFG712", n->config->warm.where, "%s", e.msg);
    }
}

/* ---- what operators see ---------------------------------------------------------------------- */

static json_t *warm_status(const struct runner_warm_counts *w)
{
    return json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I}", "containers", w->now, "hits",
                     (json_int_t)w->hits, "misses", (json_int_t)w->misses, "started",
                     (json_int_t)w->started, "failed", (json_int_t)w->failed, "expired",
                     (json_int_t)w->expired, "evicted", (json_int_t)w->evicted);
}

static json_t *runner_status(const struct node *n)
{
    struct runner_counts c;

    runner_count(n->runner, &c);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:i, s:b, s:o}", "received",
                     (json_int_t)c.received, "ok", (json_int_t)c.ok, "failed", (json_int_t)c.failed,
                     "not_executed", (json_int_t)c.not_executed, "unknown", (json_int_t)c.unknown,
                     "aborted", (json_int_t)c.aborted, "in_flight", (json_int_t)c.in_flight,
                     "waiting", c.waiting, "running", c.running, "containers", c.containers,
                     "engine_up", c.engine_up, "warm", warm_status(&c.warm));
}

static const char *runner_unready(const struct node *n, char *text, size_t cap)
{
    struct runner_counts c;

    (void)text;
    (void)cap;
    runner_count(n->runner, &c);
    return c.engine_up ? NULL : "the container engine does not answer";
}

static uint64_t runner_memory(const struct node *n)
{
    return RECEIVED_BYTES + n->config->runner->calls_bytes_max;
}

static void runner_set_chain(struct node *n, struct chain *chain)
{
    runner_set_plugins(n->runner, chain);
}

static void runner_rights(const struct config *c, struct harden_plan *p)
{
    rights_add_drivers(p, &c->drivers);
}

const struct node_side node_side_runner = {
    .name = "runner",
    .open = runner_open,
    .prepare = runner_prepare,
    .serve = runner_serve,
    .begin = runner_begin,
    .apply = runner_apply,
    .drain = runner_drain_calls,
    .close = runner_close,
    .try_open = open_hub,
    .try_plugins = runner_try_plugins,
    .set_chain = runner_set_chain,
    .in_flight = runner_in_flight,
    .cut = runner_cut_calls,
    .cut_ns = RUNNER_CUT_NS + SIDE_CUT_NS,
    .lists = node_runner_lists,
    .tables = node_runner_tables,
    .series = node_runner_series,
    .sample = node_runner_sample,
    .exposed = "gRPC is in plain text: whoever reaches it may run any image that "
               "runner.images_allowed lets in, as any app and with any settings, with this node's "
               "registry credentials; expected grpc.tls, a firewall or a listen address of a "
               "trusted network",
    .status = runner_status,
    .unready = runner_unready,
    .rights = runner_rights,
    .memory = runner_memory,
    .files_slack = FILES_SLACK,
};
