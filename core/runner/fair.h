/* Private to core/runner: whose turn it is on a runner that is full (fair.c). See runner_int.h. */
#ifndef RUNNER_FAIR_H
#define RUNNER_FAIR_H

#include <base/table.h>
#include <runner/account.h>
#include <sys/queue.h>

#define FAIR_CLAIM_NS  (5 * ENV_S)    /* a claim lives for, after its function asked last */
#define FAIR_RETURN_NS (50 * ENV_MS)  /* who asks again after that has found no other runner */
#define FAIR_TURN_NS   (2 * ENV_S)    /* a container is not taken sooner: a start costs 0.4 s */
#define FAIR_BAR_NS    (10 * ENV_S)   /* no claim, after a start that one made room for failed */
#define FAIR_CLAIMS_MAX 256u          /* looked at whenever a call ends on a full runner */
#define FAIR_CLAIMS_OF_APP_MAX 16u

struct runner;
struct slot_queue;
struct container;

/* What the containers of an app hold. Lives while the app has queues. */
struct fair_app {
    UT_hash_handle hh;
    struct account_need held; /* without those that may be evicted, or are being removed */
    uint32_t queues, claims;
    char id[];
};

/* A function asked for room that there was not; zero = it has not. */
struct claim {
    bool noted;   /* in r->fair.claims */
    bool open;    /* it came back: containers are closed for it */
    int64_t since_ns, asked_ns, barred_ns;
    struct account_need promised; /* of what was closed for it; part of r->reserving */
    TAILQ_ENTRY(slot_queue) link;
};

TAILQ_HEAD(claim_list, slot_queue);

struct fair {
    struct fair_app *apps;
    struct claim_list claims; /* the oldest first */
    uint32_t n_claims, n_open;
    struct env_timer timer; /* the first claim that ends */
    struct metric *closed;
};

void fair_init(struct runner *r);
void fair_stop(struct runner *r); /* claims end; for good: it drains, or ends */

bool fair_join(struct slot_queue *q); /* false: out of memory */
void fair_leave(struct slot_queue *q);
void fair_more(struct slot_queue *q); /* it has one more container */
void fair_less(struct slot_queue *q);
void fair_rests(struct slot_queue *q, bool on); /* one of them may be evicted */

/* q would start a container, and there is no room. */
void fair_ask(struct slot_queue *q);
/* What is promised to others than q. */
struct account_need fair_ahead(const struct slot_queue *q);
/* A container of q has room: its claim ends. Whether some was made for it. */
bool fair_served(struct slot_queue *q);
void fair_failed(struct slot_queue *q); /* to start in room that was made for it, by its fault */

/* Only while n_open > 0. `c` has ended a call: closes it if its room is another's. */
bool fair_takes(struct container *c);
void fair_offer(const struct container *c); /* it is being closed: its room may be another's */
/* Whether an idle container must not be evicted for q, which has `others` containers. */
bool fair_spares(const struct container *c, uint32_t others);

#endif
