/* `fnd logs`: what a function prints.
 *
 * The node's rows (core/node/log_pages.c) come from several runners. Those up to the mark are its
 * history: they are put in the order of their times, and the last ones are shown; what follows is
 * shown as it comes. */
#include <admin/admin.h>
#include <base/utf8.h>
#include <cli/cli.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINES_DEFAULT 1000u
#define LINES_MAX     100000u
#define SPARE         1000u   /* rows above what is shown, before they are sorted out */
#define ROW_MAX       (1u << 20)
#define CALL_SHORT    8       /* characters of a call id: its end differs */
#define NAME_CHARS    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-/"

struct log_view {
    const struct cli_options *o;
    const char *what;
    uint32_t most; /* lines of the history */
    json_t **rows; /* of the history, in order of arrival */
    uint32_t rows_n;
    struct buf part; /* of a row */
    bool live;
    bool failed;     /* the node refused */
    uint32_t errors, shown;
};

/* ---- one row --------------------------------------------------------------------------------- */

static const char *row_text(const json_t *row, const char *key)
{
    return cli_text(row, key, "");
}

static long long row_time(const json_t *row)
{
    return cli_number(row, "time_ms");
}

/* A terminal obeys control characters, and functions choose them. */
static void put_plain(const char *text)
{
    const char *end = text + strlen(text);
    uint32_t n;
    bool plain;

    for (; text < end; text += n) {
        n = utf8_next(text, end, &plain);
        if (plain || *text == '\t') {
            fwrite(text, 1, n, stdout);
        } else {
            putchar('?');
        }
    }
}

