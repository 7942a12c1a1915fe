/* Scripted programs and HTTP: the outside of drivers and control planes.
 *
 * A script is a list of steps; a request takes the first step that fits and is not used up. What
 * comes back arrives later, on the fibre that asked (exec, http) or in an event of its own
 * (streams, processes), never from inside the call. Real counterparts: core/loop/exec.c,
 * core/loop/proc.c, core/http/fetch.c; the sentences of failures are theirs where a plugin can see
 * them. */
#include <sim/sim_int.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MAX (1024 * 1024)
#define OUTPUT_MAX (64 * 1024)

struct step {
    struct sim_step_spec spec;
    uint32_t left;
};

/* A stream or a process that has not ended. */
struct feed {
    LIST_ENTRY(feed) link;
    struct sim *sim;
    const struct fn_host *host;
    uint64_t id;
    struct sim_step_spec spec;
    enum sim_script_kind kind;
    struct env_timer timer;
    bool killed;
    const struct fn_http_stream_cb *stream;
    const struct fn_proc_cb *proc;
    void *ud;
};

struct sim_script {
    struct step *steps;
    uint32_t n, cap;
    uint32_t asked, refused;
    struct buf last;
    struct sim_rng rng;
    uint64_t last_id;
    LIST_HEAD(, feed) feeds;
};

int sim_script_init(struct sim *s)
{
    s->script = calloc(1, sizeof(*s->script));
    if (!s->script) {
        return FN_E_EXHAUSTED;
    }
    buf_init(&s->script->last, 0);
    s->script->rng = sim_rng_make(s->hash, 4);
    LIST_INIT(&s->script->feeds);
    return 0;
}

static void feed_end(struct feed *f)
{
    env_timer_clear(&f->sim->env, &f->timer);
    LIST_REMOVE(f, link);
    free(f);
}

void sim_script_finish(struct sim *s)
{
    struct feed *f;

    while ((f = LIST_FIRST(&s->script->feeds))) {
        feed_end(f);
    }
    buf_finish(&s->script->last);
    free(s->script->steps);
    free(s->script);
}

void sim_script_add(struct sim *s, const struct sim_step_spec *step)
{
    struct sim_script *x = s->script;

    if (x->n == x->cap) {
        x->cap = x->cap ? x->cap * 2 : 16;
        x->steps = realloc(x->steps, x->cap * sizeof(*x->steps));
        if (!x->steps) {
            abort();
        }
    }
    x->steps[x->n++] = (struct step){ *step, step->times ? step->times : 1 };
}

void sim_script_clear(struct sim *s)
{
    s->script->n = 0;
}

uint32_t sim_script_asked(const struct sim *s)
{
    return s->script->asked;
}

uint32_t sim_script_refused(const struct sim *s)
{
    return s->script->refused;
}

uint32_t sim_script_left(const struct sim *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->script->n; i++) {
        n += s->script->steps[i].left > 0 && s->script->steps[i].left < UINT32_MAX;
    }
    return n;
}

const char *sim_script_last(const struct sim *s)
{
    return s->script->last.len ? s->script->last.data : "";
}

/* The step for the request in script->last, used up by one; or NULL. */
static const struct sim_step_spec *take(struct sim *s, enum sim_script_kind kind)
{
    struct sim_script *x = s->script;
    const char *asked = sim_script_last(s);
    uint64_t sum = 0;

    for (const char *p = asked; *p; p++) {
        sum = sum * 1099511628211u + (unsigned char)*p;
    }
    x->asked++;
    sim_record(s, SIM_ASKED, kind, sum);
    for (uint32_t i = 0; i < x->n; i++) {
        struct step *st = &x->steps[i];

        if (st->left > 0 && st->spec.kind == kind &&
            strncmp(asked, st->spec.expect, strlen(st->spec.expect)) == 0) {
            st->left -= st->left < UINT32_MAX;
            return &st->spec;
        }
    }
    x->refused++;
    return NULL;
}

static int refuse(const struct sim *s, const char *what, struct fn_error *reterr)
{
    return err_set(reterr, FN_E_UNAVAILABLE, "%s is not in the script, got %.120s", what,
                   sim_script_last(s));
}

