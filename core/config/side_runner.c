/* Side of the runner: its driver where nobody names one, and what of its settings has no effect. */
#include <config/config_int.h>

#include <conf/opts.h>
#include <fnmatch.h>
#include <runner/runner.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DOCKER_SOCKET "/var/run/docker.sock"
#define LIVE_SETTINGS_MAX 256u
#define NOT_ASKED "a full node has no gRPC port that could be asked"

static bool is_socket(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISSOCK(st.st_mode) && access(path, R_OK | W_OK) == 0;
}

/* Docker where it is to be had, else child processes; a runner without a file always has Docker, as
 * the node of Go has it that this one stands in for. */
static const char *default_driver(const struct config *c)
{
    for (const struct conf_override *o = c->priv->overrides[SECTION_DRIVER]; o->key; o++) {
        if (strcmp(o->key, "docker_host") == 0) {
            return "docker";
        }
    }
    return is_socket(DOCKER_SOCKET) || (!c->path && !c->type->inside) ? "docker" : "process";
}

/* A node that was started in a build tree has its sample functions. */
static void set_functions(struct config *c)
{
    const struct conf_override root = { "root", "default", config_find_dir(c, "functions") };

    if (c->drivers.n > 0 && root.text && strcmp(c->drivers.items[0].use, "process") == 0) {
        config_plugin_override(&c->drivers.items[0],
                               (const struct conf_override[]){ root, { NULL } });
    }
}

static void runner_plugins(struct config *c, struct conf_problems *p)
{
    (void)p;
    if (c->drivers.n == 0 && !c->drivers.items) {
        config_plugin_only(c, &c->drivers,
                           config_plugin_default(FN_KIND_DRIVER, default_driver(c), "default"));
        set_functions(c);
    }
    for (uint32_t i = 0; i < c->drivers.n; i++) {
        config_plugin_override(&c->drivers.items[i], c->priv->overrides[SECTION_DRIVER]);
    }
}

static void check_down_file(const struct config *c, struct conf_problems *p)
{
    const struct conf_node *n = conf_get(c->operator_.node, "down_file");

    if (n && c->type->inside && strcmp(c->operator_.use, "file") == 0) {
        conf_warning(p, "CFG710", conf_where_key(c->priv->file, n),
                     "operator file: down_file: has no effect: " NOT_ASKED);
    }
}

static void check_status_key(const struct config *c, const char *key, const char *why,
                             struct conf_problems *p)
{
    conf_warning(p, "CFG710", config_source_of(c, SECTION_RUNNER, key),
                 "runner.%s: has no effect: %s", key, why);
}

/* "runner.freeze_idle" and the like: all that a reload may change. NULL at the end; NULL: there is
 * no memory. */
static const char **live_settings(const struct config *c)
{
    const char **all = config_alloc(c, (LIVE_SETTINGS_MAX + 1) * sizeof(*all));
    uint32_t n = 0;

    for (int s = SECTION_TOP + 1; all && s < SECTIONS_N; s++) {
        for (const struct fn_opt *o = config_rows(s); o->key && n < LIVE_SETTINGS_MAX; o++) {
            if (o->flags & OPT_IS_LIVE) {
                all[n++] = arena_printf(&c->priv->arena, "%s.%s", config_sections[s].key, o->key);
            }
        }
    }
    return all;
}

static void check_pattern(const struct config *c, const char *pattern, const char *const *settings,
                          struct conf_problems *p)
{
    const char *nearest = conf_nearest(pattern, settings);

    for (; *settings; settings++) {
        if (fnmatch(pattern, *settings, 0) == 0) {
            return;
        }
    }
    config_refuse(c, SECTION_RUNNER, "configurable", pattern,
                  arena_printf(&c->priv->arena,
                               "a setting that a reload can change, or a pattern of some%s%s",
                               nearest ? ", such as " : "", nearest ? nearest : ""),
                  p);
}

static void check_configurable(const struct config *c, struct conf_problems *p)
{
    const struct fn_strlist *patterns = &c->runner->configurable;
    const char *const *settings = patterns->n > 0 ? live_settings(c) : NULL;

    for (uint64_t i = 0; settings && i < patterns->n; i++) {
        check_pattern(c, patterns->items[i], settings, p);
    }
}

static void runner_effect(const struct config *c, struct conf_problems *p)
{
    if (c->runner->status_network_file && !c->runner->status_image) {
        check_status_key(c, "status_network_file", "there is no runner.status_image", p);
    }
    if (c->runner->status_image && c->type->inside) {
        check_status_key(c, "status_image", NOT_ASKED, p);
    }
    check_down_file(c, p);
    if (c->warm.use && c->runner->warm_max == 0) {
        conf_warning(p, "CFG710", c->warm.where, "warm: has no effect: runner.warm_max is 0");
    }
    check_configurable(c, p);
}

const struct config_side_part config_side_runner = { runner_plugins, runner_effect };
