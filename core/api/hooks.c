/* Hooks: a change of an app, a function or a trigger on its way past the listeners of fn.yaml.
 *
 *   request ──▶ before_change() of each ──▶ store ──▶ answer ──▶ after_change() of each
 *                  └─ refused, or late ──▶ answer
 *
 * One line of changes per chain of listeners, one change at a time: a listener is asked and told
 * one after the other. A reload begins a line of its own, with room of its own, so that a listener
 * that hangs holds up no change behind it; how many lines there are is bound by the node's
 * generations, since each counts its chain. Nothing of the store is held while listeners think.
 * While a change is on the lane its hook belongs to the worker; everything else belongs to the
 * loop. */
#include <api/api_int.h>

#include <base/log.h>
#include <override/chain.h>
#include <plugin/answer.h>
#include <stdlib.h>

#define TIME_NS   (FN_CHANGE_TIME_S * ENV_S)
#define RETURN_NS (1 * ENV_S)   /* for a listener that was told to come back */
#define AGAIN_NS  (100 * ENV_MS) /* when no worker could take a change */
#define DRAIN_NS  (FN_LISTENER_DRAIN_S * ENV_S)
#define REFUSED   403 /* unless the listener says something else */
#define REFUSED_MIN 400
#define REFUSED_MAX 599

struct hooks {
    LIST_ENTRY(hooks) link;
    struct api *api;
    struct env *env;
    struct chain *chain; /* counted */
    bool asks, tells;    /* one of its listeners has before_change(), after_change() */
    uint32_t refs;       /* the API's, of the line in use, and each change's */
    uint32_t heard;      /* changes that are in it, FN_CHANGES_MAX at most */
    struct api_calls waiting;
    struct api_call *running;
    struct env_work work;
    struct env_timer again;
};

static void hooks_look(struct hooks *h);

static void hooks_unref(struct hooks *h)
{
    if (--h->refs == 0) {
        env_timer_clear(h->env, &h->again);
        LIST_REMOVE(h, link);
        chain_unref(h->chain);
        free(h);
    }
}

/* ---- what a change is ------------------------------------------------------------------------ */

static const char *text_of(const char *s)
{
    return s ? s : "";
}

/* Before an update there is nothing but what the client said. */
static int write_json(struct api_call *c, struct buf *out)
{
    const struct store_verb *verb = c->op.verb;

    if (verb->act == STORE_REMOVE) {
        return 0;
    }
    if (verb->act == STORE_CHANGE && !c->hook.made) {
        return buf_add(out, c->rq->body, c->rq->body_len);
    }
    return tell_plain(c, out);
}

/* As it is to be, or as it is now. 0 or FN_E_EXHAUSTED. */
static int describe(struct api_call *c)
{
    static const uint32_t kinds[] = { [STORE_APP] = FN_CHANGE_APP,
                                      [STORE_FN] = FN_CHANGE_FUNCTION,
                                      [STORE_TRIGGER] = FN_CHANGE_TRIGGER };
    static const uint32_t verbs[] = { [STORE_ADD] = FN_CHANGE_CREATE,
                                      [STORE_CHANGE] = FN_CHANGE_UPDATE,
                                      [STORE_REMOVE] = FN_CHANGE_DELETE };
    const struct store_verb *verb = c->op.verb;
    struct store_op *op = &c->op;
    struct hook *hook = &c->hook;
    int r;

    buf_clear(&hook->json);
    r = write_json(c, &hook->json);
    hook->change = (struct fn_change){
        .size = sizeof(hook->change),
        .kind = kinds[verb->kind],
        .verb = verbs[verb->act],
        .json = verb->act == STORE_REMOVE ? NULL : buf_text(&hook->json),
        .json_len = (uint32_t)hook->json.len,
        .who = text_of(c->who),
        .request_id = text_of(c->request_id),
        .id = text_of(*store_id(op)),
        .name = text_of(*store_name(op)),
        .app_id = text_of(verb->kind == STORE_APP  ? op->app.id
                          : verb->kind == STORE_FN ? op->fn.app_id
                                                   : op->trigger.app_id),
        .app_name = verb->kind == STORE_FN ? "" : text_of(op->app.name),
    };
    return r;
}

