/* Worker lanes: threads that run blocking operations of plugins and libraries.
 *
 * A lane starts threads on demand up to its cap and keeps them. Its queue is bounded: full is an
 * answer. `lock` protects queue, counts and the link between an operation and its work; the result
 * is delivered by the worker itself, which enters the loop. */
#include <loop/loop_int.h>

#include <assert.h>
#include <plugin/plugin.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OP_MAGIC           0x46ae0901u
#define REPLACED_MAX       8 /* threads of a lane beyond its own */
#define LOST_PER_OWNER_MAX 2

struct fn_op {
    uint32_t magic;
    struct lane *lane;
    struct env_work *work;
    pthread_cond_t cancelled_cond; /* with lane->lock */
    TAILQ_ENTRY(fn_op) link;
    int64_t begun_ns;
    bool lost; /* long over its deadline: it does not count as a thread of the lane */
};

struct lane {
    struct env *env;
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    TAILQ_HEAD(, env_work) queue;
    uint32_t queued, queue_max;
    TAILQ_HEAD(, fn_op) running;
    uint32_t threads_n, threads_max, idle, lost;
    uint32_t ended; /* threads that will not touch anything any more */
    pthread_cond_t all_ended;
    pthread_t *threads;
    bool stopping; /* nothing begins any more */
};

struct lanes {
    struct lane lane[ENV_LANES_N];
};

static void run_one(struct lane *lane, struct env_work *w)
{
    struct fn_op op = { .magic = OP_MAGIC, .lane = lane, .work = w, .begun_ns = loop_clock_ns() };

    loop_cond_init(&op.cancelled_cond);
    if (w->timeout_ns > 0) {
        w->deadline_ns = op.begun_ns + w->timeout_ns;
    }
    w->op = &op;
    TAILQ_INSERT_TAIL(&lane->running, &op, link);
    pthread_mutex_unlock(&lane->lock);
    w->run(w, &op);
    pthread_mutex_lock(&lane->lock);
    w->op = NULL;
    TAILQ_REMOVE(&lane->running, &op, link);
    lane->lost -= op.lost;
    pthread_mutex_unlock(&lane->lock);
    pthread_cond_destroy(&op.cancelled_cond);

    lane->env->enter(lane->env);
    w->done(w);
    lane->env->leave(lane->env);
    pthread_mutex_lock(&lane->lock);
}

static void *worker(void *arg)
{
    struct lane *lane = arg;
    struct env_work *w;

    loop_altstack();
    pthread_mutex_lock(&lane->lock);
    while (!lane->stopping) {
        w = TAILQ_FIRST(&lane->queue);
        if (!w) {
            lane->idle++;
            pthread_cond_wait(&lane->wanted, &lane->lock);
            lane->idle--;
            continue;
        }
        TAILQ_REMOVE(&lane->queue, w, link);
        lane->queued--;
        run_one(lane, w);
    }
    if (++lane->ended == lane->threads_n) {
        pthread_cond_broadcast(&lane->all_ended);
    }
    pthread_mutex_unlock(&lane->lock);
    return NULL;
}

static int lanes_start_thread(struct lane *lane)
{
    int r = loop_thread(&lane->threads[lane->threads_n], worker, lane);

    if (r == 0) {
        lane->threads_n++;
    }
    return r;
}

/* More threads than the lane has by itself: one for each that is lost. */
static bool may_start(const struct lane *lane)
{
    return lane->threads_n < lane->threads_max + lane->lost &&
           lane->threads_n < lane->threads_max + REPLACED_MAX;
}

static uint32_t lost_of(const struct lane *lane, const char *owner)
{
    const struct fn_op *op;
    uint32_t n = 0;

    TAILQ_FOREACH(op, &lane->running, link) {
        n += op->lost && op->work->owner && strcmp(op->work->owner, owner) == 0;
    }
    return n;
}

int lanes_submit(struct lanes *lanes, struct env_work *w)
{
    struct lane *lane = &lanes->lane[w->lane];
    int r = 0;

    pthread_mutex_lock(&lane->lock);
    if (lane->stopping || lane->queued == lane->queue_max ||
        (w->owner && lane->lost && lost_of(lane, w->owner) >= LOST_PER_OWNER_MAX)) {
        r = FN_E_EXHAUSTED;
    } else if (lane->queued >= lane->idle && may_start(lane) && lanes_start_thread(lane) != 0 &&
               lane->threads_n == 0) {
        r = FN_E_EXHAUSTED; /* no thread can be had at all */
    } else {
        __atomic_store_n(&w->cancelled, 0, __ATOMIC_RELAXED);
        w->op = NULL;
        TAILQ_INSERT_TAIL(&lane->queue, w, link);
        lane->queued++;
        pthread_cond_signal(&lane->wanted);
    }
    pthread_mutex_unlock(&lane->lock);
    return r;
}

