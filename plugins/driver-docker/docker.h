/* Private to driver-docker: the instance and its parts.
 *
 * One `lock` protects the map of containers, their flags, the use counts of networks, the breaker,
 * the orphans, what is known of images and the state of the event streams. It is never held across
 * a call of the host. Worker calls on one container never overlap (driver.h); stream callbacks come
 * on the host's stream thread and find containers by name. */
#ifndef DRIVER_DOCKER_H
#define DRIVER_DOCKER_H

#include "auth.h"
#include "create_rules.h"
#include "docker_api.h"
#include "load_file.h"

#include <fn/driver.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>
#define HASH_NONFATAL_OOM 1 /* an element that found no memory has hh.tbl == NULL and is not in */
#include <uthash.h>

#define MS 1000000LL
#define SECOND_NS 1000000000LL

/* Limits of engine calls. */
#define PING_TIMEOUT_MS    1000
#define LEARN_BRIEF_MS     500   /* within a probe, whose time is short */
#define LEARN_TIMEOUT_MS   10000 /* of what an engine may ask other programs for */
#define INSPECT_TIMEOUT_MS 5000
#define CHANGE_TIMEOUT_MS  20000 /* create, start, remove */
#define PAUSE_TIMEOUT_MS   2000
#define LOAD_TIMEOUT_MS    600000
#define IMAGE_ANSWER_MAX   (8 * 1024 * 1024)
#define STATE_ANSWER_MAX   (1024 * 1024)
#define QUESTION_MAX_NS    (30 * SECOND_NS) /* for a whole answer on the stream thread */
#define SWEPT_MAX          4096             /* containers that one sweep removes */
#define PULL_ANSWER_MAX    (16 * 1024 * 1024)
#define LOAD_FILE_MAX      (4LL * 1024 * 1024 * 1024)

#define BREAKER_CALLS      4                /* calls that may hang at a time */
#define BREAKER_STUCK_NS   (5 * SECOND_NS)  /* no answer at all for this long = hung */
#define BREAKER_OPEN_NS    (2 * SECOND_NS)
#define EVENTS_RETRY_NS    (500 * MS)
#define DOUBTS_MAX         8 /* questions for one exit code, each after a list */
#define LIST_RETRY_MAX_NS  (30 * SECOND_NS)
#define EVENTS_OVERLAP_S   15 /* events replayed after a reconnect */
#define IMAGE_EVENTS_RETRY_NS SECOND_NS /* between two streams */
#define DISK_FULL_NS       (30 * SECOND_NS) /* a full disk is believed to be for so long */
#define NETWORKS_MAX       64
#define NETWORK_AGAIN_NS   (60 * SECOND_NS) /* between two tries to make it */
#define NETWORK_HUNG_NS    (10 * SECOND_NS) /* the same after one without an answer in time */
#define ENGINE_FILE_MAX    1100             /* path of a file in cert_path */
#define ORPHANS_MAX        256
#define ORPHANS_ASKED_MAX  4
#define ORPHAN_ASIDE_NS    (2 * SECOND_NS)  /* left to the next calls for so long */
#define ORPHAN_AGAIN_NS    (2 * SECOND_NS)  /* between two tries */
#define ORPHAN_LIFE_NS     (60 * SECOND_NS) /* "not there" is believed after it */

struct docker_conf {
    const char *docker_host;
    const char *cert_path;
    uint32_t tls_verify;
    const char *auth;
    const char *auth_file;
    bool auth_parents;
    const char *load_file;
    const char *label_tag;
    const char *freeze_by;
    struct fn_strlist networks;
    struct fn_strlist images_exempt;
    struct create_rules allow;
    int64_t images_max; /* bytes, 0 = any number */
    uint32_t output;
};

struct breaker {
    uint32_t inflight;
    int64_t progress_ns; /* last answer, or start of the first call since then */
    int64_t open_until_ns;
    bool tripped;
};

