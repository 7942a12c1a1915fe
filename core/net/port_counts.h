/* Port counts: what comes to a port, whoever serves it. An operator sees a flood here, of which the
 * log has a line in ten seconds. [loop] */
#ifndef NET_PORT_COUNTS_H
#define NET_PORT_COUNTS_H

#include <base/metric.h>

struct port_counts {
    struct metric *open;
    struct metric *accepted;
    struct metric *turned_away; /* of these, before a byte of them was read */
    struct metric *unshaken;    /* TLS handshakes that failed, but for those that were left */
    struct metric *received, *sent; /* bytes, net_io_count() */
};

/* name: "http", "grpc", which is the label. Ports of one name have one count. */
void port_counts_init(struct port_counts *c, const char *name);

#endif
