/* The requests of driver-docker, a row for each, and no other. */
#include "broker.h"
#include "engine_json.h"
#include "network_body.h"
#include "rule_words.h"

#include <inttypes.h>
#include <stdlib.h>

#define QUERY_KEYS_MAX 3

struct key {
    const char *name;
    const char *is; /* the only value, or: */
    /* What the engine gets of a value, NULL = refused; may set fields of rq. */
    const char *(*take)(const struct broker_config *c, struct arena *a, struct request *rq,
                        const char *value);
};

struct row {
    const char *method, *before, *after;
    enum subject subject;
    struct key keys[QUERY_KEYS_MAX]; /* each of them is there, once */
    enum body body;
    bool (*open)(const struct broker_config *c); /* NULL = always */
    bool endless;                                /* the answer lasts as long as the client */
    bool auth;                                   /* credentials of a registry go with it */
    int64_t silence_ms;                          /* 0 = ANSWER_MS */
};

/* ---- values ---------------------------------------------------------------------------------- */

#define DIGITS  "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS

static bool is_made_of(const char *text, const char *set, size_t max)
{
    size_t n = strlen(text);

    return n > 0 && n <= max && strspn(text, set) == n;
}

static bool is_container(const char *text)
{
    return is_made_of(text, LETTERS "_.-", NAME_BYTES_MAX) && *text != '.' && *text != '-';
}

/* Also a part of a path: no segment is empty or made of dots. */
static bool is_image(const char *text)
{
    if (!is_made_of(text, LETTERS "_.-/:@", IMAGE_BYTES_MAX)) {
        return false;
    }
    for (const char *p = text;; p++) {
        size_t n = strcspn(p, "/");

        if (n == strspn(p, ".")) {
            return false;
        }
        p += n;
        if (!*p) {
            return true;
        }
    }
}

bool table_image_ok(const struct broker_config *c, const char *image)
{
    bool ok = c->images.n == 0;

    for (size_t i = 0; i < c->images.n && !ok; i++) {
        const char *prefix = c->images.items[i];
        size_t n = strlen(prefix);

        ok = strncmp(image, prefix, n) == 0 && (prefix[n - 1] == '/' || strchr("/:@", image[n]));
    }
    return ok && is_image(image);
}

static const char *take_name(const struct broker_config *c, struct arena *a, struct request *rq,
                             const char *value)
{
    (void)c;
    (void)a;
    rq->created = value;
    return is_container(value) ? value : NULL;
}

static const char *take_image(const struct broker_config *c, struct arena *a, struct request *rq,
                              const char *value)
{
    (void)a;
    (void)rq;
    return table_image_ok(c, value) ? value : NULL;
}

static const char *take_tag(const struct broker_config *c, struct arena *a, struct request *rq,
                            const char *value)
{
    (void)c;
    (void)a;
    (void)rq;
    return is_made_of(value, LETTERS "_.-:", 128) ? value : NULL; /* or a digest */
}

static const char *take_time(const struct broker_config *c, struct arena *a, struct request *rq,
                             const char *value)
{
    (void)c;
    (void)a;
    (void)rq;
    return is_made_of(value, DIGITS, 20) ? value : NULL;
}

static bool are_filters(const json_t *filters)
{
    static const char *const names[] = { "type", "event", "label", NULL };
    const char *key;
    json_t *list, *text;
    size_t i;

    json_object_foreach((json_t *)(uintptr_t)filters, key, list)
    {
        if (!json_is_array(list)) {
            return false;
        }
        json_array_foreach(list, i, text)
        {
            if (!json_is_string(text)) {
                return false;
            }
        }
    }
    return has_only(filters, names);
}

/* {"type": ["image"]}: names of images and what became of them, of whomever. An image may be
 * inspected by its name anyhow. */
static bool is_of_images(const json_t *filters)
{
    const json_t *types = json_object_get(filters, "type");
    const char *type = json_string_value(json_array_get(types, 0));

    return json_object_size(filters) == 1 && json_array_size(types) == 1 && type &&
           strcmp(type, "image") == 0;
}

/* Whatever is asked for, of the owner's containers: the engine wants all labels of the list. */
static const char *take_filters(const struct broker_config *c, struct arena *a, struct request *rq,
                                const char *value)
{
    json_t *filters = json_loads(value, JSON_REJECT_DUPLICATES, NULL);
    json_t *labels = json_object_get(filters, "label");
    const char *ret = NULL;
    char *text;

    (void)rq;
    if (are_filters(filters) && labels &&
        json_array_append_new(labels, json_sprintf(API_OWNER_LABEL "=%s", c->owner)) == 0) {
        text = json_dumps(filters, JSON_COMPACT);
        ret = text ? arena_strdup(a, text) : NULL;
        free(text);
    }
    json_decref(filters);
    return ret;
}

