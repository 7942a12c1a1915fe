/* A batch in OTLP's protobuf. All of it is put together in one arena and packed once. */
#include <trace/trace_int.h>

#include <stdlib.h>
#include <string.h>

#include "otlp.pb-c.h"

/* Texts of messages are not const in protobuf-c, and are not written to either. */
#define TEXT(text) ((char *)(uintptr_t)(text))

/* Out of memory is told once, at the end. */
struct encoder {
    struct arena arena;
    int64_t wall_ns; /* to be added to times */
    bool no_memory;
};

static void *take(struct encoder *e, size_t size)
{
    void *p = arena_alloc(&e->arena, size > 0 ? size : 1);

    e->no_memory |= !p;
    return p;
}

/* An array of n messages behind an array of pointers to them. */
#define TAKE_LIST(e, n, type, ret)                                                                 \
    do {                                                                                           \
        type *all_ = take(e, (n) * sizeof(type));                                                  \
        (ret) = take(e, (n) * sizeof(*(ret)));                                                     \
        for (size_t i_ = 0; all_ && (ret) && i_ < (n); i_++) {                                     \
            (ret)[i_] = &all_[i_];                                                                 \
        }                                                                                          \
    } while (0)

/* ---- attributes ------------------------------------------------------------------------------ */

static void put_value(Fnd__Otlp__AnyValue *v, const struct attr *a)
{
    fnd__otlp__any_value__init(v);
    switch (a->type) {
    case ATTR_TEXT:
        v->value_case = FND__OTLP__ANY_VALUE__VALUE_STRING_VALUE;
        v->string_value = TEXT(a->value.text);
        break;
    case ATTR_NUM:
        v->value_case = FND__OTLP__ANY_VALUE__VALUE_INT_VALUE;
        v->int_value = a->value.num;
        break;
    case ATTR_BOOL:
        v->value_case = FND__OTLP__ANY_VALUE__VALUE_BOOL_VALUE;
        v->bool_value = a->value.num != 0;
        break;
    }
}

/* Those of one owner; *ret NULL when there are none. */
static size_t put_attrs(struct encoder *e, const struct attr *attrs, uint32_t n, uint32_t owner,
                        Fnd__Otlp__KeyValue ***ret)
{
    Fnd__Otlp__AnyValue *values;
    size_t mine = 0;

    for (uint32_t i = 0; i < n; i++) {
        mine += attrs[i].owner == owner;
    }
    *ret = NULL;
    if (mine == 0) {
        return 0;
    }
    TAKE_LIST(e, mine, Fnd__Otlp__KeyValue, *ret);
    values = take(e, mine * sizeof(*values));
    if (e->no_memory) {
        return 0;
    }
    mine = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (attrs[i].owner == owner) {
            fnd__otlp__key_value__init((*ret)[mine]);
            put_value(&values[mine], &attrs[i]);
            (*ret)[mine]->key = TEXT(attrs[i].key);
            (*ret)[mine]->value = &values[mine];
            mine++;
        }
    }
    return mine;
}

/* ---- spans ----------------------------------------------------------------------------------- */

static void put_events(struct encoder *e, const struct spans *s, uint32_t span,
                       Fnd__Otlp__Span *to)
{
    size_t mine = 0;

    for (uint32_t i = 0; i < s->n_events; i++) {
        mine += s->events[i].span == span;
    }
    if (mine == 0) {
        return;
    }
    TAKE_LIST(e, mine, Fnd__Otlp__Event, to->events);
    for (uint32_t i = 0; i < s->n_events && !e->no_memory; i++) {
        if (s->events[i].span == span) {
            Fnd__Otlp__Event *event = to->events[to->n_events++];

            fnd__otlp__event__init(event);
            event->time_unix_nano = (uint64_t)(s->events[i].at_ns + e->wall_ns);
            event->name = TEXT(s->events[i].name);
            event->n_attributes =
                put_attrs(e, s->attrs, s->n_attrs, EVENT_OWNER | i, &event->attributes);
        }
    }
}

static void put_status(struct encoder *e, const struct span *p, Fnd__Otlp__Span *to)
{
    Fnd__Otlp__Status *status = p->failed ? take(e, sizeof(*status)) : NULL;

    if (status) {
        fnd__otlp__status__init(status);
        status->code = 2;
        status->message = p->message ? TEXT(p->message) : status->message;
        to->status = status;
    }
}

static ProtobufCBinaryData bytes_of(const unsigned char *data, size_t len)
{
    return (ProtobufCBinaryData){ len, (uint8_t *)(uintptr_t)data };
}

static bool has_caller(const struct spans *s)
{
    static const unsigned char none[SPAN_ID_BYTES];

    return memcmp(s->context.span_id, none, sizeof(none)) != 0;
}

