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
#define RULE         "a name, read, deploy or admin, and 64 hex digits of the token's SHA-256"

struct token {
    char name[NAME_MAX_LEN + 1];
    enum api_role role;
    unsigned char hash[SHA256_DIGEST_LENGTH];
};

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = isxdigit((unsigned char)c) ? strchr(digits, tolower((unsigned char)c)) : NULL;

    return at ? (int)(at - digits) : -1;
}

static bool parse_hash(const char *text, unsigned char *ret)
{
    for (size_t i = 0; i < SHA256_DIGEST_LENGTH; i++) {
        int high = hex_digit(text[2 * i]);
        int low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);

        if (low < 0) {
            return false;
        }
        ret[i] = (unsigned char)(high << 4 | low);
    }
    return text[2 * SHA256_DIGEST_LENGTH] == '\0';
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

/* "<name> <role> <hash>" */
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
    return parse_role(role, role_len, &ret->role) && parse_hash(hash, ret->hash);
}

int api_check_token(const char *text, struct fn_error *reterr)
{
    struct token t;

    return token_parse(text, &t) ? 0 : err_set(reterr, FN_E_INVALID, "%s", RULE);
}

/* The one that was sent, or false. */
static bool token_find(const struct fn_strlist *texts, const char *authorization,
                       struct token *ret)
{
    unsigned char hash[SHA256_DIGEST_LENGTH];
    struct token t;
    bool found = false;

    if (!authorization || strncasecmp(authorization, SCHEME, strlen(SCHEME)) != 0) {
        return false;
    }
    authorization += strlen(SCHEME);
    SHA256((const unsigned char *)authorization, strlen(authorization), hash);
    for (uint64_t i = 0; i < texts->n; i++) {
        if (token_parse(texts->items[i], &t) &&
            CRYPTO_memcmp(t.hash, hash, sizeof(hash)) == 0) {
            *ret = t;
            found = true;
        }
    }
    return found;
}

int token_check(struct api_call *c, struct fn_error *reterr)
{
    const struct api_options *o = c->api->options;
    enum api_role needs = c->route->needs;
    struct token t;

    if (o->tokens.n == 0 || c->rq->trusted || (needs == ROLE_READ && o->read_without_token)) {
        return 0;
    }
    if (!token_find(&o->tokens, c->rq->authorization, &t)) {
        return err_set_http(reterr, FN_E_UNAUTHENTICATED, 401, FN_BLAME_USER,
                            "API1108 this needs one of api.tokens; expected Authorization: Bearer "
                            "<token>");
    }
    c->who = arena_strdup(&c->arena, t.name);
    return t.role >= needs ? 0
                           : err_set_http(reterr, FN_E_PERMISSION, 403, FN_BLAME_USER,
                                          "API1109 the token %s may not do this; expected one with "
                                          "the role %s",
                                          t.name, needs == ROLE_ADMIN ? "admin" : "deploy");
}
