/* Groups: the runners and the waiting calls that share a name.
 *
 * They are made by the calls and lists that name them. One that has neither for some seconds is
 * given up when its place is wanted. */
#include <place/place_int.h>

#include <base/hash.h>
#include <base/log.h>
#include <stdlib.h>
#include <string.h>

#define WANT_INTERVAL_NS (1 * ENV_S)

/* ---- demand ---------------------------------------------------------------------------------- */

static void on_want(struct env_timer *t)
{
    struct place_group *g = container_of(t, struct place_group, want_timer);
    struct place *p = g->place;
    struct fn_demand demand = { sizeof(demand), 0, g->mem_mb, g->waiting_n, g->trying_n };
    struct plugin_crumb crumb;

    g->calls++; /* it must not go for a list that the pool publishes meanwhile */
    plugin_enter(&crumb, p->source->pool, PLUGIN_LOOP, "want");
    p->source->ops->want(plugin_inst(p->source->pool), g->name, &demand);
    plugin_leave(&crumb);
    g->calls--;
    env_timer_set(p->deps.env, t, env_now_ns(p->deps.env) + WANT_INTERVAL_NS);
}

/* ---- which exist ----------------------------------------------------------------------------- */

void group_destroy(struct place_group *g)
{
    waiting_finish(g);
    env_timer_clear(g->place->deps.env, &g->want_timer);
    listing_forget(g);
    g->place->epochs += g->snap->view.epoch + 1; /* of all that went: never one twice */
    snapshot_mark(g, 0, 0);
    snapshot_unref(g->snap);
    if (g->listings_n > 0) {
        listings_finish(g->place);
    }
    HASH_DEL(g->place->groups, g);
    free(g);
}

static bool is_empty(const struct place_group *g)
{
    return g->snap->view.n == 0 && !g->binding;
}

/* Nobody would miss it: it comes back with the next call or list. The pool has been told since that
 * nobody wants anything there. */
static bool is_idle(const struct place_group *g, int64_t now_ns)
{
    return is_empty(g) && g->calls == 0 && !g->runners && g->listings_n == 1 &&
           g->snap->refs == 1 && g != g->place->fallback &&
           now_ns - g->used_ns > 2 * WANT_INTERVAL_NS;
}

struct census {
    uint32_t empty, empty_of_app;
    struct place_group *idle;        /* the one that was used longest ago; NULL = none */
    struct place_group *idle_of_app; /* the same among the app's */
};

static struct census count_groups(const struct place *p, uint64_t app)
{
    int64_t now_ns = env_now_ns(p->deps.env);
    struct census c = { 0 };
    struct place_group *g;

    for (g = p->groups; g; g = g->hh.next) {
        bool idle = is_idle(g, now_ns);
        bool of_app = app != 0 && g->app == app;

        if (is_empty(g)) {
            c.empty++;
            c.empty_of_app += of_app;
        }
        if (idle && (!c.idle || g->used_ns < c.idle->used_ns)) {
            c.idle = g;
        }
        if (idle && of_app && (!c.idle_of_app || g->used_ns < c.idle_of_app->used_ns)) {
            c.idle_of_app = g;
        }
    }
    return c;
}

/* Room for one more, of a list (app 0, why NULL) or of a call; an idle one goes for it. */
static bool make_room(struct place *p, uint64_t app, bool of_call, const char **ret_why)
{
    struct census c = count_groups(p, app);
    struct place_group *goes = c.idle;

    if (of_call && app != 0 && c.empty_of_app >= PLACE_EMPTY_APP_MAX) {
        *ret_why = "LB301 no runner: the call's group is new, and too many groups without runners "
                   "are in use by calls of this app";
        goes = c.idle_of_app;
    } else if (of_call && c.empty >= PLACE_EMPTY_MAX) {
        *ret_why = "LB301 no runner: the call's group is new, and too many groups without runners "
                   "are in use";
    } else if (HASH_COUNT(p->groups) >= PLACE_GROUPS_MAX) {
        *ret_why = "LB301 no runner: the call's group is new, and too many groups are in use";
    } else {
        return true;
    }
    if (goes) {
        group_destroy(goes);
    }
    return goes != NULL;
}

static struct place_group *group_create(struct place *p, const char *name, uint64_t app)
{
    struct place_group *g = calloc(1, sizeof(*g));

    if (!g) {
        return NULL;
    }
    memcpy(g->name, name, strlen(name));
    g->place = p;
    g->app = app;
    g->used_ns = env_now_ns(p->deps.env);
    waiting_init(g);
    g->want_timer.cb = on_want;
    HASH_ADD_STR(p->groups, name, g);
    if (!table_has(g)) {
        free(g);
        return NULL;
    }
    if (listing_clear(g) < 0) {
        HASH_DEL(p->groups, g);
        free(g);
        return NULL;
    }
    if (p->source && p->source->ops->want && !p->stopping) {
        env_timer_set(p->deps.env, &g->want_timer, env_now_ns(p->deps.env));
    }
    return g;
}

static struct place_group *get(struct place *p, const char *name, uint64_t app, bool of_call,
                               const char **ret_why)
{
    struct place_group *g;

    HASH_FIND_STR(p->groups, name, g);
    if (g) {
        return g;
    }
    if (strlen(name) > FN_GROUP_NAME_MAX) {
        *ret_why = "LB301 no runner: the name of the call's group is too long";
        return NULL;
    }
    if (!make_room(p, app, of_call, ret_why)) {
        return NULL;
    }
    g = group_create(p, name, app);
    if (!g) {
        *ret_why = "LB301 no runner: out of memory for the call's group";
    }
    return g;
}

struct place_group *group_get(struct place *p, const char *name)
{
    const char *ignored;

    return get(p, name, 0, false, &ignored);
}

struct place_group *group_for(struct place *p, const char *name, const char *app_id,
                              const char **ret_why)
{
    return get(p, name, app_id ? hash_text(HASH_INIT, app_id) : 0, true, ret_why);
}

int group_publish(struct place *p, struct fn_snap_builder *given)
{
    struct place_group *g = group_get(p, given->group);

    if (!g) {
        builder_free(given);
        return FN_E_EXHAUSTED;
    }
    return listing_publish(g, given);
}

int group_fail(struct place *p, const char *group, const struct fn_error *why)
{
    struct place_group *g = group_get(p, group);

    if (!g) {
        return FN_E_EXHAUSTED;
    }
    snapshot_mark(g, g->snap->view.flags | FN_SNAP_STALE,
                  why->code < 0 && why->code >= FN_E_UNAUTHENTICATED ? why->code
                                                                      : FN_E_UNAVAILABLE);
    metric_add(p->metrics.refresh_failed, 1);
    log_stranger(FN_LOG_WARN, "the pool failed; its last list stays", "group", g->name, "error",
                 why->msg[0] ? why->msg : NULL);
    return 0;
}
