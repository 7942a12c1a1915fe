/* The breaker between the operator's placer and its fallback.
 *
 *   closed ──3 strikes in 10 s──▶ open ──30 s──▶ trial ──32 good decisions──▶ closed
 *                                   ▲                └──one strike: twice the pause──┐
 *                                   └────────────────────────────────────────────────┘
 *
 *   to open           open_it(): the fallback is the policy in use, the timer is set
 *   open to trial     breaker_on_timer(): the placer is in use again
 *   trial to closed   breaker_good(); breaker_finish() ends each state so, with its policies let go
 *
 * A strike is a decision over its time budget or an answer that breaks the contract. While it is
 * open the fallback is the policy in use, with indexes and sessions of its own; each change is one
 * line in the log. Without a fallback there is no breaker: a bad answer fails its call, a slow
 * decision is counted. A fallback that misbehaves has none behind it. */
#include <place/place_int.h>

#include <base/log.h>

#define WINDOW_NS    (10 * ENV_S)
#define PAUSE_MIN_NS (30 * ENV_S)
#define PAUSE_MAX_NS (600 * ENV_S)
#define TRIAL_GOOD   32u

static void set_state(struct breaker *b, enum breaker_state state)
{
    b->state = state;
    metric_set(metric_simple("fn_placer_breaker", METRIC_GAUGE,
                             "0: the placer decides, 1: its fallback, 2: the placer is on trial."),
               state);
    plugin_degraded(DEGRADED_PLACER_FALLBACK, state == BREAKER_OPEN);
}

static struct metric *opened(void)
{
    return metric_simple("fn_placer_breaker_opened", METRIC_COUNTER,
                         "Times that the fallback took over from the placer.");
}

static void open_it(struct place *p, const char *why)
{
    struct breaker *b = &p->breaker;

    set_state(b, BREAKER_OPEN);
    b->n_strikes = 0;
    b->main->distrusted = true;
    metric_add(opened(), 1);
    log_error("the placer is out of use after bad or slow decisions; the fallback placer decides",
              "plugin", plugin_name(b->main->placer), "fallback", plugin_name(b->fallback->placer),
              "last", why, "again_in_s", log_num(b->pause_ns / ENV_S));
    env_timer_set(p->deps.env, &b->timer, env_now_ns(p->deps.env) + b->pause_ns);
    b->pause_ns = b->pause_ns * 2 < PAUSE_MAX_NS ? b->pause_ns * 2 : PAUSE_MAX_NS;
    if (snapshots_use(p, b->fallback) < 0) {
        log_error("out of memory: not every group of runners got the fallback placer");
    }
}

static void breaker_on_timer(struct env_timer *t)
{
    struct place *p = container_of(t, struct place, breaker.timer);
    struct breaker *b = &p->breaker;

    set_state(b, BREAKER_TRIAL);
    b->good = 0;
    b->main->distrusted = false;
    log_info("the placer decides again, on trial", "plugin", plugin_name(b->main->placer));
    if (snapshots_use(p, b->main) < 0) {
        log_error("out of memory: not every group of runners got the placer back");
    }
}

bool breaker_strike(struct policy *y, const char *why)
{
    struct place *p = y->place;
    struct breaker *b = &p->breaker;
    int64_t now_ns = env_now_ns(p->deps.env);
    int64_t oldest_ns;

    if (!b->fallback || y != b->main) {
        return false;
    }
    if (b->state == BREAKER_OPEN) {
        return true; /* the end of a round that began before */
    }
    b->strikes_ns[b->n_strikes++ % BREAKER_STRIKES] = now_ns;
    if (b->state == BREAKER_TRIAL) {
        open_it(p, why);
        return true;
    }
    /* With this one there are BREAKER_STRIKES: the oldest of them is the next to be overwritten. */
    oldest_ns = b->strikes_ns[b->n_strikes % BREAKER_STRIKES];
    if (b->n_strikes >= BREAKER_STRIKES && now_ns - oldest_ns <= WINDOW_NS) {
        open_it(p, why);
    }
    return true;
}

void breaker_good(struct policy *y)
{
    struct breaker *b = &y->place->breaker;

    if (b->state != BREAKER_TRIAL || y != b->main || ++b->good < TRIAL_GOOD) {
        return;
    }
    set_state(b, BREAKER_CLOSED);
    b->pause_ns = PAUSE_MIN_NS;
    b->n_strikes = 0;
    log_info("the placer is trusted again", "plugin", plugin_name(b->main->placer));
}

void breaker_begin(struct place *p, struct policy *main)
{
    struct breaker *b = &p->breaker;

    breaker_finish(p);
    set_state(b, BREAKER_CLOSED); /* its metrics are there from now on */
    opened();
    b->main = policy_ref(main);
    b->pause_ns = PAUSE_MIN_NS;
    b->timer.cb = breaker_on_timer;
}

void breaker_swapped(struct place *p)
{
    struct breaker *b = &p->breaker;

    policy_unref(b->main);
    b->main = policy_ref(p->policy);
    b->n_strikes = 0;
    b->pause_ns = PAUSE_MIN_NS;
}

void breaker_finish(struct place *p)
{
    struct breaker *b = &p->breaker;

    env_timer_clear(p->deps.env, &b->timer);
    if (b->state != BREAKER_CLOSED) {
        set_state(b, BREAKER_CLOSED);
    }
    b->n_strikes = 0;
    policy_unref(b->main);
    policy_unref(b->fallback);
    b->main = b->fallback = NULL;
}

int place_set_fallback(struct place *p, struct plugin *placer, void (*gone)(void *ud), void *ud)
{
    struct policy *y = policy_create(p, placer, gone, ud);

    if (!y) {
        return FN_E_EXHAUSTED;
    }
    p->breaker.fallback = y;
    set_state(&p->breaker, BREAKER_CLOSED);
    return 0;
}
