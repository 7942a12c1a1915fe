/* Sources: one pool in use, from its start until its stop() is done.
 *
 *   starting ──start() == 0──▶ current ──another one is current──▶ stopping ──done()──▶ over
 *      └──start() failed──▶ forgotten: what it published is dropped, the running one stays
 *
 * What a pool publishes before its start() returned is held back and taken when it is the current
 * one; what it publishes after another one took over is refused, until its last callback has
 * returned. What is held back goes with its instance at the latest. Lists of the old pool stay
 * until the new one publishes a list of the same group, at most pool_grace_ns: then the group is
 * emptied. */
#include <place/place_int.h>

#include <base/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD_MAX 512u /* lists and failures that pools told which are not started */
#define STOP_S   5    /* after which a pool that stops is named */

/* ---- lists that came too early --------------------------------------------------------------- */

/* The next one of this pool, NULL = of any, out of the list; NULL: there is none. */
static struct fn_snap_builder *held_take(struct place *p, const struct plugin *pool)
{
    struct fn_snap_builder *b;

    TAILQ_FOREACH(b, &p->held, link_held) {
        if (!pool || plugin_of(b->host) == pool) {
            TAILQ_REMOVE(&p->held, b, link_held);
            p->held_n--;
            return b;
        }
    }
    return NULL;
}

static void drop_held(struct place *p, const struct plugin *pool)
{
    struct fn_snap_builder *b;

    while ((b = held_take(p, pool))) {
        builder_free(b);
    }
}

void source_release(void *impl, const struct fn_host *host)
{
    drop_held(impl, plugin_of(host));
}

static int take_one(struct place *p, struct fn_snap_builder *b)
{
    int r;

    if (!b->failed) {
        return group_publish(p, b);
    }
    r = group_fail(p, b->group, b->failed);
    builder_free(b);
    return r;
}

static int take_held(struct place *p, const struct plugin *pool)
{
    struct fn_snap_builder *b;
    int result = 0;

    while ((b = held_take(p, pool))) {
        char group[sizeof(b->group)];
        int r;

        memcpy(group, b->group, sizeof(group));
        r = take_one(p, b);
        if (r < 0) {
            log_warn("a list of the new pool was not taken", "group", group, "error", err_name(r));
        }
        result = result < 0 ? result : r;
    }
    return result;
}

static bool is_leaving(const struct place *p, const struct plugin *pool)
{
    const struct source *s;

    LIST_FOREACH(s, &p->sources_leaving, link_leaving) {
        if (s->pool == pool) {
            return true;
        }
    }
    return false;
}

enum source_word source_judge(const struct place *p, const struct plugin *pool)
{
    if (p->source && p->source->pool == pool) {
        return SOURCE_CURRENT;
    }
    return is_leaving(p, pool) || plugin_is_retired(pool) ? SOURCE_REFUSED : SOURCE_HELD;
}

int source_hold(struct place *p, struct fn_snap_builder *given)
{
    if (p->held_n >= HELD_MAX) {
        return FN_E_EXHAUSTED;
    }
    TAILQ_INSERT_TAIL(&p->held, given, link_held);
    p->held_n++;
    return 0;
}

/* ---- the end of a source --------------------------------------------------------------------- */

static bool all_stopped(const struct place *p)
{
    const struct source *s;

    LIST_FOREACH(s, &p->sources_leaving, link_leaving) {
        if (!s->over) {
            return false;
        }
    }
    return !p->source || p->source->stopped;
}

static void tell_stopped(struct place *p)
{
    void (*stopped)(void *) = p->stopped;

    if (stopped && all_stopped(p)) {
        p->stopped = NULL;
        stopped(p->stopped_ud);
    }
}

static void on_stopped_task(struct env_task *t)
{
    struct source *s = container_of(t, struct source, task);
    struct place *p = s->place;

    if (s != p->source) {
        s->over = true;
        if (s->gone) {
            s->gone(s->ud);
        }
    }
    tell_stopped(p);
}

static void pool_on_stopped(void *ud)
{
    struct source *s = ud;

    if (s->stopped) {
        plugin_bad_answer(s->pool, "stop: done() was called more than once");
        return;
    }
    s->stopped = true;
    env_timer_clear(s->place->deps.env, &s->stop_timer);
    env_defer(s->place->deps.env, &s->task);
}

static void on_stop_overdue(struct env_timer *t)
{
    const struct source *s = container_of(t, struct source, stop_timer);
    char what[PLUGIN_ANSWER_WHAT_MAX];

    snprintf(what, sizeof(what),
             "stop: done() was not called within %d s; the pool stays until it is", STOP_S);
    plugin_bad_answer(s->pool, what);
}

static void source_stop(struct source *s)
{
    struct env *env = s->place->deps.env;
    struct plugin_crumb crumb;

    env_timer_set(env, &s->stop_timer, env_now_ns(env) + STOP_S * ENV_S);
    plugin_enter(&crumb, s->pool, PLUGIN_LOOP, "stop");
    s->ops->stop(plugin_inst(s->pool), pool_on_stopped, s);
    plugin_leave(&crumb);
}

