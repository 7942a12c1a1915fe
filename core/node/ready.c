#include <node/ready.h>

#include <node/node.h>
#include <stdio.h>

#define CPLANE_FAILURES 3 /* in a row; one or two are a hiccup */

/* Known functions are served from the catalogue while the API node is away, and all load balancers
 * would turn red at once: it is no reason. Neither are groups without a runner as long as there is
 * one that can take calls. */
static const char *lb_unready(const struct node *n, char *text, size_t cap)
{
    struct place_counts c;

    place_count(n->place, &c);
    if (c.groups == 0 || c.groups_usable > 0) {
        return NULL;
    }
    if (c.runners > 0) {
        snprintf(text, cap, "no runner is connected, of %u that the pool lists", c.runners);
    } else {
        snprintf(text, cap, "the pool cannot tell which runners there are");
    }
    return text;
}

static const char *runner_unready(const struct node *n)
{
    struct runner_counts c;

    runner_count(n->runner, &c);
    return c.engine_up ? NULL : "the container engine does not answer";
}

static const char *npm_unready(const struct node *n, char *text, size_t cap)
{
    for (uint32_t i = 0; i < npm_manager_count(n->npm); i++) {
        const char *name = npm_manager_name_at(n->npm, i);
        struct npm_figures f;

        npm_figures(npm_manager_group(n->npm, name), &f);
        if (f.cplane_failures >= CPLANE_FAILURES) {
            snprintf(text, cap, "the control plane fails: %u calls for group %.64s in a row",
                     f.cplane_failures, name);
            return text;
        }
    }
    return NULL;
}

const char *node_unready(const struct node *n, char *text, size_t cap)
{
    const char *why = NULL;

    if (n->draining) {
        return "draining: new calls are refused, running ones end";
    }
    if (node_has_runner(n)) {
        why = runner_unready(n);
    }
    if (!why && node_has_lb(n)) {
        why = lb_unready(n, text, cap);
    }
    if (!why && node_has_npm(n)) {
        why = npm_unready(n, text, cap);
    }
    return why;
}
