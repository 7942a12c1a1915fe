/* The world's outside but for the engine: plugins' host, callers with what they were told, and
 * virtual time. */
#include "world_int.h"

#include <check.h>
#include <conf/opts.h>
#include <model/view.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- plugins ------------------------------------------------------------------------------- */

void plugin_enter(struct plugin_crumb *c, struct plugin *p, enum plugin_context context,
                  const char *method)
{
    *c = (struct plugin_crumb){ .plugin = p, .context = context, .method = method };
}

void plugin_leave(struct plugin_crumb *c)
{
    (void)c;
}

const char *plugin_name(const struct plugin *p)
{
    return p->name;
}

void *plugin_inst(const struct plugin *p)
{
    return p->inst;
}

const void *plugin_ops(const struct plugin *p)
{
    return p->ops;
}

void plugin_bad_answer(struct plugin *p, const char *what)
{
    (void)p;
    ck_abort_msg("bad answer: %s", what);
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

bool plugin_is_beside(void)
{
    return false; /* its driver reports from the loop */
}

static void enter_twice(struct env *e)
{
    (void)e;
    ck_abort_msg("somebody who holds the loop takes it");
}

struct plugin *plugin_of(const struct fn_host *host)
{
    (void)host;
    return &the->driver;
}

/* ---- callers ------------------------------------------------------------------------------- */

static void e_more(struct engage_session *s)
{
    ck_assert(!s->gone && !s->finishes);
    s->more++;
}

static void e_start(struct engage_session *s, const struct engage_start *start)
{
    ck_assert(!s->gone && !s->finishes);
    ck_assert_int_eq(s->starts++, 0);
    s->start_status = start->status;
    for (uint32_t i = 0; i < start->n_headers; i++) {
        size_t at = strlen(s->start_headers);

        snprintf(s->start_headers + at, sizeof(s->start_headers) - at, "%s: %s\n",
                 start->headers[i].name, start->headers[i].value);
    }
}

static int e_data(struct engage_session *s, const void *data, size_t len)
{
    (void)data;
    ck_assert(!s->gone && !s->finishes && s->starts == 1);
    s->data_bytes += len;
    return s->full;
}

static void copy(char *to, size_t cap, const char *from)
{
    snprintf(to, cap, "%s", from ? from : "");
}

static void e_finish(struct engage_session *s, const struct engage_finished *f)
{
    ck_assert(!s->gone);
    ck_assert_int_eq(s->finishes++, 0);
    s->success = f->success;
    s->user = f->error_user;
    s->code = f->error_code;
    copy(s->text, sizeof(s->text), f->error_text);
    copy(s->created, sizeof(s->created), f->created_at);
    copy(s->started, sizeof(s->started), f->started_at);
    copy(s->completed, sizeof(s->completed), f->completed_at);
    copy(s->image, sizeof(s->image), f->image);
    copy(s->details, sizeof(s->details), f->details);
    s->scheduler_ns = f->scheduler_ns;
    s->execution_ns = f->execution_ns;
    s->create_ns = f->ctr_create_ns;
    s->init_ns = f->init_start_ns;
    s->pull_ns = f->image_pull_wait_ns;
    s->prepare_ns = f->ctr_prep_ns;
    s->refusal = f->refusal;
    ck_assert(s->code == 503 || s->refusal.reason == ENGAGE_REASON_NONE);
    ck_assert(!s->scheduler_ns ||
              s->pull_ns + s->prepare_ns + s->create_ns + s->init_ns <= s->scheduler_ns);
    if (!f->success) {
        ck_assert_int_ge(s->code, 400); /* never 0, never 2xx */
        ck_assert_int_lt(s->code, 600);
        ck_assert_int_gt((int)strlen(s->text), 0);
    }
    if (!f->success && s->code == 503) {
        ck_assert(!s->user);
        ck_assert_str_eq(s->text, "Timed out - server too busy");
        ck_assert_uint_eq(s->executions, 0); /* nothing ran */
        ck_assert_int_eq(s->starts, 0);
    }
}

static void e_abort(struct engage_session *s, int grpc_status, const char *text)
{
    (void)s;
    ck_abort_msg("aborted: %d %s", grpc_status, text);
}

static const struct engage_server engage_server = { e_more, e_start, e_data, e_finish, e_abort };

struct engage_session *world_call_json(struct world *w, const char *json, const char *hash_id)
{
    struct engage_session *s = calloc(1, sizeof(*s));
    const char *id = strstr(json, "\"id\": \"");
    struct engage_try t = { .call_json = json, .call_json_len = strlen(json),
                            .slot_hash_id = hash_id ? hash_id : "",
                            .extensions = w->extensions,
                            .n_extensions = w->n_extensions };

    if (id) {
        snprintf(s->id, sizeof(s->id), "%.*s", (int)strcspn(id + 7, "\""), id + 7);
    }
    s->next = w->sessions;
    w->sessions = s;
    ck_assert_int_eq(w->cb.on_try(w->cb_ud, s, &t, 0, &s->ud), 0);
    /* From inside on_try only where there is no memory to remember it. */
    ck_assert_int_eq(s->finishes, w->r->opt.call_json_arena_max == NO_CALL_BYTES);
    return s;
}

struct engage_session *world_call(struct world *w, struct call_spec spec)
{
    static uint32_t serial;
    char json[4096], id[40];
    struct engage_session *s;

    snprintf(id, sizeof(id), "CALL%022u", ++serial);
    snprintf(json, sizeof(json),
             "{\"id\": \"%s\", \"status\":\"running\", \"image\": \"%s\", \"type\":\"%s\","
             "\"url\":\"http://h/invoke/x\", \"method\":\"POST\", \"timeout\": %d,"
             "\"idle_timeout\": 30, \"memory\": %d, \"config\": {\"A\":\"b\" %s},"
             "\"headers\": {\"X-Do\": [\"%s\"], \"Connection\": [\"close\"], \"Host\": [\"h\"],"
             "\"Content-Length\": [\"5\"], \"Fn-Call-Id\": [\"forged\"]}, \"app_id\": \"%s\","
             "\"fn_id\": \"%s\" %s}",
             spec.id ? spec.id : id, spec.image ? spec.image : "hello",
             spec.detached ? "detached" : "sync",
             spec.timeout_s ? spec.timeout_s : 30, spec.mem_mb ? spec.mem_mb : 128,
             spec.config ? spec.config : "",
             spec.what ? spec.what : "ok", spec.app ? spec.app : "app", spec.fn ? spec.fn : "f1", spec.extra ? spec.extra : "");
    s = world_call_json(w, json, NULL);
    if (!spec.no_body) {
        world_body(w, s, NULL, 0, true);
    }
    fake_env_settle(w->f);
    return s;
}

void world_body(struct world *w, struct engage_session *s, const void *data, size_t len, bool eof)
{
    if (!s->finishes && !s->gone) {
        w->cb.on_body(s->ud, data, len, eof);
    }
}

void world_gone(struct world *w, struct engage_session *s)
{
    if (!s->finishes && !s->gone) {
        s->gone = true;
        w->cb.on_gone(s->ud);
    }
    fake_env_settle(w->f);
}

static const char *told(char *to, size_t cap, const char *text)
{
    copy(to, cap, text);
    return to;
}

static void asked_answer(struct engage_ask *ask, const struct engage_status *st)
{
    struct asked *a = container_of(ask, struct asked, ask);

    ck_assert_int_eq(a->answers++, 0);
    a->st = *st;
    a->st.error_text = told(a->text, sizeof(a->text), st->error_text);
    a->st.id = told(a->id, sizeof(a->id), st->id);
    a->st.details = told(a->details, sizeof(a->details), st->details);
    a->st.created_at = told(a->created, sizeof(a->created), st->created_at);
    a->st.started_at = told(a->started, sizeof(a->started), st->started_at);
    a->st.completed_at = told(a->completed, sizeof(a->completed), st->completed_at);
}

void world_ask(struct world *w, struct asked *to, const char *request)
{
    *to = (struct asked){ .ask = { .request = request,
                                   .request_len = strlen(request),
                                   .answer = asked_answer } };
    w->cb.on_status(w->cb_ud, &to->ask);
}

void world_leave(struct world *w, struct asked *to)
{
    ck_assert_int_eq(to->answers, 0);
    w->cb.on_status_gone(w->cb_ud, &to->ask);
}

struct engage_status world_status(struct world *w)
{
    static struct asked a;

    world_ask(w, &a, "{}");
    ck_assert_int_eq(a.answers, 1);
    return a.st;
}

void world_run_ms(struct world *w, int64_t ms)
{
    fake_env_advance(w->f, ms * ENV_MS);
    world_check(w);
}

struct container *world_container(struct world *w, enum ctr_state state)
{
    struct container *c, *next;

    HASH_ITER(hh, w->r->containers, c, next) {
        if (c->state == state) {
            return c;
        }
    }
    return NULL;
}

struct runner_counts world_counts(struct world *w)
{
    struct runner_counts n;

    runner_count(w->r, &n);
    return n;
}

void world_check(struct world *w)
{
    struct runner_counts n = world_counts(w);
    struct container *c, *next;
    struct slot_queue *q, *q_next;
    uint64_t mem = 0, warm_mem = 0, evictable = 0, reserving = 0;
    uint32_t warm = 0, pool_starts = 0, early = 0;

    ck_assert_uint_eq(n.received, n.ok + n.failed + n.not_executed + n.unknown + n.aborted +
                                      n.in_flight); /* P8 */
    HASH_ITER(hh, w->r->containers, c, next) {
        mem += c->charged ? c->need.mem_bytes : 0;
        warm += c->warm;
        warm_mem += c->warm ? c->need.mem_bytes : 0;
        evictable += c->in_idle || c->spare ? c->need.mem_bytes : 0;
        reserving += c->reserving ? c->need.mem_bytes : 0;
        early += c->early;
        ck_assert(!c->early || !c->charged);
        ck_assert(!c->warm || (!c->call && !c->for_call && c->state < CTR_CLOSE));
        ck_assert(!c->spare || (c->warm && c->charged && c->state <= CTR_INIT));
    }
    ck_assert_uint_eq(warm, n.warm.now);
    ck_assert_uint_eq(warm_mem, w->r->warm.held_bytes);
    ck_assert_uint_le(warm_mem * 100, w->totals.mem_bytes * w->r->opt.warm_memory_percent);
    ck_assert_uint_eq(evictable, w->r->evictable.mem_bytes);
    ck_assert_uint_eq(mem, n.used.mem_bytes);
    ck_assert_uint_le(n.used.mem_bytes, w->totals.mem_bytes);
    HASH_ITER(hh, w->r->queues, q, q_next) {
        uint32_t starting = 0, alive = 0, all = 0, for_pool = 0, evictable_n = 0;

        TAILQ_FOREACH(c, &q->containers, link) {
            starting += c->state <= CTR_INIT;
            for_pool += c->warm && c->state <= CTR_INIT;
            evictable_n += c->in_idle || c->spare;
            alive += c->state < CTR_CLOSE;
            all++;
        }
        ck_assert_uint_eq(starting, q->n_starting);
        ck_assert_uint_eq(alive, q->n_containers);
        ck_assert_uint_eq(all, q->n_all);
        ck_assert_uint_eq(for_pool, warm_starting(q));
        reserving += q->claim.promised.mem_bytes;
        ck_assert(!q->claim.open || q->claim.noted);
        ck_assert_uint_eq(evictable_n, q->n_evictable);
        pool_starts += for_pool;
    }
    ck_assert_uint_eq(reserving, w->r->reserving.mem_bytes);
    ck_assert_uint_eq(early, w->r->n_early);
    ck_assert_uint_eq(pool_starts, w->r->warm.starting);
    ck_assert_uint_le(pool_starts, WARM_STARTS_MAX);
}

/* ---- life ---------------------------------------------------------------------------------- */

/* What a listener may read of the call. */
static void world_look(struct world *w, const struct fn_call *call)
{
    const struct fn_view_if *v = view_if();
    const char *zone = v->annotation(call, "zone");
    const char *plan = v->extension(call, "plan");

    ck_assert_str_eq(v->text(call, FN_TEXT_CALL_ID), call->id);
    ck_assert_uint_eq(v->u64(call, FN_FIELD_MEM_MB), call->mem_mb);
    ck_assert_str_eq(v->text(call, FN_TEXT_TYPE), call->kind == FN_CALL_SYNC ? "sync" : "detached");
    snprintf(w->last_zone, sizeof(w->last_zone), "%s", zone ? zone : "");
    snprintf(w->last_plan, sizeof(w->last_plan), "%s", plan ? plan : "");
    snprintf(w->last_slot, sizeof(w->last_slot), "%s", v->text(call, FN_TEXT_SLOT_HASH));
}

static int l_before(void *inst, const struct fn_call *call, struct fn_error *reterr)
{
    struct world *w = inst;

    world_look(w, call);
    snprintf(w->last_before, sizeof(w->last_before), "%s", call->id);
    snprintf(w->last_group, sizeof(w->last_group), "%s", call->lb_group);
    w->asked_before++;
    if (w->listener_refuses || (w->refused_one_in && w->asked_before % w->refused_one_in == 0)) {
        return err_set_http(reterr, FN_E_PERMISSION, 403, FN_BLAME_USER, "not today");
    }
    w->before++;
    return 0;
}

static void l_after(void *inst, const struct fn_call *call, const struct fn_call_end *end_)
{
    struct world *w = inst;

    world_look(w, call);
    w->last_end = *end_;
    w->after++;
}

static const struct fn_listener_ops listener_ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .before = l_before,
    .after = l_after,
};

