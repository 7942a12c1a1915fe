/* Taps: readers of the lines that the runner keeps.
 *
 * A reader has a tap on each ring that it reads: the number of the next line. A ring that grew puts
 * its taps among the ready ones of their readers, and these are emptied in turn, so that a function
 * that prints much keeps nobody's lines back. Nothing is copied or kept for a slow reader: lines
 * that their ring has dropped meanwhile are counted, and the reader is told where they were. */
#include <runner/runner_int.h>

#include <stdio.h>
#include <stdlib.h>

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
    struct log_reader rd; /* first */
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
    return t->stream->rd.query.follow ? t->ring->next_no : t->until;
}

static void stream_soon(struct log_stream *st)
{
    if (st->rd.logs->wanted) {
        env_defer(st->rd.r->env, &st->task);
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

static int tap_create(struct log_stream *st, struct log_ring *g)
{
    const struct log_query *q = &st->rd.query;
    uint64_t n = g->next_no - g->first_no;
    struct log_tap *t;

    if (!log_query_wants_of(q, g->app_id, g->fn_id, g->container_id)) {
        return 0;
    }
    t = calloc(1, sizeof(*t));
    if (!t) {
        return FN_E_EXHAUSTED;
    }
    *t = (struct log_tap){ .ring = g, .stream = st, .pos = g->begin, .no = g->first_no,
                           .from = n > q->tail ? g->next_no - q->tail : g->first_no,
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

    metric_add(st->rd.r->metrics.log_lines_lost, (int64_t)n);
    b->lines[b->n++] = (struct engage_line){ .app_id = g ? g->app_id : "",
                                             .fn_id = g ? g->fn_id : "",
                                             .container_id = g ? g->container_id : "",
                                             .call_id = "",
                                             .data = text,
                                             .len = (size_t)len,
                                             .wall_ms = env_wall_ns(st->rd.r->env) / ENV_MS,
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
    struct engage_line line;
    uint64_t pos = t->pos;
    uint64_t no = t->no;

    ring_read(t->ring, &pos, &line);
    b->scanned++;
    tap_move(t, no + 1, pos);
    if (no >= t->from && log_query_wants(&t->stream->rd.query, &line)) {
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

/* ---- a reader -------------------------------------------------------------------------------- */

static void stream_on_task(struct env_task *t)
{
    struct log_stream *st = container_of(t, struct log_stream, task);
    struct log_batch b;

    if (!st->rd.logs->wanted) {
        return;
    }
    b.n = b.losses_n = b.scanned = 0;
    b.bytes = 0;
    gather(st, &b);
    if (b.n > 0) {
        log_reader_send(&st->rd, b.lines, b.n);
    } else if (!TAILQ_EMPTY(&st->ready)) {
        env_timer_set(st->rd.r->env, &st->turn, env_now_ns(st->rd.r->env));
    } else if (!st->rd.live && st->behind == 0) {
        log_reader_goes_live(&st->rd);
    }
}

static void stream_on_turn(struct env_timer *t)
{
    stream_soon(container_of(t, struct log_stream, turn));
}

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

static int stream_begin(struct log_reader *rd)
{
    struct log_stream *st = container_of(rd, struct log_stream, rd);
    struct log_store *s = &rd->r->logs;

    st->task.cb = stream_on_task;
    st->turn.cb = stream_on_turn;
    TAILQ_INIT(&st->ready);
    return open_taps(st, &s->kept) < 0 || open_taps(st, &s->rings) < 0 ? FN_E_EXHAUSTED : 0;
}

static void stream_wanted(struct log_reader *rd)
{
    stream_soon(container_of(rd, struct log_stream, rd));
}

static void stream_forget_timers(struct log_reader *rd)
{
    struct log_stream *st = container_of(rd, struct log_stream, rd);

    env_undefer(rd->r->env, &st->task);
    env_timer_clear(rd->r->env, &st->turn);
}

static void stream_finish(struct log_reader *rd)
{
    struct log_stream *st = container_of(rd, struct log_stream, rd);

    while (!LIST_EMPTY(&st->taps)) {
        tap_free(LIST_FIRST(&st->taps));
    }
    stream_forget_timers(rd);
}

const struct log_reader_ops taps_ops = { sizeof(struct log_stream), stream_begin, stream_wanted,
                                         stream_forget_timers, stream_finish };

bool taps_are_behind(const struct engage_logs *logs)
{
    const struct log_stream *st = container_of(logs->owner, const struct log_stream, rd);

    return !TAILQ_EMPTY(&st->ready) || st->lost > 0;
}

/* ---- what rings tell ------------------------------------------------------------------------- */

static void ring_begins(struct log_ring *g)
{
    struct log_reader *rd;

    LIST_FOREACH(rd, &g->r->logs.readers, link) {
        if (rd->ops == &taps_ops && rd->query.follow &&
            tap_create(container_of(rd, struct log_stream, rd), g) < 0) {
            log_stranger(FN_LOG_WARN, "out of memory: a log stream misses a container",
                         "container_id", g->container_id);
        }
    }
}

static void ring_grew(struct log_ring *g)
{
    struct log_tap *t;

    LIST_FOREACH(t, &g->taps, of_ring) {
        tap_ready(t);
        stream_soon(t->stream);
    }
}

static void ring_ends(struct log_ring *g)
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

const struct ring_watch taps_watch = { ring_begins, ring_grew, ring_ends };
