/* Driver hub: brings the reports of drivers, which come from any thread, into the loop.
 *
 * A report names its container by handle; one that is gone, or of an earlier runner, is ignored.
 * Whatever changes the runner does so in a task: a driver that reports from the loop may have been
 * called in the midst of a step of the runner. */
#include <runner/runner_int.h>

#include <stdlib.h>
#include <string.h>

#define DRIVERS_MAX 16

struct driver_hub {
    struct env *env;
    struct runner *runner; /* [loop] */
    struct env_task engine_task;
    bool engine_up; /* the last word of a driver, until the task has run */
    struct fn_error engine_why;
    struct plugin *drivers[DRIVERS_MAX];
    uint32_t n_drivers;
};

static struct driver_hub *hub_of(const struct fn_host *host)
{
    return plugin_impl(host, "fn.driver");
}

static struct container *hub_find(struct driver_hub *hub, uint64_t handle)
{
    return hub->runner ? runner_container(hub->runner, handle) : NULL;
}

static void on_exited(struct env_task *t)
{
    struct container *c = container_of(t, struct container, task_exited);

    container_exited(c, &c->exit);
}

static void report_exited(const struct fn_host *host, uint64_t handle, const struct fn_exit *what)
{
    PLUGIN_HOST_CALL("fn.driver.exited");
    struct driver_hub *hub = hub_of(host);
    struct fn_exit end = plugin_answer_exit(plugin_of(host), what);
    struct container *c;

    plugin_take_loop(hub->env);
    c = hub_find(hub, handle);
    if (c && !c->exited && !c->task_exited.cb) { /* the first report counts */
        c->exit = end;
        c->task_exited.cb = on_exited;
        env_defer(hub->env, &c->task_exited);
    }
    plugin_give_loop(hub->env);
}

static void report_output(const struct fn_host *host, uint64_t handle, uint32_t fd,
                          const void *data, size_t len)
{
    PLUGIN_HOST_CALL("fn.driver.output");
    struct driver_hub *hub = hub_of(host);
    struct container *c;

    if (!plugin_answer_output(plugin_of(host), fd, data, len)) {
        return;
    }
    plugin_take_loop(hub->env);
    c = hub_find(hub, handle);
    if (c) {
        container_output(c, fd, data, len);
    }
    plugin_give_loop(hub->env);
}

static void on_engine(struct env_task *t)
{
    struct driver_hub *hub = container_of(t, struct driver_hub, engine_task);

    if (hub->runner) {
        engine_set(hub->runner, hub->engine_up, &hub->engine_why);
    }
}

static void report_engine(const struct fn_host *host, uint32_t up, const struct fn_error *why)
{
    PLUGIN_HOST_CALL("fn.driver.engine");
    struct driver_hub *hub = hub_of(host);
    struct fn_error copy = plugin_answer_error_copy(plugin_of(host), "fn.driver.engine", why);

    if (!why) {
        err_set(&copy, FN_E_UNAVAILABLE, "the driver says that the engine is down");
    }
    plugin_take_loop(hub->env);
    hub->engine_up = up != 0;
    hub->engine_why = copy;
    env_defer(hub->env, &hub->engine_task);
    plugin_give_loop(hub->env);
}

static int find_inner(const struct fn_host *host, const char *name,
                      const struct fn_driver_ops **ret_ops, void **ret_inst,
                      struct fn_error *reterr)
{
    PLUGIN_HOST_CALL("fn.driver.inner");
    struct driver_hub *hub = hub_of(host);

    for (uint32_t i = 0; i < hub->n_drivers; i++) {
        if (strcmp(plugin_name(hub->drivers[i]), name) == 0) {
            *ret_ops = plugin_ops(hub->drivers[i]);
            *ret_inst = plugin_inst(hub->drivers[i]);
            return 0;
        }
    }
    return err_set(reterr, FN_E_NOT_FOUND,
                   "inner driver, got \"%s\"; expected the name of a driver above it", name);
}

static const struct fn_task *find_task(const struct fn_host *host, uint64_t handle)
{
    PLUGIN_HOST_CALL("fn.driver.task");
    struct driver_hub *hub = hub_of(host);
    const struct fn_task *task = NULL;
    struct container *c;

    plugin_take_loop(hub->env);
    c = hub_find(hub, handle);
    if (c) {
        task = &c->task;
    }
    plugin_give_loop(hub->env);
    return task;
}

static const struct fn_driver_if table = { FN_HDR(struct fn_driver_if, FN_MAGIC_DRIVER_IF),
                                           report_exited, report_output, report_engine,
                                           find_inner, find_task };

struct driver_hub *driver_hub_create(struct env *env, struct plugin_host *host)
{
    struct driver_hub *hub = calloc(1, sizeof(*hub));

    if (hub) {
        hub->env = env;
        hub->engine_task.cb = on_engine;
        plugin_host_offer(host, "fn.driver", FN_DRIVER_MAJOR, FN_DRIVER_MINOR, &table, hub);
    }
    return hub;
}

int driver_hub_add(struct driver_hub *hub, struct plugin *driver, struct fn_error *reterr)
{
    if (hub->n_drivers == DRIVERS_MAX) {
        return err_set(reterr, FN_E_RANGE, "drivers, got %d; expected at most %d", DRIVERS_MAX + 1,
                       DRIVERS_MAX);
    }
    hub->drivers[hub->n_drivers++] = driver;
    return 0;
}

void driver_hub_set_runner(struct driver_hub *hub, struct runner *r)
{
    hub->runner = r;
}

void driver_hub_destroy(struct driver_hub *hub)
{
    if (hub) {
        env_undefer(hub->env, &hub->engine_task);
        free(hub);
    }
}
