/* The spans of a call at the load balancer:
 *
 *   POST /invoke/{fn}
 *     lookup                the function in the catalogue
 *     override              where there are overriders
 *     placement, attempt    as often as a runner proved that nothing ran
 *
 * Of a hundred calls ninety-nine are not kept, and most of them are placed once and well. So a call
 * only notes its times; spans are written of a stretch when its attempt fails, and of the last one
 * when it is known that the trace is kept, from what the call has anyway.
 *
 * The model that travels is written once, while each attempt is a parent of its own: it is written
 * with the id that the first one will have, which a further one finds and puts its own there. */
#include <lb/lb_int.h>

#include <stdio.h>
#include <string.h>

/* The first ones and the last one are kept, as in place/trace.h. */
#define STRETCHES_KEPT 7u
#define PATH_KEPT      256u

/* What the request is gone with, which may be before the call ends. */
static void keep_request(struct lb_call *c)
{
    struct call_spans *t = &c->traced;

    t->method = call_known_method(c->rq.method);
    t->path = arena_strndup(&c->arena, c->rq.path, strnlen(c->rq.path, PATH_KEPT));
    t->scheme = c->rq.scheme;
}

void traced_begin(struct lb_call *c)
{
    struct call_spans *t = &c->traced;

    t->spans = spans_begin(c->lb->deps.tracer, c->rq.headers, "HTTP",
                           c->rq.received_ns ? c->rq.received_ns : c->created_ns);
    if (!t->spans) {
        return;
    }
    keep_request(c);
    if (c->why) {
        memcpy(c->why->trace_id, spans_trace_id(t->spans), sizeof(c->why->trace_id));
    }
    if (!c->place.trace) {
        c->place.trace = arena_alloc(&c->arena, sizeof(*c->place.trace));
    }
}

/* ---- the header ------------------------------------------------------------------------------ */

int traced_headers(struct lb_call *c, struct headers *h)
{
    struct call_spans *t = &c->traced;
    char *text = t->spans ? arena_alloc(&c->arena, TRACEPARENT_BYTES) : NULL;

    if (!t->spans) {
        return 0;
    }
    if (!text) {
        return FN_E_EXHAUSTED;
    }
    span_draw_id(t->spans, t->id);
    spans_print_parent(t->spans, t->id, text);
    t->parent = text;
    return spans_set_headers(t->spans, h, text);
}

void traced_written(struct lb_call *c, char *json)
{
    c->traced.json = json;
}

/* Nobody but this node knows the id of its span: the text is found where it was put, unless an
 * overrider took it away. */
static void put_parent(struct lb_call *c)
{
    struct call_spans *t = &c->traced;
    char *at = t->parent && t->json ? memmem(t->json, c->json_len, t->parent, TRACEPARENT_BYTES - 1)
                                    : NULL;
    char text[TRACEPARENT_BYTES];

    span_draw_id(t->spans, t->id);
    if (at) {
        spans_print_parent(t->spans, t->id, text);
        memcpy(at, text, TRACEPARENT_BYTES - 1);
        t->parent = at;
    }
}

/* ---- what it meets --------------------------------------------------------------------------- */

void traced_again(struct lb_call *c)
{
    struct call_spans *t = &c->traced;

    if (t->spans) {
        t->stretches++;
        t->placing_ns = env_now_ns(c->lb->deps.env);
        t->offered_ns = t->ended_ns = 0;
    }
}

void traced_placing(struct lb_call *c)
{
    traced_again(c);
    c->traced.found_ns = c->traced.placing_ns;
}

void traced_offer(struct lb_call *c)
{
    if (!c->traced.spans) {
        return;
    }
    c->traced.offered_ns = env_now_ns(c->lb->deps.env);
    if (c->offers > 1) {
        put_parent(c);
    }
}

/* ---- a stretch is written -------------------------------------------------------------------- */

/* Runners that were not asked, since the last stretch. */
static void add_refusals(struct lb_call *c, uint32_t placement)
{
    struct call_spans *t = &c->traced;
    const struct trace *met = c->place.trace;
    uint32_t n = met->tries_n < TRACE_TRIES ? met->tries_n : TRACE_TRIES;
    char clean[TRACE_ADDRESS_MAX];

    for (uint32_t i = t->tries_told < n ? t->tries_told : n; i < n; i++) {
        const struct trace_try *y = &met->tries[i];
        uint32_t event;

        if (y->how == TRACE_HOW_OPEN || y->how >= TRACE_HOW_OWN) {
            continue;
        }
        event = span_event(t->spans, placement, "refused", y->begun_ns);
        span_text(t->spans, event, "server.address",
                  trace_text(y->address, sizeof(y->address), clean, sizeof(clean)));
        span_word(t->spans, event, "fnd.reason", why_how_name(y->how));
        span_text(t->spans, event, "fnd.note",
                  trace_text(y->note, sizeof(y->note), clean, sizeof(clean)));
        span_num(t->spans, event, "fnd.round", y->round);
    }
    t->tries_told = n;
}

static void write_placement(struct lb_call *c)
{
    struct call_spans *t = &c->traced;
    const struct trace *met = c->place.trace;
    uint32_t span = span_begin(t->spans, SPAN_ROOT, "placement", SPAN_INTERNAL, t->placing_ns);
    char clean[TRACE_ADDRESS_MAX];

    if (met) {
        add_refusals(c, span);
        span_text(t->spans, span, "fnd.placer", met->placer);
        span_text(t->spans, span, "fnd.group",
                  trace_text(met->group, sizeof(met->group), clean, sizeof(clean)));
        span_num(t->spans, span, "fnd.runners", met->runners);
        if (met->waits_n > 0) {
            span_num(t->spans, span, "fnd.waits", met->waits_n);
            span_num(t->spans, span, "fnd.parked_ms", met->parked_ns / ENV_MS);
        }
        span_text(t->spans, span, "fnd.note",
                  trace_text(met->note, sizeof(met->note), clean, sizeof(clean)));
    }
    span_end(t->spans, span, t->offered_ns ? t->offered_ns : env_now_ns(c->lb->deps.env));
}

