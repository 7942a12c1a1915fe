/* The parsed credentials of a Docker configuration, looked up by registry, and the headers that
 * are made of them. What a credential helper is asked and answers, too. */
#include "auth.h"
#include "fail.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CONFIG_BYTES_MAX (1024 * 1024)

struct auth {
    json_t *entries; /* host -> entry */
    json_t *helpers; /* host -> name of a program; NULL = none */
    json_t *store;   /* name of a program for all others; NULL = none */
    bool parents;
};

static const char *const hub_names[] = { "index.docker.io", "docker.io", "hub.docker.com",
                                         "registry-1.docker.io", NULL };

int auth_parse(const char *text, struct auth **ret, struct fn_error *reterr)
{
    json_t *root = NULL;
    json_t *entries;
    struct auth *a;

    if (strlen(text) <= CONFIG_BYTES_MAX) {
        root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    }
    if (!json_is_object(root)) {
        json_decref(root);
        return fail_platform(reterr, FN_E_INVALID,
                             "registry credentials: not a JSON object; expected docker's "
                             "config.json, at most 1 MiB");
    }
    entries = json_object_get(root, "auths");
    if (!entries) {
        entries = root;
    }
    a = json_is_object(entries) ? calloc(1, sizeof(*a)) : NULL;
    if (a) {
        a->entries = json_incref(entries);
        a->helpers = json_incref(json_object_get(root, "credHelpers"));
        a->store = json_incref(json_object_get(root, "credsStore"));
        *ret = a;
    }
    json_decref(root);
    return a ? 0
             : fail_platform(reterr, FN_E_INVALID,
                             "registry credentials: \"auths\" is not a JSON object");
}

void auth_allow_parents(struct auth *a)
{
    a->parents = true;
}

void auth_destroy(struct auth *a)
{
    if (a) {
        json_decref(a->entries);
        json_decref(a->helpers);
        json_decref(a->store);
        free(a);
    }
}

/* Host and port of a configured key: scheme and path are left out. */
static void key_host(const char *key, const char **ret_host, size_t *ret_len)
{
    const char *scheme = strstr(key, "://");

    *ret_host = scheme ? scheme + 3 : key;
    *ret_len = strcspn(*ret_host, "/");
}

static bool same_host(const char *key, const char *registry)
{
    const char *host;
    size_t len;

    key_host(key, &host, &len);
    return len == strlen(registry) && strncasecmp(host, registry, len) == 0;
}

static bool is_parent(const char *key, const char *registry)
{
    size_t parent = strlen(registry);
    const char *host;
    size_t len;

    key_host(key, &host, &len);
    return strchr(registry, '.') && len > parent + 1 && host[len - parent - 1] == '.' &&
           strncasecmp(host + len - parent, registry, parent) == 0;
}

static json_t *find_by(const struct auth *a, const char *registry,
                       bool (*fits)(const char *key, const char *registry))
{
    const char *key;
    json_t *entry;

    json_object_foreach (a->entries, key, entry) {
        if (json_is_object(entry) && fits(key, registry)) {
            return entry;
        }
    }
    return NULL;
}

static json_t *find(const struct auth *a, const char *registry)
{
    json_t *entry = find_by(a, registry, same_host);

    return entry || !a->parents ? entry : find_by(a, registry, is_parent);
}

static bool is_hub(const char *registry)
{
    for (const char *const *h = hub_names; *h; h++) {
        if (strcasecmp(*h, registry) == 0) {
            return true;
        }
    }
    return !*registry;
}

static json_t *entry_for(const struct auth *a, const char *registry)
{
    json_t *entry = NULL;

    if (!is_hub(registry)) {
        return find(a, registry);
    }
    for (const char *const *h = hub_names; !entry && *h; h++) {
        entry = find(a, *h);
    }
    return entry;
}

/* "user:password" out of base64; given. */
static char *decode(const char *text)
{
    size_t n = strlen(text);
    char *out = n % 4 == 0 && n > 0 ? calloc(1, n / 4 * 3 + 1) : NULL;

    if (out && EVP_DecodeBlock((unsigned char *)out, (const unsigned char *)text, (int)n) < 0) {
        free(out);
        out = NULL;
    }
    return out;
}

