/* The books: what the manager must know, kept a second time. */
#ifndef NPM_SIM_BOOKS_H
#define NPM_SIM_BOOKS_H

#include "world.h"

/* books.c: what is checked after each step; books_before() reads the event. */
void books_open(struct world *w, struct pool *p); /* a manager starts */
void books_before(struct world *w, struct pool *p, const struct npm_event *e,
                  const struct message *m);
void books_action(struct world *w, struct pool *p, const struct npm_action *a);
void books_after(struct world *w, struct pool *p, const struct npm_event *e);
/* Further runners that the group may have. */
uint32_t books_room(const struct world *w, const struct pool *p, const struct npm_figures *f);

/* books_demand.c: of these, what is about demand. */
void books_demand_open(struct pool *p);
void books_demand(struct world *w, struct pool *p, const struct npm_event *e,
                  const struct message *m);
void books_demand_expire(struct world *w, struct pool *p);
void books_check_wanted(struct world *w, struct pool *p, const struct npm_figures *f);
uint64_t books_desired_mb(const struct world *w, const struct pool *p);
/* wanted_mb is what the group says, which S8 looked at. */
uint64_t books_desired_of(const struct world *w, const struct pool *p, uint64_t wanted_mb);
/* Largest desired capacity of the last cool-down, now_mb of this step included. */
uint64_t books_peak_mb(struct world *w, struct pool *p, uint64_t now_mb);

#endif
