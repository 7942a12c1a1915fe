/* Functions and their sockets: what answers behind the runner's table of function sockets.
 *
 * A request says itself what its function does with it, by the header X-Do: "<number> <what> <ms>
 * <bytes of the answer>". The function enters it in the books with the first byte that it takes. */
#include "engine_int.h"

#include <base/arena.h>
#include <base/err.h>
#include <model/fnsock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST_HEAD_BYTES 100u /* what the head of a request counts */
#define PIECE_BYTES        4096u
#define LATER_NS           (40 * ENV_MS) /* the exit of a process behind the end of its socket */

struct fnsock {
    struct runner_node *runner;
    char id[CONTAINER_ID_BYTES];
    void (*on_ready)(void *ud, const struct fn_error *err);
    void *ud;
    struct env_timer boot;
    struct fnsock_exchange *ex;
    bool tainted; /* by a call that did not end cleanly */
    LIST_ENTRY(fnsock) link;
};

enum step { STEP_NONE, STEP_REFUSED, STEP_NO_ROOM, STEP_ACCEPTED, STEP_EARLY, STEP_CLOSED };

struct fnsock_exchange {
    struct fnsock *s;
    struct fnsock_cb cb;
    void *ud;
    uint32_t seq;
    char what[16];
    int64_t ms;
    uint64_t answer_bytes;
    uint64_t body_bytes, given_bytes;
    bool wrong; /* a byte of the body is not the request's */
    bool accepted, eof, head_given, ended, paused;
    enum step next; /* of the task */
    struct env_task task;
    struct env_timer timer;
};

struct sockets {
    struct fnsock_if table; /* first */
    LIST_HEAD(, fnsock) open;
};

static struct env *env_of(const struct fnsock *s)
{
    return s->runner->n.env;
}

static struct world *world_of(const struct fnsock *s)
{
    return s->runner->n.w;
}

static struct engine *engine_of(const struct fnsock *s)
{
    return world_of(s)->engines[s->runner->index];
}

static struct box *box_of(const struct fnsock *s)
{
    return box_find(engine_of(s), s->runner, s->id);
}

static struct fnsock *socket_of(const struct box *b)
{
    const struct sockets *all = (const struct sockets *)(const void *)b->by->sockets;
    struct fnsock *s;

    LIST_FOREACH(s, &all->open, link) {
        if (strcmp(s->id, b->id) == 0) {
            return s;
        }
    }
    return NULL;
}

/* ---- directories --------------------------------------------------------------------------- */

static void on_boot(struct env_timer *t)
{
    struct fnsock *s = container_of(t, struct fnsock, boot);

    s->on_ready(s->ud, NULL);
}

static int sock_open(void *impl, const char *container_id,
                     void (*on_ready)(void *ud, const struct fn_error *err), void *ud,
                     struct fnsock **ret, struct fn_error *reterr)
{
    struct runner_node *r = impl;
    struct sockets *all = (struct sockets *)(void *)r->sockets;
    struct fnsock *s = sim_alloc(sizeof(*s));

    (void)reterr;
    s->runner = r;
    snprintf(s->id, sizeof(s->id), "%s", container_id);
    s->on_ready = on_ready;
    s->ud = ud;
    s->boot.cb = on_boot;
    LIST_INSERT_HEAD(&all->open, s, link);
    r->open_sockets++;
    *ret = s;
    return 0;
}

static const char *sock_dir(const struct fnsock *s)
{
    return s->id;
}

static void sock_expect_uid(struct fnsock *s, uint32_t uid)
{
    (void)s;
    (void)uid;
}

static void sock_close(struct fnsock *s)
{
    if (!s) {
        return;
    }
    if (s->ex) {
        books_break(world_of(s)->books, BOOKS_OWN, s->ex->seq,
                    "the socket of a container is closed with request %u on it", s->ex->seq);
    }
    env_timer_clear(env_of(s), &s->boot);
    s->runner->open_sockets--;
    LIST_REMOVE(s, link);
    free(s);
}

/* ---- answers ------------------------------------------------------------------------------- */

static bool is(const struct fnsock_exchange *x, const char *what)
{
    return strcmp(x->what, what) == 0;
}

static void end(struct fnsock_exchange *x, enum fnsock_end how, bool reusable, const char *text)
{
    struct fnsock_result r = { .end = how, .reusable = reusable, .answer_bytes = x->given_bytes };

    if (x->ended) {
        return;
    }
    x->ended = true;
    x->s->tainted |= x->accepted && !reusable;
    env_timer_clear(env_of(x->s), &x->timer);
    r.request_bytes = x->accepted ? REQUEST_HEAD_BYTES + x->body_bytes : 0;
    snprintf(r.text, sizeof(r.text), "%s", text);
    x->cb.on_end(x->ud, &r);
}

