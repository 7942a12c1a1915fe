/* The peers that links lead to, for people who look. */
#include <rpc/client_int.h>

void rpc_walk_peers(struct rpc *r, struct walk *w)
{
    walk_begin(&r->walks, w, LIST_FIRST(&r->links));
}

bool rpc_walk_next_peer(struct rpc *r, struct walk *w, struct rpc_peer_row *ret)
{
    static const char *const waits[PEER_STATES_N] = {
        [PEER_DOWN] = "its next dial",
        [PEER_DIALLING] = "its answer to a dial",
        [PEER_SETTLING] = "its HTTP/2 settings",
        [PEER_UP] = "nothing",
        [PEER_CLOSED] = "nothing",
    };
    const struct engage_link *l = w->next;
    const char *(*labels)(void *ud);
    const struct peer *p;

    if (!l) {
        return false;
    }
    p = &l->peer;
    w->next = LIST_NEXT(l, entry);
    labels = l->cb && !l->closed ? l->cb->labels : NULL;
    *ret = (struct rpc_peer_row){ .address = p->address,
                                  .state = peer_states.names[p->state],
                                  .waits_for = waits[p->state],
                                  .why = p->state != PEER_UP ? p->why
                                         : l->health.failing ? l->health.why
                                                             : NULL,
                                  .labels = labels ? labels(l->ud) : NULL,
                                  .age_ns = env_now_ns(r->env) - p->state_ns };
    return true;
}