enum frozen { FROZEN_NOT, FROZEN_BY_CGROUP, FROZEN_BY_ENGINE };

struct ctr {
    struct docker *d;
    UT_hash_handle hh; /* by name */
    char name[API_NAME_MAX + 1];
    char id[API_ID_MAX + 1];
    uint64_t handle;
    const struct fn_task *task; /* the host's, until close */
    int network;         /* index in the option, -1 = none of them */
    bool own_network;    /* ours */
    int64_t started_ns;  /* 0 = not yet */
    bool privileged_user;
    bool begun; /* start() was called: ends are of interest */
    bool oom, reported, asking; /* asking: an inspection of its end is under way */
    uint32_t doubts; /* times that its exit code was 0 and perhaps not known yet */
    enum frozen frozen;
    bool output_asked;      /* its stream is open, refused for good, or not wanted (yet) */
    uint64_t output_stream; /* written under output_lock and lock */
    struct api_frames frames; /* stream thread only, while the stream is open */
};

struct events {
    uint64_t stream; /* 0 = none */
    bool open, list_wanted, list_running;
    int64_t tried_ns;
    int64_t list_next_ns, list_backoff_ns; /* after a list that could not be had */
    struct api_events feed; /* stream thread only */
    bool engine_up;
};

/* A container that may have been made although nobody was told so. */
struct orphan {
    char name[API_NAME_MAX + 1]; /* "" = free */
    bool asking;
    bool tried;
    int64_t next_ns;
    int64_t missing_ns; /* since when the engine says "not there", 0 = it has not */
};

struct disk { /* disk.c */
    bool full;
    int64_t until_ns; /* full: not after */
    uint32_t metric;
};

struct presence { /* presence.c */
    struct known_image *images; /* by name */
    uint64_t epoch; /* what an inspection of another one said is not known any more */
    bool watched;   /* there is a stream, or one was asked for */
    uint64_t stream; /* 0 = none */
    int64_t next_ns; /* not before, the next stream */
    struct api_events feed; /* stream thread only */
};

struct question; /* events.c: a GET whose answer is collected on the stream thread */
LIST_HEAD(question_list, question);

struct docker {
    const struct fn_host *host;
    const struct fn_http_if *http;
    const struct fn_driver_if *driver;
    const struct fn_op_if *op;
    const struct fn_exec_if *exec;
    const struct docker_conf *conf;
    char unix_path[108]; /* "" = TCP */
    char base[256];      /* "http://localhost", "https://host:2376" */
    char tls_ca[ENGINE_FILE_MAX]; /* "" = no TLS */
    char tls_cert[ENGINE_FILE_MAX], tls_key[ENGINE_FILE_MAX];

    pthread_mutex_t lock;
    struct ctr *ctrs;
    uint32_t network_use[NETWORKS_MAX];
    struct breaker breaker;
    struct orphan orphans[ORPHANS_MAX];
    struct events events;
    struct question_list questions;
    struct presence presence;
    struct disk disk;
    bool clean_wanted;
    bool clean_more; /* than images_max asks for */
    int64_t clean_next_ns; /* not before */
    bool stopping;
    char owner[128], instance[64]; /* of this runner; "" = not told yet */
    char version[96];              /* of the engine; "" = not known yet */
    bool version_asked;            /* since it came up */
    bool podman;                   /* as its version says */
    bool info_known;
    bool others_told;
    int64_t others; /* containers of other runners, as of the last sweep */
    uint32_t others_metric;
    bool socket_told; /* that everybody may use it */
    struct api_info info;

    pthread_mutex_t network_lock; /* of these four */
    int network_state;
    int64_t network_next_ns; /* the engine is not asked before */
    bool network_asking;     /* somebody looks for it, and makes it */
    bool network_hung;       /* the last one who asked had no answer in time */
    bool network_trouble;    /* told; of who asks */

    /* Held while a stream of output is opened and a container leaves the map: none is opened for
     * one that goes. Taken before `lock`. */
    pthread_mutex_t output_lock;

