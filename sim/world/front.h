/* Front: the way of requests from clients into a load balancer, and of answers back. front.c calls
 * core/lb; ../wire/front.c sends them through core/http and core/web, over the kernel. */
#ifndef FND_SIM_FRONT_H
#define FND_SIM_FRONT_H

#include "world.h"

struct front_request {
    uint32_t seq, function;
    const char *what; /* X-Do, as function.c reads it; borrowed */
    bool detached;
    uint64_t body_bytes;
    struct sim_rng *rng; /* of the client: how it sends */
};

enum front_end {
    FRONT_WHOLE,
    FRONT_CUT,  /* behind its head */
    FRONT_LOST, /* before anything came */
};

struct front_cb {
    /* The head. streams: it does not say how the call ended. */
    void (*head)(void *ud, int status, const char *outcome, bool streams);
    /* 1: read on at front_resume(). */
    int (*data)(void *ud, const char *data, size_t len);
    void (*end)(void *ud, enum front_end how); /* the last one; the call is gone */
};

struct front_call;

/* From the load balancer's own timers. NULL: it has ended already. */
struct front_call *front_ask(struct lb_node *l, const struct front_request *rq,
                             const struct front_cb *cb, void *ud);
void front_resume(struct front_call *c);
void front_leave(struct front_call *c); /* no callback after this */

/* A load balancer opens, is drained and closes. */
void front_open(struct lb_node *l);
void front_drain(struct lb_node *l); /* then lb_node_drain_calls(), when nobody can bring a call */
bool front_is_empty(const struct lb_node *l);
void front_forget(struct lb_node *l); /* calls that are over cannot end again, at night */
void front_close(struct lb_node *l); /* before its lb and place */
/* What it counts is what its clients saw. */
void front_check_counts(struct lb_node *l);

#endif
