/* What the files of this room share. */
#ifndef TRACE_TRACE_INT_H
#define TRACE_TRACE_INT_H

#include <base/arena.h>
#include <base/metric.h>
#include <trace/trace.h>

/* Of one call at one node. What does not fit is counted, and told on its root span. */
#define SPANS_MAX      32u
#define ATTRS_MAX      128u
#define EVENTS_MAX     32u
#define TEXT_BYTES     4096u
#define TEXT_VALUE_MAX 256u /* of one attribute */
/* The root's are written last: others leave them this much. */
#define ROOT_ATTRS      24u
#define ROOT_TEXT_BYTES 1536u

/* ---- context.c [any] ------------------------------------------------------------------------- */

/* Two digits a byte, no end; behind the last one. */
char *hex_print(const unsigned char *from, size_t n, char *to);
/* trace_id as hex. */
void traceparent_print(const char *trace_id, const unsigned char *span_id, uint8_t flags,
                       char ret[TRACEPARENT_BYTES]);

/* ---- spans.c --------------------------------------------------------------------------------- */

struct span {
    unsigned char id[SPAN_ID_BYTES];
    const char *name;
    const char *message; /* NULL = none */
    int64_t begun_ns, ended_ns; /* ended 0 = not over */
    uint32_t parent; /* index; of the root: it has none here */
    uint8_t kind;
    bool failed;
};

enum attr_type { ATTR_TEXT, ATTR_NUM, ATTR_BOOL };

struct attr {
    const char *key;
    union {
        const char *text;
        int64_t num;
    } value;
    uint32_t owner; /* a span, or EVENT_OWNER and an event */
    enum attr_type type;
};

#define EVENT_OWNER (1u << 16)

struct span_event {
    const char *name;
    int64_t at_ns;
    uint32_t span;
};

struct spans {
    STAILQ_ENTRY(spans) link;
    struct tracer *tracer;
    struct trace_context context; /* its span_id is the caller's; zeros = there is none */
    char id_text[TRACE_ID_HEX];
    bool sampled;
    bool by_caller;   /* the traceparent said so */
    const char *kept_for; /* the verdict */
    uint32_t n_spans, n_attrs, n_events, text_len, n_dropped;
    char state[TRACESTATE_MAX + 1];
    struct span spans[SPANS_MAX];
    struct attr attrs[ATTRS_MAX];
    struct span_event events[EVENTS_MAX];
    char text[TEXT_BYTES];
};

STAILQ_HEAD(spans_list, spans);

/* ---- export.c -------------------------------------------------------------------------------- */

/* Options as the worker reads them; counted, replaced by a reload. */
struct target {
    uint32_t refs;
    struct arena arena; /* holds it */
    struct trace_options options;
    const char **headers;
};

enum export_state {
    EXPORT_IDLE,
    EXPORT_GATHER, /* some wait until there are more, or long enough */
    EXPORT_POST,   /* a worker has the batch */
    EXPORT_PAUSE,  /* the batch is tried again later */
    EXPORT_STATES_N
};
extern const struct states export_states;

struct batch {
    struct spans_list list; /* until it is encoded */
    struct target *target;
    uint32_t n_calls, n_spans;
    void *body;
    size_t len;
    uint32_t tries;
    int64_t begun_ns;
    struct trace_answer answer;
    struct fn_error error;
};

struct tracer {
    struct trace_deps deps;
    struct target *target; /* NULL: off */
    char instance[40];     /* a UUID of this process */
    struct spans *free;    /* blocks for the next calls */
    uint32_t free_n;
    struct spans_list queue;
    uint32_t queue_n;
    enum export_state state;
    struct batch batch;
    struct env_work work;
    struct env_timer timer;
    struct env_timer flush_timer;
    bool flushing;
    bool given_up; /* the time for the last ones is over */
    bool failing;  /* was told */
    struct metric *exported, *failed, *dropped, *waiting;
};

/* A block, perhaps used before: its counts are wrong. NULL when out of memory. */
struct spans *tracer_take_block(struct tracer *t);
void tracer_give_block(struct spans *s);
void tracer_push(struct spans *s); /* kept: to the collector */
bool tracer_has_room(const struct tracer *t); /* else it drops it */

/* ---- encode.c [worker] ----------------------------------------------------------------------- */

/* The batch as bytes; given, free(). FN_E_EXHAUSTED */
int encode_batch(const struct tracer *t, const struct batch *b, void **ret, size_t *ret_len);
/* How many spans the collector says that it refused. */
uint32_t decode_rejected(const struct trace_answer *a);

#endif
