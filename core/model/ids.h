/* Ids: 48-bit ms, 48-bit machine (IPv4 and port), 32-bit counter, base 32, as Go Fn's. */
#ifndef MODEL_IDS_H
#define MODEL_IDS_H

#include <stdint.h>

#define CALL_ID_LEN 26

struct id_maker {
    uint64_t machine; /* 48 bits */
    uint32_t counter; /* [loop] */
};

void id_maker_init(struct id_maker *m, const unsigned char ipv4[4], uint16_t port);
void id_make(struct id_maker *m, int64_t wall_ns, char ret[CALL_ID_LEN + 1]);

#endif
