/* `fnd top`: what the operator's page shows (core/page), in a terminal.
 *
 * Each second it asks the node for its status and for one table, and draws both. Rates are
 * differences of two statuses. Rows come with the heaviest first; how many there are is the
 * node's to say. */
#include <cli/cli.h>
#include <http/fetch.h>

#include <curses.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ASK_MS     2000
#define EVERY_MS   1000
#define COLUMNS    8u
#define ROWS_MAX   200 /* that the node gives at a time */
#define TABLE_TOP  5   /* lines above it */
#define LINE       256

enum unit { UNIT_TEXT, UNIT_COUNT, UNIT_MS, UNIT_US, UNIT_MB };

struct top_column {
    const char *title, *key;
    enum unit unit;
};

struct top_view {
    char key; /* that shows it */
    const char *table;
    struct top_column columns[COLUMNS];
};

static const struct top_view views[] = {
    { 'f', "functions",
      { { "FUNCTION", "name", UNIT_TEXT }, { "ID", "fn_id", UNIT_TEXT },
        { "PER HOUR", "per_hour", UNIT_COUNT }, { "FAILED", "failed", UNIT_COUNT },
        { "COLD", "cold", UNIT_COUNT }, { "P50", "p50_us", UNIT_US },
        { "P95", "p95_us", UNIT_US }, { "P99", "p99_us", UNIT_US } } },
    { 'r', "runners",
      { { "RUNNER", "address", UNIT_TEXT }, { "STATE", "state", UNIT_TEXT },
        { "CALLS", "calls", UNIT_COUNT }, { "CAPACITY", "capacity_mb", UNIT_MB },
        { "GROUP", "group", UNIT_TEXT }, { "LABELS", "labels", UNIT_TEXT } } },
    { 'c', "calls",
      { { "CALL", "call_id", UNIT_TEXT }, { "STATE", "state", UNIT_TEXT },
        { "AGE", "age_ms", UNIT_MS }, { "FUNCTION", "fn_id", UNIT_TEXT },
        { "RUNNER", "runner", UNIT_TEXT }, { "WAITS FOR", "waits_for", UNIT_TEXT } } },
    { 'h', "containers",
      { { "CONTAINER", "container_id", UNIT_TEXT }, { "STATE", "state", UNIT_TEXT },
        { "AGE", "age_ms", UNIT_MS }, { "MEMORY", "mem_mb", UNIT_MB },
        { "FUNCTION", "fn_id", UNIT_TEXT }, { "WAITS FOR", "waits_for", UNIT_TEXT } } },
    { 'e', "errors",
      { { "CALL", "call_id", UNIT_TEXT }, { "OUTCOME", "outcome", UNIT_TEXT },
        { "STATUS", "status", UNIT_COUNT }, { "FUNCTION", "fn_id", UNIT_TEXT },
        { "ERROR", "error", UNIT_TEXT } } },
    { 'p', "peers",
      { { "PEER", "address", UNIT_TEXT }, { "STATE", "state", UNIT_TEXT },
        { "SINCE", "age_ms", UNIT_MS }, { "WHY", "why", UNIT_TEXT } } },
};
#define VIEWS (sizeof(views) / sizeof(views[0]))

struct top {
    struct fetch_client *client;
    const struct top_view *view;
    json_t *status, *before; /* of the second before; NULL: none */
    int64_t asked_ms, before_ms;
    json_t *table;
    int first; /* row on the screen */
    char said[LINE]; /* instead of the table */
};

static int64_t clock_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Given; NULL: what was said instead is in t->said. */
static json_t *top_ask(struct top *t, const char *path)
{
    struct fn_error e = ERR_INIT;
    struct buf body = BUF_INIT(0);
    json_t *root = NULL;
    int status = 0;

    if (fetch_client_ask(t->client, "GET", path, NULL, ASK_MS, &status, &body, &e) < 0) {
        snprintf(t->said, sizeof(t->said), "%s", e.msg);
    } else {
        root = json_loadb(body.data, body.len, 0, NULL);
    }
    if (root && status != 200) {
        snprintf(t->said, sizeof(t->said), "%s", cli_text(root, "message", "the node refused"));
        json_decref(root);
        root = NULL;
    }
    buf_finish(&body);
    return root;
}

