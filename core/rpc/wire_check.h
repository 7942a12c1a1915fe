/* Wire check: what a received message would cost, before it is unpacked. The unpacker allocates for
 * each field, also for those that it does not know, and ends texts at a NUL. */
#ifndef RPC_WIRE_CHECK_H
#define RPC_WIRE_CHECK_H

#include <fn/abi.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#define WIRE_FIELDS_MAX 8192u /* of one message and all in it, known or not */

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct wire_cursor {
    const uint8_t *at;
    const uint8_t *end;
};

struct wire_field {
    uint32_t number;
    unsigned type;              /* WIRE_VARINT ... */
    uint64_t value;             /* of WIRE_VARINT */
    struct wire_cursor content; /* of the others */
};

/* The next field of a message that is not at its end. False: there is none. [any] */
bool wire_next(struct wire_cursor *c, struct wire_field *ret);

/* FN_E_INVALID: a text with a NUL in it, which nothing here could carry, or, as far as that is
 * seen, what cannot be unpacked. FN_E_EXHAUSTED: more than WIRE_FIELDS_MAX. 0: the unpacker judges
 * it. [any] */
int wire_check(const ProtobufCMessageDescriptor *type, const void *data, size_t len);

#endif
