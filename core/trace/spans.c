/* Spans of a call: one block of fixed size, filled while the call runs, judged at its end. */
#include <trace/trace_int.h>

#include <base/utf8.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- begin ----------------------------------------------------------------------------------- */

static void random_bytes(struct env *env, unsigned char *to, size_t n)
{
    uint64_t r;

    for (size_t i = 0; i < n; i += sizeof(r)) {
        r = env_random_u64(env);
        memcpy(to + i, &r, sizeof(r));
    }
    to[n - 1] |= 1; /* zero is none */
}

/* The only traceparent, well formed. Several are none, as the standard has it. */
static bool find_parent(const struct headers *h, struct trace_context *ret)
{
    const char *found = NULL;

    for (uint32_t i = 0; i < h->n; i++) {
        if (header_is(h->items[i].name, "Traceparent")) {
            if (found) {
                return false;
            }
            found = h->items[i].value;
        }
    }
    return found && trace_context_parse(found, ret);
}

/* By the last 7 bytes, which are drawn. */
static bool chance_says_so(const unsigned char bytes[TRACE_ID_BYTES], uint32_t permille)
{
    uint64_t n = 0;

    for (size_t i = TRACE_ID_BYTES - 7; i < TRACE_ID_BYTES; i++) {
        n = n << 8 | bytes[i];
    }
    return n < (UINT64_C(1) << 56) / 1000 * permille || permille == 1000;
}

/* An id that the node made is itself a draw, which tells whoever sees it what was decided. One that
 * the caller made is none: he may have made it so that it is always kept. */
static void take_context(struct spans *s, const struct headers *h)
{
    const struct trace_options *o = &s->tracer->target->options;
    unsigned char draw[TRACE_ID_BYTES];
    bool brought = find_parent(h, &s->context);

    s->state[0] = '\0';
    s->by_caller = brought && o->follow;
    if (!s->by_caller) {
        random_bytes(s->tracer->deps.env, draw, TRACE_ID_BYTES);
    }
    if (brought) {
        trace_state_join(h, s->state);
    } else {
        memset(&s->context, 0, sizeof(s->context));
        memcpy(s->context.trace_id, draw, TRACE_ID_BYTES);
    }
    s->sampled = s->by_caller ? s->context.flags & TRACE_SAMPLED
                              : chance_says_so(draw, o->permille);
    s->context.flags = s->sampled ? TRACE_SAMPLED : 0;
    *hex_print(s->context.trace_id, TRACE_ID_BYTES, s->id_text) = '\0';
}

struct spans *spans_begin(struct tracer *t, const struct headers *h, const char *name,
                          int64_t at_ns)
{
    struct spans *s = t && t->target ? tracer_take_block(t) : NULL;

    if (!s) {
        return NULL;
    }
    s->n_spans = s->n_attrs = s->n_events = s->text_len = s->n_dropped = 0;
    take_context(s, h);
    span_begin(s, SPAN_ROOT, name, SPAN_SERVER, at_ns);
    return s;
}

/* ---- what is written ------------------------------------------------------------------------- */

uint32_t span_begin(struct spans *s, uint32_t parent, const char *name, enum span_kind kind,
                    int64_t at_ns)
{
    struct span *p;

    if (!s) {
        return SPAN_NONE;
    }
    if (s->n_spans == SPANS_MAX || parent == SPAN_NONE) {
        s->n_dropped++;
        return SPAN_NONE;
    }
    p = &s->spans[s->n_spans];
    *p = (struct span){ .name = name, .begun_ns = at_ns, .parent = parent, .kind = (uint8_t)kind };
    span_draw_id(s, p->id);
    return s->n_spans++;
}

void span_end(struct spans *s, uint32_t span, int64_t at_ns)
{
    if (s && span < s->n_spans && !s->spans[span].ended_ns) {
        s->spans[span].ended_ns = at_ns;
    }
}

/* In the block, as UTF-8, cut to what is left of it; NULL when nothing is. */
static const char *keep_text(struct spans *s, uint32_t owner, const char *text)
{
    size_t room = (owner == SPAN_ROOT ? TEXT_BYTES : TEXT_BYTES - ROOT_TEXT_BYTES);
    char *to = s->text + s->text_len;

    if (room < s->text_len + 2) {
        return NULL;
    }
    room -= s->text_len;
    s->text_len += (uint32_t)utf8_copy(to, room < TEXT_VALUE_MAX ? room : TEXT_VALUE_MAX, text) + 1;
    return to;
}

void span_rename(struct spans *s, uint32_t span, const char *fmt, ...)
{
    char name[TEXT_VALUE_MAX];
    const char *kept;
    va_list ap;

    if (!s || span >= s->n_spans) {
        return;
    }
    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    kept = keep_text(s, span, name);
    s->spans[span].name = kept ? kept : s->spans[span].name;
}

static struct attr *add_attr(struct spans *s, uint32_t owner, const char *key, enum attr_type type)
{
    struct attr *a;

    if (!s || owner == SPAN_NONE) {
        return NULL;
    }
    if (s->n_attrs >= (owner == SPAN_ROOT ? ATTRS_MAX : ATTRS_MAX - ROOT_ATTRS)) {
        s->n_dropped++;
        return NULL;
    }
    a = &s->attrs[s->n_attrs++];
    a->owner = owner;
    a->key = key;
    a->type = type;
    return a;
}

void span_text(struct spans *s, uint32_t span, const char *key, const char *value)
{
    struct attr *a = value && *value ? add_attr(s, span, key, ATTR_TEXT) : NULL;

    if (a && !(a->value.text = keep_text(s, span, value))) {
        s->n_attrs--;
        s->n_dropped++;
    }
}

