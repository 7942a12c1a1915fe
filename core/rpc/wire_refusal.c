/* Refusals: the part of a CallFinished that says why. A peer that writes nonsense into it has still
 * refused its call, so nothing in here makes a message bad. */
#include <rpc/wire.h>

#include <string.h>

#include "runner.pb-c.h"

enum { REASON = 1, RETRY_AFTER, FREE_MEMORY, FREE_CPU, IDLE_CONTAINERS };

void wire_refusal_to(struct scratch *s, const struct engage_refusal *r, ProtobufCBinaryData *ret)
{
    Refusal msg = REFUSAL__INIT;

    *ret = (ProtobufCBinaryData){ 0 };
    if (r->reason == ENGAGE_REASON_NONE) {
        return;
    }
    msg.reason = (Refusal__Reason)r->reason;
    msg.retryafter = r->retry_ns;
    msg.freememory = r->free_mem_bytes;
    msg.freecpu = r->free_cpu_milli;
    msg.idlecontainers = r->idle;
    ret->data = scratch_alloc(s, refusal__get_packed_size(&msg));
    if (ret->data) { /* else it is told without */
        ret->len = refusal__pack(&msg, ret->data);
    }
}

static void take_field(const struct wire_field *f, struct engage_refusal *ret)
{
    switch (f->number) {
    case REASON:
        ret->reason = f->value < ENGAGE_REASONS_N ? (enum engage_reason)f->value
                                                  : ENGAGE_REASON_NONE;
        break;
    case RETRY_AFTER:
        ret->retry_ns = f->value <= INT64_MAX ? (int64_t)f->value : 0;
        break;
    case FREE_MEMORY:
        ret->free_mem_bytes = f->value;
        break;
    case FREE_CPU:
        ret->free_cpu_milli = f->value;
        break;
    case IDLE_CONTAINERS:
        ret->idle = f->value <= UINT32_MAX ? (uint32_t)f->value : UINT32_MAX;
        break;
    default:
        break;
    }
}

void wire_refusal_from(const ProtobufCBinaryData *data, struct engage_refusal *ret)
{
    struct wire_cursor c;
    struct wire_field f;

    *ret = (struct engage_refusal){ 0 };
    if (data->len == 0) {
        return; /* and there is no address to count from */
    }
    c = (struct wire_cursor){ data->data, data->data + data->len };
    while (c.at < c.end) {
        if (!wire_next(&c, &f)) {
            *ret = (struct engage_refusal){ 0 };
            return;
        }
        if (f.type == WIRE_VARINT) {
            take_field(&f, ret);
        }
    }
}
