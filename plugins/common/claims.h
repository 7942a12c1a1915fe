/* Claims: which manager adds and removes the machines of a group, where all that could be two of
 * them share a file system. A claim is a lock on one byte of a file, so it ends with its process
 * however that ends, and the next one has it at its next question.
 *
 * A lock belongs to the process, not to an instance: those before and after a reload have the same
 * claims. */
#ifndef PLUGINS_CLAIMS_H
#define PLUGINS_CLAIMS_H

#include <fn/abi.h>
#include <pthread.h>
#include <stdbool.h>

struct claims {
    char *path;
    pthread_mutex_t lock; /* groups are asked at the same time */
    int fd;               /* of path; -1 = not open */
    bool made_dir;        /* the directory of path */
};

/* The file is made by the first claim, with the directories above it. FN_E_EXHAUSTED. */
int claims_init(struct claims *c, const char *path);
/* Takes the file away, and the directory if that was made and is empty, unless somebody else has a
 * claim. After zeros, too. */
void claims_finish(struct claims *c);
/* [worker] 0: the group is this process's; of zeros each one is. FN_E_PRECONDITION: another one has
 * it, named in reterr; FN_E_UNAVAILABLE: the file cannot be locked. */
int claims_take(struct claims *c, const char *group, struct fn_error *reterr);
/* The same as the answer of fn_cplane_ops.claim. */
int claims_answer(struct claims *c, const char *group, struct fn_error *reterr);

#endif
