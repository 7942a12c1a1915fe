/* The node's part: what is kept waits here, and goes to the collector in batches.
 *
 *   IDLE ──a trace──▶ GATHER ──enough, or long enough──▶ POST ──told──▶ IDLE, GATHER
 *                                                       │    ▲
 *                                          no, for now  ▼    │ later
 *                                                       PAUSE
 *
 *   to IDLE, GATHER  export_next(): no batch is under way; in GATHER the timer is set
 *   to POST          export_post(): t->batch belongs to the worker until export_done()
 *   POST to PAUSE    export_pause(): t->batch is kept for the next try
 *
 * One batch is under way at a time. While the collector is away the queue fills up, and what comes
 * then is dropped: the oldest traces, which show how it began, stay. */
#include <trace/trace_int.h>

#include <base/log.h>
#include <base/states.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_CALLS    128u             /* at most */
#define GATHER_NS      (1 * ENV_S)      /* a trace waits for others */
#define PAUSE_FIRST_NS (500 * ENV_MS)   /* then twice as long each time */
#define PAUSE_MAX_NS   (10 * ENV_S)
#define FREE_KEPT      64u /* blocks for calls that come; more are given back to the system */

static const uint32_t follows[EXPORT_STATES_N] = {
    [EXPORT_IDLE] = STATE(EXPORT_GATHER),
    [EXPORT_GATHER] = STATE(EXPORT_POST) | STATE(EXPORT_IDLE),
    [EXPORT_POST] = STATE(EXPORT_IDLE) | STATE(EXPORT_GATHER) | STATE(EXPORT_PAUSE),
    [EXPORT_PAUSE] = STATE(EXPORT_POST),
};
static const char *const names[EXPORT_STATES_N] = { "idle", "gather", "post", "pause" };
const struct states export_states = { "trace-export", names, follows, EXPORT_STATES_N };

