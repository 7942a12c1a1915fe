/* Which network a container is on.
 *
 * Without networks of the operator's that is one of our own, which the first container makes: a
 * bridge whose interface has a fixed name, so that the node's ports can turn away whoever comes by
 * it (grpc.refuse_interfaces), and whose containers do not reach each other. All nodes of an engine
 * share it; it stays when they end.
 *
 *   UNKNOWN ──there, or made──▶ OWN        from its bridge functions reach neither ports nor peers
 *      ▲    ──made in part────▶ OPEN       an engine that cannot part containers: they reach peers
 *      │    ──refused─────────▶ DEFAULT    the engine's own bridge, for NETWORK_AGAIN_NS
 *      │    ──trouble─────────▶ UNKNOWN    containers are on ours all the same, if it is there
 *      └── a start says that it is gone, or the time is over */
#include "docker.h"
#include "engine_json.h"
#include "fail.h"
#include "network_body.h"

#include <stdlib.h>

#define WAIT_STEP_NS (10 * MS)

enum { NETWORK_UNKNOWN, NETWORK_OWN, NETWORK_OPEN, NETWORK_DEFAULT };

/* ---- the operator's -------------------------------------------------------------------------- */

/* The least used entry: one bridge takes at most 1023 containers. */
int network_take(struct docker *d)
{
    uint64_t n = d->conf->networks.n < NETWORKS_MAX ? d->conf->networks.n : NETWORKS_MAX;
    int best = -1;

    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < (int)n; i++) {
        if (best < 0 || d->network_use[i] < d->network_use[best]) {
            best = i;
        }
    }
    if (best >= 0) {
        d->network_use[best]++;
    }
    pthread_mutex_unlock(&d->lock);
    return best;
}

/* ---- our own --------------------------------------------------------------------------------- */

static bool is_ours(const struct fn_http_answer *a)
{
    json_t *root = json_loadb(a->body ? a->body : "", a->body_len, 0, NULL);
    bool yes = strcmp(engine_text(json_object_get(root, "Options"), BRIDGE_OPTION),
                      NETWORK_BRIDGE) == 0 ||
               strcmp(engine_text(json_object_get(root, "Labels"), BRIDGE_LABEL),
                      NETWORK_BRIDGE) == 0;

    json_decref(root);
    return yes;
}

/* 1 when it is there, 0 when not. */
static int look(struct docker *d, struct fn_op *op)
{
    struct fn_http_answer a = { .size = sizeof(a) };
    struct engine_call c = { .method = "GET", .path = "/networks/" NETWORK_NAME,
                             .timeout_ms = INSPECT_TIMEOUT_MS };
    int r = engine_call(d, op, &c, &a, NULL);

    if (r == 0 && a.status != 404) {
        r = a.status == 200 ? 1 : api_failure("network", a.status, a.body, a.body_len, NULL);
    }
    if (r == 1 && !is_ours(&a)) {
        engine_log(d, FN_LOG_WARN, "network " NETWORK_NAME " was made with another bridge than "
                   NETWORK_BRIDGE ": name its interface in grpc.refuse_interfaces, or functions "
                   "reach this node's gRPC port");
    }
    d->http->free_answer(&a);
    return r;
}

enum made { MADE, MADE_IN_PART, REFUSED, TROUBLE, HUNG };

/* That it does not know the option: some warn, and make it without; others fail. */
static bool names_icc(const struct fn_http_answer *a)
{
    json_t *root = json_loadb(a->body ? a->body : "", a->body_len, 0, NULL);
    bool yes = strstr(engine_text(root, "Warning"), ICC_OPTION) ||
               strstr(engine_text(root, "message"), ICC_OPTION);

    json_decref(root);
    return yes;
}

/* Another node may have made it meanwhile (409). What is no answer to what was asked, such as 500,
 * may be another one in a moment: it says nothing of what the engine can do. */
static enum made judge(const struct fn_http_answer *a, bool parted, struct fn_error *reterr)
{
    if (a->status == 409 || (a->status == 201 && !(parted && names_icc(a)))) {
        return MADE;
    }
    if (a->status == 201) {
        fail_platform(reterr, FN_E_UNIMPLEMENTED, "it does not know the option " ICC_OPTION);
        return MADE_IN_PART;
    }
    api_failure("network", a->status, a->body, a->body_len, reterr);
    return (a->status >= 400 && a->status < 500 && a->status != 429) || names_icc(a) ? REFUSED
                                                                                     : TROUBLE;
}

