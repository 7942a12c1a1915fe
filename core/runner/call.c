/* Calls: from TryCall to the container that runs them.
 *
 *   BODY ──▶ WAIT ◀──▶ TAKEN ──▶ RUN ──▶ DONE        each of them ──▶ ENDING ──▶ DONE
 *
 *   BODY to WAIT          slots_wait(): no container is idle; in q->waiters until slots_unwait()
 *   BODY, WAIT to TAKEN   container_take(): rc->c is its own, and it is that container's call
 *   TAKEN to RUN          rcall_dispatch(): listeners were told, rc->ex is there from then on
 *   TAKEN, RUN to WAIT    rcall_again(): the container was lost before it accepted a byte
 *   to ENDING             end_soon(): what the caller is told is known, inside of a callback;
 *                         rc->task is deferred, and nothing more is taken from anybody
 *   to DONE               conclude(), rcall_drop(), rcall_forget(): rcall_free() comes next
 *
 * A call is given to a container only when its first body frame is there. Until the function side
 * is known to have accepted a byte, everything that was sent is kept, so that another container can
 * be tried; one accepted byte ends that. A refusal (NACK) is only ever sent for a call of which no
 * byte was accepted.
 *
 * A detached call is acknowledged (202) with the first byte that its function accepted.
 *
 * When the caller goes away, a call that has not been dispatched is forgotten; one whose whole
 * request was handed over runs to its end with its answer thrown away. */
#include <runner/runner_int.h>

#include <assert.h>
#include <fnmatch.h>
#include <model/header_rules.h>
#include <model/time_text.h>
#include <openssl/crypto.h>
#include <override/override.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define RCALL_BYTES_USUAL 2560  /* of model, headers and texts */
#define REPLAY_BYTES_MAX  65536 /* of body kept until the function accepted a byte */
#define TEXT_NO_ROOM      "memory of waiting calls is used up"

static const uint32_t follows[RC_STATES_N] = {
    [RC_BODY] = STATE(RC_WAIT) | STATE(RC_TAKEN) | STATE(RC_ENDING) | STATE(RC_DONE),
    [RC_WAIT] = STATE(RC_TAKEN) | STATE(RC_ENDING) | STATE(RC_DONE),
    [RC_TAKEN] = STATE(RC_RUN) | STATE(RC_WAIT) | STATE(RC_ENDING) | STATE(RC_DONE),
    [RC_RUN] = STATE(RC_WAIT) | STATE(RC_ENDING) | STATE(RC_DONE),
    [RC_ENDING] = STATE(RC_DONE),
    [RC_DONE] = 0,
};
static const char *const names[RC_STATES_N] = { "body", "wait", "taken", "run", "ending", "done" };
const struct states rcall_states = { "runner-call", names, follows, RC_STATES_N };

void rcall_enter(struct rcall *rc, enum rcall_state state)
{
    rc->state = (enum rcall_state)states_next(&rcall_states, rc->state, state);
}

static void arm_awaiting(struct runner *r)
{
    struct rcall *first = TAILQ_FIRST(&r->awaiting);

    if (first && !env_timer_is_set(&r->awaiting_timer)) {
        env_timer_set(r->env, &r->awaiting_timer, first->created_ns + r->opt.body_wait_ns);
    }
}

/* ---- checks -------------------------------------------------------------------------------- */

static int check_image(const struct runner *r, const struct call *c, struct fn_error *err)
{
    if (r->opt.status_image && strcmp(c->image, r->opt.status_image) == 0) {
        return err_set_http(err, FN_E_INVALID, 400, FN_BLAME_PLATFORM,
                            "RUN411 image, got \"%.64s\"; expected another one than "
                            "runner.status_image (Invalid Fn image)", c->image);
    }
    if (r->opt.images_allowed.n == 0) {
        return 0;
    }
    for (uint64_t i = 0; i < r->opt.images_allowed.n; i++) {
        if (fnmatch(r->opt.images_allowed.items[i], c->image, 0) == 0) {
            return 0;
        }
    }
    return err_set_http(err, FN_E_PERMISSION, 403, FN_BLAME_PLATFORM,
                        "RUN407 image not allowed here, got \"%.64s\"", c->image);
}

