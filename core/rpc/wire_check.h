/* Wire check: what a received message would cost, before it is unpacked. The unpacker allocates for
 * each field, also for those that it does not know, and ends texts at a NUL. */
#ifndef RPC_WIRE_CHECK_H
#define RPC_WIRE_CHECK_H

#include <fn/abi.h>
#include <protobuf-c/protobuf-c.h>

#define WIRE_FIELDS_MAX 8192u /* of one message and all in it, known or not */

/* FN_E_INVALID: a text with a NUL in it, which nothing here could carry, or, as far as that is
 * seen, what cannot be unpacked. FN_E_EXHAUSTED: more than WIRE_FIELDS_MAX. 0: the unpacker judges
 * it. [any] */
int wire_check(const ProtobufCMessageDescriptor *type, const void *data, size_t len);

#endif
