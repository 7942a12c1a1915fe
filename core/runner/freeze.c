/* Freezing: when an idle container is frozen.
 *
 * Freezing and thawing take time of the node and of the next call, and save what an idle function
 * would use of the processors. So a container is frozen runner.freeze_idle after its last call, but
 * not while the calls of its function come so close together that it would be thawed soon: where
 * they usually come within FREEZE_WORTH times what freezing and thawing cost of late, twice that
 * time is waited, and only a container that they have left alone is frozen. With
 * runner.freeze_when: busy none is frozen while the processors have time to spare; frozen ones free
 * no memory. */
#include <runner/runner_int.h>

#include <string.h>

#define FREEZE_WORTH       100 /* freezing costs 1 % of the time for which it lasts at most */
#define FREEZE_BACKLOG_MAX 16  /* in flight and waiting; beyond it containers stay as they are */
#define LOOK_SOON_NS       (2 * ACCOUNT_CPU_WINDOW_NS)
#define LOOK_AGAIN_NS      (ACCOUNT_CPU_MEMORY_NS - ACCOUNT_CPU_WINDOW_NS)

/* The last eight more than those before. */
static void follow(int64_t *mean, int64_t ns)
{
    *mean += *mean == 0 ? ns : (ns - *mean) / 8;
}

void freeze_taken(struct container *c)
{
    follow(&c->q->gap_ns, env_now_ns(c->r->env) - c->idle_since_ns + 1);
}

void freeze_measured(struct container *c)
{
    int64_t ns = env_now_ns(c->r->env) - c->op.begun_ns;

    follow(c->state == CTR_THAW ? &c->r->freezing.thaw_ns : &c->r->freezing.freeze_ns, ns);
}

int64_t freeze_due_ns(const struct container *c)
{
    const struct runner *r = c->r;
    int64_t cost_ns = r->freezing.freeze_ns + r->freezing.thaw_ns;
    int64_t delay_ns = r->opt.freeze_idle_ns;

    if (delay_ns < 0 || !r->ops->freeze) {
        return INT64_MAX;
    }
    if (c->q->gap_ns <= FREEZE_WORTH * cost_ns && 2 * c->q->gap_ns > delay_ns) {
        delay_ns = 2 * c->q->gap_ns;
    }
    return c->idle_since_ns + delay_ns;
}

/* 0: they are in use; else the time after which to look again. */
static int64_t spare_for_ns(struct runner *r, int64_t now)
{
    bool known = r->cpu.total_ticks > 0 && now - r->cpu.seen_ns < ACCOUNT_CPU_MEMORY_NS;

    if (!known) {
        account_cpu_spare(&r->cpu, &r->deps.reader, now); /* the next look knows */
        return r->cpu.total_ticks > 0 ? LOOK_SOON_NS : LOOK_AGAIN_NS;
    }
    return account_cpu_spare(&r->cpu, &r->deps.reader, now) ? LOOK_AGAIN_NS : 0;
}

int64_t freeze_look_ns(struct container *c, bool wanted, int64_t now)
{
    struct runner *r = c->r;
    int64_t due_ns = freeze_due_ns(c);
    int64_t spare_ns;

    if (now < due_ns) {
        return due_ns;
    }
    if (wanted || r->engine.state != ENGINE_UP ||
        r->engine.freezes.waiting >= FREEZE_BACKLOG_MAX) {
        return now + r->opt.freeze_idle_ns + ENV_S;
    }
    spare_ns = strcmp(r->opt.freeze_when, "busy") == 0 ? spare_for_ns(r, now) : 0;
    return now + spare_ns;
}