/* ---- on the lane ----------------------------------------------------------------------------- */

static void is_late(struct hook *hook, const char *listener)
{
    hook->result = err_set_http(&hook->error, FN_E_DEADLINE, 503, FN_BLAME_PLUGIN,
                                "API1114 the listener %s did not answer within %d s; nothing was "
                                "changed", listener, FN_CHANGE_TIME_S);
}

/* What it said, as an answer of the API. */
static void is_refused(struct hook *hook, const char *listener, int r)
{
    struct fn_error *e = &hook->error;

    hook->result = r;
    if (e->http_status < REFUSED_MIN || e->http_status > REFUSED_MAX) {
        e->http_status = REFUSED;
    }
    if (!e->msg[0]) {
        err_set_http(e, r, e->http_status, FN_BLAME_USER,
                     "API1113 the listener %s refused the change", listener);
    }
}

static void ask_listener(struct hooks *h, struct hook *hook, struct plugin *p, struct fn_op *op)
{
    const struct fn_listener_ops *ops = plugin_ops(p);
    struct plugin_crumb crumb;
    int r;

    hook->error = ERR_INIT;
    plugin_enter(&crumb, p, PLUGIN_WORKER, "before_change");
    r = ops->before_change(plugin_inst(p), op, &hook->change, &hook->error);
    plugin_leave(&crumb);
    r = plugin_answer_result(p, "before_change", r, 0, &hook->error);
    if (h->env->now_ns(h->env) >= hook->due_ns) {
        is_late(hook, plugin_name(p));
    } else if (r < 0) {
        is_refused(hook, plugin_name(p), r);
    }
}

static void tell_listener(struct hook *hook, struct plugin *p, struct fn_op *op)
{
    const struct fn_listener_ops *ops = plugin_ops(p);
    struct plugin_crumb crumb;

    plugin_enter(&crumb, p, PLUGIN_WORKER, "after_change");
    ops->after_change(plugin_inst(p), op, &hook->change);
    plugin_leave(&crumb);
}

static void hooks_run(struct env_work *w, struct fn_op *op)
{
    struct hooks *h = container_of(w, struct hooks, work);
    struct hook *hook = &h->running->hook;

    for (uint32_t i = 0; i < h->chain->n_listeners && hook->result == 0; i++) {
        struct plugin *p = h->chain->listeners[i];
        const struct fn_listener_ops *ops = plugin_ops(p);

        if (hook->made && ops->after_change) {
            tell_listener(hook, p, op);
        } else if (!hook->made && ops->before_change) {
            ask_listener(h, hook, p, op);
        }
    }
}

/* ---- on the loop ----------------------------------------------------------------------------- */

static void fail(struct api_call *c, int code, const struct fn_error *e)
{
    if (!c->gone) {
        api_call_fail(c, code, e);
    }
    c->gone = true;
}

/* Listeners have nothing against it. */
static void pass(struct api_call *c)
{
    struct fn_error e = ERR_INIT;
    int r = store_submit(c->api->deps.store, &c->op, &e);

    if (r < 0) {
        fail(c, r, &e);
        hooks_end(c);
    }
}

static void on_change_done(struct env_work *w)
{
    struct hooks *h = container_of(w, struct hooks, work);
    struct api_call *c = h->running;
    struct hook *hook = &c->hook;

    h->refs++;
    h->running = NULL;
    env_timer_clear(h->env, &hook->due);
    if (hook->made || hook->given_up) {
        hooks_end(c);
    } else if (hook->result < 0) {
        log_stranger(FN_LOG_INFO, "a listener refused a change", "method", c->route->method,
                     "route", c->route->pattern, "id", hook->change.id, "error", hook->error.msg);
        fail(c, hook->result, &hook->error);
        hooks_end(c);
    } else {
        pass(c);
    }
    hooks_look(h);
    hooks_unref(h);
}

