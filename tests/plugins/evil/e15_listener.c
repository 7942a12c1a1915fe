/* E15: before() answers what is no outcome, and errors that are none. */
#define EVIL_NAME "e15"
#include "factory.h"
#include "turns.h"

#include <fn/listener.h>

static int before(void *inst, const struct fn_call *call, struct fn_error *reterr)
{
    (void)call;
    return evil_refuse(inst, 0, reterr);
}

static const struct fn_listener_ops ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .before = before,
};
EVIL_FACTORY(evil, FN_KIND_LISTENER, FN_LISTENER, NULL, &ops, evil_turns_create, free);

#define EVIL_FACTORIES &evil
#include "file.h"
