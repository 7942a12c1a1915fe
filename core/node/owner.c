/* The owner of a runner that names none. */
#include <node/owner.h>

#include <base/addr.h>
#include <base/hash.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define HOST_CHARS   40 /* of the host name, hash and all */
#define HASH_CHARS   17 /* "-<16 digits>" */
#define SUFFIX_CHARS 16

/* In the letters of an owner, where no two - follow each other; false: it had to leave some out. */
static bool put_host(const char *hostname, char ret[HOST_CHARS + 1])
{
    size_t n = 0, at = 0;

    for (; hostname[at] && n < HOST_CHARS; at++) {
        unsigned char c = (unsigned char)hostname[at];
        char put = isalnum(c) ? (char)tolower(c) : '-';

        if (put != '-' || n == 0 || ret[n - 1] != '-') {
            ret[n++] = put;
        }
    }
    ret[n] = '\0';
    return !hostname[at] && n == at && n > 0 && ret[n - 1] != '-';
}

static void put_listener(const char *listen, const char *instance, char ret[SUFFIX_CHARS + 1])
{
    struct addr a;
    bool known = addr_parse(listen, &a) == 0;

    if (known && !a.path && addr_port(&a) == 0) {
        snprintf(ret, SUFFIX_CHARS + 1, "%.16s", instance); /* any number of nodes listens so */
    } else if (known && addr_is_everywhere(&a)) {
        snprintf(ret, SUFFIX_CHARS + 1, "%.16s", a.port);
    } else {
        snprintf(ret, SUFFIX_CHARS + 1, "%016llx",
                 (unsigned long long)hash_text(HASH_INIT, listen));
    }
}

void owner_derive(const char *hostname, const char *listen, const char *instance,
                  char ret[OWNER_MAX])
{
    char host[HOST_CHARS + 1], suffix[SUFFIX_CHARS + 1];
    size_t n;

    put_listener(listen, instance, suffix);
    if (put_host(hostname, host)) {
        snprintf(ret, OWNER_MAX, "%s-%s", host, suffix);
        return;
    }
    n = strnlen(host, HOST_CHARS - HASH_CHARS);
    while (n > 0 && host[n - 1] == '-') {
        n--;
    }
    snprintf(ret, OWNER_MAX, "%.*s-%016llx-%s", (int)n, host,
             (unsigned long long)hash_text(HASH_INIT, hostname), suffix);
}
