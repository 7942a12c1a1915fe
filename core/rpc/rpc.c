/* The completion thread, and what client and server share. */
#include <rpc/raw.h>
#include <rpc/rpc_int.h>

#include <assert.h>
#include <base/log.h>
#include <dirent.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Completions handled in one stay in the loop: enough to share its cost, few enough that others
 * wait microseconds. */
#define BATCH_MAX 64

static void dispatch(grpc_event ev)
{
    struct rpc_tag *tag = ev.tag;

    tag->fn(tag, ev.success != 0);
}

static void *completions(void *arg)
{
    struct rpc *r = arg;
    gpr_timespec never = gpr_inf_future(GPR_CLOCK_MONOTONIC);
    gpr_timespec past = gpr_inf_past(GPR_CLOCK_MONOTONIC);

    for (;;) {
        grpc_event ev = grpc_completion_queue_next(r->cq, never, NULL);

        if (ev.type != GRPC_OP_COMPLETE) {
            return NULL;
        }
        loop_enter(r->loop);
        dispatch(ev);
        for (int n = 1; n < BATCH_MAX; n++) {
            ev = grpc_completion_queue_next(r->cq, past, NULL);
            if (ev.type != GRPC_OP_COMPLETE) {
                break;
            }
            dispatch(ev);
        }
        loop_leave(r->loop);
        if (ev.type == GRPC_QUEUE_SHUTDOWN) {
            return NULL;
        }
    }
}

/* ---- the loop as gRPC's poller --------------------------------------------------------------- */

/* Two threads per node that wake each other cost more than gRPC's own work. gRPC waits on one epoll
 * descriptor per process; when the node's loop watches that one, the loop's thread can poll gRPC
 * whenever there is something to read, and nobody has to be woken. What gRPC completes from its
 * timer threads does not show on the descriptor; a tick picks it up. */
#define TICK_NS (10 * ENV_MS)
#define FDS_MAX 64

/* Descriptors of this process that are epoll sets; their number, at most FDS_MAX. */
static int epoll_fds(int ret[FDS_MAX])
{
    DIR *d = opendir("/proc/self/fd");
    char target[32];
    struct dirent *e;
    int n = 0;

    while (d && n < FDS_MAX && (e = readdir(d))) {
        ssize_t len = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);

        target[len > 0 ? len : 0] = '\0';
        if (strcmp(target, "anon_inode:[eventpoll]") == 0) {
            ret[n++] = atoi(e->d_name);
        }
    }
    if (d) {
        closedir(d);
    }
    return n;
}

/* The set that gRPC made in grpc_init(), or -1 when it is not plain which one that is. */
static int new_epoll_fd(const int *before, int n_before)
{
    int after[FDS_MAX];
    int n = epoll_fds(after);
    int found = -1;

    for (int i = 0; i < n; i++) {
        bool old = false;

        for (int k = 0; k < n_before; k++) {
            old = old || before[k] == after[i];
        }
        if (!old && found >= 0) {
            return -1;
        }
        found = old ? found : after[i];
    }
    return found;
}

static void poll_now(struct rpc *r)
{
    gpr_timespec past = gpr_inf_past(GPR_CLOCK_MONOTONIC);
    grpc_event ev;

    while ((ev = grpc_completion_queue_next(r->cq, past, NULL)).type == GRPC_OP_COMPLETE) {
        dispatch(ev);
    }
}

static void on_readable(struct loop_fd *w, uint32_t events)
{
    (void)events;
    poll_now(container_of(w, struct rpc, watch));
}

static void on_tick(struct env_timer *t)
{
    struct rpc *r = container_of(t, struct rpc, tick);

    poll_now(r);
    env_timer_set(r->env, t, env_now_ns(r->env) + TICK_NS);
}

