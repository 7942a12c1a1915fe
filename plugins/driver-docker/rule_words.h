/* Words of the rules over create requests: those of the driver (create_rules.c) and of the engine's
 * broker (tools/broker), which knows no task. */
#ifndef DRIVER_DOCKER_RULE_WORDS_H
#define DRIVER_DOCKER_RULE_WORDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline const char *text_of(const json_t *v)
{
    const char *s = json_string_value(v);

    return s ? s : "";
}

static inline bool is_text(const json_t *v, const char *text)
{
    return json_is_string(v) && strcmp(json_string_value(v), text) == 0;
}

static inline bool is_only_text(const json_t *list, const char *text)
{
    return json_array_size(list) == 1 && is_text(json_array_get(list, 0), text);
}

/* Every member has one of those names, which end with NULL. */
static inline bool has_only(const json_t *object, const char *const *names)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        const char *const *n = names;

        while (*n && strcmp(*n, key) != 0) {
            n++;
        }
        if (!*n) {
            return false;
        }
    }
    return json_is_object(object);
}

/* Absolute, not the root, and one spelling alone. */
static inline bool is_plain_path(const char *p)
{
    size_t n = strlen(p);

    return n > 1 && n < 1024 && p[0] == '/' && p[n - 1] != '/' && !strstr(p, "//") &&
           !strstr(p, "/./") && !strstr(p, "/../") && !(n > 1 && strcmp(p + n - 2, "/.") == 0) &&
           !(n > 2 && strcmp(p + n - 3, "/..") == 0);
}

/* path is that directory, or below it */
static inline bool is_within(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

#endif
