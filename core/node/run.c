/* The life of a node process.
 *
 *   opening ──engine answers──▶ serving ──SIGTERM, SIGINT──▶ draining ──all gone──▶ ended
 *      └──no engine, port in use──▶ ended             second signal ──▶ exit at once
 *
 * SIGUSR2 is a SIGTERM with a successor: who connects meanwhile waits for it at the port, where the
 * service manager keeps that (net/inherit.h); after SIGTERM the port refuses.
 *
 * SIGHUP opens the log file anew and reads the configuration again (reload.h). Draining: the HTTP
 * port closes, running calls end, then the runner side removes its containers. At drain_timeout
 * what is left is cut. */
#include <node/node.h>

#include <base/log.h>
#include <fcntl.h>
#include <loop/awake.h>
#include <loop/log_dest.h>
#include <loop/signals.h>
#include <loop/watchdog.h>
#include <malloc.h>
#include <net/inherit.h>
#include <node/rights.h>
#include <process/notify.h>
#include <process/crash.h>
#include <process/metrics.h>
#include <process/supervise.h>
#include <process/watch.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define DRAIN_POLL_NS    (20 * ENV_MS) /* connections have no event for "last one gone" */
#define DESCRIPTORS_RESERVED 64
#define LAST_REQUESTS_NS ENV_S /* clients send on connections that they have, until they are told */
#define SETTLE_NS        ENV_S /* for workers to come back when the node ends */
#define END_NS           (10 * ENV_S) /* for plugins and exit handlers, when the loop has ended */
#define LOG_FLUSH_MS     1000
#define FILES_SLACK      64 /* descriptors that the audit does not know */
#define ARENAS_MAX       2 /* of malloc: lane threads need none of their own; each keeps memory */

struct run {
    struct node node;
    struct watch *watch;
    int exit_code;
    bool draining, clean;
    bool cut; /* the drain deadline passed */
    bool given_up; /* asked to end before it served */
    int64_t drain_begun_ns;
    bool front_waits;        /* for the last requests */
    uint32_t sides_prepared;
    uint32_t sides_draining; /* the first ones; each begins when the one before is done */
    bool sides_drained;
    bool answers_out; /* the clients of the gRPC port have read what they were answered */
    struct env_timer drain_poll;
    struct env_timer drain_deadline;
    struct env_timer last_turn;
};

/* ---- log ------------------------------------------------------------------------------------- */

static int64_t wall_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * ENV_S + ts.tv_nsec;
}

static int open_log(const struct log_options *c, struct fn_error *reterr)
{
    struct log_config log = { .level = FN_LOG_INFO, .wall_ns = wall_ns, .sink = log_writer_write };
    struct log_writer_config writer;
    int r = log_dest_open(c, DESCRIPTORS_RESERVED, &writer, reterr);

    r = r < 0 ? r : log_writer_start(&writer, reterr);
    if (r < 0) {
        return r;
    }
    log_level_parse(c->level, &log.level);
    log.format = strcmp(c->format, "json") == 0 ? LOG_JSON : LOG_TEXT;
    log_setup(&log);
    crash_log_to(writer.path ? writer.fd : -1);
    return 0;
}

/* Whoever takes the log may stand still: the end does not wait for him. */
static _Noreturn void leave(int code)
{
    log_writer_flush(LOG_FLUSH_MS);
    _exit(code);
}

/* Of an end at once. With a successor it is the same end. */
static int exit_code_of(int signo)
{
    return 128 + (signo == SIGUSR2 ? SIGTERM : signo);
}

/* ---- drain ----------------------------------------------------------------------------------- */

/* A call has ended for the runner when its answer is queued: a slow client's is still here. What a
 * manager tells is not worth a wait, it serves no calls. */
static bool owes_answers(const struct run *run)
{
    return run->node.rpc_server && run->node.front->cut && !run->answers_out;
}

static void drain_step(struct run *run)
{
    const struct node *n = &run->node;

    if (run->sides_drained && run->draining && !owes_answers(run) && reload_is_quiet(n->reload) &&
        generations_are_told(n) && tracer_is_flushed(n->tracer) &&
        (!n->web || http_server_connections(web_server(n->web)) == 0) && !run->clean) {
        log_info("drained: no work is left, the node ends", "took_ms",
                 log_num((env_now_ns(run->node.env) - run->drain_begun_ns) / ENV_MS));
        run->clean = true;
        loop_stop(run->node.loop);
    }
}

