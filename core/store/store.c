/* Two queues, of what reads and of what changes, each with a connection and at most one batch on a
 * worker: what comes meanwhile is the next one. */
#include <store/store_int.h>

#include <assert.h>
#include <base/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_NS   (10 * ENV_MS) /* when the workers' queue is full */
#define TIMEOUT_NS (60 * ENV_S)  /* a batch that takes longer has lost its disk */
#define BROKEN_MAX 8u              /* reads of a batch that fail alone, too; others are not tried */
#define TEXT_BYTES (STORE_PROCESS_BYTES + 512u) /* of what is told to others; ids have 256 */

TAILQ_HEAD(op_list, store_op);

struct queue {
    struct store *store;
    struct sql *db;
    bool writes;
    struct op_list waiting;
    uint32_t waiting_n;
    struct op_list running; /* the worker's, while `busy` */
    bool busy;
    struct env_work work;
    struct env_timer retry;
};

struct store {
    struct env *env;
    struct queue reads, changes;
    uint32_t undone; /* operations that were not told as done */
    void (*changed)(void *ud, const char *id);
    void *changed_ud;
    struct listen *listen; /* NULL: nobody else tells */
    char process[STORE_PROCESS_BYTES];
    void (*idle)(void *ud); /* draining */
    void *idle_ud;
};

/* ---- a batch, on a worker -------------------------------------------------------------------- */

/* Others hear of it when the transaction is done, and only then. */
static int tell_others(struct queue *q, struct store_op *op, struct fn_error *reterr)
{
    char text[TEXT_BYTES];
    const char *const args[] = { text };

    if (!q->db->ops->tell) {
        return 0;
    }
    snprintf(text, sizeof(text), "%s %s", q->store->process, *store_id(op));
    return sql_change(q->db, q->db->ops->tell, args, 1, NULL, reterr);
}

/* Where that fails, the change's error says why unless it is the client's mistake: SQLite takes all
 * of a transaction back by itself when it cannot write, and knows no savepoint any more. */
static int take_back(struct sql *db, const struct store_op *op, struct fn_error *reterr)
{
    int r = sql_do(db, "ROLLBACK TO op", reterr);

    if (r < 0 && err_http_status(&op->error) >= 500) {
        *reterr = op->error;
        r = op->result;
    }
    return r;
}

/* A change stands alone: what it began and did not end is taken back. < 0: nothing of the
 * transaction is left, and *reterr is not the change's own mistake. */
static int run_change(struct queue *q, struct store_op *op, struct fn_error *reterr)
{
    struct sql *db = q->db;
    int r = sql_do(db, "SAVEPOINT op", reterr);

    if (r < 0) {
        return r;
    }
    op->result = op->verb->run(db, op, &op->error);
    op->result = op->result < 0 ? op->result : tell_others(q, op, &op->error);
    r = op->result < 0 ? take_back(db, op, reterr) : 0;
    return r < 0 ? r : sql_do(db, "RELEASE op", reterr);
}

static int run_ops(struct queue *q, struct fn_error *reterr)
{
    struct store_op *op;
    int r = 0;

    TAILQ_FOREACH(op, &q->running, link) {
        if (!q->writes) {
            op->result = op->verb->run(q->db, op, &op->error);
        } else if ((r = run_change(q, op, reterr)) < 0) {
            break;
        }
    }
    return r;
}

/* Of a transaction that began: 0 when all of it is in the database. */
static int commit_ops(struct queue *q, int r, struct fn_error *reterr)
{
    r = r < 0 ? r : sql_do(q->db, "COMMIT", reterr);
    if (r < 0) {
        sql_do(q->db, "ROLLBACK", NULL);
    }
    return r;
}

/* Its own mistake, or else that of the transaction. */
static int read_alone(struct queue *q, struct store_op *op, struct fn_error *reterr)
{
    int r = sql_do(q->db, q->db->ops->begin_read, reterr);

    op->n = 0;
    op->error = ERR_INIT;
    op->result = 0;
    if (r == 0) {
        op->result = op->verb->run(q->db, op, &op->error);
        r = commit_ops(q, 0, reterr);
    }
    if (r < 0 && op->result == 0) {
        op->result = r;
        op->error = *reterr;
    }
    return r;
}

/* PostgreSQL ends the transaction of all by the mistake of one, and does not say whose it was: each
 * has its own now. Where many fail, the database has a trouble that is nobody's. */
static void read_each(struct queue *q)
{
    struct fn_error e = ERR_INIT;
    struct store_op *op;
    uint32_t broken = 0;
    int r = 0;

    TAILQ_FOREACH(op, &q->running, link) {
        if (broken < BROKEN_MAX) {
            r = read_alone(q, op, &e);
            broken += r < 0;
        } else {
            op->result = r;
            op->error = e;
        }
    }
}

