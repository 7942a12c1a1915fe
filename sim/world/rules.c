/* An overrider of ruled worlds: it numbers calls. The number is in the configuration of a call, and
 * in an extension; a reload brings another one, and calls keep that with which they began (B31). */
#include "plugins.h"
#include "world.h"

#include <base/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One generation of a load balancer's overriders: its chain, and the number. */
struct rules {
    struct chain chain;
    struct plugin *overrider;
    struct lent *lent;
    char number[16];
};

/* The instance: its options are a pointer. */
struct rules_inst {
    const struct fn_edit_if *edit;
    const struct rules *rules;
};

static int apply(void *inst, struct fn_edit *edit, struct fn_error *err)
{
    const struct rules_inst *i = inst;
    int r = i->edit->set_config(edit, "RULED", i->rules->number);

    r = r < 0 ? r : i->edit->set_extension(edit, "ruled", i->rules->number);
    return r < 0 ? err_set(err, r, "the world's rules: out of memory") : FN_CHANGED;
}

static const struct fn_override_ops ops = {
    .hdr = FN_HDR(struct fn_override_ops, FN_MAGIC_OVERRIDE),
    .apply = apply,
};

static int rules_create(const struct fn_host *host, const void *conf, void **ret_inst,
                        struct fn_error *err)
{
    struct rules_inst *i = sim_alloc(sizeof(*i));

    (void)err;
    i->edit = host->get(host, "fn.edit", 1);
    memcpy(&i->rules, conf, sizeof(i->rules));
    *ret_inst = i;
    return 0;
}

static const struct fn_need needs[] = { { .iface = "fn.edit", .major = 1 }, { .iface = NULL } };

static const struct fn_factory overrider = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_OVERRIDER,
    .name = "sim",
    .kind_major = FN_OVERRIDE_MAJOR,
    .kind_minor = FN_OVERRIDE_MINOR,
    .conf_size = sizeof(struct rules *),
    .needs = needs,
    .ops = &ops,
    .create = rules_create,
    .destroy = free,
};

static void rules_gone(struct chain *c)
{
    struct rules *rules = container_of(c, struct rules, chain);

    lent_back(rules->lent);
    free(rules);
}

void rules_use(struct lb_node *l)
{
    struct fn_error e = ERR_INIT;
    struct rules *rules;

    if (!l->n.w->plan->ruled) {
        return;
    }
    rules = sim_alloc(sizeof(*rules));
    l->rules = ++l->n.w->a.rules;
    snprintf(rules->number, sizeof(rules->number), "%u", l->rules);
    must_be(plugins_create_own(l->host, &overrider, rules, &rules->overrider, &e), &e);
    rules->lent = lent_add(l, rules->overrider, false);
    rules->chain = (struct chain){ .overriders = &rules->overrider,
                                   .n_overriders = 1,
                                   .gone = rules_gone };
    lb_set_plugins(l->lb, &rules->chain);
}
