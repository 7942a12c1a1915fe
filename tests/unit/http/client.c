/* The handlers of the server by path, and the client's side: plain and TLS sockets that are read
 * to a condition. */
#include "client.h"

#include "../net/certs.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FDS_MAX 64

struct fixture fx;

static SSL *ssl_of[FDS_MAX]; /* by descriptor */

struct stream {
    struct http_request *req;
    struct env_timer timer;
    size_t left;
};

struct http_limits default_limits(void)
{
    return (struct http_limits){ .header_bytes_max = 32768,
                                 .headers_max = 100,
                                 .request_line_max = 8192,
                                 .body_bytes_max = 6291456,
                                 .header_timeout_ns = 10 * ENV_S,
                                 .body_timeout_ns = 60 * ENV_S,
                                 .body_rate_min = 1024,
                                 .write_stall_ns = 30 * ENV_S,
                                 .idle_timeout_ns = 60 * ENV_S,
                                 .connections_max = 10000,
                                 .connections_per_ip_max = 256,
                                 .requests_per_connection_max = 10000,
                                 .out_bytes_high = 65536 };
}

static void answer_echo(struct http_request *req)
{
    struct buf b = BUF_INIT(0);

    buf_printf(&b, "%s %s %s %s %s %u\n", req->method, req->target, req->path,
               req->query ? req->query : "-", req->host, req->headers.n);
    for (uint32_t i = 0; i < req->headers.n; i++) {
        buf_printf(&b, "%s=%s\n", req->headers.items[i].name, req->headers.items[i].value);
    }
    buf_add_str(&b, "\n");
    buf_add(&b, req->body->bytes.data, req->body->bytes.len);
    http_answer(req, 200, NULL, b.data, b.len);
    buf_finish(&b);
}

static void stream_on(struct http_request *req)
{
    static const char piece[10000];
    struct stream *s = req->ud;

    while (s->left > 0) {
        size_t n = s->left < sizeof(piece) ? s->left : sizeof(piece);

        s->left -= n;
        if (http_answer_data(req, piece, n) == 1) {
            atomic_fetch_add(&fx.waits, 1);
            return;
        }
    }
    free(s);
    atomic_fetch_add(&fx.ended, 1);
    http_answer_end(req);
}

static void stream_gone(struct http_request *req)
{
    atomic_fetch_add(&fx.gone, 1);
    free(req->ud);
    http_answer_end(req);
}

static void park_gone(struct http_request *req)
{
    atomic_fetch_add(&fx.gone, 1);
    http_answer(req, 500, NULL, "", 0);
}

static void on_later(struct env_timer *t)
{
    struct stream *s = container_of(t, struct stream, timer);
    struct http_request *req = s->req;

    free(s);
    http_answer(req, 200, NULL, "ok", 2);
}

static void on_turn(struct env_timer *t)
{
    (void)t;
    fx.in_turn = 0;
}

static void name_client(struct http_request *req)
{
    char held[INET6_ADDRSTRLEN], text[128];

    net_address_print(&req->client, held, sizeof(held));
    snprintf(text, sizeof(text), "%s held with %s", req->peer, held);
    http_answer(req, 200, NULL, text, strlen(text));
}

/* A timer that is due in a moment has its turn with the loop's next one. */
static void count_in_turn(void)
{
    struct env *env = loop_env(fx.loop);

    if (++fx.in_turn > atomic_load(&fx.in_turn_max)) {
        atomic_store(&fx.in_turn_max, fx.in_turn);
    }
    fx.turn.cb = on_turn;
    if (!env_timer_is_set(&fx.turn)) {
        env_timer_set(env, &fx.turn, env_now_ns(env) + 1);
    }
}

static void later_gone(struct http_request *req)
{
    (void)req;
    atomic_fetch_add(&fx.gone, 1);
}

