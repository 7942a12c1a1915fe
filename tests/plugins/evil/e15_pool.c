/* E15: a pool that publishes what is no list, names no group, and answers what is no result; at last
 * it publishes its one runner, where nobody is. */
#define EVIL_NAME "e15"
#define EVIL_ADDRESS "127.0.0.1:1"
#define EVIL_PUBLISH nonsense
#define EVIL_ROUTE route
#include <fn/pool.h>

#include <string.h>

static int nonsense(const struct fn_host *host, const struct fn_snap_if *snap);
static int route(void *inst, const struct fn_call *call, char *ret_group, size_t cap);

#include "pool.h"

/* Ten wrong answers. */
static int nonsense(const struct fn_host *host, const struct fn_snap_if *snap)
{
    struct fn_runner r = { .id = 1, .address = EVIL_ADDRESS, .weight = 1 };
    struct fn_snap_builder *b;
    struct fn_error why = { .size = sizeof(why), .code = 4711 };
    char group[FN_GROUP_NAME_MAX + 2];

    memset(group, 'g', sizeof(group) - 1);
    group[sizeof(group) - 1] = '\0';
    (void)snap->begin(host, NULL, &b);
    (void)snap->begin(host, group, &b);
    (void)snap->begin(host, FN_GROUP_DEFAULT, NULL);
    (void)snap->add(NULL, &r, sizeof(r));
    (void)snap->publish(NULL);
    (void)snap->fail(host, NULL, NULL);
    memset(why.msg, 'x', sizeof(why.msg));
    (void)snap->fail(host, FN_GROUP_DEFAULT, &why);
    if (snap->begin(host, FN_GROUP_DEFAULT, &b) < 0) {
        return FN_E_EXHAUSTED;
    }
    (void)snap->add(b, NULL, sizeof(r));
    (void)snap->add(b, &r, sizeof(r));
    (void)snap->add(b, &r, sizeof(r));
    r.address = NULL;
    (void)snap->add(b, &r, sizeof(r));
    (void)snap->publish(b);
    return evil_publish(host, snap);
}

/* Two, one for each call. */
static int route(void *inst, const struct fn_call *call, char *ret_group, size_t cap)
{
    static uint32_t asked;
    const uint32_t turn = asked++;

    (void)inst;
    (void)call;
    (void)cap;
    memcpy(ret_group, FN_GROUP_DEFAULT, sizeof(FN_GROUP_DEFAULT));
    if (turn == 0) {
        ret_group[0] = '\0';
    }
    return turn == 1 ? 6 : 0;
}
