/* fetch: exchanges, streams and the API getter against a scripted server on a unix socket or TCP.
 * The server answers each connection's requests with what the script says, byte for byte. */
#include <http/fetch_int.h>
#include <loop/loop.h>
#include <plugin/plugin.h>

#include <arpa/inet.h>
#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define WAIT_S      30
#define SCRIPTS_MAX 8

/* One answer per request; "" = close without an answer, NULL in the middle = hold for ever. */
static struct {
    int fd;
    pthread_t thread;
    const char *answers[SCRIPTS_MAX];
    bool close_after[SCRIPTS_MAX];
    atomic_int requests, connections;
    pthread_mutex_t lock; /* last */
    char last[4096];
    char path[64];
    int port;
} server;

static struct loop *loop;
static struct fetch *fetch;
static pthread_t loop_thread;
static struct fn_error err;

/* ---- the scripted server --------------------------------------------------------------------- */

/* The last whole request. */
static const char *last(void)
{
    static char copy[sizeof(server.last)];

    pthread_mutex_lock(&server.lock);
    memcpy(copy, server.last, sizeof(copy));
    pthread_mutex_unlock(&server.lock);
    return copy;
}

static bool read_request(int fd)
{
    char buf[sizeof(server.last)];
    size_t len = 0;
    size_t want = 0;
    char *end, *cl;
    ssize_t n;

    while ((n = read(fd, buf + len, sizeof(buf) - 1 - len)) > 0) {
        len += (size_t)n;
        buf[len] = '\0';
        end = strstr(buf, "\r\n\r\n");
        if (end) {
            cl = strcasestr(buf, "content-length:");
            want = (size_t)(end - buf) + 4 + (cl ? strtoul(cl + 15, NULL, 10) : 0);
            if (len >= want) {
                pthread_mutex_lock(&server.lock);
                memcpy(server.last, buf, len + 1);
                pthread_mutex_unlock(&server.lock);
                return true;
            }
        }
    }
    return false;
}

static void *serve_one(void *arg)
{
    int fd = (int)(intptr_t)arg;

    while (read_request(fd)) {
        int i = atomic_fetch_add(&server.requests, 1);
        const char *answer = i < SCRIPTS_MAX ? server.answers[i] : NULL;

        if (!answer) {
            char c;

            while (read(fd, &c, 1) > 0) {
            }
            break;
        }
        if (!*answer || write(fd, answer, strlen(answer)) < 0 || server.close_after[i]) {
            break;
        }
    }
    close(fd);
    return NULL;
}

static void *serve(void *arg)
{
    int fd;

    (void)arg;
    while ((fd = accept(server.fd, NULL, NULL)) >= 0) {
        pthread_t t;

        atomic_fetch_add(&server.connections, 1);
        pthread_create(&t, NULL, serve_one, (void *)(intptr_t)fd);
        pthread_detach(t);
    }
    return NULL;
}

static void server_start(bool tcp)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(in);

    server.fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (tcp) {
        ck_assert_int_eq(bind(server.fd, (struct sockaddr *)&in, sizeof(in)), 0);
        getsockname(server.fd, (struct sockaddr *)&in, &len);
        server.port = ntohs(in.sin_port);
    } else {
        snprintf(server.path, sizeof(server.path), "/tmp/test-fetch-%d.sock", (int)getpid());
        unlink(server.path);
        memcpy(un.sun_path, server.path, strlen(server.path) + 1);
        ck_assert_int_eq(bind(server.fd, (struct sockaddr *)&un, sizeof(un)), 0);
    }
    ck_assert_int_eq(listen(server.fd, 16), 0);
    pthread_create(&server.thread, NULL, serve, NULL);
}

/* ---- a resolver of our own ------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int asked, answered;
    bool open; /* whoever asks for slow.test is answered */
} resolver = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* In the place of the C library's, also for libcurl. */
__attribute__((visibility("default"))) int getaddrinfo(const char *host, const char *port,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **ret)
{
    int (*real)(const char *host, const char *port, const struct addrinfo *hints,
                struct addrinfo **ret);

    if (!host || strcmp(host, "slow.test") != 0) {
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
        return real(host, port, hints, ret);
    }
    pthread_mutex_lock(&resolver.lock);
    resolver.asked++;
    pthread_cond_broadcast(&resolver.changed);
    while (!resolver.open) {
        pthread_cond_wait(&resolver.changed, &resolver.lock);
    }
    resolver.answered++;
    pthread_cond_broadcast(&resolver.changed);
    pthread_mutex_unlock(&resolver.lock);
    return EAI_AGAIN;
}