static void on_request(void *ud, struct http_request *req)
{
    struct stream *s = calloc(1, sizeof(*s));
    struct headers h;

    (void)ud;
    atomic_fetch_add(&fx.requests, 1);
    req->ud = s;
    s->req = req;
    s->timer.cb = on_later;
    if (strcmp(req->path, "/later") == 0) {
        req->on_gone = later_gone;
        env_timer_set(loop_env(fx.loop), &s->timer, env_now_ns(loop_env(fx.loop)) + 5 * ENV_MS);
        return;
    }
    if (strcmp(req->path, "/stream") == 0 || strcmp(req->path, "/length") == 0) {
        s->left = (size_t)atol(req->query + 2);
        req->on_gone = stream_gone;
        req->on_writable = stream_on;
        http_answer_head(req, 200, NULL, req->path[1] == 's' ? -1 : (int64_t)s->left);
        stream_on(req);
        return;
    }
    free(s);
    req->ud = NULL;
    headers_init(&h, req->arena);
    if (strcmp(req->path, "/park") == 0) {
        req->on_gone = park_gone;
    } else if (strcmp(req->path, "/turn") == 0) {
        count_in_turn();
        http_answer(req, 200, NULL, "ok", 2);
    } else if (strcmp(req->path, "/plain") == 0) {
        http_answer(req, 200, NULL, "ok", 2);
    } else if (strcmp(req->path, "/client") == 0) {
        name_client(req);
    } else if (strcmp(req->path, "/abort") == 0) {
        if (!req->query) {
            http_answer_head(req, 200, NULL, -1);
            http_answer_data(req, "part", 4);
        }
        http_answer_abort(req);
    } else if (strcmp(req->path, "/error") == 0) {
        http_answer_error(req, 502, NULL, "a \"b\"\n\x01 \xc3\xa4 \xff");
    } else if (strcmp(req->path, "/nasty") == 0) {
        headers_add(&h, "Content-Length", "99");
        headers_add(&h, "Transfer-Encoding", "chunked");
        headers_add(&h, "X-Cut", "a\r\nX-Evil: 1");
        headers_add(&h, "X Y", "1");
        headers_add(&h, "X-Good", "1");
        headers_add(&h, "Date", "then");
        http_answer(req, 299, &h, "ok", 2);
    } else if (strcmp(req->path, "/204") == 0) {
        http_answer(req, 204, NULL, NULL, 0);
    } else {
        answer_echo(req);
    }
}

static void *run(void *arg)
{
    loop_run(arg);
    return NULL;
}

void server_start(const char *listen, const struct http_limits *limits)
{
    struct http_server_config config = { .name = "test", .listen = listen,
                                         .limits = *limits,
                                         .bodies = &fx.bodies,
                                         .identity = fx.identity,
                                         .h2 = fx.h2,
                                         .on_request = on_request };
    struct fn_error err = ERR_INIT;
    char address[80];

    if (!listen) {
        snprintf(fx.unix_path, sizeof(fx.unix_path), "/tmp/fnd-test-http-%d.sock", (int)getpid());
        snprintf(address, sizeof(address), "unix:%s", fx.unix_path);
        config.listen = address;
    }
    ck_assert_int_eq(loop_create(NULL, &fx.loop, &err), 0);
    ck_assert_msg(http_server_create(fx.loop, &config, &fx.server, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(pthread_create(&fx.thread, NULL, run, fx.loop), 0);
}

void server_stop(void)
{
    loop_stop(fx.loop);
    pthread_join(fx.thread, NULL);
    loop_enter(fx.loop);
    env_timer_clear(loop_env(fx.loop), &fx.turn);
    http_server_destroy(fx.server);
    loop_leave(fx.loop);
    loop_destroy(fx.loop);
    ck_assert_uint_eq(fx.bodies.used_bytes, 0);
}

int dial(void)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    struct sockaddr_in in = { .sin_family = AF_INET,
                              .sin_port = htons(http_server_port(fx.server)) };
    bool tcp = !fx.unix_path[0];
    int fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", fx.unix_path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(tcp ? connect(fd, (struct sockaddr *)&in, sizeof(in))
                         : connect(fd, (struct sockaddr *)&un, sizeof(un)),
                     0);
    return fd;
}

static X509 *cert_of(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);

    BIO_free(bio);
    return cert;
}

static void show(SSL_CTX *ctx, const struct pair *mine)
{
    BIO *bio = BIO_new_mem_buf(mine->key, -1);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    X509 *cert = cert_of(mine->cert);

    ck_assert_int_eq(SSL_CTX_use_certificate(ctx, cert), 1);
    ck_assert_int_eq(SSL_CTX_use_PrivateKey(ctx, key), 1);
    EVP_PKEY_free(key);
    X509_free(cert);
    BIO_free(bio);
}

int dial_tls(const char *ca, const struct pair *mine)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    X509 *root = cert_of(ca);
    int fd = dial();
    SSL *ssl;

    ck_assert_int_lt(fd, FDS_MAX);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), root);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    if (mine) {
        show(ctx, mine);
    }
    ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    if (fx.alpn) {
        unsigned char offer[16] = { (unsigned char)strlen(fx.alpn) };

        memcpy(offer + 1, fx.alpn, offer[0]);
        ck_assert_int_eq(SSL_set_alpn_protos(ssl, offer, offer[0] + 1u), 0);
    }
    ssl_of[fd] = ssl;
    if (SSL_connect(ssl) != 1) {
        hang_up(fd);
        fd = -1;
    }
    SSL_CTX_free(ctx);
    X509_free(root);
    return fd;
}