static void hooks_begin(struct hooks *h)
{
    struct api_call *c = TAILQ_FIRST(&h->waiting);
    struct env_work *w = &h->work;

    w->deadline_ns = c->hook.made ? 0 : c->hook.due_ns;
    w->timeout_ns = c->hook.made ? TIME_NS : 0;
    TAILQ_REMOVE(&h->waiting, c, link);
    h->running = c;
    if (env_submit(h->env, w) < 0) {
        h->running = NULL;
        TAILQ_INSERT_HEAD(&h->waiting, c, link);
        env_timer_set(h->env, &h->again, env_now_ns(h->env) + AGAIN_NS);
    }
}

static void hooks_look(struct hooks *h)
{
    if (!h->running && !TAILQ_EMPTY(&h->waiting) && !env_timer_is_set(&h->again)) {
        hooks_begin(h);
    }
}

static void on_again(struct env_timer *t)
{
    hooks_look(container_of(t, struct hooks, again));
}

/* The client has waited long enough: whatever becomes of the question, nothing is changed. */
static void on_due(struct env_timer *t)
{
    struct api_call *c = container_of(t, struct api_call, hook.due);
    struct hooks *h = c->hook.line;
    struct fn_error e = ERR_INIT;

    if (h->running == c && env_now_ns(h->env) < c->hook.due_ns + RETURN_NS) {
        env_cancel(h->env, &h->work);
        env_timer_set(h->env, t, c->hook.due_ns + RETURN_NS);
        return;
    }
    err_set_http(&e, FN_E_DEADLINE, 503, FN_BLAME_PLUGIN,
                 "API1114 the listeners of changes did not answer within %d s; nothing was changed",
                 FN_CHANGE_TIME_S);
    log_stranger(FN_LOG_WARN, "a change was given up: its listeners are too slow", "method",
                 c->route->method, "route", c->route->pattern, "id", c->hook.change.id);
    fail(c, FN_E_DEADLINE, &e);
    if (h->running == c) {
        c->hook.given_up = true;
    } else {
        TAILQ_REMOVE(&h->waiting, c, link);
        hooks_end(c);
    }
}

static void hooks_queue(struct api_call *c)
{
    struct hooks *h = c->hook.line;

    TAILQ_INSERT_TAIL(&h->waiting, c, link);
    hooks_look(h);
}

static int queue_question(struct api_call *c, struct fn_error *reterr)
{
    struct hooks *h = c->hook.line;

    if (describe(c) < 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "API1101 out of memory");
    }
    c->hook.due_ns = env_now_ns(h->env) + TIME_NS;
    c->hook.due.cb = on_due;
    env_timer_set(h->env, &c->hook.due, c->hook.due_ns);
    hooks_queue(c);
    return 0;
}

int hooks_submit(struct api_call *c, struct fn_error *reterr)
{
    struct api *a = c->api;
    struct hooks *h = c->op.verb->act != STORE_READ ? a->hooks : NULL;

    if (!h) {
        return store_submit(a->deps.store, &c->op, reterr);
    }
    if (h->heard >= FN_CHANGES_MAX) {
        return err_set_http(reterr, FN_E_EXHAUSTED, 503, FN_BLAME_PLATFORM,
                            "API1115 %u changes are in front of listeners already", h->heard);
    }
    a->heard++;
    h->heard++;
    h->refs++;
    c->hook.line = h;
    return h->asks ? queue_question(c, reterr) : store_submit(a->deps.store, &c->op, reterr);
}

bool hooks_tell(struct api_call *c)
{
    struct hooks *h = c->hook.line;

    if (!h || !h->tells) {
        return false;
    }
    c->hook.made = true;
    if (describe(c) < 0) {
        log_error("out of memory: listeners do not hear of a change", "id", c->hook.change.id);
        return false;
    }
    if (!c->gone) {
        api_call_reply(c);
    }
    c->gone = true;
    hooks_queue(c);
    return true;
}

