/* Call: one invocation as it travels, with its JSON form (models.Call).
 *
 * All texts live in the call's arena or are borrowed from something that outlives it (a pinned
 * function). Go Fn: api/models/call.go. */
#ifndef MODEL_CALL_H
#define MODEL_CALL_H

#include <base/buf.h>
#include <base/err.h>
#include <base/headers.h>
#include <fn/placer.h>
#include <model/kvs.h>
#include <model/limits.h>
#include <stdbool.h>
#include <stdint.h>

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
/* The text of a method that callers use, in static storage; NULL: another one. Methods are
 * strangers' words, while labels and names of spans are few. */
const char *call_known_method(const char *method);
/* What placers and listeners are shown; its texts are the call's. deadline_ns: INT64_MAX = none.
 * `more` (view.h) is borrowed. */
struct fn_call call_view(const struct call *c, int64_t deadline_ns, struct fn_call_more *more);
/* models.Call as JSON; key order and escapes as Go writes them. 0 or FN_E_EXHAUSTED. */
int call_to_json(const struct call *c, struct buf *out);
/* Accepts what Go accepts (case-insensitive keys, unknown keys ignored, null = unset, cpus as text)
 * and nothing deeper or larger than the limits. FN_E_INVALID: `RUN404 call model: line:col
 * reason`. */
int call_from_json(struct call *c, const char *json, size_t len, struct fn_error *reterr);
/* Ranges that do not depend on the node: timeouts, cpus, image syntax ... (RUN404 to
 * RUN406). */
int call_check(const struct call *c, struct fn_error *reterr);
bool call_image_is_name(const char *image);
int call_check_image(const char *image, struct fn_error *reterr); /* RUN406 */

/* Who shares a hot container, appended to `out`: the fields that Go's runner hashes, in its order.
 * `extension` is the driver's text or "". The key of a slot is their SHA-256. */
#define SLOT_KEY_BYTES 32
int call_identity(const struct call *c, const char *extension, struct buf *out);
void call_slot_key(const struct buf *identity, unsigned char ret[SLOT_KEY_BYTES]);
/* What a runner adds to the config of every call, before its identity is taken. 0 or
 * FN_E_EXHAUSTED. */
int call_add_contract(struct call *c);
#define SLOT_HEX_BYTES (2 * SLOT_KEY_BYTES + 1)
void call_key_hex(const unsigned char key[SLOT_KEY_BYTES], char ret[SLOT_HEX_BYTES]);
/* The key in hex that a runner would make of `c` without extensions. 0 or FN_E_EXHAUSTED. */
int call_slot_hex(const struct call *c, char ret[SLOT_HEX_BYTES]);

#endif
