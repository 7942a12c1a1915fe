/* What other processes changed in the database, as far as they tell:
 *
 *     wait on a worker --heard, quiet--> told to the node --> wait
 *            ^-- timer, longer each time <--failed--'
 *
 * A text is "<process> <id>". What this process told itself is left out: it knows. What is not
 * understood, or too much, and each new connection, mean that anything may have changed. */
#include <store/store_int.h>

#include <base/log.h>
#include <model/ids.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEARD_MAX      256u           /* ids of one wait */
#define PAUSE_FIRST_NS (100 * ENV_MS) /* after a failure, and twice that after the next */
#define PAUSE_MAX_NS   (5 * ENV_S)
#define TIMEOUT_NS     (60 * ENV_S) /* of one wait: a database with many addresses, all silent */

struct listen {
    struct env *env;
    struct ears *ears;
    struct listen_to to;
    char process[STORE_PROCESS_BYTES];
    struct env_work work;
    struct env_timer retry;
    int64_t pause_ns; /* 0: it hears */
    bool busy, stopping, closed;
    /* the worker's, while `busy`: */
    char ids[HEARD_MAX][CALL_ID_LEN + 1];
    uint32_t n;
    bool all;
    int result;
    struct fn_error error;
};

/* ---- on a worker ----------------------------------------------------------------------------- */

static void on_heard(void *ud, const char *text)
{
    struct listen *l = ud;
    const char *space = text ? strchr(text, ' ') : NULL;
    size_t len = space ? (size_t)(space - text) : 0;

    if (space && len == strlen(l->process) && memcmp(text, l->process, len) == 0) {
        return;
    }
    if (!space || strlen(space + 1) > CALL_ID_LEN || l->n == HEARD_MAX) {
        l->all = true;
        return;
    }
    snprintf(l->ids[l->n++], sizeof(l->ids[0]), "%s", space + 1);
}

static void listen_run(struct env_work *w, struct fn_op *op)
{
    struct listen *l = container_of(w, struct listen, work);

    (void)op;
    l->result = l->ears->ops->wait(l->ears, on_heard, l, &l->error);
}

/* ---- on the loop ----------------------------------------------------------------------------- */

static void listen_later(struct listen *l)
{
    l->pause_ns = l->pause_ns == 0 ? PAUSE_FIRST_NS : 2 * l->pause_ns;
    l->pause_ns = l->pause_ns < PAUSE_MAX_NS ? l->pause_ns : PAUSE_MAX_NS;
    env_timer_set(l->env, &l->retry, env_now_ns(l->env) + l->pause_ns);
}

static void tell_heard(struct listen *l)
{
    if (l->all) {
        l->to.changed(l->to.ud, NULL);
        return;
    }
    for (uint32_t i = 0; i < l->n; i++) {
        l->to.changed(l->to.ud, l->ids[i]);
    }
}

static void listen_free(struct listen *l)
{
    l->ears->ops->close(l->ears);
    free(l);
}

static void listen_begin(struct listen *l);

static void listen_done(struct env_work *w)
{
    struct listen *l = container_of(w, struct listen, work);

    l->busy = false;
    if (l->closed) {
        listen_free(l);
    } else if (l->stopping) {
        l->to.stopped(l->to.ud);
    } else if (l->result < 0) {
        if (l->pause_ns == 0) {
            log_warn("changes by other API nodes are not heard of", "error", l->error.msg);
        }
        listen_later(l);
    } else {
        l->pause_ns = 0;
        tell_heard(l);
        listen_begin(l);
    }
}

static void listen_begin(struct listen *l)
{
    l->n = 0;
    l->all = false;
    l->error = ERR_INIT;
    l->work = (struct env_work){ .run = listen_run,
                                 .done = listen_done,
                                 .lane = ENV_LANE_CONTROL,
                                 .timeout_ns = TIMEOUT_NS };
    l->busy = env_submit(l->env, &l->work) == 0;
    if (!l->busy) {
        listen_later(l);
    }
}

static void listen_on_retry(struct env_timer *t)
{
    listen_begin(container_of(t, struct listen, retry));
}

/* ---- life ------------------------------------------------------------------------------------ */

int listen_create(struct env *env, struct ears *ears, const char *process,
                  const struct listen_to *to, struct listen **ret, struct fn_error *reterr)
{
    struct listen *l = calloc(1, sizeof(*l));

    if (!l) {
        ears->ops->close(ears);
        return err_set(reterr, FN_E_EXHAUSTED, "API1105 store: out of memory");
    }
    l->env = env;
    l->ears = ears;
    snprintf(l->process, sizeof(l->process), "%s", process);
    l->to = *to;
    l->retry.cb = listen_on_retry;
    *ret = l;
    return 0;
}

void listen_start(struct listen *l)
{
    listen_begin(l);
}

void listen_stop(struct listen *l)
{
    l->stopping = true;
    l->ears->ops->wake(l->ears);
    env_timer_clear(l->env, &l->retry);
}

bool listen_is_busy(const struct listen *l)
{
    return l->busy;
}

void listen_destroy(struct listen *l)
{
    listen_stop(l);
    l->closed = true;
    if (!l->busy) {
        listen_free(l);
    }
}
