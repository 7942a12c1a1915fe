/* SQLite as a store: one file with a write-ahead log, which is on the disk before a change is done.
 * Go Fn opens the same file; a process that holds it is waited for, for a while. */
#include <store/sql.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUSY_MS        5000
#define STATEMENTS_MAX 64u

struct prepared {
    const char *text;
    sqlite3_stmt *statement;
};

struct sqlite {
    struct sql sql;
    sqlite3 *db;
    struct prepared prepared[STATEMENTS_MAX];
    uint32_t n_prepared;
};

/* ---- errors ---------------------------------------------------------------------------------- */

static int sqlite_fail(struct sqlite *s, int code, struct fn_error *reterr)
{
    const char *text = sqlite3_errmsg(s->db);

    /* A quota, the process's limit on its files, a broken disk: it may be well again. */
    if (code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_FSYNC) {
        return err_set_http(reterr, FN_E_UNAVAILABLE, 503, FN_BLAME_PLATFORM,
                            "API1103 the store cannot be written: %s (%d)", text, code);
    }
    switch (code & 0xff) {
    case SQLITE_CONSTRAINT: return err_set(reterr, FN_E_EXISTS, "%s", text);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set_http(reterr, FN_E_UNAVAILABLE, 503, FN_BLAME_PLATFORM,
                            "API1103 the store is locked by another process");
    case SQLITE_FULL:
        return err_set_http(reterr, FN_E_EXHAUSTED, 503, FN_BLAME_PLATFORM,
                            "API1103 the store has no room: %s", text);
    case SQLITE_NOMEM:
        return err_set_http(reterr, FN_E_EXHAUSTED, 503, FN_BLAME_PLATFORM,
                            "API1101 out of memory for the store");
    default: return err_set(reterr, FN_E_INTERNAL, "API1102 the store failed: %s (%d)", text, code);
    }
}

/* ---- statements ------------------------------------------------------------------------------ */

static int sqlite_prepare(struct sqlite *s, const char *text, sqlite3_stmt **ret,
                          struct fn_error *reterr)
{
    int code;

    for (uint32_t i = 0; i < s->n_prepared; i++) {
        if (s->prepared[i].text == text) {
            *ret = s->prepared[i].statement;
            return 0;
        }
    }
    assert(s->n_prepared < STATEMENTS_MAX);
    code = sqlite3_prepare_v3(s->db, text, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL);
    if (code != SQLITE_OK) {
        return sqlite_fail(s, code, reterr);
    }
    s->prepared[s->n_prepared++] = (struct prepared){ text, *ret };
    return 0;
}

static int take_cells(sqlite3_stmt *statement, sql_row *row, void *ud)
{
    const char *cells[SQL_CELLS_MAX];
    int n = sqlite3_column_count(statement);

    assert(n <= (int)SQL_CELLS_MAX);
    for (int i = 0; i < n; i++) {
        cells[i] = (const char *)sqlite3_column_text(statement, i);
    }
    return row(ud, cells);
}

static int step(struct sqlite *s, sqlite3_stmt *statement, sql_row *row, void *ud,
                struct fn_error *reterr)
{
    int code;
    int r = 0;

    while (r == 0 && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        r = row ? take_cells(statement, row, ud) : 0;
    }
    return r == 0 && code != SQLITE_DONE ? sqlite_fail(s, code, reterr) : r;
}

static int sqlite_run(struct sql *sql, const char *text, const char *const *args, uint32_t n_args,
                      sql_row *row, void *ud, uint32_t *ret_changed, struct fn_error *reterr)
{
    struct sqlite *s = (struct sqlite *)(void *)sql;
    sqlite3_stmt *statement;
    int r = sqlite_prepare(s, text, &statement, reterr);

    if (r < 0) {
        return r;
    }
    assert((uint32_t)sqlite3_bind_parameter_count(statement) == n_args);
    for (uint32_t i = 0; i < n_args && r == 0; i++) {
        int code = sqlite3_bind_text(statement, (int)i + 1, args[i], -1, SQLITE_STATIC);

        r = code == SQLITE_OK ? 0 : sqlite_fail(s, code, reterr);
    }
    r = r < 0 ? r : step(s, statement, row, ud, reterr);
    if (ret_changed) {
        *ret_changed = (uint32_t)sqlite3_changes(s->db);
    }
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return r;
}

