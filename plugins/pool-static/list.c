#include "list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *port_fault(const char *port)
{
    size_t n = strspn(port, "0123456789");
    long v;

    if (n == 0 || n > 5 || port[n] != '\0') {
        return "a port 1..65535 after the last colon";
    }
    v = strtol(port, NULL, 10);
    return v >= 1 && v <= 65535 ? NULL : "a port 1..65535 after the last colon";
}

static const char *host_fault(const char *host, size_t len)
{
    static const char v6[] = "0123456789abcdefABCDEF:.";
    static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

    if (len == 0) {
        return "a host before the port";
    }
    if (host[0] == '[') {
        return len > 3 && host[len - 1] == ']' && strspn(host + 1, v6) == len - 2 &&
                       memchr(host, ':', len)
                   ? NULL
                   : "an IPv6 address between [ and ]";
    }
    if (memchr(host, ':', len)) {
        return "[ and ] around an IPv6 address";
    }
    return len <= 253 && strspn(host, name) == len ? NULL : "a host name or an IP address";
}

/* What is missing, or NULL. */
static const char *address_fault(const char *a)
{
    const char *colon;
    const char *fault;

    if (strncmp(a, "unix:", 5) == 0) {
        return a[5] == '/' && strlen(a + 5) < 108 ? NULL
                                                   : "an absolute path of less than 108 bytes";
    }
    if (strcmp(a, "local:") == 0) { /* the runner inside a full node */
        return NULL;
    }
    if (strstr(a, "://")) {
        return "host:port without a scheme";
    }
    colon = strrchr(a, ':');
    if (!colon) {
        return "host:port";
    }
    fault = host_fault(a, (size_t)(colon - a));
    return fault ? fault : port_fault(colon + 1);
}

static int fail(struct fn_error *e, uint64_t index, const char *address, const char *expected)
{
    char shown[64];
    size_t i;

    snprintf(shown, sizeof(shown), "%s", address);
    for (i = 0; shown[i]; i++) {
        if ((unsigned char)shown[i] < 0x20 || shown[i] == 0x7f) {
            shown[i] = '?';
        }
    }
    if (e) {
        e->code = FN_E_INVALID;
        snprintf(e->msg, sizeof(e->msg), "runners[%llu]: got \"%s\"; expected %s",
                 (unsigned long long)index, shown, expected);
    }
    return FN_E_INVALID;
}

struct entry {
    const char *address;
    uint64_t index;
};

static int by_address(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->address, ((const struct entry *)b)->address);
}

static int check_twice(const struct fn_strlist *runners, struct fn_error *reterr)
{
    struct entry *sorted = calloc(runners->n, sizeof(*sorted));
    uint64_t i;
    int r = 0;

    if (!sorted) {
        return FN_E_EXHAUSTED;
    }
    for (i = 0; i < runners->n; i++) {
        sorted[i] = (struct entry){ runners->items[i], i };
    }
    qsort(sorted, runners->n, sizeof(*sorted), by_address);
    for (i = 1; r == 0 && i < runners->n; i++) {
        if (strcmp(sorted[i].address, sorted[i - 1].address) == 0) {
            r = fail(reterr, sorted[i].index, sorted[i].address, "each runner once");
        }
    }
    free(sorted);
    return r;
}

int list_check(const struct fn_strlist *runners, struct fn_error *reterr)
{
    const char *fault;
    uint64_t i;

    if (runners->n == 0 || runners->n > LIST_RUNNERS_MAX) {
        if (reterr) {
            reterr->code = FN_E_INVALID;
            snprintf(reterr->msg, sizeof(reterr->msg),
                     "runners: got a list of %llu; expected 1 to %u addresses",
                     (unsigned long long)runners->n, LIST_RUNNERS_MAX);
        }
        return FN_E_INVALID;
    }
    for (i = 0; i < runners->n; i++) {
        fault = address_fault(runners->items[i]);
        if (fault) {
            return fail(reterr, i, runners->items[i], fault);
        }
    }
    return check_twice(runners, reterr);
}

/* FNV-1a: ids must be stable and different, not hard to guess. */
uint64_t list_id(const char *address)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (; *address; address++) {
        h = (h ^ (unsigned char)*address) * 0x100000001b3u;
    }
    return h;
}
