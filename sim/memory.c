/* Memory of the simulator itself, which no test of missing memory may take: between
 * sim_outside_begin() and its end, allocations are not those of the code under test. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

/* Volatile: to a compiler malloc() looks at nothing. */
static volatile uint32_t outside;

void sim_outside_begin(void)
{
    outside++;
}

void sim_outside_end(void)
{
    outside--;
}

bool sim_is_outside(void)
{
    return outside > 0;
}

void *sim_resize(void *p, size_t size)
{
    sim_outside_begin();
    p = realloc(p, size);
    sim_outside_end();
    if (!p) {
        abort();
    }
    return p;
}

void *sim_alloc(size_t size)
{
    void *p = sim_resize(NULL, size);

    return memset(p, 0, size);
}
