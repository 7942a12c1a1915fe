/* Print: the effective configuration, and the reference of fn.yaml. */
#include <config/config_int.h>

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- effective configuration ----------------------------------------------------------------- */

static void print_plugin(const struct config *c, struct plugin_host *h,
                         const struct config_plugin *plugin, const char *key, bool item,
                         struct buf *out, struct conf_problems *p)
{
    const struct fn_factory *factory = NULL;
    struct plugin_file *file = NULL;
    struct conf_values *values = NULL;
    int indent = item ? 6 : 4;

    if (!plugin->use) {
        return;
    }
    if (key) {
        buf_printf(out, "  %s:\n", key);
    }
    buf_printf(out, item ? "    - use: %s  # %s\n" : "    use: %s  # %s\n", plugin->use,
               plugin->where);
    config_plugin_bind(c, h, plugin, &file, &factory, &values, p);
    if (strcmp(plugin->name, plugin->use) != 0) {
        buf_printf(out, "%*sname: %s\n", indent, "", plugin->name);
    }
    if (file) {
        buf_printf(out, "%*sfile: %s  # version %s, %s\n", indent, "", plugin_file_path(file),
                   plugin_file_manifest(file)->version, plugin_file_signature(file));
        buf_printf(out, plugin->sha256 ? "%*ssha256: %s\n" : "%*s# sha256: %s, not pinned\n",
                   indent, "", plugin_file_sha256(file));
    }
    if (values) {
        conf_print(values, indent, out);
    }
    conf_values_destroy(values);
}

static void print_plugins(const struct config *c, struct plugin_host *h,
                          const struct config_list_plugin *list, const char *key, struct buf *out,
                          struct conf_problems *p)
{
    for (uint32_t i = 0; i < list->n; i++) {
        print_plugin(c, h, &list->items[i], i == 0 ? key : NULL, true, out, p);
    }
}

static void print_apps(const struct config *c, struct buf *out)
{
    for (uint32_t i = 0; i < c->n_apps; i++) {
        const struct config_app *app = &c->apps[i];

        buf_printf(out, "%s  - name: %s  # %s\n    id: %s\n", i == 0 ? "apps:\n" : "",
                   app->app.name, app->where, app->app.id);
        for (uint32_t k = 0; k < app->n_fns; k++) {
            const struct config_fn *at = &app->fns[k];
            const struct fn_def *f = &at->fn;

            buf_printf(out,
                       "%s      - name: %s  # %s\n        id: %s\n        image: \"%s\"\n"
                       "        memory: %" PRIu64 "\n        timeout: %" PRId32
                       "\n        idle_timeout: %" PRId32 "\n",
                       k == 0 ? "    functions:\n" : "", f->name, at->where, f->id, f->image,
                       f->mem_mb, f->timeout_s, f->idle_timeout_s);
            for (uint32_t t = 0; t < at->n_triggers; t++) {
                const struct trigger *trigger = &at->triggers[t].trigger;

                buf_printf(out, "%s          - { name: %s, id: %s, source: \"%s\" }\n",
                           t == 0 ? "        triggers:\n" : "", trigger->name, trigger->id,
                           trigger->source);
            }
        }
    }
}

static void print_tls(const struct config *c, struct buf *out)
{
    for (uint32_t i = 0; i < c->n_tls; i++) {
        const struct config_tls *t = &c->tls[i];

        buf_printf(out, "%s  %s:\n", i == 0 ? "tls:\n" : "", t->name);
        if (t->cert) {
            buf_printf(out, "    cert: \"%s\"\n    key: \"%s\"\n", t->cert, t->key ? t->key : "");
        }
        if (t->ca) {
            buf_printf(out, "    ca: \"%s\"\n", t->ca);
        }
        if (t->crl) {
            buf_printf(out, "    crl: \"%s\"\n", t->crl);
        }
        if (t->server_name) {
            buf_printf(out, "    server_name: \"%s\"\n", t->server_name);
        }
        for (uint64_t k = 0; k < t->peers.n; k++) {
            buf_printf(out, "%s    - \"%s\"\n", k == 0 ? "    peers:\n" : "", t->peers.items[k]);
        }
    }
}

int config_print(const struct config *c, struct plugin_host *h, struct buf *out,
                 struct conf_problems *p)
{
    for (int i = 0; i < SECTIONS_N; i++) {
        if (!config_section_applies(c, i) || i == SECTION_PLUGINS) {
            continue;
        }
        if (i != SECTION_TOP) {
            buf_printf(out, "%s:\n", config_sections[i].key);
        }
        conf_print(c->priv->values[i], i == SECTION_TOP ? 0 : 2, out);
    }
    print_tls(c, out);
    buf_add_str(out, "plugins:\n");
    conf_print(c->priv->values[SECTION_PLUGINS], 2, out);
    for (const struct config_plugin_key *k = config_plugin_keys; k->key; k++) {
        const struct config_plugin *one = config_plugin_one(c, k);

        if (!one) {
            print_plugins(c, h, config_plugin_list(c, k), k->key, out, p);
        } else if (one != &c->pool || !c->type->inside) {
            print_plugin(c, h, one, k->key, false, out, p);
        }
    }
    print_apps(c, out);
    return 0;
}

