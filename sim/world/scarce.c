/* Memory that is scarce: what a node allocates fails now and then, while the plan says so. The
 * linker leads the node's calls of malloc() and so on here (--wrap), those of the simulator too:
 * they are spared by sim_is_outside(). Plugins' own are not: `fnkit check` has a test for those. */
#include "world.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PLACES 4096u /* a power of two, more than the program has calls of malloc() */

static struct {
    uint32_t one_in; /* 0: memory is there */
    struct sim_rng rng;
    uint64_t refused;
    struct scarce_place *places; /* by address; of all worlds, which are processes */
} scarce;

void scarce_open(void)
{
    scarce.places = mmap(NULL, PLACES * sizeof(*scarce.places), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (scarce.places == MAP_FAILED) {
        abort();
    }
}

void scarce_begin(uint64_t seed)
{
    scarce.rng = sim_rng_make(seed, 107);
    scarce.refused = 0;
}

void scarce_enter(const struct node *n)
{
    scarce.one_in = n && n->scarce_until_ns > n->w->now_ns ? n->scarce_one_in : 0;
}

uint64_t scarce_refused(void)
{
    return scarce.refused;
}

static struct scarce_place *place_at(const void *at)
{
    size_t i = ((uintptr_t)at * 0x9e3779b97f4a7c15u) >> 52;

    while (scarce.places[i].at && scarce.places[i].at != at) {
        i = (i + 1) % PLACES;
    }
    scarce.places[i].at = at;
    return &scarce.places[i];
}

const struct scarce_place *scarce_next_place(const struct scarce_place *last)
{
    for (const struct scarce_place *p = last ? last + 1 : scarce.places;
         p < scarce.places + PLACES; p++) {
        if (p->at) {
            return p;
        }
    }
    return NULL;
}

bool scarce_hits(const void *at)
{
    struct scarce_place *place;

    if (scarce.one_in == 0 || sim_is_outside()) {
        return false;
    }
    place = place_at(at);
    place->asked++;
    if (sim_rng_below(&scarce.rng, scarce.one_in) > 0) {
        return false;
    }
    place->refused++;
    scarce.refused++;
    errno = ENOMEM;
    return true;
}

/* ---- what the linker calls ----------------------------------------------------------------- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *text);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    return scarce_hits(__builtin_return_address(0)) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return scarce_hits(__builtin_return_address(0)) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return scarce_hits(__builtin_return_address(0)) ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *text)
{
    return scarce_hits(__builtin_return_address(0)) ? NULL : __real_strdup(text);
}