static void refresh_figures(struct top *t)
{
    char path[64];

    t->said[0] = '\0';
    json_decref(t->before);
    t->before = t->status;
    t->before_ms = t->asked_ms;
    t->status = top_ask(t, "/admin/status");
    t->asked_ms = clock_ms();
    json_decref(t->table);
    snprintf(path, sizeof(path), "/tables/%s?n=%d", t->view->table, ROWS_MAX);
    t->table = t->status ? top_ask(t, path) : NULL;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static long long member(const json_t *root, const char *side, const char *key)
{
    return cli_number(json_object_get(root, side), key);
}

static double rate(const struct top *t, const char *side, const char *key)
{
    int64_t ms = t->asked_ms - t->before_ms;
    long long more = member(t->status, side, key) - member(t->before, side, key);

    return t->before && ms > 0 && more > 0 ? (double)more * 1000 / (double)ms : 0;
}

/* Whatever does not fit is left out. */
static void put(int line, const char *text, int attributes)
{
    attrset(attributes);
    mvaddnstr(line, 0, text, COLS);
    attrset(A_NORMAL);
}

static void draw_head(const struct top *t)
{
    char text[LINE], age[CLI_CELL_MAX];

    snprintf(text, sizeof(text), "fnd %s %s  %s for %s, generation %lld",
             cli_text(t->status, "node", "?"), cli_text(t->status, "http", ""),
             cli_text(t->status, "state", "does not answer"),
             cli_span(cli_number(t->status, "uptime_s") * 1000, age),
             cli_number(t->status, "generation"));
    put(0, text, A_BOLD);
}

static void draw_side(const struct top *t, int line, const char *side, const char *what)
{
    char text[LINE];

    if (!json_object_get(json_object_get(t->status, side), "received")) {
        return;
    }
    snprintf(text, sizeof(text),
             "%-8s %7.1f calls/s   ok %.1f  failed %.1f  refused %.1f  unknown %.1f   in flight "
             "%lld  waiting %lld   %s %lld", what, rate(t, side, "received"), rate(t, side, "ok"),
             rate(t, side, "failed"), rate(t, side, "not_executed"), rate(t, side, "unknown"),
             member(t->status, side, "in_flight"), member(t->status, side, "waiting"),
             strcmp(side, "lb") == 0 ? "runners up" : "containers",
             member(t->status, side, strcmp(side, "lb") == 0 ? "runners_up" : "containers"));
    put(line, text, A_NORMAL);
}

static size_t find_column(const json_t *names, const char *key)
{
    const json_t *name;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)names, i, name) {
        if (strcmp(json_string_value(name), key) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

static void cell_of(const json_t *v, enum unit unit, char ret[CLI_CELL_MAX])
{
    long long n = json_integer_value(v);

    if (!v || json_is_null(v)) {
        snprintf(ret, CLI_CELL_MAX, "-");
    } else if (json_is_string(v)) {
        cli_plain(json_string_value(v), ret);
    } else if (unit == UNIT_MS) {
        cli_span(n, ret);
    } else if (unit == UNIT_US) {
        snprintf(ret, CLI_CELL_MAX, "%lld.%lld ms", n / 1000, n % 1000 / 100);
    } else {
        snprintf(ret, CLI_CELL_MAX, unit == UNIT_MB ? "%lld MB" : "%lld", n);
    }
}

/* What the view shows of a row, in text; its lengths raise widths. */
static void row_cells(const struct top_view *v, const json_t *names, const json_t *row,
                      char cells[COLUMNS][CLI_CELL_MAX], int widths[COLUMNS])
{
    for (uint32_t i = 0; i < COLUMNS && v->columns[i].title; i++) {
        size_t at = find_column(names, v->columns[i].key);

        cell_of(at == SIZE_MAX ? NULL : json_array_get(row, at), v->columns[i].unit, cells[i]);
        if ((int)strlen(cells[i]) > widths[i]) {
            widths[i] = (int)strlen(cells[i]);
        }
    }
}

static void draw_row(int line, const struct top_view *v, char cells[COLUMNS][CLI_CELL_MAX],
                     const int widths[COLUMNS], int attributes)
{
    char text[COLUMNS * (CLI_CELL_MAX + 2) + 1] = "";
    size_t n = 0;

    for (uint32_t i = 0; i < COLUMNS && v->columns[i].title; i++) {
        bool number = v->columns[i].unit != UNIT_TEXT;

        n += (size_t)snprintf(text + n, sizeof(text) - n, number ? "%*s  " : "%-*s  ", widths[i],
                              cells ? cells[i] : v->columns[i].title);
    }
    put(line, text, attributes);
}

static void draw_table(struct top *t)
{
    const json_t *names = json_object_get(t->table, "columns");
    const json_t *rows = json_object_get(t->table, "rows");
    int n = (int)json_array_size(rows), fit = LINES - TABLE_TOP - 2;
    char cells[COLUMNS][CLI_CELL_MAX];
    int widths[COLUMNS] = { 0 };

    t->first = t->first > n - fit ? n - fit : t->first;
    t->first = t->first < 0 ? 0 : t->first;
    for (uint32_t i = 0; i < COLUMNS && t->view->columns[i].title; i++) {
        widths[i] = (int)strlen(t->view->columns[i].title);
    }
    for (int i = t->first; i < n && i < t->first + fit; i++) {
        row_cells(t->view, names, json_array_get(rows, (size_t)i), cells, widths);
    }
    draw_row(TABLE_TOP, t->view, NULL, widths, A_REVERSE);
    for (int i = t->first; i < n && i < t->first + fit; i++) {
        row_cells(t->view, names, json_array_get(rows, (size_t)i), cells, widths);
        draw_row(TABLE_TOP + 1 + i - t->first, t->view, cells, widths, A_NORMAL);
    }
}

static void draw_keys(const struct top *t)
{
    char text[LINE];
    size_t n = 0;

    for (size_t i = 0; i < VIEWS; i++) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%c %s%s  ",
                              &views[i] == t->view ? "[" : " ", views[i].key, views[i].table,
                              &views[i] == t->view ? "]" : " ");
    }
    snprintf(text + n, sizeof(text) - n, " up, down: rows   q: end");
    put(LINES - 1, text, A_DIM);
}