static void drain_next(void *ud)
{
    struct run *run = ud;
    struct node *n = &run->node;

    if (run->sides_draining == n->n_sides) {
        run->sides_drained = true;
        tracer_flush(n->tracer);
        return;
    }
    n->sides[run->sides_draining++]->drain(n, drain_next, run);
}

static void drain_front(struct run *run)
{
    if (run->front_waits) {
        run->front_waits = false;
        drain_next(run);
    }
}

/* Each call that is under way is answered and told in the log. */
static void cut_calls(struct run *run, const char *why)
{
    const struct node_side *front = run->node.front;
    uint64_t calls = 0;

    if (front->cut) {
        drain_front(run);
        calls = front->in_flight(&run->node);
    }
    log_warn(why, "calls", calls ? log_num((int64_t)calls) : NULL);
    if (calls > 0) {
        front->cut(&run->node);
    }
}

static int64_t cut_takes_ns(const struct node *n)
{
    int64_t ns = 0;

    for (uint32_t i = 0; i < n->n_sides; i++) {
        ns += n->sides[i]->cut_ns;
    }
    return ns;
}

static void on_drain_deadline(struct env_timer *t)
{
    struct run *run = container_of(t, struct run, drain_deadline);

    if (run->sides_drained && owes_answers(run)) {
        log_warn("the drain deadline passed; what clients have not read of their answers is cut");
        run->answers_out = true;
        drain_step(run);
    }
    if (run->clean) {
        return;
    }
    if (!run->cut && run->node.front->cut) {
        run->cut = true;
        cut_calls(run, "the drain deadline passed; what still runs is cut");
        env_timer_set(run->node.env, t, env_now_ns(run->node.env) + cut_takes_ns(&run->node));
        return;
    }
    log_warn("the node ends with work left; what it leaves behind is removed at the next start");
    run->clean = false;
    loop_stop(run->node.loop);
}

static void on_drain_poll(struct env_timer *t)
{
    struct run *run = container_of(t, struct run, drain_poll);

    env_timer_set(run->node.env, t, env_now_ns(run->node.env) + DRAIN_POLL_NS);
    if (!run->node.web || http_server_is_calm(web_server(run->node.web))) {
        drain_front(run);
    }
    drain_step(run);
}

static void on_server_drained(void *ud)
{
    struct run *run = ud;

    run->answers_out = true;
}

static void begin_drain(struct run *run, bool has_successor)
{
    struct node *n = &run->node;

    log_info("draining: new calls are refused, running ones end", "timeout_ms",
             log_num(n->config->top->drain_timeout_ns / ENV_MS));
    notify_tell("STOPPING=1");
    run->draining = n->draining = true;
    run->drain_begun_ns = env_now_ns(n->env);
    reload_stop(n->reload);
    chain_retire(&n->gen->chain, NULL);
    run->drain_poll.cb = on_drain_poll;
    run->drain_deadline.cb = on_drain_deadline;
    env_timer_set(n->env, &run->drain_poll, env_now_ns(n->env));
    env_timer_set(n->env, &run->drain_deadline,
                  env_now_ns(n->env) + n->config->top->drain_timeout_ns);
    if (n->web) {
        http_server_drain(web_server(n->web), n->front->serves_clients ? LAST_REQUESTS_NS : 0);
    }
    if (!has_successor) {
        net_inherit_end();
    }
    if (n->rpc_server) {
        rpc_server_drain(n->rpc_server, on_server_drained, run);
    }
    run->front_waits = true;
    if (!n->front->serves_clients) {
        drain_front(run);
    }
}

static void on_last_turn(struct env_timer *t)
{
    leave(container_of(t, struct run, last_turn)->exit_code);
}

/* Connections that carry several calls write at the end of a turn: what their clients are told is
 * out in the next one. */
static void end_at_once(struct run *run, int signo)
{
    if (env_timer_is_set(&run->last_turn)) {
        return;
    }
    cut_calls(run, "a second signal: ending at once");
    run->exit_code = exit_code_of(signo);
    run->last_turn.cb = on_last_turn;
    env_timer_set(run->node.env, &run->last_turn, env_now_ns(run->node.env) + 1);
}

static void on_stop_signal(struct run *run, int signo)
{
    supervise_ending();
    if (run->draining) {
        end_at_once(run, signo);
        return;
    }
    if (!run->node.serving) {
        run->exit_code = EXIT_OK;
        run->given_up = true;
        loop_stop(run->node.loop);
        return;
    }
    begin_drain(run, signo == SIGUSR2);
}

