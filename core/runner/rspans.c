/* The spans of a call at a runner:
 *
 *   engage
 *     override                        where there are overriders
 *     queue                           until a container has it
 *       image, prepare, create, init  of the start that it waited for
 *     function                        in its container; again where that was lost untouched
 *
 * The function's headers name the span `function` as their parent. */
#include <runner/internal.h>

#include <stdio.h>
#include <string.h>

void rspans_begin(struct rcall *rc)
{
    struct spans *s = spans_begin(rc->r->deps.tracer, &rc->call.headers, "engage", rc->created_ns);

    rc->traced.spans = s;
    rc->traced.function = SPAN_NONE;
}

/* ---- its run --------------------------------------------------------------------------------- */

int rspans_run(struct rcall *rc, struct headers *h)
{
    struct rcall_spans *t = &rc->traced;
    char *text = t->spans ? arena_alloc(&rc->arena, TRACEPARENT_BYTES) : NULL;

    if (!t->spans) {
        return 0;
    }
    t->function = span_begin(t->spans, SPAN_ROOT, "function", SPAN_CLIENT,
                             env_now_ns(rc->r->env));
    span_text(t->spans, t->function, "faas.name", rc->call.fn_id);
    span_text(t->spans, t->function, "container.id", rc->c->id);
    span_text(t->spans, t->function, "container.image.name", rc->call.image);
    if (!text) {
        return FN_E_EXHAUSTED;
    }
    spans_print_parent(t->spans, span_id(t->spans, t->function), text);
    return spans_set_headers(t->spans, h, text);
}

void rspans_ran(struct rcall *rc)
{
    struct rcall_spans *t = &rc->traced;

    if (!t->spans || t->function == SPAN_NONE) {
        return;
    }
    if (rc->head_seen) {
        span_num(t->spans, t->function, "http.response.status_code", rc->fn_status);
    }
    if (rc->ended && rc->end.end != FNSOCK_OK) {
        span_fail(t->spans, t->function, "connection", rc->end.text);
    } else if (!rc->ended) {
        span_fail(t->spans, t->function, "abandoned", NULL);
    } else if (rc->fn_status >= 500) {
        span_fail(t->spans, t->function, rc->fn_status == 504 ? "504" : "502", NULL);
    }
    span_end(t->spans, t->function, env_now_ns(rc->r->env));
    t->function = SPAN_NONE;
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
    rspans_ran(rc);
    span_num(s, SPAN_ROOT, "http.response.status_code", http ? http : 200);
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

    rc->traced.spans = NULL;
    if (!spans_keep(s, now_ns, rc->traced.failed)) {
        return;
    }
    if (!rc->traced.told) {
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
    spans_end(s, now_ns);
}
