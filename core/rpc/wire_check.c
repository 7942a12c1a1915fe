/* Each byte of a tag is looked at once a level of the schema, contents of texts for NUL only, other
 * bytes not at all. */
#include <rpc/wire_check.h>

#include <string.h>

#define VARINT_BYTES_MAX 10
#define FIELD_BYTES_MIN  2u /* a tag, and a number or a length */

static bool take_varint(struct wire_cursor *c, uint64_t *ret)
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

bool wire_next(struct wire_cursor *c, struct wire_field *ret)
{
    uint64_t tag, n;

    if (!take_varint(c, &tag) || tag > UINT32_MAX) {
        return false;
    }
    ret->number = (uint32_t)(tag >> 3);
    ret->type = tag & 7;
    if (ret->type == WIRE_VARINT) {
        return take_varint(c, &ret->value);
    }
    n = ret->type == WIRE_64 ? 8 : 4;
    if (ret->type == WIRE_BYTES ? !take_varint(c, &n)
                                : ret->type != WIRE_64 && ret->type != WIRE_32) {
        return false;
    }
    if (n > (uint64_t)(c->end - c->at)) {
        return false;
    }
    ret->content = (struct wire_cursor){ c->at, c->at + n };
    c->at += n;
    return true;
}

static int wire_check_message(const ProtobufCMessageDescriptor *type, struct wire_cursor c,
                              uint32_t *fields_left)
{
    int r = 0;

    while (r == 0 && c.at < c.end) {
        const ProtobufCFieldDescriptor *f;
        struct wire_field is;

        if (!wire_next(&c, &is)) {
            return FN_E_INVALID;
        }
        if (--*fields_left == 0) {
            return FN_E_EXHAUSTED;
        }
        f = is.type == WIRE_BYTES ? protobuf_c_message_descriptor_get_field(type, is.number) : NULL;
        if (f && f->type == PROTOBUF_C_TYPE_MESSAGE) {
            r = wire_check_message(f->descriptor, is.content, fields_left);
        } else if (f && f->type == PROTOBUF_C_TYPE_STRING &&
                   memchr(is.content.at, 0, (size_t)(is.content.end - is.content.at))) {
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
    return wire_check_message(type, (struct wire_cursor){ data, (const uint8_t *)data + len },
                              &fields_left);
}