    struct load_file load_file;
    uint64_t timer; /* [loop] */
    int freezer;    /* index of the cgroup layout that worked last; racy on purpose */
};

extern const struct fn_opt docker_options[]; /* options.c */

/* ---- tls.c --------------------------------------------------------------------------------- */

/* Understands docker_host and the options of TLS. */
int engine_address(struct docker *d, const char *docker_host, struct fn_error *reterr);
void engine_request_tls(const struct docker *d, struct fn_http_request *rq);

/* ---- engine.c: calls ------------------------------------------------------------------------- */

struct engine_call {
    const char *method;
    const char *path; /* "/containers/..." */
    const char *header;
    const void *body; /* JSON unless type says otherwise */
    uint64_t body_len;
    const char *type;
    uint32_t timeout_ms;
    uint64_t answer_max;
    bool probing; /* goes through an open breaker */
    bool slow;    /* waits for others than the engine (a registry): says nothing about the engine */
};

/* 0 for every HTTP status. All failures may be tried on another runner: no call was executed. */
int engine_call(struct docker *d, struct fn_op *op, const struct engine_call *c,
                struct fn_http_answer *ret, struct fn_error *reterr);
/* Opens a stream of a GET; see fn_http_if.stream_open. */
int engine_stream(struct docker *d, const char *method, const char *path, uint32_t timeout_ms,
                  const struct fn_http_stream_cb *cb, void *ud, uint64_t *ret_id,
                  struct fn_error *reterr);
/* "Not there" is success. ret_status may be NULL; 0 = no answer. */
int engine_remove(struct docker *d, struct fn_op *op, const char *name, uint32_t *ret_status,
                  struct fn_error *reterr);
