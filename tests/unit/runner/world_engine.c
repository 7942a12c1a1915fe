/* The engine of a world, its containers and the sockets of its functions; see world.h. */
#include "world_int.h"

#include <check.h>
#include <signal.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct world *the;

/* ---- the driver's host --------------------------------------------------------------------- */

static const struct fn_driver_if *driver_if;
static void *driver_if_impl;

void plugin_host_offer(struct plugin_host *h, const char *iface, uint16_t major, uint16_t minor,
                       const void *table, void *impl)
{
    (void)h;
    (void)major;
    (void)minor;
    ck_assert_str_eq(iface, "fn.driver");
    driver_if = table;
    driver_if_impl = impl;
}

void *plugin_impl(const struct fn_host *host, const char *iface)
{
    (void)host;
    (void)iface;
    return driver_if_impl;
}

/* ---- lanes: an operation runs when its time is over ---------------------------------------- */

struct job {
    struct env_timer timer;
    struct env_work *work;
    int64_t begun_ns;
    struct job *next;
};

static struct job *jobs;
static struct env_work *running;
static bool running_hung;

/* The container whose operation it is, and the operation's name. */
static struct container *container_with(const struct env_work *work, const char **ret_method)
{
    static const char *const names[] = { "", "create", "start", "freeze", "thaw", "close" };
    struct container *c, *next;
    struct image *im, *im_next;

    HASH_ITER(hh, the->r->containers, c, next) {
        if (&c->op.work == work) {
            *ret_method = names[c->op.kind];
            return c;
        }
    }
    HASH_ITER(hh, the->r->images.by_key, im, im_next) {
        if (&im->work == work) {
            *ret_method = "prepare_image";
            return im->held;
        }
    }
    return NULL;
}

static bool hangs(const struct env_work *work)
{
    const char *method;
    struct container *c = the->hang_app ? container_with(work, &method) : NULL;

    return c && fnmatch(the->hang_app, c->task.app_id, 0) == 0 &&
           strcmp(method, the->hang_method) == 0;
}

static void job_due(struct env_timer *t)
{
    struct job *j = container_of(t, struct job, timer), **p;
    struct env_work *work = j->work;
    int64_t deadline = work->deadline_ns ? work->deadline_ns : INT64_MAX;
    bool over = the->f->now >= deadline || work->cancelled;

    running_hung = hangs(work);
    if ((the->engine_hung && !over) || (running_hung && (!over || the->hang_for_ever))) {
        env_timer_set(&the->f->env, t, the->f->now + 10 * ENV_MS);
        return;
    }
    for (p = &jobs; *p != j; p = &(*p)->next) {
    }
    *p = j->next;
    free(j);
    the->in_flight--;
    running = work;
    work->run(work, NULL);
    running = NULL;
    running_hung = false;
    work->done(work);
}

/* The driver knows at once that an image is there which was there the last time. */
static int64_t takes_ns(const struct env_work *work)
{
    const struct image *im;

    for (im = the->r->images.by_key; im; im = im->hh.next) {
        if (&im->work == work && im->was_there) {
            return 0;
        }
    }
    return work->lane == ENV_LANE_FAST ? the->fast_ns : the->slow_ns;
}

int world_submit(struct env *e, struct env_work *work)
{
    struct job *j;

    if (the->lanes_full > 0) {
        the->lanes_full--;
        return FN_E_EXHAUSTED;
    }
    j = calloc(1, sizeof(*j));
    work->cancelled = 0;
    j->timer.cb = job_due;
    j->work = work;
    j->begun_ns = the->f->now;
    j->next = jobs;
    jobs = j;
    the->in_flight++;
    if (the->in_flight > the->in_flight_max) {
        the->in_flight_max = the->in_flight;
    }
    env_timer_set(e, &j->timer, the->f->now + takes_ns(work));
    return 0;
}

/* ---- engine -------------------------------------------------------------------------------- */

struct fctr {
    char id[28];
    uint64_t handle;
    bool started, frozen, exited;
    char image[64];
    uint64_t mem_bytes;
    struct env_timer exit_timer;
    uint32_t exit_reason;
    int exit_status;
    struct fctr *next;
};

static struct fctr *fctrs;

