/* Varints and length-prefixed fields, written into a buffer that grows, and read with every
 * length checked against what is there. */
#include "wire.h"

#include <stdlib.h>
#include <string.h>

#define VARINT_MAX 10
#define TYPE_VARINT 0u
#define TYPE_64 1u
#define TYPE_BYTES 2u
#define TYPE_32 5u

/* ---- out ------------------------------------------------------------------------------------- */

static void put(struct wire_out *o, const void *data, size_t len)
{
    size_t cap = o->cap ? o->cap : 256;
    unsigned char *grown;

    while (cap < o->len + len) {
        cap *= 2;
    }
    if (cap != o->cap && !o->failed) {
        grown = realloc(o->data, cap);
        o->failed = !grown;
        o->data = grown ? grown : o->data;
        o->cap = grown ? cap : o->cap;
    }
    if (!o->failed) {
        memcpy(o->data + o->len, data, len);
        o->len += len;
    }
}

static void put_varint(struct wire_out *o, uint64_t v)
{
    unsigned char bytes[VARINT_MAX];
    size_t n = 0;

    do {
        bytes[n++] = (unsigned char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        v >>= 7;
    } while (v);
    put(o, bytes, n);
}

static void put_number(struct wire_out *o, uint32_t field, uint64_t v)
{
    if (v != 0) {
        put_varint(o, field << 3 | TYPE_VARINT);
        put_varint(o, v);
    }
}

static void put_bytes(struct wire_out *o, uint32_t field, const void *data, size_t len)
{
    put_varint(o, field << 3 | TYPE_BYTES);
    put_varint(o, len);
    put(o, data, len);
}

static void put_text(struct wire_out *o, uint32_t field, const char *s)
{
    put_bytes(o, field, s, strlen(s));
}

/* A message inside a message; `inner` is finished. */
static void put_message(struct wire_out *o, uint32_t field, struct wire_out *inner)
{
    o->failed |= inner->failed;
    put_bytes(o, field, inner->data ? (const void *)inner->data : "", inner->len);
    wire_finish(inner);
}

void wire_finish(struct wire_out *o)
{
    free(o->data);
    *o = (struct wire_out){ NULL, 0, 0, 0 };
}

void wire_demand_begin(struct wire_out *o, const char *lb_id, uint64_t seq, uint64_t incarnation)
{
    put_text(o, 1, lb_id);
    put_number(o, 2, seq);
    put_number(o, 4, incarnation);
}

void wire_demand_add(struct wire_out *o, const struct wire_demand *d)
{
    struct wire_out inner = { NULL, 0, 0, 0 };

    put_text(&inner, 1, d->group);
    put_number(&inner, 2, d->mem_mb);
    put_number(&inner, 3, d->waiting);
    put_number(&inner, 4, d->running);
    put_message(o, 3, &inner);
}

void wire_watch(struct wire_out *o, const char *lb_id, const char *const *groups, uint32_t n)
{
    put_text(o, 1, lb_id);
    for (uint32_t i = 0; i < n; i++) {
        put_text(o, 2, groups[i]);
    }
}

void wire_group_id(struct wire_out *o, const char *group)
{
    put_text(o, 1, group);
}

void wire_capacity_begin(struct wire_out *o, const char *lb_id)
{
    put_text(o, 2, lb_id);
}

void wire_capacity_add(struct wire_out *o, const char *group, uint64_t mem_mb)
{
    struct wire_out id = { NULL, 0, 0, 0 };
    struct wire_out inner = { NULL, 0, 0, 0 };

    wire_group_id(&id, group);
    put_message(&inner, 1, &id);
    put_number(&inner, 2, mem_mb);
    put_message(o, 3, &inner);
}

/* ---- in -------------------------------------------------------------------------------------- */

struct reader {
    const unsigned char *at, *end;
};

struct field {
    uint32_t number, type;
    uint64_t value;   /* TYPE_VARINT */
    struct reader in; /* TYPE_BYTES */
};

static int read_varint(struct reader *r, uint64_t *ret)
{
    *ret = 0;
    for (uint32_t shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        unsigned char b = *r->at++;

        *ret |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            return 0;
        }
    }
    return -1;
}

static int skip(struct reader *r, size_t n)
{
    if ((size_t)(r->end - r->at) < n) {
        return -1;
    }
    r->at += n;
    return 0;
}

/* 1: a field, 0: the end, -1: not protobuf. */
static int next_field(struct reader *r, struct field *f)
{
    uint64_t key;

    if (r->at == r->end) {
        return 0;
    }
    if (read_varint(r, &key) < 0 || key >> 3 == 0 || key >> 3 > UINT32_MAX) {
        return -1;
    }
    f->number = (uint32_t)(key >> 3);
    f->type = (uint32_t)(key & 7);
    switch (f->type) {
    case TYPE_VARINT:
        return read_varint(r, &f->value) < 0 ? -1 : 1;
    case TYPE_64:
        return skip(r, 8) < 0 ? -1 : 1;
    case TYPE_32:
        return skip(r, 4) < 0 ? -1 : 1;
    case TYPE_BYTES:
        if (read_varint(r, &f->value) < 0 || f->value > (uint64_t)(r->end - r->at)) {
            return -1;
        }
        f->in = (struct reader){ r->at, r->at + f->value };
        return skip(r, (size_t)f->value) < 0 ? -1 : 1;
    default:
        return -1;
    }
}

