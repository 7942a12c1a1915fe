/* Endpoints: what comes in through the servers that lead to this runner, and whose it is. */
#include <runner/runner_int.h>

static int open_logs(struct runner *r, struct engage_logs *logs, struct fn_error *reterr)
{
    const struct log_query *q;
    int result;

    if (r->opt.log_streams_max == 0) {
        return err_set(reterr, FN_E_INTERNAL, "runner not configured with logStreamer");
    }
    if (r->logs.closed) {
        return err_set(reterr, FN_E_UNAVAILABLE, "this runner is stopping");
    }
    if (r->logs.streams_n >= r->opt.log_streams_max) {
        return err_set(reterr, FN_E_EXHAUSTED,
                       "RUN416 %u log streams are read at this runner; expected fewer than "
                       "runner.log_streams_max",
                       r->logs.streams_n);
    }
    result = log_reader_open(r, operator_has_history(r) ? &history_ops : &taps_ops, logs, reterr);
    if (result < 0) {
        return result;
    }
    q = &((struct log_reader *)logs->owner)->query;
    log_stranger(FN_LOG_INFO, "the output of functions is read", "app_id", q->app_id, "fn_id",
                 q->fn_id, "call_id", q->call_id, "follow", q->follow ? "true" : "false");
    return 0;
}

static void on_logs(void *endpoint, struct engage_logs *logs)
{
    struct runner *r = ((struct endpoint *)endpoint)->r;
    struct fn_error err = ERR_INIT;
    int result = open_logs(r, logs, &err);

    if (result < 0) { /* UNKNOWN is Go Fn's for "not configured" */
        logs->end(logs, r->opt.log_streams_max == 0 ? GRPC_UNKNOWN : -result, err.msg);
    }
}

static const struct engage_server_cb endpoint_cb = {
    .on_try = rcall_on_try,
    .on_body = rcall_on_body,
    .on_writable = rcall_on_writable,
    .on_gone = rcall_on_gone,
    .on_status = status_on_ask,
    .on_status_gone = status_on_gone,
    .on_configure = operator_on_configure,
    .on_configure_gone = operator_on_configure_gone,
    .on_logs = on_logs,
    .on_logs_wanted = logs_on_wanted,
    .on_logs_gone = logs_on_gone,
};

int runner_attach(struct runner *r, const struct engage_server *server,
                  struct engage_server_cb *ret_cb, void **ret_ud, struct fn_error *reterr)
{
    struct endpoint *ep = &r->endpoints[r->n_endpoints];

    if (r->n_endpoints == ENDPOINTS_MAX) {
        return err_set(reterr, FN_E_RANGE, "servers of a runner, got %d; expected at most %d",
                       ENDPOINTS_MAX + 1, ENDPOINTS_MAX);
    }
    r->n_endpoints++;
    ep->r = r;
    ep->server = server;
    *ret_cb = endpoint_cb;
    *ret_ud = ep;
    return 0;
}
