/* Trees of apps: fetched, made of a file, printed. */
#include <cli/api_tree.h>

#include <model/app.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMEOUT_MS 30000
#define ROOM_TRIES 60 /* a node that limits its clients has room again each second */
#define PAGE       "per_page=100"

/* What an API node adds when it is asked. */
static const char *const generated[] = { "fnproject.io/fn/invokeEndpoint",
                                         "fnproject.io/trigger/httpEndpoint" };
static const char *const own_members[] = { "created_at", "updated_at", "shape", "app_id", "fn_id",
                                           "type" };

/* ---- the API --------------------------------------------------------------------------------- */

/* 429 is waited out: nothing was done. */
static int ask_patiently(struct fetch_client *client, const char *method, const char *path,
                         const char *text, int *ret_status, struct buf *ret_body,
                         struct fn_error *reterr)
{
    static const struct timespec second = { 1, 0 };
    int r;

    for (uint32_t tries = 0;; tries++) {
        r = fetch_client_ask(client, method, path, text, TIMEOUT_MS, ret_status, ret_body, reterr);
        if (r < 0 || *ret_status != 429 || tries == ROOM_TRIES) {
            return r;
        }
        buf_clear(ret_body);
        nanosleep(&second, NULL);
    }
}

int api_ask(struct fetch_client *client, const char *method, const char *path, const json_t *body,
            json_t **ret, struct fn_error *reterr)
{
    struct buf answer = BUF_INIT(0);
    struct buf text = BUF_INIT(0);
    const char *message;
    int status = 0;
    int r = body && api_json_write(body, &text) < 0
                ? err_set(reterr, FN_E_EXHAUSTED, "out of memory") : 0;

    r = r < 0 ? r : ask_patiently(client, method, path, body ? buf_text(&text) : NULL, &status,
                                  &answer, reterr);
    buf_finish(&text);
    *ret = r == 0 ? api_json_read(buf_text(&answer), answer.len) : NULL;
    message = json_string_value(json_object_get(*ret, "message"));
    if (r == 0 && status >= 300) {
        r = err_set(reterr, FN_E_UNAVAILABLE, "%s %s: %d %s", method, path, status,
                    message ? message : "without a reason");
    } else if (r == 0 && status != 204 && !*ret) {
        r = err_set(reterr, FN_E_UNAVAILABLE, "%s %s: the answer is not JSON", method, path);
    }
    buf_finish(&answer);
    if (r < 0) {
        json_decref(*ret);
        *ret = NULL;
    }
    return r;
}

/* What says nothing, and what only a node says, of one and of what belongs to it. */
static void tidy(json_t *item)
{
    static const char *const members[] = { "triggers", "functions", "config", "annotations",
                                           "syslog_url" };
    json_t *annotations = json_object_get(item, "annotations");
    json_t *child;
    size_t k;

    for (size_t i = 0; i < sizeof(generated) / sizeof(generated[0]); i++) {
        json_object_del(annotations, generated[i]);
    }
    for (size_t i = 0; i < sizeof(own_members) / sizeof(own_members[0]); i++) {
        json_object_del(item, own_members[i]);
    }
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const json_t *v = json_object_get(item, members[i]);
        const char *text = json_string_value(v);

        json_array_foreach(v, k, child) {
            tidy(child);
        }
        if ((v && !text && json_object_size(v) + json_array_size(v) == 0) || (text && !*text)) {
            json_object_del(item, members[i]);
        }
    }
}

/* All pages of `path`, which has a query. */
static int fetch_list(struct fetch_client *client, const char *path, json_t *to,
                      struct fn_error *reterr)
{
    const char *cursor = "";
    json_t *page = NULL;
    int r = 0;

    while (r == 0 && cursor) {
        struct buf url = BUF_INIT(0);
        json_t *last = page;

        r = buf_printf(&url, "%s%s%s", path, *cursor ? "&cursor=" : "", cursor);
        r = r < 0 ? r : api_ask(client, "GET", buf_text(&url), NULL, &page, reterr);
        json_decref(last);
        buf_finish(&url);
        if (r == 0) {
            json_array_extend(to, json_object_get(page, "items"));
            cursor = json_string_value(json_object_get(page, "next_cursor"));
            cursor = cursor && *cursor ? cursor : NULL;
        }
    }
    json_decref(r == 0 ? page : NULL);
    return r;
}

static int fetch_of(struct fetch_client *client, const char *what, const json_t *app, json_t *to,
                    struct fn_error *reterr)
{
    struct buf path = BUF_INIT(0);
    int r = buf_printf(&path, "/v2/%s?" PAGE "&app_id=%s", what,
                       json_string_value(json_object_get(app, "id")));

    r = r < 0 ? r : fetch_list(client, buf_text(&path), to, reterr);
    buf_finish(&path);
    return r;
}

/* To the functions that they belong to. */
static void deal_triggers(json_t *fns, json_t *triggers)
{
    size_t i, k;
    json_t *fn, *trigger;

    json_array_foreach(fns, i, fn) {
        json_t *own = json_array();

        json_array_foreach(triggers, k, trigger) {
            if (json_equal(json_object_get(trigger, "fn_id"), json_object_get(fn, "id"))) {
                json_array_append(own, trigger);
            }
        }
        json_object_set_new(fn, "triggers", own);
    }
}

static int fetch_app(struct fetch_client *client, json_t *app, struct fn_error *reterr)
{
    json_t *triggers = json_array();
    json_t *fns = json_array();
    int r = fetch_of(client, "fns", app, fns, reterr);

    r = r < 0 ? r : fetch_of(client, "triggers", app, triggers, reterr);
    deal_triggers(fns, triggers);
    json_decref(triggers);
    json_object_set_new(app, "functions", fns);
    tidy(app);
    return r;
}

