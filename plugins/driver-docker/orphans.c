/* Orphans: a create whose answer was lost may have made a container all the same.
 *
 * The next calls remove them, one each; those that no call comes for are asked for from the timer,
 * a few at a time. An engine that hung carries out what it had read before, and may do so after it
 * has answered a removal with "not there": that is believed only when it has been the answer for
 * ORPHAN_LIFE_NS. A node that ends before leaves the rest to the sweep of the next one. */
#include "docker.h"

/* All under the lock. */
static struct orphan *find(struct docker *d, const char *name)
{
    for (uint32_t i = 0; i < ORPHANS_MAX; i++) {
        if (strcmp(d->orphans[i].name, name) == 0) {
            return &d->orphans[i];
        }
    }
    return NULL;
}

void orphans_keep(struct docker *d, const char *name)
{
    struct orphan *o;

    pthread_mutex_lock(&d->lock);
    o = find(d, "");
    if (o) {
        *o = (struct orphan){ .next_ns = engine_now_ns(d) + ORPHAN_ASIDE_NS };
        snprintf(o->name, sizeof(o->name), "%s", name);
    }
    pthread_mutex_unlock(&d->lock);
}

/* Takes one that is due, by_call also one that was never tried. "" when there is none. */
static void take(struct docker *d, bool by_call, char ret[API_NAME_MAX + 1])
{
    int64_t now_ns = engine_now_ns(d);

    ret[0] = '\0';
    pthread_mutex_lock(&d->lock);
    for (uint32_t i = 0; i < ORPHANS_MAX; i++) {
        struct orphan *o = &d->orphans[i];

        if (*o->name && !o->asking && ((by_call && !o->tried) || now_ns >= o->next_ns)) {
            o->asking = o->tried = true;
            memcpy(ret, o->name, sizeof(o->name));
            break;
        }
    }
    pthread_mutex_unlock(&d->lock);
}

static void settle(struct docker *d, const char *name, uint32_t status)
{
    bool removed = status == 200 || status == 204;
    int64_t now_ns = engine_now_ns(d);
    struct orphan *o;

    pthread_mutex_lock(&d->lock);
    o = find(d, name);
    if (o) {
        o->asking = false;
        o->next_ns = now_ns + ORPHAN_AGAIN_NS;
        if (status != 404) {
            o->missing_ns = 0;
        } else if (o->missing_ns == 0) {
            o->missing_ns = now_ns;
        }
        if (removed || (o->missing_ns && now_ns - o->missing_ns >= ORPHAN_LIFE_NS)) {
            *o = (struct orphan){ .name = "" };
        }
    }
    pthread_mutex_unlock(&d->lock);
}

void orphans_remove_one(struct docker *d, struct fn_op *op)
{
    char name[API_NAME_MAX + 1];
    uint32_t status = 0;

    take(d, true, name);
    if (*name) {
        engine_remove(d, op, name, &status, NULL);
        settle(d, name, status);
    }
}

/* A hung engine keeps those that are asked for: there are never more than ORPHANS_ASKED_MAX. */
static bool may_ask(struct docker *d)
{
    uint32_t asked = 0;
    bool ok;

    pthread_mutex_lock(&d->lock);
    for (uint32_t i = 0; i < ORPHANS_MAX; i++) {
        asked += d->orphans[i].asking;
    }
    ok = d->events.engine_up && asked < ORPHANS_ASKED_MAX;
    pthread_mutex_unlock(&d->lock);
    return ok;
}

void orphans_tick(struct docker *d)
{
    char name[API_NAME_MAX + 1];

    while (may_ask(d)) {
        take(d, false, name);
        if (*name == '\0') {
            return;
        }
        if (events_ask_removal(d, name) < 0) {
            settle(d, name, 0);
        }
    }
}

void orphans_answered(struct docker *d, const char *name, uint32_t status)
{
    settle(d, name, status);
}