void engine_log(struct docker *d, uint32_t level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int64_t engine_now_ns(const struct docker *d);

/* ---- probe.c --------------------------------------------------------------------------------- */

/* The driver's probe: "20.10.24 (API 1.41)", or what an operator has to repair (DOC1001,
 * DOC1002). */
int engine_probe(struct docker *d, struct fn_op *op, char *ret_version, size_t cap,
                 struct fn_error *reterr);
/* What no probe had the time for: an engine's version may take it seconds. */
void engine_learn(struct docker *d, struct fn_op *op);
/* Once, when the engine is known: how many containers it has, whosever they are, and how many of
 * this runner's it may have; -1 at all other times. */
int64_t engine_count_once(struct docker *d, struct fn_op *op, uint32_t *ret_ours);

/* ---- images.c -------------------------------------------------------------------------------- */

int images_prepare(struct docker *d, struct fn_op *op, const struct fn_task *task,
                   struct fn_error *reterr);
/* [init] Whether there is such a load file as the configuration names. */
int images_check_file(const struct docker *d, struct fn_error *reterr);
/* load() of load_file.h; inst is the struct docker. */
int images_load_file(void *inst, struct fn_op *op, struct fn_error *reterr);
/* [init, worker] What the configuration says now, given; NULL = there are no credentials. Read for
 * each pull: a new login is used at once. */
int images_read_auth(struct docker *d, struct auth **ret, struct fn_error *reterr);

/* ---- usage.c --------------------------------------------------------------------------------- */

int usage_tell(struct docker *d, struct fn_op *op, struct fn_usage *items, uint32_t n,
               struct fn_error *reterr);

/* ---- presence.c ------------------------------------------------------------------------------ */

/* What the engine said of an image, if it has it still; the image is used now. */
bool presence_find(struct docker *d, const char *name, struct api_image *ret);
/* Taken before an inspection: what it says is known unless something changed meanwhile. */
uint64_t presence_epoch(struct docker *d);
void presence_keep(struct docker *d, const char *name, const struct api_image *it, uint64_t epoch);
/* An image is used now, if its name is known. */
void presence_use(struct docker *d, const char *name);
/* Under the lock. When an image was last used; 0 = not by this runner. */
int64_t presence_last_use_ns(struct docker *d, const char *id);
/* Any image may be gone, or another one. */
void presence_forget(struct docker *d);
/* [loop] every EVENTS_RETRY_NS: opens the stream of image events if it is not open. */
void presence_tick(struct docker *d);
/* [init] Ends it; events_close() came before. */
void presence_close(struct docker *d);
void presence_finish(struct docker *d);

/* ---- disk.c ---------------------------------------------------------------------------------- */

/* [init] */
int disk_declare(struct docker *d);
/* The result of what takes space: FN_E_EXHAUSTED = there is none. Returns it. */
int disk_judge(struct docker *d, int r, const struct fn_error *err);
/* 0, or FN_E_EXHAUSTED: an image is not to be pulled now (retry). */
int disk_check(struct docker *d, const char *image, struct fn_error *reterr);
/* [loop] every EVENTS_RETRY_NS */
void disk_tick(struct docker *d);

/* ---- cleaner.c ------------------------------------------------------------------------------- */

void cleaner_pulled(struct docker *d); /* there is one more */
void cleaner_disk_full(struct docker *d);
/* Removes what exceeds images_max, or more of it when the disk is full; waits for the engine, and
 * says in the log what it did. */
void cleaner_run(struct docker *d, struct fn_op *op);

/* ---- events.c -------------------------------------------------------------------------------- */

/* [loop] every EVENTS_RETRY_NS: opens what is not open. */
void events_tick(struct docker *d);
/* [init] Ends the event stream and all questions. */
void events_close(struct docker *d);

/* [worker] Ends questions that the engine has begun to answer, or not, and does not end. */
void events_expire(struct docker *d);

/* [any] Asks the engine to remove an orphan; orphans_answered() follows unless it returns < 0. */
int events_ask_removal(struct docker *d, const char *name);

/* ---- orphans.c ------------------------------------------------------------------------------- */

void orphans_keep(struct docker *d, const char *name);
/* Removes one of them, so that no call pays for all. */
void orphans_remove_one(struct docker *d, struct fn_op *op);
/* [loop] every EVENTS_RETRY_NS: those that no call came for. */
void orphans_tick(struct docker *d);
/* [any] status 0 = no answer. */
void orphans_answered(struct docker *d, const char *name, uint32_t status);

/* ---- network.c ------------------------------------------------------------------------------- */

/* An index in the option, to be given back in network_use; -1 = the operator named none. */
int network_take(struct docker *d);
/* The network for functions that nobody named one for; NULL = the engine's default. */
const char *network_own(struct docker *d, struct fn_op *op);
void network_forget(struct docker *d); /* it is gone */

/* ---- containers.c ---------------------------------------------------------------------------- */

/* Whose containers these are: the host says so with its first sweep or task. */
void ctr_know_owner(struct docker *d, const char *owner, const char *instance);
int ctr_create(struct docker *d, struct fn_op *op, const struct fn_task *task, struct ctr **ret,
               struct fn_error *reterr);
int ctr_start(struct ctr *c, struct fn_op *op, struct fn_error *reterr);
int ctr_freeze(struct ctr *c, struct fn_op *op, bool on, struct fn_error *reterr);
int ctr_close(struct ctr *c, struct fn_op *op, struct fn_error *reterr);
/* [any] Opens the stream of what a container prints, unless it is open, refused or not wanted. true
 * = asked for. */
bool ctr_open_output(struct docker *d, const char *name);
/* Ends what is left of a container without asking the engine. [init] */
void ctr_drop(struct ctr *c);

/* ---- sweep.c --------------------------------------------------------------------------------- */

int ctr_sweep(struct docker *d, struct fn_op *op, const char *owner, const char *instance,
              uint32_t *ret_removed, struct fn_error *reterr);

/* ---- freezer.c ------------------------------------------------------------------------------- */

/* 1 when the container's cgroup was found and written, 0 when not. */
int freezer_write(struct docker *d, const char *id, bool on);

#endif