static bool watch_start(struct rpc *r, int fd)
{
    int added;

    r->watch = (struct loop_fd){ .fd = fd, .cb = on_readable };
    r->tick.cb = on_tick;
    loop_enter(r->loop);
    added = fd >= 0 ? loop_fd_add(r->loop, &r->watch, LOOP_READ, NULL) : -1;
    if (added == 0) {
        env_timer_set(r->env, &r->tick, env_now_ns(r->env) + TICK_NS);
    }
    loop_leave(r->loop);
    return added == 0;
}

static void watch_stop(struct rpc *r)
{
    loop_fd_remove(r->loop, &r->watch);
    env_timer_clear(r->env, &r->tick);
}

void rpc_live_add(struct rpc *r)
{
    pthread_mutex_lock(&r->live_lock);
    r->live++;
    pthread_mutex_unlock(&r->live_lock);
}

void rpc_live_remove(struct rpc *r)
{
    pthread_mutex_lock(&r->live_lock);
    assert(r->live > 0);
    if (--r->live == 0) {
        pthread_cond_signal(&r->live_none);
    }
    pthread_mutex_unlock(&r->live_lock);
}

void rpc_batch(grpc_call *call, const grpc_op *ops, size_t n, struct rpc_tag *tag)
{
    if (grpc_call_start_batch(call, ops, n, tag, NULL) != GRPC_CALL_OK) {
        abort();
    }
}

gpr_timespec rpc_deadline(struct rpc *r, int64_t deadline_ns)
{
    if (deadline_ns == 0) {
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    }
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_nanos(deadline_ns - env_now_ns(r->env), GPR_TIMESPAN));
}

void rpc_slice_text(grpc_slice s, char *ret, size_t cap)
{
    size_t len = GRPC_SLICE_LENGTH(s);

    if (len >= cap) {
        len = cap - 1;
    }
    memcpy(ret, GRPC_SLICE_START_PTR(s), len);
    ret[len] = '\0';
}

grpc_arg rpc_arg_int(const char *key, int64_t value)
{
    return (grpc_arg){ .type = GRPC_ARG_INTEGER,
                       .key = (char *)key,
                       .value.integer = value > INT32_MAX ? INT32_MAX : (int)value };
}

grpc_arg rpc_arg_quota(struct rpc *r)
{
    return (grpc_arg){ .type = GRPC_ARG_POINTER,
                       .key = (char *)GRPC_ARG_RESOURCE_QUOTA,
                       .value.pointer = { r->quota, grpc_resource_quota_arg_vtable() } };
}

/* What gRPC has to say goes where everything else goes. */
static void on_grpc_log(gpr_log_func_args *args)
{
    const char *file = strrchr(args->file, '/');

    if (args->severity == GPR_LOG_SEVERITY_ERROR) {
        log_warn("grpc", "error", args->message, "file", file ? file + 1 : args->file, "line",
                 log_num(args->line));
    } else {
        log_debug("grpc", "text", args->message, "file", file ? file + 1 : args->file, "line",
                  log_num(args->line));
    }
}

static int check(const struct rpc_config *c, struct fn_error *reterr)
{
    if (c->message_max_bytes < 1024 || c->message_max_bytes > INT32_MAX) {
        return err_set(reterr, FN_E_INVALID,
                       "rpc: message limit, got %u bytes; expected 1024 to 2147483647",
                       c->message_max_bytes);
    }
    if (c->memory_max_bytes < (16u << 20)) {
        return err_set(reterr, FN_E_INVALID,
                       "rpc: memory limit, got %llu bytes; expected at least 16777216",
                       (unsigned long long)c->memory_max_bytes);
    }
    if (c->streams_max < 1 || c->streams_max > INT32_MAX) {
        return err_set(reterr, FN_E_INVALID,
                       "rpc: concurrent streams, got %u; expected 1 to 2147483647", c->streams_max);
    }
    if (!c->tls.cert_pem != !c->tls.key_pem ||
        !c->tls_server.cert_pem != !c->tls_server.key_pem) {
        return err_set(reterr, FN_E_INVALID,
                       "rpc: certificate and key belong together, got only one of them");
    }
    return 0;
}