static enum made make(struct docker *d, struct fn_op *op, bool parted, struct fn_error *reterr)
{
    struct fn_http_answer a = { .size = sizeof(a) };
    json_t *object = network_body(parted);
    char *body = json_dumps(object, JSON_COMPACT);
    struct engine_call c = { .method = "POST", .path = "/networks/create", .body = body,
                             .body_len = body ? strlen(body) : 0,
                             .timeout_ms = CHANGE_TIMEOUT_MS };
    int r = body ? engine_call(d, op, &c, &a, reterr)
                 : fail_platform(reterr, FN_E_EXHAUSTED, "network: out of memory");
    enum made made = r == 0 ? judge(&a, parted, reterr) : r == FN_E_DEADLINE ? HUNG : TROUBLE;

    d->http->free_answer(&a);
    free(body);
    json_decref(object);
    return made;
}

/* Trouble once: it is asked for again by each container. */
static void tell(struct docker *d, enum made made, const struct fn_error *why)
{
    switch (made) {
    case MADE:
        engine_log(d, FN_LOG_INFO, "network " NETWORK_NAME " was made for functions");
        break;
    case MADE_IN_PART:
        engine_log(d, FN_LOG_WARN, "the engine cannot keep containers apart (%s): functions reach "
                   "each other over network " NETWORK_NAME, why->msg);
        break;
    case REFUSED:
        engine_log(d, FN_LOG_WARN, "network " NETWORK_NAME " cannot be made (%s): functions are on "
                   "the engine's default network and reach each other; name networks for them in "
                   "`networks`", why->msg);
        break;
    case TROUBLE:
    case HUNG:
        if (!d->network_trouble) {
            engine_log(d, FN_LOG_WARN, "network " NETWORK_NAME " could not be made (%s): no "
                       "function with a network starts until it is; name networks for them in "
                       "`networks` if the engine cannot", why->msg);
        }
        break;
    }
    d->network_trouble = made == TROUBLE || made == HUNG;
}

static enum made find_or_make(struct docker *d, struct fn_op *op)
{
    struct fn_error err = { .size = sizeof(err) };
    int r = look(d, op);
    enum made made;

    if (r != 0) { /* an engine in trouble says so again */
        return r == 1 ? MADE : r == FN_E_DEADLINE ? HUNG : TROUBLE;
    }
    made = make(d, op, true, &err);
    if (made == REFUSED) {
        made = make(d, op, false, NULL);
        made = made == MADE ? MADE_IN_PART : made;
    }
    tell(d, made, &err);
    return made;
}

/* The turn is ours. */
static void network_ask(struct docker *d, struct fn_op *op)
{
    static const struct {
        int state;
        int64_t pause_ns;
    } after[] = { [MADE] = { NETWORK_OWN, 0 },
                  [MADE_IN_PART] = { NETWORK_OPEN, 0 },
                  [REFUSED] = { NETWORK_DEFAULT, NETWORK_AGAIN_NS },
                  [TROUBLE] = { NETWORK_UNKNOWN, 0 },
                  [HUNG] = { NETWORK_UNKNOWN, NETWORK_HUNG_NS } };
    enum made made = find_or_make(d, op);

    pthread_mutex_lock(&d->network_lock);
    d->network_state = after[made].state;
    d->network_next_ns = engine_now_ns(d) + after[made].pause_ns;
    d->network_hung = made == HUNG;
    d->network_asking = false;
    pthread_mutex_unlock(&d->network_lock);
}

enum turn { TURN_OURS, TURN_OTHERS, TURN_OVER };

static enum turn network_turn(struct docker *d)
{
    enum turn turn = TURN_OVER;

    pthread_mutex_lock(&d->network_lock);
    if ((d->network_state == NETWORK_UNKNOWN || d->network_state == NETWORK_DEFAULT) &&
        engine_now_ns(d) >= d->network_next_ns) {
        turn = !d->network_asking ? TURN_OURS : d->network_hung ? TURN_OVER : TURN_OTHERS;
    }
    d->network_asking = d->network_asking || turn == TURN_OURS;
    pthread_mutex_unlock(&d->network_lock);
    return turn;
}

const char *network_own(struct docker *d, struct fn_op *op)
{
    enum turn turn;
    int state;

    while ((turn = network_turn(d)) == TURN_OTHERS &&
           d->op->sleep_until(op, engine_now_ns(d) + WAIT_STEP_NS) == 0) {
    }
    if (turn == TURN_OURS) {
        network_ask(d, op);
    }
    pthread_mutex_lock(&d->network_lock);
    state = d->network_state;
    pthread_mutex_unlock(&d->network_lock);
    return state == NETWORK_DEFAULT ? NULL : NETWORK_NAME;
}

void network_forget(struct docker *d)
{
    pthread_mutex_lock(&d->network_lock);
    if (d->network_state != NETWORK_UNKNOWN) { /* else it is asked for when it is time */
        d->network_state = NETWORK_UNKNOWN;
        d->network_next_ns = 0;
    }
    pthread_mutex_unlock(&d->network_lock);
}