/* `text` and the garbage of a step, cut at max; malloc'd, NUL-terminated. */
static char *answer_text(struct sim *s, const char *text, uint32_t garbage, uint64_t max,
                         uint64_t *ret_len)
{
    size_t len = text ? strlen(text) : 0;
    char *out = malloc(len + garbage + 1);

    if (!out) {
        return NULL;
    }
    if (len > 0) {
        memcpy(out, text, len);
    }
    for (uint32_t i = 0; i < garbage; i++) {
        out[len + i] = (char)sim_rng_u64(&s->script->rng);
    }
    len += garbage;
    *ret_len = len < max ? len : max;
    out[*ret_len] = '\0';
    return out;
}

static struct sim *of_host(const struct fn_host *host, const char *iface)
{
    return plugin_impl(host, iface);
}

/* Lets the step's delay pass within the operation's deadline and the request's own; no time passes
 * in destroy(), which has no operation. */
static int pass(struct sim *s, struct fn_op *op, const struct sim_step_spec *spec,
                uint32_t timeout_ms, const char *what, struct fn_error *reterr)
{
    int64_t limit_ns = timeout_ms ? (int64_t)timeout_ms * ENV_MS : INT64_MAX;
    bool slow = spec && spec->delay_ns > limit_ns;
    int r = op ? sim_op_pause(op, slow ? limit_ns : spec ? spec->delay_ns : 0) : 0;

    if (r == FN_E_CANCELLED) {
        return err_set(reterr, r, "%s was cancelled", what);
    }
    if (r < 0 || slow) {
        return err_set(reterr, FN_E_DEADLINE, "%s took too long", what);
    }
    if (!spec) {
        return refuse(s, what, reterr);
    }
    return spec->fail < 0 ? err_set(reterr, spec->fail, "%s", spec->text ? spec->text : what) : 0;
}

/* ---- fn.exec --------------------------------------------------------------------------------- */

static void print_argv(struct sim *s, const char *const *argv)
{
    buf_clear(&s->script->last);
    for (; argv && *argv; argv++) {
        buf_printf(&s->script->last, "%s%s", s->script->last.len ? " " : "", *argv);
    }
    buf_text(&s->script->last);
}

static void exec_free(struct fn_exec_result *given)
{
    if (given) {
        free(given->out);
        free(given->err);
        given->out = given->err = NULL;
    }
}

static int exec_run(const struct fn_host *host, struct fn_op *op, const struct fn_exec_request *rq,
                    struct fn_exec_result *ret, struct fn_error *reterr)
{
    PLUGIN_HOST_CALL("fn.exec.run");
    struct sim *s = of_host(host, "fn.exec");
    uint64_t max = rq->output_max ? rq->output_max : OUTPUT_MAX;
    const struct sim_step_spec *found;
    struct sim_step_spec spec;
    uint64_t len;
    int r;

    print_argv(s, rq->argv);
    found = take(s, SIM_EXEC);
    spec = found ? *found : (struct sim_step_spec){ 0 };
    r = pass(s, op, found ? &spec : NULL, rq->timeout_ms, "program", reterr);
    if (r < 0) {
        return r;
    }
    ret->exit_code = spec.status;
    ret->out = answer_text(s, spec.out, spec.garbage, max, &len);
    ret->err = answer_text(s, spec.err, 0, max, &len);
    if (!ret->out || !ret->err) {
        exec_free(ret);
        return err_set(reterr, FN_E_EXHAUSTED, "program: out of memory");
    }
    return 0;
}

static const struct fn_exec_if exec_if = { FN_HDR(struct fn_exec_if, FN_MAGIC_EXEC), exec_run,
                                           exec_free };

/* ---- streams and processes ------------------------------------------------------------------- */

static void on_stream(struct feed *f)
{
    struct fn_error e = ERR_INIT;
    const struct fn_http_stream_cb *cb = f->stream;
    uint32_t status = f->spec.fail < 0 ? 0 : (uint32_t)f->spec.status;
    uint64_t len = 0;
    uint64_t id = f->id;
    void *ud = f->ud;
    char *text = NULL;

    if (f->spec.fail < 0) {
        err_set(&e, f->spec.fail, "%s", f->spec.text ? f->spec.text : "stream");
    } else {
        text = answer_text(f->sim, f->spec.out, f->spec.garbage, UINT64_MAX, &len);
    }
    if (len > 0) {
        struct sim *s = f->sim;

        cb->data(ud, status, text, len);
        for (f = LIST_FIRST(&s->script->feeds); f && f->id != id; f = LIST_NEXT(f, link)) {
        }
    }
    free(text);
    if (f) { /* not closed by data() */
        feed_end(f);
        cb->end(ud, status, e.code ? &e : NULL);
    }
}