struct fnsock {
    char id[28];
    void (*on_ready)(void *ud, const struct fn_error *err);
    void *ud;
    struct env_timer boot;
    struct fnsock_exchange *ex;
    struct fnsock *next;
};

static struct fnsock *socks;

static void report_exit(struct fctr *c)
{
    struct fn_exit e = { sizeof(e), c->exit_reason, c->exit_status, 0 };

    c->exited = true;
    driver_if->exited(NULL, c->handle, &e);
}

static void exit_due(struct env_timer *t)
{
    report_exit(container_of(t, struct fctr, exit_timer));
}

static void exit_in(struct fctr *c, uint32_t reason, int status, int64_t ns)
{
    c->exit_reason = reason;
    c->exit_status = status;
    c->exit_timer.cb = exit_due;
    env_timer_set(&the->f->env, &c->exit_timer, the->f->now + ns);
}

static struct fctr *fctr_of(const char *id)
{
    struct fctr *c;

    for (c = fctrs; c && strcmp(c->id, id) != 0; c = c->next) {
    }
    return c;
}

static bool is_freezing(const char *method)
{
    return strcmp(method, "freeze") == 0 || strcmp(method, "thaw") == 0;
}

static int engine_answer(const char *method, struct fn_error *reterr)
{
    if (the->fail_method && strcmp(the->fail_method, method) == 0 && the->fails > 0) {
        the->fails--;
        if (reterr) {
            *reterr = the->next_error;
        }
        return the->next_error.code;
    }
    if (the->engine_dead && !(the->own_freezer && is_freezing(method))) {
        return err_set(reterr, FN_E_UNAVAILABLE, "engine: connection refused");
    }
    if (running && running->cancelled) {
        return err_set(reterr, FN_E_CANCELLED, "cancelled");
    }
    if (the->engine_hung || running_hung) {
        return err_set(reterr, FN_E_DEADLINE, "engine: no answer");
    }
    return 0;
}

static int d_prepare(void *inst, struct fn_op *op, const struct fn_task *task, struct fn_error *e)
{
    (void)inst;
    (void)op;
    ck_assert_uint_eq(task->hdr.magic, FN_MAGIC_TASK);
    the->prepares++;
    return engine_answer("prepare_image", e);
}

static int d_create(void *inst, struct fn_op *op, const struct fn_task *task, void **ret_ctr,
                    struct fn_error *e)
{
    struct fctr *c;
    int r = engine_answer("create", e);

    (void)inst;
    (void)op;
    the->creates++;
    the->lost_creates += running && running->cancelled;
    if (r < 0) {
        return r;
    }
    if (the->image_missing) {
        the->image_missing = false;
        return err_set(e, FN_E_NOT_FOUND, "No such image");
    }
    the->last_task = *task;
    the->last_env[0] = '\0';
    for (uint32_t i = 0; i < task->n_env; i++) {
        size_t at = strlen(the->last_env);

        snprintf(the->last_env + at, sizeof(the->last_env) - at, "%s=%s;", task->env[i].key,
                 task->env[i].value);
    }
    ck_assert_str_eq(task->iofs_inside, "/tmp/iofs");
    c = calloc(1, sizeof(*c));
    snprintf(c->id, sizeof(c->id), "%s", task->id);
    snprintf(c->image, sizeof(c->image), "%s", task->image);
    c->handle = task->handle;
    c->mem_bytes = task->mem_bytes;
    c->next = fctrs;
    fctrs = c;
    the->live++;
    the->live_max = the->live > the->live_max ? the->live : the->live_max;
    *ret_ctr = c;
    return 0;
}

static struct fnsock *sock_of(const char *id)
{
    struct fnsock *s;

    for (s = socks; s && strcmp(s->id, id) != 0; s = s->next) {
    }
    return s;
}

/* What is made and not started uses none. */
static uint64_t memory_in_use(void)
{
    uint64_t bytes = 0;

    for (const struct fctr *c = fctrs; c; c = c->next) {
        bytes += c->started ? c->mem_bytes : 0;
    }
    return bytes;
}