static void draw(struct top *t)
{
    erase();
    if (t->status) {
        draw_head(t);
        draw_side(t, 2, "lb", "calls");
        draw_side(t, 3, "runner", "runs");
    }
    if (t->said[0]) {
        put(TABLE_TOP, t->said, A_BOLD);
    } else {
        draw_table(t);
    }
    draw_keys(t);
    refresh();
}

/* ---- keys ------------------------------------------------------------------------------------ */

static const struct top_view *view_of(int key)
{
    for (size_t i = 0; i < VIEWS; i++) {
        if (key == views[i].key) {
            return &views[i];
        }
    }
    return NULL;
}

/* False: end. */
static bool top_key(struct top *t, int key)
{
    const int page = LINES - TABLE_TOP - 2;

    if (view_of(key)) {
        t->view = view_of(key);
        t->first = 0;
    }
    t->first += key == KEY_DOWN ? 1 : key == KEY_UP ? -1 : 0;
    t->first += key == KEY_NPAGE ? page : key == KEY_PPAGE ? -page : 0;
    return key != 'q';
}

static volatile sig_atomic_t ended_by; /* a signal; 0: none */

static void on_end(int signal)
{
    ended_by = signal;
}

/* Before ncurses sets its own, which ends with a code that says nothing. Once: a second one does
 * not wait for the node's answer. */
static void catch_ends(void)
{
    const struct sigaction end = { .sa_handler = on_end, .sa_flags = SA_RESETHAND };

    sigaction(SIGINT, &end, NULL);
    sigaction(SIGTERM, &end, NULL);
}

/* False: ncurses does not know this terminal; initscr() would end the process over it. */
static bool top_run(struct top *t)
{
    SCREEN *screen;
    int key = ERR;

    setlocale(LC_ALL, "");
    catch_ends();
    screen = newterm(NULL, stdout, stdin);
    if (!screen) {
        return false;
    }
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    timeout(EVERY_MS);
    do {
        if (key == ERR || view_of(key)) {
            refresh_figures(t);
        }
        draw(t);
        key = getch();
    } while (!ended_by && top_key(t, key));
    endwin();
    delscreen(screen);
    if (ended_by) {
        raise(ended_by); /* its handler is gone */
    }
    return true;
}

/* A client of the page that `GET /page` named. */
static int connect_page(const json_t *page, struct fetch_client **ret, struct fn_error *reterr)
{
    const char *token = cli_text(page, "token", NULL);
    const char *url = cli_text(page, "url", NULL);
    char base[LINE];
    int r;

    if (!url || !token || strncmp(url, "http://", strlen("http://")) != 0) {
        return err_set(reterr, FN_E_UNAVAILABLE,
                       "top, got the page %s; expected one without TLS, on the loopback",
                       url ? url : "(none)");
    }
    snprintf(base, sizeof(base), "http://%.*s", (int)strcspn(url + strlen("http://"), "/"),
             url + strlen("http://"));
    r = fetch_client_create(NULL, base, ret, reterr);
    return r < 0 ? r : fetch_client_set_token(*ret, token);
}

int cli_top(const struct cli_options *o)
{
    struct top t = { .view = views };
    struct fn_error e = ERR_INIT;
    json_t *page = NULL;
    int r;

    if (!isatty(STDOUT_FILENO)) {
        fprintf(stderr, "fnd: top needs a terminal; programs read fnd status --json\n");
        return EXIT_USAGE;
    }
    r = cli_ask(o, "GET", "/page", &page);
    if (r != EXIT_OK) {
        return r;
    }
    r = connect_page(page, &t.client, &e);
    if (r == 0 && !top_run(&t)) {
        r = err_set(&e, FN_E_UNAVAILABLE, "top, got the terminal %s; expected one that terminfo "
                    "knows, in TERM", conf_quote(getenv("TERM") ? getenv("TERM") : ""));
    }
    if (r < 0) {
        fprintf(stderr, "fnd: %s\n", e.msg);
    }
    json_decref(page);
    json_decref(t.status);
    json_decref(t.before);
    json_decref(t.table);
    fetch_client_destroy(t.client);
    return r < 0 ? EXIT_UNAVAILABLE : EXIT_OK;
}
