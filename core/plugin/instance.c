/* The plugin host, and instances from create() to destroy(). create() runs on a thread of its
 * own, which is left behind when its deadline has passed. */
#include <plugin/ticks.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CREATE_SPILL_BYTES 16384

static struct metric *lost_creates(void)
{
    return metric_simple("fn_plugin_lost", METRIC_COUNTER,
                         "Calls of create() that missed their deadline and may still run.");
}

struct plugin_host *plugin_host_create(struct env *env)
{
    struct plugin_host *h = calloc(1, sizeof(*h));

    if (!h) {
        return NULL;
    }
    lost_creates(); /* it is there at zero */
    h->env = env;
    h->seed = env ? env_random_u64(env) : 0;
    h->budget_loop_ns = PLUGIN_BUDGET_LOOP_NS;
    LIST_INIT(&h->files);
    buf_init(&h->summary, 0);
    plugin_ticks_sample(h);
    plugin_health_open(h);
    plugin_thread_of_host = true;
    return h;
}

void plugin_host_destroy(struct plugin_host *h)
{
    struct plugin_file *f;

    if (!h) {
        return;
    }
    assert(h->n_instances == 0);
    plugin_last_forget(h);
    plugin_health_close(h);
    while ((f = LIST_FIRST(&h->files))) {
        LIST_REMOVE(f, link);
        plugin_file_free(f);
    }
    plugin_policy_free(h);
    buf_finish(&h->summary);
    free(h);
}

void plugin_host_on_open(struct plugin_host *h, void (*opened)(struct plugin_host *h))
{
    h->opened = opened;
}

void plugin_host_budget(struct plugin_host *h, int64_t loop_ns)
{
    h->budget_loop_ns = loop_ns;
}

void plugin_host_waits(struct plugin_host *h, int64_t (*waited_ns)(void))
{
    h->waited_ns = waited_ns;
}

void plugin_host_offer(struct plugin_host *h, const char *iface, uint16_t major, uint16_t minor,
                       const void *table, void *impl)
{
    const struct plugin_offer *old = plugin_offer_find(h, iface);

    if (old) {
        assert(old->table == table && old->impl == impl);
        return;
    }
    assert(h->n_offers < PLUGIN_OFFERS_MAX);
    h->offers[h->n_offers++] = (struct plugin_offer){
        iface, major, minor, table, impl, NULL, false
    };
}

void plugin_host_on_release(struct plugin_host *h, const char *iface, bool on_loop,
                            void (*release)(void *impl, const struct fn_host *host))
{
    for (uint32_t i = 0; i < h->n_offers; i++) {
        if (strcmp(h->offers[i].iface, iface) == 0) {
            h->offers[i].release = release;
            h->offers[i].release_on_loop = on_loop;
            return;
        }
    }
    assert(!"offered before");
}

const char *plugin_host_summary(struct plugin_host *h)
{
    const struct plugin_file *f;
    uint32_t i;

    buf_clear(&h->summary);
    pthread_mutex_lock(&h->lock);
    LIST_FOREACH(f, &h->files, link) {
        buf_printf(&h->summary, "%s%s %s", h->summary.len ? "; " : "", f->path,
                   f->manifest.version);
        for (i = 0; i < f->n_factories; i++) {
            buf_printf(&h->summary, " %s/%s", f->factories[i].pub.kind, f->factories[i].pub.name);
        }
    }
    pthread_mutex_unlock(&h->lock);
    return buf_text(&h->summary);
}

/* ---- instances ------------------------------------------------------------------------------- */

/* What the node does not offer is known only now: tools open files without offering anything. */
static int check_offers(struct plugin *p, struct fn_error *reterr)
{
    const struct fn_need *need;

    for (need = p->factory->needs; need && need->iface; need++) {
        if (!(need->flags & FN_NEED_OPTIONAL) && !plugin_offer_find(p->owner, need->iface)) {
            return err_set(reterr, FN_E_PRECONDITION,
                           "PLG904 %s: %s/%s: needs host interface %s %u.%u; this node offers none",
                           p->name, p->factory->kind, p->factory->name, need->iface, need->major,
                           need->minor_min);
        }
    }
    return 0;
}

static _Thread_local bool beside;

void plugin_beside_begin(void)
{
    beside = true;
}

