/* Trace: what one call met on its way to a runner, kept while it runs.
 *
 * Filled by the place and, where only the attempt knows, by the load balancer. Fixed size, no
 * payload: addresses, codes, times and the placer's own notes. A call whose place_call.trace is
 * NULL keeps nothing. Texts are cut to their fields; notes are raw bytes of a plugin and may lack
 * their end: trace_text() makes both printable. [loop] */
#ifndef PLACE_TRACE_H
#define PLACE_TRACE_H

#include <fn/placer.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The first TRACE_TRIES - 1 attempts and the last one are kept. */
#define TRACE_TRIES 8u
#define TRACE_ADDRESS_MAX 48u
#define TRACE_TEXT_MAX 40u
#define TRACE_NAME_MAX 33u

/* trace_try.how: below TRACE_HOW_OWN the place's words, from there on the load balancer's. */
#define TRACE_HOW_OPEN 0u     /* not over, or over without an answer */
#define TRACE_HOW_DOWN 1u     /* no connection: not sent */
#define TRACE_HOW_DRAINING 2u /* the pool says that it takes no calls: not sent */
#define TRACE_HOW_FAILING 3u  /* its status fails: not sent */
#define TRACE_HOW_TOLD 4u     /* it said that it takes no such call yet: not sent */
#define TRACE_HOW_OWN 16u

struct trace_try {
    char address[TRACE_ADDRESS_MAX];
    char note[FN_NOTE_MAX];     /* of the placer's answer */
    char text[TRACE_TEXT_MAX];  /* what the runner said */
    int64_t begun_ns, ended_ns; /* ended 0 = not over */
    int32_t code;               /* 0 = none */
    uint16_t round;
    uint8_t how; /* TRACE_HOW_* */
    uint8_t reserved;
};

struct trace {
    char placer[TRACE_NAME_MAX]; /* the one that decided last */
    char group[FN_NOTE_MAX];
    char note[FN_NOTE_MAX]; /* of the last WAIT or GIVE_UP */
    uint32_t verdict;       /* FN_WAIT, FN_GIVE_UP, 0 = neither */
    uint32_t tries_n;       /* all that were made */
    uint32_t waits_n;
    uint32_t runners;  /* in the last list */
    int64_t parked_ns; /* all waits together */
    struct trace_try tries[TRACE_TRIES];
};

static inline void trace_copy(char *to, size_t cap, const char *from)
{
    if (!from || !memccpy(to, from, '\0', cap - 1)) {
        to[from ? cap - 1 : 0] = '\0';
    }
}

static inline void trace_init(struct trace *t)
{
    memset(t, 0, offsetof(struct trace, tries));
}

/* The slot of the newest attempt, NULL when there is none. */
static inline struct trace_try *trace_last(struct trace *t)
{
    uint32_t n = t->tries_n < TRACE_TRIES ? t->tries_n : TRACE_TRIES;

    return n ? &t->tries[n - 1] : NULL;
}

static inline struct trace_try *trace_begin(struct trace *t, const char *address, const char *note,
                                            int64_t now_ns, uint32_t round)
{
    struct trace_try *y;

    t->tries_n++;
    y = trace_last(t);
    trace_copy(y->address, sizeof(y->address), address);
    memcpy(y->note, note, sizeof(y->note));
    y->text[0] = '\0';
    y->begun_ns = now_ns;
    y->ended_ns = 0;
    y->code = 0;
    y->round = (uint16_t)(round < UINT16_MAX ? round : UINT16_MAX);
    y->how = TRACE_HOW_OPEN;
    return y;
}

static inline void trace_end(struct trace *t, int64_t now_ns, uint32_t how, int32_t code,
                             const char *text)
{
    struct trace_try *y = trace_last(t);

    if (y) {
        y->ended_ns = now_ns;
        y->how = (uint8_t)how;
        y->code = code;
        trace_copy(y->text, sizeof(y->text), text);
    }
}

/* Printable ASCII of at most `size` bytes that may lack their end; others become '?'. */
static inline const char *trace_text(const char *raw, size_t size, char *ret, size_t cap)
{
    size_t n = strnlen(raw, size < cap ? size : cap - 1);

    for (size_t i = 0; i < n; i++) {
        ret[i] = (char)(raw[i] >= ' ' && raw[i] <= '~' ? raw[i] : '?');
    }
    ret[n] = '\0';
    return ret;
}

#endif
