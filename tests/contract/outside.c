/* Operations, HTTP, programs and processes, as kind or as hostile as a case wants them. */
#include "outside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HUGE_BYTES (256u * 1024u)
#define STREAMS_MAX 64

const char *const outside_mode_names[OUTSIDE_MODES_N] = {
    "answers well",  "is down",
    "refuses",       "answers nothing",
    "talks garbage", "never stops talking",
    "is slow",       "does all of that by turns",
};

static uint64_t refuse_at;
static uint64_t refusable;
static bool refused;
static enum outside_mode mode;
static uint32_t open_answers;

void outside_refuse_at(uint64_t n)
{
    refuse_at = n;
    refusable = 0;
    refused = refused && n == 0; /* the end of a run keeps what it saw */
}

bool outside_refuses(const char *what)
{
    (void)what;
    if (refuse_at == 0 || ++refusable != refuse_at) {
        return false;
    }
    refused = true;
    return true;
}

bool outside_refused(void)
{
    return refused;
}

void outside_mode(enum outside_mode m)
{
    mode = m;
}

static enum outside_mode mode_now(void)
{
    return mode == OUTSIDE_MIXED ? (enum outside_mode)(chance() % OUTSIDE_MIXED) : mode;
}

uint32_t outside_open_answers(void)
{
    return open_answers;
}

/* ---- fn.op ----------------------------------------------------------------------------------- */

struct fn_op op_for(int64_t timeout_ns)
{
    return (struct fn_op){.deadline_ns = timeout_ns ? clock_now() + timeout_ns : INT64_MAX,
                          .cancel_at_ns = INT64_MAX};
}

void must_be_in_time(const char *method, const struct fn_op *op)
{
    int64_t end = op->cancel_at_ns < op->deadline_ns ? op->cancel_at_ns : op->deadline_ns;

    must(clock_now() - ENV_S <= end,
         "%s() came back %lld s after its operation had ended; expected an end at the deadline or "
         "on cancel",
         method, (long long)((clock_now() - end) / ENV_S));
}

const struct fn_op *op_open;

bool must_be_op(const struct fn_op *op, const char *what)
{
    if (!op) {
        violation("%s was called without an operation", what);
    } else if (op != op_open) {
        violation("%s was called with an operation whose method had returned", what);
    }
    return op && op == op_open;
}

static int64_t op_deadline(const struct fn_op *op)
{
    HOST_CALL();
    must_be_in(IN_WORKER, "fn.op deadline_ns");
    return must_be_op(op, "fn.op deadline_ns") ? op->deadline_ns : INT64_MAX;
}

static int op_cancelled(const struct fn_op *op)
{
    HOST_CALL();
    must_be_in(IN_WORKER, "fn.op cancelled");
    return must_be_op(op, "fn.op cancelled") && op->cancel_at_ns <= clock_now();
}

/* Lets time pass until `at` or the end of the operation. */
static int pass_until(struct fn_op *op, int64_t at)
{
    int64_t end = op ? op->deadline_ns : INT64_MAX;
    int64_t cancel = op ? op->cancel_at_ns : INT64_MAX;

    if (op && ++op->asked > 100000) {
        broken("%s() goes on and on after its operation ended; expected an end at the deadline or "
               "on cancel",
               shared->last);
    }
    if (cancel <= at && cancel <= end) {
        clock_jump(cancel > clock_now() ? cancel - clock_now() : 0);
        return FN_E_CANCELLED;
    }
    if (end <= at) {
        clock_jump(end > clock_now() ? end - clock_now() : 0);
        return FN_E_DEADLINE;
    }
    clock_jump(at > clock_now() ? at - clock_now() : 0);
    return 0;
}

static int op_sleep(struct fn_op *op, int64_t at_ns)
{
    HOST_CALL();
    must_be_in(IN_WORKER, "fn.op sleep_until");
    return must_be_op(op, "fn.op sleep_until") ? pass_until(op, at_ns) : FN_E_INVALID;
}

const struct fn_op_if op_table = {FN_HDR(struct fn_op_if, FN_MAGIC_OP), op_deadline, op_cancelled,
                                  op_sleep};

