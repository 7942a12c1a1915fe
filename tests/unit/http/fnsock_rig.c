/* The runner's side writes down what it is told; the function's side is a thread with a socket,
 * which answers byte by byte if told so. */
#include "fnsock_rig.h"

#include <linux/sockios.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct loop *loop;
struct env *env;
struct fnsock_if io;
struct fnsock_config config;
struct fnsock *sock;
char base[64];
struct told got;

/* ---- the runner's side ---------------------------------------------------------------------- */

void rig_on_ready(void *ud, const struct fn_error *err)
{
    ck_assert(!got.ready);
    (void)ud;
    got.ready = true;
    snprintf(got.ready_text, sizeof(got.ready_text), "%s", err ? err->msg : "");
    loop_stop(loop);
}

static void on_head(void *ud, int status, const struct headers *h)
{
    (void)ud;
    ck_assert_int_eq(got.status, 0);
    got.status = status;
    for (uint32_t i = 0; i < h->n; i++) {
        buf_printf(&got.head, "%s=%s\n", h->items[i].name, h->items[i].value);
    }
}

static void on_data(void *ud, const void *data, size_t len)
{
    (void)ud;
    ck_assert_int_ne(got.status, 0);
    buf_add(&got.body, data, len);
    if (got.stop_at_data) {
        loop_stop(loop);
    }
}

static void on_writable(void *ud)
{
    (void)ud;
    got.writables++;
    loop_stop(loop);
}

static void on_end(void *ud, const struct fnsock_result *r)
{
    (void)ud;
    ck_assert(!got.ended);
    got.ended = true;
    got.result = *r;
    loop_stop(loop);
}

static void on_sent(void *ud)
{
    (void)ud;
    ck_assert(!got.ended && got.status == 0);
    got.sents++;
}

static const struct fnsock_cb callbacks = { on_head, on_data, on_writable, on_end, on_sent };

