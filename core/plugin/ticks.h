/* Ticks: how long plugins run, by the processor's counter. Private to core/plugin.
 *
 * Two clock reads cost 43 ns here, two tick reads 19, and a placer's decision is not much longer
 * than that. Ticks become nanoseconds only for calls that were long enough to be suspect, with the
 * rate since the host was made; a processor whose counter is not steady can only make a budget
 * miss wrong, nothing else. */
#ifndef PLUGIN_TICKS_H
#define PLUGIN_TICKS_H

#include <plugin/plugin_int.h>

static inline uint64_t plugin_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t t;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t << 6; /* counts at 10 to 100 MHz; keeps the threshold above meaningful */
#else
    return 0;
#endif
}

/* The host begins to count. */
void plugin_ticks_sample(struct plugin_host *h);
/* ns per tick since the host was made, seen at tick `at`; 0 = time is not real. */
double plugin_tick_ns(const struct plugin_host *h, uint64_t at);

#endif
