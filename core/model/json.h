/* Json: a strict reader (jr_) over one text in memory, and the writer's escapes (jw_).
 *
 * Models are read and written once per call and node. jansson takes 11 us to load a call of 1 KB
 * (and 5 us to dump it) because every value becomes an object of its own; it also changes the bytes
 * of annotations, which are part of a container pool's identity. This reader copies a text into the
 * arena once and hands its strings out where they lie, each ended by a NUL over its closing quote.
 * jansson is the oracle of its tests.
 *
 * What Go's encoding/json accepts is accepted, except: NUL in strings that are handed out,
 * duplicate keys in one object, nesting deeper than JR_DEPTH_MAX. Numbers are integers where an
 * integer is asked for. [any] */
#ifndef MODEL_JSON_H
#define MODEL_JSON_H

#include <base/arena.h>
#include <base/buf.h>
#include <base/err.h>
#include <stdbool.h>
#include <stdint.h>

#define JR_DEPTH_MAX 32

/* Every function returns FN_E_INVALID or FN_E_EXHAUSTED after the first problem; `problem` is its
 * sentence part, `p` where it is. */
struct jr {
    char *text; /* the copy */
    const char *p;
    const char *end;
    struct arena *arena; /* receives the copy, and strings with escapes */
    uint32_t depth, depth_max; /* JR_DEPTH_MAX, where nobody has set another */
    bool first; /* no member or element of the innermost container was read yet */
    int failed; /* 0 or the code */
    const char *problem;
};

enum jr_kind {
    JR_NOTHING, /* end of text or a byte that starts no value */
    JR_NULL,
    JR_BOOL,
    JR_NUMBER,
    JR_STRING,
    JR_ARRAY,
    JR_OBJECT,
};

/* Out of memory: the first read says so. */
void jr_init(struct jr *r, const char *text, size_t len, struct arena *arena);
int jr_fail(struct jr *r, const char *problem); /* FN_E_INVALID; the first one stays */
/* code < 0 as an error: "what: line:column problem", both from 1. */
int jr_error(const struct jr *r, int code, const char *what, struct fn_error *reterr);
enum jr_kind jr_peek(struct jr *r);
int jr_open(struct jr *r, enum jr_kind kind); /* JR_ARRAY or JR_OBJECT */
/* 1 and a key, 0 at the end of the object (which is closed then). Key: in the arena. */
int jr_member(struct jr *r, const char **ret_key);
int jr_element(struct jr *r); /* 1, or 0 at the end of the array */
int jr_string(struct jr *r, const char **ret); /* in the arena, valid UTF-8 */
int jr_integer(struct jr *r, int64_t *ret);    /* FN_E_RANGE beyond int64, not sticky */
int jr_null(struct jr *r);
int jr_skip(struct jr *r); /* checks and skips any value */
int jr_end(struct jr *r);  /* nothing but blanks may follow */
/* Any value, checked, in the arena as it was written, but without blanks between tokens and with
 * the escapes of jw_string() for what these are needed for: what Go sends of a json.RawMessage. */
int jr_raw(struct jr *r, const char **ret);

/* Quotes and escapes; `<`, `>`, `&`, U+2028, U+2029 as \u00XX, invalid UTF-8 as \ufffd. 0 or
 * FN_E_EXHAUSTED. */
int jw_string(struct buf *out, const char *s);
int jw_string_n(struct buf *out, const char *s, size_t len);
int jw_int(struct buf *out, int64_t n);

#endif