static void tell_idle(struct api *a)
{
    void (*idle)(void *) = a->idle;

    if (idle) {
        a->idle = NULL;
        env_timer_clear(a->deps.env, &a->idle_timer);
        idle(a->idle_ud);
    }
}

void hooks_end(struct api_call *c)
{
    struct hooks *h = c->hook.line;
    struct api *a = c->api;

    buf_finish(&c->hook.json);
    if (h) {
        env_timer_clear(h->env, &c->hook.due);
        h->heard--;
        hooks_unref(h);
        if (--a->heard == 0) {
            tell_idle(a);
        }
    }
    api_call_free(c);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Of the listeners of `chain`, whichever want to hear of changes; *ret NULL: none. */
static int hooks_create(struct api *a, struct chain *chain, struct hooks **ret)
{
    struct hooks want = { .api = a, .env = a->deps.env, .chain = chain, .refs = 1 };

    for (uint32_t i = 0; chain && i < chain->n_listeners; i++) {
        const struct fn_listener_ops *ops = plugin_ops(chain->listeners[i]);

        want.asks = want.asks || ops->before_change;
        want.tells = want.tells || ops->after_change;
        if (!want.work.owner && (ops->before_change || ops->after_change)) {
            want.work.owner = plugin_name(chain->listeners[i]);
        }
    }
    *ret = want.work.owner ? calloc(1, sizeof(**ret)) : NULL;
    if (!*ret) {
        return want.work.owner ? FN_E_EXHAUSTED : 0;
    }
    want.work.run = hooks_run;
    want.work.done = on_change_done;
    want.work.lane = ENV_LANE_ENDS;
    want.again.cb = on_again;
    **ret = want;
    TAILQ_INIT(&(*ret)->waiting);
    chain_ref(chain);
    LIST_INSERT_HEAD(&a->all_hooks, *ret, link);
    return 0;
}

int api_set_chain(struct api *a, struct chain *chain)
{
    struct hooks *old = a->hooks;
    struct hooks *next;
    int r = hooks_create(a, chain, &next);

    if (r < 0) {
        return r;
    }
    a->hooks = next;
    if (old) {
        hooks_unref(old);
    }
    return 0;
}

static void leave_out(struct hooks *h)
{
    struct api_call *c;

    h->refs++;
    while ((c = TAILQ_FIRST(&h->waiting))) {
        TAILQ_REMOVE(&h->waiting, c, link);
        log_warn("a change is left out: its listeners are too slow", "id", c->hook.change.id);
        hooks_end(c);
    }
    if (h->running) {
        env_cancel(h->env, &h->work);
    }
    hooks_unref(h);
}

static void on_idle_end(struct env_timer *t)
{
    tell_idle(container_of(t, struct api, idle_timer));
}

/* What waits is left out and what runs is cancelled; if that has no effect, nobody waits for it any
 * more. All that waits by now was made: who asked has been given up before. */
static void on_idle_timer(struct env_timer *t)
{
    struct api *a = container_of(t, struct api, idle_timer);
    struct hooks *next;

    for (struct hooks *h = LIST_FIRST(&a->all_hooks); h && a->idle; h = next) {
        next = LIST_NEXT(h, link);
        leave_out(h);
    }
    if (a->idle) {
        t->cb = on_idle_end;
        env_timer_set(a->deps.env, t, env_now_ns(a->deps.env) + RETURN_NS);
    }
}

void api_drain(struct api *a, void (*idle)(void *ud), void *ud)
{
    struct env *env = a->deps.env;

    a->idle = idle;
    a->idle_ud = ud;
    if (a->heard == 0) {
        tell_idle(a);
        return;
    }
    a->idle_timer.cb = on_idle_timer;
    env_timer_set(env, &a->idle_timer, env_now_ns(env) + DRAIN_NS);
}
