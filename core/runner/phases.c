/* Phases of a start: how long each took, and how much of it a call has waited for. */
#include <runner/runner_int.h>

const char *const phase_names[PHASES_N] = { "pull", "prepare", "create", "init" };

struct marks {
    int64_t ns[PHASES_N + 1]; /* the begin of each phase, and the end of the last; 0 = not yet */
};

static struct marks marks_of(const struct container *c)
{
    struct marks m = { { c->launched_ns, c->image_ns, c->create_ns, c->started_ns, c->ready_ns } };

    for (int i = 1; i <= PHASES_N; i++) {
        if (m.ns[i] < m.ns[i - 1]) {
            m.ns[i] = 0; /* of a first try: the engine had lost the image */
        }
    }
    return m;
}

void phases_count(const struct container *c)
{
    struct marks m = marks_of(c);

    for (int i = 0; i < PHASES_N; i++) {
        metric_observe(c->r->metrics.phases[i], (m.ns[i + 1] - m.ns[i]) / ENV_MS);
    }
}

void phases_note(const struct container *c, struct rcall *rc)
{
    struct marks m = marks_of(c);
    int64_t now = env_now_ns(c->r->env);

    if (rc->started_ns) {
        return; /* the start of another container is a part of its run */
    }
    for (int i = 0; i < PHASES_N; i++) {
        int64_t from = m.ns[i] > rc->created_ns ? m.ns[i] : rc->created_ns;
        int64_t to = m.ns[i + 1] ? m.ns[i + 1] : now;

        rc->phase_ns[i] = m.ns[i] && to > from ? to - from : 0;
        rc->phase_at_ns[i] = from;
    }
}
