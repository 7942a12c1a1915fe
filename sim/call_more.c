/* A call as a load balancer would make it of a function without triggers, as far as placers see. */
#include <sim/call_more.h>

#include <model/call.h>
#include <model/json.h>
#include <model/view.h>
#include <string.h>

#define TIMEOUT_S 30 /* as functions have it when they say nothing */

static int add_pair(struct kvs *to, struct arena *a, const char *pair)
{
    size_t key_len = strcspn(pair, "=");
    const char *key = arena_strndup(a, pair, key_len);

    if (!pair[0]) {
        return 0;
    }
    return key ? kvs_set(to, key, pair + key_len + 1) : FN_E_EXHAUSTED;
}

int call_more_make(struct arena *a, struct fn_call *view, const char *config,
                   const char *annotation)
{
    struct fn_call_more *more = arena_alloc(a, sizeof(*more));
    struct call *c = arena_alloc(a, sizeof(*c));

    if (!more || !c) {
        return FN_E_EXHAUSTED;
    }
    call_init(c, a);
    c->id = view->id;
    c->fn_id = view->fn_id;
    c->app_id = view->app_id;
    c->app_name = "simulated";
    c->image = "simulated/function:1";
    c->method = "POST";
    c->detached = view->kind == FN_CALL_DETACHED;
    c->mem_mb = view->mem_mb;
    c->timeout_s = c->idle_timeout_s = TIMEOUT_S;
    if (add_pair(&c->config, a, config) < 0 || add_pair(&c->annotations, a, annotation) < 0) {
        return FN_E_EXHAUSTED;
    }
    *more = (struct fn_call_more){ .call = c, .arena = a };
    view->more = more;
    return 0;
}

static bool is_json(const char *text)
{
    struct arena arena;
    struct jr reader;
    const char *value;
    bool is;

    arena_init(&arena, 0);
    jr_init(&reader, text, strlen(text), &arena);
    is = jr_raw(&reader, &value) == 0 && jr_peek(&reader) == JR_NOTHING && reader.p == reader.end;
    arena_finish(&arena);
    return is;
}

bool call_more_is_pair(const char *text, bool is_annotation)
{
    const char *equals = strchr(text, '=');

    return !text[0] || (equals && equals > text && (!is_annotation || is_json(equals + 1)));
}
