/* A question to a running node, over its admin socket. */
#include <admin/admin.h>
#include <cli/cli.h>

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS 5000

/* --socket, or what the configuration says; its mistakes matter only when it cannot be read. */
int cli_socket(const struct cli_options *o, char ret[ADMIN_PATH_MAX + 1])
{
    struct fn_error e = ERR_INIT;
    struct conf_problems p;
    struct config *c = NULL;
    int r = EXIT_CONFIG;

    if (o->socket) {
        snprintf(ret, ADMIN_PATH_MAX + 1, "%s", o->socket);
        return EXIT_OK;
    }
    conf_problems_init(&p);
    config_load(o->start.config_path, environ, &c, &p);
    if (!config_is_complete(c)) {
        fputs(buf_text(&p.text), stderr);
    } else if (admin_socket_path(c->admin, c->http->listen, 0, ret, &e) < 0) {
        fprintf(stderr, "fnd: %s\n", e.msg);
    } else {
        r = EXIT_OK;
    }
    conf_problems_finish(&p);
    config_destroy(c);
    return r;
}

int cli_ask_status(const struct cli_options *o, const char *method, const char *path,
                   int64_t timeout_ms, int *ret_status, json_t **ret)
{
    char socket[ADMIN_PATH_MAX + 1];
    struct fn_error e = ERR_INIT;
    struct buf body = BUF_INIT(0);
    int r = cli_socket(o, socket);

    *ret = NULL;
    if (r != EXIT_OK) {
        return r;
    }
    if (admin_call(socket, method, path, timeout_ms, ret_status, &body, &e) < 0) {
        fprintf(stderr, "fnd: %s\n", e.msg);
        buf_finish(&body);
        return EXIT_UNAVAILABLE;
    }
    *ret = json_loadb(body.data, body.len, 0, NULL);
    if (!*ret) {
        fprintf(stderr, "fnd: the node's answer is not JSON\n");
        r = EXIT_UNAVAILABLE;
    }
    buf_finish(&body);
    return r;
}

const char *cli_text(const json_t *o, const char *key, const char *other)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : other;
}

long long cli_number(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

int cli_ask(const struct cli_options *o, const char *method, const char *path, json_t **ret)
{
    int status = 0;
    int r = cli_ask_status(o, method, path, TIMEOUT_MS, &status, ret);

    if (r == EXIT_OK && status >= 300) {
        fprintf(stderr, "fnd: %s\n", cli_text(*ret, "message", "the node refused"));
        json_decref(*ret);
        *ret = NULL;
        r = EXIT_UNAVAILABLE;
    }
    return r;
}

/* After a write that failed, what is left of the text fails again here, and errno tells why. */
int cli_written(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return code;
    }
    fprintf(stderr, "fnd: the output, got %s; expected room for it\n", strerror(errno));
    return EXIT_UNAVAILABLE;
}

int cli_print_json(const json_t *root)
{
    json_dumpf(root, stdout, JSON_INDENT(2));
    putchar('\n');
    return cli_written(EXIT_OK);
}

int cli_show(const struct cli_options *o, const char *method, const char *path,
             void (*print)(const json_t *root))
{
    json_t *root;
    int r = cli_ask(o, method, path, &root);

    if (r == EXIT_OK && o->json) {
        r = cli_print_json(root);
    } else if (r == EXIT_OK) {
        print(root);
        r = cli_written(EXIT_OK);
    }
    json_decref(root);
    return r;
}
