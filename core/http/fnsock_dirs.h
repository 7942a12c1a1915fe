/* Private to fnsock: directories of sockets and the bin that they end in.
 *
 *   fnsock_dir.c    making, mounting and locking them, on the loop
 *   fnsock_bin.c    the bin: one thread that removes, measures and sweeps
 *   fnsock_tree.c   trees that functions made: removing, measuring
 *   fnsock_sweep.c  what dead processes left
 *
 * Everything in a container's directory is a function's: how long it takes to remove, to unmount or
 * to close is for the function to choose. So the loop only makes directories; closing, unmounting
 * and removing is the bin's, one at a time, on a thread that nobody waits for. */
#ifndef HTTP_FNSOCK_DIRS_H
#define HTTP_FNSOCK_DIRS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define IOFS_LOCK_NAME  ".lock" /* fn_task.iofs_dir in include/fn/driver.h promises it */
#define INSTANCE_PREFIX "fnd-iofs-" /* what begins so and holds a lock file is ours to remove */
#define PATH_BYTES      4096
#define ALL_ENTRIES     UINT64_MAX

/* ---- fnsock_tree.c: blocking, never on the loop ---------------------------------------------- */

/* Removes the directory `name` with all it holds. FN_E_EXHAUSTED: `entries` were looked at, or stop
 * (may be NULL) was set; there is more. FN_E_ABORTED: something cannot be removed, or none of the
 * entries could. */
int tree_remove(int parent_fd, const char *name, uint64_t entries, const atomic_bool *stop);
/* Unmounts what is mounted on the entries of a directory. */
void tree_unmount(const char *path);
/* Looks at inodes_max entries at most. */
bool tree_fits(int dir_fd, uint64_t bytes_max, uint64_t inodes_max);

/* ---- fnsock_sweep.c: blocking, never on the loop --------------------------------------------- */

/* Removes what dead processes of the same user left in the directory `base`; how many of them. */
int sweep_dead(const char *base, const atomic_bool *stop);

/* ---- fnsock_bin.c ---------------------------------------------------------------------------- */

struct bin;

/* One container's directory. The loop's until bin_put(); `link` and the states below it are under
 * the bin's lock from bin_watch() or bin_put() on. */
struct iofs_dir {
    char *name; /* in the instance directory */
    char *path;
    int fd;     /* -1 = not open yet */
    int covered_fd; /* what a tmpfs lies on, as long as nobody has shown to see the tmpfs; or -1 */
    bool mounted;
    void *owner; /* whom bin_take_overfull() names */
    TAILQ_ENTRY(iofs_dir) link;
    bool watched, measuring, put, overfull;
};

struct bin_config {
    const char *base;     /* iofs path, swept now and then */
    const char *instance; /* name of this process's directory in it */
    int instance_fd;
    int lock_fd;          /* given; closed when everything is removed */
    uint64_t bytes_max, inodes_max; /* of a watched directory */
};

/* Starts the thread, which begins with a sweep. lock_fd stays the caller's on error. */
int bin_create(const struct bin_config *config, struct bin **ret);
/* Given, and all that it holds. Never blocks. */
void bin_put(struct bin *b, struct iofs_dir *d);
/* Measures it from time to time until it is put. */
void bin_watch(struct bin *b, struct iofs_dir *d);
/* The owner of a watched directory that outgrew its limits, each once; NULL = none. */
void *bin_take_overfull(struct bin *b);
/* Removes the instance's directory and ends; what takes longer than a few seconds is left to the
 * sweep of whoever is alive then. NULL ok. */
void bin_destroy(struct bin *b);

#endif