static int d_start(void *inst, struct fn_op *op, void *ctr, struct fn_error *e)
{
    struct fctr *c = ctr;
    struct fnsock *s = sock_of(c->id);
    int r = engine_answer("start", e);

    (void)inst;
    (void)op;
    the->starts++;
    if (r < 0) {
        return r;
    }
    c->started = true;
    ck_assert_uint_le(memory_in_use(), the->totals.mem_bytes);
    if (strcmp(c->image, "exits") == 0) {
        driver_if->output(NULL, c->handle, 2, "boom: no such file\n", 19);
        exit_in(c, FN_EXIT_CODE, 3, 20 * ENV_MS);
    } else if (strcmp(c->image, "never-listens") != 0) {
        env_timer_set(&the->f->env, &s->boot, the->f->now + the->boot_ns);
    }
    return 0;
}

static int d_freeze(void *inst, struct fn_op *op, void *ctr, struct fn_error *e)
{
    struct fctr *c = ctr;
    int r = engine_answer("freeze", e);

    (void)inst;
    (void)op;
    the->freezes++;
    c->frozen = r == 0;
    return r;
}

static int d_thaw(void *inst, struct fn_op *op, void *ctr, struct fn_error *e)
{
    struct fctr *c = ctr;
    int r = engine_answer("thaw", e);

    (void)inst;
    (void)op;
    the->thaws++;
    c->frozen = r == 0 ? false : c->frozen;
    return r;
}

static int d_close(void *inst, struct fn_op *op, void *ctr, struct fn_error *e)
{
    struct fctr *c = ctr, **p;
    int r = engine_answer("close", e);

    (void)inst;
    (void)op;
    the->closes++;
    if (r < 0) {
        return r;
    }
    env_timer_clear(&the->f->env, &c->exit_timer);
    if (the->n_closed < 512) {
        memcpy(the->closed_ids[the->n_closed++], c->id, sizeof(c->id));
    }
    for (p = &fctrs; *p != c; p = &(*p)->next) {
    }
    *p = c->next;
    free(c);
    the->live--;
    return 0;
}

static int d_sweep(void *inst, struct fn_op *op, const char *owner, const char *instance,
                   uint32_t *ret_removed, struct fn_error *e)
{
    (void)inst;
    (void)op;
    (void)owner;
    (void)instance;
    the->sweeps++;
    *ret_removed = 1;
    return engine_answer("sweep", e);
}

static int d_probe(void *inst, struct fn_op *op, char *ret_version, size_t cap, struct fn_error *e)
{
    (void)inst;
    (void)op;
    the->probes++;
    snprintf(ret_version, cap, "fake 1");
    return engine_answer("probe", e);
}

static uint32_t d_uid(void *inst, void *ctr)
{
    struct fctr *c = ctr;

    (void)inst;
    if (the->uid_exits) {
        c->exit_reason = FN_EXIT_CODE;
        report_exit(c);
    }
    return 1000;
}

static int d_slot_key(void *inst, const struct fn_kv *ext, uint32_t n, char *ret_key, size_t cap)
{
    (void)inst;
    if (the->key_downs) {
        driver_if->engine(NULL, 0, NULL);
    }
    ret_key[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(ext[i].key, "pool") == 0) {
            snprintf(ret_key, cap, "%s", ext[i].value);
        }
    }
    return 0;
}

/* The figures of the script for each container that runs. */
static int d_usage(void *inst, struct fn_op *op, struct fn_usage *items, uint32_t n,
                   struct fn_error *e)
{
    (void)inst;
    (void)op;
    the->samples++;
    the->sampled_max = n > the->sampled_max ? n : the->sampled_max;
    for (uint32_t i = 0; i < n; i++) {
        struct fctr *c;

        for (c = fctrs; c && c->handle != items[i].handle; c = c->next) {
        }
        if (c && c->started) {
            uint64_t handle = items[i].handle;

            ck_assert_uint_eq(items[i].flags, 0);
            items[i] = the->use;
            items[i].handle = handle;
            the->sampled++;
        }
    }
    return engine_answer("usage", e);
}

const struct fn_driver_ops world_driver_ops = {
    FN_HDR(struct fn_driver_ops, FN_MAGIC_DRIVER), 0, 0, d_slot_key, d_prepare, d_create, d_start,
    d_freeze, d_thaw, d_close, d_sweep, d_probe, d_uid, NULL
};
const struct fn_driver_ops world_telling_ops = {
    FN_HDR(struct fn_driver_ops, FN_MAGIC_DRIVER), 0, 0, d_slot_key, d_prepare, d_create, d_start,
    d_freeze, d_thaw, d_close, d_sweep, d_probe, d_uid, d_usage
};

