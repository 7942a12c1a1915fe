/* control-plane/fixed: machines that exist already, given out by need. Go Fn (2018): the noop
 * control plane, which added each address once per runner that was asked for. */
#include "fixed.h"
#include "shipped.h"

#include <stdlib.h>
#include <string.h>

struct conf {
    struct fn_strlist addresses;
    int64_t delay_ns;
    int64_t capacity_mb;
    const char *adopted;
};

struct cp {
    const struct fn_host *host;
    const struct conf *conf;
    struct fixed *fixed;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    const struct conf *c = conf;
    struct cp *cp = calloc(1, sizeof(*cp));
    int r;

    if (!cp) {
        return FN_E_EXHAUSTED;
    }
    cp->host = host;
    cp->conf = c;
    r = fixed_create(&c->addresses, strcmp(c->adopted, "all") == 0, &cp->fixed, reterr);
    if (r < 0) {
        free(cp);
        return r;
    }
    *ret_inst = cp;
    return 0;
}

static void destroy(void *inst)
{
    struct cp *cp = inst;

    if (cp) {
        fixed_destroy(cp->fixed);
        free(cp);
    }
}

static int list(void *inst, struct fn_op *op, const char *group, const struct fn_machine_sink *out,
                struct fn_error *reterr)
{
    struct cp *cp = inst;

    (void)op; /* nothing to wait for */
    return fixed_list(cp->fixed, group, cp->host->clock->now_ns(cp->host),
                      (uint64_t)cp->conf->capacity_mb, out, reterr);
}

static int provision(void *inst, struct fn_op *op, const char *group, uint32_t n,
                     uint64_t request_id, uint32_t *ret_accepted, struct fn_error *reterr)
{
    struct cp *cp = inst;
    int64_t ready_ns = cp->host->clock->now_ns(cp->host) + cp->conf->delay_ns;

    (void)op;
    return fixed_provision(cp->fixed, group, n, request_id, ready_ns, ret_accepted, reterr);
}

static int remove_machine(void *inst, struct fn_op *op, const char *group, const char *machine_id,
                          struct fn_error *reterr)
{
    struct cp *cp = inst;

    (void)op;
    (void)reterr;
    fixed_remove(cp->fixed, group, machine_id);
    return 0;
}

static const struct fn_cplane_ops ops = {
    .hdr = FN_HDR(struct fn_cplane_ops, FN_MAGIC_CPLANE),
    .list = list,
    .provision = provision,
    .remove = remove_machine,
};

static const struct fn_opt opts[] = {
    {.key = "addresses",
     .doc = "Addresses of the machines' gRPC ports: host:port for the group default, or "
            "group=host:port. Each address belongs to one group. Labels of the runner come "
            "after it: \"10.0.0.1:9190 zone=a class=gpu\".",
     .type = FN_OPT_STRLIST,
     .offset = offsetof(struct conf, addresses)},
    {.key = "delay",
     .doc = "Time after which a machine that was requested is listed. It imitates a slow cloud in "
            "tests; leave it at 0s otherwise.",
     .dflt = "0s",
     .min = 0,
     .max = 3600000000000,
     .type = FN_OPT_DURATION,
     .offset = offsetof(struct conf, delay_ns)},
    {.key = "capacity",
     .doc = "Memory of a machine for functions, in MB, until its runner has reported it; 0 = "
            "npm.runner_mb.",
     .dflt = "0",
     .min = 0,
     .max = 16 << 20,
     .type = FN_OPT_INT,
     .offset = offsetof(struct conf, capacity_mb)},
    {.key = "adopted",
     .doc = "Which machines count as in use after a start of the manager: all = every machine, "
            "until the manager finds that it does not answer or is not needed; none = no machine, "
            "so runners of before are forgotten (for tests).",
     .dflt = "all",
     .choices = "all|none",
     .type = FN_OPT_CHOICE,
     .offset = offsetof(struct conf, adopted)},
    {.key = NULL},
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_CONTROL_PLANE,
    .name = "fixed",
    .summary = "Machines that exist already, given out by need.",
    .kind_major = FN_CPLANE_MAJOR,
    .kind_minor = FN_CPLANE_MINOR,
    .conf_size = sizeof(struct conf),
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(cp_fixed, "cp-fixed", &factory)
