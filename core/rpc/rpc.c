/* What client and server share. */
#include <rpc/rpc_int.h>

#include <base/metric.h>
#include <rpc/raw.h>
#include <stdlib.h>

const char *rpc_transport_library(const struct rpc *r)
{
    return r->transport->table->library;
}

static int rpc_check(const struct rpc_config *c, struct fn_error *reterr)
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

static void rpc_release(struct rpc *r)
{
    if (r->transport) {
        r->transport->table->destroy(r->transport);
    }
    scratch_finish(&r->in);
    scratch_finish(&r->out);
    net_identity_unref(r->identity);
    net_identity_unref(r->server_identity);
    free(r);
}

static int prepare(struct rpc *r, const struct rpc_config *c, struct fn_error *reterr)
{
    struct rpc_limits limits = { .message_max_bytes = c->message_max_bytes,
                                .memory_max_bytes = c->memory_max_bytes,
                                .streams_max = c->streams_max,
                                .client_silence_ms = c->client_silence_ns / ENV_MS,
                                .left_silence_ms = c->probe_interval_ns / ENV_MS,
                                .answer_ms = c->answer_ns / ENV_MS,
                                .calls_max = c->calls_max };
    const struct rpc_transport *t = c->transport ? c->transport : &rpc_transport_nghttp2;
    int result;

    rpc_transport_host_init(&r->host, r->loop);
    if (scratch_init(&r->in) < 0 || scratch_init(&r->out) < 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "rpc: out of memory");
    }
    result = t->create(&r->host, &limits, &r->transport);
    if (result < 0) {
        return err_set(reterr, result, "rpc: transport %s cannot be made", t->name);
    }
    result = net_identity_create(&c->tls, &r->identity, reterr);
    return result < 0 ? result : net_identity_create(&c->tls_server, &r->server_identity, reterr);
}

static void tell_transport(const struct rpc *r)
{
    static const char *const labels[] = { "transport", "library", NULL };
    static const struct metric_def def = {
        .name = "fn_grpc_transport_info",
        .help = "1 of the library that speaks HTTP/2 between the nodes.",
        .kind = METRIC_GAUGE,
        .labels = labels,
    };
    const char *values[] = { r->transport->table->name, rpc_transport_library(r) };

    metric_set(metric_series(metric_declare(&def), values), 1);
}

int rpc_create(struct loop *loop, const struct rpc_config *config, struct rpc **ret,
               struct fn_error *reterr)
{
    int result = rpc_check(config, reterr);
    struct rpc *r;

    if (result < 0) {
        return result;
    }
    r = calloc(1, sizeof(*r));
    if (!r) {
        return err_set(reterr, FN_E_EXHAUSTED, "rpc: out of memory");
    }
    r->loop = loop;
    r->env = loop_env(loop);
    r->config = *config;
    r->config.tls = r->config.tls_server = (struct net_tls){ 0 };
    LIST_INIT(&r->links);
    LIST_INIT(&r->walks);
    LIST_INIT(&r->servers);
    LIST_INIT(&r->channels);
    LIST_INIT(&r->raws);
    LIST_INIT(&r->unaries);
    LIST_INIT(&r->readers);
    rpc_client_init(r);
    result = prepare(r, config, reterr);
    if (result < 0) {
        rpc_release(r);
        return result;
    }
    tell_transport(r);
    *ret = r;
    return 0;
}

int rpc_renew_client(struct rpc *r, const struct net_tls *tls, struct fn_error *reterr)
{
    return net_identity_renew(r->identity, tls, reterr);
}

int rpc_renew_server(struct rpc *r, const struct net_tls *tls, struct fn_error *reterr)
{
    return net_identity_renew(r->server_identity, tls, reterr);
}

void rpc_destroy(struct rpc *r)
{
    struct rpc_channel *ch;
    struct rpc_server *s;
    struct loop *loop;

    if (!r) {
        return;
    }
    loop = r->loop;
    loop_enter(loop);
    while ((s = LIST_FIRST(&r->servers))) {
        rpc_server_close(s);
    }
    while ((ch = LIST_FIRST(&r->channels))) {
        rpc_channel_close(ch);
    }
    unary_close_all(r);
    readers_close_all(r);
    rpc_client_close_all(r);
    rpc_release(r);
    loop_leave(loop);
}
