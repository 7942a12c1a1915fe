/* The table of kinds of plugins: which operations one must fill, may fill, or fills in pairs, and
 * which interfaces of the host it may ask for. */
#include <plugin/plugin_int.h>

#include <string.h>

#define SLOT(type, field, required_)     { #field, offsetof(struct type, field), required_, NULL }
#define PAIR(type, field, other)         { #field, offsetof(struct type, field), false, #other }
#define SLOTS(array)                     (array), sizeof(array) / sizeof((array)[0])

static const struct plugin_slot placer_slots[] = {
    SLOT(fn_placer_ops, decide, true),
    SLOT(fn_placer_ops, observe, false),
    PAIR(fn_placer_ops, index_build, index_free),
    PAIR(fn_placer_ops, index_free, index_build),
};

static const struct plugin_slot pool_slots[] = {
    SLOT(fn_pool_ops, start, true),
    SLOT(fn_pool_ops, route, false),
    SLOT(fn_pool_ops, want, false),
    SLOT(fn_pool_ops, stop, true),
};

static const struct plugin_slot override_slots[] = {
    SLOT(fn_override_ops, apply, true),
};

static const struct plugin_slot listener_slots[] = {
    SLOT(fn_listener_ops, before, false),
    SLOT(fn_listener_ops, after, false),
    SLOT(fn_listener_ops, after_worker, false),
    SLOT(fn_listener_ops, before_change, false),
    SLOT(fn_listener_ops, after_change, false),
};

static const struct plugin_slot driver_slots[] = {
    SLOT(fn_driver_ops, slot_key, false),
    SLOT(fn_driver_ops, prepare_image, true),
    SLOT(fn_driver_ops, create, true),
    SLOT(fn_driver_ops, start, true),
    PAIR(fn_driver_ops, freeze, thaw),
    PAIR(fn_driver_ops, thaw, freeze),
    SLOT(fn_driver_ops, close, true),
    SLOT(fn_driver_ops, sweep, true),
    SLOT(fn_driver_ops, probe, true),
    SLOT(fn_driver_ops, uid, true),
    SLOT(fn_driver_ops, usage, false),
};

static const struct plugin_slot cplane_slots[] = {
    SLOT(fn_cplane_ops, list, true),
    SLOT(fn_cplane_ops, provision, true),
    SLOT(fn_cplane_ops, remove, true),
    SLOT(fn_cplane_ops, claim, false),
};

static const struct plugin_slot predictor_slots[] = {
    SLOT(fn_predictor_ops, predict, true),
    SLOT(fn_predictor_ops, containers, false),
};

static const struct plugin_slot operator_slots[] = {
    SLOT(fn_operator_ops, status, false),
    SLOT(fn_operator_ops, configure, false),
    SLOT(fn_operator_ops, log, false),
    SLOT(fn_operator_ops, read, false),
};

static void no_flags(struct plugin_check *c, const char *who, uint32_t flags)
{
    if (flags != 0) {
        plugin_problem(c, FN_E_UNIMPLEMENTED, "PLG910",
                       "%s: flags, got 0x%x; expected 0, this host knows none", who, flags);
    }
}

static void no_reserved(struct plugin_check *c, const char *who, uint32_t reserved)
{
    if (reserved != 0) {
        plugin_problem(c, FN_E_UNIMPLEMENTED, "PLG910", "%s: reserved0, got 0x%x; expected 0", who,
                       reserved);
    }
}

static void placer_limits(struct plugin_check *c, const char *who,
                          const union plugin_ops_copy *ops)
{
    no_flags(c, who, ops->placer.flags);
    if (ops->placer.session_size > FN_PLACER_SESSION_MAX) {
        plugin_problem(c, FN_E_INVALID, "PLG910", "%s: session_size, got %u; expected at most %u",
                       who, ops->placer.session_size, FN_PLACER_SESSION_MAX);
    }
}

