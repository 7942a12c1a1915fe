/* Operator: the plugin of a runner's operator, asked on a lane.
 *
 * For the status it is asked before the image runs. What it answers is copied there and then: its
 * texts are its own again when it is asked the next time. Of a configuration, names of settings are
 * the node's, which has them in use until the plugin has said what it makes of the others: all keys
 * are taken or none. One question of each kind at a time, and one of them on a lane: an
 * instance has one call at a time. */
#include <runner/runner_int.h>

#include <fnmatch.h>
#include <string.h>

#define OPERATOR_TIMEOUT_NS (5 * ENV_S)
#define OPERATOR_CHANGE_NS  (10 * ENV_S)
#define OPERATOR_LOG_NS     (10 * ENV_S)
#define OPERATOR_READ_NS    (5 * ENV_S)
#define OPERATOR_PAUSE_NS   ENV_S /* after lines that the plugin did not take */
#define OPERATOR_TEXTS_MAX  (256u << 10) /* bytes of all pairs together */

struct operator_kind {
    const char *method;
    int64_t timeout_ns;
    int (*ask)(struct operator_job *j, void *inst, struct fn_op *op); /* [worker] the method */
    int (*take)(struct operator_job *j); /* [worker] what it answered; NULL: there is no more */
    void (*tell)(struct runner *r);
};

static const struct fn_operator_ops *ops_of(const struct runner *r)
{
    return r->deps.operator_ ? plugin_ops(r->deps.operator_) : NULL;
}

/* ---- turns ----------------------------------------------------------------------------------- */

#define JOBS_N 4

/* Who goes first. */
static struct operator_job *job_at(const struct runner *r, int i)
{
    const struct operator_job *const jobs[JOBS_N] = { &r->change.job, &r->status.question.job,
                                                      &r->feed.job, &r->read.job };

    return (struct operator_job *)(uintptr_t)jobs[i];
}

static bool has_lane(const struct runner *r)
{
    return r->status.question.job.running || r->change.job.running || r->feed.job.running ||
           r->read.job.running;
}

static void run_job(struct env_work *w, struct fn_op *op)
{
    struct operator_job *j = container_of(w, struct operator_job, work);
    struct plugin *plugin = j->r->deps.operator_;

    PLUGIN_ASK(j->result, plugin, PLUGIN_WORKER, j->kind->method, 0, &j->error,
               j->kind->ask(j, plugin_inst(plugin), op));
    if (j->result == 0 && j->kind->take) {
        j->result = j->kind->take(j);
    }
}

static void job_tell(struct operator_job *j)
{
    j->asking = false;
    j->kind->tell(j->r);
    runner_drain_check(j->r);
}

/* Whoever asks may be about to go over what telling frees. */
static void job_failed(struct env_task *t)
{
    job_tell(container_of(t, struct operator_job, failed));
}

/* The next one gets its lane, or learns that there is none. */
static void take_turn(struct runner *r)
{
    for (int i = 0; i < JOBS_N && !has_lane(r); i++) {
        struct operator_job *j = job_at(r, i);

        if (j->asking && j->result == 0) {
            j->work.deadline_ns = env_now_ns(r->env) + j->kind->timeout_ns;
            j->running = env_submit(r->env, &j->work) == 0;
            if (!j->running) {
                j->result = err_set(&j->error, FN_E_UNAVAILABLE,
                                    "no worker has room for the operator plugin");
                env_defer(r->env, &j->failed);
            }
        }
    }
}

/* It runs until its answer was looked at: the plugin's next call may change what that is of. */
static void job_done(struct env_work *w)
{
    struct operator_job *j = container_of(w, struct operator_job, work);

    if (j->r->abandoned) {
        return;
    }
    job_tell(j);
    j->running = false;
    take_turn(j->r);
}

/* Before it is filled in. */
static void job_clear(struct operator_job *j, size_t bytes_max)
{
    arena_finish(&j->arena);
    arena_init(&j->arena, bytes_max);
    j->result = 0;
    j->error = ERR_INIT;
}