static void resolver_await_asked(int n)
{
    pthread_mutex_lock(&resolver.lock);
    while (resolver.asked < n) {
        pthread_cond_wait(&resolver.changed, &resolver.lock);
    }
    pthread_mutex_unlock(&resolver.lock);
}

/* Until everybody who asked has an answer. */
static void resolver_open(void)
{
    pthread_mutex_lock(&resolver.lock);
    resolver.open = true;
    pthread_cond_broadcast(&resolver.changed);
    while (resolver.answered < resolver.asked) {
        pthread_cond_wait(&resolver.changed, &resolver.lock);
    }
    pthread_mutex_unlock(&resolver.lock);
}

/* ---- a rig ----------------------------------------------------------------------------------- */

static void *run_loop(void *arg)
{
    loop_run(arg);
    return NULL;
}

static void setup(void)
{
    memset(&server, 0, sizeof(server));
    server.fd = -1;
    pthread_mutex_init(&server.lock, NULL);
    ck_assert_int_eq(loop_create(NULL, &loop, NULL), 0);
    ck_assert_int_eq(fetch_create(loop_env(loop), &fetch, NULL), 0);
    pthread_create(&loop_thread, NULL, run_loop, loop);
}

static void teardown(void)
{
    loop_stop(loop);
    pthread_join(loop_thread, NULL);
    fetch_destroy(fetch);
    loop_destroy(loop);
    if (server.fd >= 0) {
        shutdown(server.fd, SHUT_RDWR);
        pthread_join(server.thread, NULL);
        close(server.fd);
        unlink(server.path);
    }
    resolver_open();
}

/* ---- exchanges ------------------------------------------------------------------------------- */

static struct fn_http_answer answer;

static int exchange(struct fn_http_request rq)
{
    rq.size = sizeof(rq);
    rq.url = rq.url ? rq.url : "http://localhost/x?y=1";
    rq.method = rq.method ? rq.method : "GET";
    rq.unix_path = rq.unix_path ? rq.unix_path : server.path;
    err = ERR_INIT;
    memset(&answer, 0, sizeof(answer));
    return fetch_ask(fetch, NULL, &rq, &answer, NULL, &err);
}

#define RQ(...) ((struct fn_http_request){ .size = 0, ##__VA_ARGS__ })
#define OK_TWO  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

START_TEST(a_path_goes_out_as_it_is)
{
    server.answers[0] = OK_TWO;
    server_start(false);
    ck_assert_int_eq(exchange(RQ(.url = "http://localhost/a/../b/./%2e%2e/c")), 0);
    fetch_free_answer(&answer);
    ck_assert_ptr_nonnull(strstr(last(), "GET /a/../b/./%2e%2e/c HTTP/1.1\r\n"));
}
END_TEST

START_TEST(answers_are_whole_and_connections_are_kept)
{
    static const char *const headers[] = { "X-A: b", "Content-Type: application/json", NULL };

    server.answers[0] = OK_TWO;
    server.answers[1] = "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope";
    server.answers[2] = "HTTP/1.1 204 No Content\r\n\r\n";
    server_start(false);
    ck_assert_int_eq(exchange(RQ()), 0);
    ck_assert_uint_eq(answer.status, 200);
    ck_assert_str_eq(answer.body, "ok");
    fetch_free_answer(&answer);
    ck_assert_ptr_nonnull(strstr(last(), "GET /x?y=1 HTTP/1.1\r\n"));
    ck_assert_int_eq(
        exchange(RQ(.method = "POST", .body = "{}", .body_len = 2, .headers = headers)), 0);
    ck_assert_uint_eq(answer.status, 404);
    ck_assert_str_eq(answer.body, "nope");
    fetch_free_answer(&answer);
    ck_assert_ptr_nonnull(strstr(last(), "X-A: b\r\n"));
    ck_assert_ptr_nonnull(strstr(last(), "\r\n\r\n{}"));
    ck_assert_ptr_null(strcasestr(last(), "expect:"));
    ck_assert_int_eq(exchange(RQ(.method = "DELETE")), 0);
    ck_assert_uint_eq(answer.status, 204);
    ck_assert_str_eq(answer.body, "");
    fetch_free_answer(&answer);
    ck_assert_int_eq(atomic_load(&server.connections), 1);
}
END_TEST

