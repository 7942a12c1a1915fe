/* Health: what runners say of themselves when their links ask them for their status.
 *
 * A runner can be connected and start no container. So each link whose owner wants to know asks
 * every status_interval, and soon after it came up, at times of its own: a fleet that came at once
 * is not asked at once. No answer in time is a failure as well; a peer that knows no Status is
 * well, and other errors say something about the connection, which is the peer's matter. */
#include <rpc/client_int.h>

#include <base/log.h>
#include <base/utf8.h>

#define HEALTH_FIRST_NS  ENV_S        /* after it came up, at most */
#define HEALTH_ANSWER_NS (10 * ENV_S) /* a status may start a container */
#define HEALTH_TIMEOUT   504

static bool is_wanted(const struct engage_link *l)
{
    return !l->closed && l->cb && l->cb->on_health && l->rpc->config.status_interval_ns > 0;
}

static void ask_within(struct engage_link *l, int64_t ns)
{
    struct env *env = l->rpc->env;
    int64_t most = ns / 4 * 3; /* between a quarter and all of it */

    env_timer_set(env, &l->health.timer,
                  env_now_ns(env) + ns - (int64_t)(env_random_u64(env) % (uint64_t)(most + 1)));
}

static void set_health(struct engage_link *l, bool failing, int32_t code, const char *why)
{
    struct health *h = &l->health;
    bool changed = h->failing != failing;

    h->failing = failing;
    utf8_copy(h->why, sizeof(h->why), failing ? why : "");
    if (!changed) {
        return;
    }
    log_stranger(failing ? FN_LOG_WARN : FN_LOG_INFO,
                 failing ? "the status of a runner fails" : "the status of a runner is good again",
                 "runner_addr", l->peer.address, "code", failing ? log_num(code) : NULL, "error",
                 failing ? h->why : NULL);
    l->cb->on_health(l->ud, &(struct engage_health){ failing, code, h->why });
}

static void health_on_answer(void *ud, const struct rpc_status_result *r)
{
    struct engage_link *l = ud;

    if (!is_wanted(l)) {
        return;
    }
    ask_within(l, l->rpc->config.status_interval_ns);
    if (r->grpc_status == GRPC_OK) {
        set_health(l, r->failed, r->error_code, r->error_text);
    } else if (r->grpc_status == GRPC_UNIMPLEMENTED) {
        set_health(l, false, 0, "");
    } else if (r->grpc_status == GRPC_DEADLINE && l->peer.state == PEER_UP) {
        set_health(l, true, HEALTH_TIMEOUT, "no answer to Status in time");
    }
}

static void on_health_timer(struct env_timer *t)
{
    struct engage_link *l = container_of(t, struct engage_link, health.timer);

    if (l->peer.state == PEER_UP &&
        rpc_status(l, env_now_ns(l->rpc->env) + HEALTH_ANSWER_NS, health_on_answer, l) < 0) {
        ask_within(l, l->rpc->config.status_interval_ns);
    } /* down: it is asked when it is up again */
}

void health_init(struct engage_link *l)
{
    l->health.timer.cb = on_health_timer;
}

void health_ask_soon(struct engage_link *l)
{
    if (is_wanted(l)) {
        ask_within(l, HEALTH_FIRST_NS);
    }
}

void health_finish(struct engage_link *l)
{
    env_timer_clear(l->rpc->env, &l->health.timer);
}
