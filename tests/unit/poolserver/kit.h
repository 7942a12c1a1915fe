/* A node pool manager that load balancers speak to over gRPC: the real server and channel on a loop
 * that runs in the test's own thread, the real service and manager on a clock that the test moves,
 * and a control plane of numbers. Failures of the kit itself end the process. */
#ifndef TESTS_POOLSERVER_KIT_H
#define TESTS_POOLSERVER_KIT_H

#include <fake_env.h>
#include <fake_plugin.h>
#include <loop/loop.h>
#include <npm/manager.h>
#include <poolserver/service.h>
#include <rpc/raw.h>

#define KIT_GROUPS_MAX   40u /* "g0" .. "g39" */
#define KIT_MACHINES_MAX 64u /* of a group */
#define KIT_LEARNT_S     3u  /* after which the manager tells of all groups */

struct pool_kit {
    struct loop *loop;
    struct rpc *rpc;
    struct rpc_server *server;
    struct rpc_channel *channel;
    struct rpc_service table; /* of the service that there is */
    char path[64];
    struct env_timer look;
    bool (*done)(void *ud); /* of kit_run() */
    void *done_ud;
    uint32_t turns;

    struct fake_env *clock;
    struct plugin cplane;
    struct npm_manager *m;
    struct npm_service *s;
    uint32_t groups_n;
    uint32_t machines[KIT_GROUPS_MAX];
    bool grows; /* g0, by a machine a second */
};

/* Once for a process: the loop, the server and the channel. */
void kit_open(struct pool_kit *k);
void kit_close(struct pool_kit *k);
/* A manager whose groups are not learnt yet; each has a machine. No call may be left at the end. */
void kit_begin(struct pool_kit *k, uint32_t groups_n);
void kit_end(struct pool_kit *k);
/* The manager's time passes; nobody's bytes are read. */
void kit_pass(struct pool_kit *k, uint32_t seconds);
/* Runs the loop until it is done; false: so many turns went by without. */
bool kit_run(struct pool_kit *k, uint32_t turns, bool (*done)(void *ud), void *ud);
/* The server has no call of anybody. */
bool kit_is_idle(const struct pool_kit *k);
const struct npm_group *kit_group(const struct pool_kit *k, uint32_t i);

#endif