static void on_signal(void *ud, int signo)
{
    struct run *run = ud;

    if (signo != SIGHUP) {
        on_stop_signal(run, signo);
        return;
    }
    log_writer_reopen();
    node_tls_look(&run->node.tls);
    reload_signal(run->node.reload);
}

/* ---- start ----------------------------------------------------------------------------------- */

static void run_fail(struct run *run, const struct fn_error *e)
{
    log_error(e->msg);
    run->exit_code = e->code == FN_E_INVALID ? EXIT_CONFIG : EXIT_UNAVAILABLE;
    loop_stop(run->node.loop);
}

/* The clients' port is kept. A runner's is not: load balancers that are refused go on to the next
 * one at once. */
static int open_ports(struct node *n, struct fn_error *e)
{
    static const struct net_keeper manager = { notify_keep, notify_drop };
    int r;

    net_inherit_keep(n->front->serves_clients ? &manager : NULL);
    r = node_serve(n, e);
    net_inherit_settle();
    return r;
}

static void serve(struct run *run)
{
    struct node *n = &run->node;
    struct fn_error e = ERR_INIT;

    if (open_ports(n, &e) < 0) {
        run_fail(run, &e);
        return;
    }
    run->node.serving = true;
    notify_tell("READY=1");
    log_info("fnd serving", "type", n->config->top->node, "version", FND_VERSION, "http",
             n->config->http->listen, "http_tls", n->config->http->tls, "grpc",
             n->rpc_server ? n->config->grpc->listen : NULL, "admin",
             n->admin_path[0] ? n->admin_path : NULL, "transport",
             rpc_transport_library(n->rpc), "engine",
             n->engine_version[0] ? n->engine_version : NULL, "plugins",
             plugin_host_summary(n->host));
    rights_tell(&n->hardening);
}

static void prepare_next(struct run *run);

static void on_prepared(void *ud, const struct fn_error *why_not)
{
    struct run *run = ud;

    if (run->given_up) {
        return;
    }
    if (why_not) {
        run_fail(run, why_not);
    } else {
        prepare_next(run);
    }
}

/* Ports open when each side found what it needs: a runner without its engine takes no calls. */
static void prepare_next(struct run *run)
{
    struct node *n = &run->node;
    struct fn_error e = ERR_INIT;

    while (run->sides_prepared < n->n_sides && !n->sides[run->sides_prepared]->prepare) {
        run->sides_prepared++;
    }
    if (run->sides_prepared == n->n_sides) {
        serve(run);
    } else if (n->sides[run->sides_prepared++]->prepare(n, on_prepared, run, &e) < 0) {
        run_fail(run, &e);
    }
}

/* Every connection is a descriptor: as many as the system allows. */
static void raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* A plugin that closes what it did not open begins with low numbers: the host uses none of them. */
static void reserve_descriptors(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    while (fd >= 0 && fd < DESCRIPTORS_RESERVED) {
        fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    }
    if (fd >= DESCRIPTORS_RESERVED) {
        close(fd);
    }
}

/* Bodies as many as there were, and what the sides may take. On the loop, where the configuration
 * is: a reload frees the one before. */
static uint64_t memory_allowed(void *ud)
{
    const struct node *n = ud;
    uint64_t bytes = n->bodies.peak_bytes;

    for (uint32_t i = 0; i < n->n_sides; i++) {
        bytes += n->sides[i]->memory ? n->sides[i]->memory(n) : 0;
    }
    return bytes;
}

static uint32_t files_slack(const struct node *n)
{
    uint32_t most = FILES_SLACK;

    for (uint32_t i = 0; i < n->n_sides; i++) {
        most = n->sides[i]->files_slack > most ? n->sides[i]->files_slack : most;
    }
    return most;
}

static int begin_watch(struct run *run, struct fn_error *e)
{
    struct node *n = &run->node;
    const struct watch_config c = {
        .loop = n->loop,
        .host = n->host,
        .watchdog_ns = n->config->watchdog->limit_ns,
        .audit_ns = n->config->audit->interval_ns,
        .processors_awake = n->config->awake->wish,
        .files_slack = files_slack(n),
        .memory_allowed = memory_allowed,
        .ud = n,
    };

    return watch_create(&c, &run->watch, e);
}

static int open_node(struct run *run, struct config *config, struct conf_problems *problems,
                     struct fn_error *e)
{
    struct node *n = &run->node;
    int r;

    n->problems = problems;
    r = node_open(n, config, e);
    n->problems = NULL;
    if (r == 0) {
        r = signals_watch(n->loop, on_signal, run, e);
        r = r < 0 ? r : begin_watch(run, e);
    }
    return r;
}

