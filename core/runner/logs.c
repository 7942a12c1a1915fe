/* Streams: who reads what functions print, one message for each that was asked for.
 *
 * A stream has a tap on each ring that it reads: the number of the next line. A ring that grew puts
 * its taps among the ready ones of their streams, and these are emptied in turn, so that a function
 * that prints much keeps nobody's lines back. Nothing is copied or kept for a slow reader: lines
 * that their ring has dropped meanwhile are counted, and the stream says so where they were.
 *
 *   BEGINS ──▶ LIVE ──▶ over        BEGINS: reads what was there when it began, up to tap.until
 *      └────── not follow ──▶ over
 *
 * Keys of a stream: docs/logs.md. */
#include <runner/internal.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_MAX     128u         /* of a message */
#define BYTES_MAX     (64u << 10)  /* of the texts of a message, but for one line */
#define TURN_LINES    32u          /* of one ring, before it is the next one's turn */
#define SCAN_MAX      4096u        /* records that are looked at in one turn of the loop */
#define LOSSES_MAX    8u           /* gaps that one message tells of */
#define LOSS_TEXT_MAX 96

struct log_tap {
    LIST_ENTRY(log_tap) of_ring;
    LIST_ENTRY(log_tap) of_stream;
    TAILQ_ENTRY(log_tap) ready_link;
    struct log_ring *ring;
    struct log_stream *stream;
    uint64_t pos, no;  /* of the next line */
    uint64_t from;     /* lines before are not wanted */
    uint64_t until;    /* lines before were there when the stream began */
    bool ready;
};

struct log_stream {
    LIST_ENTRY(log_stream) link;
    struct runner *r;
    struct engage_logs *logs;
    struct arena arena;
    const char *app_id, *fn_id, *container_id, *call_id; /* that are wanted; NULL = all */
    int64_t since_ms;
    uint64_t tail; /* of each container, of what is there */
    bool follow;
    bool mark;
    bool live;       /* all that was there has been sent */
    uint32_t behind; /* taps that are not at `until` */
    LIST_HEAD(, log_tap) taps;
    TAILQ_HEAD(, log_tap) ready;
    uint64_t lost; /* lines of rings that are gone */
    struct env_task task;
    struct env_timer turn; /* due at once: the next turn of the loop */
};

/* A message on its way. */
struct log_batch {
    struct engage_line lines[LINES_MAX];
    char losses[LOSSES_MAX][LOSS_TEXT_MAX];
    uint32_t n, losses_n, scanned;
    size_t bytes;
};

/* ---- taps ------------------------------------------------------------------------------------ */

static bool is_behind(const struct log_tap *t)
{
    return t->no < t->until;
}

static uint64_t tap_end(const struct log_tap *t)
{
    return t->stream->follow ? t->ring->next_no : t->until;
}

static void stream_soon(struct log_stream *st)
{
    if (st->logs->wanted) {
        env_defer(st->r->env, &st->task);
    }
}

static void tap_ready(struct log_tap *t)
{
    if (!t->ready && t->no < tap_end(t)) {
        t->ready = true;
        TAILQ_INSERT_TAIL(&t->stream->ready, t, ready_link);
    }
}

static void tap_unready(struct log_tap *t)
{
    if (t->ready) {
        t->ready = false;
        TAILQ_REMOVE(&t->stream->ready, t, ready_link);
    }
}

/* The next line is that number, at that place. */
static void tap_move(struct log_tap *t, uint64_t no, uint64_t pos)
{
    bool was_behind = is_behind(t);

    t->no = no;
    t->pos = pos;
    t->stream->behind -= was_behind && !is_behind(t);
}

static bool wants(const char *wanted, const char *is)
{
    return !wanted || strcmp(wanted, is) == 0;
}

static int tap_create(struct log_stream *st, struct log_ring *g)
{
    struct log_tap *t;
    uint64_t n = g->next_no - g->first_no;

    if (!wants(st->app_id, g->app_id) || !wants(st->fn_id, g->fn_id) ||
        !wants(st->container_id, g->container_id)) {
        return 0;
    }
    t = calloc(1, sizeof(*t));
    if (!t) {
        return FN_E_EXHAUSTED;
    }
    *t = (struct log_tap){ .ring = g, .stream = st, .pos = g->begin, .no = g->first_no,
                           .from = n > st->tail ? g->next_no - st->tail : g->first_no,
                           .until = g->next_no };
    st->behind += is_behind(t);
    LIST_INSERT_HEAD(&g->taps, t, of_ring);
    LIST_INSERT_HEAD(&st->taps, t, of_stream);
    tap_ready(t);
    return 0;
}

