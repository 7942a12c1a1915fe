/* Figures of many containers at once. They may go meanwhile: their ids are copied first. */
#include "docker.h"
#include "fail.h"
#include "cgroup_usage.h"

#include <stdlib.h>

/* Where the engine puts the cgroup of a container, below the root of a hierarchy. */
static const char *const places[] = { "docker/%s", "system.slice/docker-%s.scope",
                                      "machine.slice/libpod-%s.scope", "libpod_parent/libpod-%s" };

#define PLACES_N (sizeof(places) / sizeof(places[0]))

struct known {
    char id[API_ID_MAX + 1]; /* "" = no such container */
};

static void find_ids(struct docker *d, const struct fn_usage *items, uint32_t n,
                     struct known *ret)
{
    struct ctr *c, *next;

    pthread_mutex_lock(&d->lock);
    HASH_ITER(hh, d->ctrs, c, next) {
        for (uint32_t i = 0; i < n; i++) {
            if (items[i].handle == c->handle) {
                memcpy(ret[i].id, c->id, sizeof(c->id));
            }
        }
    }
    pthread_mutex_unlock(&d->lock);
}

int usage_tell(struct docker *d, struct fn_op *op, struct fn_usage *items, uint32_t n,
               struct fn_error *reterr)
{
    struct known *known = calloc(n ? n : 1, sizeof(*known));

    if (!known) {
        return fail_platform(reterr, FN_E_EXHAUSTED, "usage: out of memory");
    }
    find_ids(d, items, n, known);
    for (uint32_t i = 0; i < n && !d->op->cancelled(op); i++) {
        if (known[i].id[0]) {
            usage_read("", places, PLACES_N, known[i].id, &items[i]);
        }
    }
    free(known);
    return 0;
}
