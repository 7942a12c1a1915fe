/* fnkit inspect: what a file is and offers, as a page for people or as JSON for scripts. */
#include "fnkit.h"

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

struct inspection {
    const char *path;
    bool json;
};

static const char *type_name(uint32_t type)
{
    static const char *const names[] = { "?",    "text", "number", "duration",
                                         "size", "bool", "list",   "choice" };

    return names[type <= FN_OPT_CHOICE ? type : 0];
}

/* ---- JSON: also the source of the page, so that both tell the same --------------------------- */

static json_t *options_json(const struct fn_opt *o)
{
    json_t *list = json_array();
    struct buf rule = BUF_INIT(0);

    for (; o && o->key; o++) {
        buf_clear(&rule);
        conf_print_rule(o, &rule);
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:s*}", "key", o->key, "type",
                            type_name(o->type), "doc", o->doc, "rule", buf_text(&rule), "required",
                            !o->dflt && !(o->flags & FN_OPT_MAY_BE_ABSENT), "secret",
                            (o->flags & FN_OPT_MAY_BE_SECRET) != 0, "default", o->dflt));
    }
    buf_finish(&rule);
    return list;
}

static json_t *needs_json(const struct fn_need *n)
{
    json_t *list = json_array();

    for (; n && n->iface; n++) {
        json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:b}", "interface", n->iface,
                                              "major", n->major, "minor_min", n->minor_min,
                                              "optional", (n->flags & FN_NEED_OPTIONAL) != 0));
    }
    return list;
}

static void add_factory(void *ud, const struct fn_factory *f)
{
    const struct fn_hdr *ops = f->ops;
    json_t *one =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:i, s:i, s:i}", "kind", f->kind, "name",
                  f->name, "summary", f->summary ? f->summary : "", "kind_major", f->kind_major,
                  "kind_minor", f->kind_minor, "caps_offered", (json_int_t)f->caps_offered,
                  "caps_required", (json_int_t)f->caps_required, "table_bytes", ops->size,
                  "factory_bytes", f->hdr.size, "conf_bytes", f->conf_size);

    if (strcmp(f->kind, FN_KIND_PLACER) == 0) {
        json_object_set_new(one, "session_bytes",
                            json_integer(((const struct fn_placer_ops *)f->ops)->session_size));
    } else if (strcmp(f->kind, FN_KIND_PREDICTOR) == 0) {
        json_object_set_new(one, "state_bytes",
                            json_integer(((const struct fn_predictor_ops *)f->ops)->state_size));
    }
    json_object_set_new(one, "options", options_json(f->opts));
    json_object_set_new(one, "needs", needs_json(f->needs));
    json_array_append_new(ud, one);
}

static json_t *names_json(const struct symbol *s, size_t n)
{
    json_t *list = json_array();
    size_t i;

    for (i = 0; i < n; i++) {
        if (!s[i].weak || strncmp(s[i].name, "_ITM_", 5) != 0) {
            json_array_append_new(list, json_string(s[i].name));
        }
    }
    return list;
}

static void add_symbols(json_t *o, const struct symbols *s)
{
    json_t *needed = json_array();
    size_t i;

    for (i = 0; i < s->n_needed; i++) {
        json_array_append_new(needed, json_string(s->needed[i]));
    }
    json_object_set_new(o, "libraries", needed);
    json_object_set_new(o, "imports", names_json(s->imports, s->n_imports));
    json_object_set_new(o, "exports", names_json(s->exports, s->n_exports));
    json_object_set_new(o, "variables", names_json(s->variables, s->n_variables));
    json_object_set_new(o, "stripped", json_boolean(s->stripped));
}

/* NULL: its path is no UTF-8, or out of memory. */
static json_t *describe(const struct plugin_file *file, const struct symbols *s, const char *sha256)
{
    const struct fn_manifest *m = plugin_file_manifest(file);
    json_t *factories = json_array();
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:i, s:i, s:i, s:i, s:b}", "file",
                          plugin_file_path(file), "name", m->name, "version", m->version, "license",
                          m->license, "sha256", sha256, "bytes", (json_int_t)s->image_len,
                          "build_tag", m->build_tag, "abi_major", m->abi_major, "abi_minor",
                          m->abi_minor, "host_minor_min", m->host_minor_min, "manifest_bytes",
                          m->hdr.size, "threads", (m->flags & FN_PLUGIN_HAS_THREADS) != 0);

    plugin_file_each(file, add_factory, factories);
    json_object_set_new(o, "factories", factories);
    add_symbols(o, s);
    return o;
}

/* ---- the page -------------------------------------------------------------------------------- */

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

static long long number_of(const json_t *o, const char *key)
{
    return (long long)json_integer_value(json_object_get(o, key));
}

static bool flag_of(const json_t *o, const char *key)
{
    return json_is_true(json_object_get(o, key));
}

static void print_words(const char *title, const json_t *list)
{
    size_t column = 14;
    size_t i;
    const json_t *v;

    printf("  %-12s", title);
    json_array_foreach(list, i, v)
    {
        const char *word = json_string_value(v);

        if (column + strlen(word) > 94) {
            printf("\n%14s", "");
            column = 14;
        }
        printf("%s ", word);
        column += strlen(word) + 1;
    }
    puts(json_array_size(list) == 0 ? "none" : "");
}

