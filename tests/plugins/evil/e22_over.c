/* E22: the pool publishes a second runner when the function "evil" is called; the placer's
 * index_build(), called by the host meanwhile, is left for the pool. The host's own work in between
 * is lost. */
#define EVIL_NAME "e22"
#define EVIL_ADDRESS "127.0.0.1:1"
#define EVIL_PUBLISH evil_publish
#define EVIL_ROUTE publish_two
#define EVIL_INDEX leave_lists_of_two
#define EVIL_PARTS
#include "leave.h"

#include <fn/placer.h>
#include <fn/pool.h>
#include <string.h>

static int publish_two(void *inst, const struct fn_call *call, char *ret_group, size_t cap);
static int leave_lists_of_two(void *inst, const struct fn_snapshot *snap, void **ret_index);

#include "evil.h"
#include "pool.h"

static int caught;

static void publish(void *ud)
{
    const struct evil_pool *p = ud;
    struct fn_runner r = { .id = 1, .address = EVIL_ADDRESS, .weight = 1 };
    struct fn_snap_builder *b;

    if (p->snap->begin(p->host, FN_GROUP_DEFAULT, &b) == 0) {
        (void)p->snap->add(b, &r, sizeof(r));
        r.id = 2;
        r.address = "127.0.0.1:2";
        (void)p->snap->add(b, &r, sizeof(r));
        (void)p->snap->publish(b);
    }
}

static int publish_two(void *inst, const struct fn_call *call, char *ret_group, size_t cap)
{
    if (strncmp(call->fn_id, "01FNEVIL", 8) == 0) {
        caught = 1;
        (void)evil_catch(publish, inst);
    }
    if (cap < sizeof(FN_GROUP_DEFAULT)) {
        return FN_E_RANGE;
    }
    memcpy(ret_group, FN_GROUP_DEFAULT, sizeof(FN_GROUP_DEFAULT));
    return 0;
}

static int leave_lists_of_two(void *inst, const struct fn_snapshot *snap, void **ret_index)
{
    if (snap->n == 2 && caught) {
        evil_leave();
    } else if (snap->n == 2) {
        evil_leave_for_nobody(); /* in fnkit */
    }
    *ret_index = inst;
    return 0;
}

#undef EVIL_PARTS
#define EVIL_FACTORIES &evil_placer, &evil_pool
#include "file.h"