/* ---- reference ------------------------------------------------------------------------------- */

static const char *variable_of(void *ud, const char *key)
{
    return config_variable_of(*(const enum config_section *)ud, key);
}

static void reference_sections(struct buf *out)
{
    for (int i = 0; i < SECTIONS_N; i++) {
        enum config_section section = (enum config_section)i;

        if (i == SECTION_PLUGINS) {
            continue; /* with the plugins themselves */
        }
        if (i == SECTION_TOP) {
            buf_add_str(out, "## Top level\n\n");
        } else {
            buf_printf(out, "## `%s:`\n\n%s\n\n", config_sections[i].key, config_sections[i].doc);
        }
        conf_print_reference(config_rows(i), variable_of, &section, out);
        config_print_live(section, out);
        buf_add_str(out, "\n");
    }
}

static void reference_lists(struct buf *out)
{
    buf_add_str(out,
                "## `tls:`\n\nCertificates, each under a name of your choice, by which `grpc.tls`, "
                "`http.tls` and other options refer to it ([tls.md](tls.md) has examples). The "
                "variables `FN_NODE_CERT`, `FN_NODE_CERT_KEY` and `FN_NODE_CERT_AUTHORITY` "
                "together make an entry that servers and clients of gRPC use.\n\n");
    conf_print_reference(config_tls_opts, NULL, NULL, out);
    buf_add_str(out,
                "\n## `apps:`\n\nApps with their functions and triggers. They take precedence over "
                "those of the API node. This function is called at `/t/demo/hello`:\n\n"
                "    apps:\n      - name: demo\n        functions:\n          - name: hello\n"
                "            image: fnd/hello:latest\n            triggers: "
                "[{ name: hello, source: /hello }]\n\n"
                "Keys of an app, which may also have `config:` (a map of texts: the environment of "
                "its functions), `annotations:` (a map of any values) and `functions:`:\n\n");
    conf_print_reference(config_app_opts, NULL, NULL, out);
    buf_add_str(out, "\nKeys of a function, which may also have its own `config:`, "
                     "`annotations:` and `triggers:`:\n\n");
    conf_print_reference(config_fn_opts, NULL, NULL, out);
    buf_add_str(out, "\nKeys of a trigger, which may also have `annotations:`:\n\n");
    conf_print_reference(config_trigger_opts, NULL, NULL, out);
}

static void reference_variables(struct buf *out)
{
    buf_add_str(out,
                "\n## Variables\n\nThe environment variables of Go Fn override the file; the "
                "tables above name them. If Go Fn can read a variable from a file, so can fnd: "
                "the variable `<NAME>_FILE` then names the file. Variables ending in MSECS are "
                "whole milliseconds, negative = never; times of the HTTP port are whole seconds "
                "or durations. A variable that begins with `FN_` and is unknown is a warning, "
                "with `--strict` an error.\n\n"
                "Accepted without effect:\n\n| variable | why |\n|---|---|\n");
    for (const struct config_variable *v = config_variables; v->name; v++) {
        if (v->form == FORM_NONE) {
            buf_printf(out, "| `%s` | %s |\n", v->name, v->doc);
        }
    }
}

struct plugin_reference {
    struct buf *out;
    const char *file;
};

static const char *plugin_variable_of(void *ud, const char *key)
{
    const struct fn_factory *f = ud;

    return config_variable_of(strcmp(f->kind, FN_KIND_POOL) == 0     ? SECTION_POOL
                              : strcmp(f->kind, FN_KIND_DRIVER) == 0 ? SECTION_DRIVER
                                                                     : SECTION_NOWHERE,
                              key);
}

static void reference_factory(void *ud, const struct fn_factory *f)
{
    const struct plugin_reference *r = ud;
    struct fn_factory copy = *f;

    buf_printf(r->out, "\n### %s `%s` (%s)\n\n%s\n\n", f->kind, f->name, r->file,
               f->summary ? f->summary : "");
    if (f->opts && f->opts->key) {
        conf_print_reference(f->opts, plugin_variable_of, &copy, r->out);
    } else {
        buf_add_str(r->out, "No options.\n");
    }
}

static int is_plugin_name(const struct dirent *d)
{
    const char *end = strrchr(d->d_name, '.');

    return end && strcmp(end, ".so") == 0;
}

