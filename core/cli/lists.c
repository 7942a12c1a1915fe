/* `fnd calls`, `fnd containers`, `fnd peers`: what a running node has now, as a table. */
#include <base/utf8.h>
#include <cli/cli.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 8
#define ROWS_MAX    10000 /* that a node tells at a time */

struct column {
    const char *title;
    const char *key; /* "age_ms" is written as a span */
};

static const struct list {
    const char *name;
    const char *none; /* what an empty list means to whoever asked */
    struct column columns[COLUMNS_MAX]; /* title NULL ends */
} lists[] = {
    { "calls", "",
      { { "CALL", "call_id" }, { "SIDE", "side" }, { "STATE", "state" }, { "AGE", "age_ms" },
        { "AT", "at" }, { "FUNCTION", "fn_id" }, { "APP", "app_id" },
        { "WAITS FOR", "waits_for" } } },
    { "containers", "",
      { { "CONTAINER", "container_id" }, { "STATE", "state" }, { "AGE", "age_ms" },
        { "FUNCTION", "fn_id" }, { "APP", "app_id" }, { "CALL", "call_id" }, { "IMAGE", "image" },
        { "WAITS FOR", "waits_for" } } },
    { "peers", ": this node connects to no other one",
      { { "PEER", "address" }, { "STATE", "state" }, { "SINCE", "age_ms" },
        { "WAITS FOR", "waits_for" }, { "WHY", "why" }, { "LABELS", "labels" } } },
};

const char *cli_span(long long ms, char ret[CLI_CELL_MAX])
{
    if (ms < 1000) {
        snprintf(ret, CLI_CELL_MAX, "%lld ms", ms);
    } else if (ms < 120000) {
        snprintf(ret, CLI_CELL_MAX, "%lld.%lld s", ms / 1000, ms % 1000 / 100);
    } else if (ms < 7200000) {
        snprintf(ret, CLI_CELL_MAX, "%lld min", ms / 60000);
    } else {
        snprintf(ret, CLI_CELL_MAX, "%lld h", ms / 3600000);
    }
    return ret;
}

const char *cli_plain(const char *text, char ret[CLI_CELL_MAX])
{
    const char *end = text + strlen(text);
    char *at = ret;
    uint32_t n;
    bool plain;

    for (; text < end; text += n) {
        n = utf8_next(text, end, &plain);
        if (at + n >= ret + CLI_CELL_MAX) {
            break;
        }
        memcpy(at, plain ? text : "?", plain ? n : 1);
        at += plain ? n : 1;
    }
    *at = '\0';
    return ret;
}

static const char *cell(const json_t *row, const char *key, char ret[CLI_CELL_MAX])
{
    const json_t *v = json_object_get(row, key);

    if (strcmp(key, "at") == 0) { /* where it is: a load balancer's runner, a runner's container */
        v = json_object_get(row, "runner");
        v = v ? v : json_object_get(row, "container_id");
    }
    if (json_is_integer(v)) {
        return cli_span((long long)json_integer_value(v), ret);
    }
    return json_is_string(v) ? cli_plain(json_string_value(v), ret) : "-";
}

/* Of a row, or of NULL the title. */
static const char *cell_or_title(const struct column *c, const json_t *row,
                                 char ret[CLI_CELL_MAX])
{
    return row ? cell(row, c->key, ret) : c->title;
}

static uint32_t columns_of(const struct list *l)
{
    uint32_t n = 0;

    while (n < COLUMNS_MAX && l->columns[n].title) {
        n++;
    }
    return n;
}

/* The first line has no row. */
static void print_rows(const struct list *l, const json_t *rows)
{
    const size_t lines = json_array_size(rows) + 1;
    const uint32_t n = columns_of(l);
    int widths[COLUMNS_MAX] = { 0 };
    char text[CLI_CELL_MAX];

    for (size_t k = 0; k < lines; k++) {
        for (uint32_t i = 0; i < n; i++) {
            const json_t *row = k ? json_array_get(rows, k - 1) : NULL;
            int len = (int)strlen(cell_or_title(&l->columns[i], row, text));

            widths[i] = len > widths[i] ? len : widths[i];
        }
    }
    widths[n - 1] = 0;
    for (size_t k = 0; k < lines; k++) {
        for (uint32_t i = 0; i < n; i++) {
            const json_t *row = k ? json_array_get(rows, k - 1) : NULL;

            printf("%-*s%s", widths[i], cell_or_title(&l->columns[i], row, text),
                   i + 1 < n ? "  " : "\n");
        }
    }
}

/* The answer has the list's name. */
static void lists_print(const json_t *root)
{
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const json_t *rows = json_object_get(root, lists[i].name);

        if (rows && json_array_size(rows) == 0) {
            printf("no %s%s\n", lists[i].name, lists[i].none);
        } else if (rows) {
            print_rows(&lists[i], rows);
        }
    }
    if (json_is_true(json_object_get(root, "more"))) {
        printf("and more: --at-most, up to %d\n", ROWS_MAX);
    }
}

int cli_list(const struct cli_options *o)
{
    const char *most = o->at_most;
    char *end = NULL;
    unsigned long n = most ? strtoul(most, &end, 10) : 1;
    char path[64];

    if (most && (most[0] < '0' || most[0] > '9' || *end || n < 1 || n > ROWS_MAX)) {
        fprintf(stderr, "fnd: --at-most, got %s; expected 1 to %d\n", conf_quote(most), ROWS_MAX);
        return EXIT_USAGE;
    }
    snprintf(path, sizeof(path), "/%s%s%.16s", o->command, most ? "?limit=" : "", most ? most : "");
    return cli_show(o, "GET", path, lists_print);
}
