/* The TLS handshake before a connection's first request. */
#include <http/conn.h>

#define SHAKE_NS (10 * ENV_S) /* without a limit for headers */

/* Somebody who does not know that this port speaks TLS is told so in plain text. */
static void tell_plain(struct conn *c)
{
    struct refusal r;
    struct buf b = BUF_INIT(0);

    refuse(&r, 400, "HTTP119 this port speaks HTTPS; the request came without TLS");
    answer_refusal(c->s, &b, &r);
    server_send_last(c->s, net_io_fd(c->io), &b);
    buf_finish(&b);
}

/* On to the first request, in the protocol that was chosen. */
static void speak(struct conn *c)
{
    struct http_server *s = c->s;
    bool stranger = c->stranger;
    struct visitor *peer_count;
    struct net_io *io;

    if (!s->h2 || !net_io_chose(c->io, s->config.h2->alpn)) {
        conn_begin(c);
        return;
    }
    conn_hand_over(c, &io, &peer_count);
    s->config.h2->adopt(s->h2, io, peer_count, stranger);
}

static void conn_on_shaken(void *ud, const char *error)
{
    struct conn *c = ud;
    char name[256];

    if (!error) {
        c->stranger = !net_io_peer_allowed(c->io, name, sizeof(name));
        if (c->stranger) {
            log_gated(c->s, &c->s->stranger_gate,
                      "TLS805 a client's certificate names none of the peers that are allowed",
                      net_io_peer(c->io), "name", name);
        }
        speak(c);
        return;
    }
    if (net_io_shake_failure(c->io) == NET_SHAKE_HUNG_UP) {
        log_debug("a handshake was left", "peer", net_io_peer(c->io));
    } else {
        metric_add(c->s->counts.unshaken, 1);
        log_gated(c->s, &c->s->tls_gate, "a handshake failed", net_io_peer(c->io), "error", error);
    }
    if (net_io_shake_failure(c->io) == NET_SHAKE_PLAIN_HTTP) {
        tell_plain(c);
    }
    conn_gone(c);
}

int conn_shake(struct conn *c)
{
    int64_t limit_ns = c->s->config.limits.header_timeout_ns;
    bool h2 = c->s->h2 && c->s->config.limits.h2;
    struct net_shake config = { .identity = c->s->config.identity,
                                .alpn = h2 ? "h2,http/1.1" : "http/1.1",
                                .alpn_optional = true,
                                .timeout_ms = (limit_ns ? limit_ns : SHAKE_NS) / ENV_MS + 1 };

    return net_io_shake(c->io, &config, conn_on_shaken, c, NULL);
}