static void tap_free(struct log_tap *t)
{
    tap_move(t, t->until > t->no ? t->until : t->no, t->pos);
    tap_unready(t);
    LIST_REMOVE(t, of_ring);
    LIST_REMOVE(t, of_stream);
    free(t);
}

/* ---- a message ------------------------------------------------------------------------------- */

static bool batch_is_full(const struct log_batch *b)
{
    return b->n == LINES_MAX || b->bytes >= BYTES_MAX || b->scanned >= SCAN_MAX ||
           b->losses_n == LOSSES_MAX;
}

static void put_loss(struct log_stream *st, struct log_batch *b, const struct log_ring *g,
                     uint64_t n)
{
    char *text = b->losses[b->losses_n++];
    int len = snprintf(text, LOSS_TEXT_MAX, "%llu lines are missing here: they were read too slowly",
                       (unsigned long long)n);

    metric_add(st->r->metrics.log_lines_lost, (int64_t)n);
    b->lines[b->n++] = (struct engage_line){ .app_id = g ? g->app_id : "",
                                             .fn_id = g ? g->fn_id : "",
                                             .container_id = g ? g->container_id : "",
                                             .call_id = "",
                                             .data = text,
                                             .len = (size_t)len,
                                             .wall_ms = env_wall_ns(st->r->env) / ENV_MS,
                                             .lost = n,
                                             .of_stderr = true };
}

/* What the ring has dropped: lost, unless it was not wanted anyway. */
static void pass_lost(struct log_tap *t, struct log_batch *b)
{
    const struct log_ring *g = t->ring;
    uint64_t from = t->no > t->from ? t->no : t->from;
    uint64_t n = g->first_no > from ? g->first_no - from : 0;

    tap_move(t, g->first_no, g->begin);
    if (n > 0) {
        put_loss(t->stream, b, g, n);
    }
}

static void take_line(struct log_tap *t, struct log_batch *b)
{
    const struct log_stream *st = t->stream;
    struct engage_line line;
    uint64_t pos = t->pos;
    uint64_t no = t->no;

    ring_read(t->ring, &pos, &line);
    b->scanned++;
    tap_move(t, no + 1, pos);
    if (no >= t->from && line.wall_ms >= st->since_ms && wants(st->call_id, line.call_id)) {
        b->lines[b->n++] = line;
        b->bytes += line.len;
    }
}

static void tap_take(struct log_tap *t, struct log_batch *b)
{
    uint32_t end = b->n + TURN_LINES;

    if (t->no < t->ring->first_no) {
        pass_lost(t, b);
    }
    while (t->no < tap_end(t) && b->n < end && !batch_is_full(b)) {
        take_line(t, b);
    }
}

static void gather(struct log_stream *st, struct log_batch *b)
{
    struct log_tap *t;

    if (st->lost > 0) {
        put_loss(st, b, NULL, st->lost);
        st->lost = 0;
    }
    while (!batch_is_full(b) && (t = TAILQ_FIRST(&st->ready))) {
        tap_unready(t);
        tap_take(t, b);
        tap_ready(t);
    }
}

/* ---- life of a stream ------------------------------------------------------------------------ */

static void stream_free(struct log_stream *st)
{
    struct runner *r = st->r;

    while (!LIST_EMPTY(&st->taps)) {
        tap_free(LIST_FIRST(&st->taps));
    }
    env_undefer(r->env, &st->task);
    env_timer_clear(r->env, &st->turn);
    LIST_REMOVE(st, link);
    metric_set(r->metrics.log_streams, --r->logs.streams_n);
    arena_finish(&st->arena);
    free(st);
}

static void stream_end(struct log_stream *st, int grpc_status, const char *text)
{
    struct engage_logs *logs = st->logs;

    stream_free(st);
    logs->end(logs, grpc_status, text);
}

static void stream_send(struct log_stream *st, const struct engage_line *lines, uint32_t n)
{
    if (st->logs->send(st->logs, lines, n) < 0) {
        stream_end(st, GRPC_EXHAUSTED, "out of memory");
    }
}

/* All that was there is sent. */
static void stream_goes_live(struct log_stream *st)
{
    st->live = true;
    if (!st->follow) {
        stream_end(st, GRPC_OK, NULL);
    } else if (st->mark) {
        stream_send(st, NULL, 0);
    }
}