static void reference_plugins(struct plugin_host *h, const char *dir, struct buf *out,
                              struct conf_problems *p)
{
    struct dirent **names = NULL;
    int n = scandir(dir, &names, is_plugin_name, alphasort);

    for (int i = 0; i < n; i++) {
        struct plugin_reference r = { out, names[i]->d_name };
        struct plugin_file *file = NULL;
        struct fn_error e = ERR_INIT;
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        if (plugin_file_open(h, path, &file, &e) < 0) {
            conf_problem(p, NULL, NULL, "%s", e.msg);
        } else {
            plugin_file_each(file, reference_factory, &r);
        }
        free(names[i]);
    }
    free(names);
}

int config_print_reference(struct plugin_host *h, const char *plugin_dir, struct buf *out,
                           struct conf_problems *p)
{
    buf_add_str(out,
                "# fn.yaml\n\nGenerated by `fnd check --reference`; do not edit. A duration is "
                "written like `10ms`, `2s` or `1h30m`; a size like `64KiB`, `6MiB` or `1GiB`, or "
                "as a number of bytes. An option whose default is `required` must be given; one "
                "whose default is a dash has none and may be left out. Unknown keys, wrong types "
                "and values out of range are errors, all of which are reported in one run. `fnd "
                "check --config fn.yaml` prints the effective values. Words such as *to hand back* "
                "or *detached call* are explained in [glossary.md](glossary.md), codes such as "
                "`LB305` in [errors.md](errors.md).\n\n");
    reference_sections(out);
    reference_lists(out);
    reference_variables(out);
    buf_add_str(out, "\n## `plugins:`\n\nWhich plugins the node uses:\n\n"
                     "| key | nodes | value | what it does |\n|---|---|---|---|\n"
                     "| `placer` | lb, full | a plugin, or a list whose last one wraps the "
                     "others | "
                     "chooses a runner for each call ([placers.md](placers.md)); when absent: "
                     "`naive` |\n"
                     "| `shadow` | lb, full | like `placer` | a placer that is asked too, but not "
                     "obeyed ([shadow.md](shadow.md)) |\n"
                     "| `fallback` | lb, full | a plugin | a placer that decides while the main "
                     "one "
                     "is too slow or wrong ([plugin-faults.md](plugin-faults.md)) |\n"
                     "| `pool` | lb, full | a plugin | lists the runners; node `lb` must have it |\n"
                     "| `driver` | pure-runner, full | like `placer` | runs containers; when absent: "
                     "`docker` if `DOCKER_HOST` is set or `/var/run/docker.sock` can be used, and on "
                     "a pure-runner without a file; else `process`, child processes that are no "
                     "containers, for trials |\n"
                     "| `control_plane` | npm | a plugin | provides machines for runners "
                     "([control-planes.md](control-planes.md)); when absent: `process`, processes "
                     "of this machine |\n"
                     "| `predictor` | npm | a plugin | turns demand into wanted capacity "
                     "([elastic-pools.md](elastic-pools.md)) |\n"
                     "| `warm` | pure-runner, full | a predictor with `containers()` | says how "
                     "many containers of a function are kept ready "
                     "([tuning.md](tuning.md#containers-that-are-kept-ready)) |\n"
                     "| `operator` | pure-runner, full | a plugin | adds to the runner's status or fails it "
                     "([monitoring.md](monitoring.md#the-status-of-a-runner)), takes the keys of a "
                     "`ConfigureRunner` request, both on a pure-runner only; gets the lines that "
                     "functions print ([logs.md](logs.md)) |\n"
                     "| `overriders` | lb, pure-runner, full | a list, in order | change calls "
                     "before they "
                     "are placed or run |\n"
                     "| `listeners` | lb, pure-runner, full, api | a list, in order | are notified when "
                     "calls begin "
                     "and end, and, where the API is, of changes ([api.md](api.md#listeners)) |\n\n"
                     "A plugin is written `{ use: <name> }`, where the name is one of those listed "
                     "below, such as `{ use: chbl, bound: 150 }`. Beside the plugin's own options "
                     "it may have `file:` (absolute path of the plugin file), `name:` (by which a "
                     "wrapper names it; when absent: that of `use:`) and `sha256:` (64 hex digits: "
                     "the hash that the file must have). The variable `FN_PLACER` replaces the "
                     "placer by the one of that name, unless the list already has it.\n\n"
                     "How plugin files are checked "
                     "([plugin-security.md](plugin-security.md)):\n\n");
    conf_print_reference(config_rows(SECTION_PLUGINS), NULL, NULL, out);
    config_print_live(SECTION_PLUGINS, out);
    reference_plugins(h, plugin_dir, out, p);
    return 0;
}
