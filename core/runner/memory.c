/* Memory: what calls hold that wait, all together and those of one app.
 *
 * A call holds its model, which is its peer's to choose, until a container has it, and its body
 * until a function has it. An app holds its share (base/share.h) of runner.call_memory, so that one
 * whose image hangs leaves room for the calls of others. */
#include <runner/runner_int.h>

#include <base/share.h>

/* Calls that hold less have no share to keep, while all calls hold little: */
#define COUNTED_BYTES (16u << 10)
#define LITTLE_PART   16u /* of runner.call_memory */

/* What it holds counts with its app from now on, until it is over. */
static bool join(struct rcall *rc)
{
    rc->memory = share_join(&rc->r->memories, rc->call.app_id ? rc->call.app_id : "");
    if (rc->memory) {
        rc->memory->bytes += rc->charged;
    }
    return rc->memory != NULL;
}

static bool is_counted(const struct rcall *rc, size_t bytes)
{
    return rc->charged + bytes >= COUNTED_BYTES ||
           rc->r->calls_bytes > rc->r->opt.calls_bytes_max / LITTLE_PART;
}

bool rcall_charge(struct rcall *rc, size_t bytes)
{
    struct runner *r = rc->r;

    if (!rc->memory && is_counted(rc, bytes) && !join(rc)) {
        return false;
    }
    if (!share_allows(r->opt.calls_bytes_max, r->calls_bytes, rc->memory ? rc->memory->bytes : 0,
                      bytes)) {
        return false;
    }
    r->calls_bytes += bytes;
    rc->charged += bytes;
    if (rc->memory) {
        rc->memory->bytes += bytes;
    }
    return true;
}

void rcall_uncharge(struct rcall *rc, size_t bytes)
{
    rc->r->calls_bytes -= bytes;
    rc->charged -= bytes;
    if (rc->memory) {
        rc->memory->bytes -= bytes;
    }
}

void rcall_leave_memory(struct rcall *rc)
{
    rcall_uncharge(rc, rc->charged);
    if (rc->memory) {
        share_leave(&rc->r->memories, rc->memory);
    }
    rc->memory = NULL;
}
