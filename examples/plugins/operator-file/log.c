/* log_file: what functions print, a row for each line: milliseconds, app, function, container,
 * call, stream, text, "-" for what is unknown. Readers are known by a number of the file and the
 * place of their next row in it. */
#include "operator.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BACK_MAX (16 << 20) /* bytes of log_file that are looked through for a new reader */

/* ---- rows are written ------------------------------------------------------------------------ */

static const char *word(const char *id)
{
    return *id ? id : "-";
}

/* Milliseconds, app, function, container, call, stream, line: the bytes of a line but those that
 * would end it. */
static bool write_line(FILE *f, const struct fn_log_line *l)
{
    bool good = fprintf(f, "%lld %s %s %s %s %s ", (long long)l->wall_ms, word(l->app_id),
                        word(l->fn_id), word(l->container_id), word(l->call_id),
                        l->fd == 2 ? "err" : "out") > 0;

    for (uint64_t i = 0; i < l->len && good; i++) {
        char c = l->data[i];

        good = fputc(c == '\n' || c == '\0' ? '?' : c, f) != EOF;
    }
    return good && fputc('\n', f) != EOF;
}

int put_log(void *inst, struct fn_op *op, const struct fn_log_line *const *lines, uint32_t n,
            struct fn_error *reterr)
{
    const struct operator *o = inst;
    FILE *f = o->conf->log_file ? fopen(o->conf->log_file, "ae") : NULL;
    bool good = f != NULL;

    (void)op;
    if (!o->conf->log_file) {
        return 0;
    }
    for (uint32_t i = 0; i < n && good; i++) {
        good = write_line(f, lines[i]);
    }
    if (f) {
        good = fclose(f) == 0 && good;
    }
    return good ? 0
                : fail(reterr, FN_E_UNAVAILABLE, 0, "log_file %.100s: %s", o->conf->log_file,
                       strerror(errno));
}

/* ---- rows are read --------------------------------------------------------------------------- */

/* Cuts the next word off; "-" stands for "". NULL: there is none. */
static char *next_word(char **row)
{
    char *w = *row;
    char *end = strchr(w, ' ');

    if (!end || end - w > 255) {
        return NULL;
    }
    *end = '\0';
    *row = end + 1;
    return strcmp(w, "-") == 0 ? end : w;
}

/* A row of log_file, of len bytes; false: it is none. */
static bool read_line(char *row, struct fn_log_line *ret)
{
    char *at = row, *ms = next_word(&at), *app = ms ? next_word(&at) : NULL,
         *fn = app ? next_word(&at) : NULL, *ctr = fn ? next_word(&at) : NULL,
         *call = ctr ? next_word(&at) : NULL, *fd = call ? next_word(&at) : NULL;

    if (!fd || (strcmp(fd, "out") != 0 && strcmp(fd, "err") != 0) ||
        strlen(at) > FN_OPERATOR_LINE_MAX) {
        return false;
    }
    *ret = (struct fn_log_line){ .size = sizeof(*ret), .fd = fd[0] == 'e' ? 2 : 1,
                                 .wall_ms = strtoll(ms, NULL, 10), .app_id = app, .fn_id = fn,
                                 .container_id = ctr, .call_id = call, .data = at,
                                 .len = strlen(at) };
    return true;
}

/* A whole row without its newline. false: there is none (yet). One that is too long is "". */
static bool read_row(FILE *f, char row[ROW_MAX])
{
    size_t len;
    int c = 0;

    if (!fgets(row, ROW_MAX, f)) {
        return false;
    }
    len = strlen(row);
    if (len > 0 && row[len - 1] == '\n') {
        row[len - 1] = '\0';
        return true;
    }
    while (c != '\n' && c != EOF) {
        c = getc(f);
    }
    row[0] = '\0';
    return c == '\n';
}

static bool is_of(const char *wanted, const char *id)
{
    return !wanted || strcmp(wanted, id) == 0;
}

