/* Who deploys: a client of the management API that makes, changes and deletes functions, one
 * request after the other, and holds the API node to what it acknowledged. A request without an
 * answer may have been carried out, so that the next try has another version.
 *
 * A version is in everything that a function is made of: its image's tag and its configuration. */
#include "api_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES_MAX   4u
#define RETRY_NS    (500 * ENV_MS)
#define ALL_NS      (180 * ENV_S) /* until everything is deployed where nothing is wrong */
#define PATH_BYTES  128
#define BODY_BYTES  512

enum wish_kind { WISH_DEPLOY, WISH_DELETE, WISH_LOOK };

struct wish {
    TAILQ_ENTRY(wish) link;
    enum wish_kind kind;
    uint32_t function, tries;
};

/* What the client knows of a function. */
struct deployed {
    uint32_t newest; /* version that was asked for */
    uint32_t acked;  /* version that was acknowledged; 0 = none since it was made */
    bool may_be_gone; /* a deletion had no answer */
};

struct deploy {
    struct node n; /* first */
    TAILQ_HEAD(, wish) wishes;
    bool asking;
    uint32_t asked; /* version of the request that is out */
    bool insists; /* nothing is wrong: it does not give up */
    char app_id[FN_ID_BYTES];
    struct deployed of[FUNCTIONS_MAX];
    struct env_timer turn;
};

static void deploy_turn(struct deploy *d)
{
    if (!d->asking && (!TAILQ_EMPTY(&d->wishes) || !d->app_id[0]) &&
        !env_timer_is_set(&d->turn)) {
        world_at(&d->n, &d->turn, d->n.w->now_ns);
    }
}

static void wish(struct deploy *d, enum wish_kind kind, uint32_t function)
{
    struct wish *x = sim_alloc(sizeof(*x));

    x->kind = kind;
    x->function = function;
    TAILQ_INSERT_TAIL(&d->wishes, x, link);
    deploy_turn(d);
}

static void wish_over(struct deploy *d)
{
    struct wish *x = TAILQ_FIRST(&d->wishes);

    TAILQ_REMOVE(&d->wishes, x, link);
    free(x);
}

/* ---- answers ------------------------------------------------------------------------------- */

static void take_id(const char *body, char ret[FN_ID_BYTES])
{
    const char *at = body ? strstr(body, "\"id\":\"") : NULL;

    if (at) {
        snprintf(ret, FN_ID_BYTES, "%.*s", (int)strcspn(at + 6, "\""), at + 6);
    }
}

static void gone(struct deploy *d, uint32_t f)
{
    d->n.w->a.fn_id[f][0] = '\0';
    d->of[f].acked = 0;
    d->of[f].may_be_gone = false;
}

/* Somebody says that it is not there. */
static void not_there(struct deploy *d, uint32_t f, const char *what)
{
    if (!d->of[f].may_be_gone) {
        books_break(d->n.w->books, BOOKS_KEPT, 0,
                    "function %u, version %u, was acknowledged and is not there: %s", f,
                    d->of[f].acked, what);
    }
    gone(d, f);
}

static bool on_deployed(struct deploy *d, uint32_t f, uint32_t status, const char *body)
{
    struct deployed *x = &d->of[f];
    char *id = d->n.w->a.fn_id[f];

    if (status == 404 && id[0]) {
        not_there(d, f, "PUT");
        return false;
    }
    if (status != 200) {
        return false;
    }
    if (!id[0]) {
        take_id(body, id);
        snprintf(d->n.w->a.last_id[f], FN_ID_BYTES, "%s", id);
        d->n.w->a.names++;
    }
    x->acked = d->asked;
    return true;
}

static bool on_deleted(struct deploy *d, uint32_t f, uint32_t status)
{
    if (status == 404 || status == 204) {
        gone(d, f);
        return true;
    }
    return false;
}

static bool on_looked(struct deploy *d, uint32_t f, uint32_t status, const char *body)
{
    const struct deployed *x = &d->of[f];
    uint32_t version = 0, of = 0;

    if (status == 404) {
        not_there(d, f, "GET");
        return true;
    }
    if (status != 200) {
        return false;
    }
    if (!version_read(body, &of, &version) || of != f || version < x->acked ||
        version > x->newest) {
        books_break(d->n.w->books, BOOKS_KEPT, 0,
                    "function %u has version %u; expected %u to %u", f, version, x->acked,
                    x->newest);
    }
    return true;
}

static void deploy_on_answer(void *ud, uint32_t status, const char *body, size_t len,
                             const struct fn_error *err)
{
    static const char *const wishes[] = { [WISH_DEPLOY] = "a new version",
                                          [WISH_DELETE] = "a deletion",
                                          [WISH_LOOK] = "a look" };
    struct deploy *d = ud;
    struct wish *x = TAILQ_FIRST(&d->wishes);
    bool done;

    (void)len;
    (void)err;
    d->asking = false;
    if (!d->app_id[0]) {
        take_id(status == 200 ? body : NULL, d->app_id);
        world_at(&d->n, &d->turn, d->n.w->now_ns + RETRY_NS);
        return;
    }
    tell(&d->n, "function %u: %s is answered with %u", x->function, wishes[x->kind], status);
    done = x->kind == WISH_DEPLOY   ? on_deployed(d, x->function, status, body)
           : x->kind == WISH_DELETE ? on_deleted(d, x->function, status)
                                    : on_looked(d, x->function, status, body);
    if (done || (++x->tries >= TRIES_MAX && !d->insists)) {
        wish_over(d);
        deploy_turn(d);
    } else {
        world_at(&d->n, &d->turn, d->n.w->now_ns + RETRY_NS);
    }
}

