/* World: a runner in virtual time, with a scripted engine, functions and callers.
 *
 * Functions are scripted by image name ("hello", "never-listens", "exits", "bad-socket") and by the
 * X-Do header of each call. A ledger of executions and answers is checked as it is written. */
#ifndef TESTS_RUNNER_WORLD_H
#define TESTS_RUNNER_WORLD_H

#include "../lib/fake_env.h"

#include <runner/runner_int.h>

struct plugin {
    const char *name;
    const void *ops;
    void *inst;
};

/* A caller's side of one call. */
struct engage_session {
    void *ud;
    char id[40];
    bool gone;
    bool requested; /* of a function, once at least */
    uint32_t more;
    int starts;
    int start_status;
    char start_headers[512];
    size_t data_bytes;
    int finishes;
    bool success;
    bool user;
    int code;
    char text[512];
    char created[40], started[40], completed[40], image[64], details[64];
    int64_t scheduler_ns, execution_ns, create_ns, init_ns, pull_ns, prepare_ns;
    struct engage_refusal refusal;
    uint32_t executions; /* times a function accepted bytes of it */
    bool full;           /* send_data says wait */
    struct engage_session *next;
};

/* Who asks for the status. */
struct asked {
    struct engage_ask ask;
    int answers;
    struct engage_status st; /* its texts are the ones below */
    char text[512], id[40], details[64], created[40], started[40], completed[40];
};

#define NO_CALL_BYTES 1u /* of opt.call_json_arena_max: no call finds memory */

struct world {
    struct fake_env *f;
    struct runner *r;
    struct driver_hub *hub;
    struct runner_options opt;
    struct account_totals totals;
    struct plugin driver;
    struct plugin listener;
    bool with_listener;
    struct plugin operator_; /* ops NULL = none */
    struct plugin predictor; /* the same */
    void *predictor_data;    /* of the test */
    struct id_maker ids;
    struct engage_server_cb cb;
    void *cb_ud;
    struct engage_session *sessions;
    const struct fn_kv *extensions; /* of the calls that come */
    uint32_t n_extensions;

    /* engine script */
    int64_t slow_ns, fast_ns; /* how long operations take */
    bool engine_dead;         /* answers FN_E_UNAVAILABLE at once */
    bool own_freezer;         /* the driver freezes without its engine */
    bool engine_hung;         /* nothing returns before its deadline */
    struct fn_error next_error; /* of the next `fail_method` */
    const char *fail_method;
    int fails;
    int lanes_full;           /* operations that find no place in a queue */
    int (*leads_home)(const char *url);
    int64_t boot_ns;          /* from start to the socket */
    bool uid_exits;           /* uid() reports the end of its container */
    bool key_downs;           /* slot_key() reports that the engine went away */
    const char *hang_app;     /* a pattern (fnmatch); of their containers: */
    const char *hang_method;  /* this one returns at its deadline, or when it is cancelled */
    bool hang_for_ever;       /* or not even then */
    bool image_missing;       /* next create says so */
    int64_t pull_ns;
    bool with_usage;     /* the driver tells what containers use: */
    struct fn_usage use; /* each of them this */

    /* what happened */
    uint32_t lost_creates; /* given up while the engine worked: it made a container all the same */
    uint32_t prepares, creates, starts, freezes, thaws, closes, probes, sweeps;
    uint32_t live, live_max;      /* containers of the engine */
    uint32_t in_flight, in_flight_max;
    uint32_t samples, sampled, sampled_max; /* questions, containers in all, in one of them */
    uint32_t socks;               /* open directories */
    uint32_t exchanges;
    char closed_ids[512][28];     /* order of removal */
    uint32_t n_closed;
    uint32_t before, after;
    bool listener_refuses;
    uint32_t refused_one_in; /* by the listener; 0 = none */
    uint32_t asked_before;
    char last_before[40];
    char last_group[40];
    char last_zone[40], last_plan[40], last_slot[72]; /* annotation, extension, slot hash */
    struct fn_call_end last_end;  /* its outcome is a constant */
    char last_headers[2048];      /* of the last request */
    char last_env[1024];
    uint32_t executions;

    /* functions that the runner itself calls */
    struct engage_session own; /* the last call */
    const char *own_what;      /* their X-Do */
    uint32_t hellos;           /* in an answer */
    int64_t rest_ns;           /* from when a caller reads again to the end of its answer */
    bool no_file;              /* none exists */
    char last_body[128];
    struct fn_task last_task;  /* without its texts */
};

/* Asks; `to` must live until it was answered or leaves. */
void world_ask(struct world *w, struct asked *to, const char *request);
void world_leave(struct world *w, struct asked *to);
/* What is answered at once. */
struct engage_status world_status(struct world *w);

struct world *world_create(void (*tune)(struct world *w));
/* Ends everything and checks that nothing is left and every call was counted once. */
void world_destroy(struct world *w);

struct call_spec {
    const char *id;
    const char *app;
    const char *fn;
    const char *image;
    const char *what; /* X-Do */
    const char *extra; /* further JSON members, ", \"k\": v" */
    const char *config; /* the same, of config */
    int mem_mb;
    int timeout_s;
    bool no_body;
    bool detached;
};

/* TryCall plus an empty body frame with eof. */
struct engage_session *world_call(struct world *w, struct call_spec spec);
struct engage_session *world_call_json(struct world *w, const char *json, const char *hash_id);
void world_body(struct world *w, struct engage_session *s, const void *data, size_t len, bool eof);
void world_gone(struct world *w, struct engage_session *s);
void world_run_ms(struct world *w, int64_t ms);
void world_exit(struct world *w, const char *container_id, uint32_t reason, int status);
/* Its function has filled the directory of its socket. */
void world_outgrow(struct world *w, const char *container_id);
/* The id of some container in `state`, or NULL. */
struct container *world_container(struct world *w, enum ctr_state state);
void world_check(struct world *w); /* invariants */
struct runner_counts world_counts(struct world *w);

#endif
