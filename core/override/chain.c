/* Calls before() of the listeners in their order until one refuses, and after() of those that
 * let the call pass. */
#include <override/chain.h>

#include <override/late.h>
#include <plugin/answer.h>
#include <stdlib.h>

const char *const outcome_names[OUTCOMES_N] = { "ok", "failed", "not-executed", "unknown",
                                                "aborted" };

int chain_before(const struct chain *c, const struct fn_call *call, uint32_t *ret_passed,
                 struct fn_error *reterr)
{
    struct plugin_crumb crumb;
    int r = 0;

    *ret_passed = 0;
    for (uint32_t i = 0; c && i < c->n_listeners && r == 0; i++) {
        struct plugin *listener = c->listeners[i];
        const struct fn_listener_ops *ops = plugin_ops(listener);
        struct fn_error err = ERR_INIT; /* the words of one that lets pass are nobody else's */

        if (ops->before) {
            plugin_enter(&crumb, listener, PLUGIN_LOOP, "before");
            r = ops->before(plugin_inst(listener), call, &err);
            plugin_leave(&crumb);
            r = plugin_answer_result(listener, "before", r, 0, &err);
        }
        if (r < 0) {
            *reterr = err;
        }
        *ret_passed += r == 0;
    }
    return r;
}

void chain_after(struct chain *c, uint32_t passed, const struct fn_call *call,
                 enum outcome outcome, struct fn_call_end *end)
{
    struct plugin_crumb crumb;

    end->size = sizeof(*end);
    end->outcome = outcome_names[outcome];
    if (outcome == OUTCOME_ABORTED) {
        end->code = FN_E_CANCELLED;
        end->http_status = STATUS_CLIENT_GONE;
        end->blame = FN_BLAME_USER;
    } else if (end->code < 0 && end->http_status == 504) {
        end->code = FN_E_DEADLINE;
    }
    for (uint32_t i = 0; i < passed; i++) {
        struct plugin *listener = c->listeners[i];
        const struct fn_listener_ops *ops = plugin_ops(listener);

        /* One that has a before() may refuse calls: it is never left out. */
        if (ops->after && (ops->before || !plugin_rests(listener))) {
            plugin_enter(&crumb, listener, PLUGIN_LOOP, "after");
            ops->after(plugin_inst(listener), call, end);
            plugin_leave(&crumb);
            if (crumb.missed) {
                plugin_was_slow(listener);
            }
        }
        if (c->late && c->late[i]) {
            late_add(c->late[i], c, call, end);
        }
    }
}

/* ---- listeners that may be slow -------------------------------------------------------------- */

static bool has_listener(const struct chain *c, const struct plugin *listener)
{
    for (uint32_t i = 0; c && i < c->n_listeners; i++) {
        if (c->listeners[i] == listener) {
            return true;
        }
    }
    return false;
}

int chain_open(struct chain *c, struct env *env, const struct chain *before)
{
    const struct fn_listener_ops *ops;

    for (uint32_t i = 0; i < c->n_listeners; i++) {
        ops = plugin_ops(c->listeners[i]);
        if (!ops->after_worker) {
            continue;
        }
        if (!c->late && !(c->late = calloc(c->n_listeners, sizeof(struct late *)))) {
            return FN_E_EXHAUSTED;
        }
        if (has_listener(before, c->listeners[i])) {
            continue;
        }
        c->late[i] = late_create(env, c->listeners[i]);
        if (!c->late[i]) {
            return FN_E_EXHAUSTED;
        }
    }
    return 0;
}

static void share_line(struct chain *c, const struct plugin *listener, struct late *line)
{
    for (uint32_t i = 0; c->late && i < c->n_listeners; i++) {
        if (c->listeners[i] == listener) {
            c->late[i] = late_share(line, c);
        }
    }
}

void chain_follow(struct chain *c, const struct chain *before)
{
    for (uint32_t i = 0; before->late && i < before->n_listeners; i++) {
        if (before->late[i]) {
            share_line(c, before->listeners[i], before->late[i]);
        }
    }
}

void chain_retire(struct chain *c, const struct chain *next)
{
    for (uint32_t i = 0; c->late && i < c->n_listeners; i++) {
        if (c->late[i] && !has_listener(next, c->listeners[i])) {
            late_retire(c->late[i]);
        }
    }
}

bool chain_is_told(const struct chain *c)
{
    for (uint32_t i = 0; c->late && i < c->n_listeners; i++) {
        if (c->late[i] && !late_is_over(c->late[i])) {
            return false;
        }
    }
    return true;
}

void chain_close(struct chain *c)
{
    for (uint32_t i = 0; c->late && i < c->n_listeners; i++) {
        late_unref(c->late[i]);
    }
    free(c->late);
    c->late = NULL;
}