static int check_room(const struct runner *r, struct rcall *rc, struct fn_error *err)
{
    const struct call *c = &rc->call;
    const struct account_totals *t = &r->account.totals;
    unsigned long long least = r->opt.mem_mb_min;
    unsigned long long most = t->mem_bytes / ACCOUNT_MIB;
    char range[64];

    if (c->mem_mb < least || c->mem_mb > most || c->mem_mb + c->tmpfs_mb > most) {
        snprintf(range, sizeof(range),
                 least <= most ? "%llu..%llu MB"
                               : "%llu MB or more of a runner that has %llu MB for functions",
                 least, most);
        return err_set_http(err, FN_E_INVALID, 400, FN_BLAME_PLATFORM,
                            "RUN405 memory, got %llu; expected %s "
                            "(Requested CPU/Memory cannot be allocated)",
                            (unsigned long long)c->mem_mb, range);
    }
    if (c->cpu_milli > t->cpu_milli) {
        return err_set_http(err, FN_E_INVALID, 400, FN_BLAME_PLATFORM,
                            "RUN405 cpus, got %llum; expected at most %llum "
                            "(Requested CPU/Memory cannot be allocated)",
                            (unsigned long long)c->cpu_milli, (unsigned long long)t->cpu_milli);
    }
    return 0;
}

static int parse_hash_id(const char *hex, unsigned char key[SLOT_KEY_BYTES], struct fn_error *err)
{
    size_t len = strlen(hex);

    memset(key, 0, SLOT_KEY_BYTES);
    for (size_t i = 0; i < len; i++) {
        int d = OPENSSL_hexchar2int((unsigned char)hex[i]);

        if (d < 0 || len % 2 || len > 2 * SLOT_KEY_BYTES) {
            return err_set_http(err, FN_E_INVALID, 400, FN_BLAME_PLATFORM,
                                "RUN404 slot_hash_id, got \"%.64s\"; expected up to %d hex digits",
                                hex, 2 * SLOT_KEY_BYTES);
        }
        key[i / 2] |= (unsigned char)(i % 2 ? d : d << 4);
    }
    return 0;
}

/* Whether this node may make another call of it than the load balancer knew: then the key that came
 * with it would put it into a container of others. */
static bool changes_calls(const struct rcall *rc)
{
    return (rc->chain && rc->chain->n_overriders > 0) ||
           (rc->r->ops->slot_key && rc->extensions.n > 0);
}

static int make_key(struct rcall *rc, const char *slot_hash_id, struct fn_error *err)
{
    struct runner *r = rc->r;
    char text[512] = "";
    int result;

    if (slot_hash_id && *slot_hash_id && !changes_calls(rc)) {
        return parse_hash_id(slot_hash_id, rc->key, err);
    }
    if (r->ops->slot_key) {
        PLUGIN_ASK(result, r->deps.driver, PLUGIN_LOOP, "slot_key", 0, NULL,
                   r->ops->slot_key(r->inst, rc->extensions.items, rc->extensions.n, text,
                                    sizeof(text)));
        if (result < 0 || !plugin_answer_text(r->deps.driver, "slot_key", text, sizeof(text))) {
            return err_set_http(err, FN_E_INVALID, 400, FN_BLAME_PLATFORM,
                                "extensions are too long for the driver's slot key");
        }
    }
    result = keys_find(&r->keys, &rc->call, text, rc->key);
    return result < 0 ? err_set(err, result, "call: out of memory") : 0;
}

static int run_overriders(struct rcall *rc, struct fn_error *err)
{
    int64_t begun_wall_ns;
    int result;

    if (!rc->chain || rc->chain->n_overriders == 0) {
        return 0;
    }
    begun_wall_ns = rc->traced.spans ? env_wall_ns(rc->r->env) : 0;
    result = override_apply(rc->chain->overriders, rc->chain->n_overriders, OVERRIDE_AT_RUNNER,
                            &rc->call, &rc->extensions, err);
    spans_overridden(rc->traced.spans, begun_wall_ns, rc->chain->n_overriders,
                     result < 0 ? err : NULL);
    return result;
}

