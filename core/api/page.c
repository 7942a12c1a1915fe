/* Queries and cursors. A cursor is the last name of its page, of a trigger also its function behind
 * a NUL, in base64url without padding. Go Fn's has the name alone: its nodes read ours, and we
 * theirs. */
#include <api/api_int.h>

#include <base/percent.h>
#include <base/utf8.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define PER_PAGE_DEFAULT 30
#define BEHIND_ALL_IDS   "~" /* a cursor of Go Fn's has no function: those of its name were shown */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const char *query_get(struct arena *arena, const char *query, const char *name)
{
    size_t name_len = strlen(name);
    const char *value;

    for (const char *p = query; p && *p; p += *p == '&') {
        size_t len = strcspn(p, "&");

        if (len >= name_len && memcmp(p, name, name_len) == 0 &&
            (len == name_len || p[name_len] == '=')) {
            size_t skip = len > name_len ? name_len + 1 : len;

            value = percent_decode(arena, p + skip, len - skip, true);
            return value ? value : "";
        }
        p += len;
    }
    return "";
}

/* A database whose texts are UTF-8 takes no others, and lets whoever shares the transaction pay. */
int query_check(struct arena *arena, const char *query, struct fn_error *reterr)
{
    for (const char *p = query; p && *p; p += *p == '&') {
        size_t len = strcspn(p, "&");
        const char *text = percent_decode(arena, p, len, true);

        if (text && !utf8_is_valid(text)) {
            return err_set_http(reterr, FN_E_INVALID, 400, FN_BLAME_USER, "Query malformed");
        }
        p += len;
    }
    return 0;
}

static char *decode64(struct arena *arena, const char *text, size_t *ret_len)
{
    size_t len = strlen(text), pad = (4 - len % 4) % 4;
    char *padded = arena_join(arena, text, pad == 1 ? "=" : "==", (char *)NULL);
    char *to = arena_alloc(arena, len + pad + 1);

    if (!padded || !to || pad == 3 || strspn(text, digits) != len) {
        return NULL;
    }
    for (char *p = padded; (p = strpbrk(p, "-_"));) {
        *p = *p == '-' ? '+' : '/';
    }
    *ret_len = (size_t)EVP_DecodeBlock((unsigned char *)to, (unsigned char *)padded,
                                       (int)(len + pad)) - pad;
    to[*ret_len] = '\0'; /* bits of the last digit that are of no byte may be anything */
    return to;
}

static char *encode64(struct arena *arena, const char *data, size_t len)
{
    char *to = arena_alloc(arena, (len + 2) / 3 * 4 + 1);

    if (to) {
        EVP_EncodeBlock((unsigned char *)to, (const unsigned char *)data, (int)len);
    }
    for (char *p = to; p && (p = strpbrk(p, "+/="));) {
        *p = *p == '+' ? '-' : *p == '/' ? '_' : '\0';
    }
    return to;
}

static uint32_t per_page(const char *text)
{
    char *end;
    long n = strtol(text, &end, 10);

    return !*text || *end || n <= 0 ? PER_PAGE_DEFAULT
           : n > (long)STORE_PAGE_MAX ? STORE_PAGE_MAX : (uint32_t)n;
}

int page_read(struct api_call *c, struct fn_error *reterr)
{
    struct store_filter *f = &c->op.filter;
    const char *cursor = query_get(&c->arena, c->rq->query, "cursor");
    const char *name = "";
    size_t len = 0;

    *f = (struct store_filter){ .app_id = "", .fn_id = "", .after = "", .after_fn = "" };
    f->limit = per_page(query_get(&c->arena, c->rq->query, "per_page"));
    f->name = query_get(&c->arena, c->rq->query, "name");
    if (!*cursor) {
        return 0;
    }
    name = decode64(&c->arena, cursor, &len);
    f->after_fn = name && strlen(name) < len ? name + strlen(name) + 1 : BEHIND_ALL_IDS;
    if (!name || !utf8_is_valid(name) || !utf8_is_valid(f->after_fn)) {
        return err_set_http(reterr, FN_E_INVALID, 400, FN_BLAME_USER, "Invalid cursor");
    }
    f->after = name;
    return 0;
}

const char *page_cursor(struct arena *arena, const char *name, const char *fn_id)
{
    size_t len = strlen(name);
    size_t more = fn_id ? strlen(fn_id) + 1 : 0;
    char *text = arena_alloc(arena, len + more + 1);

    if (!text) {
        return NULL;
    }
    memcpy(text, name, len);
    if (fn_id) {
        memcpy(text + len + 1, fn_id, more - 1);
    }
    return encode64(arena, text, len + more);
}
