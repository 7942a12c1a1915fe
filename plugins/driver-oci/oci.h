/* Private to driver-oci: the instance and its parts.
 *
 * A container is a folder <state>/<name>, a shim that the host's fn.proc runs and watches
 * (tools/oci/shim.c), and cgroups of that name that the runtime makes. `lock` protects the list of
 * containers and what is known of the runtime; it is never held across a call of the host. */
#ifndef DRIVER_OCI_H
#define DRIVER_OCI_H

#include "ctr_name.h"
#include "load_file.h"
#include "store.h"

#include <fn/driver.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#define OCI_PATH_MAX      1200
#define OCI_ROOT_MAX      900 /* of the options that are folders */
#define OCI_TEXT_MAX      16384 /* of a file of the shim or the runtime */
#define START_POLL_NS     500000LL
#define END_POLL_NS       1000000LL
#define LOAD_TIMEOUT_MS   600000
#define VERSION_TIMEOUT_MS 5000
#define KILL_TIMEOUT_MS   5000
#define VERSION_MAX       64

struct oci_conf {
    const char *store;
    const char *state;
    const char *runtime;
    const char *programs;
    const char *network;
    const char *load_file;
};

/* An image of the store: its configuration and its layers, lowest first, each of them once. */
struct oci_image {
    json_t *config; /* "config" of the whole, may be NULL */
    char layers[STORE_LAYERS_MAX][STORE_HEX + 1];
    uint32_t n_layers;
};

enum ctr_state { CTR_CREATED, CTR_RUNNING, CTR_ENDED };

struct ctr {
    struct oci *d;
    LIST_ENTRY(ctr) all;
    const struct fn_task *task; /* lives until close() returned */
    uint64_t handle;
    uint64_t proc;
    atomic_int state;
    atomic_bool runs; /* start() saw it run: a sweep may take its folder away */
    uint32_t uid;
    int32_t shim_code; /* its exit code, negative: killed; valid in CTR_ENDED */
    bool frozen;
    char name[CTR_NAME_MAX];
    char dir[OCI_PATH_MAX];
    struct oci_image image; /* its configuration is not kept */
};

LIST_HEAD(ctr_list, ctr);

struct oci {
    const struct fn_host *host;
    const struct oci_conf *conf;
    const struct fn_proc_if *proc;
    const struct fn_exec_if *exec;
    const struct fn_op_if *op;
    const struct fn_driver_if *driver;
    char runtime[OCI_PATH_MAX], shim[OCI_PATH_MAX], loader[OCI_PATH_MAX];
    bool cgroup_v2, swap_limits;
    atomic_bool told_syslog;

    pthread_mutex_t lock;
    struct ctr_list ctrs;
    char version[VERSION_MAX]; /* "" = not asked yet */

    struct load_file load_file;
};

void oci_log(struct oci *d, uint32_t level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- options.c ------------------------------------------------------------------------------- */

extern const struct fn_opt oci_options[];
/* Finds the programs; 0, or the sentence that says what is missing. */
int options_check(struct oci *d, struct fn_error *reterr);

/* ---- images.c -------------------------------------------------------------------------------- */

int images_prepare(struct oci *d, struct fn_op *op, const struct fn_task *task,
                   struct fn_error *reterr);
/* load() of load_file.h; inst is the struct oci. */
int images_load_file(void *inst, struct fn_op *op, struct fn_error *reterr);
/* The image of the task, which must be in the store; image_drop(). */
int image_open(struct oci *d, const struct fn_task *task, struct oci_image *ret,
               struct fn_error *reterr);
void image_drop(struct oci_image *image);
/* What its configuration says of its layers. Pure; FN_E_INVALID: a layer that is none. */
int image_parse_config(const char *text, size_t len, struct oci_image *ret);

/* ---- containers.c ---------------------------------------------------------------------------- */

int ctr_create(struct oci *d, const struct fn_task *task, struct ctr **ret,
               struct fn_error *reterr);
int ctr_start(struct ctr *c, struct fn_op *op, struct fn_error *reterr);
int ctr_freeze(struct ctr *c, bool on, struct fn_error *reterr);
int ctr_close(struct ctr *c, struct fn_op *op, struct fn_error *reterr);

/* ---- sweep.c --------------------------------------------------------------------------------- */

int ctr_sweep(struct oci *d, struct fn_op *op, const char *owner, const char *instance,
              uint32_t *ret_removed, struct fn_error *reterr);
/* Removes the cgroups of that name and the folder, and ends what still runs in them; again until
 * nothing is left or the operation's time is over. */
int ctr_remove(struct oci *d, struct fn_op *op, const char *name, struct fn_error *reterr);

/* ---- cgroup.c: cgroups by the container's name ----------------------------------------------- */

#define CGROUP_PARENT   "fnd-oci"
#define CGROUP_PATH_MAX 512

bool cgroup_is_v2(void);
bool cgroup_limits_swap(bool v2);
/* 0 or FN_E_NOT_FOUND. */
int cgroup_freeze(bool v2, const char *name, bool on);
bool cgroup_oom_killed(bool v2, const char *name);
/* The file that lists its processes. */
void cgroup_procs(bool v2, const char *name, char ret[CGROUP_PATH_MAX]);
/* True when none is left. */
bool cgroup_remove(bool v2, const char *name);

/* ---- files.c --------------------------------------------------------------------------------- */

/* Text of a file, NUL-terminated; false: it is not there, or longer than cap - 1. */
bool file_read(const char *dir, const char *name, char *ret, size_t cap);
int file_write(const char *dir, const char *name, const char *text); /* 0 or FN_E_... */
bool file_exists(const char *dir, const char *name);
/* A folder with all that is in it; true when it is gone. No link is followed. */
bool tree_remove(const char *dir);

#endif
