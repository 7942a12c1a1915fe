/* The grammar of the engine's image references, read from left to right: registry, path, then
 * tag or digest. */
#include "image.h"
#include "fail.h"

#include <string.h>

#define COMPONENT_MAX 255
#define TAG_MAX       128

static bool lower_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool host_char(char c)
{
    return lower_alnum(c) || (c >= 'A' && c <= 'Z') || c == '.' || c == '-';
}

/* [a-z0-9]+ joined by single '.', '_', "__" or dashes. */
static bool component_ok(const char *s, size_t n)
{
    if (n == 0 || n > COMPONENT_MAX || !lower_alnum(s[0]) || !lower_alnum(s[n - 1])) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!lower_alnum(s[i]) && s[i] != '.' && s[i] != '_' && s[i] != '-') {
            return false;
        }
        if (i > 0 && s[i] == '.' && !lower_alnum(s[i - 1])) {
            return false; /* keeps ".." out */
        }
    }
    return true;
}

static bool path_ok(const char *s)
{
    const char *slash;

    for (;; s = slash + 1) {
        slash = strchr(s, '/');
        if (!component_ok(s, slash ? (size_t)(slash - s) : strlen(s))) {
            return false;
        }
        if (!slash) {
            return true;
        }
    }
}

static bool tag_ok(const char *s)
{
    size_t n = strlen(s);

    if (n == 0 || n > TAG_MAX || s[0] == '.' || s[0] == '-') {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!host_char(s[i]) && s[i] != '_') {
            return false;
        }
    }
    return true;
}

static bool digest_ok(const char *s)
{
    static const char prefix[] = "sha256:";
    const char *hex = s + sizeof(prefix) - 1;

    return strncmp(s, prefix, sizeof(prefix) - 1) == 0 && strlen(hex) == 64 &&
           strspn(hex, "0123456789abcdef") == 64;
}

static bool registry_ok(const char *s, size_t n)
{
    const char *colon = memchr(s, ':', n);
    size_t host_n = colon ? (size_t)(colon - s) : n;
    size_t port_n = colon ? n - host_n - 1 : 0;

    if (host_n == 0 || s[0] == '-' || s[0] == '.' || s[host_n - 1] == '.' ||
        (colon && (port_n == 0 || port_n > 5))) {
        return false;
    }
    for (size_t i = 0; i < host_n; i++) {
        if (!host_char(s[i]) || (i > 0 && s[i] == '.' && s[i - 1] == '.')) {
            return false;
        }
    }
    return !colon || strspn(colon + 1, "0123456789") >= port_n;
}

/* The first part is a registry if it looks like a host; the rules of the engine itself. */
static size_t registry_len(const char *s)
{
    const char *slash = strchr(s, '/');
    size_t n = slash ? (size_t)(slash - s) : 0;

    if (n > 0 && (memchr(s, '.', n) || memchr(s, ':', n) ||
                  (n == strlen("localhost") && strncmp(s, "localhost", n) == 0))) {
        return n;
    }
    return 0;
}

static int bad_name(const char *name, struct fn_error *reterr)
{
    return fail_user(reterr, FN_E_INVALID, 400,
                     "RUN406 image name, got \"%.60s\"%s; expected [registry/]name[:tag] in lower "
                     "case",
                     name, strlen(name) > 60 ? "..." : "");
}

int image_parse(const char *name, struct image_name *ret, struct fn_error *reterr)
{
    struct image_name im = { .by_digest = false };
    char rest[IMAGE_NAME_MAX + 1];
    size_t reg_n;
    char *at, *colon;

    if (!name || strlen(name) > IMAGE_NAME_MAX) {
        return bad_name(name ? name : "", reterr);
    }
    reg_n = registry_len(name);
    memcpy(im.registry, name, reg_n);
    snprintf(rest, sizeof(rest), "%s", name + (reg_n ? reg_n + 1 : 0));

    at = strchr(rest, '@');
    if (at) {
        *at = '\0';
        if (!digest_ok(at + 1)) {
            return bad_name(name, reterr);
        }
        im.by_digest = true;
        memcpy(im.tag, at + 1, strlen(at + 1) + 1);
    }
    colon = strchr(rest, ':');
    if (colon) {
        *colon = '\0';
        if (!tag_ok(colon + 1)) {
            return bad_name(name, reterr);
        }
        if (!im.by_digest) {
            memcpy(im.tag, colon + 1, strlen(colon + 1) + 1);
        }
    } else if (!im.by_digest) {
        memcpy(im.tag, "latest", sizeof("latest"));
    }
    if (!path_ok(rest) || (reg_n && !registry_ok(name, reg_n))) {
        return bad_name(name, reterr);
    }
    memcpy(im.path, rest, strlen(rest) + 1);
    snprintf(im.repository, sizeof(im.repository), "%.*s%.*s", (int)(reg_n ? reg_n + 1 : 0), name,
             (int)(IMAGE_NAME_MAX - reg_n - 1), rest);
    *ret = im;
    return 0;
}
