/* hello: {"name":"x"} gives {"message":"Hello x"}. Anything else greets the world. */
#include <fdk.h>
#include <jansson.h>

static int hello(struct fdk_call *call, void *ud)
{
    size_t len;
    const char *body = fdk_body(call, &len), *name = "World";
    json_t *in = json_loadb(body, len, 0, NULL), *out;
    char *text;
    int rc;

    (void)ud;
    (void)json_unpack(in, "{s:s}", "name", &name);
    out = json_pack("{s:o}", "message", json_sprintf("Hello %s", name));
    text = json_dumps(out, JSON_COMPACT);
    rc = fdk_answer_header(call, "Content-Type", "application/json");
    if (rc == 0 && text)
        rc = fdk_answer_printf(call, "%s\n", text);
    free(text);
    json_decref(out);
    json_decref(in);
    return rc;
}

int main(void)
{
    return fdk_handle(hello, NULL) < 0;
}
