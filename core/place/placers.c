/* Placers: which one serves, and which one is its shadow. */
#include <place/place_int.h>

#include <base/log.h>

int place_set_placer(struct place *p, struct plugin *placer, void (*gone)(void *ud), void *ud)
{
    struct policy *y = policy_create(p, placer, gone, ud);
    int r;

    if (!y) {
        return FN_E_EXHAUSTED;
    }
    breaker_begin(p, y);
    shadow_placer_set(p);
    r = snapshots_use(p, y);
    policy_unref(y);
    return r;
}

bool place_uses(const struct place *p, const struct plugin *placer)
{
    return p->policy && p->policy->placer == placer;
}

int place_set_shadow(struct place *p, struct plugin *placer, uint32_t permille,
                     void (*gone)(void *ud), void *ud)
{
    struct policy *y = placer ? policy_create(p, placer, gone, ud) : NULL;

    if (placer && !y) {
        return FN_E_EXHAUSTED;
    }
    if (!p->shadow.policy && !y) {
        return 0;
    }
    if (shadow_set(p, y, permille) < 0) {
        policy_discard(y);
        return FN_E_EXHAUSTED;
    }
    if (snapshots_renew(p) < 0) {
        log_warn("out of memory: not every group of runners has the shadow placer's index");
    }
    return 0;
}

static int check_swap(const struct place *p, bool back, struct fn_error *reterr)
{
    const struct place_shadow *s = &p->shadow;

    if (!s->policy) {
        return err_set(reterr, FN_E_NOT_FOUND,
                       "LB308 no shadow placer; expected plugins.shadow in fn.yaml");
    }
    if (back != s->swapped) {
        return err_set(reterr, FN_E_PRECONDITION,
                       back ? "LB309 nothing to take back: %s serves, as fn.yaml says"
                            : "LB309 swapped already: %s serves; expected `back` or a reload",
                       plugin_name(p->policy->placer));
    }
    if (!back && s->off_why[0]) {
        return err_set(reterr, FN_E_PRECONDITION, "LB310 shadow placer %s was turned off: %s",
                       plugin_name(s->policy->placer), s->off_why);
    }
    if (p->breaker.state != BREAKER_CLOSED) {
        return err_set(reterr, FN_E_PRECONDITION,
                       "LB311 %s was put aside and its fallback decides or it is on trial; expected a "
                       "swap when it is trusted again",
                       plugin_name(p->breaker.main->placer));
    }
    return 0;
}

int place_shadow_swap(struct place *p, bool back, struct fn_error *reterr)
{
    int r = check_swap(p, back, reterr);

    if (r < 0) {
        return r;
    }
    shadow_exchange(p);
    breaker_swapped(p);
    if (snapshots_renew(p) < 0) {
        log_error("out of memory: not every group of runners has the new placer");
    }
    log_warn(back ? "the placers were swapped back" : "the placers were swapped", "serving",
             plugin_name(p->policy->placer), "shadow", plugin_name(p->shadow.policy->placer));
    return 0;
}
