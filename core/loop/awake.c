/* Looks once in a while how often the loop waited for events since the last look, and opens or
 * closes /dev/cpu_dma_latency by it. */
#include <loop/awake.h>

#include <base/env.h>
#include <base/log.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool halts_cost(const char *driver)
{
    char name[32] = "";
    FILE *f = fopen(driver, "re");

    if (f) {
        (void)!fgets(name, sizeof(name), f);
        fclose(f);
    }
    return strcmp(name, "haltpoll\n") == 0;
}

struct awake awake_make(const char *wish, const char *device, const char *driver)
{
    struct awake a = { .fd = -1, .waits_min = AWAKE_WAITS };

    if (strcmp(wish, "true") == 0) {
        a.device = device;
    } else if (strcmp(wish, "auto") == 0 && halts_cost(driver) && access(device, W_OK) == 0) {
        a.device = device;
        a.waits_min *= (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    }
    return a;
}

static void hold(struct awake *a)
{
    const int32_t latency_us = 0;

    a->fd = open(a->device, O_WRONLY | O_CLOEXEC);
    if (a->fd >= 0 &&
        write(a->fd, &latency_us, sizeof(latency_us)) == (ssize_t)sizeof(latency_us)) {
        return;
    }
    a->refused = true;
    log_warn("processors_awake: the device cannot be used, processors sleep as they do", "device",
             a->device, "error", strerror(errno));
    awake_finish(a);
}

bool awake_look(struct awake *a, uint64_t waits, int64_t now_ns)
{
    double for_s = (double)(now_ns - a->looked_ns) / ENV_S;

    if (a->looked_ns != 0 && (double)(waits - a->waits) >= (double)a->waits_min * for_s) {
        a->busy_ns = now_ns;
        if (a->fd < 0 && !a->refused) {
            hold(a);
        }
    } else if (now_ns - a->busy_ns >= AWAKE_LINGER_NS) {
        awake_finish(a);
    }
    a->waits = waits;
    a->looked_ns = now_ns;
    return a->fd >= 0;
}

void awake_finish(struct awake *a)
{
    if (a->fd >= 0) {
        close(a->fd);
        a->fd = -1;
    }
}
