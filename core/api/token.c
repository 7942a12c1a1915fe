/* Tokens: who may do what, where `api.tokens` names somebody.
 *
 * A token is a secret that its holder sends as it is; the configuration has its SHA-256. All of
 * them are compared, and whole, so that time says nothing about them. */
#include <api/api_int.h>

#include <ctype.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SCHEME       "Bearer "
#define NAME_MAX_LEN 63
#define APPS_MAX     64u /* patterns of one token */
#define RULE                                                                                       \
    "a name, read, deploy or admin, 64 hex digits of the token's SHA-256, and perhaps names "      \
    "of apps, such as shop or shop-*"

struct token {
    char name[NAME_MAX_LEN + 1];
    enum api_role role;
    unsigned char hash[TOKEN_HASH_BYTES];
    const char *apps; /* patterns between spaces, in its text; "": of all */
};

/* Behind it is the end, or a space. */
static bool parse_hash(const char *text, unsigned char *ret)
{
    char hex[2 * TOKEN_HASH_BYTES + 1];
    size_t n = strspn(text, "0123456789abcdefABCDEF");

    snprintf(hex, sizeof(hex), "%s", text);
    return n == 2 * TOKEN_HASH_BYTES && strchr(" ", text[n]) &&
           OPENSSL_hexstr2buf_ex(ret, TOKEN_HASH_BYTES, NULL, hex, '\0') == 1;
}

static bool parse_role(const char *text, size_t len, enum api_role *ret)
{
    static const char *const words[] = { "read", "deploy", "admin" };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strlen(words[i]) == len && memcmp(words[i], text, len) == 0) {
            *ret = (enum api_role)i;
            return true;
        }
    }
    return false;
}

/* Patterns of the shell, of what names of apps are made of. */
static bool check_apps(const char *text)
{
    uint32_t n = 0;

    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        size_t len = strcspn(text, " ");

        for (size_t i = 0; i < len; i++) {
            unsigned char c = (unsigned char)text[i];

            if (c < 0x80 && !isalnum(c) && !strchr("_-*?[]!", c)) {
                return false;
            }
        }
        text += len;
        n++;
    }
    return n <= APPS_MAX;
}

/* "<name> <role> <hash> <app> ..." */
static bool token_parse(const char *text, struct token *ret)
{
    size_t name_len = strcspn(text, " ");
    const char *role = text + name_len + strspn(text + name_len, " ");
    size_t role_len = strcspn(role, " ");
    const char *hash = role + role_len + strspn(role + role_len, " ");

    if (name_len == 0 || name_len > NAME_MAX_LEN) {
        return false;
    }
    snprintf(ret->name, sizeof(ret->name), "%.*s", (int)name_len, text);
    if (!parse_role(role, role_len, &ret->role) || !parse_hash(hash, ret->hash)) {
        return false;
    }
    ret->apps = hash + 2 * TOKEN_HASH_BYTES;
    ret->apps += strspn(ret->apps, " ");
    return check_apps(ret->apps);
}

int api_check_token(const char *text, struct fn_error *reterr)
{
    struct token t;

    return token_parse(text, &t) ? 0 : err_set(reterr, FN_E_INVALID, "%s", RULE);
}

/* The last of two would count, whatever the first one says. */
int api_check_twin(const struct fn_strlist *texts, uint64_t i, struct fn_error *reterr)
{
    struct token own, other;

    for (uint64_t k = 0; k < i && token_parse(texts->items[i], &own); k++) {
        if (!token_parse(texts->items[k], &other)) {
            continue;
        }
        if (strcmp(own.name, other.name) == 0) {
            return err_set(reterr, FN_E_INVALID, "\"%s\" is defined twice; expected each name once",
                           own.name);
        }
        if (memcmp(own.hash, other.hash, sizeof(own.hash)) == 0) {
            return err_set(reterr, FN_E_INVALID, "the hash of \"%s\" is that of \"%s\"; expected "
                           "each hash once", own.name, other.name);
        }
    }
    return 0;
}

/* Of the one that was sent; false: there is none. */
static bool token_hash(const char *authorization, unsigned char ret[TOKEN_HASH_BYTES])
{
    if (!authorization || strncasecmp(authorization, SCHEME, strlen(SCHEME)) != 0) {
        return false;
    }
    authorization += strlen(SCHEME);
    SHA256((const unsigned char *)authorization, strlen(authorization), ret);
    return true;
}

