/* The way of traces out of a node: libcurl, on a worker. */
#include <node/node.h>

#include <base/log.h>
#include <string.h>
#include <trace/trace.h>
#include <unistd.h>

#define HEADERS_MAX (TRACE_HEADERS_MAX + 1) /* those of the operator and the type */

static void post(void *impl, struct fn_op *op, const struct trace_parcel *parcel,
                 struct trace_answer *ret, struct fn_error *reterr)
{
    const char *headers[HEADERS_MAX + 1] = { "Content-Type: application/x-protobuf" };
    const struct fn_http_request rq = { .size = sizeof(rq),
                                        .timeout_ms = TRACE_POST_TIMEOUT_MS,
                                        .method = "POST",
                                        .url = parcel->url,
                                        .headers = headers,
                                        .body = parcel->body,
                                        .body_len = parcel->len,
                                        .tls_ca = parcel->ca };
    struct fn_http_answer answer = { .size = sizeof(answer) };

    for (uint32_t i = 0; parcel->headers[i] && i + 1 < HEADERS_MAX; i++) {
        headers[i + 1] = parcel->headers[i];
    }
    if (fetch_ask(impl, op, &rq, &answer, &ret->retry_after_s, reterr) < 0) {
        return;
    }
    ret->status = answer.status;
    if (answer.body_len <= sizeof(ret->body)) {
        ret->len = answer.body_len;
        memcpy(ret->body, answer.body, answer.body_len);
    }
    fetch_free_answer(&answer);
}

int node_traces_open(struct node *n, struct fn_error *reterr)
{
    const struct trace_deps deps = { .env = n->env,
                                     .post = post,
                                     .impl = n->fetch,
                                     .node = n->config->top->node,
                                     .host = n->hostname };
    int r;

    if (gethostname(n->hostname, sizeof(n->hostname) - 1) < 0) {
        memcpy(n->hostname, "localhost", sizeof("localhost"));
    }
    r = tracer_create(&deps, &n->tracer, reterr);
    if (r == 0) {
        node_traces_apply(n);
    }
    return r;
}

void node_traces_apply(struct node *n)
{
    if (tracer_set_options(n->tracer, n->config->traces) < 0) {
        log_warn("no memory for traces; the settings of before stay");
    }
}