static void sqlite_close(struct sql *sql)
{
    struct sqlite *s = (struct sqlite *)(void *)sql;

    for (uint32_t i = 0; i < s->n_prepared; i++) {
        sqlite3_finalize(s->prepared[i].statement);
    }
    sqlite3_close(s->db);
    free(s);
}

static const struct sql_ops ops = {
    .run = sqlite_run,
    .begin_read = "BEGIN",
    .begin_write = "BEGIN IMMEDIATE",
    .has_apps = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'apps'",
    .close = sqlite_close,
};

/* ---- opening --------------------------------------------------------------------------------- */

/* The folders above the file, as Go Fn makes them. */
static int make_folders(const char *path, struct fn_error *reterr)
{
    char *copy = strdup(path);
    int r = copy ? 0 : err_set(reterr, FN_E_EXHAUSTED, "API1105 store: out of memory");

    for (char *p = copy ? strchr(copy + 1, '/') : NULL; p && r == 0; p = strchr(p + 1, '/')) {
        *p = '\0';
        if (mkdir(copy, 0750) < 0 && errno != EEXIST) {
            r = err_set(reterr, FN_E_UNAVAILABLE, "API1105 store: folder %s cannot be made: %s",
                        copy, strerror(errno));
        }
        *p = '/';
    }
    free(copy);
    return r;
}

/* A new file is for nobody else: apps have secrets in their configuration. */
static int make_file(const char *path, struct fn_error *reterr)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0) {
        return err_set(reterr, FN_E_UNAVAILABLE, "API1105 store: %s cannot be opened: %s", path,
                       strerror(errno));
    }
    close(fd);
    return 0;
}

static int set_up(struct sqlite *s, const char *path, struct fn_error *reterr)
{
    static const char *const settings[] = { "PRAGMA journal_mode = WAL",
                                            "PRAGMA synchronous = FULL",
                                            "PRAGMA temp_store = MEMORY" };
    struct fn_error e = ERR_INIT;
    int r = 0;

    sqlite3_busy_timeout(s->db, BUSY_MS);
    sqlite3_extended_result_codes(s->db, 1);
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]) && r == 0; i++) {
        r = sqlite_run(&s->sql, settings[i], NULL, 0, NULL, NULL, NULL, &e);
    }
    return r < 0 ? err_set(reterr, r, "API1105 store: %s cannot be used: %s", path, e.msg) : 0;
}

int sqlite_check(const char *path, struct fn_error *reterr)
{
    if (!*path || strchr(path, '?')) {
        return err_set(reterr, FN_E_INVALID, "sqlite3://<path of a file>");
    }
    return 0;
}

int sqlite_open(const char *path, struct sql **ret, struct fn_error *reterr)
{
    struct sqlite *s = calloc(1, sizeof(*s));
    int r = make_folders(path, reterr);

    r = r < 0 ? r : make_file(path, reterr);
    if (!s || r < 0) {
        free(s);
        return r < 0 ? r : err_set(reterr, FN_E_EXHAUSTED, "API1105 store: out of memory");
    }
    s->sql.ops = &ops;
    if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK) {
        r = err_set(reterr, FN_E_UNAVAILABLE, "API1105 store: %s cannot be opened: %s", path,
                    s->db ? sqlite3_errmsg(s->db) : "out of memory");
    }
    r = r < 0 ? r : set_up(s, path, reterr);
    if (r < 0) {
        sqlite_close(&s->sql);
        return r;
    }
    *ret = &s->sql;
    return 0;
}