/* Nothing of the batch is in the database: none of it may be told as done. */
static void fail_all(struct queue *q, int code, const struct fn_error *e)
{
    struct store_op *op;

    TAILQ_FOREACH(op, &q->running, link) {
        op->result = code;
        op->error = *e;
    }
}

static void queue_run(struct env_work *w, struct fn_op *fn_op)
{
    struct queue *q = container_of(w, struct queue, work);
    const struct sql_ops *ops = q->db->ops;
    struct fn_error e = ERR_INIT;
    int r = sql_do(q->db, q->writes ? ops->begin_write : ops->begin_read, &e);
    bool began = r == 0;

    (void)fn_op;
    if (began) {
        r = commit_ops(q, run_ops(q, &e), &e);
    }
    if (r < 0 && began && !q->writes) {
        read_each(q);
    } else if (r < 0) {
        fail_all(q, r, &e);
    }
}

/* ---- queues ---------------------------------------------------------------------------------- */

static void queue_start(struct queue *q);

static bool is_idle(const struct store *s)
{
    return store_waiting(s) == 0 && !(s->listen && listen_is_busy(s->listen));
}

static void look_idle(struct store *s)
{
    void (*idle)(void *ud) = s->idle;

    if (idle && is_idle(s)) {
        s->idle = NULL;
        idle(s->idle_ud);
    }
}

/* What a database says is for the log; a client's mistake is not. */
static void tell_failure(const struct store_op *op)
{
    if (op->result < 0 && op->error.blame != FN_BLAME_USER) {
        log_stranger(FN_LOG_ERROR, "an operation of the store failed", "error", op->error.msg,
                     "fn_request_id", op->request_id);
    }
}

static void queue_done(struct env_work *w)
{
    struct queue *q = container_of(w, struct queue, work);
    struct store *s = q->store;
    struct op_list done = TAILQ_HEAD_INITIALIZER(done);
    struct store_op *op;

    TAILQ_CONCAT(&done, &q->running, link);
    q->busy = false;
    queue_start(q);
    while ((op = TAILQ_FIRST(&done))) {
        TAILQ_REMOVE(&done, op, link);
        s->undone--;
        tell_failure(op);
        if (q->writes && op->result == 0 && s->changed) {
            s->changed(s->changed_ud, *store_id(op));
        }
        op->done(op);
    }
    look_idle(s);
}

static void on_retry(struct env_timer *t)
{
    queue_start(container_of(t, struct queue, retry));
}

static void queue_start(struct queue *q)
{
    struct env *env = q->store->env;
    struct store_op *op;
    uint32_t n = 0;

    if (q->busy || q->waiting_n == 0) {
        return;
    }
    for (; n < STORE_BATCH_MAX && (op = TAILQ_FIRST(&q->waiting)); n++) {
        TAILQ_REMOVE(&q->waiting, op, link);
        TAILQ_INSERT_TAIL(&q->running, op, link);
    }
    q->waiting_n -= n;
    q->work = (struct env_work){ .run = queue_run,
                                 .done = queue_done,
                                 .lane = ENV_LANE_CONTROL,
                                 .timeout_ns = TIMEOUT_NS };
    q->busy = env_submit(env, &q->work) == 0;
    if (!q->busy) {
        q->waiting_n += n;
        TAILQ_CONCAT(&q->running, &q->waiting, link);
        TAILQ_CONCAT(&q->waiting, &q->running, link);
        env_timer_set(env, &q->retry, env_now_ns(env) + RETRY_NS);
    }
}

int store_submit(struct store *s, struct store_op *op, struct fn_error *reterr)
{
    struct queue *q = op->verb->act != STORE_READ ? &s->changes : &s->reads;

    if (q->waiting_n == STORE_QUEUED_MAX) {
        return err_set_http(reterr, FN_E_EXHAUSTED, 503, FN_BLAME_PLATFORM,
                            "API1106 too much waits for the store");
    }
    op->result = 0;
    op->error = ERR_INIT;
    TAILQ_INSERT_TAIL(&q->waiting, op, link);
    q->waiting_n++;
    s->undone++;
    queue_start(q);
    return 0;
}

void store_on_change(struct store *s, void (*changed)(void *ud, const char *id), void *ud)
{
    s->changed = changed;
    s->changed_ud = ud;
}

uint32_t store_waiting(const struct store *s)
{
    return s->undone;
}

void store_drain(struct store *s, void (*idle)(void *ud), void *ud)
{
    s->idle = idle;
    s->idle_ud = ud;
    if (s->listen) {
        listen_stop(s->listen);
    }
    look_idle(s);
}

/* ---- what others changed --------------------------------------------------------------------- */

static void on_others_change(void *ud, const char *id)
{
    struct store *s = ud;

    if (s->changed) {
        s->changed(s->changed_ud, id);
    }
}

static void on_listen_stopped(void *ud)
{
    look_idle(ud);
}