void lanes_cancel(struct lanes *lanes, struct env_work *w)
{
    struct lane *lane = &lanes->lane[w->lane];

    __atomic_store_n(&w->cancelled, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lane->lock);
    if (w->op) {
        pthread_cond_broadcast(&w->op->cancelled_cond);
    }
    pthread_mutex_unlock(&lane->lock);
}

int lanes_create(struct env *env, const struct loop_lanes *config, struct lanes **ret,
                 struct fn_error *reterr)
{
    static const struct loop_lanes defaults = { { 4, 8, 4, 2, 4 },
                                                { 1024, 1024, 1024, 1024, 1024 } };
    struct lanes *lanes = calloc(1, sizeof(*lanes));

    if (!lanes) {
        return err_set(reterr, FN_E_EXHAUSTED, "lanes: out of memory");
    }
    config = config ? config : &defaults;
    for (int i = 0; i < ENV_LANES_N; i++) {
        struct lane *lane = &lanes->lane[i];

        lane->env = env;
        pthread_mutex_init(&lane->lock, NULL);
        pthread_cond_init(&lane->wanted, NULL);
        loop_cond_init(&lane->all_ended);
        TAILQ_INIT(&lane->queue);
        TAILQ_INIT(&lane->running);
        lane->queue_max = config->queue_max[i];
        lane->threads_max = config->threads_max[i];
        lane->threads = calloc(lane->threads_max + REPLACED_MAX, sizeof(*lane->threads));
        if (!lane->threads) {
            lanes_destroy(lanes);
            return err_set(reterr, FN_E_EXHAUSTED, "lanes: out of memory");
        }
    }
    *ret = lanes;
    return 0;
}

int loop_set_threads(struct loop *l, enum env_lane which, uint32_t threads_max)
{
    struct lane *lane = &loop_lanes_of(l)->lane[which];
    pthread_t *threads;
    uint32_t room;

    pthread_mutex_lock(&lane->lock);
    room = (threads_max > lane->threads_n ? threads_max : lane->threads_n) + REPLACED_MAX;
    threads = realloc(lane->threads, room * sizeof(*threads));
    if (threads) {
        lane->threads = threads;
        lane->threads_max = threads_max;
    }
    for (uint32_t i = lane->idle; i < lane->queued && may_start(lane); i++) {
        if (lanes_start_thread(lane) != 0) {
            break; /* those that exist will come to it */
        }
    }
    pthread_mutex_unlock(&lane->lock);
    return threads ? 0 : FN_E_EXHAUSTED;
}

/* What all lanes have together. */
struct counts {
    uint32_t threads;
    uint32_t lost;
};

static struct counts count_lanes(struct loop *l)
{
    struct lane *lane = loop_lanes_of(l)->lane;
    struct counts n = { 0 };

    for (int i = 0; i < ENV_LANES_N; i++) {
        pthread_mutex_lock(&lane[i].lock);
        n.threads += lane[i].threads_n;
        n.lost += lane[i].lost;
        pthread_mutex_unlock(&lane[i].lock);
    }
    return n;
}

uint32_t loop_threads(struct loop *l)
{
    return count_lanes(l).threads;
}

static void look_for_lost(struct lane *lane, int64_t before_ns,
                          void (*cb)(void *ud, const char *owner, int64_t for_ns), void *ud)
{
    struct fn_op *op;
    int64_t now_ns;

    pthread_mutex_lock(&lane->lock);
    now_ns = loop_clock_ns();
    TAILQ_FOREACH(op, &lane->running, link) {
        if (!op->lost && op->work->deadline_ns && op->work->deadline_ns < before_ns) {
            op->lost = true;
            lane->lost++;
            cb(ud, op->work->owner, now_ns - op->begun_ns);
            if (lane->queued > lane->idle && may_start(lane)) {
                lanes_start_thread(lane);
            }
        }
    }
    pthread_mutex_unlock(&lane->lock);
}