void world_exit(struct world *w, const char *container_id, uint32_t reason, int status)
{
    struct fctr *c = fctr_of(container_id);

    ck_assert_ptr_nonnull(c);
    c->exit_reason = reason;
    c->exit_status = status;
    report_exit(c);
    fake_env_settle(w->f);
}

/* ---- function sockets ---------------------------------------------------------------------- */

struct fnsock_exchange {
    struct fnsock *s;
    struct fnsock_cb cb;
    void *ud;
    char what[64];
    struct engage_session *session;
    struct env_timer timer;
    struct env_task task;
    struct env_task sent_task;
    uint64_t body_bytes;
    bool eof, accepted, ended, full;
    bool paused, rest; /* the end of a good answer waits until the caller reads again */
    int step;
};

static void boot(struct env_timer *t)
{
    struct fnsock *s = container_of(t, struct fnsock, boot);
    struct fctr *c = fctr_of(s->id);
    struct fn_error err = ERR_INIT;

    if (strcmp(c->image, "bad-socket") == 0) {
        err_set(&err, FN_E_PRECONDITION, "FN604 socket leaves its directory");
        s->on_ready(s->ud, &err);
    } else {
        s->on_ready(s->ud, NULL);
    }
}

static int s_open(void *impl, const char *container_id,
                  void (*on_ready)(void *ud, const struct fn_error *err), void *ud,
                  struct fnsock **ret, struct fn_error *reterr)
{
    struct fnsock *s = calloc(1, sizeof(*s));

    (void)impl;
    (void)reterr;
    snprintf(s->id, sizeof(s->id), "%s", container_id);
    s->on_ready = on_ready;
    s->ud = ud;
    s->boot.cb = boot;
    s->next = socks;
    socks = s;
    the->socks++;
    *ret = s;
    return 0;
}

void world_outgrow(struct world *w, const char *container_id)
{
    struct fn_error err = ERR_INIT;
    struct fnsock *s = socks;

    (void)w;
    while (strcmp(s->id, container_id) != 0) {
        s = s->next;
    }
    err_set(&err, FN_E_EXHAUSTED, "socket directory is full");
    s->on_ready(s->ud, &err);
}

static const char *s_dir(const struct fnsock *s)
{
    return s->id;
}

static void s_expect_uid(struct fnsock *s, uint32_t uid)
{
    (void)s;
    ck_assert_uint_eq(uid, 1000);
}

static void s_close(struct fnsock *s)
{
    struct fnsock **p;

    if (!s) {
        return;
    }
    ck_assert_ptr_null(s->ex);
    env_timer_clear(&the->f->env, &s->boot);
    for (p = &socks; *p != s; p = &(*p)->next) {
    }
    *p = s->next;
    free(s);
    the->socks--;
}

static void end(struct fnsock_exchange *x, enum fnsock_end how, bool reusable, const char *text)
{
    struct fnsock_result r = { .end = how, .reusable = reusable };

    x->ended = true;
    r.request_bytes = x->accepted ? 100 + x->body_bytes : 0;
    snprintf(r.text, sizeof(r.text), "%s", text);
    x->cb.on_end(x->ud, &r);
}

static void answer(struct fnsock_exchange *x, int status)
{
    struct arena a;
    struct headers h;

    arena_init(&a, 0);
    headers_init(&h, &a);
    headers_add(&h, "Content-Type", "text/plain");
    headers_add(&h, "Connection", "keep-alive");
    x->cb.on_head(x->ud, status, &h);
    arena_finish(&a);
    for (uint32_t i = 0; i < the->hellos && !x->ended; i++) {
        x->cb.on_data(x->ud, "hello", 5);
    }
}

static bool is(const struct fnsock_exchange *x, const char *what)
{
    return strcmp(x->what, what) == 0;
}

/* Its container ends whenever it is connected to. */
static bool is_deadly(const struct fnsock_exchange *x)
{
    return is(x, "dies") || is(x, "dies-told-late") || is(x, "killed");
}

