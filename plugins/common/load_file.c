/* See load_file.h. */
#include "load_file.h"

#include "fail.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void load_file_init(struct load_file *f, const char *path,
                    int (*load)(void *inst, struct fn_op *op, struct fn_error *reterr), void *inst)
{
    *f = (struct load_file){ .path = path, .load = load, .inst = inst };
    pthread_mutex_init(&f->lock, NULL);
}

void load_file_finish(struct load_file *f)
{
    pthread_mutex_destroy(&f->lock);
}

static bool is_given(const char *path)
{
    return path && *path;
}

int load_file_check(const char *path, bool (*fits)(const struct stat *), const char *rule,
                    struct fn_error *reterr)
{
    struct stat st;

    if (!is_given(path)) {
        return 0;
    }
    if (stat(path, &st) < 0 || access(path, R_OK) < 0) {
        return fail_platform(reterr, FN_E_INVALID, "load_file, got \"%.100s\": %s; expected %s",
                             path, strerror(errno), rule);
    }
    return fits(&st) ? 0
                     : fail_platform(reterr, FN_E_INVALID, "load_file, got \"%.100s\"; expected %s",
                                     path, rule);
}

int load_file_once(struct load_file *f, struct fn_op *op, struct fn_error *reterr)
{
    int r = 0;

    if (!is_given(f->path)) {
        return 0;
    }
    pthread_mutex_lock(&f->lock);
    if (!f->done) {
        r = f->load(f->inst, op, reterr);
        f->done = r == 0;
    }
    pthread_mutex_unlock(&f->lock);
    return r;
}

void load_file_at_start(struct load_file *f, const struct fn_host *host, struct fn_op *op)
{
    struct fn_error err = { .size = sizeof(err) };
    uint32_t level = FN_LOG_INFO;
    char line[512];

    if (f->tried || !is_given(f->path)) {
        return;
    }
    f->tried = true;
    if (load_file_once(f, op, &err) < 0) {
        level = FN_LOG_ERROR;
        snprintf(line, sizeof(line), "%s; the next call that starts a container tries again",
                 err.msg);
    } else {
        snprintf(line, sizeof(line), "load_file %s: its images are there", f->path);
    }
    host->log->write(host, level, line, strlen(line));
}
