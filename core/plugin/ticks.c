/* The rate of the counter: one sample of both clocks, and now. */
#include <plugin/ticks.h>

#define RATE_MIN_NS   (20 * ENV_MS)
#define RATE_GUESS_NS 0.4 /* until then */

void plugin_ticks_sample(struct plugin_host *h)
{
    h->ticks0 = plugin_ticks();
    h->ticks0_ns = h->env ? env_now_ns(h->env) : 0;
}

double plugin_tick_ns(const struct plugin_host *h, uint64_t at)
{
    int64_t since_ns = h->env && h->budget_loop_ns ? env_now_ns(h->env) - h->ticks0_ns : 0;

    if (since_ns <= 0) {
        return 0;
    }
    /* On the loop time stands still during a callback, so `at` should not be much later. */
    return since_ns < RATE_MIN_NS || at <= h->ticks0 ? RATE_GUESS_NS
                                                     : (double)since_ns / (double)(at - h->ticks0);
}