/* The function has the whole request. */
static void act(struct env_timer *t)
{
    struct fnsock_exchange *x = container_of(t, struct fnsock_exchange, timer);
    struct fctr *c = fctr_of(x->s->id);
    char text[80];

    if (is(x, "never") || (is(x, "exit-first") && !x->full)) {
        return;
    }
    if (x->rest) {
        end(x, FNSOCK_OK, true, "");
        return;
    }
    if (is(x, "exit-first") || is_deadly(x)) {
        end(x, FNSOCK_CONNECT, false, "connection refused");
        return;
    }
    if (is(x, "crash") || is(x, "oom") || is(x, "late-exit")) {
        end(x, FNSOCK_CLOSED_EARLY, false, "FN601 function closed before the end of its headers");
        if (!is(x, "late-exit")) {
            exit_in(c, is(x, "oom") ? FN_EXIT_OOM : FN_EXIT_CODE, is(x, "oom") ? 137 : 2,
                    50 * ENV_MS);
        }
    } else if (is(x, "invalid")) {
        end(x, FNSOCK_INVALID, false, "two Content-Length fields");
    } else if (is(x, "lost")) {
        end(x, FNSOCK_LOST, false, "out of memory for the answer");
    } else if (is(x, "header-large")) {
        end(x, FNSOCK_HEADERS_TOO_LARGE, false, "");
    } else if (is(x, "body-large")) {
        answer(x, 200);
        end(x, FNSOCK_BODY_TOO_LARGE, false, "");
    } else if (is(x, "cut")) {
        answer(x, 200);
        end(x, FNSOCK_CUT, false, "FN603 answer ended after 5 of 10 bytes");
    } else if (is(x, "escape")) {
        x->accepted = false;
        end(x, FNSOCK_ESCAPE, false, "link leaves the directory");
    } else if (is(x, "extra")) {
        answer(x, 200);
        end(x, FNSOCK_OK, false, "3 extra bytes after the answer");
    } else if (is(x, "drip")) {
        if (x->step++ == 0) {
            answer(x, 200);
        } else {
            x->cb.on_data(x->ud, "x", 1);
        }
        env_timer_set(&the->f->env, &x->timer, the->f->now + ENV_S);
    } else {
        int status = strncmp(x->what, "status-", 7) == 0 ? atoi(x->what + 7) : 200;

        if (status == 200 || status == 502 || status == 504) {
            answer(x, status);
            x->rest = x->paused;
            if (!x->paused) {
                end(x, FNSOCK_OK, true, "");
            }
        } else {
            snprintf(text, sizeof(text),
                     "FN602 function answered %d; the contract allows 200, 502, 504", status);
            end(x, FNSOCK_INVALID, false, text);
        }
    }
}

static void refused(struct env_task *t)
{
    struct fnsock_exchange *x = container_of(t, struct fnsock_exchange, task);

    end(x, FNSOCK_CONNECT, false, "connection refused");
}

static void no_room(struct env_task *t)
{
    struct fnsock_exchange *x = container_of(t, struct fnsock_exchange, task);

    end(x, FNSOCK_NO_ROOM, false, "connect: Too many open files");
}

static void forward(struct env_task *t)
{
    answer(container_of(t, struct fnsock_exchange, task), 502);
}

static void early(struct env_task *t)
{
    struct fnsock_exchange *x = container_of(t, struct fnsock_exchange, task);

    end(x, FNSOCK_EARLY_ANSWER, false,
        "function invoked write before receiving entire request");
}

static void sent(struct env_task *t)
{
    struct fnsock_exchange *x = container_of(t, struct fnsock_exchange, sent_task);

    if (!x->ended && x->cb.on_sent) {
        x->cb.on_sent(x->ud);
    }
}

static struct engage_session *session_of(const char *id)
{
    struct engage_session *s;

    for (s = the->sessions; s && strcmp(s->id, id) != 0; s = s->next) {
    }
    if (!s) {
        s = &the->own;
        *s = (struct engage_session){ 0 };
        snprintf(s->id, sizeof(s->id), "%s", id);
    }
    return s;
}