void rig_start(void)
{
    struct fn_error err = ERR_INIT;

    memset(&got, 0, sizeof(got));
    snprintf(base, sizeof(base), "/tmp/fnd-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(base));
    config = (struct fnsock_config){ .iofs_path = base };
    config.limits = (struct fnsock_limits){ 0, 4096, 20, 60 * ENV_S };
    ck_assert_int_eq(loop_create(NULL, &loop, &err), 0);
    env = loop_env(loop);
}

void rig_open(void)
{
    struct fn_error err = ERR_INIT;

    ck_assert_msg(fnsock_create(loop, &config, &io, &err) == 0, "%s", err.msg);
    loop_enter(loop);
    ck_assert_msg(io.open(io.impl, "c/1", rig_on_ready, NULL, &sock, &err) == 0, "%s", err.msg);
    loop_leave(loop);
}

void rig_stop(void)
{
    loop_enter(loop);
    if (sock) {
        io.close(sock);
    }
    fnsock_destroy(&io);
    loop_leave(loop);
    loop_destroy(loop);
    ck_assert_msg(rmdir(base) == 0, "%s is not empty", base);
    buf_finish(&got.head);
    buf_finish(&got.body);
}

void rig_wait(bool *flag)
{
    while (!*flag) {
        loop_run(loop);
    }
}

static void forget(void)
{
    buf_clear(&got.head);
    buf_clear(&got.body);
    got.status = 0;
    got.ended = false;
    got.writables = 0;
}

struct fnsock_exchange *rig_begin(const struct headers *h)
{
    struct fnsock_request r = { .headers = h };
    struct fnsock_exchange *x;

    forget();
    loop_enter(loop);
    x = io.request(sock, &r, &callbacks, NULL);
    loop_leave(loop);
    ck_assert_ptr_nonnull(x);
    return x;
}

int rig_give(struct fnsock_exchange *x, const void *data, size_t len, bool eof)
{
    int r;

    loop_enter(loop);
    r = io.send(x, data, len, eof);
    loop_leave(loop);
    return r;
}

void rig_finish(struct fnsock_exchange *x)
{
    loop_enter(loop);
    io.finish(x);
    loop_leave(loop);
}

void rig_call(const char *body)
{
    struct fnsock_exchange *x;
    struct fnsock_request r = { 0 };

    forget();
    loop_enter(loop);
    x = io.request(sock, &r, &callbacks, NULL);
    io.send(x, body, strlen(body), true);
    loop_leave(loop);
    rig_wait(&got.ended);
    rig_finish(x);
}

/* ---- the function's side -------------------------------------------------------------------- */

static void address(struct sockaddr_un *un, const char *dir, const char *name)
{
    un->sun_family = AF_UNIX;
    ck_assert_int_lt(snprintf(un->sun_path, sizeof(un->sun_path), "%s/%s", dir, name),
                     (int)sizeof(un->sun_path));
}

int bind_at(const char *dir, const char *name, bool listening)
{
    struct sockaddr_un un = { 0 };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address(&un, dir, name);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
    if (listening) {
        ck_assert_int_eq(listen(fd, 8), 0);
    }
    return fd;
}

void link_to(const char *target)
{
    char path[160];

    snprintf(path, sizeof(path), "%s/lsnr.sock", io.dir(sock));
    unlink(path);
    ck_assert_int_eq(symlink(target, path), 0);
}

int publish(void)
{
    int fd = bind_at(io.dir(sock), "phonylsnr.sock", true);

    link_to("phonylsnr.sock");
    return fd;
}

void put(int fd, const char *data, size_t len, bool bytewise)
{
    int unread;

    for (size_t at = 0; at < len;) {
        ssize_t n = send(fd, data + at, bytewise ? 1 : len - at, MSG_NOSIGNAL);

        if (n < 0) {
            return;
        }
        at += (size_t)n;
        unread = bytewise;
        while (unread > 0 && ioctl(fd, SIOCOUTQ, &unread) == 0) {
            sched_yield();
        }
    }
}

/* Reads one request; the number of body bytes, or -1 at the end of the connection. */
long read_request(int fd, struct buf *text)
{
    buf_clear(text);
    for (;;) {
        char *p = buf_reserve(text, 65536);
        ssize_t n = recv(fd, p, 65536, 0);
        const char *head;

        if (n <= 0) {
            return -1;
        }
        text->len += (size_t)n;
        head = strstr(buf_text(text), "\r\n\r\n");
        if (head && text->len >= 5 && memcmp(text->data + text->len - 5, "0\r\n\r\n", 5) == 0) {
            return (long)(text->len - (size_t)(head + 4 - text->data));
        }
    }
}

static void note_request(struct function *f)
{
    pthread_mutex_lock(&f->lock);
    buf_clear(&f->last);
    buf_add(&f->last, f->reading.data, f->reading.len);
    pthread_mutex_unlock(&f->lock);
}

size_t last_request(struct function *f, const char **ret_text)
{
    size_t len;

    pthread_mutex_lock(&f->lock);
    *ret_text = buf_text(&f->last);
    len = f->last.len;
    pthread_mutex_unlock(&f->lock);
    return len;
}

/* Serves connections one after the other until its socket is shut down. */
static void *serve(void *arg)
{
    struct function *f = arg;
    int fd;

    while ((fd = accept(f->listen_fd, NULL, NULL)) >= 0) {
        atomic_fetch_add(&f->connections, 1);
        while (f->early || read_request(fd, &f->reading) >= 0) {
            atomic_fetch_add(&f->requests, 1);
            note_request(f);
            if (f->early) {
                recv(fd, (char[1]){ 0 }, 1, MSG_PEEK);
            }
            put(fd, f->answer, f->answer_len, f->bytewise);
            if (f->close_after) {
                shutdown(fd, SHUT_WR);
            }
            if (f->close_after || f->early) {
                break;
            }
        }
        if (f->early) {
            while (recv(fd, (char[4096]){ 0 }, 4096, 0) > 0) {
            }
        }
        close(fd);
        atomic_fetch_add(&f->closed, 1);
    }
    return NULL;
}

void function_start(struct function *f)
{
    f->listen_fd = publish();
    pthread_mutex_init(&f->lock, NULL);
    ck_assert_int_eq(pthread_create(&f->thread, NULL, serve, f), 0);
    rig_wait(&got.ready);
    ck_assert_str_eq(got.ready_text, "");
}

void function_stop(struct function *f)
{
    loop_enter(loop);
    io.close(sock);
    sock = NULL;
    loop_leave(loop);
    shutdown(f->listen_fd, SHUT_RDWR);
    pthread_join(f->thread, NULL);
    close(f->listen_fd);
    buf_finish(&f->last);
    buf_finish(&f->reading);
}

static void on_tick(struct env_timer *t)
{
    (void)t;
    loop_stop(loop);
}

void rig_run_for(int64_t ns)
{
    struct env_timer t = { .cb = on_tick };

    loop_enter(loop);
    env_timer_set(env, &t, env_now_ns(env) + ns);
    loop_leave(loop);
    loop_run(loop);
    loop_enter(loop);
    env_timer_clear(env, &t);
    loop_leave(loop);
}
