/* Fields: the parts of a call by the numbers and names that the plugin ABI has for them
 * (FN_TEXT_*, FN_FIELD_*, FN_PAIRS_*); what "fn.edit" and "fn.view" have in common. */
#ifndef MODEL_FIELDS_H
#define MODEL_FIELDS_H

#include <fn/override.h>
#include <model/call.h>

#define CALL_TYPE_SYNC     "sync"
#define CALL_TYPE_DETACHED "detached"

/* "" if it is not set or known; FN_TEXT_SLOT_HASH is not known here. */
const char *call_text(const struct call *c, uint32_t text_id);
uint64_t call_u64(const struct call *c, uint32_t field); /* 0 for a field that there is not */
/* 0, FN_E_INVALID: no such field, FN_E_RANGE. What a node can really give is its own check. */
int call_set_u64(struct call *c, uint32_t field, uint64_t v);
/* The first value or NULL. A trigger's call has the client's headers under longer names, which
 * plugins need not know. */
const char *call_header(const struct call *c, const char *name);
/* The i-th of FN_PAIRS_*: 0 or FN_E_RANGE. `extensions` may be NULL. */
int call_pair(const struct call *c, const struct kvs *extensions, uint32_t pairs, uint32_t i,
              struct fn_kv *ret);

#endif