void span_word(struct spans *s, uint32_t span, const char *key, const char *word)
{
    struct attr *a = add_attr(s, span, key, ATTR_TEXT);

    if (a) {
        a->value.text = word;
    }
}

static void span_number(struct spans *s, uint32_t span, const char *key, enum attr_type type,
                        int64_t value)
{
    struct attr *a = add_attr(s, span, key, type);

    if (a) {
        a->value.num = value;
    }
}

void span_num(struct spans *s, uint32_t span, const char *key, int64_t value)
{
    span_number(s, span, key, ATTR_NUM, value);
}

void span_bool(struct spans *s, uint32_t span, const char *key, bool value)
{
    span_number(s, span, key, ATTR_BOOL, value);
}

void span_fail(struct spans *s, uint32_t span, const char *type, const char *message)
{
    if (s && span < s->n_spans) {
        s->spans[span].failed = true;
        s->spans[span].message = message && *message ? keep_text(s, span, message) : NULL;
        span_text(s, span, "error.type", type);
    }
}

uint32_t span_event(struct spans *s, uint32_t span, const char *name, int64_t at_ns)
{
    if (!s || span == SPAN_NONE) {
        return SPAN_NONE;
    }
    if (s->n_events == EVENTS_MAX) {
        s->n_dropped++;
        return SPAN_NONE;
    }
    s->events[s->n_events] = (struct span_event){ name, at_ns, span };
    return EVENT_OWNER | s->n_events++;
}

void spans_overridden(struct spans *s, int64_t begun_wall_ns, uint32_t overriders,
                      const struct fn_error *refused)
{
    struct env *env = s ? s->tracer->deps.env : NULL;
    int64_t now_ns = s ? env_now_ns(env) : 0;
    int64_t took_ns = s ? env_wall_ns(env) - begun_wall_ns : 0;
    uint32_t span = span_begin(s, SPAN_ROOT, "override", SPAN_INTERNAL, now_ns);

    span_num(s, span, "fnd.overriders", overriders);
    if (refused) {
        span_fail(s, span, "refused", refused->msg);
    }
    span_end(s, span, now_ns + (took_ns > 0 ? took_ns : 0));
}

struct spans_mark spans_mark(const struct spans *s)
{
    return (struct spans_mark){ s->n_spans, s->n_attrs, s->n_events, s->text_len };
}

void spans_rewind(struct spans *s, const struct spans_mark *m)
{
    s->n_dropped += s->n_spans - m->spans;
    s->n_spans = m->spans;
    s->n_attrs = m->attrs;
    s->n_events = m->events;
    s->text_len = m->text;
}

/* ---- what goes on ---------------------------------------------------------------------------- */

const char *spans_trace_id(const struct spans *s)
{
    return s ? s->id_text : NULL;
}

void span_draw_id(struct spans *s, unsigned char ret[SPAN_ID_BYTES])
{
    random_bytes(s->tracer->deps.env, ret, SPAN_ID_BYTES);
}

void span_set_id(struct spans *s, uint32_t span, const unsigned char id[SPAN_ID_BYTES])
{
    if (s && span < s->n_spans) {
        memcpy(s->spans[span].id, id, SPAN_ID_BYTES);
    }
}

void spans_print_parent(const struct spans *s, const unsigned char id[SPAN_ID_BYTES],
                        char ret[TRACEPARENT_BYTES])
{
    traceparent_print(s->id_text, id, s->context.flags, ret);
}

int spans_set_headers(const struct spans *s, struct headers *h, const char *traceparent)
{
    headers_remove(h, "Traceparent");
    headers_remove(h, "Tracestate");
    if (headers_add_borrowed(h, "Traceparent", traceparent) < 0) {
        return FN_E_EXHAUSTED;
    }
    return s->state[0] ? headers_add(h, "Tracestate", s->state) : 0;
}

/* ---- end ------------------------------------------------------------------------------------- */

/* Why the trace is kept, or NULL. */
static const char *verdict(const struct spans *s, int64_t took_ns, bool failed)
{
    const struct trace_options *o = s->tracer->target ? &s->tracer->target->options : NULL;

    if (!o) {
        return NULL; /* they were switched off */
    }
    if (s->sampled) {
        return s->by_caller ? "parent" : "ratio";
    }
    if (failed && o->errors) {
        return "error";
    }
    return o->slow_ns > 0 && took_ns >= o->slow_ns ? "slow" : NULL;
}

const char *spans_kept_id(const struct spans *s, int64_t at_ns, bool failed)
{
    bool kept = s && verdict(s, at_ns - s->spans[SPAN_ROOT].begun_ns, failed) &&
                tracer_has_room(s->tracer);

    return kept ? s->id_text : NULL;
}

bool spans_keep(struct spans *s, int64_t at_ns, bool failed)
{
    if (!s) {
        return false;
    }
    s->kept_for = verdict(s, at_ns - s->spans[SPAN_ROOT].begun_ns, failed);
    if (!s->kept_for) {
        tracer_give_block(s);
        return false;
    }
    return true;
}

void spans_end(struct spans *s, int64_t at_ns)
{
    for (uint32_t i = 0; i < s->n_spans; i++) {
        span_end(s, i, at_ns);
    }
    span_word(s, SPAN_ROOT, "fnd.sampled", s->kept_for);
    if (s->n_dropped > 0) {
        span_num(s, SPAN_ROOT, "fnd.dropped", s->n_dropped);
    }
    tracer_push(s);
}