static bool is_wanted(const struct fn_log_query *q, const struct fn_log_line *l)
{
    return l->wall_ms >= q->since_ms && is_of(q->app_id, l->app_id) && is_of(q->fn_id, l->fn_id) &&
           is_of(q->container_id, l->container_id) && is_of(q->call_id, l->call_id);
}

/* Goes over wanted lines, `most` of them. -> how many there were */
static uint64_t pass(FILE *f, const struct fn_log_query *q, uint64_t most)
{
    struct fn_log_line line;
    char row[ROW_MAX];
    uint64_t n = 0;

    while (n < most && read_row(f, row)) {
        n += read_line(row, &line) && is_wanted(q, &line);
    }
    return n;
}

/* To the beginning of the first row at or behind a place. */
static void seek_row(FILE *f, long at)
{
    char row[ROW_MAX];

    fseek(f, at > 0 ? at - 1 : 0, SEEK_SET);
    if (at > 0) {
        read_row(f, row);
    }
}

/* Where a new reader begins: `tail` wanted lines before the end. */
static void seek_tail(FILE *f, const struct fn_log_query *q, long size)
{
    long back = size > BACK_MAX ? size - BACK_MAX : 0;
    uint64_t n;

    seek_row(f, back);
    if (q->tail != UINT64_MAX) {
        n = pass(f, q, UINT64_MAX);
        seek_row(f, back);
        pass(f, q, n > q->tail ? n - q->tail : 0);
    }
}

/* The place in the file, below a number of the file: one that was moved away has another. */
static uint64_t cursor_of(const struct stat *st, long at)
{
    return ((uint64_t)st->st_ino % 0xffff + 1) << 48 | (uint64_t)at;
}

/* A file that is new to the reader is read from its beginning. */
static void seek_reader(FILE *f, const struct fn_log_query *q, uint64_t cursor,
                        const struct stat *st)
{
    long at = (long)(cursor & 0xffffffffffff);

    if (cursor == 0) {
        seek_tail(f, q, (long)st->st_size);
    } else {
        seek_row(f, cursor == cursor_of(st, at) && at <= st->st_size ? at : 0);
    }
}

/* *ret_f NULL: no line was written yet. */
static int open_log(const struct operator *o, FILE **ret_f, struct stat *st,
                    struct fn_error *reterr)
{
    const char *path = o->conf->log_file;
    FILE *f = path ? fopen(path, "re") : NULL;
    int r = 0;

    if (!path) {
        r = fail(reterr, FN_E_INVALID, 0, "operator/file: without a log_file there are no lines");
    } else if (!f ? errno != ENOENT : fstat(fileno(f), st) < 0) {
        r = fail(reterr, FN_E_UNAVAILABLE, 0, "log_file %.100s: %s", path, strerror(errno));
    }
    if (f && r < 0) {
        fclose(f);
        f = NULL;
    }
    *ret_f = f;
    return r;
}

static uint32_t read_lines(struct operator *o, FILE *f, const struct fn_log_query *q, long *ret_at)
{
    uint32_t n = 0;

    while (n < FN_OPERATOR_LINES_MAX && read_row(f, o->rows[n])) {
        *ret_at = ftell(f);
        o->list[n] = &o->lines[n];
        n += read_line(o->rows[n], &o->lines[n]) && is_wanted(q, &o->lines[n]);
    }
    return n;
}

int read_log(void *inst, struct fn_op *op, const struct fn_log_query *q, uint64_t *cursor,
             const struct fn_log_line *const **ret_lines, uint32_t *ret_n, struct fn_error *reterr)
{
    struct operator *o = inst;
    struct stat st;
    FILE *f;
    long at;
    int r;

    (void)op;
    r = open_log(o, &f, &st, reterr);
    if (r < 0) {
        return r;
    }
    *ret_n = 0;
    if (!f) {
        return 0;
    }
    seek_reader(f, q, *cursor, &st);
    at = ftell(f);
    *ret_n = read_lines(o, f, q, &at);
    *ret_lines = o->list;
    *cursor = cursor_of(&st, at);
    fclose(f);
    return 0;
}
