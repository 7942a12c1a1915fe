/* Allocations that fail when told, waiting with a limit, the server that does what a call's JSON
 * names, and the client's record of it. */
#include "certs.h"
#include "fixture.h"

#include <base/buf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define END_NS (8 * ENV_S) /* a node ends in that time, whatever its library has under way */

/* ---- memory --------------------------------------------------------------------------------- */

_Thread_local long fixture_allocations = -1;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);

static bool is_granted(void)
{
    return fixture_allocations < 0 || (fixture_allocations > 0 && fixture_allocations--);
}

void *__wrap_realloc(void *p, size_t size)
{
    return is_granted() ? __real_realloc(p, size) : NULL;
}

void *__wrap_malloc(size_t size)
{
    return is_granted() ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return is_granted() ? __real_calloc(n, size) : NULL;
}

/* ---- waiting -------------------------------------------------------------------------------- */

void fixture_notify(struct fixture *f)
{
    pthread_mutex_lock(&f->lock);
    f->changes++;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

void fixture_wait(struct fixture *f, bool (*pred)(void *ud), void *ud, const char *what, int line)
{
    struct timespec until;
    uint64_t seen;
    bool ok;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    for (;;) {
        pthread_mutex_lock(&f->lock);
        seen = f->changes;
        pthread_mutex_unlock(&f->lock);
        loop_enter(f->loop);
        ok = pred(ud);
        loop_leave(f->loop);
        if (ok) {
            return;
        }
        pthread_mutex_lock(&f->lock);
        while (f->changes == seen) {
            if (pthread_cond_timedwait(&f->changed, &f->lock, &until) == ETIMEDOUT) {
                pthread_mutex_unlock(&f->lock);
                ck_abort_msg("line %d: %s did not come true within 20 s", line, what);
            }
        }
        pthread_mutex_unlock(&f->lock);
    }
}

bool is_up(void *ud)
{
    struct fixture *f = ud;

    return f->link && f->client->link_is_up(f->link);
}

bool is_down(void *ud)
{
    return !is_up(ud);
}

/* ---- the server ----------------------------------------------------------------------------- */

/* One call at the server. Its JSON names what happens:
 *   echo        body back when it is complete
 *   nack        Finished 503 at once, body unread
 *   early       start and Finished at once, body unread
 *   readsome    one body message, then start and Finished
 *   big:N       N bytes, waiting when full
 *   abort:S     ends with gRPC status S after the body
 *   midabort    start, 100 bytes, then abort
 *   refuse      on_try fails
 *   hold        keeps the call until it is gone or released
 *   holdstart   the same after ResultStart
 *   holddata    the same after ResultStart and 100 bytes
 *   wrongorder  data without start
 *   twostarts   two starts
 *   nomem:N     start, 25000 bytes; refused after N allocations: nothing more
 *   nomemend:N  the same, then Finished
 *   resume      lets the one that holds its call read its body, then echoes
 *   never       does not read its body */
struct served {
    LIST_ENTRY(served) entry;
    struct fixture *f;
    struct engage_session *s;
    char what[32];
    long n;
    struct buf body;
    uint64_t sent;
};

static void served_free(struct served *v)
{
    if (v->f->held == v) {
        v->f->held = NULL;
    }
    LIST_REMOVE(v, entry);
    buf_finish(&v->body);
    free(v);
}

static void served_finish(struct served *v, bool success, int code, const char *text)
{
    struct engage_finished fin = {
        .success = success,
        .error_code = code,
        .error_text = text,
        .details = "the-call",
        .image = "img",
        .created_at = "2026-11-21T04:17:24.501Z",
        .scheduler_ns = 1111,
        .execution_ns = 2222,
    };
    struct fixture *f = v->f;

    if (code == 503) {
        fin.refusal = (struct engage_refusal){ ENGAGE_REASON_ROOM, 250000000, 64 << 20, 500, 3 };
    }
    f->finished++;
    f->table->finish(v->s, &fin);
    served_free(v);
    fixture_notify(f);
}

static void served_headers(struct served *v)
{
    struct header h[] = { { "Content-Type", "text/plain" },
                          { "X-Latin", "caf\xe9" },
                          { "X-Utf", "caf\xc3\xa9" } };
    struct engage_start start = { .status = 200, .headers = h, .n_headers = 3 };

    v->f->table->send_start(v->s, &start);
}

static void served_big(struct served *v)
{
    static char chunk[30000];

    while (v->sent < (uint64_t)v->n) {
        size_t len = (uint64_t)v->n - v->sent < sizeof(chunk) ? (size_t)v->n - v->sent
                                                              : sizeof(chunk);

        for (size_t i = 0; i < len; i++) {
            chunk[i] = (char)((v->sent + i) % 251);
        }
        v->sent += len;
        if (v->f->table->send_data(v->s, chunk, len) == 1) {
            return;
        }
    }
    served_finish(v, true, 0, NULL);
}

static void served_answer(struct served *v)
{
    if (strcmp(v->what, "big") == 0) {
        served_headers(v);
        served_big(v);
    } else if (strcmp(v->what, "abort") == 0) {
        struct fixture *f = v->f;

        f->table->abort(v->s, (int)v->n, "as asked");
        served_free(v);
        fixture_notify(f);
    } else {
        served_headers(v);
        if (v->body.len > 0) {
            v->f->table->send_data(v->s, v->body.data, v->body.len);
        }
        served_finish(v, true, 0, NULL);
    }
}

static void served_without_memory(struct served *v)
{
    static char chunk[25000];

    fixture_allocations = v->n;
    served_headers(v);
    v->f->table->send_data(v->s, chunk, sizeof(chunk));
    if (strcmp(v->what, "nomemend") == 0) {
        served_finish(v, true, 0, NULL);
    }
    fixture_allocations = -1;
}

/* What can be done before the body; false = it is to be read. */
static bool served_at_once(struct served *v)
{
    struct fixture *f = v->f;

    if (strcmp(v->what, "nack") == 0) {
        served_finish(v, false, 503, "busy");
    } else if (strcmp(v->what, "early") == 0) {
        served_headers(v);
        served_finish(v, true, 0, NULL);
    } else if (strcmp(v->what, "midabort") == 0) {
        served_headers(v);
        f->table->send_data(v->s, v->what, 8);
        f->table->abort(v->s, 13, "in the middle");
        served_free(v);
    } else if (strcmp(v->what, "wrongorder") == 0) {
        f->table->send_data(v->s, "data", 4);
        served_finish(v, true, 0, NULL);
    } else if (strcmp(v->what, "twostarts") == 0) {
        served_headers(v);
        served_headers(v);
        served_finish(v, true, 0, NULL);
    } else if (strncmp(v->what, "hold", 4) == 0) {
        if (strcmp(v->what, "hold") != 0) {
            served_headers(v);
        }
        if (strcmp(v->what, "holddata") == 0) {
            f->table->send_data(v->s, v->what, 8);
        }
        f->held = v;
    } else if (strncmp(v->what, "nomem", 5) == 0) {
        served_without_memory(v);
    } else if (strcmp(v->what, "resume") == 0) {
        f->table->session_more(f->held->s);
        return false;
    } else {
        return strcmp(v->what, "never") == 0;
    }
    return true;
}

static int on_try(void *ud, struct engage_session *s, const struct engage_try *t,
                  int64_t deadline_ns, void **ret_ud)
{
    struct fixture *f = ud;
    struct served *v;

    f->tries++;
    f->last_deadline_ns = deadline_ns;
    snprintf(f->last_json, sizeof(f->last_json), "%s", t->call_json);
    snprintf(f->last_request_id, sizeof(f->last_request_id), "%s",
             t->request_id ? t->request_id : "");
    snprintf(f->last_ext, sizeof(f->last_ext), "%s",
             t->n_extensions == 2 ? t->extensions[1].value : "");
    fixture_notify(f);
    if (strcmp(t->call_json, "refuse") == 0) {
        return FN_E_PRECONDITION;
    }
    v = calloc(1, sizeof(*v));
    v->f = f;
    v->s = s;
    if (sscanf(t->call_json, "%31[a-z]:%ld", v->what, &v->n) < 1) {
        v->what[0] = '\0';
    }
    LIST_INSERT_HEAD(&f->served, v, entry);
    *ret_ud = v;
    if (!served_at_once(v)) {
        f->table->session_more(s);
    }
    return 0;
}

static void on_body(void *ud, const void *data, size_t len, bool eof)
{
    struct served *v = ud;

    ck_assert_int_eq(buf_add(&v->body, data, len), 0);
    if (strcmp(v->what, "readsome") == 0) {
        served_headers(v);
        served_finish(v, true, 0, NULL);
    } else if (!eof) {
        v->f->table->session_more(v->s);
    } else {
        v->f->bodies_done++;
        served_answer(v);
    }
}

static void on_writable(void *ud)
{
    struct served *v = ud;

    v->f->writables++;
    served_big(v);
}

static void on_gone(void *ud)
{
    struct served *v = ud;
    struct fixture *f = v->f;

    f->gone++;
    served_free(v);
    fixture_notify(f);
}

void fixture_answer(struct fixture *fx, struct engage_ask *ask)
{
    static const struct fn_kv custom = { "custom", "works" };
    const struct engage_status st = { .active = 3, .received = fx->tries, .handled = fx->finished,
                                      .failed = !fx->well, .cached = true, .network_disabled = true,
                                      .error_code = 503, .error_text = "no engine \xe4",
                                      .id = "01", .details = "{}",
                                      .custom = &custom, .n_custom = 1,
                                      .created_at = "2026-11-21T04:17:24.501Z",
                                      .scheduler_ns = 1, .execution_ns = 2,
                                      .image_pull_wait_ns = 3, .ctr_prep_ns = 4,
                                      .ctr_create_ns = 5, .init_start_ns = 6 };

    ask->answer(ask, &st);
}

static void on_status(void *ud, struct engage_ask *ask)
{
    struct fixture *f = ud;

    snprintf(f->last_ask, sizeof(f->last_ask), "%.*s", (int)ask->request_len, ask->request);
    f->asks++;
    if (f->holds_asks) {
        f->asked = ask;
    } else {
        fixture_answer(f, ask);
    }
    fixture_notify(f);
}

static void on_status_gone(void *ud, struct engage_ask *ask)
{
    struct fixture *f = ud;

    ck_assert_ptr_eq(f->asked, ask);
    f->asked = NULL;
    f->asks_gone++;
    fixture_notify(f);
}

/* The last value says why not. */
static void on_configure(void *ud, struct engage_config *config)
{
    struct fixture *f = ud;
    bool empty = config->n == 0;

    if (!empty && strcmp(config->keys[0].key, "hold") == 0) {
        f->configuring = config;
        fixture_notify(f);
        return;
    }
    config->answer(config, empty ? GRPC_OK : GRPC_INVALID,
                   empty ? NULL : config->keys[config->n - 1].value);
}

static void on_configure_gone(void *ud, struct engage_config *config)
{
    struct fixture *f = ud;

    ck_assert_ptr_eq(f->configuring, config);
    f->configuring = NULL;
    f->asks_gone++;
    fixture_notify(f);
}

/* "refuse" says why not. */
static void on_logs(void *ud, struct engage_logs *logs)
{
    struct fixture *f = ud;
    size_t at = 0;

    f->logs_keys[0] = '\0';
    for (uint32_t i = 0; i < logs->n; i++) {
        at += (size_t)snprintf(f->logs_keys + at, sizeof(f->logs_keys) - at, "%s=%s;",
                               logs->keys[i].key, logs->keys[i].value);
    }
    f->logs = logs;
    if (logs->n > 0 && strcmp(logs->keys[0].key, "refuse") == 0) {
        f->logs = NULL;
        logs->end(logs, GRPC_NOT_FOUND, logs->keys[0].value);
    }
    fixture_notify(f);
}

static void on_logs_wanted(void *ud, struct engage_logs *logs)
{
    struct fixture *f = ud;

    ck_assert_ptr_eq(f->logs, logs);
    ck_assert(logs->wanted);
    f->logs_wanted++;
    if (f->logs_bytes > 0) {
        char *text = calloc(1, f->logs_bytes);
        struct engage_line line = { "a", "f", "c", "k", text, f->logs_bytes, 1, 0, false };

        ck_assert_int_eq(logs->send(logs, &line, 1), 0);
        free(text);
    }
    fixture_notify(f);
}

static void on_logs_gone(void *ud, struct engage_logs *logs)
{
    struct fixture *f = ud;

    ck_assert_ptr_eq(f->logs, logs);
    f->logs = NULL;
    f->logs_gone++;
    fixture_notify(f);
}

static const struct engage_server_cb server_cb = { on_try, on_body, on_writable, on_gone,
                                                   on_status, on_status_gone, on_configure,
                                                   on_configure_gone, on_logs, on_logs_wanted,
                                                   on_logs_gone };

/* ---- the client ----------------------------------------------------------------------------- */

uint64_t sum_of(const void *data, size_t len, uint64_t sum)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < len; i++) {
        sum = sum * 31 + p[i];
    }
    return sum;
}

