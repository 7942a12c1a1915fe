/* The spans of a call at a runner:
 *
 *   engage
 *     override                        where there are overriders
 *     queue                           until a container has it
 *       image, prepare, create, init  of the start that it waited for
 *     function                        in its container; again where that was lost untouched
 *
 * The function's headers name the span `function` as their parent. */
#include <runner/runner_int.h>

#include <stdio.h>
#include <string.h>

void rspans_begin(struct rcall *rc)
{
    rc->traced.spans = spans_begin(rc->r->deps.tracer, &rc->call.headers, "engage", rc->created_ns);
}

/* ---- its run --------------------------------------------------------------------------------- */

int rspans_run(struct rcall *rc, struct headers *h)
{
    struct rcall_spans *t = &rc->traced;
    char *text = t->spans ? arena_alloc(&rc->arena, TRACEPARENT_BYTES) : NULL;

    if (!t->spans) {
        return 0;
    }
    t->run_ns = env_now_ns(rc->r->env);
    t->ran_ns = 0;
    memcpy(t->container, rc->c->id, sizeof(t->container));
    span_draw_id(t->spans, t->run_id);
    if (!text) {
        return FN_E_EXHAUSTED;
    }
    spans_print_parent(t->spans, t->run_id, text);
    return spans_set_headers(t->spans, h, text);
}

/* The span, or SPAN_NONE. */
static uint32_t write_run(struct rcall *rc)
{
    struct rcall_spans *t = &rc->traced;
    uint32_t span;

    if (!t->run_ns) {
        return SPAN_NONE;
    }
    span = span_begin(t->spans, SPAN_ROOT, "function", SPAN_CLIENT, t->run_ns);
    span_set_id(t->spans, span, t->run_id);
    span_text(t->spans, span, "faas.name", rc->call.fn_id);
    span_text(t->spans, span, "container.id", t->container);
    span_text(t->spans, span, "container.image.name", rc->call.image);
    if (rc->head_seen) {
        span_num(t->spans, span, "http.response.status_code", rc->fn_status);
    }
    span_end(t->spans, span, t->ran_ns);
    t->run_ns = 0;
    return span;
}

void rspans_ran(struct rcall *rc)
{
    struct rcall_spans *t = &rc->traced;

    if (!t->spans || !t->run_ns || t->ran_ns) {
        return;
    }
    t->ran_ns = env_now_ns(rc->r->env);
    if (rc->ended && rc->end.end != FNSOCK_OK) {
        span_fail(t->spans, write_run(rc), "connection", rc->end.text);
    } else if (!rc->ended) {
        span_fail(t->spans, write_run(rc), "abandoned", NULL);
    } else if (rc->fn_status >= 500) {
        span_fail(t->spans, write_run(rc), rc->fn_status == 504 ? "504" : "502", NULL);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void add_queue(struct rcall *rc, struct spans *s)
{
    static const char *const words[PHASES_N] = { "image", "prepare", "create", "init" };
    int64_t end_ns = rc->started_ns ? rc->started_ns : env_now_ns(rc->r->env);
    uint32_t queue = span_begin(s, SPAN_ROOT, "queue", SPAN_INTERNAL, rc->created_ns);
    bool cold = false;

    for (int i = 0; i < PHASES_N; i++) {
        if (rc->phase_ns[i] > 0) {
            uint32_t span = span_begin(s, queue, words[i], SPAN_INTERNAL, rc->phase_at_ns[i]);

            span_end(s, span, rc->phase_at_ns[i] + rc->phase_ns[i]);
            cold = true;
        }
    }
    span_bool(s, queue, "fnd.started_for_it", rc->own_launch);
    span_end(s, queue, end_ns);
    span_bool(s, SPAN_ROOT, "faas.coldstart", cold);
}

void rspans_told(struct rcall *rc, int http, const char *text)
{
    struct spans *s = rc->traced.spans;
    char code[16];

    if (!s) {
        return;
    }
    rc->traced.told = true;
    rc->traced.http = http ? http : 200;
    rspans_ran(rc);
    if (http >= 400) {
        snprintf(code, sizeof(code), "%d", http);
        span_fail(s, SPAN_ROOT, rc->outcome == OUTCOME_NOT_EXECUTED && http == 503 ? "busy" : code,
                  rc->why ? rc->why : rc->end_user ? NULL : text);
    }
    /* A refusal is not this call's end: another runner may have it. */
    rc->traced.failed = http >= 500 && http != 503;
}

void rspans_kept_id(const struct rcall *rc, char ret[TRACE_ID_HEX])
{
    const struct spans *s = rc->traced.spans;
    const char *id = s ? spans_kept_id(s, env_now_ns(rc->r->env), rc->traced.failed) : NULL;

    ret[0] = '\0';
    if (id) {
        memcpy(ret, id, TRACE_ID_HEX);
    }
}

void rspans_end(struct rcall *rc)
{
    struct spans *s = rc->traced.spans;
    int64_t now_ns = env_now_ns(rc->r->env);

    if (!spans_keep(s, now_ns, rc->traced.failed)) {
        rc->traced.spans = NULL;
        return;
    }
    write_run(rc);
    if (rc->traced.told) {
        span_num(s, SPAN_ROOT, "http.response.status_code", rc->traced.http);
    } else {
        span_fail(s, SPAN_ROOT, "cancelled", NULL);
    }
    add_queue(rc, s);
    span_word(s, SPAN_ROOT, "rpc.system", "grpc");
    span_word(s, SPAN_ROOT, "rpc.service", "RunnerProtocol");
    span_word(s, SPAN_ROOT, "rpc.method", "Engage");
    span_text(s, SPAN_ROOT, "faas.invocation_id", rc->call.id);
    span_text(s, SPAN_ROOT, "faas.name", rc->call.fn_id);
    span_text(s, SPAN_ROOT, "fnd.fn_id", rc->call.fn_id);
    span_text(s, SPAN_ROOT, "fnd.app_id", rc->call.app_id);
    span_word(s, SPAN_ROOT, "fnd.outcome", outcome_names[rc->outcome]);
    span_num(s, SPAN_ROOT, "faas.max_memory", (int64_t)(rc->call.mem_mb << 20));
    rc->traced.spans = NULL;
    spans_end(s, now_ns);
}
