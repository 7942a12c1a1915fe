/* Each byte of a tag is looked at once a level of the schema, contents of texts for NUL only, other
 * bytes not at all. */
#include <rpc/wire_check.h>

#include <stdbool.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

#define VARINT_BYTES_MAX 10
#define FIELD_BYTES_MIN  2u /* a tag, and a number or a length */

struct cursor {
    const uint8_t *at;
    const uint8_t *end;
};

static bool take_varint(struct cursor *c, uint64_t *ret)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < VARINT_BYTES_MAX && c->at < c->end; i++) {
        uint8_t b = *c->at++;

        v |= (uint64_t)(b & 0x7f) << (7 * i);
        if (b < 0x80) {
            *ret = v;
            return true;
        }
    }
    return false;
}

/* The content of a field; only that of WIRE_BYTES is of interest. */
static bool take_content(struct cursor *c, unsigned type, struct cursor *ret)
{
    uint64_t n = type == WIRE_64 ? 8 : 4;
    uint64_t unused;

    if (type == WIRE_VARINT) {
        return take_varint(c, &unused);
    }
    if (type == WIRE_BYTES ? !take_varint(c, &n) : type != WIRE_64 && type != WIRE_32) {
        return false;
    }
    if (n > (uint64_t)(c->end - c->at)) {
        return false;
    }
    *ret = (struct cursor){ c->at, c->at + n };
    c->at += n;
    return true;
}

static int wire_check_message(const ProtobufCMessageDescriptor *type, struct cursor c,
                              uint32_t *fields_left)
{
    int r = 0;

    while (r == 0 && c.at < c.end) {
        const ProtobufCFieldDescriptor *f;
        struct cursor content;
        uint64_t tag;

        if (!take_varint(&c, &tag) || tag > UINT32_MAX || !take_content(&c, tag & 7, &content)) {
            return FN_E_INVALID;
        }
        if (--*fields_left == 0) {
            return FN_E_EXHAUSTED;
        }
        f = (tag & 7) == WIRE_BYTES
                ? protobuf_c_message_descriptor_get_field(type, (unsigned)(tag >> 3))
                : NULL;
        if (f && f->type == PROTOBUF_C_TYPE_MESSAGE) {
            r = wire_check_message(f->descriptor, content, fields_left);
        } else if (f && f->type == PROTOBUF_C_TYPE_STRING &&
                   memchr(content.at, 0, (size_t)(content.end - content.at))) {
            return FN_E_INVALID;
        }
    }
    return r;
}

/* Too short for so many fields, and no NUL anywhere: nearly all messages. */
static bool is_plain(const void *data, size_t len)
{
    return len / FIELD_BYTES_MIN <= WIRE_FIELDS_MAX && !memchr(data, 0, len);
}

int wire_check(const ProtobufCMessageDescriptor *type, const void *data, size_t len)
{
    uint32_t fields_left = WIRE_FIELDS_MAX + 1;

    if (len == 0 || is_plain(data, len)) {
        return 0;
    }
    return wire_check_message(type, (struct cursor){ data, (const uint8_t *)data + len },
                              &fields_left);
}
