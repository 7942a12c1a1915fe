/* overrider/rules: what an operator wants of calls, as a list of rules. */
#include "rules.h"
#include "shipped.h"

#include <stdlib.h>

struct conf {
    struct fn_strlist rules;
};

struct instance {
    const struct fn_host *host;
    const struct fn_edit_if *edit;
    struct rules rules;
    uint32_t changed;
    uint32_t refused;
};

static void destroy(void *inst)
{
    struct instance *i = inst;

    if (i) {
        rules_finish(&i->rules);
        free(i);
    }
}

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    const struct conf *c = conf;
    struct instance *i = calloc(1, sizeof(*i));
    int r;

    if (!i) {
        return FN_E_EXHAUSTED;
    }
    i->host = host;
    i->edit = host->get(host, "fn.edit", 1);
    r = rules_read(&i->rules, &c->rules, reterr);
    r = r < 0 ? r : host->metric->declare(host, "changed", FN_METRIC_COUNTER, &i->changed);
    r = r < 0 ? r : host->metric->declare(host, "refused", FN_METRIC_COUNTER, &i->refused);
    if (r < 0) {
        destroy(i);
        return r;
    }
    *ret_inst = i;
    return 0;
}

static int apply(void *inst, struct fn_edit *edit, struct fn_error *reterr)
{
    const struct instance *i = inst;
    int r = rules_apply(&i->rules, i->edit, edit, reterr);

    if (r != FN_PASS) {
        i->host->metric->add(i->host, r < 0 ? i->refused : i->changed, 1);
    }
    return r;
}

static const struct fn_override_ops ops = {
    .hdr = FN_HDR(struct fn_override_ops, FN_MAGIC_OVERRIDE),
    .apply = apply,
};

static const struct fn_need needs[] = {
    { .iface = "fn.edit", .major = 1 },
    { .iface = NULL },
};

static const struct fn_opt opts[] = {
    { .key = "rules",
      .doc = "What becomes of which calls, in this order: \"app=shop header:X-Plan!=gold -> "
             "memory<=256 timeout=30s\" (overriders.md). At most 128.",
      .type = FN_OPT_STRLIST,
      .offset = offsetof(struct conf, rules) },
    { .key = NULL },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_OVERRIDER,
    .name = "rules",
    .summary = "Changes or refuses calls by rules.",
    .kind_major = FN_OVERRIDE_MAJOR,
    .kind_minor = FN_OVERRIDE_MINOR,
    .conf_size = sizeof(struct conf),
    .needs = needs,
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(override_rules, "override-rules", &factory)
