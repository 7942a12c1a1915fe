/* History: readers of the lines that the operator's plugin has, which may go back further than the
 * runner's own.
 *
 * The plugin is asked for one reader at a time, in turn, and knows a reader by the cursor that it
 * left there. A reader whom it had nothing for is asked about again when the plugin has got further
 * lines, and after a while. While the runner drains nobody is: the drain would wait for it.
 *
 *   QUIET ──wanted──▶ WAITING ──its turn──▶ ASKED ──lines──▶ QUIET
 *                        ▲                    │
 *                        └──IDLE ◀──nothing───┘
 *
 *   to WAITING            queue(): behind the others in h->waiting
 *   WAITING to ASKED      serve_next(): it is h->now until the plugin has answered
 *   ASKED to QUIET, IDLE  take() */
#include <runner/runner_int.h>

#include <string.h>

#define HISTORY_PAUSE_NS (250 * ENV_MS) /* fn/operator.h says so */

enum history_state {
    HISTORY_QUIET,   /* its peer has not asked for a message */
    HISTORY_WAITING, /* in history.waiting */
    HISTORY_ASKED,   /* history.now */
    HISTORY_IDLE,    /* the plugin had nothing; the timer runs */
};

struct history_reader {
    struct log_reader rd; /* first */
    TAILQ_ENTRY(history_reader) link;
    enum history_state state;
    uint64_t cursor;
    struct env_timer pause;
};

static struct history_reader *history_of(struct log_reader *rd)
{
    return container_of(rd, struct history_reader, rd);
}

static void history_on_read(struct runner *r);

static void serve_next(struct runner *r)
{
    struct history *h = &r->history;
    struct history_reader *hr = TAILQ_FIRST(&h->waiting);

    if (!hr || r->read.job.asking || r->draining) {
        return;
    }
    TAILQ_REMOVE(&h->waiting, hr, link);
    hr->state = HISTORY_ASKED;
    h->now = hr;
    operator_read(r, &hr->rd.query, hr->cursor, history_on_read);
}

static void queue(struct history_reader *hr)
{
    env_timer_clear(hr->rd.r->env, &hr->pause);
    hr->state = HISTORY_WAITING;
    TAILQ_INSERT_TAIL(&hr->rd.r->history.waiting, hr, link);
    serve_next(hr->rd.r);
}

static void on_pause(struct env_timer *t)
{
    queue(container_of(t, struct history_reader, pause));
}

/* ---- an answer ------------------------------------------------------------------------------- */

static struct engage_line history_line(const struct fn_log_line *l)
{
    return (struct engage_line){ .app_id = l->app_id,
                                 .fn_id = l->fn_id,
                                 .container_id = l->container_id,
                                 .call_id = l->call_id,
                                 .data = l->data,
                                 .len = l->len,
                                 .wall_ms = l->wall_ms,
                                 .lost = l->lost,
                                 .of_stderr = l->fd == 2 };
}

static uint32_t choose(const struct log_query *q, const struct operator_read *from,
                       struct engage_line *ret)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < from->n; i++) {
        ret[n] = history_line(from->lines[i]);
        n += log_query_wants(q, &ret[n]);
    }
    return n;
}

static void take(struct history_reader *hr, const struct operator_read *answer)
{
    struct engage_line lines[FN_OPERATOR_LINES_MAX];
    struct runner *r = hr->rd.r;
    uint32_t n = choose(&hr->rd.query, answer, lines);

    hr->cursor = answer->cursor;
    if (n > 0) {
        hr->state = HISTORY_QUIET;
        log_reader_send(&hr->rd, lines, n);
    } else if (answer->n > 0) {
        queue(hr);
    } else if (!hr->rd.live && (hr->rd.query.mark || !hr->rd.query.follow)) {
        hr->state = HISTORY_QUIET;
        log_reader_goes_live(&hr->rd);
    } else {
        hr->rd.live = true;
        hr->state = HISTORY_IDLE;
        env_timer_set(r->env, &hr->pause, env_now_ns(r->env) + HISTORY_PAUSE_NS);
    }
}

static void history_on_read(struct runner *r)
{
    struct history_reader *hr = r->history.now;

    r->history.now = NULL;
    if (hr && r->read.job.result < 0) {
        log_reader_end(&hr->rd, -r->read.job.result, r->read.job.error.msg);
    } else if (hr) {
        take(hr, &r->read);
    }
    serve_next(r);
}

/* The plugin has got further lines. */
static void history_on_lines(struct runner *r)
{
    struct log_reader *rd;

    LIST_FOREACH(rd, &r->logs.readers, link) {
        if (rd->ops == &history_ops && history_of(rd)->state == HISTORY_IDLE) {
            queue(history_of(rd));
        }
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

/* The plugin sees it when it is asked for the first time. */
static int reader_begin(struct log_reader *rd)
{
    history_of(rd)->pause.cb = on_pause;
    return 0;
}

static void reader_wanted(struct log_reader *rd)
{
    if (history_of(rd)->state == HISTORY_QUIET) {
        queue(history_of(rd));
    }
}

static void reader_forget_timers(struct log_reader *rd)
{
    env_timer_clear(rd->r->env, &history_of(rd)->pause);
}

static void reader_finish(struct log_reader *rd)
{
    struct history_reader *hr = history_of(rd);

    reader_forget_timers(rd);
    if (hr->state == HISTORY_WAITING) {
        TAILQ_REMOVE(&rd->r->history.waiting, hr, link);
    } else if (hr->state == HISTORY_ASKED) {
        rd->r->history.now = NULL;
    }
}

const struct log_reader_ops history_ops = { sizeof(struct history_reader), reader_begin,
                                            reader_wanted, reader_forget_timers, reader_finish };

void history_init(struct runner *r)
{
    TAILQ_INIT(&r->history.waiting);
    r->feed.taken = history_on_lines;
}