static void put_time(long long ms)
{
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    char text[32];

    gmtime_r(&s, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    printf("%s.%03lldZ", text, ms % 1000);
}

static void show_plain(const json_t *row)
{
    const char *call = row_text(row, "call_id");
    size_t len = strlen(call);
    const char *end = len > CALL_SHORT ? call + len - CALL_SHORT : call;

    put_time(row_time(row));
    printf("  %-*s  %s  ", CALL_SHORT, len ? end : "-",
           json_object_get(row, "lost")                     ? "!! "
           : strcmp(row_text(row, "stream"), "stderr") == 0 ? "err"
                                                            : "out");
    put_plain(row_text(row, "line"));
}

static void show(struct log_view *v, const json_t *row)
{
    v->shown++;
    if (v->o->json) {
        json_dumpf(row, stdout, JSON_COMPACT);
    } else {
        show_plain(row);
    }
    putchar('\n');
}

/* ---- the history ----------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    long long x = row_time(*(json_t *const *)a), y = row_time(*(json_t *const *)b);

    return x < y ? -1 : x > y;
}

/* Rows of one time stay as they came: qsort() of the C library merges where there is memory. */
static void keep_last(struct log_view *v)
{
    uint32_t drop = v->rows_n > v->most ? v->rows_n - v->most : 0;

    qsort(v->rows, v->rows_n, sizeof(*v->rows), by_time);
    for (uint32_t i = 0; i < drop; i++) {
        json_decref(v->rows[i]);
    }
    v->rows_n -= drop;
    memmove(v->rows, v->rows + drop, v->rows_n * sizeof(*v->rows));
}

static void show_history(struct log_view *v)
{
    keep_last(v);
    for (uint32_t i = 0; i < v->rows_n; i++) {
        show(v, v->rows[i]);
        json_decref(v->rows[i]);
    }
    v->rows_n = 0;
    v->live = true;
}

static void remember(struct log_view *v, json_t *row)
{
    v->rows[v->rows_n++] = json_incref(row);
    if (v->rows_n == 2 * v->most + SPARE) {
        keep_last(v);
    }
}

/* ---- what comes ------------------------------------------------------------------------------ */

static void take_error(struct log_view *v, const json_t *row)
{
    const char *runner = row_text(row, "runner");

    v->errors++;
    fprintf(stderr, "fnd: runner %s: %s\n", runner[0] ? runner : "of this node",
            row_text(row, "error"));
}

static void take_row(struct log_view *v, json_t *row)
{
    if (json_object_get(row, "message")) {
        v->failed = true;
        fprintf(stderr, "fnd: %s\n", row_text(row, "message"));
    } else if (json_object_get(row, "error")) {
        take_error(v, row);
    } else if (json_object_get(row, "mark")) {
        show_history(v);
    } else if (v->live) {
        show(v, row);
    } else {
        remember(v, row);
    }
}

/* Whole lines of what has come. */
static int logs_on_data(void *ud, const char *data, size_t len)
{
    struct log_view *v = ud;
    const char *end;

    while ((end = memchr(data, '\n', len))) {
        size_t n = (size_t)(end - data);
        json_t *row = buf_add(&v->part, data, n) == 0
                          ? json_loadb(v->part.data ? v->part.data : "", v->part.len, 0, NULL)
                          : NULL;

        if (row) {
            take_row(v, row);
        }
        json_decref(row);
        buf_clear(&v->part);
        data += n + 1;
        len -= n + 1;
    }
    return fflush(stdout) == 0 ? buf_add(&v->part, data, len) : FN_E_UNAVAILABLE;
}

static int judge(const struct log_view *v)
{
    if (v->failed) {
        return EXIT_UNAVAILABLE;
    }
    if (v->o->follow || !v->live) {
        fprintf(stderr, "fnd: the node has ended its answer: it stops, or nothing was read for too "
                        "long\n");
        return EXIT_UNAVAILABLE;
    }
    if (v->shown == 0) {
        fprintf(stderr, "fnd: no output of %s is kept%s\n", v->what,
                v->errors ? " by those that answered" : "");
    }
    return v->shown == 0 && v->errors ? EXIT_UNAVAILABLE : EXIT_OK;
}

static int read_logs(struct log_view *v)
{
    char path[ADMIN_PATH_MAX + 600];
    char socket[ADMIN_PATH_MAX + 1];
    struct fn_error e = ERR_INIT;
    int r = cli_socket(v->o, socket);

    if (r != EXIT_OK) {
        return r;
    }
    snprintf(path, sizeof(path), "/logs/%.520s?follow=%d&tail=%u", v->what, v->o->follow, v->most);
    if (admin_read(socket, path, logs_on_data, v, &e) < 0) {
        fprintf(stderr, "fnd: %s\n", e.msg);
        return EXIT_UNAVAILABLE;
    }
    return judge(v);
}

static bool take_most(const struct cli_options *o, uint32_t *ret)
{
    char *end;
    unsigned long n = o->at_most ? strtoul(o->at_most, &end, 10) : LINES_DEFAULT;

    *ret = (uint32_t)n;
    return !o->at_most || (*end == '\0' && end != o->at_most && n <= LINES_MAX);
}

int cli_logs(const struct cli_options *o)
{
    struct log_view v = { .o = o, .what = o->argv[0], .part = BUF_INIT(ROW_MAX) };
    int r;

    if (!take_most(o, &v.most)) {
        fprintf(stderr, "fnd: -n, got \"%.32s\"; expected 0 to %u lines\n", o->at_most, LINES_MAX);
        return EXIT_USAGE;
    }
    if (!v.what[0] || v.what[strspn(v.what, NAME_CHARS)] || strlen(v.what) > 511) {
        fprintf(stderr, "fnd: function, got \"%.64s\"; expected APP/FUNCTION or a function's id\n",
                v.what);
        return EXIT_USAGE;
    }
    v.rows = calloc(2 * v.most + SPARE, sizeof(*v.rows));
    if (!v.rows) {
        fputs("fnd: out of memory\n", stderr);
        return EXIT_UNAVAILABLE;
    }
    r = read_logs(&v);
    while (v.rows_n > 0) {
        json_decref(v.rows[--v.rows_n]);
    }
    free(v.rows);
    buf_finish(&v.part);
    return r;
}