static void give_head(struct fnsock_exchange *x, int status)
{
    struct arena a;
    struct headers h;
    char length[24];

    sim_outside_begin();
    arena_init(&a, 0);
    headers_init(&h, &a);
    headers_add(&h, "Content-Type", "text/plain");
    if (x->seq % 2 && status == 200) { /* else it does not say how much will come */
        snprintf(length, sizeof(length), "%llu", (unsigned long long)x->answer_bytes);
        headers_add(&h, "Content-Length", length);
    }
    sim_outside_end();
    x->head_given = true;
    x->cb.on_head(x->ud, status, &h);
    arena_finish(&a);
}

/* One piece; the next one soon. False: the exchange is over or waits. */
static bool give_piece(struct fnsock_exchange *x, uint64_t until)
{
    char piece[PIECE_BYTES];
    uint64_t n = until - x->given_bytes < PIECE_BYTES ? until - x->given_bytes : PIECE_BYTES;

    books_write(x->seq, false, x->given_bytes, piece, (size_t)n);
    x->given_bytes += n;
    if (n > 0) {
        x->cb.on_data(x->ud, piece, (size_t)n);
    }
    return x->given_bytes < until;
}

static void give_answer(struct fnsock_exchange *x)
{
    uint64_t half = x->answer_bytes / 2;

    if (x->paused) {
        return;
    }
    if (!x->head_given) {
        give_head(x, is(x, "s502") ? 502 : is(x, "s504") ? 504 : 200);
    }
    if (x->ended) {
        return;
    }
    if (give_piece(x, is(x, "cut") ? half : x->answer_bytes)) {
        world_at(&x->s->runner->n, &x->timer,
                 world_of(x->s)->now_ns + (is(x, "drip") ? 300 * ENV_MS : 10 * ENV_US));
    } else if (is(x, "cut")) {
        end(x, FNSOCK_CUT, false, "FN603 the answer ended too soon");
    } else {
        books_answered(world_of(x->s)->books, x->seq);
        end(x, FNSOCK_OK, !is(x, "extra"), "");
    }
}

/* The function has the whole request and did its work. */
static void on_act(struct env_timer *t)
{
    struct fnsock_exchange *x = container_of(t, struct fnsock_exchange, timer);
    struct box *b = box_of(x->s);

    if (is(x, "never")) {
        return;
    }
    if (is(x, "crash") || is(x, "oom")) {
        box_exit(b, is(x, "oom") ? FN_EXIT_OOM : FN_EXIT_CODE, is(x, "oom") ? 137 : 2, LATER_NS);
        end(x, FNSOCK_CLOSED_EARLY, false, "FN601 function closed before the end of its headers");
    } else if (is(x, "invalid")) {
        end(x, FNSOCK_INVALID, false, "two Content-Length fields");
    } else {
        give_answer(x);
    }
}

/* ---- requests ------------------------------------------------------------------------------ */

static void on_task(struct env_task *t)
{
    struct fnsock_exchange *x = container_of(t, struct fnsock_exchange, task);
    enum step next = x->next;

    x->next = STEP_NONE;
    if (x->ended) {
        return;
    }
    if (next == STEP_REFUSED) {
        end(x, FNSOCK_CONNECT, false, "connection refused");
    } else if (next == STEP_NO_ROOM) {
        end(x, FNSOCK_NO_ROOM, false, "connect: Too many open files");
    } else if (next == STEP_EARLY) {
        end(x, FNSOCK_EARLY_ANSWER, false, "function answered before it had the entire request");
    } else if (next == STEP_CLOSED) {
        end(x, FNSOCK_CLOSED_EARLY, false, "FN601 the function's process ended");
    } else if (x->cb.on_sent) {
        x->cb.on_sent(x->ud);
    }
}

static void soon(struct fnsock_exchange *x, enum step next)
{
    x->next = next > x->next ? next : x->next;
    env_defer(env_of(x->s), &x->task);
}

static void check_container(struct fnsock *s, const struct box *b)
{
    struct books *books = world_of(s)->books;

    if (s->ex) {
        books_break(books, BOOKS_OWN, 0, "two calls at a time in container %s", s->id);
    }
    if (s->tainted) {
        books_break(books, BOOKS_OWN, 0, "a call in container %s, whose last one did not end well",
                    s->id);
    }
    if (!b) {
        books_break(books, BOOKS_OWN, 0, "a call in container %s, which is removed", s->id);
    } else if (b->state == BOX_FROZEN) {
        books_break(books, BOOKS_OWN, 0, "a call in container %s, which is frozen", s->id);
    }
}

static void read_orders(struct fnsock_exchange *x, const struct headers *h)
{
    const char *text = headers_get(h, "X-Do");
    unsigned long long answer = 0;
    long long ms = 0;

    if (!text || sscanf(text, "%u %15s %lld %llu", &x->seq, x->what, &ms, &answer) != 4) {
        books_break(world_of(x->s)->books, BOOKS_BODY, 0, "a request without its header");
    }
    x->ms = ms;
    x->answer_bytes = answer;
}

