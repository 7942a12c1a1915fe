/* Links: one channel per runner address, dialled for ever, watched, probed.
 *
 * struct chan is the channel with its connectivity watch. gRPC hands the watch back only some time
 * after the channel was destroyed, so a link that drops its channel (peer does not answer, link
 * closed) detaches the chan, which then frees itself. */
#include <rpc/client_int.h>

#include <arpa/inet.h>
#include <assert.h>
#include <base/log.h>
#include <grpc/grpc_security.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct chan {
    struct rpc_tag watch;
    struct rpc *rpc;
    struct engage_link *link; /* NULL = detached */
    grpc_channel *channel;    /* NULL = destroyed */
    uint64_t identity;        /* generation of the certificates that it was made with */
    void *engage;             /* registered method */
    grpc_connectivity_state state;
};

#define LATE_NS ENV_S /* a probe timer this late says more about this process than about the peer */

/* ---- addresses ------------------------------------------------------------------------------ */

/* The form that gRPC takes. Literal addresses name their scheme, so that no resolver is asked. */
static char *target_of(const char *address)
{
    struct in6_addr bytes;
    char host[256];
    const char *colon = strrchr(address, ':');
    char *target = NULL;
    size_t len;
    int n;

    if (strncmp(address, "unix:", 5) == 0) {
        n = asprintf(&target, "unix://%s", address + 5);
        return n < 0 ? NULL : target;
    }
    len = colon ? (size_t)(colon - address) : strlen(address);
    if (len >= sizeof(host)) {
        len = sizeof(host) - 1;
    }
    memcpy(host, address, len);
    host[len] = '\0';
    if (colon && inet_pton(AF_INET, host, &bytes) == 1) {
        n = asprintf(&target, "ipv4:///%s", address);
    } else if (colon && host[0] == '[' && host[len - 1] == ']') {
        host[len - 1] = '\0';
        n = asprintf(&target, "ipv6:///%%5B%s%%5D%s", host + 1, colon);
    } else {
        n = asprintf(&target, "dns:///%s", address);
    }
    return n < 0 ? NULL : target;
}

/* ---- channel -------------------------------------------------------------------------------- */

grpc_channel *rpc_channel_create(struct rpc *r, const char *address, struct identity *identity,
                                 const char *tls_name)
{
    const struct rpc_config *c = &r->config;
    char *target = target_of(address);
    grpc_channel_credentials *creds;
    grpc_channel *channel;
    grpc_arg args[20];
    grpc_channel_args list = { .args = args };

    if (!target) {
        return NULL;
    }

    /* Retries are the load balancer's business: it knows what is safe. */
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_ENABLE_RETRIES, 0);
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_ENABLE_CHANNELZ, 0);
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, RPC_WINDOW_BYTES);
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, c->message_max_bytes);
    args[list.num_args++] =
        rpc_arg_int(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, c->reconnect_first_ms);
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, c->reconnect_max_ms);
    /* Despite its name the shortest time that a dial is given. */
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, c->connect_timeout_ms);
    args[list.num_args++] = rpc_arg_int(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000);
    args[list.num_args++] = (grpc_arg){ .type = GRPC_ARG_STRING,
                                        .key = (char *)GRPC_ARG_PRIMARY_USER_AGENT_STRING,
                                        .value.string = (char *)"fnd/" FND_VERSION };
    args[list.num_args++] = rpc_arg_quota(r);
    tls_name = tls_name ? tls_name : identity_server_name(identity);
    if (tls_name) {
        args[list.num_args++] = (grpc_arg){ .type = GRPC_ARG_STRING,
                                            .key = (char *)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
                                            .value.string = (char *)tls_name };
    }
    creds = identity_client_credentials(identity);
    channel = grpc_channel_create(target, creds, &list);
    grpc_channel_credentials_release(creds);
    free(target);
    return channel;
}

