/* E24: a million runners, the same one twice, runners that do not exist and entries that are none. */
#define EVIL_NAME "e24"
#define EVIL_ADDRESS "127.0.0.1:1"
#define EVIL_PUBLISH flood
#include <fn/pool.h>

#include <stdio.h>
#include <string.h>

#define RUNNERS 1000000u

static int flood(const struct fn_host *host, const struct fn_snap_if *snap);

#include "pool.h"

static int flood(const struct fn_host *host, const struct fn_snap_if *snap)
{
    struct fn_snap_builder *b;
    struct fn_runner r = { .weight = 1 };
    char address[32];
    int refused = 0;

    if (snap->begin(host, FN_GROUP_DEFAULT, &b) < 0) {
        return FN_E_EXHAUSTED;
    }
#ifdef MILLION
    for (unsigned i = 0; i < RUNNERS; i++) {
        (void)snprintf(address, sizeof(address), "127.0.%u.%u:1", i >> 8 & 255, i & 255);
        r.id = i + 1;
        r.address = address;
        refused += snap->add(b, &r, sizeof(r)) < 0;
    }
    if (refused == 0) {
        __builtin_trap(); /* the host has no limit */
    }
    snap->discard(b);
    return 0;
#else
    (void)address;
    (void)evil_publish;
    r.id = 1;
    r.address = EVIL_ADDRESS;
    refused += snap->add(b, &r, sizeof(r)) < 0; /* good, though nobody is there */
    refused += snap->add(b, &r, sizeof(r)) < 0; /* twice */
    r.address = "";
    refused += snap->add(b, &r, sizeof(r)) < 0;
    r.address = "no port\n";
    refused += snap->add(b, &r, sizeof(r)) < 0;
    refused += snap->add(b, NULL, sizeof(r)) < 0;
    refused += snap->add(b, &r, 3) < 0;
    if (refused < 4) {
        __builtin_trap();
    }
    return snap->publish(b);
#endif
}
