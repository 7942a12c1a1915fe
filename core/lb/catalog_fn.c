/* A function of the catalog: what its app adds to it, put together once for all of its calls. */
#include <lb/catalog.h>

#include <base/arena.h>
#include <base/metric.h>
#include <stdlib.h>

struct catalog_fn *catalog_fn_ref(struct catalog_fn *f)
{
    f->refs++;
    return f;
}

static void metrics_give(struct catalog_fn *f)
{
    for (int i = 0; i < OUTCOMES_N; i++) {
        if (f->ends[i]) {
            metric_release(f->ends[i]);
        }
    }
    if (f->took) {
        metric_release(f->took);
    }
}

void catalog_fn_unref(struct catalog_fn *f)
{
    struct arena *arena;

    if (f && --f->refs == 0) {
        metrics_give(f);
        arena = f->memory;
        arena_finish(arena);
        free(arena);
    }
}

/* Pinned and immutable: shared, not copied. */
static void share_kvs(struct kvs *k, struct arena *a, const struct fn_kv *items, uint32_t n)
{
    kvs_init(k, a);
    k->items = (struct fn_kv *)(uintptr_t)items;
    k->n = k->cap = n;
}

void catalog_fn_fill(const struct catalog_fn *f, struct call *m)
{
    m->image = f->image;
    m->timeout_s = f->timeout_s;
    m->idle_timeout_s = f->idle_timeout_s;
    m->mem_mb = f->mem_mb;
    m->syslog_url = f->syslog_url ? f->syslog_url : "";
    m->app_id = f->app_id;
    m->app_name = f->app_name;
    m->trigger_id = f->trigger_id;
    m->fn_id = f->fn_id;
    share_kvs(&m->config, m->arena, f->config, f->n_config);
    share_kvs(&m->annotations, m->arena, f->annotations, f->n_annotations);
}

static int add_slot_hash_id(struct catalog_fn *f, struct arena *a)
{
    char hex[SLOT_HEX_BYTES];
    struct call m;

    call_init(&m, a);
    catalog_fn_fill(f, &m);
    if (call_slot_hex(&m, hex) < 0) {
        return FN_E_EXHAUSTED;
    }
    f->slot_hash_id = arena_strdup(a, hex);
    return f->slot_hash_id ? 0 : FN_E_EXHAUSTED;
}

static int force_keys(struct kvs *config, const char *app_id, const struct fn_def *fn)
{
    const char *mem = arena_printf(config->arena, "%llu", (unsigned long long)fn->mem_mb);

    if (!mem || kvs_set(config, "FN_MEMORY", mem) < 0 || kvs_set(config, "FN_TYPE", "sync") < 0 ||
        kvs_set(config, "FN_FN_ID", fn->id) < 0 || kvs_set(config, "FN_APP_ID", app_id) < 0) {
        return FN_E_EXHAUSTED;
    }
    return 0;
}

static int overlay(struct kvs *to, const struct kvs *app, const struct kvs *fn)
{
    int r = kvs_copy(to, app);

    for (uint32_t i = 0; r == 0 && i < fn->n; i++) {
        r = kvs_set(to, fn->items[i].key, fn->items[i].value);
    }
    return r;
}

static int fn_fill(struct catalog_fn *f, struct arena *a, const struct app *app,
                   const struct fn_def *fn, const char *trigger_id)
{
    struct kvs config, annotations;

    kvs_init(&config, a);
    kvs_init(&annotations, a);
    if (overlay(&config, &app->config, &fn->config) < 0 ||
        force_keys(&config, app->id, fn) < 0 ||
        overlay(&annotations, &app->annotations, &fn->annotations) < 0) {
        return FN_E_EXHAUSTED;
    }
    *f = (struct catalog_fn){
        .refs = 1,
        .fn_id = arena_strdup(a, fn->id),
        .app_id = arena_strdup(a, app->id),
        .app_name = arena_strdup(a, app->name),
        .label = arena_printf(a, "%s/%s", app->name ? app->name : "", fn->name ? fn->name : ""),
        .trigger_id = arena_strdup(a, trigger_id),
        .image = arena_strdup(a, fn->image),
        .syslog_url = app->syslog_url && app->syslog_url[0] ? arena_strdup(a, app->syslog_url)
                                                            : NULL,
        .mem_mb = fn->mem_mb,
        .timeout_s = fn->timeout_s,
        .idle_timeout_s = fn->idle_timeout_s,
        .config = config.items,
        .n_config = config.n,
        .annotations = annotations.items,
        .n_annotations = annotations.n,
        .memory = a,
    };
    if (!f->fn_id || !f->app_id || !f->app_name || !f->label || !f->trigger_id || !f->image) {
        return FN_E_EXHAUSTED;
    }
    return add_slot_hash_id(f, a);
}

struct catalog_fn *catalog_fn_create(const struct app *app, const struct fn_def *fn,
                                     const char *trigger_id)
{
    struct arena *a = malloc(sizeof(*a));
    struct catalog_fn *f;

    if (!a) {
        return NULL;
    }
    arena_init(a, 0);
    f = arena_alloc(a, sizeof(*f));
    if (!f || fn_fill(f, a, app, fn, trigger_id) < 0) {
        arena_finish(a);
        free(a);
        return NULL;
    }
    return f;
}
