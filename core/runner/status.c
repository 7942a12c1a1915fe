/* Status: how this runner is, for who asks.
 *
 * With runner.status_image the answer is a call of that image's function through everything that
 * calls of others go through: image, container, function socket. It is a call of the runner's own:
 * this file is both ends of its session. One runs at a time, those who ask the same meanwhile wait
 * for it, and what it ended with serves them for STATUS_FRESH_NS. Who sends the image another body
 * asks something else, and gets a run of his own after it. A run goes on when nobody waits any
 * more. Its container is not used again, so that each run starts one.
 *
 * The operator's plugin is asked first, and its failure is the status. Without both, and where no
 * container can be started, the answer is what the runner knows. */
#include <runner/runner_int.h>

#include <stdio.h>
#include <string.h>

#define STATUS_FRESH_NS     (1500 * ENV_MS) /* Go Fn's, as the two below */
#define STATUS_TIMEOUT_S    5
#define STATUS_IDLE_S       1
#define STATUS_REQUEST_MAX  (1u << 20)  /* bytes of a Status2 */
#define STATUS_OTHERS_MAX   64u         /* questions that wait for a run of their own */
#define STATUS_DETAILS_MAX  (64u << 10) /* bytes of an answer; Go Fn: those of any function */

/* ---- answers --------------------------------------------------------------------------------- */

/* st is all but the counts, which are never cached. */
static void tell(struct runner *r, struct engage_ask *ask, struct engage_status *st)
{
    st->active = (int32_t)r->counts.active;
    st->received = r->counts.received;
    st->handled = r->counts.handled;
    if (r->opt.status_image) {
        metrics_status(st);
    }
    ask->answer(ask, st);
}

static void tell_known(struct runner *r, struct engage_ask *ask)
{
    struct engage_status st = { 0 };
    char text[FN_ERROR_TEXT_MAX];

    engine_status(r, &st, text);
    tell(r, ask, &st);
}

static void tell_last(struct runner *r, struct engage_ask *ask)
{
    struct engage_status st = r->status.last;

    r->status.last.cached = true;
    tell(r, ask, &st);
}

static bool can_run(const struct runner *r)
{
    return (r->opt.status_image || operator_says_status(r)) && !r->draining && engine_accepts(r);
}

static void tell_failure(struct runner *r, struct engage_ask *ask, const char *text)
{
    tell(r, ask, &(struct engage_status){ .failed = true, .error_code = 503, .error_text = text });
}

/* Without an image nobody reads what is asked. */
static bool asks_the_same(const struct runner *r, const struct engage_ask *ask)
{
    const struct buf *last = &r->status.request;

    return !r->opt.status_image || (last->len == ask->request_len &&
                                    memcmp(last->data, ask->request, last->len) == 0);
}

/* The others wait for the next run, if there can be one. */
static void tell_all(struct runner *r)
{
    struct engage_ask *ask, *next;

    for (ask = TAILQ_FIRST(&r->status.asks); ask; ask = next) {
        next = TAILQ_NEXT(ask, link);
        if (asks_the_same(r, ask) || !can_run(r)) {
            TAILQ_REMOVE(&r->status.asks, ask, link);
            tell_last(r, ask);
        }
    }
}

/* ---- the end of a run ------------------------------------------------------------------------ */

static void log_change(const struct engage_status *was, const struct engage_status *is)
{
    if (is->failed && !was->failed) {
        log_warn("the status of this runner fails", "code", log_num(is->error_code), "error",
                 is->error_text, "call_id", is->id);
    } else if (!is->failed && was->failed) {
        log_info("the status of this runner is good again", "call_id", is->id);
    }
}

static const char *keep(char *to, size_t cap, const char *text)
{
    snprintf(to, cap, "%s", text ? text : "");
    return to;
}

static void note_failure(struct status *s, const struct engage_finished *f, const char *why)
{
    s->last.failed = true;
    s->last.error_code = f->error_code;
    s->last.error_text = s->text;
    snprintf(s->text, sizeof(s->text), "%s%s%s", f->error_text, why ? ": " : "", why ? why : "");
}

