/* An id is its three numbers written in base 32, so that ids of one node sort by time. */
#include <model/ids.h>

void id_maker_init(struct id_maker *m, const unsigned char ipv4[4], uint16_t port)
{
    *m = (struct id_maker){ 0 };
    for (int i = 0; i < 4; i++) {
        m->machine = m->machine << 8 | ipv4[i];
    }
    m->machine = m->machine << 16 | port;
}

void id_make(struct id_maker *m, int64_t wall_ns, char ret[CALL_ID_LEN + 1])
{
    static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    uint64_t high = (uint64_t)(wall_ns / 1000000) << 16 | m->machine >> 32;
    uint64_t low = m->machine << 32 | ++m->counter;

    for (int i = CALL_ID_LEN - 1; i >= 0; i--) {
        ret[i] = alphabet[low & 31];
        low = low >> 5 | high << 59;
        high >>= 5;
    }
    ret[CALL_ID_LEN] = '\0';
}
