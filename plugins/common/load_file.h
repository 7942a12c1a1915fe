/* The file of images that a driver loads when its runner starts, once, however many calls want an
 * image at that time. A wrong path ends the start, or a check, and not the first call.
 *
 * A driver looks for an image first, and waits for the file when it is not there: a load that takes
 * long, or fails, holds up nobody who needs nothing of it. */
#ifndef PLUGINS_LOAD_FILE_H
#define PLUGINS_LOAD_FILE_H

#include <fn/host.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>

struct load_file {
    const char *path; /* NULL or "" = there is none */
    int (*load)(void *inst, struct fn_op *op, struct fn_error *reterr);
    void *inst;
    pthread_mutex_t lock; /* of these two */
    bool loading;         /* somebody does: one load at a time */
    bool done;
    int64_t next_ns; /* load_file_at_start() only: not before */
};

/* [init] path is borrowed. load() is only called when there is a file. */
void load_file_init(struct load_file *f, const char *path,
                    int (*load)(void *inst, struct fn_op *op, struct fn_error *reterr), void *inst);
void load_file_finish(struct load_file *f);
/* [init] Whether there is such a file: `fits` judges what is there, `rule` says how. */
int load_file_check(const char *path, bool (*fits)(const struct stat *), const char *rule,
                    struct fn_error *reterr);
/* [worker] Whether there is one whose images may not be there yet. */
bool load_file_is_due(struct load_file *f);
/* [worker] Loads it, or waits until somebody has: 0 when its images are there, or there is none.
 * What fails is the node's own, and worth another runner. */
int load_file_once(struct load_file *f, const struct fn_host *host, const struct fn_op_if *op_if,
                   struct fn_op *op, struct fn_error *reterr);
/* [worker] Of a sweep: the first one loads. What failed is tried again by a later one, or by a call
 * that wants an image that is not there. */
void load_file_at_start(struct load_file *f, const struct fn_host *host,
                        const struct fn_op_if *op_if, struct fn_op *op);

#endif