static void stream_on_task(struct env_task *t)
{
    struct log_stream *st = container_of(t, struct log_stream, task);
    struct log_batch b;

    if (!st->logs->wanted) {
        return;
    }
    b.n = b.losses_n = b.scanned = 0;
    b.bytes = 0;
    gather(st, &b);
    if (b.n > 0) {
        stream_send(st, b.lines, b.n);
    } else if (!TAILQ_EMPTY(&st->ready)) {
        env_timer_set(st->r->env, &st->turn, env_now_ns(st->r->env));
    } else if (!st->live && st->behind == 0) {
        stream_goes_live(st);
    }
}

static void stream_on_turn(struct env_timer *t)
{
    stream_soon(container_of(t, struct log_stream, turn));
}

/* ---- keys ------------------------------------------------------------------------------------ */

static int take_number(const struct fn_kv *kv, int64_t *ret, struct fn_error *reterr)
{
    char *end;

    errno = 0;
    *ret = strtoll(kv->value, &end, 10);
    if (errno || end == kv->value || *end || *ret < 0) {
        return err_set(reterr, FN_E_INVALID,
                       "RUN414 key %s of a log stream, got \"%.40s\"; expected a whole number",
                       kv->key, kv->value);
    }
    return 0;
}

static int take_bool(const struct fn_kv *kv, bool *ret, struct fn_error *reterr)
{
    *ret = strcmp(kv->value, "true") == 0;
    if (!*ret && strcmp(kv->value, "false") != 0) {
        return err_set(reterr, FN_E_INVALID,
                       "RUN414 key %s of a log stream, got \"%.40s\"; expected true or false",
                       kv->key, kv->value);
    }
    return 0;
}

static int take_text(struct log_stream *st, const struct fn_kv *kv, const char **ret,
                     struct fn_error *reterr)
{
    *ret = arena_strdup(&st->arena, kv->value);
    return *ret ? 0 : err_set(reterr, FN_E_EXHAUSTED, "out of memory");
}

static int take_key(struct log_stream *st, const struct fn_kv *kv, struct fn_error *reterr)
{
    const struct {
        const char *key;
        const char **at;
    } texts[] = { { "app_id", &st->app_id },
                  { "fn_id", &st->fn_id },
                  { "container_id", &st->container_id },
                  { "call_id", &st->call_id } };
    int64_t n = 0;
    int r;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (strcmp(kv->key, texts[i].key) == 0) {
            return take_text(st, kv, texts[i].at, reterr);
        }
    }
    if (strcmp(kv->key, "since") == 0) {
        return take_number(kv, &st->since_ms, reterr);
    }
    if (strcmp(kv->key, "tail") == 0) {
        r = take_number(kv, &n, reterr);
        st->tail = (uint64_t)n;
        return r;
    }
    if (strcmp(kv->key, "follow") == 0) {
        return take_bool(kv, &st->follow, reterr);
    }
    if (strcmp(kv->key, "mark") == 0) {
        return take_bool(kv, &st->mark, reterr);
    }
    return err_set(reterr, FN_E_INVALID,
                   "RUN414 unknown key \"%.80s\" of a log stream; expected app_id, fn_id, "
                   "container_id, call_id, since, tail, follow or mark",
                   kv->key);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static int open_taps(struct log_stream *st, struct log_rings *rings)
{
    struct log_ring *g;

    TAILQ_FOREACH(g, rings, link) {
        if (tap_create(st, g) < 0) {
            return FN_E_EXHAUSTED;
        }
    }
    return 0;
}

