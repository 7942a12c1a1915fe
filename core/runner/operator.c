/* Operator: the plugin of a runner's operator, asked on a lane.
 *
 * For the status it is asked before the image runs. What it answers is copied there and then: its
 * texts are its own again when it is asked the next time. Of a configuration, names of settings are
 * the node's, which has them in use until the plugin has said what it makes of the others: all keys
 * are taken or none. One question of each kind at a time, and one of them on a lane: an
 * instance has one call at a time. */
#include <runner/internal.h>

#include <fnmatch.h>
#include <string.h>

#define OPERATOR_TIMEOUT_NS (5 * ENV_S)
#define OPERATOR_CHANGE_NS  (10 * ENV_S)
#define OPERATOR_LOG_NS     (10 * ENV_S)
#define OPERATOR_READ_NS    (5 * ENV_S)
#define OPERATOR_PAUSE_NS   ENV_S /* after lines that the plugin did not take */
#define OPERATOR_TEXTS_MAX  (256u << 10) /* bytes of all pairs together */

static void take_turn(struct runner *r);

static const struct fn_operator_ops *ops_of(const struct runner *r)
{
    return r->deps.operator_ ? plugin_ops(r->deps.operator_) : NULL;
}

bool operator_says_status(const struct runner *r)
{
    const struct fn_operator_ops *ops = ops_of(r);

    return ops && ops->status;
}

static int copy_pairs(struct operator_question *q, const struct fn_kv *pairs, uint32_t n)
{
    struct fn_kv *copy = arena_alloc(&q->arena, (n + 1) * sizeof(*copy));

    for (uint32_t i = 0; copy && i < n; i++) {
        copy[i].key = arena_strdup(&q->arena, pairs[i].key);
        copy[i].value = arena_strdup(&q->arena, pairs[i].value);
        if (!copy[i].key || !copy[i].value) {
            return FN_E_EXHAUSTED;
        }
    }
    q->pairs = copy;
    q->n = copy ? n : 0;
    return copy ? 0 : FN_E_EXHAUSTED;
}

static void run_question(struct env_work *w, struct fn_op *op)
{
    struct operator_question *q = container_of(w, struct operator_question, work);
    struct plugin *plugin = q->r->deps.operator_;
    const struct fn_kv *pairs = NULL;
    struct plugin_crumb crumb;
    uint32_t n = 0;

    plugin_enter(&crumb, plugin, PLUGIN_WORKER, "status");
    q->result = ops_of(q->r)->status(plugin_inst(plugin), op, &pairs, &n, &q->error);
    plugin_leave(&crumb);
    q->result = plugin_answer_result(plugin, "status", q->result, 0, &q->error);
    if (q->result == 0) {
        q->result = plugin_answer_pairs(plugin, "status", pairs, n);
        q->result = q->result < 0 ? q->result : copy_pairs(q, pairs, n);
        if (q->result < 0) {
            err_set(&q->error, q->result, "plugin %s: its status cannot be used",
                    plugin_name(plugin));
        }
    }
}

static void question_tell(struct runner *r)
{
    r->status.question.asking = false;
    r->status.question.done(r);
    runner_drain_check(r);
}

static void question_done(struct env_work *w)
{
    struct operator_question *q = container_of(w, struct operator_question, work);

    if (q->r->abandoned) {
        return;
    }
    q->running = false;
    question_tell(q->r);
    take_turn(q->r);
}

void operator_ask(struct runner *r, void (*done)(struct runner *r))
{
    struct operator_question *q = &r->status.question;

    arena_finish(&q->arena);
    arena_init(&q->arena, OPERATOR_TEXTS_MAX);
    q->r = r;
    q->done = done;
    q->pairs = NULL;
    q->n = 0;
    q->error = ERR_INIT;
    q->work = (struct env_work){ .run = run_question, .done = question_done,
                                 .lane = ENV_LANE_FAST };
    q->asking = true;
    take_turn(r);
}

/* ---- configuration --------------------------------------------------------------------------- */