/* Whose it is, or false. */
static bool token_find(const struct fn_strlist *texts, const unsigned char *hash,
                       struct token *ret)
{
    struct token t;
    bool found = false;

    for (uint64_t i = 0; i < texts->n; i++) {
        if (token_parse(texts->items[i], &t) &&
            CRYPTO_memcmp(t.hash, hash, sizeof(t.hash)) == 0) {
            *ret = t;
            found = true;
        }
    }
    return found;
}

/* A copy of its patterns for the operation: options may be others when the store looks at them. */
static int bind_to(struct api_call *c, const char *apps)
{
    const char **list = arena_alloc(&c->arena, (APPS_MAX + 1) * sizeof(*list));
    uint32_t n = 0;

    for (; list && *apps; apps += strspn(apps, " ")) {
        size_t len = strcspn(apps, " ");

        list[n] = arena_strndup(&c->arena, apps, len);
        if (!list[n++]) {
            return FN_E_EXHAUSTED;
        }
        apps += len;
    }
    if (!list) {
        return FN_E_EXHAUSTED;
    }
    list[n] = NULL;
    c->op.sees = list;
    return 0;
}

int token_check_app(const struct api_call *c, const char *name, struct fn_error *reterr)
{
    return store_sees(&c->op, name)
               ? 0
               : err_set_http(reterr, FN_E_PERMISSION, 403, FN_BLAME_USER,
                              "API1110 the token %s may not make an app of this name; expected one "
                              "that api.tokens has behind it", c->who);
}

int token_check_all(const struct api_call *c, struct fn_error *reterr)
{
    return c->op.sees ? err_set_http(reterr, FN_E_PERMISSION, 403, FN_BLAME_USER,
                                     "API1110 the token %s is for some apps; expected one for all "
                                     "of them", c->who)
                      : 0;
}

/* Whose token came with the request: 1; nobody's: 0; or FN_E_EXHAUSTED with 429. */
static int token_holder(struct api_call *c, struct token *ret, struct fn_error *reterr)
{
    unsigned char hash[TOKEN_HASH_BYTES];
    bool found;
    int r;

    if (!token_hash(c->rq->authorization, hash)) {
        return 0;
    }
    r = limit_guess(c, hash, reterr);
    if (r < 0) {
        return r;
    }
    found = token_find(&c->api->options->tokens, hash, ret);
    limit_guessed(c, hash, found);
    return found;
}

/* Who sends no token, or a wrong one. */
static int check_nobody(struct api_call *c, struct fn_error *reterr)
{
    int r = limit_request(c, NULL, reterr);

    if (r < 0 || (c->route->needs == ROLE_READ && c->api->options->read_without_token)) {
        return r;
    }
    return err_set_http(reterr, FN_E_UNAUTHENTICATED, 401, FN_BLAME_USER,
                        "API1108 this needs one of api.tokens; expected Authorization: Bearer "
                        "<token>");
}

static int check_holder(struct api_call *c, const struct token *t, struct fn_error *reterr)
{
    enum api_role needs = c->route->needs;
    int r;

    c->who = arena_strdup(&c->arena, t->name);
    if (!c->who || (*t->apps && bind_to(c, t->apps) < 0)) {
        return err_set(reterr, FN_E_EXHAUSTED, "API1101 out of memory");
    }
    r = limit_request(c, t->hash, reterr);
    if (r < 0 || t->role >= needs) {
        return r;
    }
    return err_set_http(reterr, FN_E_PERMISSION, 403, FN_BLAME_USER,
                        "API1109 the token %s may not do this; expected one with the role %s",
                        t->name, needs == ROLE_ADMIN ? "admin" : "deploy");
}

int token_check(struct api_call *c, struct fn_error *reterr)
{
    struct token t;
    int r;

    if (c->rq->trusted) {
        return 0;
    }
    if (c->api->options->tokens.n == 0) {
        return limit_request(c, NULL, reterr);
    }
    r = token_holder(c, &t, reterr);
    if (r < 0) {
        return r;
    }
    return r ? check_holder(c, &t, reterr) : check_nobody(c, reterr);
}
