/* States as data. A machine is an enum and one table that says which state may follow which. Its
 * owner draws the machine above the table and writes the state in one function, through
 * states_next(); nobody else writes it. */
#ifndef BASE_STATES_H
#define BASE_STATES_H

#include <stdbool.h>
#include <stdint.h>

struct states {
    const char *name;         /* of the machine */
    const char *const *names; /* of its states, for people */
    const uint32_t *follows;  /* of each state: one STATE() for each that may follow */
    uint32_t n;               /* states, 32 at most */
};

#define STATE(s) (1u << (s))

static inline bool states_may(const struct states *m, uint32_t from, uint32_t to)
{
    return to < m->n && (m->follows[from] & STATE(to)) != 0;
}

/* Says which step was wrong and ends the process: what others rely on is not so any more. [any] */
void states_refuse(const struct states *m, uint32_t from, uint32_t to)
    __attribute__((noreturn, cold));

/* The state `to`, which may follow `from`. [any] */
static inline uint32_t states_next(const struct states *m, uint32_t from, uint32_t to)
{
    if (!states_may(m, from, to)) {
        states_refuse(m, from, to);
    }
    return to;
}

#endif
