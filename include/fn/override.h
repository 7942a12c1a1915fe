/* Call overrider: a chain of edits to a call before it is placed (LB) or run (runner).
 *
 * Edits are collected and applied only if the whole chain agrees, so that a rejection leaves the
 * call untouched. Order is the order in fn.yaml. The fields that may be edited are a closed list;
 * extensions are the open one: those set at the LB travel with the call to the runner's overriders
 * and driver. Go Fn: CallOverrider in api/agent/call.go. */
#ifndef FN_OVERRIDE_H
#define FN_OVERRIDE_H

#include <fn/driver.h>
#include <fn/host.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FN_OVERRIDE_MAJOR 1
#define FN_OVERRIDE_MINOR 0
#define FN_MAGIC_OVERRIDE 0x464e1201u
#define FN_MAGIC_EDIT     0x464e1202u

/* Outcomes of apply() */
#define FN_PASS    0
#define FN_CHANGED 1

/* Fields of a call that may be read and set. */
#define FN_FIELD_MEM_MB         1u /* 1 .. 2^20; a node refuses what it cannot give */
#define FN_FIELD_CPU_MILLI      2u /* 0 .. 1 024 000; 0 = no limit */
#define FN_FIELD_TMPFS_MB       3u /* 0 .. 2^20; 0 = engine's default */
#define FN_FIELD_TIMEOUT_S      4u /* 1 .. 300 */
#define FN_FIELD_IDLE_TIMEOUT_S 5u /* 1 .. 3600 */

/* Texts of a call that may be read; those with a rule may be set, since 1.1. */
#define FN_TEXT_CALL_ID 1u
#define FN_TEXT_FN_ID   2u
#define FN_TEXT_APP_ID  3u
#define FN_TEXT_APP_NAME 4u
#define FN_TEXT_IMAGE   5u /* registry/name:tag */
#define FN_TEXT_METHOD  6u
#define FN_TEXT_URL     7u
#define FN_TEXT_SYSLOG_URL 8u /* since 1.1; udp, tcp, tcp+tls, unix or unixgram, "" = none */
#define FN_TEXT_TYPE    9u /* since 1.1; "sync" or "detached", set at a load balancer only */
#define FN_TEXT_TRIGGER_ID 10u /* since 1.1 */
/* Since 1.1: calls with the same one share containers; 64 hex digits, made at each question by
 * fn.edit, of the call as it is then. A load balancer's does not know what the runner's driver and
 * overriders add. */
#define FN_TEXT_SLOT_HASH 11u

/* Sets of pairs that a call has; one that a host does not know is empty. Since 1.1. */
#define FN_PAIRS_CONFIG      1u
#define FN_PAIRS_ANNOTATIONS 2u /* values are JSON texts */
#define FN_PAIRS_EXTENSIONS  3u
#define FN_PAIRS_HEADERS     4u /* a name may come more than once */

struct fn_edit; /* one call being edited; borrowed, opaque */

/* "fn.edit"; all [loop], only inside apply(). Strings are borrowed until apply() returns or the same
 * key is set. set_*: 0, FN_E_RANGE (value out of bounds), FN_E_INVALID (no such field, no key) or
 * FN_E_EXHAUSTED; a later overrider sees what an earlier one set. */
struct fn_edit_if {
    struct fn_hdr hdr; /* FN_MAGIC_EDIT */
    const char *(*text)(const struct fn_edit *, uint32_t text_id);        /* "" if not set */
    const char *(*header)(const struct fn_edit *, const char *name);      /* first value or NULL */
    const char *(*config)(const struct fn_edit *, const char *key);       /* or NULL */
    const char *(*annotation)(const struct fn_edit *, const char *key);   /* JSON text or NULL */
    const char *(*extension)(const struct fn_edit *, const char *key);    /* or NULL */
    uint64_t (*u64)(const struct fn_edit *, uint32_t field); /* 0 for a field it does not know */
    int (*set_u64)(struct fn_edit *, uint32_t field, uint64_t v);
    int (*set_config)(struct fn_edit *, const char *key, const char *copied);    /* NULL deletes */
    int (*set_extension)(struct fn_edit *, const char *key, const char *copied); /* NULL deletes */
    /* Since 1.1. set_text(): FN_E_RANGE for a text that a user could not have set, FN_E_PRECONDITION
     * for a type at a runner. */
    int (*set_text)(struct fn_edit *, uint32_t text_id, const char *copied);
    /* One field that the function sees, instead of all of that name; NULL deletes. FN_E_INVALID: no
     * name of a field; FN_E_RANGE: no value of one, or one that the platform or the connection
     * owns. */
    int (*set_header)(struct fn_edit *, const char *name, const char *copied);
    int (*set_annotation)(struct fn_edit *, const char *key, const char *json); /* NULL deletes */
    /* Since 1.1. The i-th pair of FN_PAIRS_*, from 0; FN_E_RANGE behind the last one. In no promised
     * order; setting and deleting moves pairs. */
    int (*pair)(const struct fn_edit *, uint32_t pairs, uint32_t i, struct fn_kv *ret_borrowed);
};

struct fn_override_ops {
    struct fn_hdr hdr; /* FN_MAGIC_OVERRIDE */
    /* [loop] required. FN_PASS, FN_CHANGED or < 0, which rejects the call with *reterr and drops
     * the edits of the whole chain. */
    int (*apply)(void *inst, struct fn_edit *edit, struct fn_error *reterr);
};

#ifdef __cplusplus
}
#endif
#endif /* FN_OVERRIDE_H */
