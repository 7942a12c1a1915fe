/* `fnd api export`, `fnd api import`: what an API node keeps, as a file with `apps:`, and back.
 *
 * An import compares the file with what is there and asks for the difference alone: it can be done
 * again after it broke off, and --dry-run prints what it would do. What the file does not name
 * stays, unless --prune is given. */
#include <cli/cli.h>
#include <cli/api_tree.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URL_DEFAULT "http://localhost:8080"

struct import {
    struct fetch_client *client;
    bool dry_run;
    uint32_t n; /* changes */
    bool empty; /* the file has an empty value that cannot be set */
    json_t *away; /* "shop/price" for each trigger that is to be made anew */
    struct fn_error error;
};

/* Apps have functions, these have triggers. */
static const struct level {
    const char *list, *kind; /* of the API, and the word for one */
    const char *id;          /* member of what belongs to one of it */
    const char *children;    /* member with the items of the next level; NULL: none */
} levels[] = {
    { "apps", "app", "app_id", "functions" },
    { "fns", "function", "fn_id", "triggers" },
    { "triggers", "trigger", NULL, NULL },
};

static const char *name_of(const json_t *item)
{
    return json_string_value(json_object_get(item, "name"));
}

static const char *id_of(const json_t *item)
{
    return json_string_value(json_object_get(item, "id"));
}

/* ---- one change ------------------------------------------------------------------------------ */

/* "+ function shop/price" */
static void tell(struct import *im, char sign, const struct level *l, const char *app,
                 const json_t *item, const json_t *change)
{
    const char *comma = ": ";
    const char *key;
    json_t *v;

    im->n++;
    printf("%c %s %s%s%s", sign, l->kind, app ? app : "", app ? "/" : "", name_of(item));
    json_object_foreach((json_t *)(uintptr_t)change, key, v) {
        printf("%s%s", comma, key);
        comma = ", ";
    }
    printf("\n");
}

/* A trigger was removed, or made, and `away` follows. */
static void note_trigger(struct import *im, bool removed, const char *app, const json_t *trigger)
{
    json_t *label = json_sprintf("%s/%s", app, name_of(trigger));
    json_t *other;
    size_t i;

    if (removed) {
        json_array_append(im->away, label);
    } else {
        json_array_foreach(im->away, i, other) {
            if (json_equal(other, label)) {
                json_array_remove(im->away, i);
                break;
            }
        }
    }
    json_decref(label);
}

static int import_ask(struct import *im, const char *method, const char *list, const char *id,
                      const json_t *body, json_t **ret)
{
    struct buf path = BUF_INIT(0);
    int r = buf_printf(&path, "/v2/%s%s%s", list, id ? "/" : "", id ? id : "");

    *ret = NULL;
    r = r < 0 ? r : api_ask(im->client, method, buf_text(&path), body, ret, &im->error);
    buf_finish(&path);
    return r;
}

/* A PUT merges maps: what is to go is named with an empty value, so that none can be set. */
static json_t *map_change(struct import *im, const char *map, const json_t *have,
                          const json_t *want)
{
    const bool annotations = strcmp(map, "annotations") == 0;
    json_t *change = json_object();
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)want, key, v) {
        const json_t *old = json_object_get(have, key);
        const char *text = json_string_value(v);

        if (!old && text && !*text) {
            im->empty = true;
        } else if (annotations ? !api_json_same(old, v) : !json_equal(old, v)) {
            json_object_set(change, key, v);
        }
    }
    json_object_foreach((json_t *)(uintptr_t)have, key, v) {
        if (!json_object_get(want, key)) {
            json_object_set_new(change, key, json_string(annotations ? "\"\"" : ""));
        }
    }
    return change;
}

/* What a PUT has to say; given, an empty one for nothing. A file without a syslog_url wants none,
 * as it wants no other config; other members that it lacks stay as they are. */
static json_t *change_of(struct import *im, const json_t *have, const json_t *want)
{
    static const char *const plain[] = { "image", "memory", "timeout", "idle_timeout", "source",
                                         "syslog_url" };
    static const char *const maps[] = { "config", "annotations" };
    json_t *change = json_object();

    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        const json_t *v = json_object_get(want, plain[i]);

        if (v && !json_equal(v, json_object_get(have, plain[i]))) {
            json_object_set(change, plain[i], (json_t *)(uintptr_t)v);
        }
    }
    if (json_object_get(have, "syslog_url") && !json_object_get(want, "syslog_url")) {
        json_object_set_new(change, "syslog_url", json_string(""));
    }
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        json_t *map = map_change(im, maps[i], json_object_get(have, maps[i]),
                                 json_object_get(want, maps[i]));

        if (json_object_size(map) > 0) {
            json_object_set(change, maps[i], map);
        }
        json_decref(map);
    }
    return change;
}

