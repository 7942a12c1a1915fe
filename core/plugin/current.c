/* Whose code runs on this thread. Apart from crumb.c, so that rooms which offer host tables can be
 * tested without the rest of this one. */
#include <plugin/plugin_int.h>

_Thread_local struct plugin_crumb *plugin_crumb_now;
_Thread_local bool plugin_thread_of_host;

static _Thread_local struct {
    const char *path, *where;
} opening;

void plugin_opening_set(const char *path, const char *where)
{
    opening.path = path;
    opening.where = where;
}

const char *plugin_opening(const char **ret_where)
{
    *ret_where = opening.where;
    return opening.where ? opening.path : NULL;
}

const struct plugin_crumb *plugin_current(void)
{
    return plugin_crumb_now;
}

struct plugin_crumb *plugin_suspend(const char *what)
{
    struct plugin_crumb *c = plugin_crumb_now;

    if (!c || c->host_call) {
        return NULL; /* the host's own call, or one host function uses another */
    }
    c->host_call = what;
    return c;
}

void plugin_resume(struct plugin_crumb *c)
{
    if (c) {
        c->host_call = NULL;
    }
}

bool plugin_running(void)
{
    return plugin_crumb_now && !plugin_crumb_now->host_call;
}

struct plugin_crumb *plugin_crumb_swap(struct plugin_crumb *c)
{
    struct plugin_crumb *old = plugin_crumb_now;

    plugin_crumb_now = c;
    return old;
}
