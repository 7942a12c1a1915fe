/* E15: apply() answers what is no outcome, and errors that are none. */
#define EVIL_NAME "e15"
#include "factory.h"
#include "turns.h"

#include <fn/override.h>

static int apply(void *inst, struct fn_edit *edit, struct fn_error *reterr)
{
    (void)edit;
    return evil_refuse(inst, 0, reterr);
}

static const struct fn_override_ops ops = { FN_HDR(struct fn_override_ops, FN_MAGIC_OVERRIDE),
                                            apply };
EVIL_FACTORY(evil, FN_KIND_OVERRIDER, FN_OVERRIDE, NULL, &ops, evil_turns_create, free);

#define EVIL_FACTORIES &evil
#include "file.h"