static void export_enter(struct tracer *t, enum export_state state)
{
    t->state = (enum export_state)states_next(&export_states, t->state, state);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

struct spans *tracer_take_block(struct tracer *t)
{
    struct spans *s = t->free;

    if (s) {
        t->free = STAILQ_NEXT(s, link);
        t->free_n--;
        return s;
    }
    s = malloc(sizeof(*s));
    if (s) {
        s->tracer = t;
    }
    return s;
}

void tracer_give_block(struct spans *s)
{
    struct tracer *t = s->tracer;

    if (t->free_n >= FREE_KEPT) {
        free(s);
        return;
    }
    STAILQ_NEXT(s, link) = t->free;
    t->free = s;
    t->free_n++;
}

static void give_list(struct spans_list *list)
{
    struct spans *s;

    while ((s = STAILQ_FIRST(list))) {
        STAILQ_REMOVE_HEAD(list, link);
        tracer_give_block(s);
    }
}

static void drop_queue(struct tracer *t)
{
    const struct spans *s;

    STAILQ_FOREACH(s, &t->queue, link)
    {
        metric_add(t->dropped, s->n_spans);
    }
    give_list(&t->queue);
    t->queue_n = 0;
    metric_set(t->waiting, 0);
}

/* ---- where it goes --------------------------------------------------------------------------- */

static void target_unref(struct target *target)
{
    if (target && --target->refs == 0) {
        struct arena arena = target->arena;

        arena_finish(&arena);
    }
}

/* Checked before. The target's own text becomes its lines. */
static bool split_headers(struct target *target)
{
    char *text = (char *)(uintptr_t)target->options.headers;
    uint32_t n = 0;

    target->options.headers = NULL;
    target->headers = arena_alloc(&target->arena,
                                  (TRACE_HEADERS_MAX + 1) * sizeof(*target->headers));
    while (target->headers && text && *text && n < TRACE_HEADERS_MAX) {
        char *line = strsep(&text, "\n");

        if (*line) {
            target->headers[n++] = line;
        }
    }
    return target->headers != NULL;
}

static struct target *target_create(const struct trace_options *o)
{
    struct arena arena;
    struct target *target;

    arena_init(&arena, 0);
    target = arena_alloc_owner(&arena, sizeof(*target), 1024);
    if (!target) {
        return NULL;
    }
    target->arena = arena;
    target->refs = 1;
    target->options = *o;
    if (!opt_copy(trace_opt_table.rows, &target->options, &target->arena) ||
        !split_headers(target)) {
        target_unref(target);
        return NULL;
    }
    return target;
}

/* ---- posting --------------------------------------------------------------------------------- */

static void export_next(struct tracer *t);

static void export_run(struct env_work *w, struct fn_op *op)
{
    struct tracer *t = container_of(w, struct tracer, work);
    struct batch *b = &t->batch;
    struct trace_parcel parcel;

    b->answer = (struct trace_answer){ .status = 0 };
    b->error = ERR_INIT;
    if (!b->body && encode_batch(t, b, &b->body, &b->len) < 0) {
        err_set(&b->error, FN_E_EXHAUSTED, "out of memory");
        return;
    }
    parcel = (struct trace_parcel){ b->target->options.endpoint, b->target->options.ca,
                                    b->target->headers, b->body, b->len };
    t->deps.post(t->deps.impl, op, &parcel, &b->answer, &b->error);
}

static void batch_finish(struct tracer *t)
{
    struct batch *b = &t->batch;

    free(b->body);
    give_list(&b->list);
    target_unref(b->target);
    *b = (struct batch){ .n_calls = 0 };
    STAILQ_INIT(&b->list);
}

/* By what OTLP says of statuses; no answer is the usual way of a collector that restarts. */
static bool may_come_again(uint32_t status)
{
    return status == 0 || status == 429 || status == 502 || status == 503 || status == 504;
}

static int64_t pause_ns(const struct batch *b)
{
    int64_t ns = PAUSE_FIRST_NS;

    for (uint32_t i = 1; i < b->tries && ns < PAUSE_MAX_NS; i++) {
        ns *= 2;
    }
    if (b->answer.retry_after_s > 0 && ns < b->answer.retry_after_s * ENV_S) {
        ns = b->answer.retry_after_s * ENV_S;
    }
    return ns;
}

/* Once for each time that the collector begins to refuse, and once when it takes them again. */
static void tell_failing(struct tracer *t, const char *why)
{
    const struct batch *b = &t->batch;

    if (!t->failing) {
        t->failing = true;
        log_warn(why, "endpoint", b->target->options.endpoint, "status",
                 b->answer.status ? log_num(b->answer.status) : NULL, "error",
                 b->error.msg[0] ? b->error.msg : NULL);
    }
}

static void export_took(struct tracer *t)
{
    struct batch *b = &t->batch;
    uint32_t rejected = b->answer.len > 0 ? decode_rejected(&b->answer) : 0;

    rejected = rejected < b->n_spans ? rejected : b->n_spans;
    metric_add(t->exported, b->n_spans - rejected);
    metric_add(t->failed, rejected);
    if (rejected > 0) {
        tell_failing(t, "the collector refuses spans");
    } else if (t->failing) {
        t->failing = false;
        log_info("the collector takes traces again", "endpoint", b->target->options.endpoint);
    }
}

static void export_pause(struct tracer *t, int64_t at_ns)
{
    export_enter(t, EXPORT_PAUSE);
    env_timer_set(t->deps.env, &t->timer, at_ns);
}

/* False: that was the last try. */
static bool export_later(struct tracer *t)
{
    const struct batch *b = &t->batch;
    int64_t at_ns = env_now_ns(t->deps.env) + pause_ns(b);

    if (!may_come_again(b->answer.status) || t->flushing || !t->target ||
        at_ns > b->begun_ns + TRACE_RETRY_NS) {
        return false;
    }
    export_pause(t, at_ns);
    return true;
}

static void export_done(struct env_work *w)
{
    struct tracer *t = container_of(w, struct tracer, work);
    struct batch *b = &t->batch;
    uint32_t status = b->answer.status;

    if (b->body) {
        give_list(&b->list); /* else no worker took it, or it had no memory */
    }
    if (status >= 200 && status < 300) {
        export_took(t);
    } else {
        tell_failing(t, "the collector does not take traces");
        if (export_later(t)) {
            return;
        }
        metric_add(t->failed, b->n_spans);
    }
    batch_finish(t);
    export_next(t);
}

static void export_post(struct tracer *t)
{
    struct batch *b = &t->batch;

    b->tries++;
    t->work = (struct env_work){ .run = export_run,
                                 .done = export_done,
                                 .lane = ENV_LANE_CONTROL,
                                 .timeout_ns = TRACE_POST_TIMEOUT_MS * ENV_MS };
    export_enter(t, EXPORT_POST);
    if (env_submit(t->deps.env, &t->work) < 0) { /* as if nobody had answered */
        b->answer.status = 0;
        err_set(&b->error, FN_E_EXHAUSTED, "no worker is free");
        export_done(&t->work);
    }
}

/* The batch is empty: as many as fit of what waits. */
static void export_begin(struct tracer *t)
{
    struct batch *b = &t->batch;
    struct spans *s;

    while (b->n_calls < BATCH_CALLS && (s = STAILQ_FIRST(&t->queue))) {
        STAILQ_REMOVE_HEAD(&t->queue, link);
        STAILQ_INSERT_TAIL(&b->list, s, link);
        b->n_calls++;
        b->n_spans += s->n_spans;
    }
    t->queue_n -= b->n_calls;
    metric_set(t->waiting, t->queue_n);
    b->target = t->target;
    b->target->refs++;
    b->begun_ns = env_now_ns(t->deps.env);
    export_post(t);
}

/* Nothing is under way. */
static void export_next(struct tracer *t)
{
    if (t->queue_n > 0 && (!t->target || t->given_up)) {
        drop_queue(t);
    }
    if (t->queue_n == 0) {
        export_enter(t, EXPORT_IDLE);
        return;
    }
    export_enter(t, EXPORT_GATHER);
    if (t->queue_n >= BATCH_CALLS || t->flushing) {
        export_begin(t);
    } else {
        env_timer_set(t->deps.env, &t->timer, env_now_ns(t->deps.env) + GATHER_NS);
    }
}

static void on_export_timer(struct env_timer *timer)
{
    struct tracer *t = container_of(timer, struct tracer, timer);

    if (t->state == EXPORT_PAUSE) {
        export_post(t);
    } else {
        assert(t->state == EXPORT_GATHER);
        export_begin(t);
    }
}

bool tracer_has_room(const struct tracer *t)
{
    return t->queue_n < t->target->options.queue_max && !t->given_up;
}

void tracer_push(struct spans *s)
{
    struct tracer *t = s->tracer;

    if (!tracer_has_room(t)) {
        metric_add(t->dropped, s->n_spans);
        tracer_give_block(s);
        return;
    }
    STAILQ_INSERT_TAIL(&t->queue, s, link);
    metric_set(t->waiting, ++t->queue_n);
    if (t->state == EXPORT_IDLE) {
        export_next(t);
    } else if (t->state == EXPORT_GATHER && t->queue_n >= BATCH_CALLS) {
        env_timer_clear(t->deps.env, &t->timer);
        export_begin(t);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_flush_over(struct env_timer *timer)
{
    struct tracer *t = container_of(timer, struct tracer, flush_timer);

    t->given_up = true;
    drop_queue(t);
    if (t->state == EXPORT_POST) {
        env_cancel(t->deps.env, &t->work);
    }
}

void tracer_flush(struct tracer *t)
{
    if (t->flushing) {
        return;
    }
    t->flushing = true;
    if (t->state == EXPORT_IDLE) {
        return;
    }
    env_timer_set(t->deps.env, &t->flush_timer, env_now_ns(t->deps.env) + TRACE_FLUSH_NS);
    if (t->state != EXPORT_POST) {
        env_timer_clear(t->deps.env, &t->timer);
        on_export_timer(&t->timer);
    }
}

bool tracer_is_flushed(const struct tracer *t)
{
    return t->state == EXPORT_IDLE;
}

/* A UUID of version 4. */
static void name_instance(struct tracer *t)
{
    uint64_t a = env_random_u64(t->deps.env);
    uint64_t b = env_random_u64(t->deps.env);

    snprintf(t->instance, sizeof(t->instance), "%08x-%04x-4%03x-%04x-%012llx",
             (unsigned)(a >> 32), (unsigned)(a >> 16) & 0xffffu, (unsigned)a & 0xfffu,
             (unsigned)(b >> 48 & 0x3fffu) | 0x8000u,
             (unsigned long long)(b & UINT64_C(0xffffffffffff)));
}

static void tracer_count(struct tracer *t)
{
    static const char *const labels[] = { "result", NULL };
    static const struct metric_def spans = {
        .name = "fn_trace_spans",
        .help = "Spans that were kept, by what became of them: exported, dropped (the queue was "
                "full), failed (the collector did not take them in time).",
        .kind = METRIC_COUNTER,
        .labels = labels,
    };
    struct metric_family *f = metric_declare(&spans);

    t->exported = metric_series(f, (const char *[]){ "exported" });
    t->dropped = metric_series(f, (const char *[]){ "dropped" });
    t->failed = metric_series(f, (const char *[]){ "failed" });
    t->waiting = metric_simple("fn_trace_queue", METRIC_GAUGE,
                               "Traces that wait for the collector, without those under way.");
}

int tracer_create(const struct trace_deps *deps, struct tracer **ret, struct fn_error *reterr)
{
    struct tracer *t = calloc(1, sizeof(*t));

    if (!t) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory for traces");
    }
    t->deps = *deps;
    STAILQ_INIT(&t->queue);
    STAILQ_INIT(&t->batch.list);
    t->timer.cb = on_export_timer;
    t->flush_timer.cb = on_flush_over;
    name_instance(t);
    tracer_count(t);
    *ret = t;
    return 0;
}

int tracer_set_options(struct tracer *t, const struct trace_options *o)
{
    struct target *next = o->endpoint ? target_create(o) : NULL;

    if (o->endpoint && !next) {
        return FN_E_EXHAUSTED;
    }
    target_unref(t->target);
    t->target = next;
    if (!next && t->state == EXPORT_GATHER) {
        env_timer_clear(t->deps.env, &t->timer);
        export_next(t);
    }
    return 0;
}

void tracer_destroy(struct tracer *t)
{
    struct spans *s;

    if (!t) {
        return;
    }
    assert(t->state != EXPORT_POST);
    env_timer_clear(t->deps.env, &t->timer);
    env_timer_clear(t->deps.env, &t->flush_timer);
    batch_finish(t);
    give_list(&t->queue);
    while ((s = t->free)) {
        t->free = STAILQ_NEXT(s, link);
        free(s);
    }
    target_unref(t->target);
    free(t);
}
