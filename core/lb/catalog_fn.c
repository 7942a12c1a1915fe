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

/* Maps are immutable and have no room: whoever adds to one copies it. */
void catalog_fn_fill(const struct catalog_fn *f, struct arena *arena, struct call *ret)
{
    *ret = f->model;
    ret->arena = ret->config.arena = ret->annotations.arena = arena;
    headers_init(&ret->headers, arena);
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
    struct call *m = &f->model;
    char *slot_hash_id = arena_alloc(a, SLOT_HEX_BYTES);

    *f = (struct catalog_fn){ .refs = 1, .memory = a, .slot_hash_id = slot_hash_id };
    call_init(m, a);
    if (overlay(&m->config, &app->config, &fn->config) < 0 ||
        force_keys(&m->config, app->id, fn) < 0 ||
        overlay(&m->annotations, &app->annotations, &fn->annotations) < 0) {
        return FN_E_EXHAUSTED;
    }
    m->config.cap = m->config.n;
    m->annotations.cap = m->annotations.n;
    m->fn_id = arena_strdup(a, fn->id);
    m->app_id = arena_strdup(a, app->id);
    m->app_name = arena_strdup(a, app->name);
    m->trigger_id = arena_strdup(a, trigger_id);
    m->image = arena_strdup(a, fn->image);
    m->syslog_url = arena_strdup(a, app->syslog_url ? app->syslog_url : "");
    m->mem_mb = fn->mem_mb;
    m->timeout_s = fn->timeout_s;
    m->idle_timeout_s = fn->idle_timeout_s;
    f->label = arena_printf(a, "%s/%s", app->name ? app->name : "", fn->name ? fn->name : "");
    if (!m->fn_id || !m->app_id || !m->app_name || !m->trigger_id || !m->image || !m->syslog_url ||
        !f->label || !slot_hash_id) {
        return FN_E_EXHAUSTED;
    }
    return call_slot_hex(m, slot_hash_id);
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