static void run_change(struct env_work *w, struct fn_op *op)
{
    struct operator_change *c = container_of(w, struct operator_change, work);
    struct plugin *plugin = c->r->deps.operator_;
    struct plugin_crumb crumb;

    plugin_enter(&crumb, plugin, PLUGIN_WORKER, "configure");
    c->result = ops_of(c->r)->configure(plugin_inst(plugin), op, c->keys.items, c->keys.n,
                                        &c->error);
    plugin_leave(&crumb);
    c->result = plugin_answer_result(plugin, "configure", c->result, 0, &c->error);
}

static void log_settings(const struct kvs *settings)
{
    for (uint32_t i = 0; i < settings->n; i++) {
        log_stranger(FN_LOG_INFO, "a setting was changed by ConfigureRunner, until the next reload",
                     "key", settings->items[i].key, "value", settings->items[i].value);
    }
}

static void change_tell(struct runner *r)
{
    struct operator_change *c = &r->change;
    struct engage_config *from = c->from;

    c->asking = false;
    c->from = NULL;
    if (c->settings.n > 0) {
        r->deps.settings->keep(r->deps.settings_ud, c->result >= 0);
    }
    if (c->result < 0) {
        log_stranger(FN_LOG_WARN, "a configuration of this runner was refused", "error",
                     c->error.msg);
    } else {
        log_settings(&c->settings);
        log_stranger(FN_LOG_INFO, "this runner was configured", "keys",
                     log_num(c->keys.n + c->settings.n));
    }
    if (from) {
        from->answer(from, -c->result, c->result < 0 ? c->error.msg : NULL);
    }
    runner_drain_check(r);
}

static void change_done(struct env_work *w)
{
    struct operator_change *c = container_of(w, struct operator_change, work);

    if (c->r->abandoned) {
        return;
    }
    c->running = false;
    change_tell(c->r);
    take_turn(c->r);
}

/* Which keys are whose. */
static int change_fill(struct runner *r, const struct engage_config *config,
                       struct fn_error *reterr)
{
    struct operator_change *c = &r->change;
    struct kvs all;
    int result;

    arena_finish(&c->arena);
    arena_init(&c->arena, 0);
    kvs_init(&all, &c->arena);
    kvs_init(&c->keys, &c->arena);
    kvs_init(&c->settings, &c->arena);
    result = kvs_fill(&all, config->keys, config->n, "keys", reterr);
    for (uint32_t i = 0; i < all.n && result == 0; i++) {
        bool is_setting = r->deps.settings && r->deps.settings->is_setting(all.items[i].key);

        result = kvs_add_borrowed(is_setting ? &c->settings : &c->keys, all.items[i].key,
                                  all.items[i].value);
    }
    return result == FN_E_EXHAUSTED ? err_set(reterr, result, "out of memory") : result;
}

static bool may_set(const struct runner *r, const char *key)
{
    const struct fn_strlist *list = &r->opt.configurable;
    bool may = false;

    for (uint64_t i = 0; i < list->n && !may; i++) {
        may = fnmatch(list->items[i], key, 0) == 0;
    }
    return may && strcmp(key, "runner.configurable") != 0;
}

/* What can be judged without the plugin; the settings are in use then. */
static int change_check(struct runner *r, struct fn_error *reterr)
{
    const struct fn_operator_ops *ops = ops_of(r);
    struct operator_change *c = &r->change;

    if (c->keys.n > 0 && (!ops || !ops->configure)) {
        return err_set(reterr, FN_E_INVALID,
                       "RUN413 key \"%.80s\": this runner has no operator plugin that takes keys",
                       c->keys.items[0].key);
    }
    for (uint32_t i = 0; i < c->settings.n; i++) {
        if (!may_set(r, c->settings.items[i].key)) {
            return err_set(reterr, FN_E_PERMISSION,
                           "RUN417 key \"%.80s\": expected one that runner.configurable lets be "
                           "changed",
                           c->settings.items[i].key);
        }
    }
    return c->settings.n > 0 ? r->deps.settings->set(r->deps.settings_ud, c->settings.items,
                                                     c->settings.n, reterr)
                             : 0;
}

