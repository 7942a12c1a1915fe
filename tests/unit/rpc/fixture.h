/* A loop with a client and a server on it, over gRPC (unix socket, TCP, TLS) or in process, a server
 * whose behaviour is named by the call, and a client that writes down what it is told. */
#ifndef TEST_RPC_FIXTURE_H
#define TEST_RPC_FIXTURE_H

#include <base/env.h>
#include <check.h>
#include <loop/loop.h>
#include <model/engage.h>
#include <pthread.h>
#include <rpc/local.h>
#include <rpc/rpc.h>

enum over { OVER_UNIX, OVER_TCP, OVER_TLS, OVER_LOCAL, TRANSPORTS_N };

struct fixture {
    enum over transport;
    struct loop *loop;
    struct env *env;
    pthread_t thread;
    struct rpc *rpc; /* client and, first, server */
    struct rpc_server *server;
    struct local *local;
    struct engage_client *client;
    struct engage_server *table;
    struct engage_link *link;
    char address[128];
    char dir[64];

    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t changes;

    /* [loop] */
    bool up;
    uint32_t ups, downs;
    uint32_t tries, gone, bodies_done, writables, finished;
    bool drained;
    char last_json[64];
    char last_request_id[64];
    char last_ext[64];
    int64_t last_deadline_ns;
    struct served *held; /* the last one that holds its call */
    bool well;           /* what its answers say */
    bool holds_asks;     /* the next question for the status is kept, */
    struct engage_ask *asked; /* here */
    uint32_t asks, asks_gone;
    struct engage_config *configuring; /* kept: its first key was "hold" */
    char last_ask[256]; /* its request */
    struct engage_logs *logs; /* that are read; one at a time */
    char logs_keys[128];      /* "k=v;" */
    uint32_t logs_wanted, logs_gone;
    size_t logs_bytes; /* of the line with which each is answered; 0: the test does */
    LIST_HEAD(, served) served;
};

/* Of the calling thread: allocations that are granted before all are refused; -1 = all. */
extern _Thread_local long fixture_allocations;

/* Whether gRPC runs over C core (FND_TRANSPORT=core, with FND_TRANSPORTS its folder). */
bool fixture_over_core(void);
struct fixture *fixture_create(enum over t);
struct fixture *fixture_create_with(enum over t, const struct rpc_config *config);
void fixture_abort_all(struct fixture *f); /* [loop] every call that is served */
void fixture_destroy(struct fixture *f);
void fixture_server_open(struct fixture *f);
void fixture_server_close(struct fixture *f);
void fixture_answer(struct fixture *f, struct engage_ask *ask);
void fixture_link_open(struct fixture *f, const char *address);
void fixture_link_open_named(struct fixture *f, const char *address, const char *tls_name);
void fixture_notify(struct fixture *f);
/* Waits until pred is true inside of the loop; fails the test after 10 s. */
#define WAIT(f, pred, ud) fixture_wait((f), (pred), (ud), #pred, __LINE__)
void fixture_wait(struct fixture *f, bool (*pred)(void *ud), void *ud, const char *what, int line);
bool is_up(void *f);
bool is_down(void *f);

/* What an attempt was told. */
struct told {
    struct fixture *f;
    struct engage_attempt *attempt;
    uint32_t starts, ends, finishes;
    int32_t status;
    uint32_t n_headers;
    char header[128]; /* first value */
    uint64_t data_bytes;
    uint64_t data_sum;
    uint32_t data_calls;
    struct engage_finished finished;
    char finished_text[256];
    char finished_details[64];
    int grpc_status;
    char text[512];
    enum engage_proof proof;
    bool legal;
    bool pause_at_start;
    struct told *resume_at_start; /* another one, which was paused */
    uint64_t close_after_bytes; /* 0 = never */
    bool close_on_finished;
    int64_t ended_ns;
};

/* [loop] taken by the function */
void told_start(struct told *t, struct fixture *f, const char *json, const void *body, size_t len);
void told_start_deadline(struct told *t, struct fixture *f, const char *json, const void *body,
                         size_t len, int64_t timeout_ms);
void told_close(struct told *t);
const struct engage_client_cb *told_cb(void);
bool told_ended(void *t);
bool told_started(void *t);
void told_run(struct told *t, struct fixture *f, const char *json, const void *body, size_t len);
uint64_t sum_of(const void *data, size_t len, uint64_t sum);

#endif
