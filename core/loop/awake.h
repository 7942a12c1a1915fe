/* Awake: keeps the machine's processors from sleeping while a loop is woken often.
 *
 * A call goes from client to load balancer to runner to function and back: each time the kernel
 * wakes somebody, and a processor that sleeps wakes late, on a virtual machine by tens of
 * microseconds. Linux keeps processors awake as long as somebody holds /dev/cpu_dma_latency open,
 * with 0 us written to it (PM QoS). That is done when the loop waits for events waits_min times a
 * second or more, and undone when it has not done so for AWAKE_LINGER_NS. Not thread-safe. */
#ifndef LOOP_AWAKE_H
#define LOOP_AWAKE_H

#include <stdbool.h>
#include <stdint.h>

#define AWAKE_DEVICE "/dev/cpu_dma_latency"
#define AWAKE_DRIVER "/sys/devices/system/cpu/cpuidle/current_driver"
#define AWAKE_WAITS  1000 /* a second */
#define AWAKE_LINGER_NS 5000000000LL

struct awake {
    const char *device; /* NULL = never */
    uint64_t waits_min; /* a second */
    int fd;             /* while it is held, else -1; so at the beginning */
    uint64_t waits;     /* at the last look */
    int64_t looked_ns;  /* 0 = never */
    int64_t busy_ns;    /* the last look that found it woken often */
    bool refused;       /* the device cannot be opened: told once, not tried again */
};

struct awake_options {
    const char *wish; /* see awake_make() */
};
extern const struct opt_table awake_opt_table; /* of the top level, options.c */

/* wish: "true", or "false", or "auto": where the machine is a virtual one, to Linux (its idle
 * driver, named in the file driver, is haltpoll), and the device can be opened; then AWAKE_WAITS
 * for each processor, because each polls while the device is held. The paths are borrowed. */
struct awake awake_make(const char *wish, const char *device, const char *driver);

/* Whether they are kept awake now. Only if a->device; waits: loop_waits(), a second or more after
 * the last look. */
bool awake_look(struct awake *a, uint64_t waits, int64_t now_ns);
void awake_finish(struct awake *a);

#endif