static struct fnsock_exchange *sock_request(struct fnsock *s, const struct fnsock_request *rq,
                                            const struct fnsock_cb *cb, void *ud)
{
    struct fnsock_exchange *x = sim_alloc(sizeof(*x));
    struct engine *e = engine_of(s);
    struct box *b = box_of(s);

    check_container(s, b);
    x->s = s;
    x->cb = *cb;
    x->ud = ud;
    x->task.cb = on_task;
    x->timer.cb = on_act;
    read_orders(x, rq->headers);
    s->ex = x;
    if (b) {
        b->idle_ns = 0;
    }
    s->runner->exchanges++;
    if (e->refuse_sockets > 0) {
        e->refuse_sockets--;
        soon(x, sim_rng_below(&e->rng, 2) ? STEP_REFUSED : STEP_NO_ROOM);
    } else if (!b || b->state != BOX_RUNS) {
        soon(x, STEP_REFUSED);
    }
    return x;
}

static void accept_first(struct fnsock_exchange *x)
{
    const struct box *b = box_of(x->s);

    x->accepted = true;
    if (x->s->runner->drained) {
        books_break(world_of(x->s)->books, BOOKS_NOTHING_LEFT, x->seq,
                    "request %u runs at %s, which is drained", x->seq, x->s->runner->n.name);
    }
    tell(&x->s->runner->n, "request %u runs in container %s: %s", x->seq, x->s->id + 20, x->what);
    books_run(world_of(x->s)->books, x->seq, b->function);
    version_runs(world_of(x->s), x->seq, b->version, b->rules);
    soon(x, STEP_ACCEPTED);
}

static void read_body(struct fnsock_exchange *x, const char *data, size_t len)
{
    x->wrong |= books_differ(x->seq, true, x->body_bytes, data, len);
    x->body_bytes += len;
}

static int sock_send(struct fnsock_exchange *x, const void *data, size_t len, bool eof)
{
    if (x->ended || (!x->accepted && x->next != STEP_NONE)) {
        return 0;
    }
    if (!x->accepted) {
        accept_first(x);
    }
    read_body(x, data, len);
    if (is(x, "early") && !eof) {
        soon(x, STEP_EARLY);
    }
    if (eof) {
        x->eof = true;
        books_body(world_of(x->s)->books, x->seq, x->body_bytes, x->wrong);
        world_at(&x->s->runner->n, &x->timer, world_of(x->s)->now_ns + x->ms * ENV_MS);
    }
    return 0;
}

static uint64_t sock_sent(const struct fnsock_exchange *x)
{
    return x->accepted ? REQUEST_HEAD_BYTES + x->body_bytes : 0;
}

static void sock_pause(struct fnsock_exchange *x, bool paused)
{
    bool resumed = x->paused && !paused;

    x->paused = paused;
    if (resumed && x->head_given && !x->ended) {
        world_at(&x->s->runner->n, &x->timer, world_of(x->s)->now_ns);
    }
}

static void sock_finish(struct fnsock_exchange *x)
{
    env_timer_clear(env_of(x->s), &x->timer);
    env_undefer(env_of(x->s), &x->task);
    x->s->tainted |= x->accepted && !x->ended;
    x->s->ex = NULL;
    x->s->runner->exchanges--;
    free(x);
}

/* ---- processes ----------------------------------------------------------------------------- */

void function_begin(struct box *b)
{
    struct fnsock *s = socket_of(b);
    const struct plan *p = b->engine->w->plan;

    if (s) {
        world_at(&b->by->n, &s->boot,
                 b->engine->w->now_ns +
                     (int64_t)sim_rng_below(&b->engine->rng, 2 * (uint64_t)p->boot_ns));
    }
}

bool function_is_used(const struct box *b)
{
    const struct fnsock *s = socket_of(b);

    return s && s->ex;
}

void function_end(struct box *b)
{
    struct fnsock *s = socket_of(b);

    if (!s) {
        return;
    }
    env_timer_clear(env_of(s), &s->boot);
    if (s->ex && !s->ex->ended) {
        env_timer_clear(env_of(s), &s->ex->timer);
        soon(s->ex, s->ex->accepted ? STEP_CLOSED : STEP_REFUSED);
    }
}

/* ---- the table ----------------------------------------------------------------------------- */

struct fnsock_if *engine_sockets_create(struct runner_node *r)
{
    struct sockets *all = sim_alloc(sizeof(*all));

    LIST_INIT(&all->open);
    all->table = (struct fnsock_if){ .impl = r,
                                     .open = sock_open,
                                     .dir = sock_dir,
                                     .engine_dir = sock_dir,
                                     .expect_uid = sock_expect_uid,
                                     .close = sock_close,
                                     .request = sock_request,
                                     .send = sock_send,
                                     .sent = sock_sent,
                                     .pause = sock_pause,
                                     .finish = sock_finish };
    return &all->table;
}