static void maybe_close(struct told *t, bool now)
{
    if (now && t->attempt) {
        struct engage_attempt *a = t->attempt;

        t->attempt = NULL;
        t->f->client->attempt_close(a);
    }
}

static void on_start(void *ud, const struct engage_start *start)
{
    struct told *t = ud;

    ck_assert_ptr_nonnull(t->attempt);
    t->starts++;
    t->status = start->status;
    t->n_headers = start->n_headers;
    if (start->n_headers == 3) {
        snprintf(t->header, sizeof(t->header), "%s|%s", start->headers[1].value,
                 start->headers[2].value);
    }
    if (t->pause_at_start) {
        t->f->client->attempt_pause(t->attempt, true);
    }
    if (t->resume_at_start) {
        t->f->client->attempt_pause(t->resume_at_start->attempt, false);
    }
    fixture_notify(t->f);
}

static void on_data(void *ud, const void *data, size_t len)
{
    struct told *t = ud;

    ck_assert_ptr_nonnull(t->attempt);
    t->data_calls++;
    t->data_bytes += len;
    t->data_sum = sum_of(data, len, t->data_sum);
    maybe_close(t, t->close_after_bytes && t->data_bytes >= t->close_after_bytes);
    fixture_notify(t->f);
}

static void on_finished(void *ud, const struct engage_finished *fin)
{
    struct told *t = ud;

    ck_assert_ptr_nonnull(t->attempt);
    t->finishes++;
    t->finished = *fin;
    snprintf(t->finished_text, sizeof(t->finished_text), "%s",
             fin->error_text ? fin->error_text : "");
    snprintf(t->finished_details, sizeof(t->finished_details), "%s",
             fin->details ? fin->details : "");
    maybe_close(t, t->close_on_finished);
    fixture_notify(t->f);
}

