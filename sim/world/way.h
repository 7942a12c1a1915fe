/* Way: packets from one node to another, in their order, later or not at all; what pool_net.c and
 * ask_net.c, who stand for core/rpc's raw calls, share with api_net.c. */
#ifndef FND_SIM_WAY_H
#define FND_SIM_WAY_H

#include "world.h"

enum packet_kind {
    PACKET_DATA,
    PACKET_END,  /* of the call */
    PACKET_GONE, /* who called is */
    PACKET_ROOM,
    PACKET_HELLO, /* the process has taken the connection */
};

struct packet {
    TAILQ_ENTRY(packet) link;
    enum packet_kind kind;
    int64_t at_ns; /* when it arrives */
    int status;
    size_t len; /* of an end: its text, with NUL; 0: none */
    char data[];
};

struct way {
    TAILQ_HEAD(, packet) packets;
    uint32_t n;
    int64_t last_ns; /* when the last one arrives */
    struct node *to;
    struct env_timer timer; /* of that node; its callback takes one packet */
};

void way_open(struct way *y, struct node *to, void (*arrived)(struct env_timer *t));
void way_clear(struct way *y); /* what is on it gets lost */
/* It arrives `late_ns` from now, or behind the one before it. data NULL: it is filled behind. */
struct packet *way_send(struct way *y, int64_t late_ns, enum packet_kind kind, int status,
                        const void *data, size_t len);
/* To be freed. NULL: nothing arrives before `open_ns`; it comes then. */
struct packet *way_take(struct way *y, int64_t open_ns);

/* A call of core/rpc, whoever made it. */
struct rpc_raw {
    void (*close)(struct rpc_raw *c);
};

#endif
