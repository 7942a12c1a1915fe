/* The list of a group's runners, and what is done about those that ended. */
#include "swarm.h"

#include "hash.h"

#include <stdio.h>
#include <string.h>

#define REAP_MAX 8u /* of one list call */
#define LINE_MAX 320

struct listing {
    struct cp *cp;
    const struct fn_machine_sink *out;
    char ended[REAP_MAX][SWARM_NAME_MAX + 1]; /* services to be taken away */
    uint32_t n_ended;
    struct some {
        uint32_t n;
        char why[LINE_MAX / 2]; /* of the first one */
    } waiting, held;
};

void swarm_tell(struct cp *cp, const char *line)
{
    uint64_t hash = text_hash(line);
    bool known = false;

    pthread_mutex_lock(&cp->lock);
    for (uint32_t i = 0; i < TOLD_N; i++) {
        known |= cp->told[i] == hash;
    }
    if (!known) {
        cp->told[cp->told_next++ % TOLD_N] = hash;
    }
    pthread_mutex_unlock(&cp->lock);
    if (!known && *cp->host->log->level >= FN_LOG_WARN) {
        cp->host->log->write(cp->host, FN_LOG_WARN, line, strlen(line));
    }
}

/* One that cannot be taken away by this list is not asked about: its hold would be forgotten, and
 * begin again with the next list. */
static bool is_held(const struct listing *l, const struct swarm_runner *r)
{
    struct cp *cp = l->cp;
    bool held;

    if (!r->stillborn || l->n_ended == REAP_MAX) {
        return r->stillborn;
    }
    pthread_mutex_lock(&cp->lock);
    held = hold(&cp->holds, text_hash(r->name), cp->host->clock->now_ns(cp->host));
    pthread_mutex_unlock(&cp->lock);
    return held;
}

static void count(struct some *s, const char *why)
{
    if (s->n++ == 0) {
        snprintf(s->why, sizeof(s->why), "%s", why);
    }
}

static void tell_some(struct cp *cp, const char *group, const struct some *s, const char *what)
{
    char line[LINE_MAX];

    if (s->n > 0) {
        snprintf(line, sizeof(line), "group %.64s: %u runners %s: %s", group, s->n, what, s->why);
        swarm_tell(cp, line);
    }
}

static int take_runner(void *ud, const struct swarm_runner *r)
{
    struct listing *l = ud;
    struct fn_machine m = { .size = sizeof(m),
                            .state = r->state,
                            .id = r->name,
                            .address = r->address,
                            .capacity_mb = r->capacity_mb,
                            .labels = r->labels };
    char line[LINE_MAX];

    if (r->ended && is_held(l, r)) {
        m.state = FN_MACHINE_STARTING;
        count(&l->held, r->why);
    } else if (r->ended && l->n_ended < REAP_MAX && swarm_is_name(r->name)) {
        snprintf(l->ended[l->n_ended++], sizeof(l->ended[0]), "%s", r->name);
        snprintf(line, sizeof(line), "%s ended: %s", r->name, r->why);
        swarm_tell(l->cp, line);
    } else if (r->state == FN_MACHINE_STARTING && *r->why) {
        count(&l->waiting, r->why);
    }
    return l->out->add(l->out->ud, &m);
}

int swarm_list(void *inst, struct fn_op *op, const char *group, const struct fn_machine_sink *out,
               struct fn_error *reterr)
{
    struct cp *cp = inst;
    struct listing l = { .cp = cp, .out = out };
    struct fn_http_answer services = { .size = sizeof(services) };
    struct fn_http_answer tasks = { .size = sizeof(tasks) };
    struct fn_http_answer nodes = { .size = sizeof(nodes) };
    char path[SWARM_PATH_MAX];
    int r = swarm_list_path(cp->conf, "services", group, path, reterr);

    r = r < 0 ? r : swarm_get(cp, op, "list of services", path, &services, reterr);
    r = r < 0 ? r : swarm_list_path(cp->conf, "tasks", group, path, reterr);
    r = r < 0 ? r : swarm_get(cp, op, "list of tasks", path, &tasks, reterr);
    r = r < 0 ? r : swarm_get(cp, op, "list of nodes", "/nodes", &nodes, reterr);
    r = r < 0 ? r
              : swarm_join(cp->conf, swarm_text_of(&services), swarm_text_of(&tasks),
                           swarm_text_of(&nodes), take_runner, &l, reterr);
    cp->http->free_answer(&services);
    cp->http->free_answer(&tasks);
    cp->http->free_answer(&nodes);
    if (r == 0) {
        tell_some(cp, group, &l.waiting, "wait");
        tell_some(cp, group, &l.held, "ended as soon as they began");
    }
    /* The service of a runner that ended would stay for ever. If this fails, the next list tries.
     */
    for (uint32_t i = 0; r == 0 && i < l.n_ended; i++) {
        (void)swarm_remove(cp, op, group, l.ended[i], NULL);
    }
    return r;
}
