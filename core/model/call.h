/* Call: one invocation as it travels, with its JSON form (models.Call).
 *
 * All texts live in the call's arena or are borrowed from something that outlives it (a pinned
 * function). Source: fn-wire-and-api 2.1, 2.6; limits: reliability 4.5 rows 19 to 21. */
#ifndef MODEL_CALL_H
#define MODEL_CALL_H

#include <base/arena.h>
#include <base/buf.h>
#include <base/err.h>
#include <base/headers.h>
#include <fn/driver.h>
#include <fn/placer.h>
#include <stdbool.h>
#include <stdint.h>

#define CALL_ID_LEN 26

/* Of functions and of their calls. */
#define MODEL_TIMEOUT_S_MAX 300
#define MODEL_IDLE_S_MAX    3600
#define MODEL_CPU_MILLI_MAX 1024000

/* Texts by key (config, annotations, extensions), in the order of the keys' bytes. */
struct kvs {
    struct arena *arena;
    struct fn_kv *items;
    uint32_t n;
    uint32_t cap;
};

void kvs_init(struct kvs *k, struct arena *arena);
int kvs_set(struct kvs *k, const char *key, const char *value); /* copies; replaces */
/* The same with texts that live as long as the set. */
int kvs_set_borrowed(struct kvs *k, const char *key, const char *value);
void kvs_remove(struct kvs *k, const char *key);
const char *kvs_get(const struct kvs *k, const char *key); /* or NULL */
int kvs_copy(struct kvs *to, const struct kvs *from);

struct call {
    struct arena *arena;
    const char *id;
    const char *image;
    bool detached; /* type "detached", else "sync" */
    const char *url;
    const char *method;
    int32_t timeout_s;
    int32_t idle_timeout_s;
    uint32_t tmpfs_mb;
    uint64_t mem_mb;
    uint64_t cpu_milli;
    struct kvs config;
    struct kvs annotations; /* values are JSON texts */
    struct headers headers;
    const char *syslog_url;
    const char *app_id;
    const char *app_name;
    const char *trigger_id;
    const char *fn_id;
    int64_t created_wall_ns; /* 0 = unset */
    int64_t started_wall_ns;
    int64_t completed_wall_ns;
};

void call_init(struct call *c, struct arena *arena);
/* What placers and listeners are shown; its texts are the call's. deadline_ns: INT64_MAX = none. */
struct fn_call call_view(const struct call *c, int64_t deadline_ns);
/* models.Call as JSON; key order and escapes as Go writes them. 0 or FN_E_EXHAUSTED. */
int call_to_json(const struct call *c, struct buf *out);
/* Accepts what Go accepts (case-insensitive keys, unknown keys ignored, null = unset, cpus as text)
 * and nothing deeper or larger than the limits. FN_E_INVALID: `RUN404 call model: line:col reason`.
 * */
int call_from_json(struct call *c, const char *json, size_t len, struct fn_error *reterr);
/* Ranges that do not depend on the node: timeouts, cpus, image syntax ... (RUN405, RUN406). */
int call_check(const struct call *c, struct fn_error *reterr);

/* Who shares a hot container: the fields of fn-runner-and-containers 2.3, appended to `out`.
 * `extension` is the driver's text or "". The key of a slot is their SHA-256. */
#define SLOT_KEY_BYTES 32
int call_identity(const struct call *c, const char *extension, struct buf *out);
void call_slot_key(const struct buf *identity, unsigned char ret[SLOT_KEY_BYTES]);

/* Ids: 48-bit ms, 48-bit machine (IPv4 and port), 32-bit counter, base 32 (fn-wire-and-api 2.5). */
struct id_maker {
    uint64_t machine; /* 48 bits */
    uint32_t counter; /* [loop] */
};
void id_maker_init(struct id_maker *m, const unsigned char ipv4[4], uint16_t port);
void id_make(struct id_maker *m, int64_t wall_ns, char ret[CALL_ID_LEN + 1]);

/* "2026-11-21T04:17:24.501Z" (UTC); ns 0 = "0001-01-01T00:00:00.000Z". */
#define TIME_TEXT_MAX 40
void time_print_ms(int64_t wall_ns, char ret[TIME_TEXT_MAX]);
void time_print_s(int64_t wall_ns, char ret[TIME_TEXT_MAX]);
int time_parse(const char *text, int64_t *ret_wall_ns);

/* Header tables that LB and runner share. */
bool header_is_hop_by_hop(const char *name, const char *value); /* Te: trailers is not */
bool header_is_framing(const char *name);  /* Content-Length, Transfer-Encoding, Connection ... */
bool header_is_reserved(const char *name); /* Fn-Call-Id, Fn-Deadline, Fn-Intent, Fn-Http-* */
bool header_name_is_token(const char *name);
bool header_value_is_clean(const char *value); /* no CTL but TAB; valid UTF-8 */

#endif
