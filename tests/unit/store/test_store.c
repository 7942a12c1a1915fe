/* The store on a fake clock, with a file of SQLite: what shares a transaction, what a failure takes
 * with it, and which databases are taken over. */
#include <store/store_int.h>

#include <check.h>
#include <fake_env.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LARGE_BYTES (1u << 20)
#define LARGE_N     8u

static struct fake_env *env;
static struct store *store;
static struct fn_error error;
static char dir[] = "/tmp/fnd-store-XXXXXX";
static char path[64];
static char url[80];
static struct arena arena;

static void open_store(void)
{
    const struct store_options options = { url };

    ck_assert_msg(store_open(&env->env, &options, &store, &error) == 0, "%s", error.msg);
}

static void setup(void)
{
    memcpy(dir + strlen(dir) - 6, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/sub/fn.db", dir);
    snprintf(url, sizeof(url), "sqlite3://%s", path);
    error = ERR_INIT;
    env = fake_env_create();
    arena_init(&arena, 0);
    store = NULL;
}

static void teardown(void)
{
    char command[80];

    store_close(store);
    fake_env_destroy(env);
    arena_finish(&arena);
    snprintf(command, sizeof(command), "%s/sub", dir);
    for (int i = 0; i < 3; i++) {
        static const char *const behind[] = { "", "-wal", "-shm" };
        char file[80];

        snprintf(file, sizeof(file), "%s%s", path, behind[i]);
        unlink(file);
    }
    rmdir(command);
    rmdir(dir);
}

/* ---- operations ------------------------------------------------------------------------------ */

static uint32_t told;

static void on_told(struct store_op *op)
{
    (void)op;
    told++;
}

static struct store_op *make(const struct store_verb *verb)
{
    struct store_op *op = arena_alloc(&arena, sizeof(*op));

    op->verb = verb;
    op->arena = &arena;
    op->done = on_told;
    op->now_ns = 2000 * ENV_S;
    op->filter = (struct store_filter){ "", "", "", "", "", "", STORE_PAGE_MAX };
    app_init(&op->app, &arena);
    fn_def_init(&op->fn, &arena);
    trigger_init(&op->trigger, &arena);
    return op;
}

static struct store_op *make_app(const char *id, const char *name)
{
    struct store_op *op = make(&store_app_add);

    op->app.id = id;
    op->app.name = name;
    op->app.created_ns = op->app.updated_ns = 1000 * ENV_S;
    return op;
}

static void submit(struct store_op *op)
{
    ck_assert_int_eq(store_submit(store, op, &error), 0);
}

static struct store_op *run(struct store_op *op)
{
    submit(op);
    fake_env_work_all(env);
    return op;
}

static struct store_op *get_app(const char *id)
{
    struct store_op *op = make(&store_app_get);

    op->app.id = id;
    return run(op);
}

static void add_fn(const char *id, const char *app_id, const char *name)
{
    struct store_op *op = make(&store_fn_add);

    op->fn.id = id;
    op->fn.app_id = app_id;
    op->fn.name = name;
    op->fn.image = "i";
    ck_assert_int_eq(run(op)->result, 0);
}

static struct store_op *make_trigger(const char *id, const char *fn_id, const char *source)
{
    struct store_op *op = make(&store_trigger_add);

    op->trigger = (struct trigger){ id, "same", "a", fn_id, TRIGGER_HTTP, source,
                                    op->trigger.annotations, 0, 0 };
    return op;
}

/* ---- batches --------------------------------------------------------------------------------- */

/* A connection that counts, and fails where it is told to. */
static struct wrapped {
    struct sql sql;
    struct sql *inner;
    uint32_t commits;
    const char *fails; /* a statement that begins so fails once */
    const char *spoils; /* a statement about it fails, and then all of the transaction do */
    bool spoilt;
} wrapped;

/* As PostgreSQL: until its end a transaction that failed takes nothing, and its end says so. */
static bool is_spoilt(const char *statement, const char *const *args, uint32_t n_args)
{
    bool was = wrapped.spoilt;

    wrapped.spoilt |= wrapped.spoils && n_args > 0 && strcmp(args[0], wrapped.spoils) == 0;
    if (strcmp(statement, "COMMIT") == 0 || strcmp(statement, "ROLLBACK") == 0) {
        wrapped.spoilt = false;
        return was && *statement == 'C';
    }
    return wrapped.spoilt;
}

static int wrapped_run(struct sql *db, const char *statement, const char *const *args,
                       uint32_t n_args, sql_row *row, void *ud, uint32_t *ret_changed,
                       struct fn_error *reterr)
{
    (void)db;
    wrapped.commits += strcmp(statement, "COMMIT") == 0;
    if (wrapped.fails && strncmp(statement, wrapped.fails, strlen(wrapped.fails)) == 0) {
        wrapped.fails = NULL;
        return err_set_http(reterr, FN_E_EXHAUSTED, 503, FN_BLAME_PLATFORM, "no room");
    }
    if (is_spoilt(statement, args, n_args)) {
        if (*statement == 'C') {
            wrapped.inner->ops->run(wrapped.inner, "ROLLBACK", NULL, 0, NULL, NULL, NULL, NULL);
        }
        return err_set_http(reterr, FN_E_INTERNAL, 500, FN_BLAME_PLATFORM, "in vain");
    }
    return wrapped.inner->ops->run(wrapped.inner, statement, args, n_args, row, ud, ret_changed,
                                   reterr);
}

static void wrapped_close(struct sql *db)
{
    (void)db;
    wrapped.inner->ops->close(wrapped.inner);
}

static void open_wrapped(bool reads)
{
    static struct sql_ops ops;
    struct sql *plain;

    wrapped = (struct wrapped){ .sql.ops = &ops };
    ck_assert_int_eq(sqlite_open(path, &wrapped.inner, &error), 0);
    ck_assert_int_eq(schema_prepare(wrapped.inner, path, &error), 0);
    ck_assert_int_eq(sqlite_open(path, &plain, &error), 0);
    ops = *wrapped.inner->ops;
    ops.run = wrapped_run;
    ops.close = wrapped_close;
    ck_assert_int_eq(store_create(&env->env, reads ? &wrapped.sql : plain,
                                  reads ? plain : &wrapped.sql, &store, &error),
                     0);
}

static uint32_t changes;

static void on_change(void *ud, const char *id)
{
    static const char *const made[] = { "1", "2", "3" };

    (void)ud;
    ck_assert_str_eq(id, made[changes++]);
}

START_TEST(what_waits_shares_a_transaction)
{
    open_wrapped(false);
    told = changes = 0;
    store_on_change(store, on_change, NULL);
    submit(make_app("1", "one"));
    submit(make_app("2", "two"));
    submit(make_app("3", "three"));
    ck_assert_uint_eq(store_waiting(store), 3);
    fake_env_work_one(env);
    ck_assert_uint_eq(told, 1); /* the worker had begun with what there was */
    fake_env_work_one(env);
    ck_assert_uint_eq(told, 3);
    ck_assert_uint_eq(changes, 3);
    ck_assert_uint_eq(wrapped.commits, 2);
    ck_assert_uint_eq(store_waiting(store), 0);
    ck_assert_int_eq(get_app("2")->result, 0);
}
END_TEST

START_TEST(a_refused_change_leaves_the_others)
{
    struct store_op *ops[3];

    open_store();
    run(make_app("0", "zero"));
    submit(make_app("x", "holds the worker"));
    submit(ops[0] = make_app("1", "one"));
    submit(ops[1] = make_app("2", "zero"));
    submit(ops[2] = make_app("3", "three"));
    fake_env_work_all(env);
    ck_assert_int_eq(ops[0]->result, 0);
    ck_assert_int_eq(ops[1]->result, FN_E_EXISTS);
    ck_assert_int_eq(ops[1]->error.http_status, 409);
    ck_assert_int_eq(ops[2]->result, 0);
    ck_assert_int_eq(get_app("1")->result, 0);
    ck_assert_int_eq(get_app("2")->result, FN_E_NOT_FOUND);
    ck_assert_int_eq(get_app("3")->result, 0);
}
END_TEST

/* Nothing is told as done that is not in the database, wherever the transaction broke. */
START_TEST(a_lost_transaction_fails_all_of_it)
{
    static const char *const statements[] = { "COMMIT", "BEGIN", "SAVEPOINT", "RELEASE",
                                              "INSERT INTO apps" };
    bool alone = strncmp(statements[_i], "INSERT", 6) == 0;
    struct store_op *first = make_app("1", "one");
    struct store_op *second = make_app("2", "two");

    open_wrapped(false);
    run(make_app("0", "zero"));
    submit(make_app("x", "holds the worker"));
    submit(first);
    submit(second);
    fake_env_work_one(env);
    wrapped.fails = statements[_i];
    fake_env_work_one(env);
    ck_assert_int_eq(first->result, FN_E_EXHAUSTED);
    ck_assert_int_eq(first->error.http_status, 503);
    ck_assert_int_eq(get_app("1")->result, FN_E_NOT_FOUND);
    ck_assert_int_eq(second->result, alone ? 0 : FN_E_EXHAUSTED);
    ck_assert_int_eq(get_app("2")->result, alone ? 0 : FN_E_NOT_FOUND);
    ck_assert_int_eq(get_app("0")->result, 0);
    ck_assert_int_eq(run(make_app("3", "three"))->result, 0);
    ck_assert_int_eq(get_app("3")->result, 0);
}
END_TEST

/* One client's mistake is not the answer of all when its change cannot be taken back. */
START_TEST(a_lost_connection_is_nobodys_mistake)
{
    struct store_op *ops[3];

    open_wrapped(false);
    run(make_app("0", "zero"));
    submit(make_app("x", "holds the worker"));
    submit(ops[0] = make_app("1", "one"));
    submit(ops[1] = make_app("2", "zero"));
    submit(ops[2] = make_app("3", "three"));
    fake_env_work_one(env);
    wrapped.fails = "ROLLBACK TO";
    fake_env_work_one(env);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(ops[i]->result, FN_E_EXHAUSTED);
        ck_assert_int_eq(ops[i]->error.http_status, 503);
        ck_assert_int_eq(ops[i]->error.blame, FN_BLAME_PLATFORM);
    }
    ck_assert_int_eq(get_app("1")->result, FN_E_NOT_FOUND);
}
END_TEST

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* More than SQLite keeps in memory: it writes before the end, and where it cannot it takes all of
 * the transaction back by itself. */