/* Makes or changes one; its id is added to `own`, but for a new one in a dry run. parents: members
 * that say where it belongs. */
static int import_item(struct import *im, const struct level *l, const char *app,
                       const json_t *have, const json_t *want, json_t *parents, json_t *own)
{
    json_t *body = have ? change_of(im, have, want) : json_deep_copy(want);
    json_t *answer = NULL;
    int r = 0;

    json_object_del(body, l->children);
    if (json_object_size(body) > 0) {
        tell(im, have ? '~' : '+', l, app, want, have ? body : NULL);
        json_object_update(body, have ? NULL : parents);
        if (!have && !l->children) {
            json_object_set_new(body, "type", json_string("http"));
        }
        if (!im->dry_run) {
            r = import_ask(im, have ? "PUT" : "POST", l->list, have ? id_of(have) : NULL, body,
                           &answer);
        }
        if (r == 0 && !have && !l->children) {
            note_trigger(im, false, app, want);
        }
    }
    if (l->id) {
        json_object_set(own, l->id, json_object_get(have ? have : answer, "id"));
    }
    json_decref(answer);
    json_decref(body);
    return r;
}

static int import_remove(struct import *im, const struct level *l, const char *app,
                         const json_t *have)
{
    json_t *answer;

    tell(im, '-', l, app, have, NULL);
    return im->dry_run ? 0 : import_ask(im, "DELETE", l->list, id_of(have), NULL, &answer);
}

/* What goes, before what comes, so that its names and sources are free. app: whose items these are,
 * NULL of apps. */
static int prune(struct import *im, const struct level *l, const char *app, const json_t *have,
                 const json_t *want)
{
    json_t *item;
    size_t i;
    int r = 0;

    json_array_foreach(have, i, item) {
        const json_t *wanted = api_tree_find(want, name_of(item));

        if (r == 0 && !wanted) {
            r = import_remove(im, l, app, item);
        } else if (r == 0 && l->children) {
            r = prune(im, l + 1, app ? app : name_of(item), json_object_get(item, l->children),
                      json_object_get(wanted, l->children));
        }
    }
    return r;
}

static bool source_is_wanted(const json_t *fns, const json_t *source)
{
    json_t *fn, *trigger;
    size_t i, k;

    json_array_foreach(fns, i, fn) {
        json_array_foreach(json_object_get(fn, "triggers"), k, trigger) {
            if (json_equal(json_object_get(trigger, "source"), source)) {
                return true;
            }
        }
    }
    return false;
}

/* Two triggers of an app have one source at no time, so that no order of changes lets them swap
 * theirs: one that leaves its source to another is made anew, and is not in `have` any more. */
static int free_sources(struct import *im, const char *app, const json_t *have, const json_t *want)
{
    json_t *fn;
    size_t i;
    int r = 0;

    json_array_foreach(have, i, fn) {
        const json_t *wanted = json_object_get(api_tree_find(want, name_of(fn)), "triggers");
        json_t *triggers = json_object_get(fn, "triggers");

        for (size_t k = json_array_size(triggers); k-- > 0 && r == 0;) {
            const json_t *trigger = json_array_get(triggers, k);
            const json_t *source = json_object_get(trigger, "source");
            const json_t *next = api_tree_find(wanted, name_of(trigger));

            if (next && !json_equal(json_object_get(next, "source"), source) &&
                source_is_wanted(want, source)) {
                r = import_remove(im, &levels[2], app, trigger);
                if (r == 0) {
                    note_trigger(im, true, app, trigger);
                }
                json_array_remove(triggers, k);
            }
        }
    }
    return r;
}

/* What comes and changes. */
static int import_list(struct import *im, const struct level *l, const char *app, json_t *parents,
                       const json_t *have, const json_t *want)
{
    json_t *item;
    size_t i;
    int r = l == &levels[1] ? free_sources(im, app, have, want) : 0;

    json_array_foreach(want, i, item) {
        const json_t *there = api_tree_find(have, name_of(item));
        json_t *own = json_copy(parents);

        r = r < 0 ? r : import_item(im, l, app, there, item, parents, own);
        if (r == 0 && l->children) {
            r = import_list(im, l + 1, app ? app : name_of(item), own,
                            json_object_get(there, l->children),
                            json_object_get(item, l->children));
        }
        json_decref(own);
    }
    return r;
}

/* ---- commands -------------------------------------------------------------------------------- */