START_TEST(an_empty_post_says_that_it_is_empty)
{
    server.answers[0] = OK_TWO;
    server_start(false);
    ck_assert_int_eq(exchange(RQ(.method = "POST")), 0);
    fetch_free_answer(&answer);
    ck_assert_ptr_nonnull(strcasestr(last(), "content-length: 0\r\n"));
    ck_assert_ptr_null(strcasestr(last(), "content-type"));
}
END_TEST

START_TEST(a_kept_connection_that_died_is_replaced)
{
    server.answers[0] = server.answers[1] = OK_TWO;
    server.close_after[0] = true;
    server_start(false);
    ck_assert_int_eq(exchange(RQ()), 0);
    fetch_free_answer(&answer);
    ck_assert_int_eq(exchange(RQ()), 0);
    fetch_free_answer(&answer);
    ck_assert_int_eq(atomic_load(&server.connections), 2);
}
END_TEST

START_TEST(bad_answers_are_errors)
{
    static const char *const bad[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        "garbage\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        "",
    };

    for (int i = 0; i < 5; i++) {
        server.answers[i] = bad[i];
        server.close_after[i] = true;
    }
    server_start(false);
    for (int i = 0; i < 5; i++) {
        int r = exchange(RQ(.timeout_ms = 5000));

        ck_assert_msg(r == FN_E_DATA_LOSS || r == FN_E_UNAVAILABLE, "answer %d: %d %s", i, r,
                      err.msg);
        ck_assert_ptr_nonnull(strstr(err.msg, server.path));
        ck_assert_ptr_null(answer.body);
    }
}
END_TEST

START_TEST(an_answer_beyond_its_limit_is_refused)
{
    server.answers[0] = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789";
    server.answers[1] = server.answers[0];
    server_start(false);
    ck_assert_int_eq(exchange(RQ(.answer_max = 9)), FN_E_EXHAUSTED);
    ck_assert_int_eq(exchange(RQ(.answer_max = 10)), 0);
    fetch_free_answer(&answer);
}
END_TEST

START_TEST(a_silent_server_ends_at_the_deadline)
{
    int64_t start_ns = env_now_ns(loop_env(loop));

    server_start(false);
    ck_assert_int_eq(exchange(RQ(.timeout_ms = 200)), FN_E_DEADLINE);
    ck_assert_int_lt(env_now_ns(loop_env(loop)) - start_ns, 5 * ENV_S);
}
END_TEST

START_TEST(sockets_that_cannot_be_reached_say_why)
{
    char file[] = "/tmp/test-fetch-file-XXXXXX";
    int fd = mkstemp(file);
    char longer[300];

    memset(longer, 'a', sizeof(longer) - 1);
    longer[0] = '/';
    longer[sizeof(longer) - 1] = '\0';
    ck_assert_int_eq(exchange(RQ(.unix_path = "/no/such.sock")), FN_E_NOT_FOUND);
    ck_assert_str_eq(err.msg, "unix:///no/such.sock: No such file or directory");
    ck_assert_uint_eq(err.flags, FN_ERR_RETRY);
    ck_assert_int_eq(exchange(RQ(.unix_path = file)), FN_E_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(err.msg, "not a socket"));
    ck_assert_int_eq(exchange(RQ(.unix_path = longer)), FN_E_INVALID);
    close(fd);
    unlink(file);
}
END_TEST

START_TEST(requests_that_smuggle_are_refused)
{
    static const char *const header[] = { "A: b\r\nC: d", NULL };
    static const char *const nameless[] = { "nothing", NULL };

    ck_assert_int_eq(exchange(RQ(.headers = header)), FN_E_INVALID);
    ck_assert_int_eq(exchange(RQ(.headers = nameless)), FN_E_INVALID);
    ck_assert_int_eq(exchange(RQ(.url = "http://localhost/a b")), FN_E_INVALID);
    ck_assert_int_eq(exchange(RQ(.url = "http://localhost/\r\nX: y")), FN_E_INVALID);
    ck_assert_int_eq(exchange(RQ(.url = "file:///etc/passwd")), FN_E_INVALID);
    ck_assert_int_eq(exchange(RQ(.method = "GET /\r\n")), FN_E_INVALID);
}
END_TEST