void loop_look_for_lost(struct loop *l, int64_t grace_ns,
                        void (*cb)(void *ud, const char *owner, int64_t for_ns), void *ud)
{
    for (int i = 0; i < ENV_LANES_N; i++) {
        look_for_lost(&loop_lanes_of(l)->lane[i], loop_clock_ns() - grace_ns, cb, ud);
    }
}

uint32_t loop_lost(struct loop *l)
{
    return count_lanes(l).lost;
}

static void lane_begin_stop(struct lane *lane)
{
    pthread_mutex_lock(&lane->lock);
    lane->stopping = true;
    pthread_cond_broadcast(&lane->wanted);
    pthread_mutex_unlock(&lane->lock);
}

static void lane_cancel_all(struct lane *lane)
{
    struct fn_op *op;

    pthread_mutex_lock(&lane->lock);
    TAILQ_FOREACH(op, &lane->running, link) {
        __atomic_store_n(&op->work->cancelled, 1, __ATOMIC_RELAXED);
        pthread_cond_broadcast(&op->cancelled_cond);
    }
    pthread_mutex_unlock(&lane->lock);
}

static bool lane_wait(struct lane *lane, int64_t deadline_ns)
{
    const struct timespec ts = { deadline_ns / ENV_S, deadline_ns % ENV_S };
    bool all;
    int r = 0;

    pthread_mutex_lock(&lane->lock);
    while (lane->ended < lane->threads_n && r == 0) {
        r = pthread_cond_timedwait(&lane->all_ended, &lane->lock, &ts);
    }
    all = lane->ended == lane->threads_n;
    pthread_mutex_unlock(&lane->lock);
    return all;
}

bool loop_settle(struct loop *l, int64_t deadline_ns)
{
    struct lanes *lanes = loop_lanes_of(l);
    bool all = true;

    for (int i = 0; i < ENV_LANES_N; i++) {
        lane_begin_stop(&lanes->lane[i]);
        lane_cancel_all(&lanes->lane[i]);
    }
    for (int i = 0; i < ENV_LANES_N; i++) {
        all = lane_wait(&lanes->lane[i], deadline_ns) && all;
    }
    return all;
}

static void lane_stop(struct lane *lane)
{
    lane_begin_stop(lane);
    for (uint32_t i = 0; i < lane->threads_n; i++) {
        pthread_join(lane->threads[i], NULL);
    }
    free(lane->threads);
    pthread_cond_destroy(&lane->wanted);
    pthread_cond_destroy(&lane->all_ended);
    pthread_mutex_destroy(&lane->lock);
}

void lanes_destroy(struct lanes *lanes)
{
    if (!lanes) {
        return;
    }
    for (int i = 0; i < ENV_LANES_N; i++) {
        if (lanes->lane[i].env) {
            lane_stop(&lanes->lane[i]);
        }
    }
    free(lanes);
}

/* ---- fn.op ----------------------------------------------------------------------------------- */

static int64_t op_deadline_ns(const struct fn_op *op)
{
    return op->work->deadline_ns ? op->work->deadline_ns : INT64_MAX;
}

static int op_cancelled(const struct fn_op *op)
{
    return __atomic_load_n(&op->work->cancelled, __ATOMIC_RELAXED);
}

static int op_sleep_until(struct fn_op *op, int64_t at_ns)
{
    PLUGIN_HOST_CALL("fn.op.sleep_until");
    int64_t deadline_ns = op_deadline_ns(op);
    int64_t until_ns = at_ns < deadline_ns ? at_ns : deadline_ns;
    struct timespec ts = { until_ns / ENV_S, until_ns % ENV_S };
    int r = 0;

    pthread_mutex_lock(&op->lane->lock);
    while (!op_cancelled(op) && loop_clock_ns() < until_ns) {
        pthread_cond_timedwait(&op->cancelled_cond, &op->lane->lock, &ts);
    }
    pthread_mutex_unlock(&op->lane->lock);
    if (op_cancelled(op)) {
        r = FN_E_CANCELLED;
    } else if (until_ns < at_ns) {
        r = FN_E_DEADLINE;
    }
    return r;
}

const struct fn_op_if *loop_op_if(void)
{
    static const struct fn_op_if table = { FN_HDR(struct fn_op_if, FN_MAGIC_OP), op_deadline_ns,
                                           op_cancelled, op_sleep_until };

    return &table;
}
