/* Nights of a long world: nobody has called for a while, and what is dead and over is cleared away.
 * What is allocated then is what nodes keep for ever; it must not grow with the days (B32). It is
 * the allocator's own figure, so that plugins and libraries are in it. */
#include "front.h"
#include "nights.h"

#include <base/metric.h>
#include <malloc.h>
#include <stdlib.h>

#define HELD_SLACK_BYTES (48 * 1024) /* tables that double, rings that fill */
/* A node may remember of each function that it served, of some thousands (core/base/tally.h). */
#define HELD_OF_NAME_BYTES 1024
/* glibc counts what its caches hold as allocated: so many blocks of each of so many sizes. */
#define CACHED_BLOCKS 7
#define CACHED_SIZES  64
#define CACHED_STEP   16
#define CACHED_FIRST  24

struct night {
    int64_t held_bytes;
    uint32_t names; /* that functions had until then */
};

struct nights {
    struct night *all;
    uint32_t n;
};

struct nights *nights_create(uint32_t max)
{
    struct nights *s = sim_alloc(sizeof(*s));

    s->all = sim_alloc(max * sizeof(*s->all));
    return s;
}

void nights_destroy(struct nights *s)
{
    free(s->all);
    free(s);
}

/* From now on they are full, whatever was freed before. */
static void fill_caches(void)
{
    void *blocks[CACHED_SIZES][CACHED_BLOCKS];

    for (size_t i = 0; i < CACHED_SIZES; i++) {
        for (size_t k = 0; k < CACHED_BLOCKS; k++) {
            blocks[i][k] = malloc(CACHED_FIRST + i * CACHED_STEP);
        }
    }
    for (size_t i = 0; i < CACHED_SIZES; i++) {
        for (size_t k = 0; k < CACHED_BLOCKS; k++) {
            free(blocks[i][k]);
        }
    }
}

/* Somebody reads the nodes' metrics, which sweeps those of functions that are gone. */
static void read_metrics(void)
{
    struct buf page = BUF_INIT(0);

    metric_print(&page);
    buf_finish(&page);
}

static int64_t held_bytes(const struct world *w)
{
    struct mallinfo2 m;

    fill_caches();
    m = mallinfo2();
    return (int64_t)(m.uordblks + m.hblkhd) -
           (int64_t)(books_bytes(w->books) + versions_bytes(w)); /* a line for each request */
}

void nights_look(struct world *w)
{
    struct nights *s = w->nights;

    for (uint32_t i = 0; i < w->plan->lbs; i++) {
        clients_forget(w->lbs[i]->clients);
        front_forget(w->lbs[i]);
    }
    read_metrics();
    s->all[s->n++] = (struct night){ held_bytes(w), w->a.names };
    if (w->told) {
        world_tell(w, NULL, "NIGHT %u: %lld bytes are held", s->n,
                   (long long)s->all[s->n - 1].held_bytes);
    }
}

static int64_t most(const struct nights *s, uint32_t from, uint32_t to)
{
    int64_t bytes = 0;

    for (uint32_t i = from; i < to; i++) {
        bytes = s->all[i].held_bytes > bytes ? s->all[i].held_bytes : bytes;
    }
    return bytes;
}

/* The last quarter against the second one: by then all that is kept once is there. */
bool nights_judge(struct world *w)
{
    const struct nights *s = w->nights;
    uint32_t quarter = s->n / 4;
    int64_t early, late, names, may_grow;

    if (quarter == 0) {
        return true;
    }
    early = most(s, quarter, 2 * quarter);
    late = most(s, s->n - quarter, s->n);
    names = s->all[s->n - 1].names - s->all[quarter].names;
    may_grow = HELD_SLACK_BYTES + names * HELD_OF_NAME_BYTES * (w->plan->lbs + world_slots(w));
    if (late > early + may_grow) {
        books_break(w->books, BOOKS_HOLDS, 0,
                    "%lld bytes are held at night, %lld more than before; expected %lld at most",
                    (long long)late, (long long)(late - early), (long long)may_grow);
    }
    return !books_broken(w->books);
}