/* Everything that can be wrong with a TryCall; err->http_status says what to answer. */
static int accept_try(struct rcall *rc, const struct engage_try *t, struct fn_error *err)
{
    struct runner *r = rc->r;
    struct call *c = &rc->call;
    int result = call_from_json(c, t->call_json, t->call_json_len, err);

    if (result == 0) {
        rspans_begin(rc);
        result = kvs_fill(&rc->extensions, t->extensions, t->n_extensions, "extensions", err);
    }
    result = result < 0 ? result : run_overriders(rc, err);
    result = result < 0 ? result : call_check(c, err);
    result = result < 0 ? result : check_image(r, c, err);
    result = result < 0 ? result : check_room(r, rc, err);
    result = result < 0 ? result : task_check_start_limit(rc, err);
    if (result == 0 && c->detached && !r->opt.detached) {
        result = err_set_http(err, FN_E_UNIMPLEMENTED, 501, FN_BLAME_PLATFORM,
                              "Detach call functions are not supported on this server");
    }
    if (result == 0 && call_add_contract(c) < 0) {
        result = err_set(err, FN_E_EXHAUSTED, "call: out of memory");
    }
    result = result < 0 ? result : make_key(rc, t->slot_hash_id, err);
    if (result == 0 &&
        seen_add(&r->seen, c->id ? c->id : "", rc->created_ns, &rc->seen_mark) < 0) {
        metric_add(r->metrics.replays, 1);
        result = err_set_http(err, FN_E_EXISTS, 409, FN_BLAME_PLATFORM,
                              "RUN408 call id came before, got \"%.64s\"; expected a new one",
                              c->id);
    }
    return result;
}

/* ---- bodies -------------------------------------------------------------------------------- */

/* The reason why not, or NULL. */
static const char *add_body(struct rcall *rc, const void *data, size_t len)
{
    if (len == 0) {
        return NULL;
    }
    if (!rcall_charge(rc, len)) {
        return TEXT_NO_ROOM;
    }
    if (buf_add(&rc->body, data, len) < 0) {
        rcall_uncharge(rc, len);
        return "out of memory";
    }
    return NULL;
}

void rcall_drop_body(struct rcall *rc)
{
    rcall_uncharge(rc, rc->body.len);
    buf_finish(&rc->body);
}

/* ---- sessions ------------------------------------------------------------------------------ */

struct rcall *rcall_begin(struct runner *r, const struct engage_server *server,
                          struct engage_session *s)
{
    struct arena arena;
    struct rcall *rc;

    arena_init(&arena, r->opt.call_json_arena_max);
    rc = arena_alloc_owner(&arena, sizeof(*rc), RCALL_BYTES_USUAL);
    if (!rc) {
        return NULL;
    }
    rc->arena = arena;
    rc->r = r;
    rc->server = server;
    rc->session = s;
    rc->body_complete = true;
    rc->task.cb = rcall_end_task;
    rc->created_ns = env_now_ns(r->env);
    call_init(&rc->call, &rc->arena);
    kvs_init(&rc->extensions, &rc->arena);
    TAILQ_INSERT_TAIL(&r->calls, rc, all);
    return rc;
}

/* Nothing is wrong with it: its body comes next. False: it is refused. */
static bool await_body(struct rcall *rc)
{
    if (!rcall_charge(rc, rc->arena.used_bytes)) {
        rcall_nack(rc, ENGAGE_REASON_MEMORY, TEXT_NO_ROOM);
        return false;
    }
    rc->call.created_wall_ns = env_wall_ns(rc->r->env);
    rc->call.started_wall_ns = 0;
    rc->call.completed_wall_ns = 0;
    TAILQ_INSERT_TAIL(&rc->r->awaiting, rc, link);
    return true;
}

