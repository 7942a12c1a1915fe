/* What the files of the local pair share: attempts and sessions (local.c), logs (local_logs.c). */
#ifndef RPC_LOCAL_INT_H
#define RPC_LOCAL_INT_H

#include <rpc/local.h>

struct pair;

struct engage_link {
    LIST_ENTRY(engage_link) entry;
    struct local *local;
    const struct engage_link_cb *cb;
    void *ud;
    struct env_task task;
    bool up; /* what the owner was told */
};

struct local {
    struct engage_client client; /* first */
    struct env *env;
    const struct engage_server_cb *cb;
    void *ud;
    LIST_HEAD(, pair) pairs;
    LIST_HEAD(, engage_link) links;
    LIST_HEAD(, engage_reader) readers;
    bool draining;
    struct env_task drain_task;
    void (*drained)(void *ud);
    void *drained_ud;
};

struct engage_reader *local_reader_open(struct engage_link *k, const struct fn_kv *keys, uint32_t n,
                                        const struct engage_reader_cb *cb, void *ud);
void local_reader_more(struct engage_reader *rd);
void local_reader_close(struct engage_reader *rd);
void local_readers_leave(struct engage_link *k); /* it is being closed */
void local_readers_forget(struct local *l);      /* nobody hears of them any more */

#endif
