/* Ways between two nodes. */
#include "way.h"

#include <stdlib.h>
#include <string.h>

void way_open(struct way *y, struct node *to, void (*arrived)(struct env_timer *t))
{
    TAILQ_INIT(&y->packets);
    y->to = to;
    y->timer.cb = arrived;
}

void way_clear(struct way *y)
{
    struct packet *p;

    while ((p = TAILQ_FIRST(&y->packets))) {
        TAILQ_REMOVE(&y->packets, p, link);
        free(p);
    }
    y->n = 0;
    if (y->to) {
        env_timer_clear(y->to->env, &y->timer);
    }
}

static void way_arm(struct way *y)
{
    struct packet *first = TAILQ_FIRST(&y->packets);

    if (first && !env_timer_is_set(&y->timer)) {
        world_at(y->to, &y->timer, first->at_ns);
    }
}

struct packet *way_send(struct way *y, int64_t late_ns, enum packet_kind kind, int status,
                        const void *data, size_t len)
{
    struct packet *p = sim_alloc(sizeof(*p) + len);
    int64_t at_ns = y->to->w->now_ns + late_ns;

    p->kind = kind;
    p->status = status;
    p->len = len;
    if (data) {
        memcpy(p->data, data, len);
    }
    p->at_ns = y->last_ns = at_ns > y->last_ns ? at_ns : y->last_ns;
    TAILQ_INSERT_TAIL(&y->packets, p, link);
    y->n++;
    way_arm(y);
    return p;
}

struct packet *way_take(struct way *y, int64_t open_ns)
{
    struct packet *p = TAILQ_FIRST(&y->packets);

    if (y->to->w->now_ns < open_ns) {
        world_at(y->to, &y->timer, open_ns);
        return NULL;
    }
    TAILQ_REMOVE(&y->packets, p, link);
    y->n--;
    way_arm(y);
    return p;
}