static void on_end(void *ud, int grpc_status, const char *text, enum engage_proof proof, bool legal)
{
    struct told *t = ud;

    ck_assert_ptr_nonnull(t->attempt);
    t->ends++;
    t->grpc_status = grpc_status;
    snprintf(t->text, sizeof(t->text), "%s", text);
    t->proof = proof;
    t->legal = legal;
    t->ended_ns = env_now_ns(t->f->env);
    maybe_close(t, true);
    fixture_notify(t->f);
}

static const struct engage_client_cb client_cb = { on_start, on_data, on_finished, on_end };

const struct engage_client_cb *told_cb(void)
{
    return &client_cb;
}

void told_start_deadline(struct told *t, struct fixture *f, const char *json, const void *body,
                         size_t len, int64_t timeout_ms)
{
    struct fn_kv ext[] = { { "a", "1" }, { "b", "two" } };
    struct engage_try try_call = { .call_json = json, .call_json_len = strlen(json),
                                   .slot_hash_id = "", .extensions = ext, .n_extensions = 2,
                                   .request_id = "req-7" };
    struct body *b;

    t->f = f;
    loop_enter(f->loop);
    b = body_create(NULL, 0);
    if (len > 0) {
        ck_assert_int_eq(body_append(b, body, len), 0);
    }
    t->attempt = f->client->attempt(f->link, &try_call, b,
                                    timeout_ms ? env_now_ns(f->env) + timeout_ms * ENV_MS : 0,
                                    &client_cb, t);
    ck_assert_ptr_nonnull(t->attempt);
    ck_assert_uint_eq(t->ends, 0); /* never from inside */
    body_unref(b);
    loop_leave(f->loop);
}