static void job_ask(struct operator_job *j)
{
    j->work =
        (struct env_work){ .run = run_job, .done = job_done, .lane = ENV_LANE_FAST };
    j->asking = true;
    if (j->result < 0) {
        env_defer(j->r->env, &j->failed);
    } else {
        take_turn(j->r);
    }
}

/* ---- status ---------------------------------------------------------------------------------- */

bool operator_says_status(const struct runner *r)
{
    const struct fn_operator_ops *ops = ops_of(r);

    return ops && ops->status;
}

static int ask_status(struct operator_job *j, void *inst, struct fn_op *op)
{
    struct operator_question *q = container_of(j, struct operator_question, job);

    return ops_of(j->r)->status(inst, op, &q->given, &q->given_n, &j->error);
}

static int take_status(struct operator_job *j)
{
    struct operator_question *q = container_of(j, struct operator_question, job);
    struct plugin *plugin = j->r->deps.operator_;
    int result = plugin_answer_pairs(plugin, "status", q->given, q->given_n);

    if (result == 0) {
        q->pairs = kvs_copy_pairs(&j->arena, q->given, q->given_n);
        q->n = q->pairs ? q->given_n : 0;
        result = q->pairs ? 0 : FN_E_EXHAUSTED;
    }
    return result < 0 ? err_set(&j->error, result, "plugin %s: its status cannot be used",
                                plugin_name(plugin))
                      : 0;
}

static void status_tell(struct runner *r)
{
    r->status.question.done(r);
}

static const struct operator_kind status_kind = { "status", OPERATOR_TIMEOUT_NS, ask_status,
                                                  take_status, status_tell };

void operator_ask(struct runner *r, void (*done)(struct runner *r))
{
    struct operator_question *q = &r->status.question;

    job_clear(&q->job, OPERATOR_TEXTS_MAX);
    q->done = done;
    q->given = q->pairs = NULL;
    q->given_n = q->n = 0;
    job_ask(&q->job);
}

/* ---- configuration --------------------------------------------------------------------------- */

static int ask_configure(struct operator_job *j, void *inst, struct fn_op *op)
{
    const struct operator_change *c = container_of(j, struct operator_change, job);

    return ops_of(j->r)->configure(inst, op, c->keys.items, c->keys.n, &j->error);
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
    int result = c->job.result;

    c->from = NULL;
    if (c->settings.n > 0 && !r->deps.settings->keep(r->deps.settings_ud, result >= 0) &&
        result >= 0) {
        result = err_set(&c->job.error, FN_E_UNAVAILABLE, "a reload was made meanwhile; try again");
    }
    if (result < 0) {
        log_stranger(FN_LOG_WARN, "a configuration of this runner was refused", "error",
                     c->job.error.msg);
    } else {
        log_settings(&c->settings);
        log_stranger(FN_LOG_INFO, "this runner was configured", "keys",
                     log_num(c->keys.n + c->settings.n));
    }
    if (from) {
        from->answer(from, -result, result < 0 ? c->job.error.msg : NULL);
    }
}

static const struct operator_kind change_kind = { "configure", OPERATOR_CHANGE_NS, ask_configure,
                                                  NULL, change_tell };

/* Which keys are whose. */
static int change_fill(struct runner *r, const struct engage_config *config,
                       struct fn_error *reterr)
{
    struct operator_change *c = &r->change;
    struct kvs all;
    int result;

    job_clear(&c->job, 0);
    kvs_init(&all, &c->job.arena);
    kvs_init(&c->keys, &c->job.arena);
    kvs_init(&c->settings, &c->job.arena);
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
    r->change.from = config;
    if (r->change.keys.n == 0) {
        job_tell(&r->change.job);
    } else {
        job_ask(&r->change.job);
    }
}