START_TEST(a_disk_that_fails_in_the_middle_is_told_as_such)
{
    char *large = arena_alloc(&arena, LARGE_BYTES);
    struct store_op *ops[LARGE_N];
    struct rlimit before;

    memset(large, 'x', LARGE_BYTES - 1);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    open_store();
    submit(make_app("x", "holds the worker"));
    for (size_t i = 0; i < LARGE_N; i++) {
        const char *id = arena_printf(&arena, "%zu", i);

        ops[i] = make_app(id, id);
        kvs_set(&ops[i]->app.config, "k", large);
        submit(ops[i]);
    }
    fake_env_work_one(env);
    limit_files(LARGE_BYTES);
    fake_env_work_one(env);
    limit_files(before.rlim_cur);
    for (size_t i = 0; i < LARGE_N; i++) {
        ck_assert_int_eq(ops[i]->error.http_status, 503);
        ck_assert_str_eq(ops[i]->error.msg,
                         "API1103 the store cannot be written: disk I/O error (778)");
    }
    ck_assert_int_eq(get_app("0")->result, FN_E_NOT_FOUND);
    ck_assert_int_eq(run(make_app("0", "0"))->result, 0);
}
END_TEST

static struct store_op *submit_get(const char *id)
{
    struct store_op *op = make(&store_app_get);

