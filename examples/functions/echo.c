/*
 * echo: the body back, with its Content-Type. Request headers, the platform's own or those of the
 * HTTP client behind a trigger, ask for more:
 *
 *     Echo-Headers: any    the request's headers instead of its body, as {"name":["value",...]}
 *     Echo-Env: NAME       "<container> <value>" of that environment variable instead of its body;
 *                          the first is drawn at the start, "-" stands for a variable not set
 *     Echo-Status: 404     that HTTP status for the client behind a trigger
 *     Echo-Fail: text      a function error with that text
 */
#include <fdk.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

static const char *asked(const struct fdk_call *call, const char *name)
{
    char prefixed[64];
    const char *value = fdk_header(call, name);

    if (value)
        return value;
    (void)snprintf(prefixed, sizeof(prefixed), "Fn-Http-H-%s", name);
    return fdk_header(call, prefixed);
}

static int headers_answer(struct fdk_call *call)
{
    json_t *all = json_object();
    const char *name, *value;
    char *text;
    int rc = -1;

    for (size_t i = 0; fdk_header_at(call, i, &name, &value); i++) {
        json_t *values = json_object_get(all, name);

        if (!values) {
            values = json_array();
            (void)json_object_set_new(all, name, values);
        }
        (void)json_array_append_new(values, json_string(value));
    }
    text = json_dumps(all, JSON_COMPACT);
    if (text)
        rc = fdk_answer_printf(call, "%s\n", text);
    free(text);
    json_decref(all);
    return rc ? rc : fdk_answer_header(call, "Content-Type", "application/json");
}

static int env_answer(struct fdk_call *call, const char *name, unsigned container)
{
    const char *value = getenv(name);

    return fdk_answer_printf(call, "%08x %s\n", container, value ? value : "-");
}

static int echo(struct fdk_call *call, void *ud)
{
    const char *env = asked(call, "Echo-Env");
    const char *type = asked(call, "Content-Type"), *status = asked(call, "Echo-Status");
    const char *fail = asked(call, "Echo-Fail"), *body;
    size_t len;

    if (fail) {
        (void)fdk_answer_printf(call, "%s\n", fail);
        return -1;
    }
    if (status && fdk_answer_status(call, atoi(status)) < 0)
        return -1;
    if (asked(call, "Echo-Headers"))
        return headers_answer(call);
    if (env)
        return env_answer(call, env, *(const unsigned *)ud);
    if (type && fdk_answer_header(call, "Content-Type", type) < 0)
        return -1;
    body = fdk_body(call, &len);
    return fdk_answer_write(call, body, len);
}

int main(void)
{
    unsigned container;

    if (getrandom(&container, sizeof(container), 0) < 0) {
        perror("echo: getrandom");
        return 1;
    }
    return fdk_handle(echo, &container) < 0;
}