static int stream_fill(struct log_stream *st, struct fn_error *reterr)
{
    struct log_store *s = &st->r->logs;
    int r = 0;

    for (uint32_t i = 0; i < st->logs->n && r == 0; i++) {
        r = take_key(st, &st->logs->keys[i], reterr);
    }
    if (r == 0 && (open_taps(st, &s->kept) < 0 || open_taps(st, &s->rings) < 0)) {
        r = err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    return r;
}

static struct log_stream *stream_create(struct runner *r, struct engage_logs *logs)
{
    struct log_stream *st = calloc(1, sizeof(*st));

    if (!st) {
        return NULL;
    }
    *st = (struct log_stream){ .r = r, .logs = logs, .tail = UINT64_MAX, .follow = true,
                               .task.cb = stream_on_task, .turn.cb = stream_on_turn };
    arena_init(&st->arena, 64u << 10);
    LIST_INIT(&st->taps);
    TAILQ_INIT(&st->ready);
    LIST_INSERT_HEAD(&r->logs.streams, st, link);
    metric_set(r->metrics.log_streams, ++r->logs.streams_n);
    logs->owner = st;
    return st;
}

static int stream_begin(struct runner *r, struct engage_logs *logs, struct fn_error *reterr)
{
    struct log_stream *st = stream_create(r, logs);
    int result;

    if (!st) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    result = stream_fill(st, reterr);
    if (result < 0) {
        stream_free(st);
    }
    return result;
}

int logs_open_own(struct runner *r, struct engage_logs *logs)
{
    return stream_begin(r, logs, NULL);
}

bool logs_are_behind(const struct engage_logs *logs)
{
    const struct log_stream *st = logs->owner;

    return !TAILQ_EMPTY(&st->ready) || st->lost > 0;
}

static int stream_open(struct runner *r, struct engage_logs *logs, struct fn_error *reterr)
{
    const struct log_stream *st;
    int result;

    if (r->opt.log_streams_max == 0) {
        return err_set(reterr, FN_E_INTERNAL, "runner not configured with logStreamer");
    }
    if (r->logs.closed) {
        return err_set(reterr, FN_E_UNAVAILABLE, "this runner is stopping");
    }
    if (r->logs.streams_n >= r->opt.log_streams_max) {
        return err_set(reterr, FN_E_EXHAUSTED,
                       "RUN416 %u log streams are read at this runner; expected fewer than "
                       "runner.log_streams_max",
                       r->logs.streams_n);
    }
    result = stream_begin(r, logs, reterr);
    if (result < 0) {
        return result;
    }
    st = logs->owner;
    log_stranger(FN_LOG_INFO, "the output of functions is read", "app_id", st->app_id, "fn_id",
                 st->fn_id, "call_id", st->call_id, "follow", st->follow ? "true" : "false");
    return 0;
}

void logs_on_open(void *endpoint, struct engage_logs *logs)
{
    struct runner *r = ((struct endpoint *)endpoint)->r;
    struct fn_error err = ERR_INIT;
    int result = stream_open(r, logs, &err);

    if (result < 0) { /* UNKNOWN is Go Fn's for "not configured" */
        logs->end(logs, r->opt.log_streams_max == 0 ? GRPC_UNKNOWN : -result, err.msg);
    }
}

void logs_on_wanted(void *endpoint, struct engage_logs *logs)
{
    (void)endpoint;
    stream_soon(logs->owner);
}

void logs_on_gone(void *endpoint, struct engage_logs *logs)
{
    (void)endpoint;
    stream_free(logs->owner);
}

/* ---- what rings tell ------------------------------------------------------------------------- */

void logs_ring_begins(struct log_ring *g)
{
    struct log_stream *st;

    LIST_FOREACH(st, &g->r->logs.streams, link) {
        if (st->follow && tap_create(st, g) < 0) {
            log_stranger(FN_LOG_WARN, "out of memory: a log stream misses a container",
                         "container_id", g->container_id);
        }
    }
}

void logs_ring_grew(struct log_ring *g)
{
    struct log_tap *t;

    LIST_FOREACH(t, &g->taps, of_ring) {
        tap_ready(t);
        stream_soon(t->stream);
    }
}

void logs_ring_ends(struct log_ring *g)
{
    struct log_tap *t;

    while ((t = LIST_FIRST(&g->taps))) {
        struct log_stream *st = t->stream;
        uint64_t from = t->no > t->from ? t->no : t->from;

        st->lost += tap_end(t) > from ? tap_end(t) - from : 0;
        tap_free(t);
        stream_soon(st);
    }
}

/* ---- the end of the runner ------------------------------------------------------------------- */

void logs_end_all(struct runner *r)
{
    r->logs.closed = true;
    while (!LIST_EMPTY(&r->logs.streams)) {
        stream_end(LIST_FIRST(&r->logs.streams), GRPC_UNAVAILABLE, "this runner is stopping");
    }
}

void logs_finish(struct runner *r)
{
    while (!LIST_EMPTY(&r->logs.streams)) {
        stream_free(LIST_FIRST(&r->logs.streams));
    }
}

void logs_forget_timers(struct runner *r)
{
    struct log_stream *st;

    LIST_FOREACH(st, &r->logs.streams, link) {
        env_undefer(r->env, &st->task);
        env_timer_clear(r->env, &st->turn);
    }
}