/* Without memory for the call itself nothing of it has begun, and another runner may have some. */
static void nack_without_call(struct endpoint *ep, struct engage_session *s)
{
    static const struct engage_finished f = { .error_code = 503,
                                              .error_text = TEXT_BUSY,
                                              .details = "out of memory",
                                              .refusal = { .reason = ENGAGE_REASON_MEMORY } };
    struct runner *r = ep->r;

    r->counts.not_executed++;
    metric_add(r->metrics.outcome[OUTCOME_NOT_EXECUTED], 1);
    metric_add(r->metrics.refusals[ENGAGE_REASON_MEMORY], 1);
    ep->server->finish(s, &f);
}

int rcall_on_try(void *server_ud, struct engage_session *s, const struct engage_try *t,
                 int64_t deadline_ns, void **ret_ud)
{
    struct endpoint *ep = server_ud;
    struct runner *r = ep->r;
    struct fn_error err = ERR_INIT;
    struct rcall *rc = rcall_begin(r, ep->server, s);

    r->counts.received++;
    metric_add(r->metrics.received, 1);
    metric_add(r->metrics.calls, 1);
    if (!rc) {
        nack_without_call(ep, s);
        return 0;
    }
    rc->chain = r->chain ? chain_ref(r->chain) : NULL;
    rc->stream_deadline_ns = deadline_ns;
    rc->request_id = t->request_id ? arena_strdup(&rc->arena, t->request_id) : NULL;
    r->counts.in_flight++;
    r->counts.active++;
    metric_add(r->metrics.in_flight, 1);
    *ret_ud = rc;
    if (accept_try(rc, t, &err) < 0) {
        rcall_refuse(rc, &err);
    } else if (r->draining) {
        rcall_nack(rc, ENGAGE_REASON_DRAINING, "shutting down");
    } else if (await_body(rc)) {
        arm_awaiting(r);
        rc->server->session_more(s);
    }
    return 0;
}

/* Gives it an idle container, or queues it. */
static void rcall_admit(struct rcall *rc)
{
    struct runner *r = rc->r;
    struct slot_queue *q;
    struct container *c;

    TAILQ_REMOVE(&r->awaiting, rc, link);
    q = slots_queue(r, rc->key, &rc->call);
    if (!q) {
        rcall_nack(rc, ENGAGE_REASON_MEMORY, "out of memory");
        return;
    }
    rc->q = q;
    if (r->opt.warm_max > 0 && !rc->own) {
        warm_arrived(q, rc);
    }
    c = q->n_waiters ? NULL : slots_idle(q);
    if (c) {
        container_take(c, rc);
        return;
    }
    slots_wait(q, rc, false);
    slots_kick(q);
}

static void keep_body(struct rcall *rc, const void *data, size_t len)
{
    if (!rc->body_complete) {
        return;
    }
    if ((rc->body.len + len > REPLAY_BYTES_MAX && rc->state == RC_RUN) ||
        add_body(rc, data, len)) {
        rc->body_complete = false;
        rcall_drop_body(rc);
    }
}

static void send_body(struct rcall *rc, const void *data, size_t len)
{
    const struct fnsock_if *fs = rc->r->deps.fnsock;

    if (rc->eof) {
        rc->eof_sent = true;
    }
    if (fs->send(rc->ex, data, len, rc->eof)) {
        rc->fn_full = true;
    } else if (!rc->eof && rc->session) {
        rc->server->session_more(rc->session);
    }
}

void rcall_on_body(void *ud, const void *data, size_t len, bool eof)
{
    struct rcall *rc = ud;
    const char *why;

    if (rc->state >= RC_ENDING || rc->eof) {
        return;
    }
    rc->eof = eof;
    if (rc->state == RC_RUN) {
        keep_body(rc, data, len);
        send_body(rc, data, len);
        return;
    }
    why = add_body(rc, data, len);
    if (why) {
        rcall_take_back(rc, ENGAGE_REASON_MEMORY, why);
        return;
    }
    if (rc->state == RC_BODY) {
        rcall_admit(rc);
    }
}