void told_start(struct told *t, struct fixture *f, const char *json, const void *body, size_t len)
{
    told_start_deadline(t, f, json, body, len, 0);
}

void told_close(struct told *t)
{
    loop_enter(t->f->loop);
    maybe_close(t, true);
    loop_leave(t->f->loop);
}

bool told_ended(void *ud)
{
    struct told *t = ud;

    return t->ends > 0;
}

bool told_started(void *ud)
{
    struct told *t = ud;

    return t->starts > 0;
}

void told_run(struct told *t, struct fixture *f, const char *json, const void *body, size_t len)
{
    told_start(t, f, json, body, len);
    WAIT(f, told_ended, t);
}

/* ---- the object ----------------------------------------------------------------------------- */

static void on_state(void *ud, bool up)
{
    struct fixture *f = ud;

    f->up = up;
    if (up) {
        f->ups++;
    } else {
        f->downs++;
    }
    fixture_notify(f);
}

static const struct engage_link_cb link_cb = { .on_state = on_state };

static void *run(void *arg)
{
    loop_run(arg);
    return NULL;
}

void fixture_server_open(struct fixture *f)
{
    struct fn_error err = ERR_INIT;

    loop_enter(f->loop);
    ck_assert_msg(rpc_server_open(f->rpc, f->address, &server_cb, f, &f->server, &err) == 0, "%s",
                  err.msg);
    if (f->transport == OVER_TCP || f->transport == OVER_TLS) {
        snprintf(f->address, sizeof(f->address), "127.0.0.1:%d", rpc_server_port(f->server));
    }
    loop_leave(f->loop);
}

