/* The messages between a load balancer and its node pool manager, as bytes (proto/pool.proto,
 * proto/poolmanager.proto; protobuf's wire format). Pure.
 *
 * Written by hand because a plugin brings no libraries of its own: four messages of texts and
 * numbers. */
#ifndef POOL_NPM_WIRE_H
#define POOL_NPM_WIRE_H

#include <stddef.h>
#include <stdint.h>

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

void wire_demand_begin(struct wire_out *o, const char *lb_id, uint64_t seq);
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

struct wire_member {
    char id[WIRE_ID_MAX + 1];
    char address[WIRE_ADDRESS_MAX + 1];
    uint64_t capacity_mb;
    int draining;
};

struct wire_membership {
    uint64_t epoch, version;
    char group[WIRE_GROUP_MAX + 1];
    /* Called for each member in order while reading; < 0 ends it. */
    int (*member)(void *ud, const struct wire_member *m);
    void *ud;
};

/* fnd.Membership; members are told after epoch, version and group were read. 0, or -1 when it is no
 * such message or a text is too long. */
int wire_read_membership(const void *data, size_t len, struct wire_membership *m);
/* LBGroupMembership: addresses are ids too; epoch and version stay. */
int wire_read_historic(const void *data, size_t len, struct wire_membership *m);
/* The first note of a DemandAnswer, or "". */
int wire_read_note(const void *data, size_t len, char *ret, size_t cap);

#endif