static void on_process(struct feed *f)
{
    const struct fn_proc_cb *cb = f->proc;
    struct sim_step_spec spec = f->spec;
    void *ud = f->ud;
    bool killed = f->killed;
    uint64_t len;
    char *text;

    text = answer_text(f->sim, spec.out, spec.garbage, UINT64_MAX, &len);
    feed_end(f);
    if (text && len > 0 && !killed) {
        cb->output(ud, 1, text, len);
    }
    free(text);
    if (spec.err && spec.err[0] && !killed) {
        cb->output(ud, 2, spec.err, strlen(spec.err));
    }
    cb->exited(ud, killed ? -9 : spec.status, killed ? 0 : spec.oom);
}

static void on_feed(struct env_timer *t)
{
    struct feed *f = container_of(t, struct feed, timer);
    struct plugin_crumb crumb;

    plugin_enter(&crumb, plugin_of(f->host), PLUGIN_WORKER,
                 f->kind == SIM_HTTP ? "stream callback" : "process callback");
    if (f->kind == SIM_HTTP) {
        on_stream(f);
    } else {
        on_process(f);
    }
    plugin_leave(&crumb);
}

static struct feed *feed_start(struct sim *s, const struct fn_host *host, enum sim_script_kind kind,
                               const struct sim_step_spec *spec, void *ud, uint64_t *ret_id)
{
    struct feed *f = calloc(1, sizeof(*f));

    if (!f) {
        abort();
    }
    f->sim = s;
    f->host = host;
    f->kind = kind;
    f->spec = *spec;
    f->ud = ud;
    f->timer.cb = on_feed;
    f->id = ++s->script->last_id;
    LIST_INSERT_HEAD(&s->script->feeds, f, link);
    sim_at(s, &f->timer, s->now_ns + spec->delay_ns);
    *ret_id = f->id;
    return f;
}

static struct feed *feed_find(struct sim *s, const struct fn_host *host, uint64_t id)
{
    struct feed *f;

    LIST_FOREACH(f, &s->script->feeds, link) {
        if (f->id == id && f->host == host) {
            return f;
        }
    }
    return NULL;
}

/* ---- fn.http --------------------------------------------------------------------------------- */

static void print_request(struct sim *s, const struct fn_http_request *rq)
{
    buf_clear(&s->script->last);
    buf_printf(&s->script->last, "%s %s", rq->method, rq->url);
    if (rq->body && rq->body_len > 0) {
        buf_printf(&s->script->last, " %.*s", (int)(rq->body_len < 4096 ? rq->body_len : 4096),
                   (const char *)rq->body);
    }
    buf_text(&s->script->last);
}

static void http_free(struct fn_http_answer *given)
{
    if (given) {
        free((void *)(uintptr_t)given->body);
        given->body = NULL;
        given->body_len = 0;
    }
}

static int http_exchange(const struct fn_host *host, struct fn_op *op,
                         const struct fn_http_request *rq, struct fn_http_answer *ret,
                         struct fn_error *reterr)
{
    PLUGIN_HOST_CALL("fn.http.exchange");
    struct sim *s = of_host(host, "fn.http");
    uint64_t max = rq->answer_max ? rq->answer_max : ANSWER_MAX;
    const struct sim_step_spec *found;
    struct sim_step_spec spec;
    uint64_t len;
    int r;

    print_request(s, rq);
    found = take(s, SIM_HTTP);
    spec = found ? *found : (struct sim_step_spec){ 0 };
    r = pass(s, op, found ? &spec : NULL, rq->timeout_ms, "request", reterr);
    if (r < 0) {
        return r;
    }
    if ((spec.out ? strlen(spec.out) : 0) + spec.garbage > max) {
        return err_set(reterr, FN_E_EXHAUSTED, "answer is longer than %llu bytes",
                       (unsigned long long)max);
    }
    ret->status = (uint32_t)spec.status;
    ret->body = answer_text(s, spec.out, spec.garbage, max, &len);
    ret->body_len = len;
    return ret->body ? 0 : err_set(reterr, FN_E_EXHAUSTED, "request: out of memory");
}