void plugin_beside_end(void)
{
    beside = false;
}

bool plugin_is_beside(void)
{
    const struct plugin_crumb *c = plugin_current();

    return !c || c->context == PLUGIN_WORKER || (c->context == PLUGIN_INIT && c->plugin->held);
}

/* The plugin's own words, made harmless. */
static int create_failed(struct plugin *p, int r, struct fn_error *said, struct fn_error *reterr)
{
    char text[FN_ERROR_TEXT_MAX * 4 + 8];
    const char *name = p->name;

    if (r < FN_E_UNAUTHENTICATED) {
        return err_set(reterr, FN_E_INTERNAL,
                       "PLG917 %s: %s/%s: create() returned %d; expected 0 or FN_E_*", name,
                       p->factory->kind, p->factory->name, r);
    }
    said->msg[sizeof(said->msg) - 1] = '\0';
    if (!said->msg[0]) {
        return err_set(reterr, r, "PLG915 %s: %s/%s: create() failed without a text: %s", name,
                       p->factory->kind, p->factory->name, err_name(r));
    }
    plugin_clean(said->msg, text, sizeof(text));
    return err_set(reterr, r, "PLG915 %s: %s/%s: %s", name, p->factory->kind, p->factory->name,
                   text);
}

/* One create(), on the heap: when it misses its deadline, it goes on with this. A plugin may write
 * beyond the end of the error text; `spill` keeps that from the host's own memory. */
struct creation {
    struct plugin *p;
    bool beside; /* of the thread that asked */
    int r;
    void *inst;
    struct fn_error said;
    char spill[CREATE_SPILL_BYTES];
};

static uint32_t lost; /* atomic: create() calls that did not return */

uint32_t plugin_lost(void)
{
    return __atomic_load_n(&lost, __ATOMIC_RELAXED);
}

static void call_create(void *arg)
{
    struct creation *c = arg;
    struct plugin *p = c->p;
    struct plugin_crumb crumb;
    bool before = beside;

    beside = c->beside;
    plugin_enter(&crumb, p, PLUGIN_INIT, "create");
    c->r = p->factory->create(&p->host, p->conf ? p->conf->data : NULL, &c->inst, &c->said);
    plugin_leave(&crumb);
    beside = before;
}

static int call_create_in_time(struct creation *c, struct fn_error *reterr)
{
    struct plugin *p = c->p;
    struct plugin_host *h = p->owner;
    int r;

    if (!h->aside) {
        call_create(c);
        return 0;
    }
    if (plugin_lost() >= PLUGIN_LOST_MAX) {
        return err_set(reterr, FN_E_EXHAUSTED,
                       "PLG914 %s: %s/%s: create() was not called: %u earlier ones never returned; "
                       "expected a new process",
                       p->name, p->factory->kind, p->factory->name, plugin_lost());
    }
    r = h->aside(call_create, c, h->start_timeout_ns);
    if (r == FN_E_DEADLINE) {
        metric_set(lost_creates(), __atomic_add_fetch(&lost, 1, __ATOMIC_RELAXED));
        return err_set(reterr, r,
                       "PLG914 %s: %s/%s: create() did not return within %lld ms "
                       "(plugins.start_timeout)",
                       p->name, p->factory->kind, p->factory->name,
                       (long long)(h->start_timeout_ns / ENV_MS));
    }
    return r < 0 ? err_set(reterr, r, "PLG901 %s: no thread for create()", p->name) : 0;
}

/* FN_E_DEADLINE: the instance and `c` belong to the thread that goes on. */
static int run_create(struct plugin *p, bool *ret_lost, struct fn_error *reterr)
{
    struct creation *c = calloc(1, sizeof(*c));
    int r;

    if (!c) {
        return err_set(reterr, FN_E_EXHAUSTED, "PLG901 %s: no memory for create()", p->name);
    }
    c->p = p;
    c->beside = beside;
    c->said = ERR_INIT;
    p->creating = true;
    r = call_create_in_time(c, reterr);
    *ret_lost = r == FN_E_DEADLINE;
    if (r < 0) {
        if (!*ret_lost) {
            free(c);
        }
        return r;
    }
    p->creating = false;
    if (c->r < 0) {
        r = create_failed(p, c->r, &c->said, reterr);
    } else if (c->r > 0 || !c->inst) {
        r = err_set(reterr, FN_E_INTERNAL,
                    "PLG917 %s: %s/%s: create() returned %d and %s; expected 0 and an instance",
                    p->name, p->factory->kind, p->factory->name, c->r,
                    c->inst ? "an instance" : "no instance");
    } else {
        p->inst = c->inst;
    }
    free(c);
    return r;
}

