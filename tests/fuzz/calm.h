/* Fuzz: a loop that runs in the target's own thread until nobody has anything left to do. A target
 * counts news as they come, such as a callback or bytes that were read; three turns of the loop
 * without any are calm. */
#ifndef TESTS_FUZZ_CALM_H
#define TESTS_FUZZ_CALM_H

#include <loop/loop.h>

#define CALM_TURNS     3
#define CALM_TRIES_MAX 100000u /* of a target that waits for something and is calm each time */

struct calm {
    struct loop *loop;
    /* Once a turn: does what the other side would, and returns a number that differs from the one
     * before if there is any news. */
    uint64_t (*look)(void);
    struct env_timer timer;
    uint64_t seen;
    uint32_t turns;
};

static inline void calm_turn(struct env_timer *timer)
{
    struct calm *c = container_of(timer, struct calm, timer);
    struct env *env = loop_env(c->loop);
    uint64_t news = c->look();

    c->turns = news == c->seen ? c->turns + 1 : 0;
    c->seen = news;
    if (c->turns >= CALM_TURNS) {
        loop_stop(c->loop);
    } else {
        env_timer_set(env, timer, env_now_ns(env) + 1);
    }
}

static inline void calm_run(struct calm *c)
{
    c->turns = 0;
    c->timer.cb = calm_turn;
    env_timer_set(loop_env(c->loop), &c->timer, 0);
    loop_run(c->loop);
}

#endif
