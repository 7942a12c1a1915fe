/* `fnd calls`, `fnd containers`, `fnd peers`: what a running node has now, as a table. */
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

static const struct column call_columns[] = {
    { "CALL", "call_id" },   { "SIDE", "side" }, { "STATE", "state" },
    { "AGE", "age_ms" },     { "AT", "at" },     { "FUNCTION", "fn_id" },
    { "APP", "app_id" },     { "WAITS FOR", "waits_for" },
};
static const struct column container_columns[] = {
    { "CONTAINER", "container_id" }, { "STATE", "state" }, { "AGE", "age_ms" },
    { "FUNCTION", "fn_id" },         { "APP", "app_id" },  { "CALL", "call_id" },
    { "IMAGE", "image" },            { "WAITS FOR", "waits_for" },
};
static const struct column peer_columns[] = {
    { "PEER", "address" },
    { "STATE", "state" },
    { "SINCE", "age_ms" },
    { "WAITS FOR", "waits_for" },
    { "WHY", "why" },
    { "LABELS", "labels" },
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
    size_t n = 0;

    for (; text[n] && n < CLI_CELL_MAX - 1; n++) {
        ret[n] = (unsigned char)text[n] < ' ' || text[n] == 0x7f ? '?' : text[n];
    }
    ret[n] = '\0';
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

static void print_line(const struct column *columns, size_t n, const int *widths, const json_t *row)
{
    char text[CLI_CELL_MAX];

    for (size_t i = 0; i < n; i++) {
        const char *s = row ? cell(row, columns[i].key, text) : columns[i].title;

        if (i + 1 < n) {
            printf("%-*s  ", widths[i], s);
        } else {
            printf("%s\n", s);
        }
    }
}

static void print_rows(const json_t *rows, const struct column *columns, size_t n)
{
    int widths[COLUMNS_MAX];
    char text[CLI_CELL_MAX];
    json_t *row;
    size_t k;

    for (size_t i = 0; i < n; i++) {
        widths[i] = (int)strlen(columns[i].title);
        json_array_foreach((json_t *)(uintptr_t)rows, k, row)
        {
            int len = (int)strlen(cell(row, columns[i].key, text));

            widths[i] = len > widths[i] ? len : widths[i];
        }
    }
    print_line(columns, n, widths, NULL);
    json_array_foreach((json_t *)(uintptr_t)rows, k, row)
    {
        print_line(columns, n, widths, row);
    }
}

/* none: what an empty list means to whoever asked. */
static void print_answer(const json_t *root, const char *name, const char *none,
                         const struct column *columns, size_t n)
{
    const json_t *rows = json_object_get(root, name);

    if (json_array_size(rows) == 0) {
        printf("no %s%s\n", name, none);
        return;
    }
    print_rows(rows, columns, n);
    if (json_is_true(json_object_get(root, "more"))) {
        printf("and more: --at-most, up to %d\n", ROWS_MAX);
    }
}

static int check_at_most(const char *text)
{
    char *end = NULL;
    unsigned long n = text ? strtoul(text, &end, 10) : 1;

    if (!text || (text[0] >= '0' && text[0] <= '9' && !*end && n >= 1 && n <= ROWS_MAX)) {
        return EXIT_OK;
    }
    fprintf(stderr, "fnd: --at-most, got %s; expected 1 to %d\n", conf_quote(text), ROWS_MAX);
    return EXIT_USAGE;
}

static int list(const struct cli_options *o, const char *name, const char *none,
                const struct column *columns, size_t n)
{
    json_t *root;
    char path[64];
    int r;

    if (check_at_most(o->at_most) != EXIT_OK) {
        return EXIT_USAGE;
    }
    snprintf(path, sizeof(path), "/%s%s%.16s", name, o->at_most ? "?limit=" : "",
             o->at_most ? o->at_most : "");
    r = cli_ask(o, "GET", path, &root);
    if (r != EXIT_OK) {
        return r;
    }
    if (o->json) {
        r = cli_print_json(root);
    } else {
        print_answer(root, name, none, columns, n);
        r = cli_written(EXIT_OK);
    }
    json_decref(root);
    return r;
}

#define LIST(o, name, none, columns)                                                               \
    list(o, name, none, columns, sizeof(columns) / sizeof((columns)[0]))

int cli_calls(const struct cli_options *o, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return LIST(o, "calls", "", call_columns);
}

int cli_containers(const struct cli_options *o, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return LIST(o, "containers", "", container_columns);
}

int cli_peers(const struct cli_options *o, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return LIST(o, "peers", ": this node connects to no other one", peer_columns);
}