static void change_begin(struct runner *r, struct engage_config *config)
{
    struct operator_change *c = &r->change;

    c->r = r;
    c->from = config;
    c->result = 0;
    c->error = ERR_INIT;
    c->work = (struct env_work){ .run = run_change, .done = change_done, .lane = ENV_LANE_FAST };
    if (c->keys.n == 0) {
        change_tell(r);
        return;
    }
    c->asking = true;
    take_turn(r);
}

static int take_config(struct runner *r, struct engage_config *config, struct fn_error *reterr)
{
    int result;

    if (r->change.asking) {
        return err_set(reterr, FN_E_UNAVAILABLE, "another configuration is being taken over");
    }
    result = change_fill(r, config, reterr);
    result = result < 0 ? result : change_check(r, reterr);
    if (result == 0) {
        change_begin(r, config);
    }
    return result;
}

void operator_on_configure(void *endpoint, struct engage_config *config)
{
    struct runner *r = ((struct endpoint *)endpoint)->r;
    struct fn_error err = ERR_INIT;
    int result = config->n > 0 ? take_config(r, config, &err) : 0;

    if (result < 0 || config->n == 0) {
        config->answer(config, -result, result < 0 ? err.msg : NULL);
    }
}

void operator_on_configure_gone(void *endpoint, struct engage_config *config)
{
    struct runner *r = ((struct endpoint *)endpoint)->r;

    if (r->change.from == config) {
        r->change.from = NULL; /* the plugin goes on */
    }
}

/* ---- what functions print -------------------------------------------------------------------- */

static void run_feed(struct env_work *w, struct fn_op *op)
{
    struct operator_feed *f = container_of(w, struct operator_feed, work);
    struct plugin *plugin = f->r->deps.operator_;
    struct plugin_crumb crumb;

    plugin_enter(&crumb, plugin, PLUGIN_WORKER, "log");
    f->result = ops_of(f->r)->log(plugin_inst(plugin), op, f->lines, f->n, &f->error);
    plugin_leave(&crumb);
    f->result = plugin_answer_result(plugin, "log", f->result, 0, &f->error);
}

static void feed_want(struct operator_feed *f)
{
    if (f->on) {
        f->logs.wanted = true;
        logs_on_wanted(NULL, &f->logs);
    }
}

static void feed_on_pause(struct env_timer *t)
{
    feed_want(container_of(t, struct operator_feed, pause));
}

/* Who drains has no time for a pause. */
static void feed_tell(struct runner *r)
{
    struct operator_feed *f = &r->feed;

    f->asking = false;
    if (f->result < 0) {
        metric_add(r->metrics.log_lines_lost, f->n);
        log_stranger(FN_LOG_WARN, "the operator's plugin did not take the output of functions",
                     "lines", log_num(f->n), "error", f->error.msg);
    }
    if (f->result < 0 && !r->draining) {
        env_timer_set(r->env, &f->pause, env_now_ns(r->env) + OPERATOR_PAUSE_NS);
    } else {
        feed_want(f);
    }
    f->taken(r);
    runner_drain_check(r);
}

static void feed_done(struct env_work *w)
{
    struct operator_feed *f = container_of(w, struct operator_feed, work);

    if (f->r->abandoned) {
        return;
    }
    f->running = false;
    feed_tell(f->r);
    take_turn(f->r);
}

/* NULL: no memory. */
static const struct fn_log_line *feed_copy(struct arena *a, const struct engage_line *l)
{
    struct fn_log_line *to = arena_alloc(a, sizeof(*to));

    if (!to) {
        return NULL;
    }
    *to = (struct fn_log_line){ .size = sizeof(*to),
                                .fd = l->of_stderr ? 2 : 1,
                                .wall_ms = l->wall_ms,
                                .app_id = arena_strdup(a, l->app_id),
                                .fn_id = arena_strdup(a, l->fn_id),
                                .container_id = arena_strdup(a, l->container_id),
                                .call_id = arena_strdup(a, l->call_id),
                                .data = arena_strndup(a, l->data, l->len),
                                .len = l->len,
                                .lost = l->lost };
    return to->app_id && to->fn_id && to->container_id && to->call_id && to->data ? to : NULL;
}