static bool file_exists(const char *path)
{
    ck_assert_int_eq(path[0], '/');
    return !the->no_file;
}

struct world *world_create(void (*tune)(struct world *w))
{
    struct world *w = calloc(1, sizeof(*w));
    struct plugin *listeners[] = { &w->listener };
    struct runner_deps d = { 0 };
    struct fn_error err = ERR_INIT;
    static const unsigned char ip[4] = { 10, 0, 0, 1 };
    static struct plugin *kept[1];
    static struct chain chain;

    world_engine_begin(w);
    w->f = fake_env_create();
    w->f->env.submit = world_submit;
    w->f->env.enter = enter_twice;
    w->slow_ns = 20 * ENV_MS;
    w->fast_ns = 2 * ENV_MS;
    w->boot_ns = 5 * ENV_MS;
    w->hellos = 1;
    w->totals = (struct account_totals){ .mem_bytes = 1024 * ACCOUNT_MIB, .cpu_milli = 4000 };
    w->driver = (struct plugin){ "fake", &world_driver_ops, w };
    w->listener = (struct plugin){ "listener", &listener_ops, w };
    opt_defaults(&runner_opt_table, &w->opt);
    runner_options_fix(&w->opt);
    w->opt.owner = "fnd";
    w->opt.instance = "00000000000000000000000000000000";
    w->opt.user_logs = 0;
    if (tune) {
        tune(w);
    }
    if (w->with_usage) {
        w->driver.ops = &world_telling_ops;
    }
    id_maker_init(&w->ids, ip, 8080);
    w->hub = driver_hub_create(&w->f->env, NULL);
    ck_assert_int_eq(driver_hub_add(w->hub, &w->driver, &err), 0);
    kept[0] = listeners[0];
    d.env = &w->f->env;
    d.fnsock = &world_fnsock_if;
    d.hub = w->hub;
    d.driver = &w->driver;
    d.operator_ = w->operator_.ops ? &w->operator_ : NULL;
    d.predictor = w->predictor.ops ? &w->predictor : NULL;
    d.ids = &w->ids;
    d.totals = w->totals;
    d.options = w->opt;
    d.leads_home = w->leads_home;
    d.file_exists = file_exists;
    ck_assert_int_eq(runner_create(&d, &w->r, &err), 0);
    chain = (struct chain){ .listeners = kept, .n_listeners = w->with_listener };
    runner_set_plugins(w->r, &chain);
    ck_assert_int_eq(runner_attach(w->r, &engage_server, &w->cb, &w->cb_ud, &err), 0);
    return w;
}

