/* Asker: asks runners how many calls they run, for a node pool manager. */
#ifndef POOLSERVER_ASKER_H
#define POOLSERVER_ASKER_H

#include <npm/manager.h>
#include <rpc/rpc.h>
#include <sys/queue.h>

/* A runner that takes the connection and says nothing until then is alive, and mute. */
#define ASKER_TIMEOUT_NS (2 * ENV_S)

struct asker {
    struct env *env;
    struct rpc *rpc;
    /* A runner's answer, or that there is none. Never from inside asker_ask(). */
    void (*told)(void *ud, uint64_t ticket, const struct npm_event *answer);
    void *ud;
    LIST_HEAD(, asked) asked;
};

void asker_init(struct asker *a, struct env *env, struct rpc *rpc,
                void (*told)(void *ud, uint64_t ticket, const struct npm_event *answer), void *ud);
void asker_stop(struct asker *a); /* nobody is told any more. Zeroed: ok, here and below */
/* Its rpc is destroyed, and with it the links of what was under way. */
void asker_finish(struct asker *a);
/* [loop] See npm_deps. */
int asker_ask(struct asker *a, const char *address, uint64_t ticket);

#endif