static void print_factory(const json_t *f)
{
    const json_t *v;
    size_t i;

    printf("\n%s %s (interface %s %lld.%lld)\n  %s\n", text_of(f, "kind"), text_of(f, "name"),
           text_of(f, "kind"), number_of(f, "kind_major"), number_of(f, "kind_minor"),
           text_of(f, "summary"));
    printf("  tables      factory %lld bytes, methods %lld bytes, options %lld bytes",
           number_of(f, "factory_bytes"), number_of(f, "table_bytes"), number_of(f, "conf_bytes"));
    if (json_object_get(f, "session_bytes")) {
        printf(", session %lld bytes", number_of(f, "session_bytes"));
    }
    if (json_object_get(f, "state_bytes")) {
        printf(", state %lld bytes", number_of(f, "state_bytes"));
    }
    printf("\n");
    if (number_of(f, "caps_offered") || number_of(f, "caps_required")) {
        printf("  capabilities offered 0x%llx, required 0x%llx\n",
               (unsigned long long)number_of(f, "caps_offered"),
               (unsigned long long)number_of(f, "caps_required"));
    }
    json_array_foreach(json_object_get(f, "needs"), i, v)
    {
        printf("  needs       %s %lld.%lld%s\n", text_of(v, "interface"), number_of(v, "major"),
               number_of(v, "minor_min"), flag_of(v, "optional") ? ", optional" : "");
    }
    json_array_foreach(json_object_get(f, "options"), i, v)
    {
        printf("  option      %s: %s\n              %s", text_of(v, "key"), text_of(v, "doc"),
               text_of(v, "rule"));
        if (json_object_get(v, "default")) {
            printf("; default %s\n", text_of(v, "default")[0] ? text_of(v, "default") : "empty");
        } else {
            printf("; %s%s\n", flag_of(v, "required") ? "required" : "optional",
                   flag_of(v, "secret") ? ", secret" : "");
        }
    }
}

static void print_page(const json_t *o)
{
    const json_t *v;
    size_t i;

    printf("%s\n  plugin      %s %s, licence %s\n  abi         %lld.%lld, runs on hosts from "
           "%lld.%lld; build %s\n  sha256      %s\n  size        %lld bytes, manifest %lld bytes\n",
           text_of(o, "file"), text_of(o, "name"), text_of(o, "version"), text_of(o, "license"),
           number_of(o, "abi_major"), number_of(o, "abi_minor"), number_of(o, "abi_major"),
           number_of(o, "host_minor_min"), text_of(o, "build_tag"), text_of(o, "sha256"),
           number_of(o, "bytes"), number_of(o, "manifest_bytes"));
    if (flag_of(o, "threads")) {
        printf("  threads     starts threads of its own; the simulator refuses it\n");
    }
    print_words("libraries", json_object_get(o, "libraries"));
    print_words("imports", json_object_get(o, "imports"));
    print_words("exports", json_object_get(o, "exports"));
    if (flag_of(o, "stripped")) {
        printf("  variables   not known: the file is stripped of its symbols\n");
    } else {
        print_words("variables", json_object_get(o, "variables"));
    }
    json_array_foreach(json_object_get(o, "factories"), i, v)
    {
        print_factory(v);
    }
}

/* ---- the command ----------------------------------------------------------------------------- */

static int inspect_in_child(void *ud)
{
    const struct inspection *in = ud;
    struct plugin_host *h = plugin_host_create(NULL);
    struct buf lines = BUF_INIT(0);
    struct plugin_file *file = NULL;
    struct symbols s = { 0 };
    struct fn_error e = ERR_INIT;
    char sha256[65] = "";
    json_t *o;

    if (!h) {
        return FNKIT_UNAVAILABLE;
    }
    if (plugin_file_check(h, in->path, NULL, &file, &lines, &e) < 0) {
        fputs(lines.len ? buf_text(&lines) : e.msg, stderr);
        return FNKIT_REFUSED;
    }
    if (symbols_read(in->path, &s, &e) < 0 || file_sha256(in->path, sha256, &e) < 0) {
        fprintf(stderr, "%s\n", e.msg);
        return FNKIT_UNAVAILABLE;
    }
    o = describe(file, &s, sha256);
    if (!o) {
        fprintf(stderr, "fnkit inspect: %s: no report: its path is no UTF-8, or out of memory\n",
                in->path);
        return FNKIT_UNAVAILABLE;
    }
    if (in->json) {
        json_dumpf(o, stdout, JSON_INDENT(2));
        puts("");
    } else {
        print_page(o);
    }
    json_decref(o);
    symbols_finish(&s);
    buf_finish(&lines);
    plugin_host_destroy(h);
    return FNKIT_OK;
}

static int usage(int code)
{
    fputs("usage: fnkit inspect [--json] FILE...\n"
          "\n"
          "Tells what a plugin file is: manifest, factories with their options and needs, what it\n"
          "imports, its hash. The file is loaded in a child process.\n",
          code == FNKIT_OK ? stdout : stderr);
    return code;
}

int fnkit_inspect(int argc, char **argv)
{
    static const struct option options[] = {
        { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    struct inspection in = { .json = false };
    static char self[] = "fnkit inspect"; /* what getopt_long() calls us */
    char why[512];
    int worst = FNKIT_OK;
    int c;
    int r;

    argv[0] = self;
    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (c != 'j') {
            return usage(c == 'h' ? FNKIT_OK : FNKIT_USAGE);
        }
        in.json = true;
    }
    if (optind == argc) {
        fputs("fnkit inspect: a file is missing\n", stderr);
        return usage(FNKIT_USAGE);
    }
    for (; optind < argc; optind++) {
        in.path = argv[optind];
        r = child_run(inspect_in_child, &in, in.path, FNKIT_LOAD_TIMEOUT_MS, why, sizeof(why));
        if (r < 0) {
            fprintf(stderr, "%s\n", why);
            r = FNKIT_REFUSED;
        }
        worst = r > worst ? r : worst;
    }
    return worst;
}
