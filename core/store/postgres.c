/* PostgreSQL as a store, for API nodes that share one database.
 *
 * All changes of fnd's nodes take turns: a transaction that changes locks a table that nobody else
 * writes before it looks at anything, so that none sees what another one is about to change. A Go
 * API node takes no such lock. What it changes in between ends our transaction, which is told as
 * one to be tried again, never as done.
 *
 * A connection that broke is made again when the next transaction begins. Whether a COMMIT arrived
 * whose answer was lost cannot be known: that change is told as failed, and may be there. */
#include <store/postgres.h>
#include <store/sql.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_S      "5"
#define SILENCE_MS     "10000" /* of the network, while we wait for it */
#define STATEMENTS_MAX 64u
#define STATE_LEN      5u /* characters of an SQLSTATE */

/* Every wait has an end, and a node that hangs in the middle does not hold the others. Who waits
 * for a lock is told so before the statement takes too long. */
static const char session[] = "SET statement_timeout = '10s'; SET lock_timeout = '5s'; "
                              "SET idle_in_transaction_session_timeout = '20s'; "
                              "SET client_min_messages = warning";

/* Before the first transaction, since that locks it. Two nodes that make it at once wait for each
 * other; the number is any that nobody else has. */
static const char first_table[] =
    "BEGIN; SELECT pg_advisory_xact_lock(826013); CREATE TABLE IF NOT EXISTS schema_migrations ("
    "version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL); COMMIT";

struct postgres {
    struct sql sql;
    PGconn *conn;
    const char *prepared[STATEMENTS_MAX]; /* "0", "1" ... at the server */
    uint32_t n_prepared;
};

/* ---- errors ---------------------------------------------------------------------------------- */

/* One line of what it says. */
static int line_len(const char *text)
{
    return (int)strcspn(text, "\n");
}

int postgres_unavailable(struct fn_error *reterr, const char *text)
{
    return err_set_http(reterr, FN_E_UNAVAILABLE, 503, FN_BLAME_PLATFORM,
                        "API1103 the store does not answer: %.*s", line_len(text), text);
}

/* Codes: appendix A of PostgreSQL's manual. The longest beginning that is here counts. */
static const struct {
    const char *state;
    int code;
    int http_status; /* 0: the operation has words of its own, or it is nothing for a client */
    const char *sentence;
} meanings[] = {
    { "23505", FN_E_EXISTS, 0, NULL },
    { "22001", FN_E_INVALID, 400, "a text is longer than the store keeps" },
    { "40", FN_E_UNAVAILABLE, 503, "API1103 another process changed the same in the store" },
    { "55P03", FN_E_UNAVAILABLE, 503, "API1103 the store is locked by another process" },
    { "57014", FN_E_UNAVAILABLE, 503, "API1103 the store took too long" },
    { "53", FN_E_EXHAUSTED, 503, "API1103 the store has no room" },
    { "57P", FN_E_UNAVAILABLE, 503, "API1103 the store is not ready" },
    { "25P02", FN_E_UNAVAILABLE, 503, "API1103 what was done together failed in the store" },
    { "25P03", FN_E_UNAVAILABLE, 503, "API1103 the store took too long" },
    { "08", FN_E_UNAVAILABLE, 503, "API1103 the store is not ready" },
};

static int failed(struct postgres *s, const PGresult *result, struct fn_error *reterr)
{
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *text = PQerrorMessage(s->conn);

    if (PQstatus(s->conn) == CONNECTION_BAD || !state || strlen(state) != STATE_LEN) {
        return postgres_unavailable(reterr, text);
    }
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        if (strncmp(state, meanings[i].state, strlen(meanings[i].state)) == 0) {
            return meanings[i].http_status
                       ? err_set_http(reterr, meanings[i].code, meanings[i].http_status,
                                      meanings[i].code == FN_E_INVALID ? FN_BLAME_USER
                                                                       : FN_BLAME_PLATFORM,
                                      "%s", meanings[i].sentence)
                       : err_set(reterr, meanings[i].code, "%.*s", line_len(text), text);
        }
    }
    return err_set(reterr, FN_E_INTERNAL, "API1102 the store failed: %.*s (%s)", line_len(text),
                   text, state);
}

/* Takes the result, whose rows are nothing to anybody. */
static int finish(struct postgres *s, PGresult *result, struct fn_error *reterr)
{
    ExecStatusType status = PQresultStatus(result);
    int r = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ? 0
                                                                    : failed(s, result, reterr);

    PQclear(result);
    return r;
}

/* ---- connection ------------------------------------------------------------------------------ */

static int connected(struct postgres *s, struct fn_error *reterr)
{
    s->n_prepared = 0;
    return PQstatus(s->conn) == CONNECTION_OK
               ? finish(s, PQexec(s->conn, session), reterr)
               : postgres_unavailable(reterr, PQerrorMessage(s->conn));
}

/* Where a transaction begins: a connection that broke, or has an old one in it, starts anew. */
static int refresh(struct postgres *s, struct fn_error *reterr)
{
    if (PQstatus(s->conn) == CONNECTION_OK && PQtransactionStatus(s->conn) == PQTRANS_IDLE) {
        return 0;
    }
    PQreset(s->conn);
    return connected(s, reterr);
}

/* ---- statements ------------------------------------------------------------------------------ */

static int postgres_prepare(struct postgres *s, const char *text, char ret_name[12],
                            struct fn_error *reterr)
{
    uint32_t i = 0;
    int r;

    while (i < s->n_prepared && s->prepared[i] != text) {
        i++;
    }
    snprintf(ret_name, 12, "%u", i);
    if (i < s->n_prepared) {
        return 0;
    }
    assert(i < STATEMENTS_MAX);
    r = finish(s, PQprepare(s->conn, ret_name, text, 0, NULL), reterr);
    if (r == 0) {
        s->prepared[s->n_prepared++] = text;
    }
    return r;
}

