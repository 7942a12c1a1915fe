/* See load_file.h. */
#include "load_file.h"

#include "fail.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WAIT_STEP_NS 10000000LL
#define MINUTE_NS    60000000000LL
#define AGAIN_NS     (10 * MINUTE_NS) /* as long as a load may take */

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

bool load_file_is_due(struct load_file *f)
{
    bool due;

    pthread_mutex_lock(&f->lock);
    due = is_given(f->path) && !f->done;
    pthread_mutex_unlock(&f->lock);
    return due;
}

enum turn { TURN_OURS, TURN_OTHERS, TURN_OVER };

static enum turn take_turn(struct load_file *f)
{
    enum turn turn;

    pthread_mutex_lock(&f->lock);
    turn = f->done ? TURN_OVER : f->loading ? TURN_OTHERS : TURN_OURS;
    f->loading = f->loading || turn == TURN_OURS;
    pthread_mutex_unlock(&f->lock);
    return turn;
}

/* Whoever says so: the file is the operator's, so it is no caller's fault. */
static int load_failed(struct load_file *f, int code, const struct fn_error *why,
                       struct fn_error *reterr)
{
    fail_platform(reterr, code, "load_file %.100s: %s", f->path, why->msg);
    return fail_retry(reterr, code);
}

/* The turn is ours. */
static int load(struct load_file *f, struct fn_op *op, struct fn_error *reterr)
{
    struct fn_error why = { .size = sizeof(why) };
    int r = f->load(f->inst, op, &why);

    pthread_mutex_lock(&f->lock);
    f->done = r == 0;
    f->loading = false;
    pthread_mutex_unlock(&f->lock);
    return r == 0 ? 0 : load_failed(f, r, &why, reterr);
}

int load_file_once(struct load_file *f, const struct fn_host *host, const struct fn_op_if *op_if,
                   struct fn_op *op, struct fn_error *reterr)
{
    static const struct fn_error busy = { .size = sizeof(busy), .msg = "it is being loaded" };
    enum turn turn = is_given(f->path) ? TURN_OTHERS : TURN_OVER;
    int r = 0;

    while (turn == TURN_OTHERS && r == 0) {
        turn = take_turn(f);
        if (turn == TURN_OTHERS) {
            r = op_if->sleep_until(op, host->clock->now_ns(host) + WAIT_STEP_NS);
        }
    }
    if (r < 0) {
        return load_failed(f, r, &busy, reterr);
    }
    return turn == TURN_OURS ? load(f, op, reterr) : 0;
}

void load_file_at_start(struct load_file *f, const struct fn_host *host,
                        const struct fn_op_if *op_if, struct fn_op *op)
{
    struct fn_error err = { .size = sizeof(err) };
    uint32_t level = FN_LOG_INFO;
    char line[512];
    int r;

    if (!load_file_is_due(f) || host->clock->now_ns(host) < f->next_ns) {
        return;
    }
    r = load_file_once(f, host, op_if, op, &err);
    if (r == FN_E_CANCELLED) {
        return; /* the node stops */
    }
    if (r < 0) {
        f->next_ns = host->clock->now_ns(host) + AGAIN_NS;
        level = FN_LOG_ERROR;
        snprintf(line, sizeof(line), "%s; tried again in %d min, and by calls of images that are "
                 "not there", err.msg, (int)(AGAIN_NS / MINUTE_NS));
    } else {
        snprintf(line, sizeof(line), "load_file %s: its images are there", f->path);
    }
    host->log->write(host, level, line, strlen(line));
}
