/* What speaks to a Docker engine has in common: texts of its queries and of its answers. Everything
 * that an engine answers is untrusted. */
#ifndef PLUGINS_ENGINE_JSON_H
#define PLUGINS_ENGINE_JSON_H

#include "fail.h"

#include <jansson.h>
#include <stddef.h>
#include <string.h>

/* Percent-encodes what a path segment or query value cannot hold. FN_E_RANGE when ret is too small.
 */
static inline int engine_escape(const char *text, char *ret, size_t cap)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~";
    static const char hex[] = "0123456789ABCDEF";
    size_t n = 0;

    for (; *text; text++) {
        if (n + 4 > cap) {
            return FN_E_RANGE;
        }
        if (strchr(plain, *text)) {
            ret[n++] = *text;
        } else {
            ret[n++] = '%';
            ret[n++] = hex[(unsigned char)*text >> 4];
            ret[n++] = hex[(unsigned char)*text & 15];
        }
    }
    if (n >= cap) {
        return FN_E_RANGE;
    }
    ret[n] = '\0';
    return 0;
}

/* "" when there is no such text. */
static inline const char *engine_text(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));

    return s ? s : "";
}

static inline int engine_malformed(const char *what, struct fn_error *reterr)
{
    return fail_platform(reterr, FN_E_UNAVAILABLE,
                         "%s: the engine's answer is malformed; expected the JSON of API 1.40 or "
                         "newer",
                         what);
}

#endif
