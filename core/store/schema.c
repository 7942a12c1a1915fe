/* The tables of Go Fn's schema 26, and how a database gets them.
 *
 * A database without tables gets the last ones at once. An older one is brought forward by the
 * steps that fnd knows, those since Fn keeps no calls in it; one that is older still is Go Fn's to
 * lift. Indices are ours: Go Fn neither needs nor minds them. */
#include <store/store_int.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION       26
#define VERSION_FIRST 24 /* the oldest that can be lifted */

static const char *const tables[] = {
    "CREATE TABLE IF NOT EXISTS schema_migrations ("
    "version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)",

    "CREATE TABLE IF NOT EXISTS apps ("
    "id varchar(256) NOT NULL PRIMARY KEY, name varchar(256) NOT NULL UNIQUE, "
    "config text NOT NULL, annotations text NOT NULL, syslog_url text, "
    "created_at varchar(256), updated_at varchar(256), shape text)",

    "CREATE TABLE IF NOT EXISTS triggers ("
    "id varchar(256) NOT NULL PRIMARY KEY, name varchar(256) NOT NULL, "
    "app_id varchar(256) NOT NULL, fn_id varchar(256) NOT NULL, "
    "created_at varchar(256) NOT NULL, updated_at varchar(256) NOT NULL, "
    "type varchar(256) NOT NULL, source varchar(256) NOT NULL, annotations text NOT NULL, "
    "CONSTRAINT name_app_id_fn_id_unique UNIQUE (app_id, fn_id, name))",

    "CREATE TABLE IF NOT EXISTS fns ("
    "id varchar(256) NOT NULL PRIMARY KEY, name varchar(256) NOT NULL, "
    "app_id varchar(256) NOT NULL, image varchar(256) NOT NULL, memory int NOT NULL, "
    "timeout int NOT NULL, idle_timeout int NOT NULL, config text NOT NULL, "
    "annotations text NOT NULL, created_at varchar(256) NOT NULL, "
    "updated_at varchar(256) NOT NULL, shape text, "
    "CONSTRAINT name_app_id_unique UNIQUE (app_id, name))",

    "CREATE INDEX IF NOT EXISTS fnd_triggers_source ON triggers (app_id, type, source)",
    "CREATE INDEX IF NOT EXISTS fnd_triggers_name ON triggers (app_id, name, fn_id)",
    "CREATE INDEX IF NOT EXISTS fnd_triggers_fn ON triggers (fn_id)",
};

/* What made version VERSION_FIRST + 1, + 2 ... */
static const char *const steps[VERSION - VERSION_FIRST] = {
    "ALTER TABLE apps ADD COLUMN shape text",
    "ALTER TABLE fns ADD COLUMN shape text",
};

struct version {
    int64_t number; /* -1: no row */
    bool dirty;
};

static int take_version(void *ud, const char *const *cells)
{
    struct version *v = ud;

    v->number = cells[0] ? strtoll(cells[0], NULL, 10) : -1;
    v->dirty = cells[1] && (cells[1][0] == 't' || strtol(cells[1], NULL, 10) != 0);
    return 0;
}

static int write_version(struct sql *db, struct fn_error *reterr)
{
    char text[24];
    const char *args[] = { text };
    int r = sql_do(db, "DELETE FROM schema_migrations", reterr);

    snprintf(text, sizeof(text), "%d", VERSION);
    return r < 0 ? r
                 : db->ops->run(db, "INSERT INTO schema_migrations (version, dirty) "
                                    "VALUES ($1, FALSE)",
                                args, 1, NULL, NULL, NULL, reterr);
}

static int lift(struct sql *db, int64_t from, const char *name, struct fn_error *reterr)
{
    int r = 0;

    if (from < VERSION_FIRST) {
        return err_set(reterr, FN_E_INVALID,
                       "API1104 store %s has schema %lld; expected %d to %d: one start of a Go API "
                       "node of version 0.3.750 or later lifts an older one",
                       name, (long long)from, VERSION_FIRST, VERSION);
    }
    for (int64_t v = from; v < VERSION && r == 0; v++) {
        r = sql_do(db, steps[v - VERSION_FIRST], reterr);
    }
    return r;
}

static int check_version(struct sql *db, const char *name, bool *ret_current,
                         struct fn_error *reterr)
{
    struct version v = { .number = -1 };
    int r = db->ops->run(db, "SELECT version, dirty FROM schema_migrations", NULL, 0, take_version,
                         &v, NULL, reterr);

    if (r < 0) {
        return r;
    }
    if (v.dirty) {
        return err_set(reterr, FN_E_INVALID,
                       "API1104 store %s is dirty at schema %lld: a migration of Go Fn broke off; "
                       "expected a database that is whole", name, (long long)v.number);
    }
    if (v.number > VERSION) {
        return err_set(reterr, FN_E_INVALID,
                       "API1104 store %s has schema %lld, which is newer than this program; "
                       "expected at most %d", name, (long long)v.number, VERSION);
    }
    *ret_current = v.number == VERSION;
    return lift(db, v.number, name, reterr);
}

static int make_tables(struct sql *db, const char *name, struct fn_error *reterr)
{
    uint32_t apps = 0;
    int r = sql_count(db, db->ops->has_apps, NULL, 0, &apps, reterr);
    bool current = false;

    r = r < 0 ? r : sql_do(db, tables[0], reterr);
    r = r < 0 || apps == 0 ? r : check_version(db, name, &current, reterr);
    for (size_t i = 1; i < sizeof(tables) / sizeof(tables[0]) && r == 0; i++) {
        r = sql_do(db, tables[i], reterr);
    }
    return r < 0 || current ? r : write_version(db, reterr);
}

int schema_prepare(struct sql *db, const char *name, struct fn_error *reterr)
{
    int r = sql_do(db, db->ops->begin_write, reterr);

    if (r < 0) {
        return r;
    }
    r = make_tables(db, name, reterr);
    if (r < 0) {
        sql_do(db, "ROLLBACK", NULL);
        return r;
    }
    return sql_do(db, "COMMIT", reterr);
}
