/* Commands that ask a running node over its admin socket. */
#include <main/admin.h>
#include <main/cli.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS        5000
#define RELOAD_TIMEOUT_MS 120000 /* plugins have a deadline each */

/* --socket, or what the configuration says; its mistakes matter only when it cannot be read. */
static int find_socket(const struct cli_options *o, char ret[ADMIN_PATH_MAX + 1])
{
    struct fn_error e = ERR_INIT;
    struct conf_problems p;
    struct config *c = NULL;
    int r = CLI_CONFIG;

    if (o->socket) {
        snprintf(ret, ADMIN_PATH_MAX + 1, "%s", o->socket);
        return CLI_OK;
    }
    conf_problems_init(&p);
    config_load(o->config_path, environ, &c, &p);
    if (!config_is_complete(c)) {
        fputs(buf_text(&p.text), stderr);
    } else if (admin_socket_path(c, 0, ret, &e) < 0) {
        fprintf(stderr, "fnd: %s\n", e.msg);
    } else {
        r = CLI_OK;
    }
    conf_problems_finish(&p);
    config_destroy(c);
    return r;
}

/* The node's JSON in *ret (given) and its status, or an exit code and a sentence on standard error. */
static int ask_status(const struct cli_options *o, const char *method, const char *path,
                      int64_t timeout_ms, int *ret_status, json_t **ret)
{
    char socket[ADMIN_PATH_MAX + 1];
    struct fn_error e = ERR_INIT;
    struct buf body = BUF_INIT(0);
    int r = find_socket(o, socket);

    *ret = NULL;
    if (r != CLI_OK) {
        return r;
    }
    if (admin_call(socket, method, path, timeout_ms, ret_status, &body, &e) < 0) {
        fprintf(stderr, "fnd: %s\n", e.msg);
        buf_finish(&body);
        return CLI_UNAVAILABLE;
    }
    *ret = json_loadb(body.data, body.len, 0, NULL);
    if (!*ret) {
        fprintf(stderr, "fnd: the node's answer is not JSON\n");
        r = CLI_UNAVAILABLE;
    }
    buf_finish(&body);
    return r;
}

/* The same where only a good answer is of use. */
static int ask(const struct cli_options *o, const char *method, const char *path, json_t **ret)
{
    int status = 0;
    int r = ask_status(o, method, path, TIMEOUT_MS, &status, ret);
    json_t *message = json_object_get(*ret, "message");

    if (r == CLI_OK && status >= 300) {
        fprintf(stderr, "fnd: %s\n",
                json_is_string(message) ? json_string_value(message) : "the node refused");
        json_decref(*ret);
        *ret = NULL;
        r = CLI_UNAVAILABLE;
    }
    return r;
}

static int print_json(const json_t *root)
{
    bool good = json_dumpf(root, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF;

    return good && fflush(stdout) == 0 ? CLI_OK : CLI_UNAVAILABLE;
}

static long long number(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "-";
}

/* ---- status ---------------------------------------------------------------------------------- */

static void print_counts(const char *name, const json_t *o)
{
    const char *key;
    json_t *value;
    int n = 0;

    if (!o) {
        return;
    }
    printf("%-8s", name);
    json_object_foreach((json_t *)(uintptr_t)o, key, value)
    {
        const char *before = n++ == 0 ? " " : n % 6 == 1 ? ",\n         " : ", ";

        if (json_is_boolean(value)) {
            printf("%s%s %s", before, key, json_is_true(value) ? "yes" : "no");
        } else {
            printf("%s%s %lld", before, key, (long long)json_integer_value(value));
        }
    }
    putchar('\n');
}

static void print_status(const json_t *root)
{
    json_t *p;
    size_t i;

    printf("%-8s %s, fnd %s, %s, pid %lld, up %lld s, http %s\n", "node", text(root, "node"),
           text(root, "version"), text(root, "state"), number(root, "pid"),
           number(root, "uptime_s"), text(root, "http"));
    print_counts("lb", json_object_get(root, "lb"));
    print_counts("runner", json_object_get(root, "runner"));
    json_array_foreach(json_object_get(root, "plugins"), i, p)
    {
        printf("%-8s %s %s (%s): %lld calls, %lld over budget\n", i == 0 ? "plugins" : "",
               text(p, "kind"), text(p, "name"), text(p, "use"), number(p, "calls"),
               number(p, "budget_misses"));
    }
}

int cli_status(const struct cli_options *o, int argc, char **argv)
{
    json_t *root;
    int r = ask(o, "GET", "/status", &root);

    (void)argc;
    (void)argv;
    if (r == CLI_OK && o->json) {
        r = print_json(root);
    } else if (r == CLI_OK) {
        print_status(root);
        r = fflush(stdout) == 0 ? CLI_OK : CLI_UNAVAILABLE;
    }
    json_decref(root);
    return r;
}

/* ---- reload ---------------------------------------------------------------------------------- */

static void print_lines(FILE *to, const json_t *list)
{
    size_t i;
    json_t *line;

    json_array_foreach((json_t *)(uintptr_t)list, i, line)
    {
        fprintf(to, "%s\n", json_string_value(line));
    }
}

int cli_reload(const struct cli_options *o, int argc, char **argv)
{
    int status = 0;
    json_t *root;
    int r = ask_status(o, "POST", "/reload", RELOAD_TIMEOUT_MS, &status, &root);

    (void)argc;
    (void)argv;
    if (r != CLI_OK) {
        return r;
    }
    if (o->json) {
        r = print_json(root);
    } else {
        print_lines(stderr, json_object_get(root, "problems"));
    }
    if (status == 200 && !o->json) {
        printf("generation %lld from %s\n", number(root, "generation"), text(root, "from"));
        r = fflush(stdout) == 0 ? CLI_OK : CLI_UNAVAILABLE;
    } else if (status == 422) {
        fprintf(stderr, "keeping generation %lld from %s\n", number(root, "generation"),
                text(root, "from"));
        r = CLI_CONFIG;
    } else if (status != 200) {
        fprintf(stderr, "fnd: %s\n", text(root, "message"));
        r = CLI_UNAVAILABLE;
    }
    json_decref(root);
    return r;
}