static void release(struct rpc *r)
{
    scratch_finish(&r->in);
    scratch_finish(&r->out);
    identity_unref(r->identity);
    identity_unref(r->server_identity);
    pthread_mutex_destroy(&r->live_lock);
    pthread_cond_destroy(&r->live_none);
    free(r);
}

int rpc_create(struct loop *loop, const struct rpc_config *config, struct rpc **ret,
               struct fn_error *reterr)
{
    int before[FDS_MAX];
    int n_before;
    struct rpc *r;
    int result = check(config, reterr);

    if (result < 0) {
        return result;
    }
    r = calloc(1, sizeof(*r));
    if (!r || scratch_init(&r->in) < 0 || scratch_init(&r->out) < 0) {
        if (r) {
            scratch_finish(&r->in);
        }
        free(r);
        return err_set(reterr, FN_E_EXHAUSTED, "rpc: out of memory");
    }
    r->loop = loop;
    r->env = loop_env(loop);
    r->config = *config;
    r->config.tls = r->config.tls_server = (struct rpc_tls){ 0 };
    r->identity = identity_create(&config->tls);
    r->server_identity = identity_create(&config->tls_server);
    if (!r->identity || !r->server_identity) {
        abort(); /* start-up only */
    }
    LIST_INIT(&r->links);
    LIST_INIT(&r->servers);
    LIST_INIT(&r->channels);
    pthread_mutex_init(&r->live_lock, NULL);
    pthread_cond_init(&r->live_none, NULL);
    rpc_client_init(r);
    gpr_set_log_function(on_grpc_log);
    n_before = config->on_loop ? epoll_fds(before) : 0;
    grpc_init();
    r->quota = grpc_resource_quota_create("fnd");
    grpc_resource_quota_resize(r->quota, r->config.memory_max_bytes);
    r->cq = grpc_completion_queue_create_for_next(NULL);
    r->on_loop = config->on_loop && watch_start(r, new_epoll_fd(before, n_before));
    if (!r->on_loop && pthread_create(&r->thread, NULL, completions, r) != 0) {
        grpc_completion_queue_shutdown(r->cq);
        grpc_completion_queue_destroy(r->cq);
        grpc_resource_quota_unref(r->quota);
        grpc_shutdown();
        release(r);
        return err_set(reterr, FN_E_EXHAUSTED, "rpc: cannot start a thread");
    }
    *ret = r;
    return 0;
}

int rpc_renew(struct rpc *r, const struct rpc_tls *tls, const struct rpc_tls *tls_server)
{
    int result = identity_renew(r->identity, tls);

    return result < 0 ? result : identity_renew(r->server_identity, tls_server);
}

void rpc_destroy(struct rpc *r)
{
    struct rpc_server *s;
    struct rpc_channel *ch;

    if (!r) {
        return;
    }
    loop_enter(r->loop);
    r->closing = true;
    while ((s = LIST_FIRST(&r->servers))) {
        rpc_server_close(s);
    }
    while ((ch = LIST_FIRST(&r->channels))) {
        rpc_channel_close(ch);
    }
    rpc_client_close_all(r);
    if (r->on_loop) {
        watch_stop(r);
    }
    loop_leave(r->loop);
    if (r->on_loop && pthread_create(&r->thread, NULL, completions, r) != 0) {
        abort(); /* somebody must take back what gRPC still holds */
    }
    pthread_mutex_lock(&r->live_lock);
    while (r->live > 0) {
        pthread_cond_wait(&r->live_none, &r->live_lock);
    }
    pthread_mutex_unlock(&r->live_lock);
    grpc_completion_queue_shutdown(r->cq);
    pthread_join(r->thread, NULL);
    grpc_completion_queue_destroy(r->cq);
    grpc_resource_quota_unref(r->quota);
    grpc_shutdown_blocking();
    release(r);
}