static int take_rows(const PGresult *result, sql_row *row, void *ud)
{
    int n_cells = PQnfields(result);
    int r = 0;

    assert(n_cells <= (int)SQL_CELLS_MAX);
    for (int i = 0; row && i < PQntuples(result) && r == 0; i++) {
        const char *cells[SQL_CELLS_MAX];

        for (int k = 0; k < n_cells; k++) {
            cells[k] = PQgetisnull(result, i, k) ? NULL : PQgetvalue(result, i, k);
        }
        r = row(ud, cells);
    }
    return r;
}

static const struct sql_ops ops;

/* A server that was started again is seen by the first transaction that fails to begin. */
static int begin(struct postgres *s, const char *text, struct fn_error *reterr)
{
    int r = refresh(s, reterr);

    if (r < 0) {
        return r;
    }
    r = finish(s, PQexec(s->conn, text), reterr);
    if (r == 0 || PQstatus(s->conn) == CONNECTION_OK) {
        return r;
    }
    r = refresh(s, reterr);
    return r < 0 ? r : finish(s, PQexec(s->conn, text), reterr);
}

/* Nothing can be prepared in a transaction that failed, and just there its end is asked for. The
 * server ends such a one by COMMIT, too, and calls that a success. */
static int command(struct postgres *s, const char *text, struct fn_error *reterr)
{
    PGresult *result = PQexec(s->conn, text);

    if (strcmp(text, "COMMIT") == 0 && PQresultStatus(result) == PGRES_COMMAND_OK &&
        strcmp(PQcmdStatus(result), "COMMIT") != 0) {
        PQclear(result);
        return err_set_http(reterr, FN_E_UNAVAILABLE, 503, FN_BLAME_PLATFORM,
                            "API1103 the store took the changes back");
    }
    return finish(s, result, reterr);
}

static int postgres_run(struct sql *sql, const char *text, const char *const *args,
                        uint32_t n_args, sql_row *row, void *ud, uint32_t *ret_changed,
                        struct fn_error *reterr)
{
    struct postgres *s = (struct postgres *)(void *)sql;
    PGresult *result;
    char name[12];
    int r;

    if (text == ops.begin_read || text == ops.begin_write) {
        return begin(s, text, reterr);
    }
    if (n_args == 0 && !row) {
        return command(s, text, reterr);
    }
    r = postgres_prepare(s, text, name, reterr);
    if (r < 0) {
        return r;
    }
    result = PQexecPrepared(s->conn, name, (int)n_args, args, NULL, NULL, 0);
    if (ret_changed) {
        *ret_changed = (uint32_t)strtoul(PQcmdTuples(result), NULL, 10);
    }
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        return finish(s, result, reterr);
    }
    r = take_rows(result, row, ud);
    PQclear(result);
    return r;
}

static void postgres_close(struct sql *sql)
{
    struct postgres *s = (struct postgres *)(void *)sql;

    PQfinish(s->conn);
    free(s);
}

static const struct sql_ops ops = {
    .run = postgres_run,
    .begin_read = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    .begin_write = "BEGIN ISOLATION LEVEL REPEATABLE READ; "
                   "LOCK TABLE schema_migrations IN EXCLUSIVE MODE",
    .has_apps = "SELECT 1 WHERE to_regclass('apps') IS NOT NULL",
    .tell = "SELECT pg_notify('" EARS_CHANNEL "', $1)",
    .close = postgres_close,
};

/* ---- opening --------------------------------------------------------------------------------- */

PGconn *postgres_connect(const char *url)
{
    /* What the URL says comes last, and counts. */
    static const char *const keys[] = { "application_name", "connect_timeout", "tcp_user_timeout",
                                        "dbname", NULL };
    const char *const values[] = { "fnd", CONNECT_S, SILENCE_MS, url, NULL };

    return PQconnectdbParams(keys, values, 1);
}

int postgres_open(const char *url, struct sql **ret, struct fn_error *reterr)
{
    struct postgres *s = calloc(1, sizeof(*s));
    int r;

    if (!s) {
        return err_set(reterr, FN_E_EXHAUSTED, "API1105 store: out of memory");
    }
    s->sql.ops = &ops;
    s->conn = postgres_connect(url);
    r = connected(s, NULL);
    r = r < 0 ? r : finish(s, PQexec(s->conn, first_table), NULL);
    if (r < 0) {
        err_set(reterr, r, "API1105 store: the database cannot be used: %.*s",
                line_len(PQerrorMessage(s->conn)), PQerrorMessage(s->conn));
        postgres_close(&s->sql);
        return r;
    }
    *ret = &s->sql;
    return 0;
}

const char *postgres_place(const char *url)
{
    const char *begin = strstr(url, "://") + 3;
    const char *end = begin + strcspn(begin, "@/");

    return *end == '@' ? end + 1 : begin;
}

/* libpq's words for what it does not take have parts of the URL in them. An '@' behind the place
 * where it begins is from a password with '/' or '@', whose rest libpq takes for host and database
 * and would tell as such later. */
int postgres_check(const char *url, struct fn_error *reterr)
{
    const char *place = postgres_place(url);
    size_t len = strcspn(place, "?");
    PQconninfoOption *options = memchr(place, '@', len) ? NULL : PQconninfoParse(url, NULL);

    if (!options) {
        return err_set(reterr, FN_E_INVALID,
                       "a URL that libpq takes, with special characters of user and password as "
                       "%%XX and no settings but its own");
    }
    PQconninfoFree(options);
    return 0;
}