static struct fnsock_exchange *s_request(struct fnsock *s, const struct fnsock_request *req,
                                         const struct fnsock_cb *cb, void *ud)
{
    struct fnsock_exchange *x = calloc(1, sizeof(*x));
    const char *what = headers_get(req->headers, "X-Do");
    struct fctr *c = fctr_of(s->id);
    bool first;

    ck_assert_ptr_null(s->ex); /* one at a time */
    ck_assert(!c->frozen);
    x->s = s;
    x->cb = *cb;
    x->ud = ud;
    x->timer.cb = act;
    x->session = session_of(headers_get(req->headers, "Fn-Call-Id"));
    what = x->session == &the->own ? the->own_what : what;
    snprintf(x->what, sizeof(x->what), "%s", what ? what : "ok");
    the->last_headers[0] = '\0';
    for (uint32_t i = 0; i < req->headers->n; i++) {
        size_t at = strlen(the->last_headers);

        snprintf(the->last_headers + at, sizeof(the->last_headers) - at, "%s: %s\n",
                 req->headers->items[i].name, req->headers->items[i].value);
    }
    s->ex = x;
    the->exchanges++;
    first = !x->session->requested;
    x->session->requested = true;
    if (is_deadly(x)) {
        exit_in(c, is(x, "killed") ? FN_EXIT_SIGNAL : FN_EXIT_CODE, is(x, "killed") ? SIGKILL : 43,
                (is(x, "dies-told-late") ? 100 : 5) * ENV_MS);
        env_timer_set(&the->f->env, &x->timer, the->f->now + 20 * ENV_MS);
        x->full = true;
    } else if (is(x, "exit-first") && first) {
        exit_in(c, FN_EXIT_CODE, 1, 5 * ENV_MS);
        env_timer_set(&the->f->env, &x->timer, the->f->now + 20 * ENV_MS);
        x->full = true;
    } else if (is(x, "no-room") || is(x, "unsent")) {
        x->task.cb = no_room;
        if (is(x, "no-room")) {
            env_defer(&the->f->env, &x->task);
        }
        x->full = true;
    } else if (is(x, "forward")) { /* answers without a byte of the request, and not to the end */
        x->task.cb = forward;
        env_defer(&the->f->env, &x->task);
        x->full = true;
    } else if (c->exited || is(x, "refuse") || (is(x, "refuse-once") && first)) {
        x->task.cb = refused;
        env_defer(&the->f->env, &x->task);
        x->full = true;
    }
    return x;
}

static int s_send(struct fnsock_exchange *x, const void *data, size_t len, bool eof)
{
    snprintf(the->last_body, sizeof(the->last_body), "%.*s", (int)len, len ? (char *)data : "");
    ck_assert(!x->eof);
    x->eof = eof;
    if (x->full || x->ended) {
        return 0;
    }
    if (!x->accepted) {
        x->accepted = true;
        x->sent_task.cb = sent;
        env_defer(&the->f->env, &x->sent_task);
        x->session->executions++;
        the->executions++;
        ck_assert_uint_le(x->session->executions, 1); /* P3 */
    }
    x->body_bytes += len;
    if (is(x, "early") && !eof) {
        x->task.cb = early;
        env_defer(&the->f->env, &x->task);
    } else if (is(x, "full") && !eof) {
        return 1;
    } else if (eof) {
        int64_t ms = strncmp(x->what, "ms-", 3) == 0 ? atoi(x->what + 3) : 1;

        env_timer_set(&the->f->env, &x->timer, the->f->now + ms * ENV_MS);
    }
    return 0;
}

static uint64_t s_sent(const struct fnsock_exchange *x)
{
    return x->accepted ? 100 + x->body_bytes : 0;
}

static void s_pause(struct fnsock_exchange *x, bool paused)
{
    x->paused = paused;
    if (!paused && x->rest) {
        env_timer_set(&the->f->env, &x->timer, the->f->now + the->rest_ns);
    }
}

static void s_finish(struct fnsock_exchange *x)
{
    env_timer_clear(&the->f->env, &x->timer);
    env_undefer(&the->f->env, &x->task);
    env_undefer(&the->f->env, &x->sent_task);
    x->s->ex = NULL;
    free(x);
    the->exchanges--;
}

const struct fnsock_if world_fnsock_if = { NULL,    s_open,    s_dir,  s_dir,   s_expect_uid,
                                           s_close, s_request, s_send, s_sent,  s_pause,
                                           s_finish };

void world_engine_begin(struct world *w)
{
    the = w;
    jobs = NULL;
    fctrs = NULL;
    socks = NULL;
}
