/* One sentence about why a group has the runners that it has: for `fnd runners list`, and for a
 * load balancer whose calls wait. */
#include <npm/npm_int.h>

#include <stdarg.h>
#include <stdio.h>

struct text {
    char *at;
    size_t left;
};

static void explain_say(struct text *t, bool first, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void explain_say(struct text *t, bool first, const char *format, ...)
{
    va_list args;
    int n = snprintf(t->at, t->left, "%s", first ? "" : "; ");

    for (int i = 0; i < 2; i++) {
        size_t took = n < 0 ? 0 : (size_t)n < t->left ? (size_t)n : t->left - 1;

        t->at += took;
        t->left -= took;
        if (i == 0) {
            va_start(args, format);
            n = vsnprintf(t->at, t->left, format, args);
            va_end(args);
        }
    }
}

/* Whole seconds, at least one while something is still to come. */
static long long seconds(int64_t ns)
{
    return (long long)((ns + NPM_S - 1) / NPM_S);
}

static void say_pauses(const struct npm_group *g, struct text *t, int64_t now_ns)
{
    if (g->list_failures > 0) {
        explain_say(t, false, "the control plane could not list its machines, tries in a row: %u",
                    g->list_failures);
    }
    if (g->stillborn_next_ns > now_ns) {
        explain_say(t, false,
                    "nothing is asked for %lld s more, because new runners did not live (%u so far)",
                    seconds(g->stillborn_next_ns - now_ns), g->stillborn);
    } else if (g->provision_next_ns > now_ns) {
        explain_say(t, false, "nothing is asked for %lld s more, because the control plane %s",
                    seconds(g->provision_next_ns - now_ns),
                    g->provision_failures > 0 ? "refused or failed" : "delivered nothing");
    }
}

void npm_explain(const struct npm_group *g, int64_t now_ns, char *ret, size_t cap)
{
    struct text t = { ret, cap };
    struct npm_figures f;

    npm_figures(g, &f);
    ret[0] = '\0';
    explain_say(&t, true, "%llu MB wanted by %u load balancer%s, %llu MB active",
                (unsigned long long)f.wanted_mb, f.lbs_n, f.lbs_n == 1 ? "" : "s",
                (unsigned long long)f.state_mb[NPM_ACTIVE]);
    if (f.asked_n > 0) {
        explain_say(&t, false, "%u runner%s asked for, the first %lld s ago", f.asked_n,
                    f.asked_n == 1 ? "" : "s", seconds(now_ns - f.asked_since_ns));
    }
    if (f.state_n[NPM_BOOTING] > 0) {
        explain_say(&t, false, "%u booting", f.state_n[NPM_BOOTING]);
    }
    if (f.leaving_n > 0) {
        explain_say(&t, false, "%u serving until replaced", f.leaving_n);
    }
    if (f.failing_n > 0) {
        explain_say(&t, false, "the status of %u fails", f.failing_n);
    }
    if (f.standby) {
        explain_say(&t, false, "another manager acts for this group");
    }
    if (f.at_max) {
        explain_say(&t, false, "the maximum of runners is reached");
    }
    if (!f.settled) {
        explain_say(&t, false, "still learning what there is");
    }
    say_pauses(g, &t, now_ns);
}