    op->app.id = id;
    submit(op);
    return op;
}

/* A read that the database refuses has no neighbours. */
START_TEST(a_read_that_breaks_the_transaction_stands_alone)
{
    struct store_op *gets[4], *list;

    open_wrapped(true);
    run(make_app("1", "one"));
    run(make_app("2", "two"));
    wrapped.spoils = "bad";
    submit_get("1"); /* holds the worker */
    gets[0] = submit_get("1");
    submit(list = make(&store_app_list));
    gets[1] = submit_get("bad");
    gets[2] = submit_get("2");
    gets[3] = submit_get("none");
    fake_env_work_all(env);
    ck_assert_int_eq(gets[0]->result, 0);
    ck_assert_int_eq(gets[1]->error.http_status, 500);
    ck_assert_int_eq(gets[2]->result, 0);
    ck_assert_str_eq(gets[2]->app.name, "two");
    ck_assert_int_eq(gets[3]->error.http_status, 404);
    ck_assert_int_eq(list->result, 0);
    ck_assert_uint_eq(list->n, 2);
}
END_TEST

/* A database that refuses everything is not asked for long. */
START_TEST(a_database_that_refuses_all_reads_is_left_alone)
{
    struct store_op *op;

    open_wrapped(true);
    wrapped.spoils = "bad";
    for (uint32_t i = 0; i < STORE_BATCH_MAX + 1; i++) {
        op = submit_get("bad");
    }
    fake_env_work_all(env);
    ck_assert_int_eq(op->error.http_status, 500);
    ck_assert_uint_le(wrapped.commits, 2 + 9);
}
END_TEST

