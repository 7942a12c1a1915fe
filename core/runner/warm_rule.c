/* How many containers of a function are kept ready, where no plugin says so.
 *
 * A call that had to wait for a start raises the number to what there is then: demand has made so
 * many. It holds while as many calls run at once as that, and warm_hold longer; then it goes down
 * by a quarter each minute, so that a function that is called less and less keeps less and less. */
#include <runner/warm.h>

#define STEP_NS (60 * ENV_S)

uint32_t warm_rule(struct warm_rule *s, const struct fn_traffic *d, int64_t hold_ns)
{
    if (d->missed > 0 && d->containers > s->level) {
        s->level = d->containers;
    }
    if (s->level > d->kept_max) {
        s->level = d->kept_max;
    }
    if (d->missed > 0 || d->running_max >= s->level) {
        s->reached_ns = d->now_ns;
    } else if (d->now_ns - s->reached_ns >= hold_ns && d->now_ns - s->stepped_ns >= STEP_NS) {
        s->level -= (s->level + 3) / 4;
        s->stepped_ns = d->now_ns;
    }
    return s->level;
}