static int take_config(struct runner *r, struct engage_config *config, struct fn_error *reterr)
{
    int result;

    if (r->change.job.asking) {
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

static int ask_log(struct operator_job *j, void *inst, struct fn_op *op)
{
    const struct operator_feed *f = container_of(j, struct operator_feed, job);

    return ops_of(j->r)->log(inst, op, f->lines, f->n, &j->error);
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

    if (f->job.result < 0) {
        metric_add(r->metrics.log_lines_lost, f->n);
        log_stranger(FN_LOG_WARN, "the operator's plugin did not take the output of functions",
                     "lines", log_num(f->n), "error", f->job.error.msg);
    }
    if (f->job.result < 0 && !r->draining) {
        env_timer_set(r->env, &f->pause, env_now_ns(r->env) + OPERATOR_PAUSE_NS);
    } else {
        feed_want(f);
    }
    f->taken(r);
}

static const struct operator_kind feed_kind = { "log", OPERATOR_LOG_NS, ask_log, NULL, feed_tell };

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

    job_clear(&f->job, 0);
    f->lines = arena_alloc(&f->job.arena, n * sizeof(*f->lines));
    for (f->n = 0; f->n < n; f->n++) {
        if (!f->lines || !(f->lines[f->n] = feed_copy(&f->job.arena, &lines[f->n]))) {
            return FN_E_EXHAUSTED;
        }
    }
    logs->wanted = false;
    job_ask(&f->job);
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
    for (int i = 0; i < JOBS_N; i++) {
        env_undefer(r->env, &job_at(r, i)->failed);
    }
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

static int ask_read(struct operator_job *j, void *inst, struct fn_op *op)
{
    struct operator_read *rd = container_of(j, struct operator_read, job);

    rd->lines = NULL;
    rd->n = 0;
    return ops_of(j->r)->read(inst, op, &rd->query, &rd->cursor, &rd->lines, &rd->n, &j->error);
}

static int take_lines(struct operator_job *j)
{
    const struct operator_read *rd = container_of(j, struct operator_read, job);
    struct plugin *plugin = j->r->deps.operator_;

    return plugin_answer_lines(plugin, "read", rd->lines, rd->n) < 0
               ? err_set(&j->error, FN_E_INTERNAL, "plugin %s: its lines cannot be used",
                         plugin_name(plugin))
               : 0;
}

static void read_tell(struct runner *r)
{
    r->read.done(r);
}

static const struct operator_kind read_kind = { "read", OPERATOR_READ_NS, ask_read, take_lines,
                                                read_tell };

static const char *copy_id(struct operator_read *rd, const char *id)
{
    const char *copy = id ? arena_strdup(&rd->job.arena, id) : NULL;

    if (id && !copy) {
        rd->job.result = err_set(&rd->job.error, FN_E_EXHAUSTED, "out of memory");
    }
    return copy;
}

void operator_read(struct runner *r, const struct log_query *q, uint64_t cursor,
                   void (*done)(struct runner *r))
{
    struct operator_read *rd = &r->read;

    job_clear(&rd->job, 0);
    rd->done = done;
    rd->cursor = cursor;
    rd->query = (struct fn_log_query){ .size = sizeof(rd->query),
                                       .since_ms = q->since_ms,
                                       .tail = q->tail,
                                       .app_id = copy_id(rd, q->app_id),
                                       .fn_id = copy_id(rd, q->fn_id),
                                       .container_id = copy_id(rd, q->container_id),
                                       .call_id = copy_id(rd, q->call_id) };
    job_ask(&rd->job);
}

/* ---- life ------------------------------------------------------------------------------------ */

bool operator_is_asked(const struct runner *r)
{
    bool asked = has_lane(r);

    for (int i = 0; i < JOBS_N; i++) {
        asked |= job_at(r, i)->asking;
    }
    return asked;
}

bool operator_has_lines(const struct runner *r)
{
    return r->feed.on && taps_are_behind(&r->feed.logs);
}

void operator_init(struct runner *r)
{
    static const struct operator_kind *const kinds[JOBS_N] = { &change_kind, &status_kind,
                                                               &feed_kind, &read_kind };

    for (int i = 0; i < JOBS_N; i++) {
        struct operator_job *j = job_at(r, i);

        j->r = r;
        j->kind = kinds[i];
        j->failed.cb = job_failed;
        arena_init(&j->arena, 0);
    }
    r->feed.pause.cb = feed_on_pause;
}

void operator_finish(struct runner *r)
{
    for (int i = 0; i < JOBS_N; i++) {
        arena_finish(&job_at(r, i)->arena);
    }
}