static void driver_limits(struct plugin_check *c, const char *who,
                          const union plugin_ops_copy *ops)
{
    no_flags(c, who, ops->driver.flags);
    no_reserved(c, who, ops->driver.reserved0);
}

static void predictor_limits(struct plugin_check *c, const char *who,
                             const union plugin_ops_copy *ops)
{
    no_reserved(c, who, ops->predictor.reserved0);
    if (ops->predictor.state_size > FN_PREDICTOR_STATE_MAX) {
        plugin_problem(c, FN_E_INVALID, "PLG910", "%s: state_size, got %u; expected at most %u",
                       who, ops->predictor.state_size, FN_PREDICTOR_STATE_MAX);
    }
}

/* size_min is a number, not sizeof: it stays when later minors append slots. */
static const struct plugin_kind kinds[] = {
    { FN_KIND_PLACER, "placer-", FN_PLACER_MAJOR, FN_PLACER_MINOR, FN_MAGIC_PLACER,
      sizeof(struct fn_placer_ops), 48, SLOTS(placer_slots), placer_limits },
    { FN_KIND_POOL, "pool-", FN_POOL_MAJOR, FN_POOL_MINOR, FN_MAGIC_POOL,
      sizeof(struct fn_pool_ops), 40, SLOTS(pool_slots), NULL },
    { FN_KIND_OVERRIDER, "override-", FN_OVERRIDE_MAJOR, FN_OVERRIDE_MINOR, FN_MAGIC_OVERRIDE,
      sizeof(struct fn_override_ops), 16, SLOTS(override_slots), NULL },
    { FN_KIND_LISTENER, "listener-", FN_LISTENER_MAJOR, FN_LISTENER_MINOR, FN_MAGIC_LISTENER,
      sizeof(struct fn_listener_ops), 24, SLOTS(listener_slots), NULL },
    { FN_KIND_DRIVER, "driver-", FN_DRIVER_MAJOR, FN_DRIVER_MINOR, FN_MAGIC_DRIVER,
      sizeof(struct fn_driver_ops), 96, SLOTS(driver_slots), driver_limits },
    { FN_KIND_CONTROL_PLANE, "cp-", FN_CPLANE_MAJOR, FN_CPLANE_MINOR, FN_MAGIC_CPLANE,
      sizeof(struct fn_cplane_ops), 32, SLOTS(cplane_slots), NULL },
    { FN_KIND_PREDICTOR, "predictor-", FN_PREDICTOR_MAJOR, FN_PREDICTOR_MINOR,
      FN_MAGIC_PREDICTOR, sizeof(struct fn_predictor_ops), 24, SLOTS(predictor_slots),
      predictor_limits },
    { FN_KIND_OPERATOR, "operator-", FN_OPERATOR_MAJOR, FN_OPERATOR_MINOR, FN_MAGIC_OPERATOR,
      sizeof(struct fn_operator_ops), 24, SLOTS(operator_slots), NULL },
};

#define KINDS_N (sizeof(kinds) / sizeof(kinds[0]))

const struct plugin_kind *plugin_kind_find(const char *name)
{
    size_t i;

    for (i = 0; i < KINDS_N; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

const char *plugin_kind_names(void)
{
    return "placer, pool, control-plane, overrider, driver, predictor, listener, operator";
}

static const struct plugin_iface ifaces[] = {
    { "fn.op", 1, 0 },   { "fn.wake", 1, 0 }, { "fn.snap", 1, 0 },   { "fn.edit", 1, 1 },
    { "fn.http", 1, 1 }, { "fn.exec", 1, 0 }, { "fn.proc", 1, 1 }, { "fn.driver", 1, 1 },
    { "fn.placer", 1, 0 }, { "fn.rpc", 1, 0 }, { "fn.view", 1, 0 },
};

const struct plugin_iface *plugin_iface_find(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof(ifaces) / sizeof(ifaces[0]); i++) {
        if (strcmp(ifaces[i].name, name) == 0) {
            return &ifaces[i];
        }
    }
    return NULL;
}
