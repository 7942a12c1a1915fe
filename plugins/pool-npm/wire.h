/* The messages between a load balancer and its node pool manager, as bytes (proto/pool.proto,
 * proto/poolmanager.proto; protobuf's wire format). Pure.
 *
 * Written by hand because a plugin brings no libraries of its own: four messages of texts and
 * numbers. */
#ifndef POOL_NPM_WIRE_H
#define POOL_NPM_WIRE_H

#include <fn/labels.h>

/* ---- out ------------------------------------------------------------------------------------- */

/* Grows; `failed` when memory ran out, after which the rest is left out. */
struct wire_out {
    unsigned char *data;
    size_t len, cap;
    int failed;
};

void wire_finish(struct wire_out *o);

struct wire_demand {
    const char *group;
    uint64_t mem_mb, waiting, running;
};

void wire_demand_begin(struct wire_out *o, const char *lb_id, uint64_t seq, uint64_t incarnation);
void wire_demand_add(struct wire_out *o, const struct wire_demand *d);
void wire_watch(struct wire_out *o, const char *lb_id, const char *const *groups, uint32_t n);
/* Historic. */
void wire_capacity_begin(struct wire_out *o, const char *lb_id);
void wire_capacity_add(struct wire_out *o, const char *group, uint64_t mem_mb);
void wire_group_id(struct wire_out *o, const char *group);

/* ---- in -------------------------------------------------------------------------------------- */

#define WIRE_ID_MAX 255
#define WIRE_ADDRESS_MAX 255
#define WIRE_GROUP_MAX 64
#define WIRE_NOTE_MAX 511

struct wire_member {
    char id[WIRE_ID_MAX + 1];
    char address[WIRE_ADDRESS_MAX + 1];
    uint64_t capacity_mb;
    uint64_t labels; /* place of its set in the message, from 1; 0: none */
    int draining;
};

struct wire_head {
    uint64_t epoch, version;
    char group[WIRE_GROUP_MAX + 1];
};

/* A place among the members of a message, which is borrowed. */
struct wire_members {
    const unsigned char *at, *end;
    int historic;
};

/* fnd.Membership without its members: 0, or -1 when it is no such message. */
int wire_read_head(const void *data, size_t len, struct wire_head *ret);
/* Before the first member of a fnd.Membership or, historic, of an LBGroupMembership, whose
 * addresses are ids too. */
struct wire_members wire_members(const void *data, size_t len, int historic);
/* The next member in order: 1, 0 after the last, -1 when it is no member or a text is too long. */
int wire_next_member(struct wire_members *in, struct wire_member *ret);
/* The next set of labels of the same message, which has a place of its own: 1, 0 after the last, -1
 * when it is none. What is no set of labels is "". */
int wire_next_labels(struct wire_members *in, char ret[FN_LABELS_TEXT_MAX + 1]);
struct wire_note {
    char group[WIRE_GROUP_MAX + 1];
    char text[WIRE_NOTE_MAX + 1];
};
#define WIRE_OBJECTION 1u
#define WIRE_STATE 2u
/* The first one of a kind of notes in a DemandAnswer; "" when there is none. */
int wire_read_note(const void *data, size_t len, uint32_t kind, struct wire_note *ret);
/* The next one of a kind, from wire_members() of the answer on: 1, 0 after the last, -1. */
int wire_next_note(struct wire_members *in, uint32_t kind, struct wire_note *ret);

#endif
