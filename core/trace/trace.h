/* Trace: the spans of a call, and their way to a collector.
 *
 * A call that begins at a node takes a block of spans, writes into it what it meets, and gives it
 * back at its end, when it is decided whether the trace is kept: because the caller's traceparent
 * or chance says so, because the call failed, or because it was slow. What is kept waits in a
 * bounded queue; batches of it are encoded (OTLP, protobuf) and posted by one operation at a time
 * on a worker, and tried again while the collector is away, for a bounded time. Nothing waits for
 * it: a full queue drops and counts.
 *
 * Without traces.endpoint spans_begin() gives NULL, which every function takes: then nothing is
 * kept or allocated. Names, keys and words are literals, texts are copied and cut. Times are those
 * of env_now_ns(). Knows no sockets: parcels go out by a table. Everything is [loop] unless marked.
 *
 * W3C Trace Context, level 1; the protocol is proto/otlp.proto. */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include <base/env.h>
#include <base/err.h>
#include <base/headers.h>
#include <conf/table.h>
#include <stdint.h>

/* ---- traceparent and tracestate (context.c) [any] -------------------------------------------- */

#define TRACE_ID_BYTES    16u
#define SPAN_ID_BYTES     8u
#define TRACE_ID_HEX      (2 * TRACE_ID_BYTES + 1)
#define TRACEPARENT_BYTES 56u  /* "00-<32>-<16>-<2>" and its end */
#define TRACEPARENT_SPAN  36u  /* where the span's id begins in it */
#define TRACESTATE_MAX    512u /* longer ones are not passed on, as all that is malformed */
#define TRACE_SAMPLED     1u   /* flag */

struct trace_context {
    unsigned char trace_id[TRACE_ID_BYTES];
    unsigned char span_id[SPAN_ID_BYTES];
    uint8_t flags;
};

/* One field's value. False: it is malformed, and the trace begins anew. */
bool trace_context_parse(const char *traceparent, struct trace_context *ret);
/* Members of all fields in their order, joined by ','. False: there are none, or one is
 * malformed. */
bool trace_state_join(const struct headers *h, char ret[TRACESTATE_MAX + 1]);

/* ---- options --------------------------------------------------------------------------------- */

/* `traces:`; see options.c for defaults and limits. */
struct trace_options {
    const char *endpoint; /* NULL = off */
    const char *ca;       /* NULL = the system's authorities */
    const char *headers;  /* for each request, one a line; NULL = none */
    const char *service;  /* NULL = "fnd-" and the type of node */
    uint32_t permille;    /* of the calls that bring no traceparent */
    uint32_t follow;      /* the caller's traceparent decides for the others */
    uint32_t errors;      /* calls that failed are kept all the same */
    int64_t slow_ns;      /* and those that took this long; 0 = none */
    uint32_t queue_max;   /* traces that wait */
};
extern const struct opt_table trace_opt_table;
#define TRACE_HEADERS_MAX 16u
/* The rule that one of the headers breaks, or NULL. */
const char *trace_headers_refused(const char *text);

/* ---- the node's part (export.c) -------------------------------------------------------------- */

#define TRACE_THREADS      1u  /* that it needs of ENV_LANE_CONTROL */
#define TRACE_ANSWER_MAX   512u
#define TRACE_POST_TIMEOUT_MS 10000u
#define TRACE_FLUSH_NS     (2 * ENV_S) /* for the last ones when the node ends */
#define TRACE_RETRY_NS     (60 * ENV_S) /* for a batch, from its first try on */

struct trace_parcel {
    const char *url, *ca;
    const char *const *headers; /* "Name: value", NULL ends */
    const void *body;
    size_t len;
};

struct trace_answer {
    uint32_t status; /* HTTP; 0 = none came */
    uint32_t retry_after_s;
    size_t len; /* of body; 0 also when it is longer than TRACE_ANSWER_MAX */
    char body[TRACE_ANSWER_MAX];
};

/* Everything is borrowed and outlives the tracer. */
struct trace_deps {
    struct env *env;
    /* [worker] One POST; *reterr says why there was no answer. */
    void (*post)(void *impl, struct fn_op *op, const struct trace_parcel *parcel,
                 struct trace_answer *ret, struct fn_error *reterr);
    void *impl;
    const char *node; /* its type */
    const char *host; /* its name */
};