void rcall_submit(struct rcall *rc, const void *body, size_t len)
{
    if (await_body(rc)) {
        rcall_on_body(rc, body, len, true);
    }
}

void rcall_pause(struct rcall *rc, bool paused)
{
    rc->paused = paused;
    rc->moved = true;
    rc->r->deps.fnsock->pause(rc->ex, paused);
}

void rcall_on_writable(void *ud)
{
    struct rcall *rc = ud;

    if (rc->state == RC_RUN && rc->ex) {
        rcall_pause(rc, false);
    }
}

void calls_awaiting_tick(struct env_timer *t)
{
    struct runner *r = container_of(t, struct runner, awaiting_timer);
    int64_t before = env_now_ns(r->env) - r->opt.body_wait_ns;
    struct rcall *rc;
    struct fn_error err = ERR_INIT;

    while ((rc = TAILQ_FIRST(&r->awaiting)) && rc->created_ns <= before) {
        TAILQ_REMOVE(&r->awaiting, rc, link);
        err_set_http(&err, FN_E_DEADLINE, 408, FN_BLAME_PLATFORM,
                     "RUN409 no body frame came; expected one within %lld ms",
                     (long long)(r->opt.body_wait_ns / ENV_MS));
        rcall_refuse(rc, &err);
    }
    arm_awaiting(r);
}

/* ---- running ------------------------------------------------------------------------------- */

/* The function has accepted bytes, or answered: no other container may be tried. */
static void proven(struct rcall *rc)
{
    if (rc->body_complete) {
        rc->body_complete = false;
        rcall_drop_body(rc);
    }
}

static void on_fn_writable(void *ud)
{
    struct rcall *rc = ud;

    if (rc->state != RC_RUN || !rc->fn_full) {
        return;
    }
    rc->fn_full = false;
    proven(rc);
    if (!rc->eof && rc->session) {
        rc->server->session_more(rc->session);
    }
}

static void rcall_send_start(struct rcall *rc, int status, const struct headers *h)
{
    struct engage_start start = { .status = status };
    struct header *passed = NULL;

    if (h && h->n) {
        passed = arena_alloc(&rc->arena, h->n * sizeof(*passed));
        if (!passed) { /* without them an error of the function would be a 200 */
            rcall_lost(rc);
            return;
        }
        for (uint32_t i = 0; i < h->n; i++) {
            if (header_passes(h->items[i].name, h->items[i].value, HEADER_HOP_BY_HOP)) {
                passed[start.n_headers++] = h->items[i];
            }
        }
    }
    start.headers = passed;
    rc->start_sent = true;
    rc->server->send_start(rc->session, &start);
}

/* The caller of a detached call is told when the function has the first byte, not before: until
 * then the call can still be given to another container or runner. */
static void rcall_on_sent(void *ud)
{
    struct rcall *rc = ud;

    if (rc->state == RC_RUN && rc->call.detached && rc->session && !rc->start_sent) {
        rcall_send_start(rc, 202, NULL);
    }
}

static void on_head(void *ud, int status, const struct headers *h)
{
    struct rcall *rc = ud;

    assert(status == 200 ? rc->eof_sent : status == 502 || status == 504);
    if (rc->state != RC_RUN) {
        return;
    }
    rc->head_seen = true;
    rc->fn_status = status;
    proven(rc);
    rcall_on_sent(rc);
    if (status == 200 && !rc->discard && !rc->call.detached) {
        rcall_send_start(rc, 200, h);
    }
}

static void rcall_on_data(void *ud, const void *data, size_t len)
{
    struct rcall *rc = ud;

    rc->moved = true;
    if (rc->state == RC_RUN && rc->start_sent && !rc->discard && !rc->call.detached &&
        rc->server->send_data(rc->session, data, len) > 0) {
        rcall_pause(rc, true);
    }
}

static void rcall_on_end(void *ud, const struct fnsock_result *result)
{
    struct rcall *rc = ud;

    rc->end = *result;
    rc->bytes_to_function += result->request_bytes;
    rc->ended = true;
    if (result->request_bytes > 0) {
        rcall_on_sent(rc);
    }
    if (rc->state == RC_RUN) {
        rcall_ended(rc);
    }
}

