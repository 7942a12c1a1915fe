/* E15: a cloud that lists what is no machine, sells more than was asked for, and answers what is no
 * result. Then it is well: its one machine is never ready. */
#define EVIL_NAME "e15"
#include "factory.h"
#include "turns.h"

#include <fn/cplane.h>

enum { LIST, PROVISION };

static char large[1024];

/* Seven entries, eight wrong answers: an id and an address that stand twice among them. */
static void add_nonsense(const struct fn_machine_sink *out)
{
    const uint32_t size = sizeof(struct fn_machine);
    const struct fn_machine list[] = {
        { size, FN_MACHINE_STARTING, NULL, NULL, 0, NULL },
        { size, FN_MACHINE_STARTING, large, NULL, 0, NULL },
        { size, FN_MACHINE_READY, "no-address", NULL, 0, NULL },
        { size, FN_MACHINE_READY, "bad-address", "two words", 0, NULL },
        { size, 4711, "bad-state", NULL, UINT64_MAX, NULL },
        { size, FN_MACHINE_READY, "twice", "127.0.0.1:1", 0, NULL },
        { size, FN_MACHINE_READY, "twice", "127.0.0.1:1", 0, NULL },
    };

    memset(large, 'x', sizeof(large) - 1);
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        (void)out->add(out->ud, &list[i]);
    }
}

static int list_machines(void *inst, struct fn_op *op, const char *group,
                         const struct fn_machine_sink *out, struct fn_error *reterr)
{
    struct fn_machine m = { sizeof(m), FN_MACHINE_STARTING, "m-1", NULL, 0, NULL };

    (void)op;
    (void)group;
    switch (evil_turn(inst, LIST)) {
    case 0:
        if (out->add(out->ud, NULL) != FN_E_INVALID) {
            __builtin_trap();
        }
        m.size = 4;
        (void)out->add(out->ud, &m);
        return 7;
    case 1:
        evil_error(reterr);
        return FN_E_UNAVAILABLE;
    case 2:
        add_nonsense(out);
        return 0;
    default:
        return out->add(out->ud, &m);
    }
}

static int provision(void *inst, struct fn_op *op, const char *group, uint32_t n,
                     uint64_t request_id, uint32_t *ret_accepted, struct fn_error *reterr)
{
    const uint32_t turn = evil_turn(inst, PROVISION);

    (void)op;
    (void)group;
    (void)request_id;
    (void)reterr;
    *ret_accepted = turn == 0 ? n + 1 : turn == 1 ? (uint32_t)-3 : n;
    return turn == 2 ? 5 : 0;
}

static int remove_machine(void *inst, struct fn_op *op, const char *group, const char *machine_id,
                          struct fn_error *reterr)
{
    (void)inst;
    (void)op;
    (void)group;
    (void)machine_id;
    (void)reterr;
    return 0;
}

static const struct fn_cplane_ops ops = { .hdr = FN_HDR(struct fn_cplane_ops, FN_MAGIC_CPLANE),
                                          .list = list_machines,
                                          .provision = provision,
                                          .remove = remove_machine };
EVIL_FACTORY(evil, FN_KIND_CONTROL_PLANE, FN_CPLANE, NULL, &ops, evil_turns_create, free);

#define EVIL_FACTORIES &evil
#include "file.h"
