/* View: the host side of "fn.view", what stands behind fn_call.more.
 *
 * A view reads the call itself while it is there, and else the call's text as it travels, which is
 * read when somebody asks and not before. So it costs a call nothing but these pointers, and can
 * outlive what the call was made of. Used by one thread at a time. */
#ifndef MODEL_VIEW_H
#define MODEL_VIEW_H

#include <fn/view.h>
#include <stddef.h>

struct arena;
struct call;
struct kvs;

struct fn_call_more {
    const struct call *call;      /* NULL: gone, or not read yet */
    const struct kvs *extensions; /* NULL = none */
    const char *json;             /* the call as it travels; NULL = it has not been written */
    size_t json_len;
    const char *slot_hash; /* NULL or "": made when somebody asks */
    const unsigned char *slot_key; /* what it is made of, SLOT_KEY_BYTES; NULL: of the call */
    struct arena *arena;   /* for what is made when somebody asks */
};

/* A copy that shares nothing with what it is a copy of; its texts, and all that can be asked of it,
 * are in `arena`. 0 or FN_E_EXHAUSTED. */
int view_copy(const struct fn_call *view, struct arena *arena, struct fn_call *ret);

/* The table to offer as "fn.view". It has no state. */
const struct fn_view_if *view_if(void);

#endif
