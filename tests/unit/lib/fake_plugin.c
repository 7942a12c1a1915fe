/* The functions of plugin/plugin.h over a table of what was offered, without files, budgets or
 * distrust. */
#include "fake_plugin.h"

#include <assert.h>
#include <string.h>

#define OFFERS_MAX 16

static struct {
    const char *iface;
    const void *table;
    void *impl;
    void (*release)(void *impl, const struct fn_host *host);
} offers[OFFERS_MAX];
static int n_offers;
static struct plugin_crumb worker = { .context = PLUGIN_WORKER };
static struct plugin_crumb loop = { .context = PLUGIN_LOOP };
int fake_plugin_on_worker;

void fake_plugin_init(struct plugin *p, const char *name, const void *ops, void *inst)
{
    *p = (struct plugin){ .name = name, .ops = ops, .inst = inst };
    p->host.priv = p;
    p->factory.kind = name;
}

void fake_plugin_reset(void)
{
    n_offers = 0;
    fake_plugin_on_worker = 0;
}

static int find(const char *iface)
{
    for (int i = 0; i < n_offers; i++) {
        if (strcmp(offers[i].iface, iface) == 0) {
            return i;
        }
    }
    assert(!"offered");
    return -1;
}

const void *fake_plugin_table(const char *iface)
{
    return offers[find(iface)].table;
}

int fake_plugin_publish(const struct plugin *pool, const char *group,
                        const char *const *addresses)
{
    const struct fn_snap_if *snap = fake_plugin_table("fn.snap");
    struct fn_snap_builder *b;
    int r = snap->begin(&pool->host, group, &b);

    assert(r == 0);
    for (uint64_t id = 1; *addresses; addresses++, id++) {
        struct fn_runner runner = { .id = id, .address = *addresses, .weight = 1 };

        r = snap->add(b, &runner, sizeof(runner));
        assert(r == 0);
    }
    return snap->publish(b);
}

void plugin_host_offer(struct plugin_host *h, const char *iface, uint16_t major, uint16_t minor,
                       const void *table, void *impl)
{
    (void)h;
    (void)major;
    (void)minor;
    assert(n_offers < OFFERS_MAX);
    offers[n_offers].release = NULL;
    offers[n_offers].iface = iface;
    offers[n_offers].table = table;
    offers[n_offers++].impl = impl;
}

void plugin_host_on_release(struct plugin_host *h, const char *iface, bool on_loop,
                            void (*release)(void *impl, const struct fn_host *host))
{
    (void)h;
    (void)on_loop;
    offers[find(iface)].release = release;
}

void fake_plugin_release(struct plugin *p)
{
    for (int i = 0; i < n_offers; i++) {
        if (offers[i].release) {
            offers[i].release(offers[i].impl, &p->host);
        }
    }
}

void *plugin_impl(const struct fn_host *host, const char *iface)
{
    (void)host;
    return offers[find(iface)].impl;
}

struct plugin *plugin_of(const struct fn_host *host)
{
    return host->priv;
}

const char *plugin_name(const struct plugin *p)
{
    return p->name;
}

const void *plugin_ops(const struct plugin *p)
{
    return p->ops;
}

const struct fn_factory *plugin_factory(const struct plugin *p)
{
    return &p->factory;
}

void *plugin_inst(const struct plugin *p)
{
    return p->inst;
}

void plugin_enter(struct plugin_crumb *c, struct plugin *p, enum plugin_context context,
                  const char *method)
{
    (void)context;
    (void)method;
    c->plugin = p;
    c->missed = false;
    p->calls++;
}

void plugin_leave(struct plugin_crumb *c)
{
    c->missed = c->plugin->slow;
    c->plugin = NULL;
}

const struct plugin_crumb *plugin_current(void)
{
    return fake_plugin_on_worker ? &worker : &loop;
}

bool plugin_is_beside(void)
{
    return fake_plugin_on_worker;
}

void plugin_bad_answer(struct plugin *p, const char *what)
{
    (void)what;
    p->bad_answers++;
}

struct plugin_crumb *plugin_suspend(const char *what)
{
    (void)what;
    return NULL;
}

void plugin_resume(struct plugin_crumb *c)
{
    (void)c;
}

bool plugin_running(void)
{
    return false;
}

void plugin_degraded(enum degraded_reason reason, bool on)
{
    (void)reason;
    (void)on;
}

void plugin_was_slow(struct plugin *p)
{
    (void)p;
}

bool plugin_rests(struct plugin *p)
{
    (void)p;
    return false;
}

bool plugin_is_retired(const struct plugin *p)
{
    return p->retired;
}

void plugin_retire(struct plugin *p)
{
    p->retired = true;
}