/* What the implementations of host tables hold for it. */
static void instance_let_go(struct plugin *p)
{
    const struct plugin_host *h = p->owner;

    for (uint32_t i = 0; i < h->n_offers; i++) {
        const struct plugin_offer *o = &h->offers[i];
        bool enters = beside && o->release_on_loop;

        if (!o->release) {
            continue;
        }
        if (enters) {
            h->env->enter(h->env);
        }
        o->release(o->impl, &p->host);
        if (enters) {
            h->env->leave(h->env);
        }
    }
}

static void instance_release(struct plugin *p)
{
    if (p->host.priv) {
        plugin_tables_release(p);
        instance_let_go(p);
    }
    conf_values_destroy(p->conf);
    free(p->name);
    free(p);
}

int plugin_create(struct plugin_host *h, struct plugin_file *f, const struct fn_factory *factory,
                  const char *name, struct conf_values *given_conf, struct plugin **ret,
                  struct fn_error *reterr)
{
    struct plugin *p = calloc(1, sizeof(*p));
    bool is_lost = false;
    int r;

    if (!p || !(p->name = strdup(name)) ||
        !(p->health = plugin_health_get(h, factory->kind, name))) {
        if (p) {
            free(p->name);
        }
        free(p);
        conf_values_destroy(given_conf);
        return err_set(reterr, FN_E_EXHAUSTED, "PLG901 %s: no memory for an instance", name);
    }
    p->owner = h;
    p->file = f;
    p->factory = factory;
    p->conf = given_conf;
    p->held = beside;
    r = check_offers(p, reterr);
    if (r == 0 && factory->conf_size > 0 && !given_conf) {
        r = err_set(reterr, FN_E_INVALID, "PLG910 %s: %s/%s: has options, got none; expected a "
                    "struct of %u bytes", name, factory->kind, factory->name, factory->conf_size);
    }
    if (r == 0) {
        plugin_tables_init(p);
        r = run_create(p, &is_lost, reterr);
    }
    if (r < 0) {
        if (!is_lost) {
            instance_release(p);
        }
        return r;
    }
    __atomic_fetch_add(&h->n_instances, 1, __ATOMIC_RELAXED);
    plugin_bad_answers(p); /* there at zero */
    log_info("plugin ready", "plugin", p->name, "kind", factory->kind, "use", factory->name,
             "version", f->manifest.version, "file", f->path);
    *ret = p;
    return 0;
}

void plugin_destroy(struct plugin *p)
{
    struct plugin_crumb crumb;

    if (!p) {
        return;
    }
    /* Its timers and streams must be off first: destroy frees what they point at.
     * instance_release() does it again for what a destroy() opened against the rules. */
    plugin_tables_release(p);
    instance_let_go(p);
    plugin_enter(&crumb, p, PLUGIN_INIT, "destroy");
    p->factory->destroy(p->inst);
    plugin_leave(&crumb);
    p->inst = NULL;
    __atomic_fetch_sub(&p->owner->n_instances, 1, __ATOMIC_RELAXED);
    instance_release(p);
}

bool plugin_is_same(const struct plugin *p, const struct plugin_file *f,
                    const struct fn_factory *factory, const char *name,
                    const struct conf_values *conf)
{
    return (!f || p->file == f) && p->factory == factory && strcmp(p->name, name) == 0 &&
           conf_same(p->conf, conf);
}

const char *plugin_name(const struct plugin *p)
{
    return p->name;
}

const char *plugin_version(const struct plugin *p)
{
    return p->file->manifest.version;
}

const struct fn_factory *plugin_factory(const struct plugin *p)
{
    return p->factory;
}

void *plugin_inst(const struct plugin *p)
{
    return p->inst;
}

const void *plugin_ops(const struct plugin *p)
{
    return p->factory->ops;
}