static void put_span(struct encoder *e, const struct spans *s, uint32_t i, Fnd__Otlp__Span *to)
{
    const struct span *p = &s->spans[i];

    fnd__otlp__span__init(to);
    to->trace_id = bytes_of(s->context.trace_id, TRACE_ID_BYTES);
    to->span_id = bytes_of(p->id, SPAN_ID_BYTES);
    if (i != SPAN_ROOT) {
        to->parent_span_id = bytes_of(s->spans[p->parent].id, SPAN_ID_BYTES);
    } else if (has_caller(s)) {
        to->parent_span_id = bytes_of(s->context.span_id, SPAN_ID_BYTES);
    }
    to->trace_state = TEXT(s->state);
    to->flags = s->context.flags;
    to->name = TEXT(p->name);
    to->kind = p->kind;
    to->start_time_unix_nano = (uint64_t)(p->begun_ns + e->wall_ns);
    to->end_time_unix_nano = (uint64_t)(p->ended_ns + e->wall_ns);
    to->n_attributes = put_attrs(e, s->attrs, s->n_attrs, i, &to->attributes);
    put_events(e, s, i, to);
    put_status(e, p, to);
}

/* ---- a batch --------------------------------------------------------------------------------- */

static Fnd__Otlp__Resource *put_resource(struct encoder *e, const struct tracer *t,
                                         const struct trace_options *o)
{
    Fnd__Otlp__Resource *r = take(e, sizeof(*r));
    const char *service = o->service ? o->service
                                     : arena_join(&e->arena, "fnd-", t->deps.node, (char *)NULL);
    const struct attr attrs[] = {
        { .key = "service.name", .value.text = service ? service : "fnd" },
        { .key = "service.version", .value.text = FND_VERSION },
        { .key = "service.instance.id", .value.text = t->instance },
        { .key = "host.name", .value.text = t->deps.host },
    };

    if (r) {
        fnd__otlp__resource__init(r);
        r->n_attributes = put_attrs(e, attrs, sizeof(attrs) / sizeof(attrs[0]), 0, &r->attributes);
    }
    return r;
}

static void put_spans(struct encoder *e, const struct batch *b, Fnd__Otlp__ScopeSpans *to)
{
    const struct spans *s;

    TAKE_LIST(e, b->n_spans, Fnd__Otlp__Span, to->spans);
    STAILQ_FOREACH(s, &b->list, link)
    {
        for (uint32_t i = 0; i < s->n_spans && !e->no_memory; i++) {
            put_span(e, s, i, to->spans[to->n_spans++]);
        }
    }
}

static int encoder_pack(struct encoder *e, const struct tracer *t, const struct batch *b,
                        void **ret, size_t *ret_len)
{
    Fnd__Otlp__ExportRequest request = FND__OTLP__EXPORT_REQUEST__INIT;
    Fnd__Otlp__ResourceSpans resource = FND__OTLP__RESOURCE_SPANS__INIT;
    Fnd__Otlp__ScopeSpans spans = FND__OTLP__SCOPE_SPANS__INIT;
    Fnd__Otlp__Scope scope = FND__OTLP__SCOPE__INIT;
    Fnd__Otlp__ResourceSpans *resources[] = { &resource };
    Fnd__Otlp__ScopeSpans *scopes[] = { &spans };

    scope.name = TEXT("fnd");
    scope.version = TEXT(FND_VERSION);
    spans.scope = &scope;
    put_spans(e, b, &spans);
    resource.resource = put_resource(e, t, &b->target->options);
    resource.scope_spans = scopes;
    resource.n_scope_spans = 1;
    request.resource_spans = resources;
    request.n_resource_spans = 1;
    if (e->no_memory) {
        return FN_E_EXHAUSTED;
    }
    *ret_len = fnd__otlp__export_request__get_packed_size(&request);
    *ret = malloc(*ret_len);
    if (!*ret) {
        return FN_E_EXHAUSTED;
    }
    fnd__otlp__export_request__pack(&request, *ret);
    return 0;
}

int encode_batch(const struct tracer *t, const struct batch *b, void **ret, size_t *ret_len)
{
    struct env *env = t->deps.env;
    /* Taken here, since on the loop the time stands still while it works. */
    struct encoder e = { .wall_ns = env_wall_ns(env) - env_now_ns(env) };
    int r;

    arena_init(&e.arena, 0);
    r = encoder_pack(&e, t, b, ret, ret_len);
    arena_finish(&e.arena);
    return r;
}

uint32_t decode_rejected(const struct trace_answer *a)
{
    Fnd__Otlp__ExportResponse *r =
        fnd__otlp__export_response__unpack(NULL, a->len, (const uint8_t *)a->body);
    int64_t n = r && r->partial_success ? r->partial_success->rejected_spans : 0;

    if (r) {
        fnd__otlp__export_response__free_unpacked(r, NULL);
    }
    return n > 0 && n < UINT32_MAX ? (uint32_t)n : 0;
}