static json_t *user_and_password(json_t *entry)
{
    const char *user = json_string_value(json_object_get(entry, "username"));
    const char *password = json_string_value(json_object_get(entry, "password"));
    const char *packed = json_string_value(json_object_get(entry, "auth"));
    char *plain = packed ? decode(packed) : NULL;
    char *colon = plain ? strchr(plain, ':') : NULL;
    json_t *out = NULL;

    if (colon) {
        *colon = '\0';
        out = json_pack("{s:s, s:s}", "username", plain, "password", colon + 1);
        *colon = ':';
    } else if (user && password) {
        out = json_pack("{s:s, s:s}", "username", user, "password", password);
    }
    if (plain) {
        OPENSSL_cleanse(plain, strlen(plain));
        free(plain);
    }
    return out;
}

static json_t *credentials(json_t *entry, const char *registry)
{
    static const char *const tokens[] = { "identitytoken", "registrytoken", NULL };
    json_t *out;

    for (const char *const *t = tokens; *t; t++) {
        const char *value = json_string_value(json_object_get(entry, *t));

        if (value && *value) {
            return json_pack("{s:s}", *t, value);
        }
    }
    out = user_and_password(entry);
    if (out) {
        json_object_set_new(out, "serveraddress",
                            json_string(*registry ? registry : hub_names[0]));
    }
    return out;
}

/* base64url with padding, as the engine decodes it. */
static char *encode(const char *text)
{
    size_t n = strlen(text);
    char *out = malloc(4 * ((n + 2) / 3) + 1);

    if (!out) {
        return NULL;
    }
    EVP_EncodeBlock((unsigned char *)out, (const unsigned char *)text, (int)n);
    for (char *p = out; *p; p++) {
        *p = *p == '+' ? '-' : *p == '/' ? '_' : *p;
    }
    return out;
}

/* Takes cred; NULL = there is none. */
static int header_of(json_t *cred, char **ret)
{
    char *text;

    *ret = NULL;
    if (!cred) {
        return 0;
    }
    text = json_dumps(cred, JSON_COMPACT);
    json_decref(cred);
    if (text) {
        *ret = encode(text);
        OPENSSL_cleanse(text, strlen(text));
        free(text);
    }
    return *ret ? 0 : FN_E_EXHAUSTED;
}

int auth_header(const struct auth *a, const char *registry, const char *registry_token, char **ret)
{
    json_t *cred = NULL;
    json_t *entry;

    if (registry_token && *registry_token) {
        cred = json_pack("{s:s}", "registrytoken", registry_token);
    } else if (a && (entry = entry_for(a, registry))) {
        cred = credentials(entry, registry);
    }
    return header_of(cred, ret);
}

/* ---- programs that know credentials ---------------------------------------------------------- */

const char *auth_helper_question(const char *registry)
{
    return is_hub(registry) ? "https://index.docker.io/v1/" : registry;
}

static bool same_question(const char *key, const char *registry)
{
    return is_hub(registry) ? strcmp(key, auth_helper_question(registry)) == 0 || is_hub(key)
                            : same_host(key, registry);
}

void auth_helper(const struct auth *a, const char *registry, char ret[AUTH_HELPER_MAX + 1])
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    const char *name = a ? json_string_value(a->store) : NULL;
    const char *key;
    json_t *helper;

    if (a && a->helpers) {
        json_object_foreach (a->helpers, key, helper) {
            name = same_question(key, registry) ? json_string_value(helper) : name;
        }
    }
    ret[0] = '\0';
    if (name && strspn(name, plain) == strlen(name) && strlen(name) <= AUTH_HELPER_MAX) {
        memcpy(ret, name, strlen(name) + 1);
    }
}

int auth_helper_header(const char *answer, const char *registry, char **ret)
{
    json_t *root = json_loads(answer, JSON_REJECT_DUPLICATES, NULL);
    const char *user = json_string_value(json_object_get(root, "Username"));
    const char *secret = json_string_value(json_object_get(root, "Secret"));
    int r = FN_E_INVALID;

    if (user && secret && strcmp(user, "<token>") == 0) {
        r = header_of(json_pack("{s:s}", "identitytoken", secret), ret);
    } else if (user && secret) {
        r = header_of(json_pack("{s:s, s:s, s:s}", "username", user, "password", secret,
                                "serveraddress", *registry ? registry : hub_names[0]),
                      ret);
    }
    json_decref(root);
    return r;
}
