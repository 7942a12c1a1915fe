/* Channels and calls of all instances, by id, so that a stale id is harmless. */
#include <rpc/plugin_rpc.h>

#include <base/table.h>
#include <base/view.h>
#include <rpc/rpc_int.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESS_MAX 255
#define METHOD_MAX 127

struct plugin_rpc {
    struct rpc *rpc;
    struct env *env;
    struct net_identity *(*tls)(void *ud, const char *name);
    void *ud;
    struct channel *channels;
    struct call *calls;
    uint64_t id_last;
};

struct channel {
    uint64_t id;
    const struct fn_host *host;
    struct rpc_channel *channel;
    UT_hash_handle hh;
};

struct call {
    uint64_t id;
    struct plugin_rpc *owner;
    const struct fn_host *host;
    uint64_t channel;
    struct rpc_raw *raw; /* NULL: ended by us, the end is still to be told */
    struct fn_rpc_cb cb;
    void *ud;
    struct env_task end_task;
    UT_hash_handle hh;
};

static struct plugin_rpc *rpc_of(const struct fn_host *host)
{
    return plugin_impl(host, "fn.rpc");
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static void plugin_rpc_on_message(void *ud, const void *data, size_t len)
{
    struct call *c = ud;
    struct plugin_crumb crumb;

    plugin_enter(&crumb, plugin_of(c->host), PLUGIN_LOOP, "rpc message");
    c->cb.message(c->ud, data, len);
    plugin_leave(&crumb);
}

static void plugin_rpc_tell_end(struct call *c, int32_t code, const char *text)
{
    struct plugin_crumb crumb;

    HASH_DEL(c->owner->calls, c);
    plugin_enter(&crumb, plugin_of(c->host), PLUGIN_LOOP, "rpc end");
    c->cb.end(c->ud, code, text && text[0] ? text : NULL);
    plugin_leave(&crumb);
    free(c);
}

/* FN_E_* are gRPC's codes; servers may send others. */
static void plugin_rpc_on_end(void *ud, int grpc_status, const char *text)
{
    bool known = grpc_status <= -FN_E_UNAUTHENTICATED;

    plugin_rpc_tell_end(ud, known ? -grpc_status : FN_E_UNKNOWN, text);
}

static void on_cancelled(struct env_task *t)
{
    plugin_rpc_tell_end(container_of(t, struct call, end_task), FN_E_CANCELLED, NULL);
}

/* The channel goes and takes the call with it; the plugin hears of it later. */
static void cut(struct call *c)
{
    if (c->raw) {
        rpc_raw_close(c->raw);
        c->raw = NULL;
        c->end_task.cb = on_cancelled;
        env_defer(c->owner->env, &c->end_task);
    }
}

/* ---- table ----------------------------------------------------------------------------------- */

static uint32_t channels_of(const struct plugin_rpc *p, const struct fn_host *host)
{
    uint32_t n = 0;

    for (const struct channel *ch = p->channels; ch; ch = ch->hh.next) {
        n += ch->host == host;
    }
    return n;
}

static int open_channel(struct plugin_rpc *p, const struct fn_host *host, const char *address,
                        const char *tls, uint64_t *ret_channel, struct fn_error *reterr)
{
    struct net_identity *named = tls && p->tls ? p->tls(p->ud, tls) : NULL;
    struct channel *ch;
    int r;

    if (!address || !address[0] || strlen(address) > ADDRESS_MAX) {
        return err_set(reterr, FN_E_INVALID,
                       "fn.rpc open: address, got %s; expected host:port or unix:/path",
                       address && address[0] ? "more than 255 bytes" : "nothing");
    }
    if (tls && !named) {
        return err_set(
            reterr, FN_E_NOT_FOUND,
            "fn.rpc open: tls, got \"%.64s\"; expected the name of an entry of tls:", tls);
    }
    if (channels_of(p, host) == FN_RPC_CHANNELS_MAX) {
        return err_set(reterr, FN_E_EXHAUSTED, "fn.rpc open: more than %u channels",
                       FN_RPC_CHANNELS_MAX);
    }
    ch = calloc(1, sizeof(*ch));
    if (!ch) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    ch->id = ++p->id_last;
    ch->host = host;
    HASH_ADD(hh, p->channels, id, sizeof(ch->id), ch);
    if (!table_has(ch)) {
        free(ch);
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    r = rpc_channel_open(p->rpc, address, named, NULL, &ch->channel, reterr);
    if (r < 0) {
        HASH_DEL(p->channels, ch);
        free(ch);
        return r;
    }
    *ret_channel = ch->id;
    return 0;
}

/* create() may open one, and runs beside the loop during a reload. */
static int table_open(const struct fn_host *host, const char *address, const char *tls,
                      uint64_t *ret_channel, struct fn_error *reterr)
{
    struct plugin_rpc *p = rpc_of(host);
    int r;

    plugin_take_loop(p->env);
    r = open_channel(p, host, address, tls, ret_channel, reterr);
    plugin_give_loop(p->env);
    return r;
}

static struct channel *channel_find(struct plugin_rpc *p, const struct fn_host *host, uint64_t id)
{
    struct channel *ch;

    HASH_FIND(hh, p->channels, &id, sizeof(id), ch);
    return ch && ch->host == host ? ch : NULL;
}

static void channel_close(struct plugin_rpc *p, struct channel *ch)
{
    struct call *c, *next;

    HASH_ITER(hh, p->calls, c, next)
    {
        if (c->channel == ch->id) {
            cut(c);
        }
    }
    HASH_DEL(p->channels, ch);
    rpc_channel_close(ch->channel);
    free(ch);
}

static void table_close(const struct fn_host *host, uint64_t channel)
{
    struct plugin_rpc *p = rpc_of(host);
    struct channel *ch = channel_find(p, host, channel);

    if (ch) {
        channel_close(p, ch);
    }
}

/* Of ABI 1.0. */
#define CALL_SIZE_MIN (offsetof(struct fn_rpc_call, len) + sizeof(uint64_t))
#define CB_SIZE_MIN   (offsetof(struct fn_rpc_cb, end) + sizeof(void *))

static int check_call(const struct fn_rpc_call *what, struct fn_error *reterr)
{
    if (!what->method || what->method[0] != '/' || strlen(what->method) > METHOD_MAX) {
        return err_set(reterr, FN_E_INVALID,
                       "fn.rpc call: method, got \"%.64s\"; expected /package.Service/Method",
                       what->method ? what->method : "");
    }
    if (what->len > FN_RPC_MESSAGE_MAX) {
        return err_set(reterr, FN_E_RANGE,
                       "fn.rpc call: message of %llu bytes; expected at most %u",
                       (unsigned long long)what->len, FN_RPC_MESSAGE_MAX);
    }
    return 0;
}

static uint32_t calls_of(const struct plugin_rpc *p, const struct fn_host *host)
{
    uint32_t n = 0;

    for (const struct call *c = p->calls; c; c = c->hh.next) {
        n += c->host == host;
    }
    return n;
}

static int start_call(const struct fn_host *host, const struct fn_rpc_call *what,
                      const struct fn_rpc_cb *cb, void *ud, uint64_t *ret_id,
                      struct fn_error *reterr)
{
    static const struct rpc_raw_cb raw_cb = { plugin_rpc_on_message, plugin_rpc_on_end };
    struct plugin_rpc *p = rpc_of(host);
    int r = check_call(what, reterr);
    struct channel *ch = r < 0 ? NULL : channel_find(p, host, what->channel);
    struct call *c;

    if (r < 0 || !ch) {
        return r < 0 ? r : err_set(reterr, FN_E_NOT_FOUND, "fn.rpc call: no such channel");
    }
    if (calls_of(p, host) >= FN_RPC_CALLS_MAX) {
        return err_set(reterr, FN_E_EXHAUSTED, "fn.rpc call: more than %u calls are under way",
                       FN_RPC_CALLS_MAX);
    }
    c = calloc(1, sizeof(*c));
    if (!c) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    *c = (struct call){
        .id = ++p->id_last, .owner = p, .host = host, .channel = ch->id, .cb = *cb, .ud = ud };
    HASH_ADD(hh, p->calls, id, sizeof(c->id), c);
    if (!table_has(c)) {
        free(c);
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    r = rpc_raw_start(ch->channel, what->method, what->message, what->len,
                      what->timeout_ms ? env_now_ns(p->env) + what->timeout_ms * ENV_MS : 0,
                      &raw_cb, c, &c->raw, reterr);
    if (r < 0) {
        HASH_DEL(p->calls, c);
        free(c);
        return r;
    }
    *ret_id = c->id;
    return 0;
}

static int table_call(const struct fn_host *host, const struct fn_rpc_call *what,
                      const struct fn_rpc_cb *cb, void *ud, uint64_t *ret_id,
                      struct fn_error *reterr)
{
    struct fn_rpc_call known;
    struct fn_rpc_cb known_cb;
    int r = view_take(&known, sizeof(known), what, CALL_SIZE_MIN);

    if (r < 0) {
        return err_set(reterr, r, "fn.rpc call: size, got %u; expected at least %zu and no more "
                       "than this host knows", what ? what->size : 0, CALL_SIZE_MIN);
    }
    r = view_take(&known_cb, sizeof(known_cb), cb, CB_SIZE_MIN);
    if (r < 0 || !known_cb.message || !known_cb.end) {
        return err_set(reterr, r < 0 ? r : FN_E_INVALID, "fn.rpc call: callbacks are missing");
    }
    return start_call(host, &known, &known_cb, ud, ret_id, reterr);
}

static void table_cancel(const struct fn_host *host, uint64_t id)
{
    struct plugin_rpc *p = rpc_of(host);
    struct call *c;

    HASH_FIND(hh, p->calls, &id, sizeof(id), c);
    if (c && c->host == host) {
        cut(c);
    }
}

static const struct fn_rpc_if table = { FN_HDR(struct fn_rpc_if, FN_MAGIC_RPC), table_open,
                                        table_close, table_call, table_cancel };

/* ---- life ------------------------------------------------------------------------------------ */

/* An instance goes: nothing of it may be called any more. */
static void plugin_rpc_release(void *impl, const struct fn_host *host)
{
    struct plugin_rpc *p = impl;
    struct channel *ch, *next_ch;
    struct call *c, *next;

    HASH_ITER(hh, p->calls, c, next)
    {
        if (c->host == host) {
            if (c->raw) {
                rpc_raw_close(c->raw);
            }
            env_undefer(p->env, &c->end_task);
            HASH_DEL(p->calls, c);
            free(c);
        }
    }
    HASH_ITER(hh, p->channels, ch, next_ch)
    {
        if (ch->host == host) {
            channel_close(p, ch);
        }
    }
}

int plugin_rpc_create(struct rpc *r, struct plugin_host *host,
                      struct net_identity *(*tls)(void *ud, const char *name), void *ud,
                      struct plugin_rpc **ret, struct fn_error *reterr)
{
    struct plugin_rpc *p = calloc(1, sizeof(*p));

    if (!p) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    *p = (struct plugin_rpc){ .rpc = r, .env = r->env, .tls = tls, .ud = ud };
    plugin_host_offer(host, "fn.rpc", FN_RPC_MAJOR, FN_RPC_MINOR, &table, p);
    plugin_host_on_release(host, "fn.rpc", true, plugin_rpc_release);
    *ret = p;
    return 0;
}

void plugin_rpc_destroy(struct plugin_rpc *p)
{
    free(p);
}
