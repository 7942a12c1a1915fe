/* Loop: the real clock, timers, sockets, worker lanes and processes of a node.
 *
 * One serialised context, many doors. The loop is a lock, not a thread: the thread in loop_run()
 * takes it for each batch of epoll events and due timers; a lane thread takes it with
 * loop_enter(), runs callbacks and leaves. So a completion is handled by the
 * thread that has it in its hands, without a hop, and state machines still see one event at a time.
 * Deferred tasks run before the lock is given up. */
#ifndef LOOP_LOOP_H
#define LOOP_LOOP_H

#include <base/env.h>
#include <base/err.h>

struct loop;

struct loop_lanes {
    uint32_t threads_max[ENV_LANES_N]; /* defaults: 4, 8, 4, 2, 4 */
    uint32_t queue_max[ENV_LANES_N];   /* defaults: 1024 each */
};

/* lanes NULL = defaults */
int loop_create(const struct loop_lanes *lanes, struct loop **ret, struct fn_error *reterr);
void loop_destroy(struct loop *l); /* no thread may be inside */
struct env *loop_env(struct loop *l);

/* Runs until loop_stop(). The calling thread is the loop's own. */
void loop_run(struct loop *l);
void loop_stop(struct loop *l); /* [any] */

void loop_enter(struct loop *l); /* [any] not from the loop */
void loop_leave(struct loop *l);

/* How often it waited for events so far. [any] */
uint64_t loop_waits(const struct loop *l);

/* A turn: what ran between taking the loop and giving it up, without what its thread waited for a
 * processor where that is known (turn.h). */
#define LOOP_TURN_BOUNDS 12
extern const double loop_turn_bounds_s[LOOP_TURN_BOUNDS];
struct loop_turns {
    uint64_t counts[LOOP_TURN_BOUNDS + 1]; /* by these bounds; the last one beyond */
    int64_t sum_ns;
    int64_t longest_ns; /* of the last 30 to 60 s */
};
void loop_count_turns(const struct loop *l, struct loop_turns *ret); /* [any] */

struct loop_long_turn {
    int64_t began_ns; /* the loop's time in it */
    int64_t took_ns;
    int64_t waited_ns; /* of these, for a processor */
    uint64_t steps;    /* callbacks */
    const void *slowest; /* the longest one and its time; NULL = not timed (the first of a row) */
    int64_t slowest_ns;
};
/* [loop] How long this thread has waited for a processor in this turn, and at most 10 ms before it:
 * a system call or three. */
int64_t loop_waited_ns(void);
/* [init] tell() is told of each turn of limit_ns and more, at its end and still as the loop. */
void loop_on_long_turn(struct loop *l, int64_t limit_ns,
                       void (*tell)(void *ud, const struct loop_long_turn *t), void *ud);

/* How many operations a lane runs at a time from now on; threads that exist stay. FN_E_EXHAUSTED:
 * as many as before. [any] */
int loop_set_threads(struct loop *l, enum env_lane lane, uint32_t threads_max);

/* Lane threads that there are. [any] */
uint32_t loop_threads(struct loop *l);

/* Lane threads that are inside an operation `grace_ns` after its deadline are lost until they
 * return: each gets a replacement, and an owner with two of them gets no more work on that lane.
 * cb() is told once for each, under a lock: it must not submit. [any, blocking a lane for a
 * moment] */
void loop_look_for_lost(struct loop *l, int64_t grace_ns,
                        void (*cb)(void *ud, const char *owner, int64_t for_ns), void *ud);
uint32_t loop_lost(struct loop *l); /* [any] now; loop_destroy() would wait for them */

/* The lanes begin nothing any more and refuse what is submitted; what runs is cancelled and waited
 * for until deadline_ns. true: no lane thread is left. false: one is still inside an operation, and
 * nothing that the operation may use can be taken away. [init], when loop_run() has returned */
bool loop_settle(struct loop *l, int64_t deadline_ns);

/* Gives this thread an alternate stack for signal handlers, with a guard page, until it ends; every
 * thread that enters the loop and every lane thread has one. [any] */
void loop_altstack(void);

/* ---- descriptors -------------------------------------------------------------------------- */

#define LOOP_READ  1u
#define LOOP_WRITE 2u
#define LOOP_QUIET 4u /* alone: a hang-up is told once, not until the descriptor is closed */

/* A watched descriptor, level-triggered; embed it. cb gets LOOP_READ | LOOP_WRITE
 * (errors and hang-ups set both). [loop] */
struct loop_fd {
    int fd;
    uint32_t events;
    void (*cb)(struct loop_fd *w, uint32_t events);
    uint64_t generation; /* the loop's own */
    uint32_t slot;       /* the loop's own */
};

int loop_fd_add(struct loop *l, struct loop_fd *w, uint32_t events, struct fn_error *reterr);
/* Cannot fail. What is there already is told again. */
void loop_fd_set(struct loop *l, struct loop_fd *w, uint32_t events);
/* Stops watching; does not close. No callback after this, also not from the running batch. */
void loop_fd_remove(struct loop *l, struct loop_fd *w);

/* ---- calls that may never return ------------------------------------------------------------- */

/* Runs fn(arg) on a thread of its own, with all signals blocked, and waits. FN_E_DEADLINE: it did
 * not return within timeout_ns and goes on alone; whatever arg points at stays its own.
 * FN_E_EXHAUSTED: no thread. [any] */
int loop_aside(void (*fn)(void *arg), void *arg, int64_t timeout_ns);

/* ---- worker side of struct fn_op ------------------------------------------------------------ */

const struct fn_op_if *loop_op_if(void);

#endif
