/* Turns: whose requests are served when many came at once.
 *
 * A read brings up to SCRATCH_BYTES, which are thousands of requests. TURN_REQUESTS_MAX of them are
 * served at once; with the rest the connection joins a ring, of which TURN_CONNECTIONS_MAX have
 * their next turn with each turn of the loop. Between two turns of the loop everybody else's
 * sockets, timers and tasks have theirs: a request that came alone waits for a few others at most,
 * whatever the ring holds. */
#include <http/server_int.h>

static void turns_on_turn(struct env_timer *t)
{
    struct http_server *s = container_of(t, struct http_server, turn);
    uint32_t n = s->ring_n < TURN_CONNECTIONS_MAX ? s->ring_n : TURN_CONNECTIONS_MAX;

    /* Those who join again stand behind the n of this turn; who leaves makes it shorter. */
    while (n-- > 0 && s->ring_n > 0) {
        struct turn *next = TAILQ_FIRST(&s->ring);

        turn_leave(s, next);
        next->have(next);
    }
    if (s->ring_n > 0) {
        env_timer_set(s->env, t, env_now_ns(s->env) + 1);
    }
}

void turns_init(struct http_server *s)
{
    TAILQ_INIT(&s->ring);
    s->turn.cb = turns_on_turn;
}

/* The timer is due with the next turn of the loop, not in this one, as a task would be. */
void turn_await(struct http_server *s, struct turn *t)
{
    if (!t->waits) {
        t->waits = true;
        TAILQ_INSERT_TAIL(&s->ring, t, link);
        if (s->ring_n++ == 0 && !env_timer_is_set(&s->turn)) {
            env_timer_set(s->env, &s->turn, env_now_ns(s->env) + 1);
        }
    }
}

void turn_leave(struct http_server *s, struct turn *t)
{
    if (t->waits) {
        t->waits = false;
        TAILQ_REMOVE(&s->ring, t, link);
        s->ring_n--;
    }
}
