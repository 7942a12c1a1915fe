/* Both ends of one connection, with what each has received and what is left to send, moved by
 * the loop of the test. */
#include "rig.h"

#include <stdio.h>
#include <string.h>

struct rig rig;

static void on_tick(struct env_timer *t)
{
    (void)t;
    loop_stop(rig.loop);
}

void rig_turn(void)
{
    struct env_timer tick = { .cb = on_tick };

    env_timer_set(rig.env, &tick, env_now_ns(rig.env) + ENV_MS);
    loop_leave(rig.loop);
    loop_run(rig.loop);
    loop_enter(rig.loop);
    env_timer_clear(rig.env, &tick);
}

void rig_start(void)
{
    memset(&rig, 0, sizeof(rig));
    ck_assert_int_eq(loop_create(NULL, &rig.loop, NULL), 0);
    rig.env = loop_env(rig.loop);
    loop_enter(rig.loop);
}

void rig_stop(void)
{
    end_close(&rig.client);
    end_close(&rig.server);
    net_listener_close(rig.listener);
    loop_leave(rig.loop);
    loop_destroy(rig.loop);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void broke(struct end *e)
{
    e->failed = true;
    snprintf(e->error, sizeof(e->error), "%s", net_io_error(e->io));
}

static void on_readable(void *ud)
{
    struct end *e = ud;
    char data[5000];
    ssize_t n;

    e->readable_n++;
    if (e->manual) {
        return;
    }
    n = net_io_read(e->io, data, sizeof(data)); /* one bite: the rest must be told again */
    if (n > 0) {
        buf_add(&e->in, data, (size_t)n);
    } else if (n == 0) {
        e->eof = true;
    } else if (n == NET_ERROR) {
        broke(e);
    }
}

static void push(struct end *e)
{
    while (e->out_len > 0) {
        size_t half = e->out_len / 2;
        struct iovec iov[] = { { (void *)(uintptr_t)e->out, half },
                               { (void *)(uintptr_t)(e->out + half), e->out_len - half } };
        ssize_t n = net_io_writev(e->io, iov, 2);

        if (n == NET_AGAIN) {
            e->stuck = true;
            return;
        }
        if (n == NET_ERROR) {
            broke(e);
            return;
        }
        e->out += n;
        e->out_len -= (size_t)n;
    }
}

static void on_writable(void *ud)
{
    push(ud);
}

void end_take(struct end *e, struct net_io *io)
{
    static const struct net_io_cb cb = { on_readable, on_writable };

    e->io = io;
    net_io_set(io, &cb, e);
}

void end_send(struct end *e, const void *data, size_t len)
{
    e->out = data;
    e->out_len = len;
    push(e);
}

void end_close(struct end *e)
{
    net_io_close(e->io);
    buf_finish(&e->in);
    *e = (struct end){ 0 };
}

/* ---- listening and dialling ------------------------------------------------------------------ */

static void on_accepted(void *ud, struct net_io *io)
{
    (void)ud;
    rig.accepted++;
    end_close(&rig.server);
    end_take(&rig.server, io);
}

void rig_listen(const char *address, struct net_identity *i, const char *alpn)
{
    struct net_listen_config config = { .name = "test",
                                        .address = address ? address : "127.0.0.1:0",
                                        .identity = i,
                                        .alpn = alpn,
                                        .handshake_timeout_ms = 20000,
                                        .handshakes_max = 4 };
    struct fn_error e = ERR_INIT;

    config.silence_timeout_ms = rig.limits.silence_timeout_ms;
    config.connections_max = rig.limits.connections_max;
    config.connections_per_ip_max = rig.limits.connections_per_ip_max;
    config.refuse_interfaces = rig.limits.refuse_interfaces;
    if (rig.handshakes_max) {
        config.handshakes_max = rig.handshakes_max;
        config.handshake_timeout_ms = rig.handshake_timeout_ms;
    }
    ck_assert_msg(net_listen(rig.loop, &config, on_accepted, NULL, &rig.listener, &e) == 0, "%s",
                  e.msg);
    if (address && strncmp(address, "unix:", 5) == 0) {
        snprintf(rig.address, sizeof(rig.address), "%s", address);
    } else {
        snprintf(rig.address, sizeof(rig.address), "127.0.0.1:%d",
                 net_listener_port(rig.listener));
    }
}

static void on_dialled(void *ud, struct net_io *io, const char *error)
{
    (void)ud;
    ck_assert_msg(!io != !error, "%s", error ? error : "neither a stream nor an error");
    rig.dial = NULL;
    rig.dialled = true;
    snprintf(rig.error, sizeof(rig.error), "%s", error ? error : "");
    if (io) {
        end_take(&rig.client, io);
    }
}

void rig_dial(const char *address, struct net_identity *i, const char *name, const char *alpn,
              int64_t timeout_ms)
{
    struct net_dial_config config = { address, i, name, alpn, timeout_ms };
    struct fn_error e = ERR_INIT;

    rig.dialled = false;
    ck_assert_msg(net_dial(rig.loop, &config, on_dialled, NULL, &rig.dial, &e) == 0, "%s", e.msg);
    ck_assert(!rig.dialled); /* never from inside */
}

void rig_connect(struct net_identity *i)
{
    end_close(&rig.client);
    end_close(&rig.server);
    rig_dial(rig.address, i, NULL, NULL, 20000);
    UNTIL(rig.dialled);
    ck_assert_msg(rig.client.io, "%s", rig.error);
    UNTIL(rig.server.io);
}

void rig_refused(struct net_identity *i, const char *name, const char *text)
{
    end_close(&rig.client);
    rig_dial(rig.address, i, name, NULL, 20000);
    UNTIL(rig.dialled);
    if (rig.client.io) {
        UNTIL(rig.client.failed);
        snprintf(rig.error, sizeof(rig.error), "%s", rig.client.error);
    }
    ck_assert_msg(strstr(rig.error, text), "%s", rig.error);
}

struct net_identity *identity_of(const struct pair *p, const char *ca, const char *crl,
                                 const char *peer)
{
    struct net_tls tls = { .cert_pem = p ? p->cert : NULL,
                           .key_pem = p ? p->key : NULL,
                           .ca_pem = ca,
                           .crl_pem = crl,
                           .peers = &peer,
                           .n_peers = peer ? 1 : 0 };
    struct fn_error e = ERR_INIT;
    struct net_identity *i;

    ck_assert_msg(net_identity_create(&tls, &i, &e) == 0, "%s", e.msg);
    return i;
}