static const char *take_event_filters(const struct broker_config *c, struct arena *a,
                                      struct request *rq, const char *value)
{
    json_t *filters = json_loads(value, JSON_REJECT_DUPLICATES, NULL);
    bool of_images = is_of_images(filters);

    json_decref(filters);
    return of_images ? "{\"type\":[\"image\"]}" : take_filters(c, a, rq, value);
}

/* ---- the table ------------------------------------------------------------------------------- */

static bool may_load(const struct broker_config *c)
{
    return c->load;
}

static bool may_clean(const struct broker_config *c)
{
    return c->clean;
}

static const struct row rows[] = {
    { .method = "GET", .before = "/_ping" },
    { .method = "GET", .before = "/version" },
    { .method = "GET", .before = "/info" },
    { .method = "GET", .before = "/containers/json",
      .keys = { { "all", "1", NULL }, { "filters", NULL, take_filters } } },
    { .method = "GET", .before = "/events", .endless = true,
      .keys = { { "since", NULL, take_time }, { "filters", NULL, take_event_filters } } },
    { .method = "POST", .before = "/containers/create", .body = BODY_CREATE,
      .keys = { { "name", NULL, take_name } } },
    { .method = "POST", .before = "/containers/", .after = "/start", .subject = OF_CONTAINER },
    { .method = "POST", .before = "/containers/", .after = "/pause", .subject = OF_CONTAINER },
    { .method = "POST", .before = "/containers/", .after = "/unpause", .subject = OF_CONTAINER },
    { .method = "POST", .before = "/containers/", .after = "/attach", .subject = OF_CONTAINER,
      .endless = true,
      .keys = { { "stream", "1", NULL }, { "stdout", "1", NULL }, { "stderr", "1", NULL } } },
    { .method = "GET", .before = "/containers/", .after = "/json", .subject = OF_CONTAINER },
    { .method = "DELETE", .before = "/containers/", .after = "", .subject = OF_CONTAINER,
      .keys = { { "force", "1", NULL }, { "v", "1", NULL } } },
    { .method = "GET", .before = "/images/", .after = "/json", .subject = OF_IMAGE },
    { .method = "POST", .before = "/images/create", .auth = true, .silence_ms = PULL_MS,
      .keys = { { "fromImage", NULL, take_image }, { "tag", NULL, take_tag } } },
    { .method = "POST", .before = "/images/load", .body = BODY_TAR, .open = may_load,
      .silence_ms = PULL_MS, .keys = { { "quiet", "1", NULL } } },
    { .method = "GET", .before = "/system/df", .open = may_clean,
      .keys = { { "type", "image", NULL } } },
    { .method = "DELETE", .before = "/images/", .after = "", .subject = OF_IMAGE,
      .open = may_clean },
    { .method = "GET", .before = "/networks/" NETWORK_NAME },
    { .method = "POST", .before = "/networks/create", .body = BODY_NETWORK },
};

/* ---- the judgement --------------------------------------------------------------------------- */

static int hex_of(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c | 0x20) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* NULL = broken, or with a byte that no value of ours has. */
static char *decode(struct arena *a, const char *text, size_t n)
{
    char *ret = arena_strndup(a, text, n);
    char *to = ret;

    for (const char *p = ret; ret && *p; p++) {
        char byte = *p;

        if (byte == '+') {
            return NULL; /* a space in a query, itself in a path */
        }
        if (byte == '%') {
            if (hex_of(p[1]) < 0 || hex_of(p[2]) < 0) {
                return NULL;
            }
            byte = (char)(hex_of(p[1]) << 4 | hex_of(p[2]));
            p += 2;
        }
        if (byte < 0x20 || byte > 0x7e) {
            return NULL;
        }
        *to++ = byte;
    }
    if (ret) {
        *to = '\0';
    }
    return ret;
}