/* A text without NUL of at most cap - 1 bytes. */
static int take_text(const struct field *f, char *ret, size_t cap)
{
    size_t len = (size_t)(f->in.end - f->in.at);

    if (f->type != TYPE_BYTES || len >= cap || (len > 0 && memchr(f->in.at, '\0', len))) {
        return -1;
    }
    memcpy(ret, f->in.at, len);
    ret[len] = '\0';
    return 0;
}

/* The same for a part of a member: what cannot be used is "", and the rest of the list is not
 * lost with it. */
static void take_part(const struct field *f, char *ret, size_t cap)
{
    if (take_text(f, ret, cap) < 0) {
        ret[0] = '\0';
    }
}

static int read_member(struct reader in, struct wire_member *m)
{
    struct field f;
    int r = 1;

    m->id[0] = m->address[0] = '\0'; /* the rest of the texts is left as it is: half a KiB */
    m->capacity_mb = m->labels = 0;
    m->draining = 0;
    while (r > 0 && (r = next_field(&in, &f)) > 0) {
        if (f.number == 1) {
            take_part(&f, m->id, sizeof(m->id));
        } else if (f.number == 2) {
            take_part(&f, m->address, sizeof(m->address));
        } else if (f.number == 3 && f.type == TYPE_VARINT) {
            m->capacity_mb = f.value;
        } else if (f.number == 4 && f.type == TYPE_VARINT) {
            m->draining = f.value != 0;
        } else if (f.number == 5 && f.type == TYPE_VARINT) {
            m->labels = f.value;
        }
    }
    return r;
}

int wire_read_head(const void *data, size_t len, struct wire_head *ret)
{
    struct reader in = { data, (const unsigned char *)data + len };
    struct field f;
    int r = 1;

    *ret = (struct wire_head){ .group = "" };
    while (r > 0 && (r = next_field(&in, &f)) > 0) {
        if (f.number == 1 && f.type == TYPE_VARINT) {
            ret->epoch = f.value;
        } else if (f.number == 2 && f.type == TYPE_VARINT) {
            ret->version = f.value;
        } else if (f.number == 3) {
            r = take_text(&f, ret->group, sizeof(ret->group)) < 0 ? -1 : 1;
        }
    }
    return r;
}

static int read_runner(struct reader in, struct wire_member *m)
{
    struct field f;
    int r = 1;

    m->address[0] = '\0';
    m->capacity_mb = m->labels = 0;
    m->draining = 0;
    while (r > 0 && (r = next_field(&in, &f)) > 0) {
        if (f.number == 1) {
            take_part(&f, m->address, sizeof(m->address));
        }
    }
    memcpy(m->id, m->address, strlen(m->address) + 1);
    return r;
}

struct wire_members wire_members(const void *data, size_t len, int historic)
{
    return (struct wire_members){ data, (const unsigned char *)data + len, historic };
}

/* The next field with that number, which is a message or a text: 1, 0 at the end, -1. */
static int find_field(struct wire_members *in, uint32_t number, struct field *ret)
{
    struct reader r = { in->at, in->end };
    int found;

    while ((found = next_field(&r, ret)) > 0 && ret->number != number) {
    }
    in->at = r.at;
    return found > 0 && ret->type != TYPE_BYTES ? -1 : found;
}

int wire_next_labels(struct wire_members *in, char ret[FN_LABELS_TEXT_MAX + 1])
{
    struct field f;
    int found = in->historic ? 0 : find_field(in, 5, &f);

    if (found > 0) {
        take_part(&f, ret, FN_LABELS_TEXT_MAX + 1);
        ret[0] = fn_labels_fault(ret) ? '\0' : ret[0];
    }
    return found;
}

int wire_next_member(struct wire_members *in, struct wire_member *ret)
{
    struct field f;
    int found = find_field(in, in->historic ? 2 : 4, &f);

    if (found <= 0) {
        return found;
    }
    return (in->historic ? read_runner(f.in, ret) : read_member(f.in, ret)) < 0 ? -1 : 1;
}

static int read_note(struct reader in, struct wire_note *ret)
{
    struct field f;
    int r = 1;

    while (r > 0 && (r = next_field(&in, &f)) > 0) {
        if (f.number == 1) {
            r = take_text(&f, ret->group, sizeof(ret->group)) < 0 ? -1 : 1;
        } else if (f.number == 2) {
            r = take_text(&f, ret->text, sizeof(ret->text)) < 0 ? -1 : 1;
        }
    }
    return r;
}

int wire_next_note(struct wire_members *in, uint32_t kind, struct wire_note *ret)
{
    struct field f;
    int found = find_field(in, kind, &f);

    ret->group[0] = ret->text[0] = '\0';
    if (found <= 0) {
        return found;
    }
    return read_note(f.in, ret) < 0 ? -1 : 1;
}

int wire_read_note(const void *data, size_t len, uint32_t kind, struct wire_note *ret)
{
    struct reader in = { data, (const unsigned char *)data + len };
    struct field f;
    int r = 1;

    ret->group[0] = ret->text[0] = '\0';
    while (r > 0 && (r = next_field(&in, &f)) > 0) {
        if (f.number == kind && f.type == TYPE_BYTES && !ret->text[0]) {
            r = read_note(f.in, ret) < 0 ? -1 : 1;
        }
    }
    return r;
}