/* ---- requests ------------------------------------------------------------------------------ */

static void deploy_ask(struct deploy *d, const char *method, const char *path, const char *body)
{
    const struct api_net_request rq = { method, path, body, API_NET_TIMEOUT_NS };

    d->asking = true;
    api_net_ask(&d->n, API_NET_DEPLOYER, &rq, deploy_on_answer, d);
}

static void ask_deploy(struct deploy *d, uint32_t f, const char *path)
{
    const struct plan_function *pf = &d->n.w->plan->function[f];
    uint32_t version = d->asked = ++d->of[f].newest;
    char body[BODY_BYTES], made[BODY_BYTES / 2] = "";

    if (!path) {
        snprintf(made, sizeof(made),
                 "\"name\":\"f%uv%u\",\"app_id\":\"%s\",\"memory\":%llu,\"timeout\":%d,"
                 "\"idle_timeout\":%d,", f, version, d->app_id, (unsigned long long)pf->mem_mb,
                 pf->timeout_s, pf->idle_timeout_s);
    }
    snprintf(body, sizeof(body),
             "{%s\"image\":\"sim/function%u:%u\",\"config\":{\"FUNCTION_VERSION\":\"%u\"}}",
             made, f, version, version);
    deploy_ask(d, path ? "PUT" : "POST", path ? path : "/v2/fns", body);
}

static void on_turn(struct env_timer *t)
{
    struct deploy *d = container_of(t, struct deploy, turn);
    struct wish *x = TAILQ_FIRST(&d->wishes);
    char path[PATH_BYTES];
    const char *id;

    if (d->asking) {
        return;
    }
    if (!d->app_id[0]) {
        deploy_ask(d, "POST", "/v2/apps", "{\"name\":\"app\"}");
        return;
    }
    if (!x) {
        return;
    }
    id = d->n.w->a.fn_id[x->function];
    snprintf(path, sizeof(path), "/v2/fns/%s", id);
    if (x->kind == WISH_DEPLOY) {
        ask_deploy(d, x->function, id[0] ? path : NULL);
    } else if (!id[0]) {
        wish_over(d);
        deploy_turn(d);
    } else {
        d->of[x->function].may_be_gone |= x->kind == WISH_DELETE;
        deploy_ask(d, x->kind == WISH_DELETE ? "DELETE" : "GET", path, "");
    }
}

void deploy_change(struct deploy *d, uint32_t function, bool deleted)
{
    wish(d, deleted ? WISH_DELETE : WISH_DEPLOY, function);
}

void deploy_look(struct deploy *d)
{
    for (uint32_t f = 0; f < d->n.w->plan->functions; f++) {
        wish(d, WISH_LOOK, f);
    }
}

bool deploy_is_idle(const struct deploy *d)
{
    return d->app_id[0] && TAILQ_EMPTY(&d->wishes) && !d->asking;
}

uint32_t deploy_version(const struct deploy *d, uint32_t function)
{
    return d->of[function].acked;
}

bool deploy_wait(struct world *w)
{
    int64_t end_ns = w->now_ns + ALL_NS;

    w->a.deploy->insists = true;
    while (!deploy_is_idle(w->a.deploy) && w->now_ns < end_ns && run_on(w, 100 * ENV_MS)) {
    }
    w->a.deploy->insists = false;
    if (!deploy_is_idle(w->a.deploy)) {
        books_break(w->books, BOOKS_SERVES_AGAIN, 0, "the API node does not answer");
    }
    return !books_broken(w->books);
}

bool deploy_all(struct world *w)
{
    for (uint32_t f = 0; f < w->plan->functions; f++) {
        deploy_change(w->a.deploy, f, false);
    }
    return deploy_wait(w);
}

/* ---- life ---------------------------------------------------------------------------------- */

static bool is_over(const struct node *n)
{
    return !((const struct deploy *)(const void *)n)->asking;
}

static void destroy(struct node *n)
{
    struct deploy *d = container_of(n, struct deploy, n);

    while (!TAILQ_EMPTY(&d->wishes)) {
        wish_over(d);
    }
    node_finish(n);
    free(d);
}

struct deploy *deploy_create(struct world *w)
{
    struct deploy *d = sim_alloc(sizeof(*d));

    node_init(&d->n, w, "deployer", 0);
    d->n.over = is_over;
    d->n.destroy = destroy;
    d->turn.cb = on_turn;
    TAILQ_INIT(&d->wishes);
    deploy_turn(d);
    return d;
}