void hang_up(int fd)
{
    if (ssl_of[fd]) {
        SSL_free(ssl_of[fd]);
        ssl_of[fd] = NULL;
    }
    close(fd);
}

/* As recv(2): 0 is an end that was told, -1 one that was not. */
static ssize_t take(int fd, void *buf, size_t cap)
{
    SSL *ssl = fd < FDS_MAX ? ssl_of[fd] : NULL;
    int n;

    if (!ssl) {
        return recv(fd, buf, cap, 0);
    }
    n = SSL_read(ssl, buf, (int)cap);
    return n > 0 ? n : SSL_get_error(ssl, n) == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

void send_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    if (fd < FDS_MAX && ssl_of[fd]) {
        SSL_write(ssl_of[fd], data, (int)len);
        return;
    }
    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

        if (n < 0) {
            return; /* refused meanwhile: the answer tells */
        }
        p += n;
        len -= (size_t)n;
    }
}

void send_text(int fd, const char *text)
{
    send_all(fd, text, strlen(text));
}

void wait_consumed(int fd)
{
    int unread = 1;

    while (ioctl(fd, SIOCOUTQ, &unread) == 0 && unread > 0) {
        sched_yield();
    }
}

char *read_to_end(int fd, size_t *ret_len)
{
    struct buf b = BUF_INIT(0);
    ssize_t n;
    char *p;

    do {
        p = buf_reserve(&b, 65536);
        ck_assert_ptr_nonnull(p);
        n = take(fd, p, 65536);
        b.len += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    buf_text(&b);
    if (ret_len) {
        *ret_len = b.len;
    }
    return b.data;
}

static bool read_line(int fd, struct buf *b)
{
    char c;

    do {
        if (take(fd, &c, 1) != 1) {
            return false;
        }
        buf_add(b, &c, 1);
    } while (c != '\n');
    return true;
}

static bool read_n(int fd, struct buf *b, size_t n)
{
    while (n > 0) {
        char *p = buf_reserve(b, n);
        ssize_t r = take(fd, p, n);

        if (r <= 0) {
            return false;
        }
        b->len += (size_t)r;
        n -= (size_t)r;
    }
    return true;
}

static bool read_body(int fd, const char *head, struct buf *body)
{
    const char *length = strstr(head, "Content-Length: ");
    struct buf line = BUF_INIT(0);
    size_t n = 1;

    if (length) {
        return read_n(fd, body, strtoul(length + 16, NULL, 10));
    }
    if (!strstr(head, "Transfer-Encoding: chunked")) {
        return true;
    }
    while (n > 0) {
        buf_clear(&line);
        if (!read_line(fd, &line)) {
            buf_finish(&line);
            return false;
        }
        n = strtoul(buf_text(&line), NULL, 16);
        if (!read_n(fd, body, n + 2)) {
            buf_finish(&line);
            return false;
        }
        body->len -= 2;
    }
    buf_finish(&line);
    return true;
}

bool read_answer(int fd, char **ret_head, char **ret_body, size_t *ret_len)
{
    struct buf head = BUF_INIT(0);
    struct buf body = BUF_INIT(0);
    size_t before;
    bool ok;

    do {
        before = head.len;
        ok = read_line(fd, &head);
    } while (ok && head.len - before > 2);
    ok = ok && read_body(fd, buf_text(&head), &body);
    buf_text(&head);
    buf_text(&body);
    *ret_head = head.data;
    if (ret_len) {
        *ret_len = body.len;
    }
    if (ret_body) {
        *ret_body = body.data;
    } else {
        buf_finish(&body);
    }
    return ok;
}

void expect_answer(int fd, const char *status, const char *body)
{
    char *head, *got;

    ck_assert(read_answer(fd, &head, &got, NULL));
    ck_assert_msg(strncmp(head + 9, status, 3) == 0 && strcmp(got, body) == 0, "%s%s", head, got);
    free(head);
    free(got);
}

void expect_slow_reader_is_waited_for(int fd, int by)
{
    char *head, *body;
    size_t len;

    send_text(fd, by ? GET("/length?n=30000000") : GET("/stream?n=30000000"));
    await(&fx.waits, 1);
    ck_assert_int_eq(atomic_load(&fx.ended), 0);
    ck_assert(read_answer(fd, &head, &body, &len));
    ck_assert_uint_eq(len, 30000000);
    await(&fx.ended, 1);
    free(head);
    free(body);
    send_text(fd, GET("/plain"));
    expect_answer(fd, "200", "ok");
}

void drop_date(char *head)
{
    char *line;

    while ((line = strstr(head, "Date: "))) {
        char *next = strchr(line, '\n') + 1;

        memmove(line, next, strlen(next) + 1);
    }
}

void await(atomic_int *n, int expected)
{
    while (atomic_load(n) < expected) {
        sched_yield();
    }
}