static int say(const struct fn_error *e)
{
    fflush(stdout);
    fprintf(stderr, "fnd: %s\n", e->msg);
    return EXIT_UNAVAILABLE;
}

/* A variable that is empty is not set. */
static const char *variable_of(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

/* It broke off in between. */
static void say_away(const struct import *im)
{
    json_t *label;
    size_t i;

    fflush(stdout);
    json_array_foreach(im->away, i, label) {
        fprintf(stderr, "fnd: trigger %s was removed to be made anew, and is not there: import "
                "again when what follows is mended\n", json_string_value(label));
    }
}

static int connect_api(const struct cli_options *o, struct fetch_client **ret, struct fn_error *e)
{
    const char *variable = variable_of("FN_API_URL");
    const char *token = variable_of("FN_TOKEN"); /* not an argument: those are seen by everybody */
    int r = fetch_client_create(NULL, o->url ? o->url : variable ? variable : URL_DEFAULT, ret, e);

    if (r == 0 && token && fetch_client_set_token(*ret, token) < 0) {
        return err_set(e, FN_E_EXHAUSTED, "out of memory");
    }
    return r;
}

static int api_export(const struct cli_options *o, int n, char **apps)
{
    struct fetch_client *client = NULL;
    struct fn_error e = ERR_INIT;
    struct buf out = BUF_INIT(0);
    json_t *tree = NULL;
    int r = connect_api(o, &client, &e);

    r = r < 0 ? r : api_tree_of_node(client, &tree, &e);
    for (int i = 0; i < n && r == 0; i++) {
        if (!api_tree_find(tree, apps[i])) {
            r = err_set(&e, FN_E_NOT_FOUND, "there is no app %.200s", apps[i]);
        }
    }
    if (r == 0) {
        api_tree_keep(tree, apps, n);
        r = api_tree_print(tree, &out);
    }
    r = r < 0 ? say(&e) : cli_print_out(&out);
    buf_finish(&out);
    json_decref(tree);
    fetch_client_destroy(client);
    return r;
}

static int import_tree(const struct cli_options *o, const json_t *want)
{
    struct import im = { .dry_run = o->dry_run, .away = json_array(), .error = ERR_INIT };
    json_t *have = NULL, *nowhere = json_object();
    int r = connect_api(o, &im.client, &im.error);

    r = r < 0 ? r : api_tree_of_node(im.client, &have, &im.error);
    r = r < 0 || !o->prune ? r : prune(&im, levels, NULL, have, want);
    r = r < 0 ? r : import_list(&im, levels, NULL, nowhere, have, want);
    json_decref(nowhere);
    json_decref(have);
    fetch_client_destroy(im.client);
    if (r < 0 && !o->dry_run) {
        say_away(&im);
    }
    json_decref(im.away);
    if (r < 0) {
        return say(&im.error);
    }
    if (im.empty) {
        fprintf(stderr, "fnd: api import, got an empty value of config; expected another one: the "
                "API gives it only to what is made anew\n");
    }
    if (im.n == 0) {
        printf("nothing to change\n");
    } else {
        printf("%u change%s%s\n", im.n, im.n == 1 ? "" : "s", o->dry_run ? ", not made" : "");
    }
    return cli_written(EXIT_OK);
}

/* Only what it says of apps is looked at. */
static int api_import(const struct cli_options *o, const char *path)
{
    static char *const nothing[] = { NULL };
    struct conf_problems p;
    struct config *c = NULL;
    json_t *tree;
    int r = EXIT_OK;

    conf_problems_init(&p);
    config_load(path, nothing, &c, &p);
    if (p.n > 0) {
        fputs(buf_text(&p.text), stderr);
        r = EXIT_CONFIG;
    }
    conf_problems_finish(&p);
    if (r == EXIT_OK && !c->apps) {
        fprintf(stderr, "fnd: api import, got %s without apps:; expected a file as `fnd api "
                "export` prints it (apps: [] where no app is to be)\n", path);
        r = EXIT_CONFIG;
    }
    if (r == EXIT_OK) {
        tree = api_tree_of_file(c);
        r = import_tree(o, tree);
        json_decref(tree);
    }
    config_destroy(c);
    return r;
}

int cli_api(const struct cli_options *o)
{
    if (strcmp(o->argv[0], "export") == 0) {
        return api_export(o, o->argc - 1, o->argv + 1);
    }
    if (strcmp(o->argv[0], "import") == 0 && o->argc == 2) {
        return api_import(o, o->argv[1]);
    }
    fprintf(stderr, "fnd: api, got %s; expected export [APP...], or import and a file\n",
            o->argv[0]);
    return EXIT_USAGE;
}