/* A start ends at the first part that cannot be made; what else is wrong a check tells. */
static int tell_refusal(const struct start *o, struct conf_problems *problems,
                        const struct fn_error *e)
{
    bool wrong = problems->n > 0 || e->code == FN_E_INVALID;

    if (!wrong || !start_check_tells(o)) {
        if (problems->n > 0) {
            fputs(buf_text(&problems->text), stderr);
        } else {
            log_error(e->msg);
        }
    }
    return wrong ? EXIT_CONFIG : EXIT_UNAVAILABLE;
}

static void on_other_signal(void *ud, int signo, int pid)
{
    static struct log_gate gate;
    uint32_t suppressed = 0;
    const char *name = sigabbrev_np(signo);

    (void)ud;
    if (log_gate_open(&gate, wall_ns(), ENV_S, 4, &suppressed)) {
        log_warn(pid == getpid() || pid == 0
                     ? "a signal without meaning has no effect; a plugin, or a limit of this process"
                     : "a signal without meaning has no effect",
                 "signal", name ? name : log_num(signo), "from_pid", pid ? log_num(pid) : NULL,
                 "suppressed", suppressed ? log_num(suppressed) : NULL);
    }
}

/* On the thread of the signals: whoever should end the process does not. */
static void on_overdue(void *ud, int signo)
{
    struct run *run = ud;
    struct plugin_busy b = { NULL, NULL, NULL, 0 };
    bool busy = run->node.host && plugin_host_busy(run->node.host, &b);

    if (signo) {
        supervise_ending();
        log_error("a second signal, and the loop is stuck: ending at once, calls are cut", "plugin",
                  busy ? b.name : NULL, "kind", busy ? b.kind : NULL, "method",
                  busy ? b.method : NULL);
        leave(exit_code_of(signo));
    }
    log_error("the node does not come to its end: destroy() or an exit handler of a plugin hangs; "
              "ending at once");
    leave(run->exit_code);
}

static int begin_signals(struct run *run, struct fn_error *e)
{
    const struct signals_config c = { .told = on_other_signal,
                                      .overdue = on_overdue,
                                      .ud = run,
                                      .above_pid = supervise_parent() };

    return signals_begin(&c, e);
}

/* Also what a refused start had made already: its directories are nobody's otherwise. */
static int close_node(struct run *run)
{
    struct node *n = &run->node;

    /* A hung engine holds workers inside of the driver, and a lost thread is inside of a plugin:
     * neither could be destroyed under them. */
    if (plugin_lost() > 0 ||
        (n->loop && (loop_lost(n->loop) > 0 ||
                     !loop_settle(n->loop, env_now_ns(n->env) + SETTLE_NS)))) {
        leave(run->exit_code);
    }
    watch_destroy(run->watch);
    node_close(n);
    log_writer_flush(LOG_FLUSH_MS);
    return run->exit_code;
}

int run_node(struct config *config, const struct start *o)
{
    static struct run run; /* the signals' thread looks at it until the process ends */
    struct conf_problems problems;
    struct fn_error e = ERR_INIT;

    mallopt(M_ARENA_MAX, ARENAS_MAX);
    signals_block();
    raise_descriptors();
    reserve_descriptors();
    net_inherit_begin(supervise_parent(), DESCRIPTORS_RESERVED);
    conf_problems_init(&problems);
    problems.strict = o->strict;
    if (rights_give_up(config, &run.node.hardening, &e) < 0 || open_log(config->log, &e) < 0 ||
        begin_signals(&run, &e) < 0) {
        fprintf(stderr, "%s\n", e.msg);
        return e.code == FN_E_INVALID ? EXIT_CONFIG : EXIT_UNAVAILABLE;
    }
    conf_log_warnings(o->warnings ? o->warnings : "");
    crash_install();
    plugin_guard_forks();
    process_metrics_declare(config->buckets);
    if (open_node(&run, config, &problems, &e) < 0) {
        run.exit_code = tell_refusal(o, &problems, &e);
        signals_end_within(END_NS);
        conf_problems_finish(&problems);
        return close_node(&run);
    }
    conf_log_warnings(buf_text(&problems.text));
    conf_problems_finish(&problems);
    loop_enter(run.node.loop);
    notify_begin_watchdog(run.node.env);
    prepare_next(&run);
    loop_leave(run.node.loop);
    loop_run(run.node.loop);
    signals_end_within(END_NS);
    if (run.draining && !run.clean) {
        leave(EXIT_OK); /* threads may still be inside plugins */
    }
    return close_node(&run);
}