START_TEST(a_full_lane_is_tried_again)
{
    struct store_op *op = make_app("1", "one");

    open_store();
    env->submit_fails = 2;
    submit(op);
    submit(make_app("2", "two"));
    ck_assert_int_eq(fake_env_work_one(env), 0);
    fake_env_advance(env, 20 * ENV_MS);
    fake_env_work_all(env);
    ck_assert_int_eq(op->result, 0);
    ck_assert_int_eq(get_app("1")->result, 0);
    ck_assert_int_eq(get_app("2")->result, 0);
}
END_TEST

/* The lane is full just when a batch is done. */
START_TEST(a_full_lane_behind_a_batch_is_tried_again)
{
    uint32_t tries = 0;

    open_store();
    submit(make_app("1", "one"));
    submit(make_app("2", "two"));
    env->submit_fails = 1;
    ck_assert_int_eq(fake_env_work_one(env), 1);
    ck_assert_uint_eq(store_waiting(store), 1);
    while (fake_env_advance(env, 20 * ENV_MS), fake_env_work_one(env) && tries < 10) {
        tries++;
    }
    ck_assert_uint_eq(tries, 1);
    ck_assert_uint_eq(store_waiting(store), 0);
    ck_assert_int_eq(get_app("2")->result, 0);
}
END_TEST

START_TEST(waiting_has_a_limit)
{
    open_store();
    for (uint32_t i = 0; i < STORE_QUEUED_MAX + 1; i++) { /* one is with the worker */
        submit(make(&store_app_list));
    }
    ck_assert_int_eq(store_submit(store, make(&store_app_list), &error), FN_E_EXHAUSTED);
    ck_assert_int_eq(error.http_status, 503);
    ck_assert_ptr_nonnull(strstr(error.msg, "API1106"));
    fake_env_work_all(env);
    ck_assert_uint_eq(store_waiting(store), 0);
}
END_TEST

static void on_idle(void *ud)
{
    ++*(uint32_t *)ud;
}

START_TEST(a_drain_waits_for_the_last_one)
{
    uint32_t idle = 0;

    open_store();
    submit(make_app("1", "one"));
    store_drain(store, on_idle, &idle);
    ck_assert_uint_eq(idle, 0);
    fake_env_work_all(env);
    ck_assert_uint_eq(idle, 1);
    store_drain(store, on_idle, &idle);
    ck_assert_uint_eq(idle, 2);
}
END_TEST

/* ---- what is kept ---------------------------------------------------------------------------- */

START_TEST(what_was_kept_comes_back)
{
    struct store_op *op = make_app("1", "one");
    struct app *a;

    open_store();
    kvs_set(&op->app.config, "k", "\"<\xc3\xbc>");
    kvs_set(&op->app.annotations, "o", "{\"b\":[1,2.50],\"a\":1e5}");
    op->app.syslog_url = "udp://h:1";
    op->app.shape = "GENERIC_ARM";
    run(op);
    store_close(store);
    open_store();
    a = &get_app("1")->app;
    ck_assert_str_eq(a->name, "one");
    ck_assert_str_eq(kvs_get(&a->config, "k"), "\"<\xc3\xbc>");
    ck_assert_str_eq(kvs_get(&a->annotations, "o"), "{\"b\":[1,2.50],\"a\":1e5}");
    ck_assert_str_eq(a->syslog_url, "udp://h:1");
    ck_assert_str_eq(a->shape, "GENERIC_ARM");
    ck_assert_int_eq(a->created_ns, 1000 * ENV_S);
}
END_TEST

