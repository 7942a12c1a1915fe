/* PostgreSQL's LISTEN, on a connection of its own: nothing else uses it, so that what is heard is
 * there at once. Whoever was not connected has missed what was told meanwhile, and is told that.
 *
 * A server that vanished sends nothing, as one where nobody changes anything: after a while of
 * silence it is asked for a sign of life. */
#include <store/postgres.h>
#include <store/sql.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUIET_MS 10000

struct postgres_ears {
    struct ears ears;
    char *url;
    int wake[2]; /* a pipe; what was written stays in it */
    PGconn *conn; /* NULL: none, or one that broke */
};

/* ---- connection ------------------------------------------------------------------------------ */

static int lose(struct postgres_ears *p, struct fn_error *reterr)
{
    int r = postgres_unavailable(reterr, PQerrorMessage(p->conn));

    PQfinish(p->conn);
    p->conn = NULL;
    return r;
}

static int command_ok(struct postgres_ears *p, const char *text, struct fn_error *reterr)
{
    PGresult *result = PQexec(p->conn, text);
    ExecStatusType status = PQresultStatus(result);

    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ? 0 : lose(p, reterr);
}

static int ears_connect(struct postgres_ears *p, struct fn_error *reterr)
{
    p->conn = postgres_connect(p->url);
    if (PQstatus(p->conn) != CONNECTION_OK) {
        return lose(p, reterr);
    }
    return command_ok(p, "LISTEN " EARS_CHANNEL, reterr);
}

/* ---- hearing --------------------------------------------------------------------------------- */

/* How much was heard of what has arrived. */
static uint32_t take_told(struct postgres_ears *p, ears_heard *heard, void *ud)
{
    uint32_t n = 0;
    PGnotify *told;

    while ((told = PQnotifies(p->conn))) {
        heard(ud, told->extra);
        PQfreemem(told);
        n++;
    }
    return n;
}

/* 0: somebody woke us, or it is quiet; 1: there is something to read. */
static int look(struct postgres_ears *p, struct fn_error *reterr)
{
    struct pollfd fds[] = { { .fd = p->wake[0], .events = POLLIN },
                            { .fd = PQsocket(p->conn), .events = POLLIN } };
    int n = poll(fds, 2, QUIET_MS);

    if (n == 0) {
        return command_ok(p, "SELECT 1", reterr);
    }
    return n < 0 || fds[0].revents ? 0 : 1;
}

static int ears_wait(struct ears *ears, ears_heard *heard, void *ud, struct fn_error *reterr)
{
    struct postgres_ears *p = (struct postgres_ears *)(void *)ears;
    int r;

    if (!p->conn) {
        r = ears_connect(p, reterr);
        if (r == 0) {
            heard(ud, NULL);
        }
        return r;
    }
    if (take_told(p, heard, ud) > 0) {
        return 0;
    }
    r = look(p, reterr);
    if (r == 1) {
        r = PQconsumeInput(p->conn) ? 0 : lose(p, reterr);
    }
    if (r == 0) {
        take_told(p, heard, ud);
    }
    return r;
}

static void ears_wake(struct ears *ears)
{
    struct postgres_ears *p = (struct postgres_ears *)(void *)ears;
    ssize_t n = write(p->wake[1], "", 1);

    (void)n; /* a pipe that is full wakes as well */
}

/* ---- life ------------------------------------------------------------------------------------ */

static void ears_close(struct ears *ears)
{
    struct postgres_ears *p = (struct postgres_ears *)(void *)ears;

    PQfinish(p->conn);
    for (int i = 0; i < 2; i++) {
        if (p->wake[i] >= 0) {
            close(p->wake[i]);
        }
    }
    free(p->url);
    free(p);
}

static const struct ears_ops ops = { ears_wait, ears_wake, ears_close };

int postgres_ears_open(const char *url, struct ears **ret, struct fn_error *reterr)
{
    struct postgres_ears *p = calloc(1, sizeof(*p));

    if (!p) {
        return err_set(reterr, FN_E_EXHAUSTED, "API1105 store: out of memory");
    }
    p->ears.ops = &ops;
    p->url = strdup(url);
    p->wake[0] = p->wake[1] = -1;
    if (!p->url || pipe2(p->wake, O_CLOEXEC | O_NONBLOCK) < 0) {
        err_set(reterr, FN_E_EXHAUSTED, "API1105 store: no means to hear of changes: %s",
                strerror(errno));
        ears_close(&p->ears);
        return FN_E_EXHAUSTED;
    }
    *ret = &p->ears;
    return 0;
}
