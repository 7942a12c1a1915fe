/* Stack: "fn.placer", how a placer finds the one that it wraps.
 *
 * fn.yaml lists placers from the inside out. A wrapper asks for its inner one by name while it is
 * being created, so only those that stand before it are known. A reload begins an empty stack: a
 * name means an instance of the same configuration, never one that is being drained. */
#include <place/place_int.h>

#include <string.h>

void place_stack_begin(struct place *p)
{
    p->stack_n = 0;
}

int place_stack_add(struct place *p, struct plugin *placer, struct fn_error *reterr)
{
    if (p->stack_n == PLACE_STACK_MAX) {
        return err_set(reterr, FN_E_RANGE, "placers, got %u; expected at most %u",
                       PLACE_STACK_MAX + 1, PLACE_STACK_MAX);
    }
    p->stack[p->stack_n++] = placer;
    return 0;
}

static int find_inner(const struct fn_host *host, const char *name,
                      const struct fn_placer_ops **ret_ops, void **ret_inst,
                      struct fn_error *reterr)
{
    const struct place *p = plugin_impl(host, "fn.placer");

    for (uint32_t i = 0; i < p->stack_n; i++) {
        if (strcmp(plugin_name(p->stack[i]), name) == 0) {
            *ret_ops = plugin_ops(p->stack[i]);
            *ret_inst = plugin_inst(p->stack[i]);
            return 0;
        }
    }
    return err_set(reterr, FN_E_NOT_FOUND,
                   "inner placer, got \"%s\"; expected the name of a placer above it", name);
}

const struct fn_placer_if place_placer_if = { FN_HDR(struct fn_placer_if, FN_MAGIC_PLACERS),
                                              find_inner };