static const struct fnsock_cb exchange_cb = { on_head, rcall_on_data, on_fn_writable, rcall_on_end,
                                              NULL };
static const struct fnsock_cb detached_cb = { on_head, rcall_on_data, on_fn_writable, rcall_on_end,
                                              rcall_on_sent };

/* What the function gets: the call's headers less what belongs to connections, plus id and
 * deadline. */
static int fn_headers(struct rcall *rc, struct headers *ret)
{
    const struct headers *in = &rc->call.headers;
    struct header *items = arena_alloc(&rc->arena, (in->n + 2) * sizeof(*items));
    char *deadline = arena_alloc(&rc->arena, TIME_TEXT_MAX);
    uint32_t n = 0;

    if (!items || !deadline) {
        return FN_E_EXHAUSTED;
    }
    for (uint32_t i = 0; i < in->n; i++) {
        const struct header *h = &in->items[i];

        if (header_passes(h->name, h->value,
                          HEADER_FRAMING | HEADER_HOP_BY_HOP | HEADER_HOST | HEADER_BY_RUNNER)) {
            items[n++] = *h;
        }
    }
    time_print_s(rc->call.created_wall_ns + (rc->deadline_ns - rc->created_ns), deadline);
    items[n++] = (struct header){ "Fn-Call-Id", rc->call.id ? rc->call.id : "" };
    items[n++] = (struct header){ "Fn-Deadline", deadline };
    *ret = (struct headers){ .arena = &rc->arena, .items = items, .n = n, .cap = n };
    return rspans_run(rc, ret);
}

static void fill_deadline(struct rcall *rc, int64_t now)
{
    rc->deadline_ns = now + (int64_t)rc->call.timeout_s * ENV_S;
    if (rc->stream_deadline_ns && rc->stream_deadline_ns < rc->deadline_ns) {
        rc->deadline_ns = rc->stream_deadline_ns;
    }
}

static void start_run(struct rcall *rc)
{
    struct runner *r = rc->r;
    struct fnsock_request req;
    struct headers headers;

    container_arm(rc->c, rc->deadline_ns);
    if (fn_headers(rc, &headers) < 0) {
        rc->ex = NULL;
    } else {
        req.headers = &headers;
        rc->ex = r->deps.fnsock->request(rc->c->sock, &req,
                                         rc->call.detached ? &detached_cb : &exchange_cb, rc);
    }
    if (!rc->ex) {
        rcall_unrun(rc, true);
        rcall_nack(rc, ENGAGE_REASON_MEMORY, "out of memory");
        return;
    }
    rc->ended = rc->paused = false; /* of an exchange before */
    rc->awaits = RUN_AWAITS_NOTHING;
    rc->eof_sent = false;
    rc->fn_full = false;
    send_body(rc, rc->body.data, rc->body.len);
    if (rc->body.len > REPLAY_BYTES_MAX) {
        proven(rc);
    }
}

void rcall_dispatch(struct rcall *rc)
{
    struct runner *r = rc->r;
    struct fn_error err = ERR_INIT;
    int64_t now = env_now_ns(r->env);

    rcall_enter(rc, RC_RUN);
    output_of_call(rc->c, rc->call.id);
    rcall_uncharge(rc, rc->charged - rc->body.len);
    rc->started_ns = rc->started_ns ? rc->started_ns : now;
    rc->run_ns = now;
    r->counts.running++;
    metric_add(r->metrics.running, 1);
    fill_deadline(rc, now);
    if (rc->deadline_ns <= now) {
        rcall_unrun(rc, true);
        rcall_nack(rc, ENGAGE_REASON_NONE, "the stream's deadline passed");
    } else if (!rc->began && listeners_before(rc, &err) < 0) {
        rc->started_ns = 0;
        rcall_unrun(rc, true);
        rcall_refuse(rc, &err);
    } else {
        rc->began = true;
        start_run(rc);
    }
}