static void note_times(struct status *s, const struct engage_finished *f)
{
    s->last.created_at = keep(s->created, sizeof(s->created), f->created_at);
    s->last.started_at = keep(s->started, sizeof(s->started), f->started_at);
    s->last.completed_at = keep(s->completed, sizeof(s->completed), f->completed_at);
    s->last.scheduler_ns = f->scheduler_ns;
    s->last.execution_ns = f->execution_ns;
    s->last.image_pull_wait_ns = f->image_pull_wait_ns;
    s->last.ctr_prep_ns = f->ctr_prep_ns;
    s->last.ctr_create_ns = f->ctr_create_ns;
    s->last.init_start_ns = f->init_start_ns;
}

/* `last` is the answer for all who wait and for who comes soon. */
static void status_conclude(struct runner *r, const struct engage_status *was)
{
    log_change(was, &r->status.last);
    r->status.fresh_until_ns = env_now_ns(r->env) + STATUS_FRESH_NS;
    tell_all(r);
    if (!TAILQ_EMPTY(&r->status.asks)) {
        env_defer(r->env, &r->status.next);
    }
}

static void run_over(struct runner *r, const struct engage_finished *f)
{
    struct status *s = &r->status;
    struct engage_status was = s->last;
    int64_t now_ns = env_now_ns(r->env);

    s->last = (struct engage_status){ .network_disabled = s->offline,
                                      .custom = s->question.pairs,
                                      .n_custom = s->question.n };
    s->last.id = keep(s->id, sizeof(s->id), s->run->call.id);
    note_times(s, f);
    if (!f->success) {
        note_failure(s, f, s->run->why);
    } else if (s->too_much) {
        s->last.failed = true;
        s->last.error_code = 502;
        s->last.error_text = "the status image answered more than 64 KiB";
    } else {
        s->last.details = buf_text(&s->details);
    }
    metric_observe(r->metrics.status_ms, (now_ns - s->run->created_ns) / ENV_MS);
    s->run = NULL;
    status_conclude(r, &was);
}

/* ---- the session of a run: the runner itself ------------------------------------------------- */

static struct runner *runner_of(struct engage_session *s)
{
    return (struct runner *)(void *)s;
}

static void own_more(struct engage_session *s)
{
    (void)s; /* it has the whole body */
}

static void own_start(struct engage_session *s, const struct engage_start *start)
{
    (void)s;
    (void)start;
}

static int own_data(struct engage_session *session, const void *data, size_t len)
{
    struct status *s = &runner_of(session)->status;

    s->too_much = s->too_much || buf_add(&s->details, data, len) < 0;
    return 0;
}

static void own_finish(struct engage_session *s, const struct engage_finished *f)
{
    run_over(runner_of(s), f);
}

static const struct engage_server own_server = { own_more, own_start, own_data, own_finish, NULL };

/* ---- the beginning of a run ------------------------------------------------------------------ */

static int fill_model(struct rcall *rc)
{
    struct runner *r = rc->r;
    struct call *c = &rc->call;
    char *id = arena_alloc(&rc->arena, CALL_ID_LEN + 1);

    c->image = arena_strdup(&rc->arena, r->opt.status_image);
    if (!id || !c->image) {
        return FN_E_EXHAUSTED;
    }
    id_make(r->deps.ids, env_wall_ns(r->env), id);
    c->id = id;
    c->method = "GET";
    c->url = "/";
    c->timeout_s = STATUS_TIMEOUT_S;
    c->idle_timeout_s = STATUS_IDLE_S;
    return call_add_contract(c);
}

static int status_run(struct runner *r)
{
    struct status *s = &r->status;
    struct rcall *rc = rcall_begin(r, &own_server, (struct engage_session *)(void *)r);

    if (!rc) {
        return FN_E_EXHAUSTED;
    }
    s->offline = r->opt.status_network_file && !r->deps.file_exists(r->opt.status_network_file);
    rc->own = rc->tainted = true;
    rc->no_network = s->offline;
    rc->stream_deadline_ns = rc->created_ns + STATUS_RUN_MAX_NS;
    if (fill_model(rc) < 0 ||
        keys_find(&r->keys, &rc->call, s->offline ? "status, no network" : "status", rc->key) < 0) {
        rc->session = NULL;
        rcall_free(rc);
        return FN_E_EXHAUSTED;
    }
    s->run = rc;
    s->too_much = false;
    buf_clear(&s->details);
    rcall_submit(rc, s->request.data, s->request.len);
    return 0;
}