struct tracer;

/* [init] It is off. */
int tracer_create(const struct trace_deps *deps, struct tracer **ret, struct fn_error *reterr);
/* For calls that begin from now on; copied. FN_E_EXHAUSTED: the ones before stay. [init] too. */
int tracer_set_options(struct tracer *t, const struct trace_options *o);
/* The node ends: what waits is sent at once, or dropped after TRACE_FLUSH_NS. */
void tracer_flush(struct tracer *t);
bool tracer_is_flushed(const struct tracer *t);
void tracer_destroy(struct tracer *t); /* [init] no call has spans, nothing is posted; NULL ok */

/* ---- spans of a call (spans.c) --------------------------------------------------------------- */

enum span_kind { SPAN_INTERNAL = 1, SPAN_SERVER, SPAN_CLIENT }; /* as on the wire */

#define SPAN_ROOT 0u
#define SPAN_NONE UINT32_MAX /* there was no room: what is said of it is not kept */

struct spans;

/* A call came with these headers at `at_ns`; its root span begins. NULL: traces are off (`t` may be
 * NULL), or memory is out. */
struct spans *spans_begin(struct tracer *t, const struct headers *h, const char *name,
                          int64_t at_ns);
/* The call is over: is its trace kept? False: it is not, and `s` is gone. Else what only a trace
 * that is read needs is written now, at no cost for all the others, and spans_end() sends it. */
bool spans_keep(struct spans *s, int64_t at_ns, bool failed);
void spans_end(struct spans *s, int64_t at_ns); /* `s` is gone */

uint32_t span_begin(struct spans *s, uint32_t parent, const char *name, enum span_kind kind,
                    int64_t at_ns);
void span_end(struct spans *s, uint32_t span, int64_t at_ns);
/* Another name than the literal that it began with. */
void span_rename(struct spans *s, uint32_t span, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Attributes, of spans and of events. A text that is NULL is none; a word is a literal, texts are
 * copied. */
void span_text(struct spans *s, uint32_t span, const char *key, const char *value);
void span_word(struct spans *s, uint32_t span, const char *key, const char *word);
void span_num(struct spans *s, uint32_t span, const char *key, int64_t value);
void span_bool(struct spans *s, uint32_t span, const char *key, bool value);
/* It failed: error.type, and for people a sentence or NULL. */
void span_fail(struct spans *s, uint32_t span, const char *type, const char *message);
/* The event, for attributes. */
uint32_t span_event(struct spans *s, uint32_t span, const char *name, int64_t at_ns);

/* The span of overriders, which ran since then by env_wall_ns(): that of the loop stands still
 * meanwhile. refused NULL = they agreed. */
void spans_overridden(struct spans *s, int64_t begun_wall_ns, uint32_t overriders,
                      const struct fn_error *refused);

/* Where the block stands; going back to there forgets all that came later. */
struct spans_mark {
    uint32_t spans, attrs, events, text;
};
struct spans_mark spans_mark(const struct spans *s);
void spans_rewind(struct spans *s, const struct spans_mark *m);

/* Trace id for people; NULL without spans. Lives as long as `s`. */
const char *spans_trace_id(const struct spans *s);
/* The same, for exemplars, if the call's trace would be kept were it over now; else NULL. */
const char *spans_kept_id(const struct spans *s, int64_t at_ns, bool failed);
/* For a span that is written later, when what goes on names it already. */
void span_draw_id(struct spans *s, unsigned char ret[SPAN_ID_BYTES]);
void span_set_id(struct spans *s, uint32_t span, const unsigned char id[SPAN_ID_BYTES]);
/* A traceparent that names that span as the parent of what comes. */
void spans_print_parent(const struct spans *s, const unsigned char id[SPAN_ID_BYTES],
                        char ret[TRACEPARENT_BYTES]);
/* In the place of what came: traceparent with that text (borrowed) and the caller's tracestate. 0
 * or FN_E_EXHAUSTED. */
int spans_set_headers(const struct spans *s, struct headers *h, const char *traceparent);

#endif
