/* A small node around one driver: the real loop, lanes, fn.http and fn.proc, and an fn.driver that
 * records reports. Calls run on a lane; the test waits for them and for reports by condition, with
 * a limit, never by sleeping. */
#ifndef TEST_DRIVER_NODE_H
#define TEST_DRIVER_NODE_H

#include <fn/driver.h>
#include <stdbool.h>

#define NODE_WAIT_MS 30000

struct node;

/* options: pairs of key and text, NULL ends. NULL when the plugin refuses; *reterr says why. */
struct node *node_start(const char *plugin_file, const char *driver, const char *const *options,
                        struct fn_error *reterr);
void node_stop(struct node *n);

int node_probe(struct node *n, char *version, size_t cap, struct fn_error *reterr);
int node_prepare(struct node *n, const struct fn_task *task, struct fn_error *reterr);
int node_create(struct node *n, const struct fn_task *task, void **ret_ctr,
                struct fn_error *reterr);
/* As if a driver that wraps this one had made `task` of the host's `own`. */
int node_create_wrapped(struct node *n, const struct fn_task *own, const struct fn_task *task,
                        void **ret_ctr, struct fn_error *reterr);
int node_start_ctr(struct node *n, void *ctr, struct fn_error *reterr);
int node_freeze(struct node *n, void *ctr, bool on, struct fn_error *reterr);
int node_close(struct node *n, void *ctr, struct fn_error *reterr);
int node_sweep(struct node *n, const char *owner, const char *instance, uint32_t *ret_removed,
               struct fn_error *reterr);
uint32_t node_uid(struct node *n, void *ctr);
/* Deadline of the calls that follow, from their start. */
void node_deadline_ms(struct node *n, int64_t ms);
/* The clock of the driver, and its timers, go on by so much at once. */
void node_pass_ns(int64_t ns);
/* Value of a metric of the plugin, "disk_full"; -1 = it was not declared. */
int64_t node_metric(const char *driver, const char *name);
/* How many lines of the log, of the nodes that start from now on, have a text in them. */
void node_note_log(void);
uint32_t node_logged(const char *part);
/* Nanoseconds that the last call took on its lane. */
int64_t node_took_ns(struct node *n);

/* Wait for reports: false when none came within NODE_WAIT_MS. */
bool node_wait_exit(struct node *n, uint64_t handle, struct fn_exit *ret);
bool node_wait_output(struct node *n, uint32_t fd, const char *part);
bool node_wait_engine(struct node *n, bool up);
uint32_t node_exits(struct node *n);

/* The owner that a broker before the engine knows (FND_OWNER), if there is one. */
const char *node_owner(const char *otherwise);
/* At the end of the program: the directories of tests that failed, each a process of its own. */
void node_tidy(void);
/* A task with the limits of a stock runner; the caller changes what it needs. iofs_dir is a fresh
 * directory. */
void node_task(struct fn_task *t, const char *image, uint64_t handle, char iofs_dir[64]);
/* Waits for a socket in the directory and posts one call; status, answer into ret. */
int node_call(const char *iofs_dir, const char *body, char *ret, size_t cap);
bool node_wait_socket(const char *iofs_dir);

#endif