static void watch_again(struct chan *ch)
{
    grpc_channel_watch_connectivity_state(ch->channel, ch->state,
                                          gpr_inf_future(GPR_CLOCK_MONOTONIC), ch->rpc->cq,
                                          &ch->watch);
}

static void link_set_up(struct engage_link *l, bool up)
{
    if (l->closed || l->up == up) {
        return;
    }
    l->up = up;
    link_heard(l);
    if (l->cb && l->cb->on_state && !l->rpc->closing) {
        l->cb->on_state(l->ud, up);
    }
}

static struct chan *chan_create(struct engage_link *l);
static void chan_detach(struct chan *ch);

/* False: no memory; the next change of state tries again. */
static bool chan_replace(struct engage_link *l)
{
    struct chan *fresh = chan_create(l);

    if (fresh) {
        chan_detach(l->chan);
        l->chan = fresh;
    }
    return fresh != NULL;
}

static void on_watch(struct rpc_tag *tag, bool ok)
{
    struct chan *ch = container_of(tag, struct chan, watch);
    struct engage_link *l = ch->link;
    struct rpc *r = ch->rpc;

    (void)ok;
    if (!l) {
        free(ch);
        rpc_live_remove(r);
        return;
    }
    ch->state = grpc_channel_check_connectivity_state(ch->channel, 1);
    watch_again(ch);
    link_set_up(l, ch->state == GRPC_CHANNEL_READY);
    if (!l->up && !l->closed && ch->identity != identity_generation(r->identity)) {
        chan_replace(l); /* it would dial with certificates that were renewed */
    }
}

static struct chan *chan_create(struct engage_link *l)
{
    struct chan *ch = calloc(1, sizeof(*ch));

    if (!ch) {
        return NULL;
    }
    ch->watch.fn = on_watch;
    ch->rpc = l->rpc;
    ch->link = l;
    ch->identity = identity_generation(l->rpc->identity);
    ch->channel = rpc_channel_create(l->rpc, l->address, l->rpc->identity, l->tls_name);
    if (!ch->channel) {
        free(ch);
        return NULL;
    }
    ch->engage = grpc_channel_register_call(ch->channel, RPC_METHOD_ENGAGE, NULL, NULL);
    rpc_live_add(l->rpc);
    ch->state = grpc_channel_check_connectivity_state(ch->channel, 1);
    watch_again(ch);
    return ch;
}

static void chan_detach(struct chan *ch)
{
    ch->link = NULL;
    grpc_channel_destroy(ch->channel);
    ch->channel = NULL;
}

grpc_call *link_call(struct engage_link *l, const char *method, gpr_timespec deadline)
{
    assert(l->chan);
    return grpc_channel_create_call(l->chan->channel, NULL, GRPC_PROPAGATE_DEFAULTS, l->rpc->cq,
                                    grpc_slice_from_static_string(method), NULL, deadline, NULL);
}

grpc_call *link_call_engage(struct engage_link *l, gpr_timespec deadline)
{
    assert(l->chan);
    return grpc_channel_create_registered_call(l->chan->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
                                               l->rpc->cq, l->chan->engage, deadline, NULL);
}

/* ---- probe ---------------------------------------------------------------------------------- */

/* The peer is silent: its connection is given up, and with it what runs on it. */
static void link_break(struct engage_link *l)
{
    char text[256];

    snprintf(text, sizeof(text), "runner %s: no answer for %lld ms", l->address,
             (long long)l->rpc->config.probe_timeout_ms);
    log_warn("connection given up", "runner_addr", l->address, "error", text);
    attempts_break(l, text);
    chan_replace(l);
    link_set_up(l, false);
}

static void probe_again(struct engage_link *l, int64_t at_ns)
{
    if (!l->closed && l->rpc->config.probe_interval_ms > 0) {
        env_timer_set(l->rpc->env, &l->probe_timer, at_ns);
    }
}