static void source_free(struct source *s)
{
    env_undefer(s->place->deps.env, &s->task);
    env_timer_clear(s->place->deps.env, &s->stop_timer);
    free(s);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void set_want_timers(struct place *p)
{
    struct place_group *g;

    for (g = p->groups; g; g = g->hh.next) {
        if (p->source && p->source->ops->want && !p->stopping) {
            env_timer_set(p->deps.env, &g->want_timer, env_now_ns(p->deps.env));
        } else {
            env_timer_clear(p->deps.env, &g->want_timer);
        }
    }
}

static void on_grace(struct env_timer *t)
{
    struct place *p = container_of(t, struct place, grace_timer);
    struct place_group *g;

    for (g = p->groups; g; g = g->hh.next) {
        if (g->published_by == p->source->seq || g->snap->view.n == 0) {
            continue;
        }
        log_warn("the new pool published no list of this group; it is emptied", "group", g->name,
                 "runners", log_num(g->snap->view.n));
        if (listing_clear(g) < 0) {
            env_timer_set(p->deps.env, t, env_now_ns(p->deps.env) + ENV_S);
        }
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Starts it beside the one that runs; < 0: nothing changed. */
static int source_begin(struct place *p, struct plugin *pool, struct source **ret,
                        struct fn_error *reterr)
{
    struct source *s = calloc(1, sizeof(*s));
    int r;

    if (!s) {
        return err_set(reterr, FN_E_EXHAUSTED, "pool: out of memory");
    }
    *s = (struct source){
        .place = p, .pool = pool, .ops = plugin_ops(pool), .seq = ++p->source_seq
    };
    s->task.cb = on_stopped_task;
    s->stop_timer.cb = on_stop_overdue;
    PLUGIN_ASK(r, pool, PLUGIN_LOOP, "start", 0, reterr, s->ops->start(plugin_inst(pool), reterr));
    if (r < 0) {
        drop_held(p, pool);
        free(s);
        return r;
    }
    *ret = s;
    return 0;
}

int place_start(struct place *p, struct plugin *pool, struct fn_error *reterr)
{
    struct source *s;
    int r = source_begin(p, pool, &s, reterr);

    if (r < 0) {
        return r;
    }
    p->source = s;
    set_want_timers(p);
    r = take_held(p, pool);
    return r < 0 ? err_set(reterr, r, "a list of runners could not be taken: %s", err_name(r)) : 0;
}

int place_switch_pool(struct place *p, struct plugin *pool, void (*gone)(void *ud), void *ud,
                      struct fn_error *reterr)
{
    struct source *old = p->source;
    struct source *s;
    int r;

    if (!old || p->stopping) {
        return err_set(reterr, FN_E_PRECONDITION, "the pool cannot be replaced while the node %s",
                       p->stopping ? "stops" : "starts");
    }
    r = source_begin(p, pool, &s, reterr);
    if (r < 0) {
        return r;
    }
    old->gone = gone;
    old->ud = ud;
    LIST_INSERT_HEAD(&p->sources_leaving, old, link_leaving);
    p->source = s;
    set_want_timers(p);
    take_held(p, pool);
    p->grace_timer.cb = on_grace;
    env_timer_set(p->deps.env, &p->grace_timer,
                  env_now_ns(p->deps.env) + p->deps.options.pool_grace_ns);
    source_stop(old);
    return 0;
}

void place_forget_pool(struct place *p, const struct plugin *pool)
{
    struct source *s;

    drop_held(p, pool);
    LIST_FOREACH(s, &p->sources_leaving, link_leaving) {
        if (s->pool == pool) {
            LIST_REMOVE(s, link_leaving);
            source_free(s);
            return;
        }
    }
}

void place_stop(struct place *p, void (*done)(void *ud), void *ud)
{
    struct place_group *g;

    p->stopping = true;
    p->stopped = done;
    p->stopped_ud = ud;
    env_timer_clear(p->deps.env, &p->grace_timer);
    for (g = p->groups; g; g = g->hh.next) {
        group_wake(g, g->waiting_n, FN_WAKE_POOL | FN_WAKE_CAPACITY | FN_WAKE_PLUGIN);
    }
    set_want_timers(p);
    source_stop(p->source);
}

void sources_finish(struct place *p)
{
    struct source *s;

    env_timer_clear(p->deps.env, &p->grace_timer);
    drop_held(p, NULL);
    while ((s = LIST_FIRST(&p->sources_leaving))) {
        LIST_REMOVE(s, link_leaving);
        if (s->gone && !s->over) {
            s->gone(s->ud);
        }
        source_free(s);
    }
    if (p->source) {
        source_free(p->source);
        p->source = NULL;
    }
}
