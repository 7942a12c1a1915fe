/* Rules for HTTP headers that load balancer, runner, HTTP server and function socket share. */
#ifndef MODEL_HEADER_RULES_H
#define MODEL_HEADER_RULES_H

#include <stdbool.h>
#include <stddef.h>

/* What a header is; several at a time. */
enum {
    HEADER_HOP_BY_HOP = 1u << 0, /* for the next one on the way alone; of Te, "trailers" is not */
    HEADER_FRAMING = 1u << 1,    /* how messages and connections end: for who writes them to say */
    HEADER_RESERVED = 1u << 2,   /* Fn's own to a function, as Fn-Http-* are */
    HEADER_BY_RUNNER = 1u << 3,  /* the runner says it to the function */
    HEADER_BY_LB = 1u << 4,      /* the load balancer says it to the client */
    /* one each: */
    HEADER_HOST = 1u << 5,
    HEADER_DATE = 1u << 6,
    HEADER_CONNECTION = 1u << 7,
};

/* 0: of no interest. */
unsigned header_kinds(const char *name, size_t len);
/* It is nothing of that. value NULL: any. */
bool header_passes(const char *name, const char *value, unsigned not_these);
bool header_is_reserved(const char *name); /* Fn-Call-Id, Fn-Deadline, Fn-Intent, Fn-Http-* */
bool header_name_is_token(const char *name);
bool header_value_is_clean(const char *value); /* no CTL but TAB; valid UTF-8 */

#endif