START_TEST(only_a_change_is_dated)
{
    struct store_op *op = make(&store_app_change);

    open_store();
    run(make_app("1", "one"));
    op->app.id = "1";
    run(op);
    ck_assert_int_eq(op->app.updated_ns, 1000 * ENV_S);
    op = make(&store_app_change);
    op->app.id = "1";
    kvs_set(&op->app.config, "k", "v");
    run(op);
    ck_assert_int_eq(op->app.updated_ns, 2000 * ENV_S);
    ck_assert_int_eq(op->app.created_ns, 1000 * ENV_S);
    ck_assert_int_eq(get_app("1")->app.updated_ns, 2000 * ENV_S);
}
END_TEST

/* Go Fn's cursor, which has a name alone, would lose all but the first page of one name. */
START_TEST(triggers_of_one_name_are_all_listed)
{
    static const char *const fns[] = { "f1", "f2", "f3", "f4", "f5" };
    const char *after_fn = "";
    const char *after = "";
    uint32_t seen = 0;

    open_store();
    run(make_app("a", "app"));
    for (size_t i = 0; i < 5; i++) {
        add_fn(fns[i], "a", fns[i]);
        ck_assert_int_eq(run(make_trigger(fns[i], fns[i], arena_join(&arena, "/", fns[i], NULL)))
                             ->result, 0);
    }
    for (int page = 0; page < 3; page++) {
        struct store_op *op = make(&store_trigger_list);

        op->filter.app_id = "a";
        op->filter.after = after;
        op->filter.after_fn = after_fn;
        op->filter.limit = 2;
        run(op);
        ck_assert_int_eq(op->result, 0);
        for (uint32_t i = 0; i < op->n; i++) {
            ck_assert_str_eq(op->triggers[i].fn_id, fns[seen++]);
        }
        after = op->triggers[op->n - 1].name;
        after_fn = op->triggers[op->n - 1].fn_id;
    }
    ck_assert_uint_eq(seen, 5);
}
END_TEST

START_TEST(a_source_is_one_trigger_s)
{
    struct store_op *op;

    open_store();
    run(make_app("a", "app"));
    add_fn("f1", "a", "f1");
    add_fn("f2", "a", "f2");
    run(make_trigger("t1", "f1", "/x"));
    ck_assert_int_eq(run(make_trigger("t2", "f2", "/x"))->result, FN_E_EXISTS);
    ck_assert_int_eq(run(make_trigger("t2", "f2", "/y"))->result, 0);
    op = make(&store_trigger_change);
    op->trigger.id = "t2";
    op->trigger.source = "/x";
    ck_assert_int_eq(run(op)->error.http_status, 409);
    op = make(&store_trigger_change);
    op->trigger.id = "t2";
    op->trigger.fn_id = "f1";
    ck_assert_int_eq(run(op)->error.http_status, 409); /* its name is taken there */
    op = make(&store_fn_remove);
    op->fn.id = "f1";
    ck_assert_int_eq(run(op)->result, 0);
    op = make(&store_trigger_get);
    op->trigger.id = "t1";
    ck_assert_int_eq(run(op)->result, FN_E_NOT_FOUND);
}
END_TEST

/* ---- other databases ------------------------------------------------------------------------- */

static void write_db(const char *sql)
{
    sqlite3 *db;
    char *said = NULL;

    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_exec(db, sql, NULL, NULL, &said);
    ck_assert_msg(!said, "%s", said);
    sqlite3_close(db);
}