static int feed_send(struct engage_logs *logs, const struct engage_line *lines, uint32_t n)
{
    struct operator_feed *f = container_of(logs, struct operator_feed, logs);

    arena_finish(&f->arena);
    arena_init(&f->arena, 0);
    f->lines = arena_alloc(&f->arena, n * sizeof(*f->lines));
    for (f->n = 0; f->n < n; f->n++) {
        if (!f->lines || !(f->lines[f->n] = feed_copy(&f->arena, &lines[f->n]))) {
            return FN_E_EXHAUSTED;
        }
    }
    logs->wanted = false;
    f->error = ERR_INIT;
    f->work = (struct env_work){ .run = run_feed, .done = feed_done, .lane = ENV_LANE_FAST };
    f->asking = true;
    take_turn(f->r);
    return 0;
}

/* The runner stops, or has no memory for it. */
static void feed_end(struct engage_logs *logs, int grpc_status, const char *text)
{
    struct operator_feed *f = container_of(logs, struct operator_feed, logs);

    f->on = false;
    if (grpc_status != GRPC_UNAVAILABLE) {
        log_stranger(FN_LOG_ERROR, "the operator's plugin gets no more output of functions",
                     "error", text);
    }
}

void operator_start(struct runner *r)
{
    const struct fn_operator_ops *ops = ops_of(r);
    struct operator_feed *f = &r->feed;

    if (ops && ops->log) {
        f->logs = (struct engage_logs){ .send = feed_send, .end = feed_end };
        f->on = log_reader_open(r, &taps_ops, &f->logs, NULL) == 0;
        feed_want(f);
    }
}

void operator_forget_timers(struct runner *r)
{
    env_timer_clear(r->env, &r->feed.pause);
    env_undefer(r->env, &r->read.failed);
}

/* ---- lines that the plugin has --------------------------------------------------------------- */

static bool wants_history(const struct runner_options *opt)
{
    return strcmp(opt->log_source, "operator") == 0;
}

bool operator_has_history(const struct runner *r)
{
    const struct fn_operator_ops *ops = ops_of(r);

    return ops && ops->read && wants_history(&r->opt);
}

int runner_check_operator(const struct runner_options *opt, const struct plugin *operator_,
                          struct fn_error *reterr)
{
    const struct fn_operator_ops *ops = operator_ ? plugin_ops(operator_) : NULL;

    if (wants_history(opt) && !(ops && ops->read)) {
        return err_set(reterr, FN_E_INVALID,
                       "runner.log_source, got operator; expected plugins.operator to name a "
                       "plugin that has lines of its own");
    }
    return 0;
}

static void run_read(struct env_work *w, struct fn_op *op)
{
    struct operator_read *rd = container_of(w, struct operator_read, work);
    struct plugin *plugin = rd->r->deps.operator_;
    struct plugin_crumb crumb;

    rd->lines = NULL;
    rd->n = 0;
    plugin_enter(&crumb, plugin, PLUGIN_WORKER, "read");
    rd->result = ops_of(rd->r)->read(plugin_inst(plugin), op, &rd->query, &rd->cursor, &rd->lines,
                                     &rd->n, &rd->error);
    plugin_leave(&crumb);
    rd->result = plugin_answer_result(plugin, "read", rd->result, 0, &rd->error);
    if (rd->result == 0 && plugin_answer_lines(plugin, "read", rd->lines, rd->n) < 0) {
        rd->result = err_set(&rd->error, FN_E_INTERNAL, "plugin %s: its lines cannot be used",
                             plugin_name(plugin));
    }
}

static void read_tell(struct runner *r)
{
    r->read.asking = false;
    r->read.done(r);
    runner_drain_check(r);
}

/* It runs until its lines have been looked at: the next call of the plugin may change them. */
static void read_done(struct env_work *w)
{
    struct operator_read *rd = container_of(w, struct operator_read, work);

    if (rd->r->abandoned) {
        return;
    }
    read_tell(rd->r);
    rd->running = false;
    runner_drain_check(rd->r);
    take_turn(rd->r);
}

/* Whoever asks may be about to go over readers, which done() frees. */
static void read_failed(struct env_task *t)
{
    read_tell(container_of(t, struct runner, read.failed));
}