START_TEST(tls_files_are_what_they_must_be)
{
    char ca[] = "/tmp/test-fetch-ca-XXXXXX";
    int fd = mkstemp(ca);

    server_start(false);
    ck_assert_int_eq(exchange(RQ(.url = "https://x/", .tls_cert = ca)), FN_E_INVALID);
    ck_assert_int_eq(exchange(RQ(.url = "https://x/", .tls_key = ca)), FN_E_INVALID);
    ck_assert_int_eq(exchange(RQ(.url = "http://x/", .tls_ca = ca)), FN_E_INVALID);
    ck_assert_int_eq(atomic_load(&server.connections), 0);
    ck_assert_int_eq(exchange(RQ(.url = "https://x/", .tls_ca = "/no/ca.pem")), FN_E_PRECONDITION);
    ck_assert_str_eq(err.msg, "/no/ca.pem: expected a readable file of certificates (PEM)");
    ck_assert_int_eq(exchange(RQ(.url = "https://x/", .tls_ca = ca)), FN_E_PRECONDITION);
    ck_assert_int_eq(exchange(RQ(.url = "https://x/", .tls_cert = "/no/cert.pem",
                                 .tls_key = "/no/key.pem")), FN_E_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(err.msg, "/no/cert.pem, /no/key.pem: expected a certificate and "
                                          "its key"));
    close(fd);
    unlink(ca);
}
END_TEST

/* ---- cancelling ------------------------------------------------------------------------------ */

struct job {
    struct env_work work;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const char *url, *unix_path;
    int r;
    bool done;
};

static void job_run(struct env_work *w, struct fn_op *op)
{
    struct job *j = container_of(w, struct job, work);
    struct fn_http_request rq = { .size = sizeof(rq), .method = "GET", .url = j->url,
                                  .unix_path = j->unix_path };
    struct fn_http_answer a;

    j->r = fetch_ask(fetch, op, &rq, &a, NULL, NULL);
}

static void job_done(struct env_work *w)
{
    struct job *j = container_of(w, struct job, work);

    pthread_mutex_lock(&j->lock);
    j->done = true;
    pthread_cond_signal(&j->changed);
    pthread_mutex_unlock(&j->lock);
}

#define JOB(...)                                                                        \
    ((struct job){ .work = { .run = job_run, .done = job_done, .lane = ENV_LANE_FAST }, \
                   .lock = PTHREAD_MUTEX_INITIALIZER,                                   \
                   .changed = PTHREAD_COND_INITIALIZER,                                 \
                   __VA_ARGS__ })

static void job_start(struct job *j)
{
    loop_enter(loop);
    ck_assert_int_eq(env_submit(loop_env(loop), &j->work), 0);
    loop_leave(loop);
}

static void job_cancel(struct job *j)
{
    loop_enter(loop);
    env_cancel(loop_env(loop), &j->work);
    loop_leave(loop);
    pthread_mutex_lock(&j->lock);
    while (!j->done) {
        pthread_cond_wait(&j->changed, &j->lock);
    }
    pthread_mutex_unlock(&j->lock);
}

START_TEST(a_cancelled_operation_ends_its_exchange)
{
    struct job j = JOB(.url = "http://localhost/", .unix_path = server.path);
    struct timespec ms = { 0, 1000000 };
    int64_t start_ns;

    server_start(false);
    job_start(&j);
    while (atomic_load(&server.requests) == 0) {
        nanosleep(&ms, NULL); /* the request is on its way; CHECK ends a hang */
    }
    start_ns = env_now_ns(loop_env(loop));
    job_cancel(&j);
    ck_assert_int_eq(j.r, FN_E_CANCELLED);
    ck_assert_int_lt(env_now_ns(loop_env(loop)) - start_ns, 5 * ENV_S);
}
END_TEST

/* ---- streams --------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char text[256];
    uint32_t status;
    int code; /* of the end; 1 = none yet */
    int ends;
    uint64_t reopened;
    bool reopen;
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static _Thread_local bool attributed; /* it is known whose callback runs */

void *plugin_impl(const struct fn_host *host, const char *iface)
{
    (void)host;
    (void)iface;
    return NULL;
}

struct plugin *plugin_of(const struct fn_host *host)
{
    (void)host;
    return NULL;
}

