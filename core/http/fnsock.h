/* Fnsock over real sockets: the implementation of model/fnsock.h for nodes.
 *
 * Directories live in <iofs>/fnd-iofs-<random>/iofs<container>.<random>. The upper one belongs to
 * one process, which holds a lock on a file in it as long as it lives; so a starting node can tell
 * what a dead one left behind, and never touches what belongs to a living one.
 *
 * pause(): what was read before it may still be delivered, at most 64 KiB. Go Fn: FN_IOFS_*. */
#ifndef HTTP_FNSOCK_H
#define HTTP_FNSOCK_H

#include <base/err.h>
#include <loop/loop.h>
#include <model/fnsock.h>

enum fnsock_tmpfs {
    FNSOCK_TMPFS_OFF,  /* directories are measured now and then, and full ones are told of */
    FNSOCK_TMPFS_ON,   /* or no socket */
    FNSOCK_TMPFS_AUTO, /* where the node may mount, and whoever runs functions sees it */
};

/* Part of `runner:`, see fnsock_options.c. */
struct fnsock_config {
    const char *iofs_path;   /* FN_IOFS_PATH; NULL or "" = $TMPDIR, else /tmp */
    const char *engine_path; /* FN_IOFS_DOCKER_PATH: iofs_path as the engine sees it; "" = same */
    bool by_path;            /* functions reach their directories by their paths, not by mounts */
    bool private_dirs;       /* FN_DISABLE_UNPRIVILEGED_CONTAINERS: mode 0700 instead of 0777 */
    const char *tmpfs_word;  /* "auto", "true" or "false", which tmpfs becomes; NULL: as it is */
    enum fnsock_tmpfs tmpfs; /* FN_IOFS_TMPFS: mount one on each directory; needs CAP_SYS_ADMIN */
    uint64_t dir_bytes_max;  /* of one directory; 0 = 1 MiB */
    uint64_t dir_inodes_max; /* 0 = 64 */
    const char *tmpfs_opts;  /* FN_IOFS_OPTS: further mount options; NULL or "" = none */
    struct fnsock_limits limits; /* zero bytes or fields: 64 KiB and 100; idle 0: 1 s */
    int64_t retry_ns; /* between connects to a socket nobody listens on yet; 0 = 10 ms (F56) */
};

extern const struct opt_table fnsock_opt_table;

/* Texts of config are copied. [init] */
int fnsock_create(struct loop *loop, const struct fnsock_config *config, struct fnsock_if *ret,
                  struct fn_error *reterr);
/* [loop] For answers from now on. */
void fnsock_set_limits(struct fnsock_if *f, const struct fnsock_limits *limits);
/* Every fnsock must have been closed. Zeroed: no effect. */
void fnsock_destroy(struct fnsock_if *f);

#endif
