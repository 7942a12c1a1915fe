/* One sentence about why a group has the runners that it has: for `fnd runners list`, and for a
 * load balancer whose calls wait. */
#include <npm/npm_int.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void explain_say(char *text, size_t cap, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Behind what is there. */
static void explain_say(char *text, size_t cap, const char *format, ...)
{
    size_t len = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + len, cap - len, format, args);
    va_end(args);
}

/* Whole seconds, at least one while something is still to come. */
static long long seconds(int64_t ns)
{
    return (long long)((ns + NPM_S - 1) / NPM_S);
}

static void say_pauses(const struct npm_group *g, int64_t now_ns, char *ret, size_t cap)
{
    if (g->list_failures > 0) {
        explain_say(ret, cap, "; the control plane could not list its machines, tries in a row: %u",
                    g->list_failures);
    }
    if (g->stillborn_next_ns > now_ns) {
        explain_say(ret, cap, "; nothing is asked for %lld s more, because new runners did not "
                    "live (%u so far)", seconds(g->stillborn_next_ns - now_ns), g->stillborn);
    } else if (g->provision_next_ns > now_ns) {
        explain_say(ret, cap, "; nothing is asked for %lld s more, because the control plane %s",
                    seconds(g->provision_next_ns - now_ns),
                    g->provision_failures > 0 ? "refused or failed" : "delivered nothing");
    }
}

void npm_explain(const struct npm_group *g, int64_t now_ns, char *ret, size_t cap)
{
    struct npm_figures f;

    npm_figures(g, &f);
    ret[0] = '\0';
    explain_say(ret, cap, "%llu MB wanted by %u load balancer%s, %llu MB active",
                (unsigned long long)f.wanted_mb, f.lbs_n, f.lbs_n == 1 ? "" : "s",
                (unsigned long long)f.state_mb[NPM_ACTIVE]);
    if (f.asked_n > 0) {
        explain_say(ret, cap, "; %u runner%s asked for, the first %lld s ago", f.asked_n,
                    f.asked_n == 1 ? "" : "s", seconds(now_ns - f.asked_since_ns));
    }
    if (f.state_n[NPM_BOOTING] > 0) {
        explain_say(ret, cap, "; %u booting", f.state_n[NPM_BOOTING]);
    }
    if (f.leaving_n > 0) {
        explain_say(ret, cap, "; %u serving until replaced", f.leaving_n);
    }
    if (f.failing_n > 0) {
        explain_say(ret, cap, "; the status of %u fails", f.failing_n);
    }
    explain_say(ret, cap, "%s%s%s", f.standby ? "; another manager acts for this group" : "",
                f.at_max ? "; the maximum of runners is reached" : "",
                f.settled ? "" : "; still learning what there is");
    say_pauses(g, now_ns, ret, cap);
}