void plugin_enter(struct plugin_crumb *c, struct plugin *p, enum plugin_context context,
                  const char *method)
{
    (void)c;
    (void)p;
    attributed = context == PLUGIN_WORKER && strcmp(method, "stream callback") == 0;
}

void plugin_leave(struct plugin_crumb *c)
{
    (void)c;
    attributed = false;
}

static const struct fn_http_stream_cb stream_cb;
static struct fn_host host_a, host_b;

static int open_with(const struct fn_host *host, const struct fn_http_stream_cb *cb,
                     uint32_t timeout_ms, uint64_t *id)
{
    struct fn_http_request rq = { .size = sizeof(rq), .method = "GET", .url = "http://localhost/e",
                                  .unix_path = server.path, .timeout_ms = timeout_ms };

    return fetch_stream_open(fetch->streams, host, &rq, cb, NULL, id, &err);
}

static int open_stream(const struct fn_host *host, uint32_t timeout_ms, uint64_t *id)
{
    return open_with(host, &stream_cb, timeout_ms, id);
}

static void on_data(void *ud, uint32_t status, const void *data, size_t len)
{
    (void)ud;
    ck_assert(attributed);
    pthread_mutex_lock(&seen.lock);
    ck_assert_uint_lt(strlen(seen.text) + len, sizeof(seen.text));
    strncat(seen.text, data, len);
    seen.status = status;
    pthread_cond_signal(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

static void on_end(void *ud, uint32_t status, const struct fn_error *e)
{
    bool reopen;

    (void)ud;
    ck_assert(attributed);
    pthread_mutex_lock(&seen.lock);
    seen.ends++;
    seen.status = status;
    seen.code = e ? e->code : 0;
    reopen = seen.reopen;
    seen.reopen = false;
    pthread_cond_signal(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
    if (reopen) {
        ck_assert_int_eq(open_stream(&host_a, 0, &seen.reopened), 0);
    }
}

static const struct fn_http_stream_cb stream_cb = { FN_HDR(struct fn_http_stream_cb, 0), on_data,
                                                    on_end };

static bool wait_seen(const char *text, int ends)
{
    struct timespec until;
    bool ok;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&seen.lock);
    while (!(ok = seen.ends >= ends && strstr(seen.text, text)) &&
           pthread_cond_timedwait(&seen.changed, &seen.lock, &until) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&seen.lock);
    return ok;
}

START_TEST(a_stream_delivers_pieces_and_ends_once)
{
    uint64_t id;

    server.answers[0] = "HTTP/1.1 200 OK\r\n\r\nline\n";
    server.close_after[0] = true;
    server_start(false);
    ck_assert_int_eq(open_stream(&host_a, 5000, &id), 0);
    ck_assert(wait_seen("line\n", 1));
    ck_assert_uint_eq(seen.status, 200);
    ck_assert_int_eq(seen.code, 0);
    fetch_stream_close(fetch->streams, &host_a, id); /* stale: harmless */
    ck_assert_int_eq(seen.ends, 1);
}
END_TEST

START_TEST(a_closed_stream_says_nothing_more)
{
    uint64_t id;

    server.answers[0] = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart";
    server_start(false);
    ck_assert_int_eq(open_stream(&host_a, 0, &id), 0);
    ck_assert(wait_seen("part", 0));
    fetch_stream_close(fetch->streams, &host_b, id); /* another instance's */
    fetch_stream_close(fetch->streams, &host_a, id);
    ck_assert_int_eq(seen.ends, 0);
}
END_TEST

START_TEST(a_stream_without_an_answer_ends_in_time)
{
    uint64_t id;

    server_start(false);
    ck_assert_int_eq(open_stream(&host_a, 100, &id), 0);
    ck_assert(wait_seen("", 1));
    ck_assert_int_eq(seen.code, FN_E_DEADLINE);
}
END_TEST

START_TEST(a_cut_stream_is_an_error_and_can_be_opened_again_from_its_end)
{
    uint64_t id;

    server.answers[0] = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na";
    server.close_after[0] = true;
    server.answers[1] = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb";
    server_start(false);
    seen.reopen = true;
    ck_assert_int_eq(open_stream(&host_a, 0, &id), 0);
    ck_assert(wait_seen("ab", 2));
    ck_assert_int_eq(seen.code, 0);
    ck_assert_uint_ne(seen.reopened, id);
}
END_TEST

START_TEST(all_streams_of_an_instance_close_together)
{
    uint64_t id;

    server.answers[0] = server.answers[1] = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\np";
    server_start(false);
    ck_assert_int_eq(open_stream(&host_a, 0, &id), 0);
    ck_assert_int_eq(open_stream(&host_a, 0, &id), 0);
    ck_assert(wait_seen("pp", 0));
    fetch_close_all(fetch, &host_a);
    ck_assert_int_eq(seen.ends, 0);
}
END_TEST

static sem_t held, go_on;

static void hold(void *ud, uint32_t status, const void *data, size_t len)
{
    (void)ud;
    (void)status;
    (void)data;
    (void)len;
    sem_post(&held);
    sem_wait(&go_on);
}

/* The thread of the streams is held in a callback, so that the others stay as they were opened. */
START_TEST(streams_of_an_instance_leave_room_for_others)
{
    static const struct fn_http_stream_cb cb = { FN_HDR(struct fn_http_stream_cb, 0), hold,
                                                 on_end };
    uint64_t id;
    int n = 1;

    sem_init(&held, 0, 0);
    sem_init(&go_on, 0, 0);
    server.answers[0] = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\np";
    server_start(false);
    ck_assert_int_eq(open_with(&host_a, &cb, 0, &id), 0);
    sem_wait(&held);
    while (open_stream(&host_a, 0, &id) == 0) {
        n++;
    }
    ck_assert_int_eq(n, FETCH_STREAMS_OF_MAX);
    ck_assert_int_eq(err.code, FN_E_EXHAUSTED);
    ck_assert_str_eq(err.msg, "fn.http: streams of one instance, got 3073; expected at most 3072");
    ck_assert_int_eq(open_stream(&host_b, 0, &id), 0);
    sem_post(&go_on);
    fetch_close_all(fetch, &host_a);
    ck_assert_int_eq(open_stream(&host_a, 0, &id), 0);
    fetch_close_all(fetch, &host_a);
    fetch_close_all(fetch, &host_b);
}
END_TEST

/* ---- the API getter -------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    uint32_t status;
    char body[64];
    int code;
} got = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void on_got(void *ud, const struct fetch_result *res)
{
    (void)ud;
    pthread_mutex_lock(&got.lock);
    got.done = true;
    got.status = res->status;
    snprintf(got.body, sizeof(got.body), "%s", res->body);
    got.code = res->error ? res->error->code : 0;
    pthread_cond_signal(&got.changed);
    pthread_mutex_unlock(&got.lock);
}

static void get_from(const char *base, uint32_t timeout_ms)
{
    loop_enter(loop);
    ck_assert_int_eq(fetch_get(fetch, base, "/v2/fns/f", timeout_ms, on_got, NULL, &err), 0);
    loop_leave(loop);
    pthread_mutex_lock(&got.lock);
    while (!got.done) {
        pthread_cond_wait(&got.changed, &got.lock);
    }
    pthread_mutex_unlock(&got.lock);
}

static void get(uint32_t timeout_ms)
{
    char base[64];

    snprintf(base, sizeof(base), "http://127.0.0.1:%d/", server.port);
    get_from(base, timeout_ms);
}

START_TEST(a_get_is_tried_again_until_it_is_answered)
{
    server.answers[0] = "HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n";
    server.answers[1] = "";
    server.answers[2] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    server_start(true);
    get(20000);
    ck_assert_uint_eq(got.status, 200);
    ck_assert_str_eq(got.body, "{}");
    ck_assert_ptr_nonnull(strstr(last(), "GET /v2/fns/f HTTP/1.1\r\n"));
    ck_assert_int_eq(atomic_load(&server.requests), 3);
}
END_TEST

START_TEST(a_refusal_is_not_tried_again)
{
    server.answers[0] = "HTTP/1.1 404 X\r\nContent-Length: 1\r\n\r\nn";
    server_start(true);
    get(20000);
    ck_assert_uint_eq(got.status, 404);
    ck_assert_str_eq(got.body, "n");
    ck_assert_int_eq(atomic_load(&server.requests), 1);
}
END_TEST

START_TEST(a_get_gives_up_after_six_requests)
{
    for (int i = 0; i < SCRIPTS_MAX; i++) {
        server.answers[i] = "HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n";
    }
    server_start(true);
    get(30000);
    ck_assert_uint_eq(got.status, 503);
    ck_assert_int_eq(atomic_load(&server.requests), FETCH_GET_TRIES_MAX);
}
END_TEST

START_TEST(a_get_ends_at_its_deadline)
{
    server_start(true);
    get(300);
    ck_assert_uint_eq(got.status, 0);
    ck_assert_int_eq(got.code, FN_E_DEADLINE);
}
END_TEST

START_TEST(an_api_address_must_be_http)
{
    loop_enter(loop);
    ck_assert_int_eq(fetch_get(fetch, "api:8080", "/", 1, on_got, NULL, &err), FN_E_INVALID);
    loop_leave(loop);
    ck_assert_ptr_nonnull(strstr(err.msg, "got \"api:8080\""));
}
END_TEST

/* ---- names ----------------------------------------------------------------------------------- */

#define SLOW_URL "http://slow.test/"

/* Neither a deadline, nor whoever cancels or closes, nor the end waits for a resolver that says
 * nothing: it is answered when all is over. */
START_TEST(a_slow_resolver_holds_nobody_up)
{
    struct job j = JOB(.url = SLOW_URL);
    struct fn_http_request rq = { .size = sizeof(rq), .method = "GET", .url = SLOW_URL,
                                  .timeout_ms = 100 };
    struct fetch_client *client;
    struct buf body;
    uint64_t id;
    int status;

    ck_assert_int_eq(fetch_ask(fetch, NULL, &rq, &answer, NULL, &err), FN_E_DEADLINE);
    get_from(SLOW_URL, 100);
    ck_assert_int_eq(got.code, FN_E_DEADLINE);
    ck_assert_int_eq(fetch_client_create(NULL, SLOW_URL, &client, &err), 0);
    ck_assert_int_eq(fetch_client_ask(client, "GET", "/", NULL, 100, &status, &body, &err),
                     FN_E_DEADLINE);
    fetch_client_destroy(client);
    buf_finish(&body);
    job_start(&j);
    resolver_await_asked(4);
    job_cancel(&j);
    ck_assert_int_eq(j.r, FN_E_CANCELLED);
    rq.timeout_ms = 0;
    ck_assert_int_eq(fetch_stream_open(fetch->streams, &host_a, &rq, &stream_cb, NULL, &id,
                                       &err), 0);
    resolver_await_asked(5);
    fetch_stream_close(fetch->streams, &host_a, id);
    ck_assert_int_eq(fetch_stream_open(fetch->streams, &host_a, &rq, &stream_cb, NULL, &id,
                                       &err), 0);
    resolver_await_asked(6); /* open at the end */
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fetch");
    TCase *t = tcase_create("fetch");
    SRunner *runner;
    int failed;

    signal(SIGPIPE, SIG_IGN); /* clients hang up on the scripted server */
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_path_goes_out_as_it_is);
    tcase_add_test(t, answers_are_whole_and_connections_are_kept);
    tcase_add_test(t, an_empty_post_says_that_it_is_empty);
    tcase_add_test(t, a_kept_connection_that_died_is_replaced);
    tcase_add_test(t, bad_answers_are_errors);
    tcase_add_test(t, an_answer_beyond_its_limit_is_refused);
    tcase_add_test(t, a_silent_server_ends_at_the_deadline);
    tcase_add_test(t, sockets_that_cannot_be_reached_say_why);
    tcase_add_test(t, requests_that_smuggle_are_refused);
    tcase_add_test(t, tls_files_are_what_they_must_be);
    tcase_add_test(t, a_cancelled_operation_ends_its_exchange);
    tcase_add_test(t, a_stream_delivers_pieces_and_ends_once);
    tcase_add_test(t, a_closed_stream_says_nothing_more);
    tcase_add_test(t, a_stream_without_an_answer_ends_in_time);
    tcase_add_test(t, a_cut_stream_is_an_error_and_can_be_opened_again_from_its_end);
    tcase_add_test(t, all_streams_of_an_instance_close_together);
    tcase_add_test(t, streams_of_an_instance_leave_room_for_others);
    tcase_add_test(t, a_get_is_tried_again_until_it_is_answered);
    tcase_add_test(t, a_refusal_is_not_tried_again);
    tcase_add_test(t, a_get_gives_up_after_six_requests);
    tcase_add_test(t, a_get_ends_at_its_deadline);
    tcase_add_test(t, an_api_address_must_be_http);
    tcase_add_test(t, a_slow_resolver_holds_nobody_up);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