/* ---- the operator's plugin ------------------------------------------------------------------- */

static void status_on_operator(struct runner *r)
{
    struct status *s = &r->status;
    struct operator_question *q = &s->question;
    struct engage_status was = s->last;
    struct engage_status is = { .custom = q->pairs, .n_custom = q->n };

    if (q->job.result < 0) {
        is.failed = true;
        is.error_code = q->job.error.http_status ? q->job.error.http_status : 503;
        is.error_text = keep(s->text, sizeof(s->text), q->job.error.msg);
    } else if (r->opt.status_image && !r->draining && engine_accepts(r)) {
        if (status_run(r) == 0) {
            return;
        }
        is.failed = true;
        is.error_code = 503;
        is.error_text = "out of memory";
    } else {
        engine_status(r, &is, s->text);
    }
    s->last = is;
    status_conclude(r, &was);
}

static int status_begin(struct runner *r, const struct engage_ask *ask)
{
    struct status *s = &r->status;

    s->fresh_until_ns = 0; /* the last answer was to another question */
    buf_clear(&s->request);
    if (buf_add(&s->request, ask->request, ask->request_len) < 0) {
        return FN_E_EXHAUSTED;
    }
    if (!operator_says_status(r)) {
        return status_run(r);
    }
    operator_ask(r, status_on_operator);
    return 0;
}

/* ---- who asks -------------------------------------------------------------------------------- */

/* Who waits longest decides what is asked next. */
static void serve_first(struct runner *r)
{
    struct status *s = &r->status;
    struct engage_ask *ask = TAILQ_FIRST(&s->asks);

    if (ask && !s->run && !s->question.job.asking && status_begin(r, ask) < 0) {
        TAILQ_REMOVE(&s->asks, ask, link);
        tell_failure(r, ask, "out of memory");
        if (!TAILQ_EMPTY(&s->asks)) {
            env_defer(r->env, &s->next);
        }
    }
}

static void on_next(struct env_task *t)
{
    serve_first(container_of(t, struct runner, status.next));
}

static bool is_asked_too_much(const struct runner *r, const struct engage_ask *ask)
{
    const struct engage_ask *a;
    uint32_t n = 0;

    TAILQ_FOREACH(a, &r->status.asks, link) {
        n += !asks_the_same(r, a);
    }
    return n >= STATUS_OTHERS_MAX && !asks_the_same(r, ask);
}

void status_on_ask(void *endpoint, struct engage_ask *ask)
{
    struct runner *r = ((struct endpoint *)endpoint)->r;
    struct status *s = &r->status;

    if (!can_run(r)) {
        tell_known(r, ask);
    } else if (env_now_ns(r->env) < s->fresh_until_ns && asks_the_same(r, ask)) {
        tell_last(r, ask);
    } else if (is_asked_too_much(r, ask)) {
        tell_failure(r, ask, "RUN418 64 other questions about this status wait; expected fewer");
    } else {
        TAILQ_INSERT_TAIL(&s->asks, ask, link);
        serve_first(r);
    }
}

void status_on_gone(void *endpoint, struct engage_ask *ask)
{
    struct runner *r = ((struct endpoint *)endpoint)->r;

    TAILQ_REMOVE(&r->status.asks, ask, link);
    metrics_status(NULL);
}

void status_forget(struct runner *r)
{
    r->status.fresh_until_ns = 0;
}

void status_init(struct runner *r)
{
    TAILQ_INIT(&r->status.asks);
    r->status.next.cb = on_next;
    buf_init(&r->status.details, STATUS_DETAILS_MAX);
    buf_init(&r->status.request, STATUS_REQUEST_MAX);
}

void status_forget_tasks(struct runner *r)
{
    env_undefer(r->env, &r->status.next);
}

void status_finish(struct runner *r)
{
    status_forget_tasks(r);
    buf_finish(&r->status.details);
    buf_finish(&r->status.request);
}
