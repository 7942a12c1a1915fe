/* The tables of a node instead of our own: core/plugin makes the instance and watches its calls,
 * core/loop is the clock. For what lives on the loop; what needs an outside (HTTP, programs, other
 * drivers) is left to tests with a real one. */
#include "real.h"
#include "outside.h"
#include "world.h"

#include <loop/loop.h>
#include <string.h>

#define TURN_NS (5 * ENV_MS) /* how much of an advance really passes, at most */
#define TIMES_FASTER 1000

static struct loop *loop;
static struct plugin_host *host;
static struct plugin_file *file;

static void must_work(int r, const char *what, const struct fn_error *e)
{
    must(r == 0, "%s: %.300s", what, e->msg);
}

/* What of a node can be had here. */
static bool offered(const char *iface)
{
    static const char *const names[] = {"fn.wake", "fn.snap", "fn.edit", "fn.placer", "fn.view"};
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], iface) == 0) {
            return true;
        }
    }
    return subject.world && world_offers(iface);
}

static void find_factory(void)
{
    const struct fn_factory *f =
        plugin_file_factory(file, subject.factory->kind, subject.factory->name);

    must(f, "the file offers %s/%s no more", subject.factory->kind, subject.factory->name);
    subject.factory = f;
}

bool real_possible(const struct fn_factory *f)
{
    const struct fn_need *need;

    for (need = f->needs; need && need->iface; need++) {
        if (!offered(need->iface) && !(need->flags & FN_NEED_OPTIONAL)) {
            return false;
        }
    }
    return true;
}

void real_open(void)
{
    struct fn_error e = ERR_INIT;
    const struct fn_need *need;

    must_work(loop_create(NULL, &loop, &e), "loop", &e);
    loop_enter(loop);
    host = plugin_host_create(loop_env(loop));
    must(host, "the machine has no memory for the test");
    for (need = subject.factory->needs; need && need->iface; need++) {
        if (offered(need->iface) && !(subject.world && world_offers(need->iface))) {
            plugin_host_offer(host, need->iface, need->major, need->minor_min,
                              tables_find(need->iface), NULL);
        }
    }
    if (subject.world) {
        world_open(host, loop_env(loop));
    }
    must_work(plugin_file_open(host, subject.path, &file, &e), "load", &e);
    find_factory();
}

void real_close(void)
{
    plugin_host_destroy(host);
    loop_leave(loop);
    if (subject.world) {
        world_close();
    }
    loop_destroy(loop);
}

int real_make(struct conf_values *given, struct plugin **ret, struct fn_error *reterr)
{
    return plugin_create(host, file, subject.factory, "contract", given, ret, reterr);
}

/* Streams of the world that end meanwhile may wait for the loop. */
void real_destroy(struct plugin *p)
{
    if (subject.world) {
        loop_leave(loop);
    }
    plugin_destroy(p);
    if (subject.world) {
        loop_enter(loop);
    }
}

int64_t real_now(void)
{
    return env_now_ns(loop_env(loop));
}

static void on_stop(struct env_timer *t)
{
    (void)t;
    loop_stop(loop);
}

void real_turn(int64_t ns)
{
    struct env_timer t = {.cb = on_stop};

    env_timer_set(loop_env(loop), &t, real_now() + ns);
    real_wait();
    env_timer_clear(loop_env(loop), &t);
}

void real_advance(int64_t ns)
{
    real_turn(ns / TIMES_FASTER < TURN_NS ? ns / TIMES_FASTER : TURN_NS);
}

void real_wait(void)
{
    loop_leave(loop);
    loop_run(loop);
    loop_enter(loop);
}

void real_wake(void)
{
    loop_stop(loop);
}
