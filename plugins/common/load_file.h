/* The file of images that a driver loads when its runner starts, once, however many calls want an
 * image at that time. A wrong path ends the start, or a check, and not the first call. */
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
    pthread_mutex_t lock; /* one load at a time; held while it lasts */
    bool done;
    bool tried; /* load_file_at_start() only */
};

/* [init] path is borrowed. load() is only called when there is a file. */
void load_file_init(struct load_file *f, const char *path,
                    int (*load)(void *inst, struct fn_op *op, struct fn_error *reterr), void *inst);
void load_file_finish(struct load_file *f);
/* [init] Whether there is such a file: `fits` judges what is there, `rule` says how. */
int load_file_check(const char *path, bool (*fits)(const struct stat *), const char *rule,
                    struct fn_error *reterr);
/* [worker] 0 when it was loaded or now is, or when there is none. */
int load_file_once(struct load_file *f, struct fn_op *op, struct fn_error *reterr);
/* [worker] Of a sweep: the first one loads, in its time; what fails is left to the first call. */
void load_file_at_start(struct load_file *f, const struct fn_host *host, struct fn_op *op);

#endif