/* One "name=value" of the query; the engine's is added to `to`. */
static bool take_pair(const struct broker_config *c, struct arena *a, struct request *rq,
                      const char *pair, size_t n, bool *seen, struct buf *to)
{
    const char *mark = memchr(pair, '=', n);
    const char *value = mark ? decode(a, mark + 1, n - (size_t)(mark + 1 - pair)) : NULL;
    char escaped[4096];

    for (size_t i = 0; value && i < QUERY_KEYS_MAX && rq->row->keys[i].name; i++) {
        const struct key *k = &rq->row->keys[i];

        if (strlen(k->name) == (size_t)(mark - pair) &&
            strncmp(k->name, pair, strlen(k->name)) == 0) {
            value = seen[i]                              ? NULL
                    : k->take                            ? k->take(c, a, rq, value)
                    : strcmp(value, k->is) == 0 ? value : NULL;
            seen[i] = true;
            return value && engine_escape(value, escaped, sizeof(escaped)) == 0 &&
                   buf_printf(to, "%s%s=%s", to->len > 0 ? "&" : "", k->name, escaped) == 0;
        }
    }
    return false;
}

static bool take_query(const struct broker_config *c, struct arena *a, struct request *rq,
                       const char *query)
{
    struct buf made = BUF_INIT(LINE_BYTES_MAX);
    bool seen[QUERY_KEYS_MAX] = { false };
    bool ok = true;

    while (ok && query && *query) {
        size_t n = strcspn(query, "&");

        ok = take_pair(c, a, rq, query, n, seen, &made);
        query += n + (query[n] == '&');
    }
    for (size_t i = 0; i < QUERY_KEYS_MAX && rq->row->keys[i].name; i++) {
        ok = ok && seen[i];
    }
    rq->query = ok && made.len > 0 ? arena_strndup(a, made.data, made.len) : "";
    buf_finish(&made);
    return ok && rq->query;
}

/* The path is the row's; *ret is the subject, "" = it has none. */
static bool is_path_of(struct arena *a, const struct row *row, const char *path, const char **ret)
{
    size_t before = strlen(row->before), after = row->after ? strlen(row->after) : 0;
    size_t n = strlen(path);

    *ret = "";
    if (row->subject == OF_ENGINE) {
        return strcmp(path, row->before) == 0;
    }
    if (n <= before + after || strncmp(path, row->before, before) != 0 ||
        strcmp(path + n - after, row->after) != 0) {
        return false;
    }
    *ret = decode(a, path + before, n - before - after);
    return *ret && (row->subject == OF_IMAGE ? is_image(*ret) : is_container(*ret));
}

int table_judge(const struct broker_config *c, struct arena *arena,
                const struct parsed_request *asked, struct request *ret, struct refusal *why)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        const char *name;

        if (strcmp(row->method, asked->method) != 0 ||
            !is_path_of(arena, row, asked->path, &name)) {
            continue;
        }
        *ret = (struct request){ .row = row,
                                 .method = row->method,
                                 .body = row->body,
                                 .silence_ms = row->endless      ? 0
                                               : row->silence_ms ? row->silence_ms
                                                                 : ANSWER_MS,
                                 .before = row->before,
                                 .after = row->after ? row->after : "",
                                 .subject = row->subject,
                                 .name = name };
        if (row->open && !row->open(c)) {
            refuse(why, 403, "%s %s is not open: the broker was started without its option",
                   row->method, row->before);
            return FN_E_PERMISSION;
        }
        if (!take_query(c, arena, ret, asked->query)) {
            refuse(why, 403, "%s %s: the query is none that driver-docker makes", row->method,
                   row->before);
            return FN_E_PERMISSION;
        }
        ret->auth = row->auth ? headers_get(&asked->headers, "X-Registry-Auth") : NULL;
        return 0;
    }
    refuse(why, 403, "%s %.60s is no request of driver-docker", asked->method, asked->path);
    return FN_E_PERMISSION;
}

int table_head(struct buf *to, const struct request *rq, const char *name, uint64_t body_bytes)
{
    int r = buf_printf(to, "%s %s%s%s%s%s HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n",
                       rq->method, rq->before, name, rq->after, *rq->query ? "?" : "", rq->query);

    if (r == 0 && rq->auth) {
        r = buf_printf(to, "X-Registry-Auth: %s\r\n", rq->auth);
    }
    if (r == 0 && rq->body != BODY_NONE) {
        r = buf_printf(to, "Content-Type: application/%s\r\n",
                       rq->body == BODY_TAR ? "x-tar" : "json");
    }
    if (r == 0 && *rq->method == 'P') {
        r = buf_printf(to, "Content-Length: %" PRIu64 "\r\n", body_bytes);
    }
    return r == 0 ? buf_add_str(to, "\r\n") : r;
}
