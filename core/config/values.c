/* What all parts of a config stand on: its memory, places of values, sentences about them. */
#include <config/config_int.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define INSTALLED_DIR "/usr/lib/fnd"

void *config_alloc(const struct config *c, size_t size)
{
    return arena_alloc(&c->priv->arena, size);
}

const char *config_where(const struct config *c, const struct conf_node *n)
{
    return arena_strdup(&c->priv->arena, conf_where(c->priv->file, n));
}

void config_bind_into(struct config *c, struct conf_node *map, const char *what,
                      const struct fn_opt *opts, void *ret, uint32_t size, const char *const *skip,
                      struct conf_problems *p)
{
    struct conf_values *values;

    if (conf_bind(c->priv->file, map, what, opts, size, skip, NULL, &values, p) == 0) {
        memcpy(ret, values->data, size);
        opt_copy(opts, ret, &c->priv->arena); /* it knows when it has no memory */
    }
    conf_values_destroy(values);
}

/* Beside the program in a build tree, else what is installed with it: /opt/fnd/bin and
 * /opt/fnd/lib/fnd; else where packages put them. */
const char *config_find_dir(struct config *c, const char *name)
{
    static const char *const folders[2] = { "", "/lib/fnd" };
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    const char *dir;
    char *slash;

    exe[n > 0 ? n : 0] = '\0';
    for (size_t i = 0; i < 2 && (slash = strrchr(exe, '/')); i++) {
        *slash = '\0';
        dir = arena_printf(&c->priv->arena, "%s%s/%s", exe, folders[i], name);
        if (dir && access(dir, X_OK) == 0) {
            return dir;
        }
    }
    return arena_printf(&c->priv->arena, INSTALLED_DIR "/%s", name);
}

const char *config_split_code(const char *line, char code[8])
{
    size_t len = strcspn(line, " ");
    bool has = len < 8 && line[len] == ' ';

    snprintf(code, 8, "%.*s", has ? (int)len : 0, line);
    return has ? line + len + 1 : line;
}

void config_tell(struct conf_problems *p, const char *where, const char *line)
{
    char code[8];
    const char *text = config_split_code(line, code);

    conf_problem(p, code[0] ? code : NULL, where, "%s", text);
}

const char *config_source_of(const struct config *c, enum config_section section, const char *key)
{
    const struct conf_values *v = c->priv->values[section];
    const struct fn_opt *o = opt_find(v->opts, key);
    const char *source = o ? v->source[o - v->opts] : NULL;

    return source ? source : "default";
}

bool config_is_default(const struct config *c, enum config_section section, const char *key)
{
    return strcmp(config_source_of(c, section, key), "default") == 0;
}

void config_refuse(const struct config *c, enum config_section section, const char *key,
                   const char *got, const char *rule, struct conf_problems *p)
{
    const char *source = config_source_of(c, section, key);

    if (strncmp(source, "FN_", 3) == 0) {
        conf_problem(p, "CFG706", NULL, "%s, got %s; expected %s", source, conf_quote(got), rule);
    } else {
        conf_problem(p, "CFG704", source, "%s, got %s; expected %s", key, conf_quote(got), rule);
    }
}
