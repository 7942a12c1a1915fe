/* The tables that a factory asks for by name, scripted: what plugins do with them is recorded, what
 * they must not do is a violation. */
#ifndef CONTRACT_OUTSIDE_H
#define CONTRACT_OUTSIDE_H

#include "contract.h"

#include <fn/rpc.h>
#include <fn/view.h>

extern const struct fn_op_if op_table;
extern const struct fn_wake_if wake_table;
extern const struct fn_http_if http_table;
extern const struct fn_exec_if exec_table;
extern const struct fn_proc_if proc_table;
extern const struct fn_rpc_if rpc_table;
extern const struct fn_snap_if snap_table;
extern const struct fn_edit_if edit_table;
extern const struct fn_view_if view_table;
extern const struct fn_driver_if driver_table;
extern const struct fn_placer_if placers_table;

/* The n-th refusable host call from now on fails (1..; 0 = none): memory, limits, a full table. */
void outside_refuse_at(uint64_t n);
bool outside_refuses(const char *what);
bool outside_refused(void); /* one was refused since */
uint32_t outside_asked(void); /* exchanges, streams, programs, processes, work of an inner driver */
void outside_count(void);

/* ---- operations ------------------------------------------------------------------------------ */

struct fn_op {
    int64_t deadline_ns;  /* INT64_MAX = none */
    int64_t cancel_at_ns; /* INT64_MAX = never */
    uint32_t asked;       /* sleeps, programs, exchanges */
};
struct fn_op op_for(int64_t timeout_ns);
extern const struct fn_op *op_open; /* of the method that runs on a worker, or NULL */
/* It is that one; else a violation. */
bool must_be_op(const struct fn_op *op, const char *what);
void must_be_in_time(const char *method, const struct fn_op *op);

/* ---- programs, HTTP: how the world answers --------------------------------------------------- */

enum outside_mode {
    OUTSIDE_GOOD,    /* 200 "{}" or exit 0 with nothing said, unless a script knows better */
    OUTSIDE_DOWN,    /* nobody there: UNAVAILABLE */
    OUTSIDE_REFUSED, /* 500 or exit 1 with a text */
    OUTSIDE_EMPTY,
    OUTSIDE_GARBAGE,
    OUTSIDE_HUGE,
    OUTSIDE_SLOW, /* nothing until the deadline */
    OUTSIDE_MIXED,
    OUTSIDE_MODES_N
};
extern const char *const outside_mode_names[OUTSIDE_MODES_N];
void outside_mode(enum outside_mode mode);
/* Runs the callbacks of streams and processes that are due, each as the host's own thread. */
void outside_pump(void);
/* Streams and processes of an instance that neither it nor the world has ended. */
uint32_t outside_left(const struct instance *in);
void outside_end(struct instance *in); /* it goes: its processes end, and it is told so */
void outside_forget(struct instance *in); /* it is gone: its calls, streams, processes too */
uint32_t outside_open_answers(void);      /* http answers and exec results not released yet */
uint32_t outside_open_streams(void);
uint32_t outside_open_processes(void);

/* ---- script.c: answers of a world that is well ----------------------------------------------- */

struct script_step {
    const char *match; /* beginning of "GET http://host/path" or "argv0 argv1 ..." */
    const char *out;   /* body or standard output; may be NULL */
    int64_t status;    /* HTTP status or exit code */
    const char *run;   /* a program that answers instead; may be NULL */
    int64_t times;     /* 0 = always */
};
/* The first entry that fits, or NULL; then the request is kept for the report. */
const struct script_step *script_find(bool http, const char *request);
void script_rewind(void);
/* Runs a program with the arguments of argv; exit code or -signal, texts are malloc'd. It finds a
 * folder that is the case's own in FNKIT_DIR. */
int stand_in_run(const char *program, const char *const *argv, char **ret_out, char **ret_err);

/* ---- fn.snap --------------------------------------------------------------------------------- */

struct published {
    uint32_t publishes;
    uint32_t fails;
    uint32_t n;         /* of the last list */
    uint64_t list_hash; /* order included */
    uint32_t builders;  /* begun and neither published nor discarded */
    bool after_done;    /* set by the case: publishing is over */
};
extern struct published published;
void published_reset(void);

/* ---- fn.edit --------------------------------------------------------------------------------- */

#define EDIT_FIELDS 6u
#define EDIT_TEXTS 12u
#define EDIT_KVS 64u

extern const struct fn_edit *edit_open; /* the one whose apply() runs, or NULL */
struct fn_edit {
    uint32_t sets;
    uint32_t refuse_sets; /* that many sets fail first */
    uint64_t fields[EDIT_FIELDS];
    const char *texts[EDIT_TEXTS];
    const char *header_value; /* of every header, or NULL */
    const char *config_value;
    const char *annotation_value;
    const char *extension_value;
};

/* ---- calls.c: calls as they are shown, and fn.view ------------------------------------------- */

/* Read-only, gone with call_end(), and so is what fn.view told of it. growth: bytes that a later
 * host appends; the kind is one that nobody knows then. */
struct fn_call *call_make(uint32_t salt, uint32_t growth);
#define CALL_PLAIN 15u /* one of which fn.view knows nothing */
void call_end(struct fn_call *c);

/* ---- fn.driver ------------------------------------------------------------------------------- */

struct reported {
    uint32_t exits;
    uint32_t outputs;
    uint32_t engine;
    uint64_t started_handle; /* 0 = none: an exit would be too early */
    uint64_t last_handle;    /* of the last exit */
    uint32_t inner_open;     /* containers of the inner driver */
};
extern struct reported reported;
void reported_reset(void);

#endif
