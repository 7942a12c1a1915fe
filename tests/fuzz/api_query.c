/* What clients of the management API write behind its address. The first byte says what the rest
 * is:
 *
 *   q   a query: its page, cursor and name      p   a path: which routes it is of
 *   n   a name, and behind a line end a function: the cursor that is made of them
 *
 * A cursor leads back to what it was made of, or is refused where that is no UTF-8; and no value is
 * longer than the query that it came from. */
#include "fuzz.h"

#include <api/api_int.h>
#include <base/utf8.h>

#define MEMORY_MAX (8u << 20)

/* A page of a query, in a call that has nothing else. */
static int read_page(struct api_call *c, const char *query)
{
    struct api_request rq = { .query = query };
    struct fn_error e = ERR_INIT;
    int r;

    c->rq = &rq;
    r = page_read(c, &e);
    c->rq = NULL;
    fuzz_expect(r == 0 || (r == FN_E_INVALID && e.http_status == 400 && e.msg[0]), "%d %s", r,
                e.msg);
    return r;
}

static void read_query(struct api_call *c, struct fuzz_in in)
{
    static const char *const names[] = { "app_id", "fn_id", "name", "" };
    char *query = fuzz_text(in.at, in.len);

    if (read_page(c, query) == 0) {
        const struct store_filter *f = &c->op.filter;

        fuzz_expect(f->limit >= 1 && f->limit <= STORE_PAGE_MAX, "%u a page", f->limit);
        fuzz_expect(strlen(f->after) + strlen(f->name) <= in.len, "longer than its query");
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = query_get(&c->arena, query, names[i]);

        fuzz_expect(value && strlen(value) <= in.len, "%s", names[i]);
    }
    free(query);
}

static void read_path(struct api_call *c, struct fuzz_in in)
{
    char *path = fuzz_text(in.at, in.len);

    for (const struct api_route *a = api_routes; a->method; a++) {
        const char *params[API_PARAMS_MAX] = { 0 };
        bool is = route_matches(a->pattern, path, &c->arena, params);

        fuzz_expect(is == route_matches(a->pattern, path, NULL, NULL), "%s is of %s", path,
                    a->pattern);
        for (size_t i = 0; is && i < API_PARAMS_MAX && params[i]; i++) {
            fuzz_expect(strlen(params[i]) <= in.len, "%s", params[i]);
        }
    }
    free(path);
}

static void leads_back(struct api_call *c, const char *query, const char *name, const char *fn_id)
{
    bool is_text = utf8_is_valid(name) && utf8_is_valid(fn_id);

    fuzz_expect(read_page(c, query) == (is_text ? 0 : FN_E_INVALID), "%s", query);
    if (!is_text) {
        return;
    }
    fuzz_expect(strcmp(c->op.filter.after, name) == 0, "%s: %s", query, c->op.filter.after);
    fuzz_expect(!*fn_id || !*name || strcmp(c->op.filter.after_fn, fn_id) == 0, "%s: %s", query,
                c->op.filter.after_fn);
}

static void read_cursor(struct api_call *c, struct fuzz_in in)
{
    static const char key[] = "cursor=";
    struct fuzz_in first = fuzz_line(&in);
    char *name = fuzz_text(first.at, first.len), *fn_id = fuzz_text(in.at, in.len);
    const char *cursor = page_cursor(&c->arena, name, *fn_id ? fn_id : NULL);
    char *query = malloc(sizeof(key) + strlen(cursor));

    if (!query) {
        abort();
    }
    sprintf(query, "%s%s", key, cursor);
    leads_back(c, query, name, fn_id);
    free(query);
    free(fn_id);
    free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_in in = fuzz_begin(data, len);
    char mode = fuzz_mode(&in, "qpn");
    struct api_call c = { 0 };

    arena_init(&c.arena, MEMORY_MAX);
    if (mode == 'q') {
        read_query(&c, in);
    } else if (mode == 'p') {
        read_path(&c, in);
    } else {
        read_cursor(&c, in);
    }
    arena_finish(&c.arena);
    return 0;
}