/* ---- fn.wake --------------------------------------------------------------------------------- */

static void wake(const struct fn_host *host, const char *group)
{
    HOST_CALL();
    (void)host;
    trace_text(group);
}

const struct fn_wake_if wake_table = {FN_HDR(struct fn_wake_if, FN_MAGIC_WAKE), wake};

static uint32_t asked;

uint32_t outside_asked(void)
{
    return asked;
}

void outside_count(void)
{
    asked++;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static char *text_new(enum outside_mode how, uint64_t *ret_len)
{
    static const char good[] = "{}";
    static const char garbage[] = "{[\"\\:,%s\x01\xff\xc3\n0e-";
    static const char said[] = "{\"message\": \"no such thing today\"}";
    size_t len = how == OUTSIDE_HUGE ? HUGE_BYTES : how == OUTSIDE_GARBAGE ? 300 : 64;
    char *text = malloc(len + 1);
    size_t i;

    must(text, "the machine has no memory for the test");
    switch (how) {
    case OUTSIDE_GOOD:
        len = (size_t)snprintf(text, len, "%s", good);
        break;
    case OUTSIDE_REFUSED:
        len = (size_t)snprintf(text, len, "%s", said);
        break;
    case OUTSIDE_GARBAGE:
        for (i = 0; i < len; i++) {
            text[i] = garbage[chance() % (sizeof(garbage) - 1)];
        }
        break;
    case OUTSIDE_HUGE:
        memset(text, '[', len);
        break;
    default:
        len = 0;
    }
    text[len] = '\0';
    *ret_len = len;
    return text;
}

static char *text_copy(const char *from, uint64_t *ret_len)
{
    size_t len = from ? strlen(from) : 0;
    char *text = malloc(len + 1);

    must(text, "the machine has no memory for the test");
    memcpy(text, from ? from : "", len);
    text[len] = '\0';
    *ret_len = len;
    return text;
}

/* The errors of the ways that end without an answer; 0 = there is one. */
static int no_answer(enum outside_mode how, struct fn_op *op, uint32_t timeout_ms,
                     struct fn_error *e)
{
    int64_t at = timeout_ms ? clock_now() + (int64_t)timeout_ms * ENV_MS : INT64_MAX;
    int r = 0;

    if (how == OUTSIDE_DOWN) {
        return err_set(e, FN_E_UNAVAILABLE, "connection refused");
    }
    if (how == OUTSIDE_SLOW) {
        if (at == INT64_MAX &&
            (!op || (op->deadline_ns == INT64_MAX && op->cancel_at_ns == INT64_MAX))) {
            at = clock_now() + 3600 * ENV_S;
        }
        r = pass_until(op, at);
        return err_set(e, r < 0 ? r : FN_E_DEADLINE, "no answer in time");
    }
    r = pass_until(op, clock_now() + ENV_MS);
    return r < 0 ? err_set(e, r, "the operation ended") : 0;
}

/* ---- fn.http --------------------------------------------------------------------------------- */

static bool request_ok(const struct fn_http_request *q)
{
    if (!q || q->size < 16 || !q->method || !q->url || strncmp(q->url, "http", 4) != 0) {
        violation("fn.http was given a request without size, method or an absolute url");
        return false;
    }
    return true;
}

/* The status is its first line, the body the rest. */
static void http_stand_in(const char *program, const struct fn_http_request *q,
                          struct fn_http_answer *ret)
{
    char *body = calloc(1, (size_t)q->body_len + 1);
    const char *argv[] = {program, q->method, q->url, body, NULL};
    char *out, *err, *rest;
    int code;

    must(body, "the machine has no memory for the test");
    memcpy(body, q->body ? q->body : "", q->body ? (size_t)q->body_len : 0);
    code = stand_in_run(program, argv, &out, &err);
    ret->status = (uint32_t)strtoul(out, &rest, 10);
    must(code == 0 && ret->status >= 100 && ret->status <= 599,
         "the stand-in program %s ended with %d and said \"%.60s\"; expected 0 and a line with an "
         "HTTP status: %.200s",
         program, code, out, err);
    ret->body = text_copy(*rest == '\n' ? rest + 1 : rest, &ret->body_len);
    free(body);
    free(out);
    free(err);
}

static int http_exchange(const struct fn_host *host, struct fn_op *op,
                         const struct fn_http_request *q, struct fn_http_answer *ret,
                         struct fn_error *e)
{
    enum outside_mode how = mode_now();
    const struct script_step *said;
    char request[1024];
    int r;

    HOST_CALL();
    (void)host;
    must_be_in(op ? IN_WORKER : IN_INIT, "fn.http exchange");
    if (!request_ok(q) || !ret) {
        return FN_E_INVALID;
    }
    outside_count();
    snprintf(request, sizeof(request), "%s %s", q->method, q->url);
    trace_text(request);
    if (op && !must_be_op(op, "fn.http exchange")) {
        return FN_E_INVALID;
    }
    r = no_answer(how, op, q->timeout_ms, e);
    if (r < 0 || outside_refuses("fn.http")) {
        return r < 0 ? r : err_set(e, FN_E_EXHAUSTED, "too many connections");
    }
    said = how == OUTSIDE_GOOD ? script_find(true, request) : NULL;
    if (said && said->run) {
        http_stand_in(said->run, q, ret);
    } else {
        ret->status = said ? (uint32_t)said->status : how == OUTSIDE_REFUSED ? 500 : 200;
        ret->body = said ? text_copy(said->out, &ret->body_len) : text_new(how, &ret->body_len);
    }
    if (q->answer_max && ret->body_len > q->answer_max) {
        free((void *)(uintptr_t)ret->body);
        ret->body = NULL;
        return err_set(e, FN_E_EXHAUSTED, "the answer is longer than %llu bytes",
                       (unsigned long long)q->answer_max);
    }
    open_answers++;
    return 0;
}

static void http_free(struct fn_http_answer *given)
{
    HOST_CALL();
    if (given && given->body) {
        free((void *)(uintptr_t)given->body);
        given->body = NULL;
        open_answers--;
    }
}

static struct stream {
    uint64_t id; /* 0 = free */
    struct fn_http_stream_cb cb;
    void *ud;
    struct instance *in;
    bool ended;
} streams[STREAMS_MAX];
static uint64_t stream_last;

static int http_open(const struct fn_host *host, const struct fn_http_request *q,
                     const struct fn_http_stream_cb *cb, void *ud, uint64_t *ret_id,
                     struct fn_error *e)
{
    size_t i = 0;

    HOST_CALL();
    if (!request_ok(q) || !cb || !cb->end || !ret_id) {
        violation("fn.http stream_open was called without callbacks or ret_id");
        return FN_E_INVALID;
    }
    while (i < STREAMS_MAX && streams[i].id) {
        i++;
    }
    if (i == STREAMS_MAX || outside_refuses("fn.http stream")) {
        return err_set(e, FN_E_EXHAUSTED, "too many streams");
    }
    streams[i] = (struct stream){++stream_last, *cb, ud, instance_of(host), false};
    *ret_id = streams[i].id;
    return 0;
}

static void http_close(const struct fn_host *host, uint64_t id)
{
    HOST_CALL();
    must_be_in(IN_INIT | IN_WORKER, "fn.http stream_close");
    (void)host;
    for (size_t i = 0; i < STREAMS_MAX; i++) {
        if (streams[i].id && streams[i].id == id) {
            streams[i].id = 0;
        }
    }
}

uint32_t outside_open_streams(void)
{
    uint32_t n = 0;

    for (size_t i = 0; i < STREAMS_MAX; i++) {
        n += streams[i].id && !streams[i].ended;
    }
    return n;
}

static void pump_stream(struct stream *s)
{
    enum outside_mode how = mode_now();
    struct fn_error e = ERR_INIT;
    uint64_t id = s->id;
    uint64_t len = 0;
    char *text;

    err_set(&e, FN_E_UNAVAILABLE, "the stream was cut");
    if (how == OUTSIDE_DOWN || how == OUTSIDE_SLOW) {
        s->ended = true;
        enter(s->in, NOWHERE, "stream end");
        s->cb.end(s->ud, 0, &e);
        leave();
        return;
    }
    text = text_new(how, &len);
    if (s->cb.data && len > 0) {
        enter(s->in, NOWHERE, "stream data");
        s->cb.data(s->ud, 200, text, len);
        leave();
    }
    memset(text, 0xdd, len);
    free(text);
    if (s->id == id && how != OUTSIDE_GOOD) {
        s->ended = true;
        enter(s->in, NOWHERE, "stream end");
        s->cb.end(s->ud, how == OUTSIDE_REFUSED ? 500 : 200, NULL);
        leave();
    }
}

const struct fn_http_if http_table = {FN_HDR(struct fn_http_if, FN_MAGIC_HTTP), http_exchange,
                                      http_free, http_open, http_close};

/* ---- fn.exec --------------------------------------------------------------------------------- */

static int exec_run(const struct fn_host *host, struct fn_op *op, const struct fn_exec_request *q,
                    struct fn_exec_result *ret, struct fn_error *e)
{
    enum outside_mode how = mode_now();
    const struct script_step *said;
    char request[1024] = "";
    uint64_t len = 0;
    int r;

    HOST_CALL();
    (void)host;
    must_be_in(IN_WORKER, "fn.exec run");
    outside_count();
    if (!q || !q->argv || !q->argv[0] || !ret) {
        violation("fn.exec run was called without argv[0] or ret");
        return FN_E_INVALID;
    }
    if (op && !must_be_op(op, "fn.exec run")) {
        return FN_E_INVALID;
    }
    for (size_t i = 0; q->argv[i] && len < sizeof(request); i++) {
        len += (uint64_t)snprintf(request + len, sizeof(request) - len, "%s%s", i ? " " : "",
                                  q->argv[i]);
    }
    trace_text(request);
    if (how == OUTSIDE_DOWN) {
        return err_set(e, FN_E_NOT_FOUND, "%s: no such program", q->argv[0]);
    }
    r = no_answer(how, op, q->timeout_ms, e);
    if (r < 0 || outside_refuses("fn.exec")) {
        return r < 0 ? r : err_set(e, FN_E_EXHAUSTED, "too many programs");
    }
    said = how == OUTSIDE_GOOD ? script_find(false, request) : NULL;
    if (said && said->run) {
        ret->exit_code = stand_in_run(said->run, q->argv, &ret->out, &ret->err);
        open_answers++;
        return 0;
    }
    ret->exit_code = said ? (int32_t)said->status : how == OUTSIDE_REFUSED ? 1 : 0;
    ret->out = said ? text_copy(said->out, &len)
                    : text_new(how == OUTSIDE_GOOD ? OUTSIDE_EMPTY : how, &len);
    ret->err = text_new(OUTSIDE_EMPTY, &len);
    open_answers++;
    return 0;
}

static void exec_free(struct fn_exec_result *given)
{
    HOST_CALL();
    if (given && given->out) {
        free(given->out);
        free(given->err);
        given->out = NULL;
        given->err = NULL;
        open_answers--;
    }
}

const struct fn_exec_if exec_table = {FN_HDR(struct fn_exec_if, FN_MAGIC_EXEC), exec_run,
                                      exec_free};

/* ---- fn.proc --------------------------------------------------------------------------------- */

static struct process {
    uint64_t id;
    struct fn_proc_cb cb;
    void *ud;
    struct instance *in;
    bool killed;
} processes[STREAMS_MAX];
static uint64_t process_last;

static uint32_t proc_isolation(const struct fn_host *host)
{
    HOST_CALL();
    (void)host;
    return FN_PROC_HAS_NAMESPACES | FN_PROC_HAS_CGROUP;
}

static int proc_spawn(const struct fn_host *host, const struct fn_proc_spec *spec,
                      const struct fn_proc_cb *cb, void *ud, uint64_t *ret_id, struct fn_error *e)
{
    enum outside_mode how = mode_now();
    size_t i = 0;

    HOST_CALL();
    must_be_in(IN_WORKER, "fn.proc spawn");
    outside_count();
    if (!spec || !spec->argv || !spec->argv[0] || spec->argv[0][0] != '/' || !cb || !cb->exited) {
        violation("fn.proc spawn was called without an absolute argv[0] or without callbacks");
        return FN_E_INVALID;
    }
    while (i < STREAMS_MAX && processes[i].id) {
        i++;
    }
    if (i == STREAMS_MAX || outside_refuses("fn.proc") || how == OUTSIDE_DOWN ||
        how == OUTSIDE_REFUSED) {
        return err_set(e, FN_E_UNAVAILABLE, "no process can be started");
    }
    processes[i] = (struct process){++process_last, *cb, ud, instance_of(host), false};
    *ret_id = processes[i].id;
    return 0;
}

static int proc_kill(const struct fn_host *host, uint64_t id, struct fn_error *e)
{
    HOST_CALL();
    (void)host;
    (void)e;
    for (size_t i = 0; i < STREAMS_MAX; i++) {
        processes[i].killed = processes[i].killed || (processes[i].id && processes[i].id == id);
    }
    return 0;
}

static int proc_freeze(const struct fn_host *host, uint64_t id, uint32_t on, struct fn_error *e)
{
    HOST_CALL();
    (void)host;
    (void)id;
    (void)on;
    return mode_now() == OUTSIDE_GOOD ? 0 : err_set(e, FN_E_UNAVAILABLE, "no freezer");
}

static int proc_sweep(const struct fn_host *host, const char *prefix, const char *keep,
                      uint32_t *ret_removed, struct fn_error *e)
{
    HOST_CALL();
    (void)host;
    (void)prefix;
    (void)keep;
    if (mode_now() != OUTSIDE_GOOD) {
        return err_set(e, FN_E_UNAVAILABLE, "no control groups");
    }
    *ret_removed = 0;
    return 0;
}

const struct fn_proc_if proc_table = {FN_HDR(struct fn_proc_if, FN_MAGIC_PROC),
                                      proc_isolation,
                                      proc_spawn,
                                      proc_kill,
                                      proc_freeze,
                                      proc_sweep};

uint32_t outside_open_processes(void)
{
    uint32_t n = 0;

    for (size_t i = 0; i < STREAMS_MAX; i++) {
        n += processes[i].id != 0;
    }
    return n;
}

static void pump_process(struct process *p)
{
    struct process was = *p;

    if (was.cb.output) {
        enter(was.in, NOWHERE, "process output");
        was.cb.output(was.ud, 1, "hello\n", 6);
        leave();
    }
    if (was.killed || mode != OUTSIDE_GOOD) {
        p->id = 0;
        enter(was.in, NOWHERE, "process exited");
        was.cb.exited(was.ud, was.killed ? -9 : 1, 0);
        leave();
    }
}

/* ---- fn.rpc: a call ends with one answer or none, from the loop
 * ---------------------------------- */

static struct rpc_call {
    uint64_t id;
    struct fn_rpc_cb cb;
    void *ud;
    struct instance *in;
    bool cancelled;
    bool stream;
} calls[STREAMS_MAX];
static uint64_t rpc_last;

static int rpc_open(const struct fn_host *host, const char *address, const char *tls,
                    uint64_t *ret_channel, struct fn_error *e)
{
    HOST_CALL();
    (void)host;
    (void)tls;
    must_be_in(IN_INIT | IN_LOOP, "fn.rpc open");
    if (!address || !address[0] || !ret_channel || outside_refuses("fn.rpc open")) {
        return err_set(e, FN_E_EXHAUSTED, "too many channels");
    }
    trace_text(address);
    *ret_channel = ++rpc_last;
    return 0;
}

static void rpc_close(const struct fn_host *host, uint64_t channel)
{
    HOST_CALL();
    (void)host;
    (void)channel;
    must_be_in(IN_INIT | IN_LOOP, "fn.rpc close");
    for (size_t i = 0; i < STREAMS_MAX; i++) {
        calls[i].cancelled = true;
    }
}

static int rpc_start(const struct fn_host *host, const struct fn_rpc_call *c,
                     const struct fn_rpc_cb *cb, void *ud, uint64_t *ret_id, struct fn_error *e)
{
    size_t i = 0;

    HOST_CALL();
    must_be_in(IN_LOOP, "fn.rpc call");
    if (!c || !c->method || c->method[0] != '/' || !cb || !cb->end || (!c->message && c->len)) {
        violation("fn.rpc call was made without a method, callbacks or message");
        return FN_E_INVALID;
    }
    while (i < STREAMS_MAX && calls[i].id) {
        i++;
    }
    if (i == STREAMS_MAX || outside_refuses("fn.rpc call")) {
        return err_set(e, FN_E_EXHAUSTED, "too many calls");
    }
    calls[i] = (struct rpc_call){++rpc_last, *cb, ud, instance_of(host), false, c->timeout_ms == 0};
    if (ret_id) {
        *ret_id = calls[i].id;
    }
    trace_text(c->method);
    trace_add(c->message, (size_t)c->len);
    return 0;
}

static void rpc_cancel(const struct fn_host *host, uint64_t id)
{
    HOST_CALL();
    (void)host;
    must_be_in(IN_LOOP, "fn.rpc cancel");
    for (size_t i = 0; i < STREAMS_MAX; i++) {
        calls[i].cancelled = calls[i].cancelled || (calls[i].id && calls[i].id == id);
    }
}

const struct fn_rpc_if rpc_table = {FN_HDR(struct fn_rpc_if, FN_MAGIC_RPC), rpc_open, rpc_close,
                                    rpc_start, rpc_cancel};

static void pump_call(struct rpc_call *slot)
{
    enum outside_mode how = mode_now();
    struct rpc_call c = *slot;
    uint64_t len = 0;
    char *text;

    if (!c.cancelled && how == OUTSIDE_SLOW && c.stream) {
        return;
    }
    slot->id = 0;
    if (!c.cancelled && (how == OUTSIDE_GARBAGE || how == OUTSIDE_HUGE || how == OUTSIDE_EMPTY) &&
        c.cb.message) {
        text = text_new(how, &len);
        enter(c.in, LOOP, "rpc message");
        c.cb.message(c.ud, text, len);
        leave();
        free(text);
    }
    enter(c.in, LOOP, "rpc end");
    c.cb.end(c.ud,
             c.cancelled           ? FN_E_CANCELLED
             : how == OUTSIDE_SLOW ? FN_E_DEADLINE
                                   : FN_E_UNAVAILABLE,
             "no server");
    leave();
}

uint32_t outside_left(const struct instance *in)
{
    uint32_t n = 0;

    for (size_t i = 0; i < STREAMS_MAX; i++) {
        n += streams[i].id && streams[i].in == in && !streams[i].ended;
        n += processes[i].id && processes[i].in == in && !processes[i].killed;
    }
    return n;
}

void outside_end(struct instance *in)
{
    for (size_t i = 0; i < STREAMS_MAX; i++) {
        struct process was = processes[i];

        if (was.id && was.in == in) {
            processes[i].id = 0;
            enter(in, NOWHERE, "process exited");
            was.cb.exited(was.ud, -9, 0);
            leave();
        }
    }
}

/* What an instance that is gone left open is forgotten. */
void outside_forget(struct instance *in)
{
    for (size_t i = 0; i < STREAMS_MAX; i++) {
        streams[i].id = streams[i].in == in ? 0 : streams[i].id;
        processes[i].id = processes[i].in == in ? 0 : processes[i].id;
        calls[i].id = calls[i].in == in ? 0 : calls[i].id;
    }
}

void outside_pump(void)
{
    for (size_t i = 0; i < STREAMS_MAX; i++) {
        if (streams[i].id && !streams[i].ended) {
            pump_stream(&streams[i]);
        }
        if (processes[i].id) {
            pump_process(&processes[i]);
        }
        if (calls[i].id) {
            pump_call(&calls[i]);
        }
    }
}