static int http_stream_open(const struct fn_host *host, const struct fn_http_request *copied,
                            const struct fn_http_stream_cb *cb, void *ud, uint64_t *ret_id,
                            struct fn_error *reterr)
{
    PLUGIN_HOST_CALL("fn.http.stream_open");
    static const struct sim_step_spec unknown = { .fail = FN_E_UNAVAILABLE,
                                                  .text = "request is not in the script" };
    struct sim *s = of_host(host, "fn.http");
    const struct sim_step_spec *spec;

    (void)reterr;
    print_request(s, copied);
    spec = take(s, SIM_HTTP);
    feed_start(s, host, SIM_HTTP, spec ? spec : &unknown, ud, ret_id)->stream = cb;
    return 0;
}

static void http_stream_close(const struct fn_host *host, uint64_t id)
{
    PLUGIN_HOST_CALL("fn.http.stream_close");
    struct feed *f = feed_find(of_host(host, "fn.http"), host, id);

    if (f) {
        feed_end(f);
    }
}

static const struct fn_http_if http_if = { FN_HDR(struct fn_http_if, FN_MAGIC_HTTP), http_exchange,
                                           http_free, http_stream_open, http_stream_close };

/* ---- fn.proc --------------------------------------------------------------------------------- */

static uint32_t proc_isolation(const struct fn_host *host)
{
    (void)host;
    return 0;
}

static int proc_spawn(const struct fn_host *host, const struct fn_proc_spec *spec,
                      const struct fn_proc_cb *cb, void *ud, uint64_t *ret_id,
                      struct fn_error *reterr)
{
    PLUGIN_HOST_CALL("fn.proc.spawn");
    struct sim *s = of_host(host, "fn.proc");
    const struct sim_step_spec *step;

    print_argv(s, spec->argv);
    step = take(s, SIM_PROC);
    if (!step) {
        return refuse(s, "program", reterr);
    }
    if (step->fail < 0) {
        return err_set(reterr, step->fail, "%s", step->text ? step->text : "program");
    }
    feed_start(s, host, SIM_PROC, step, ud, ret_id)->proc = cb;
    return 0;
}

static int proc_kill(const struct fn_host *host, uint64_t id, struct fn_error *reterr)
{
    PLUGIN_HOST_CALL("fn.proc.kill");
    struct sim *s = of_host(host, "fn.proc");
    struct feed *f = feed_find(s, host, id);

    (void)reterr;
    if (f) {
        f->killed = true;
        sim_at(s, &f->timer, s->now_ns);
    }
    return 0;
}

static int proc_freeze(const struct fn_host *host, uint64_t id, uint32_t on,
                       struct fn_error *reterr)
{
    PLUGIN_HOST_CALL("fn.proc.freeze");
    (void)on;
    if (!feed_find(of_host(host, "fn.proc"), host, id)) {
        return err_set(reterr, FN_E_NOT_FOUND, "no process %llu", (unsigned long long)id);
    }
    return 0;
}

static int proc_sweep(const struct fn_host *host, const char *prefix, const char *keep,
                      uint32_t *ret_removed, struct fn_error *reterr)
{
    (void)host;
    (void)prefix;
    (void)keep;
    (void)reterr;
    *ret_removed = 0;
    return 0;
}

static const struct fn_proc_if proc_if = { FN_HDR(struct fn_proc_if, FN_MAGIC_PROC), proc_isolation,
                                           proc_spawn, proc_kill, proc_freeze, proc_sweep };

void sim_script_offer(struct sim *s, struct plugin_host *h)
{
    plugin_host_offer(h, "fn.op", 1, 0, &sim_op_if, s);
    plugin_host_offer(h, "fn.exec", 1, 0, &exec_if, s);
    plugin_host_offer(h, "fn.http", 1, 1, &http_if, s);
    plugin_host_offer(h, "fn.proc", 1, 1, &proc_if, s);
}