#define OLD_TABLES                                                                                 \
    "CREATE TABLE schema_migrations (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL);" \
    "CREATE TABLE apps (id varchar(256) NOT NULL PRIMARY KEY, name varchar(256) NOT NULL UNIQUE, " \
    "config text NOT NULL, annotations text NOT NULL, syslog_url text, created_at varchar(256), "  \
    "updated_at varchar(256));"                                                                    \
    "CREATE TABLE fns (id varchar(256) NOT NULL PRIMARY KEY, name varchar(256) NOT NULL, app_id "  \
    "varchar(256) NOT NULL, image varchar(256) NOT NULL, memory int NOT NULL, timeout int NOT "    \
    "NULL, idle_timeout int NOT NULL, config text NOT NULL, annotations text NOT NULL, "           \
    "created_at varchar(256) NOT NULL, updated_at varchar(256) NOT NULL);"                         \
    "INSERT INTO apps VALUES ('old', 'older', '', '', NULL, NULL, NULL);"

START_TEST(an_older_database_is_lifted)
{
    open_store(); /* makes the folder */
    store_close(store);
    store = NULL;
    unlink(path);
    write_db(OLD_TABLES "INSERT INTO schema_migrations VALUES (24, 0);");
    open_store();
    ck_assert_str_eq(get_app("old")->app.name, "older");
    ck_assert_str_eq(get_app("old")->app.shape, "");
    add_fn("f", "old", "f");
    store_close(store);
    open_store();
    ck_assert_int_eq(get_app("old")->result, 0);
}
END_TEST

START_TEST(other_databases_are_refused)
{
    static const char *const rows[][2] = {
        { OLD_TABLES "INSERT INTO schema_migrations VALUES (23, 0);", "has schema 23; expected" },
        { OLD_TABLES "INSERT INTO schema_migrations VALUES (27, 0);", "which is newer than this" },
        { OLD_TABLES "INSERT INTO schema_migrations VALUES (26, 1);", "is dirty at schema 26" },
        { "CREATE TABLE apps (a int);", "has schema -1; expected" },
    };
    const struct store_options options = { url };

    open_store();
    store_close(store);
    store = NULL;
    unlink(path);
    write_db(rows[_i][0]);
    ck_assert_int_eq(store_open(&env->env, &options, &store, &error), FN_E_INVALID);
    ck_assert_msg(strstr(error.msg, "API1104"), "%s", error.msg);
    ck_assert_msg(strstr(error.msg, rows[_i][1]), "%s", error.msg);
    ck_assert_ptr_null(store);
}
END_TEST

START_TEST(what_is_no_database_is_refused)
{
    const struct store_options options = { url };
    FILE *f;

    open_store();
    store_close(store);
    store = NULL;
    f = fopen(path, "w");
    fprintf(f, "This is a text of more than a hundred bytes, which a database never begins with; "
               "SQLite looks at the first sixteen.\n");
    fclose(f);
    ck_assert_int_lt(store_open(&env->env, &options, &store, &error), 0);
    ck_assert_msg(strstr(error.msg, "API1105 store: "), "%s", error.msg);
    unlink(path);
    ck_assert_int_eq(store_check_url("mysql://u:p@h/d", &error), FN_E_INVALID);
    ck_assert_int_eq(store_check_url("sqlite3://", &error), FN_E_INVALID);
    ck_assert_int_eq(store_check_url("sqlite3:///x?mode=ro", &error), FN_E_INVALID);
    ck_assert_int_eq(store_check_url("sqlite3://data/fn.db", &error), 0);
}
END_TEST

/* Sentences and logs have nothing of a password, however it is written. name NULL: refused. */
static const struct {
    const char *url, *name;
} urls[] = {
    { "sqlite3:///data/me@home/fn.db", "sqlite3:///data/me@home/fn.db" },
    { "postgres://h/db", "postgres://h/db" },
    { "postgresql://fn:sure@h:5432/db?sslmode=require", "postgresql://h:5432/db" },
    { "postgres://fn:100%25sure@h/db", "postgres://h/db" },
    { "postgres://h/db?user=x&password=is@sure", "postgres://h/db" },
    { "postgres://fn@h?password=sure", "postgres://h" },
    { "postgres://fn:is?sure@h/db", "postgres://h/db" },
    { "postgres://fn:sure@/db?host=/run", "postgres:///db" },
    { "postgres://fn:100%sure@h/db", NULL },
    { "postgres://fn:is/sure@h/db", NULL },
    { "postgres://fn:1/sure@h:5432/db", NULL },
    { "postgres://fn:is@sure@h/db", NULL },
    { "postgres://fn:is,sure/2@h/db", NULL },
    { "postgres://h/db?password=is&sure", NULL },
    { "postgres://h/db?password=is&sure=1", NULL },
    { "postgres://fn:sure@[::1/db", NULL },
};

