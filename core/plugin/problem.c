/* What is wrong with a plugin file, as its operator reads it: its texts are strangers' bytes. */
#include <plugin/plugin_int.h>

#include <stdio.h>
#include <string.h>

int plugin_problem(struct plugin_check *c, int code, const char *id, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (c->n++ == 0) {
        c->first_code = code;
        err_set(c->first, code, "%s %s: %s", id, c->path, text);
    }
    if (c->lines) {
        buf_printf(c->lines, "%s %s: %s\n", id, c->path, text);
    }
    return code;
}

static void escape(const void *bytes, size_t len, const char *also, char *ret, size_t cap)
{
    const unsigned char *s = bytes;
    size_t at = 0;
    size_t i;

    for (i = 0; i < len && at + 8 < cap; i++) {
        if (s[i] < 0x20 || s[i] > 0x7e || strchr(also, s[i])) {
            at += (size_t)snprintf(ret + at, cap - at, "\\x%02x", s[i]);
        } else {
            ret[at++] = (char)s[i];
        }
    }
    snprintf(ret + at, cap - at, "%s", i < len ? "..." : "");
}

const char *plugin_quote(const void *bytes, size_t len, char *ret, size_t cap)
{
    ret[0] = '"';
    escape(bytes, len, "\"\\", ret + 1, cap - 2);
    memcpy(ret + strlen(ret), "\"", 2);
    return ret;
}

const char *plugin_clean(const char *text, char *ret, size_t cap)
{
    escape(text, strlen(text), "", ret, cap);
    return ret;
}

const char *plugin_linker_advice(const char *why)
{
    static const struct {
        const char *part, *advice;
    } known[] = {
        { "failed to map segment", "it asks for more memory than a plugin may have" },
        { "static TLS", "build it without -ftls-model=initial-exec" },
    };

    for (size_t i = 0; why && i < sizeof(known) / sizeof(known[0]); i++) {
        if (strstr(why, known[i].part)) {
            return known[i].advice;
        }
    }
    return "try ldd on it";
}