static void on_probed(void *ud, int grpc_status, const char *text, grpc_byte_buffer *answer)
{
    struct engage_link *l = ud;
    const struct rpc_config *c = &l->rpc->config;
    int64_t now = env_now_ns(l->rpc->env);

    (void)text;
    (void)answer;
    l->probing = false;
    if (l->closed) {
        return;
    }
    if (grpc_status != GRPC_STATUS_DEADLINE_EXCEEDED) {
        link_heard(l);
    } else if (l->up && l->heard_ns < l->probe_started_ns &&
               now - l->probe_started_ns < c->probe_timeout_ms * ENV_MS + LATE_NS) {
        link_break(l);
    }
    probe_again(l, now + c->probe_interval_ms * ENV_MS);
}

static void on_probe_timer(struct env_timer *t)
{
    struct engage_link *l = container_of(t, struct engage_link, probe_timer);
    const struct rpc_config *c = &l->rpc->config;
    int64_t interval = c->probe_interval_ms * ENV_MS;
    int64_t now = env_now_ns(l->rpc->env);

    if (!l->up || l->probing || now - t->at_ns > LATE_NS) {
        probe_again(l, now + interval);
        return;
    }
    if (now - l->heard_ns < interval) {
        probe_again(l, l->heard_ns + interval);
        return;
    }
    l->probe_started_ns = now;
    l->probing = unary_start(l, RPC_METHOD_PROBE, now + c->probe_timeout_ms * ENV_MS, on_probed,
                             l) == 0;
    if (!l->probing) {
        probe_again(l, now + interval);
    }
}

/* ---- links ---------------------------------------------------------------------------------- */

void link_ref(struct engage_link *l)
{
    l->refs++;
}

void link_unref(struct engage_link *l)
{
    assert(l->refs > 0);
    if (--l->refs > 0) {
        return;
    }
    assert(l->closed && LIST_EMPTY(&l->attempts));
    free(l->address);
    free(l->tls_name);
    free(l);
}

static struct engage_link *link_open(struct engage_client *client, const char *address,
                                     const char *tls_name, const struct engage_link_cb *cb,
                                     void *ud)
{
    struct rpc *r = container_of(client, struct rpc, client);
    struct engage_link *l = calloc(1, sizeof(*l));

    if (!l) {
        return NULL;
    }
    l->rpc = r;
    l->refs = 1;
    l->cb = cb;
    l->ud = ud;
    l->address = strdup(address);
    l->tls_name = tls_name ? strdup(tls_name) : NULL;
    LIST_INIT(&l->attempts);
    if (l->address && (!tls_name || l->tls_name)) {
        l->chan = chan_create(l);
    }
    if (!l->chan) {
        l->closed = true;
        link_unref(l);
        return NULL;
    }
    LIST_INSERT_HEAD(&r->links, l, entry);
    l->probe_timer.cb = on_probe_timer;
    probe_again(l, env_now_ns(r->env) + r->config.probe_interval_ms * ENV_MS);
    return l;
}

static void link_close(struct engage_link *l)
{
    assert(!l->closed);
    l->closed = true;
    l->up = false;
    env_timer_clear(l->rpc->env, &l->probe_timer);
    LIST_REMOVE(l, entry);
    chan_detach(l->chan);
    l->chan = NULL;
    link_unref(l);
}

static bool link_is_up(const struct engage_link *l)
{
    return l->up;
}

void rpc_client_init(struct rpc *r)
{
    r->client = (struct engage_client){
        .link_open = link_open,
        .link_close = link_close,
        .link_is_up = link_is_up,
        .attempt = attempt_open,
        .attempt_pause = attempt_pause,
        .attempt_close = attempt_close,
    };
}

void rpc_client_close_all(struct rpc *r)
{
    struct engage_link *l;

    while ((l = LIST_FIRST(&r->links))) {
        link_ref(l);
        attempts_close(l);
        link_close(l);
        link_unref(l);
    }
}

struct engage_client *rpc_client(struct rpc *r)
{
    return &r->client;
}