static const char *copy_id(struct operator_read *rd, const char *id)
{
    const char *copy = id ? arena_strdup(&rd->arena, id) : NULL;

    if (id && !copy) {
        rd->result = err_set(&rd->error, FN_E_EXHAUSTED, "out of memory");
    }
    return copy;
}

void operator_read(struct runner *r, const struct log_query *q, uint64_t cursor,
                   void (*done)(struct runner *r))
{
    struct operator_read *rd = &r->read;

    arena_finish(&rd->arena);
    arena_init(&rd->arena, 0);
    rd->error = ERR_INIT;
    rd->result = 0;
    rd->done = done;
    rd->cursor = cursor;
    rd->query = (struct fn_log_query){ .size = sizeof(rd->query),
                                       .since_ms = q->since_ms,
                                       .tail = q->tail,
                                       .app_id = copy_id(rd, q->app_id),
                                       .fn_id = copy_id(rd, q->fn_id),
                                       .container_id = copy_id(rd, q->container_id),
                                       .call_id = copy_id(rd, q->call_id) };
    rd->work = (struct env_work){ .run = run_read, .done = read_done, .lane = ENV_LANE_FAST };
    rd->asking = true;
    if (rd->result < 0) {
        env_defer(r->env, &rd->failed);
    } else {
        take_turn(r);
    }
}

/* ---- turns ----------------------------------------------------------------------------------- */

static bool begin_work(struct runner *r, struct env_work *work, int64_t timeout_ns, int *ret_result,
                       struct fn_error *ret_error)
{
    work->deadline_ns = env_now_ns(r->env) + timeout_ns;
    if (env_submit(r->env, work) == 0) {
        return true;
    }
    *ret_result = err_set(ret_error, FN_E_UNAVAILABLE, "no worker has room for the operator plugin");
    return false;
}

static bool has_lane(const struct runner *r)
{
    return r->status.question.running || r->change.running || r->feed.running || r->read.running;
}

/* The next question gets its lane, or learns that there is none. */
static void take_turn(struct runner *r)
{
    struct operator_question *q = &r->status.question;
    struct operator_change *c = &r->change;
    struct operator_feed *f = &r->feed;
    struct operator_read *rd = &r->read;

    if (c->asking && !has_lane(r)) {
        c->running = begin_work(r, &c->work, OPERATOR_CHANGE_NS, &c->result, &c->error);
        if (!c->running) {
            change_tell(r);
        }
    }
    if (q->asking && !has_lane(r)) {
        q->running = begin_work(r, &q->work, OPERATOR_TIMEOUT_NS, &q->result, &q->error);
        if (!q->running) {
            question_tell(r);
        }
    }
    if (f->asking && !has_lane(r)) {
        f->running = begin_work(r, &f->work, OPERATOR_LOG_NS, &f->result, &f->error);
        if (!f->running) {
            feed_tell(r);
        }
    }
    if (rd->asking && !has_lane(r) && rd->result == 0) {
        rd->running = begin_work(r, &rd->work, OPERATOR_READ_NS, &rd->result, &rd->error);
        if (!rd->running) {
            env_defer(r->env, &rd->failed);
        }
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

bool operator_is_asked(const struct runner *r)
{
    return r->status.question.asking || r->change.asking || r->feed.asking ||
           r->read.asking || r->read.running;
}

bool operator_has_lines(const struct runner *r)
{
    return r->feed.on && taps_are_behind(&r->feed.logs);
}

void operator_init(struct runner *r)
{
    arena_init(&r->status.question.arena, 0);
    arena_init(&r->change.arena, 0);
    arena_init(&r->feed.arena, 0);
    arena_init(&r->read.arena, 0);
    r->feed.r = r;
    r->read.r = r;
    r->read.failed.cb = read_failed;
    r->feed.pause.cb = feed_on_pause;
}

void operator_finish(struct runner *r)
{
    arena_finish(&r->status.question.arena);
    arena_finish(&r->change.arena);
    arena_finish(&r->feed.arena);
    arena_finish(&r->read.arena);
}