void fixture_server_close(struct fixture *f)
{
    loop_enter(f->loop);
    rpc_server_close(f->server);
    f->server = NULL;
    while (!LIST_EMPTY(&f->served)) {
        served_free(LIST_FIRST(&f->served));
    }
    loop_leave(f->loop);
}

void fixture_link_open_named(struct fixture *f, const char *address, const char *tls_name)
{
    loop_enter(f->loop);
    f->link = f->client->link_open(f->client, address, tls_name, &link_cb, f);
    ck_assert_ptr_nonnull(f->link);
    loop_leave(f->loop);
}

void fixture_link_open(struct fixture *f, const char *address)
{
    fixture_link_open_named(f, address, NULL);
}

bool fixture_over_core(void)
{
    const char *name = getenv("FND_TRANSPORT");

    return name && strcmp(name, "core") == 0;
}

/* FND_TRANSPORT names it; the files are in FND_TRANSPORTS. */
static const struct rpc_transport *transport_under_test(void)
{
    const char *name = getenv("FND_TRANSPORT");
    const struct rpc_transport *t = NULL;
    struct fn_error err = ERR_INIT;

    ck_assert_msg(!name || rpc_transport_find(getenv("FND_TRANSPORTS"), name, &t, &err) == 0, "%s",
                  err.msg);
    return t;
}

struct fixture *fixture_create_with(enum over t, const struct rpc_config *config)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct fn_error err = ERR_INIT;

    f->transport = t;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    ck_assert_int_eq(loop_create(NULL, &f->loop, &err), 0);
    f->env = loop_env(f->loop);
    ck_assert_int_eq(pthread_create(&f->thread, NULL, run, f->loop), 0);
    snprintf(f->dir, sizeof(f->dir), "/tmp/test_rpc.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(f->dir));
    if (t == OVER_LOCAL) {
        f->local = local_create(f->env, &server_cb, f);
        f->client = local_client(f->local);
        f->table = local_server_table();
        snprintf(f->address, sizeof(f->address), "local:");
    } else {
        struct rpc_config c = *config;

        c.transport = config->transport ? config->transport : transport_under_test();
        ck_assert_msg(rpc_create(f->loop, &c, &f->rpc, &err) == 0, "%s", err.msg);
        f->client = rpc_client(f->rpc);
        f->table = rpc_server_table();
        if (t == OVER_UNIX) {
            snprintf(f->address, sizeof(f->address), "unix:%s/s", f->dir);
        } else {
            snprintf(f->address, sizeof(f->address), "127.0.0.1:0");
        }
    }
    return f;
}

struct fixture *fixture_create(enum over t)
{
    struct rpc_config config = RPC_CONFIG_INIT;
    struct fixture *f;

    if (t == OVER_TLS) {
        config.tls = config.tls_server = (struct net_tls){ .cert_pem = node_pem,
                                                           .key_pem = node_key,
                                                           .ca_pem = ca_pem };
    }
    f = fixture_create_with(t, &config);
    if (t != OVER_LOCAL) {
        fixture_server_open(f);
    }
    fixture_link_open(f, f->address);
    WAIT(f, is_up, f);
    return f;
}

void fixture_abort_all(struct fixture *f)
{
    struct served *v;

    while ((v = LIST_FIRST(&f->served))) {
        f->table->abort(v->s, 14, "shutting down");
        served_free(v);
    }
}

void fixture_destroy(struct fixture *f)
{
    int64_t began = env_now_ns(f->env);
    char path[128];

    loop_enter(f->loop);
    if (f->link) {
        f->client->link_close(f->link);
    }
    loop_leave(f->loop);
    rpc_destroy(f->rpc);
    ck_assert_int_lt(env_now_ns(f->env) - began, END_NS);
    while (!LIST_EMPTY(&f->served)) {
        served_free(LIST_FIRST(&f->served));
    }
    local_destroy(f->local);
    loop_stop(f->loop);
    pthread_join(f->thread, NULL);
    loop_destroy(f->loop);
    snprintf(path, sizeof(path), "%s/s", f->dir);
    unlink(path);
    rmdir(f->dir);
    free(f);
}
