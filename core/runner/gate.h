/* Gate: a bounded number of operations at a time, with a share for each who asks.
 *
 * An operation is let in on behalf of one or two parties: the app of a container; the app and the
 * registry of an image. A party may hold as many places as are free: of 8 places the first gets 4,
 * the next 2, then 1 and 1. So whoever holds places for long, however many he asks for, leaves as
 * many to the others, and one that is alone gets half. Those who wait are let in by turns, party
 * after party; within a party the urgent ones first, then as they came.
 *
 * All of it is [loop]. No call fails: a party for which there is no memory shares one place in the
 * books with the others of that kind. */
#ifndef RUNNER_GATE_H
#define RUNNER_GATE_H

#include <base/table.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define GATE_PARTIES 2

struct gate_party;

/* One operation. go() and `urgent` are the owner's; the rest is the gate's, zeroed = outside. */
struct gate_pass {
    void (*go)(struct gate_pass *p); /* it is inside; from gate_enter() or when a place is free */
    bool urgent;
    bool waits;
    bool inside;
    struct gate_party *party[GATE_PARTIES]; /* NULL = none */
    TAILQ_ENTRY(gate_pass) link;
};

TAILQ_HEAD(gate_pass_list, gate_pass);
TAILQ_HEAD(gate_party_list, gate_party);

/* Lives while somebody of it is inside or waits. */
struct gate_party {
    UT_hash_handle hh; /* by name */
    char *name;        /* NULL = all those for which there was no memory */
    uint32_t held;
    uint32_t waiting;
    struct gate_pass_list urgent;
    struct gate_pass_list normal;
    bool in_turns;
    TAILQ_ENTRY(gate_party) turn;
};

struct gate {
    uint32_t max;
    uint32_t held;
    uint32_t waiting; /* without the urgent ones */
    bool shut;        /* nobody is let in */
    bool no_shares;   /* whoever comes first */
    bool letting_in;
    struct gate_party *parties[GATE_PARTIES];
    struct gate_party rest[GATE_PARTIES];
    struct gate_party_list turns;             /* who wait, by their first party */
};

void gate_init(struct gate *g, uint32_t max);
/* Names are copied; second NULL = one party. go() may be called from here. */
void gate_enter(struct gate *g, struct gate_pass *p, const char *first, const char *second);
/* Lets it in now or not at all; go() is not called. */
bool gate_try(struct gate *g, struct gate_pass *p, const char *first, const char *second);
void gate_leave(struct gate *g, struct gate_pass *p);    /* gate_let_in() follows */
void gate_withdraw(struct gate *g, struct gate_pass *p); /* does not wait: no effect */
/* What one more of this first party would stand behind, to be compared: how many of it are inside,
 * which its share counts; among as many, how many wait. */
uint64_t gate_load(const struct gate *g, const char *first);
/* The same against a pass that waits, and what stands before that one in its party. */
bool gate_is_sooner(const struct gate *g, const char *first, const struct gate_pass *p);
void gate_let_in(struct gate *g); /* after gate_leave(), or a change of max or shut */

#endif
