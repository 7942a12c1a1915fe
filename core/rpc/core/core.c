/* The table, the completion queue, and the turn. */
#include <rpc/core/core_int.h>

#include <assert.h>
#include <signal.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TICK_NS    (100 * ENV_MS)
#define WAKES      4
#define DESTROY_MS 5000 /* for what C core has under way when a node ends */

/* C core's lines are the process's, whoever made the transport. */
static const struct rpc_transport_host *log_host;

static void on_log(gpr_log_func_args *args)
{
    uint32_t level = args->severity == GPR_LOG_SEVERITY_ERROR  ? FN_LOG_WARN
                     : args->severity == GPR_LOG_SEVERITY_INFO ? FN_LOG_INFO
                                                               : FN_LOG_DEBUG;

    log_host->log_library(level, args->message);
}

/* ---- the turn -------------------------------------------------------------------------------- */

void core_wake(struct core *t)
{
    env_defer(t->base.env, &t->turn);
}

void core_dirty_conn(struct core_conn *c)
{
    if (!c->dirty && !c->life.dead) {
        c->dirty = true;
        TAILQ_INSERT_TAIL(&c->t->dirty_conns, c, dirty_link);
        core_wake(c->t);
    }
}

void core_dirty_stream(struct core_stream *st)
{
    if (!st->dirty) {
        st->dirty = true;
        TAILQ_INSERT_TAIL(&st->t->dirty_streams, st, dirty_link);
        core_wake(st->t);
    }
}

void core_op_began(struct core *t, struct core_op *op)
{
    op->busy = true;
    t->busy_ops++;
}

bool core_begin(struct core *t, struct core_op *op, grpc_call *call, const grpc_op *ops, size_t n)
{
    /* Broken by this transport: it waits for the end of an operation before the next. */
    assert(!op->busy);
    core_op_began(t, op);
    if (grpc_call_start_batch(call, ops, n, op, NULL) != GRPC_CALL_OK) {
        op->busy = false;
        t->busy_ops--;
        return false;
    }
    return true;
}

/* Completions; each look without one lets C core handle one event. What we write, read and close of
 * a pair makes one at C core's end, and so does a new pair. */
static uint32_t poll_core(struct core *t, gpr_timespec until)
{
    uint32_t done = 0, idle = 0;
    grpc_event ev;

    do {
        ev = grpc_completion_queue_next(t->cq, until, NULL);
        if (ev.type == GRPC_OP_COMPLETE) {
            struct core_op *op = ev.tag;

            op->busy = false;
            t->busy_ops--;
            done++;
            op->done(op, ev.success != 0);
        } else {
            idle++;
        }
    } while (ev.type == GRPC_OP_COMPLETE || idle <= t->events);
    t->events = 0;
    return done;
}

void core_settle(struct core *t)
{
    struct core_stream *st;
    uint32_t done;

    do {
        while ((st = TAILQ_FIRST(&t->dirty_streams))) {
            TAILQ_REMOVE(&t->dirty_streams, st, dirty_link);
            st->dirty = false;
            stream_begin(st);
        }
        done = poll_core(t, gpr_inf_past(GPR_CLOCK_MONOTONIC));
    } while (done > 0 || !TAILQ_EMPTY(&t->dirty_streams));
}

static void core_on_turn(struct env_task *task)
{
    struct core *t = container_of(task, struct core, turn);
    struct core_conn *c;

    core_settle(t);
    while ((c = TAILQ_FIRST(&t->dirty_conns))) {
        TAILQ_REMOVE(&t->dirty_conns, c, dirty_link);
        c->dirty = false;
        pump_out(c);
    }
    if (t->busy_ops > 0 && !env_timer_is_set(&t->tick)) {
        env_timer_set(t->base.env, &t->tick, env_now_ns(t->base.env) + TICK_NS);
    }
}

static void on_tick(struct env_timer *timer)
{
    core_wake(container_of(timer, struct core, tick));
}

/* ---- life ------------------------------------------------------------------------------------ */

/* C core's threads inherit the mask: signals are the loop's. */
static void init_library(const struct rpc_transport_host *host)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    log_host = host;
    gpr_set_log_function(on_log);
    grpc_init();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int core_create(const struct rpc_transport_host *host, const struct rpc_limits *limits,
                       struct transport **ret)
{
    struct core *t = host->size == sizeof(*host) ? calloc(1, sizeof(*t)) : NULL;

    if (!t) {
        return FN_E_EXHAUSTED;
    }
    init_library(host);
    t->base.table = fnd_transport();
    t->host = host;
    t->base.env = host->env;
    t->base.limits = *limits;
    t->turn.cb = core_on_turn;
    t->tick.cb = on_tick;
    TAILQ_INIT(&t->dirty_conns);
    TAILQ_INIT(&t->dirty_streams);
    t->cq = grpc_completion_queue_create_for_next(NULL);
    t->channel_creds = grpc_insecure_credentials_create();
    t->server_creds = grpc_insecure_server_credentials_create();
    *ret = &t->base;
    return 0;
}

/* A pair of sockets that was full has a thread of C core poll, ten seconds a turn, and
 * grpc_shutdown() waits for it. An event on any socket of C core ends a turn: the end of a
 * connection that is for nothing else. It may take two to see that there is nothing to poll for,
 * and each has to come when the one before was seen: on a busy machine not at once. */
static void wake_pollers(struct core *t)
{
    struct timespec apart = { .tv_nsec = ENV_MS };

    for (int i = 0; i < WAKES; i++) {
        grpc_channel *channel;
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0) {
            return;
        }
        channel = grpc_channel_create_from_fd("end", pair[1], t->channel_creds, NULL);
        close(pair[0]);
        grpc_channel_destroy(channel);
        if (i < WAKES - 1) {
            nanosleep(&apart, NULL);
            apart.tv_nsec *= 4;
        }
    }
}

static void core_destroy(struct transport *base)
{
    struct core *t = container_of(base, struct core, base);
    gpr_timespec end = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                    gpr_time_from_millis(DESTROY_MS, GPR_TIMESPAN));

    life_end_all(base);
    while (t->busy_ops > 0 && gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), end) < 0) {
        poll_core(t, gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                  gpr_time_from_millis(10, GPR_TIMESPAN)));
    }
    env_undefer(t->base.env, &t->turn);
    env_timer_clear(t->base.env, &t->tick);
    grpc_completion_queue_shutdown(t->cq);
    while (grpc_completion_queue_next(t->cq, end, NULL).type == GRPC_OP_COMPLETE) {
    }
    grpc_completion_queue_destroy(t->cq);
    wake_pollers(t);
    grpc_channel_credentials_release(t->channel_creds);
    grpc_server_credentials_release(t->server_creds);
    grpc_shutdown();
    free(t);
}

static struct rpc_transport table = {
    .size = sizeof(struct rpc_transport),
    .name = "core",
    .build = RPC_TRANSPORT_BUILD,
    .create = core_create,
    .destroy = core_destroy,
    .conn_create = core_conn_create,
};

const struct rpc_transport *fnd_transport(void)
{
    static char library[64];

    if (!table.library) {
        snprintf(library, sizeof(library), "gRPC C core %s", grpc_version_string());
        table.library = library;
    }
    return &table;
}