START_TEST(a_password_is_never_told)
{
    char name[STORE_NAME_BYTES];
    int r = store_check_url(urls[_i].url, &error);

    if (urls[_i].name) {
        store_print_name(urls[_i].url, name);
        ck_assert_msg(r == 0, "%s", error.msg);
        ck_assert_str_eq(name, urls[_i].name);
    } else {
        ck_assert_int_eq(r, FN_E_INVALID);
        ck_assert_str_eq(error.msg,
                         "a URL that libpq takes, with special characters of user and password as "
                         "%XX and no settings but its own");
    }
}
END_TEST

/* A row that neither fnd nor Go Fn writes is a failure of the store, not of its reader. */
START_TEST(a_broken_row_is_told)
{
    struct store_op *op;

    open_store();
    write_db("INSERT INTO apps VALUES ('b', 'broken', '{\"a\":', '', NULL, 'x', NULL, NULL);");
    op = get_app("b");
    ck_assert_int_eq(op->result, FN_E_INTERNAL);
    ck_assert_int_eq(op->error.http_status, 0);
    ck_assert_ptr_nonnull(strstr(op->error.msg, "API1102 app b in the store: config: 1:6"));
}
END_TEST

/* ---- what others are told -------------------------------------------------------------------- */

/* With the transaction, after the change, and not of one that was refused. */
static char told_texts[128];

static int telling_run(struct sql *db, const char *statement, const char *const *args,
                       uint32_t n_args, sql_row *row, void *ud, uint32_t *ret_changed,
                       struct fn_error *reterr)
{
    if (strcmp(statement, "tell") == 0) {
        strcat(strcat(told_texts, strchr(args[0], ' ') + 1), ",");
        return 0;
    }
    return wrapped_run(db, statement, args, n_args, row, ud, ret_changed, reterr);
}

START_TEST(changes_are_told_to_others)
{
    static struct sql_ops ops;

    open_wrapped(false);
    ops = *wrapped.sql.ops;
    ops.run = telling_run;
    ops.tell = "tell";
    wrapped.sql.ops = &ops;
    told_texts[0] = '\0';
    run(make_app("1", "one"));
    run(make_app("2", "one"));
    run(make_app("3", "three"));
    get_app("3");
    ck_assert_str_eq(told_texts, "1,3,");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store");
    TCase *t = tcase_create("store");
    SRunner *r = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, what_waits_shares_a_transaction);
    tcase_add_test(t, a_refused_change_leaves_the_others);
    tcase_add_loop_test(t, a_lost_transaction_fails_all_of_it, 0, 5);
    tcase_add_test(t, a_lost_connection_is_nobodys_mistake);
    tcase_add_test(t, a_disk_that_fails_in_the_middle_is_told_as_such);
    tcase_add_test(t, a_read_that_breaks_the_transaction_stands_alone);
    tcase_add_test(t, a_database_that_refuses_all_reads_is_left_alone);
    tcase_add_test(t, a_full_lane_is_tried_again);
    tcase_add_test(t, a_full_lane_behind_a_batch_is_tried_again);
    tcase_add_test(t, waiting_has_a_limit);
    tcase_add_test(t, a_drain_waits_for_the_last_one);
    tcase_add_test(t, what_was_kept_comes_back);
    tcase_add_test(t, only_a_change_is_dated);
    tcase_add_test(t, triggers_of_one_name_are_all_listed);
    tcase_add_test(t, a_source_is_one_trigger_s);
    tcase_add_test(t, an_older_database_is_lifted);
    tcase_add_loop_test(t, other_databases_are_refused, 0, 4);
    tcase_add_test(t, what_is_no_database_is_refused);
    tcase_add_loop_test(t, a_password_is_never_told, 0, sizeof(urls) / sizeof(urls[0]));
    tcase_add_test(t, a_broken_row_is_told);
    tcase_add_test(t, changes_are_told_to_others);
    suite_add_tcase(s, t);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