int api_tree_of_node(struct fetch_client *client, json_t **ret, struct fn_error *reterr)
{
    json_t *apps = json_array();
    json_t *app;
    size_t i;
    int r = fetch_list(client, "/v2/apps?" PAGE, apps, reterr);

    json_array_foreach(apps, i, app) {
        r = r < 0 ? r : fetch_app(client, app, reterr);
    }
    if (r < 0) {
        json_decref(apps);
        return r;
    }
    *ret = apps;
    return 0;
}

/* ---- a file ---------------------------------------------------------------------------------- */

/* As the API would show it, but for what a file has not. */
static json_t *item_of(int written, struct buf *text)
{
    json_t *item = written < 0 ? NULL : api_json_read(buf_text(text), text->len);

    buf_finish(text);
    json_object_del(item, "id");
    return item;
}

static json_t *tree_of_fn(const struct config_fn *f)
{
    struct buf text = BUF_INIT(0);
    json_t *fn = item_of(fn_def_to_json(&f->fn, &text), &text);
    json_t *triggers = json_array();

    for (uint32_t i = 0; i < f->n_triggers; i++) {
        json_array_append_new(triggers, item_of(trigger_to_json(&f->triggers[i].trigger, &text),
                                                &text));
    }
    json_object_set_new(fn, "triggers", triggers);
    return fn;
}

json_t *api_tree_of_file(const struct config *c)
{
    json_t *apps = json_array();

    for (uint32_t i = 0; i < c->n_apps; i++) {
        struct buf text = BUF_INIT(0);
        json_t *app = item_of(app_to_json(&c->apps[i].app, &text), &text);
        json_t *fns = json_array();

        for (uint32_t k = 0; k < c->apps[i].n_fns; k++) {
            json_array_append_new(fns, tree_of_fn(&c->apps[i].fns[k]));
        }
        json_object_set_new(app, "functions", fns);
        tidy(app);
        json_array_append_new(apps, app);
    }
    return apps;
}

/* ---- use ------------------------------------------------------------------------------------- */

json_t *api_tree_find(const json_t *list, const char *name)
{
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item) {
        if (strcmp(json_string_value(json_object_get(item, "name")), name) == 0) {
            return item;
        }
    }
    return NULL;
}

void api_tree_keep(json_t *tree, char *const *only, int n)
{
    for (size_t i = json_array_size(tree); n > 0 && i-- > 0;) {
        const char *name = json_string_value(json_object_get(json_array_get(tree, i), "name"));
        bool wanted = false;

        for (int k = 0; k < n; k++) {
            wanted = wanted || strcmp(only[k], name) == 0;
        }
        if (!wanted) {
            json_array_remove(tree, i);
        }
    }
}

/* ---- YAML ------------------------------------------------------------------------------------ */

static int print_item(struct buf *out, const json_t *item, int indent);

static int print_list(struct buf *out, const char *key, const json_t *list, int indent)
{
    size_t i;
    json_t *item;
    int r = buf_printf(out, "%*s%s:\n", indent, "", key);

    json_array_foreach(list, i, item) {
        r = r < 0 ? r : buf_printf(out, "%*s- ", indent + 2, "");
        r = r < 0 ? r : print_item(out, item, indent + 4);
    }
    return r;
}

static int print_map(struct buf *out, const char *key, const json_t *map, int indent)
{
    const bool raw = strcmp(key, "annotations") == 0;
    int r = buf_printf(out, "%*s%s:\n", indent, "", key);

    for (void *i = json_object_iter((json_t *)(uintptr_t)map); i && r == 0;
         i = json_object_iter_next((json_t *)(uintptr_t)map, i)) {
        r = buf_printf(out, "%*s", indent + 2, "");
        r = r < 0 ? r : api_json_print_key(json_object_iter_key(i), indent + 2, out);
        r = r < 0 ? r : buf_add_str(out, " ");
        r = r < 0 ? r : raw ? api_json_print(json_string_value(json_object_iter_value(i)), out)
                            : api_json_print_value(json_object_iter_value(i), out);
        r = r < 0 ? r : buf_add_str(out, "\n");
    }
    return r;
}

static int print_member(struct buf *out, const char *key, const json_t *v, int indent)
{
    int r;

    if (json_is_array(v)) {
        return print_list(out, key, v, indent);
    }
    if (json_is_object(v)) {
        return print_map(out, key, v, indent);
    }
    r = buf_printf(out, "%*s%s: ", indent, "", key);
    r = r < 0 ? r : api_json_print_value(v, out);
    return r < 0 ? r : buf_add_str(out, "\n");
}

/* Behind "- ", so that the first member stands there. */
static int print_item(struct buf *out, const json_t *item, int indent)
{
    static const char *const order[] = { "name",         "source", "image",       "memory",
                                         "timeout",      "idle_timeout", "syslog_url", "config",
                                         "annotations",  "triggers", "functions" };
    int r = 0;
    int at = 0;

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]) && r == 0; i++) {
        const json_t *v = json_object_get(item, order[i]);

        if (v) {
            r = print_member(out, order[i], v, at);
            at = indent;
        }
    }
    return r;
}

int api_tree_print(const json_t *tree, struct buf *out)
{
    return json_array_size(tree) == 0 ? buf_add_str(out, "apps: []\n")
                                      : print_list(out, "apps", tree, 0);
}