static void drained(void *ud, bool clean)
{
    int *state = ud;

    ck_assert_int_eq(*state, 0);
    *state = clean ? 1 : 2;
}

void world_destroy(struct world *w)
{
    struct engage_session *s, *next;
    int state = 0;

    w->engine_dead = false;
    w->engine_hung = false;
    w->fail_method = NULL;
    w->hang_app = NULL;
    runner_drain(w->r, w->f->now + 400 * ENV_S, drained, &state);
    fake_env_advance(w->f, 600 * ENV_S);
    ck_assert_int_eq(state, 1);
    world_check(w);
    ck_assert_uint_eq(w->live, 0);
    ck_assert_uint_eq(w->socks, 0);
    ck_assert_uint_eq(w->exchanges, 0);
    ck_assert_uint_eq(world_counts(w).in_flight, 0);
    ck_assert_uint_eq(world_counts(w).used.mem_bytes, 0);
    ck_assert_uint_eq(world_counts(w).running, 0);
    ck_assert_uint_eq(world_counts(w).waiting, 0);
    ck_assert_uint_eq(world_counts(w).queues, 0);
    ck_assert_uint_eq(w->r->calls_bytes, 0);
    ck_assert_ptr_null(w->r->memories);
    ck_assert_uint_eq(w->r->reserving.mem_bytes +
                          w->r->closing.mem_bytes + w->r->evictable.mem_bytes, 0);
    runner_destroy(w->r);
    driver_hub_destroy(w->hub);
    ck_assert_uint_eq(w->f->timers.n, 0);
    ck_assert(TAILQ_EMPTY(&w->f->tasks));
    for (s = w->sessions; s; s = next) {
        next = s->next;
        ck_assert_int_eq(s->finishes + s->gone, 1);
        free(s);
    }
    fake_env_destroy(w->f);
    free(w);
}