static uint32_t write_attempt(struct lb_call *c)
{
    struct call_spans *t = &c->traced;
    struct spans *s = t->spans;
    uint32_t span = span_begin(s, SPAN_ROOT, "attempt", SPAN_CLIENT, t->offered_ns);

    span_set_id(s, span, t->id);
    span_word(s, span, "rpc.system", "grpc");
    span_word(s, span, "rpc.service", "RunnerProtocol");
    span_word(s, span, "rpc.method", "Engage");
    span_text(s, span, "server.address", c->place.address);
    span_num(s, span, "fnd.attempt", c->offers);
    if (t->ended_ns) {
        span_num(s, span, "rpc.grpc.status_code", t->grpc_status);
        span_end(s, span, t->ended_ns);
    }
    return span;
}

static void write_lookup(struct lb_call *c)
{
    struct call_spans *t = &c->traced;
    uint32_t span;

    if (t->found_ns) {
        span = span_begin(t->spans, SPAN_ROOT, "lookup", SPAN_INTERNAL, c->created_ns);
        span_end(t->spans, span, t->found_ns);
        t->found_ns = 0;
    }
}

/* While the runner's address lives. The attempt, or SPAN_NONE. */
static uint32_t write_stretch(struct lb_call *c)
{
    struct call_spans *t = &c->traced;
    uint32_t attempt = SPAN_NONE;

    write_lookup(c);
    if (!t->placing_ns) {
        return SPAN_NONE;
    }
    if (t->stretches == STRETCHES_KEPT + 1) {
        t->mark = spans_mark(t->spans);
    } else if (t->stretches > STRETCHES_KEPT + 1) {
        spans_rewind(t->spans, &t->mark);
    }
    write_placement(c);
    if (t->offered_ns) {
        attempt = write_attempt(c);
    }
    t->placing_ns = 0;
    return attempt;
}

void traced_attempt(struct lb_call *c, enum seen seen, int grpc_status, const char *words)
{
    struct call_spans *t = &c->traced;

    if (!t->spans) {
        return;
    }
    t->ended_ns = env_now_ns(c->lb->deps.env);
    t->grpc_status = grpc_status;
    if (seen != SEEN_OK) {
        span_fail(t->spans, write_stretch(c), why_how_name(TRACE_HOW_OWN + seen), words);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void write_request(struct lb_call *c, struct spans *s)
{
    const struct call_spans *t = &c->traced;
    const char *route = c->route.is_trigger ? "/t/{app}/{source}" : "/invoke/{fn}";

    span_rename(s, SPAN_ROOT, "%s %s", t->method ? t->method : "HTTP", route);
    span_word(s, SPAN_ROOT, "http.request.method", t->method ? t->method : "_OTHER");
    span_text(s, SPAN_ROOT, "url.path", t->path);
    span_word(s, SPAN_ROOT, "url.scheme", t->scheme);
    span_word(s, SPAN_ROOT, "http.route", route);
    span_word(s, SPAN_ROOT, "faas.trigger", "http");
    span_text(s, SPAN_ROOT, "faas.invocation_id", c->id);
}

static void write_last_stretch(struct lb_call *c, enum outcome outcome)
{
    struct call_spans *t = &c->traced;
    uint32_t attempt = write_stretch(c);

    if (attempt != SPAN_NONE && !t->ended_ns) { /* the call ended before its stream did */
        span_fail(t->spans, attempt, outcome == OUTCOME_ABORTED ? "cancelled" : "abandoned", NULL);
    }
}

void traced_end(struct lb_call *c, enum outcome outcome, int status, const struct fn_error *e)
{
    struct spans *s = c->traced.spans;
    bool failed = status >= 500;
    bool own_words = e && !(c->has_finished && c->finished.error_user);
    int64_t now_ns = env_now_ns(c->lb->deps.env);
    const char *kept_id = spans_kept_id(s, now_ns, failed);
    char code[16];

    if (kept_id) {
        memcpy(c->traced.kept_id, kept_id, TRACE_ID_HEX);
    }
    if (!spans_keep(s, now_ns, failed)) {
        c->traced.spans = NULL;
        return;
    }
    write_last_stretch(c, outcome);
    c->traced.spans = NULL;
    write_request(c, s);
    snprintf(code, sizeof(code), "%d", status);
    span_num(s, SPAN_ROOT, "http.response.status_code", status);
    span_word(s, SPAN_ROOT, "fnd.outcome", outcome_names[outcome]);
    span_text(s, SPAN_ROOT, "fnd.fn_id", c->fn ? c->fn->model.fn_id : c->route.fn_id);
    span_text(s, SPAN_ROOT, "fnd.app_id", c->fn ? c->fn->model.app_id : NULL);
    span_text(s, SPAN_ROOT, "faas.name", c->fn ? c->fn->model.fn_id : NULL);
    span_num(s, SPAN_ROOT, "fnd.attempts", c->offers);
    if (failed) {
        span_fail(s, SPAN_ROOT, code, own_words ? e->msg : NULL);
    }
    spans_end(s, now_ns);
}

const struct metric_exemplar *traced_exemplar(const struct lb_call *c,
                                              struct metric_exemplar *room)
{
    if (!c->traced.kept_id[0]) {
        return NULL;
    }
    *room = (struct metric_exemplar){ c->traced.kept_id, env_wall_ns(c->lb->deps.env) };
    return room;
}