void store_listen(struct store *s)
{
    if (s->listen) {
        listen_start(s->listen);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static const struct kind {
    const char *scheme;
    bool whole; /* the scheme is part of what open() and check() get */
    int (*open)(const char *where, struct sql **ret, struct fn_error *reterr);
    int (*check)(const char *where, struct fn_error *reterr);
    int (*ears)(const char *where, struct ears **ret, struct fn_error *reterr); /* NULL: none */
} kinds[] = {
    { "sqlite3://", false, sqlite_open, sqlite_check, NULL },
    { "postgres://", true, postgres_open, postgres_check, postgres_ears_open },
    { "postgresql://", true, postgres_open, postgres_check, postgres_ears_open },
};

static const struct kind *kind_of(const char *url, const char **ret_where)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t len = strlen(kinds[i].scheme);

        if (strncmp(url, kinds[i].scheme, len) == 0) {
            *ret_where = kinds[i].whole ? url : url + len;
            return &kinds[i];
        }
    }
    return NULL;
}

int store_check_url(const char *url, struct fn_error *reterr)
{
    const char *where;
    const struct kind *kind = kind_of(url, &where);

    return kind ? kind->check(where, reterr)
                : err_set(reterr, FN_E_INVALID,
                          "sqlite3://<path of a file> or postgres://<user>@<host>/<database>");
}

void store_print_name(const char *url, char ret[STORE_NAME_BYTES])
{
    const char *begin = strstr(url, "://") + 3;
    const char *place = strncmp(url, "postgres", 8) == 0 ? postgres_place(url) : begin;

    snprintf(ret, STORE_NAME_BYTES, "%.*s%.*s", (int)(begin - url), url, (int)strcspn(place, "?"),
             place);
}

static void queue_init(struct queue *q, struct store *s, struct sql *db, bool writes)
{
    q->store = s;
    q->db = db;
    q->writes = writes;
    TAILQ_INIT(&q->waiting);
    TAILQ_INIT(&q->running);
    q->retry.cb = on_retry;
}

int store_create(struct env *env, struct sql *reads, struct sql *changes, struct store **ret,
                 struct fn_error *reterr)
{
    struct store *s = calloc(1, sizeof(*s));

    if (!s) {
        reads->ops->close(reads);
        changes->ops->close(changes);
        return err_set(reterr, FN_E_EXHAUSTED, "API1105 store: out of memory");
    }
    s->env = env;
    snprintf(s->process, sizeof(s->process), "%016llx", (unsigned long long)env_random_u64(env));
    queue_init(&s->reads, s, reads, false);
    queue_init(&s->changes, s, changes, true);
    *ret = s;
    return 0;
}

/* What is wrong with the schema is said already; anything else is told with the database's name. */
static int prepare_schema(struct sql *db, const char *name, struct fn_error *reterr)
{
    struct fn_error e = ERR_INIT;
    int r = schema_prepare(db, name, &e);

    if (r < 0 && r != FN_E_INVALID) {
        return err_set(reterr, r, "API1105 store: %s cannot be used: %s", name, e.msg);
    }
    return r < 0 ? err_set(reterr, r, "%s", e.msg) : 0;
}

static int open_ears(struct store *s, const struct kind *kind, const char *where,
                     struct fn_error *reterr)
{
    const struct listen_to to = { on_others_change, on_listen_stopped, s };
    struct ears *ears;
    int r = kind->ears ? kind->ears(where, &ears, reterr) : 1;

    return r == 0  ? listen_create(s->env, ears, s->process, &to, &s->listen, reterr)
           : r < 0 ? r
                   : 0;
}

int store_open(struct env *env, const struct store_options *options, struct store **ret,
               struct fn_error *reterr)
{
    const char *where;
    const struct kind *kind = kind_of(options->url, &where);
    char name[STORE_NAME_BYTES];
    struct sql *changes;
    struct sql *reads;
    int r = kind->open(where, &changes, reterr);

    if (r < 0) {
        return r;
    }
    store_print_name(options->url, name);
    r = prepare_schema(changes, name, reterr);
    r = r < 0 ? r : kind->open(where, &reads, reterr);
    if (r < 0) {
        changes->ops->close(changes);
        return r;
    }
    *ret = NULL;
    r = store_create(env, reads, changes, ret, reterr);
    r = r < 0 ? r : open_ears(*ret, kind, where, reterr);
    if (r < 0) {
        store_close(*ret);
        *ret = NULL;
    }
    return r;
}

static void queue_close(struct queue *q)
{
    assert(!q->busy);
    env_timer_clear(q->store->env, &q->retry);
    q->db->ops->close(q->db);
}

void store_close(struct store *s)
{
    if (s) {
        if (s->listen) {
            listen_destroy(s->listen);
        }
        queue_close(&s->reads);
        queue_close(&s->changes);
        free(s);
    }
}
