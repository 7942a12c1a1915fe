/* Freezing by writing the container's cgroup: microseconds instead of two engine calls.
 *
 * Works where the engine runs on this machine with one of the usual layouts; elsewhere nothing is
 * found and the engine is asked. The id is the engine's 64 hex digits, so a path cannot lead
 * anywhere else. */
#include "docker.h"

#include <fcntl.h>
#include <unistd.h>

static const struct {
    const char *format;
    bool v1;
} layouts[] = {
    { "/sys/fs/cgroup/freezer/docker/%s/freezer.state", true },
    { "/sys/fs/cgroup/system.slice/docker-%s.scope/cgroup.freeze", false },
    { "/sys/fs/cgroup/docker/%s/cgroup.freeze", false },
    { "/sys/fs/cgroup/freezer/system.slice/docker-%s.scope/freezer.state", true },
    { "/sys/fs/cgroup/machine.slice/libpod-%s.scope/cgroup.freeze", false },
    { "/sys/fs/cgroup/libpod_parent/libpod-%s/cgroup.freeze", false },
    { "/sys/fs/cgroup/freezer/machine.slice/libpod-%s.scope/freezer.state", true },
    { "/sys/fs/cgroup/freezer/libpod_parent/libpod-%s/freezer.state", true },
};

#define LAYOUTS_N ((int)(sizeof(layouts) / sizeof(layouts[0])))

static int try_layout(int i, const char *id, bool on)
{
    const char *text = layouts[i].v1 ? (on ? "FROZEN" : "THAWED") : (on ? "1" : "0");
    char path[256];
    ssize_t n;
    int fd;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(path, sizeof(path), layouts[i].format, id);
#pragma GCC diagnostic pop
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    n = write(fd, text, strlen(text));
    close(fd);
    return n == (ssize_t)strlen(text);
}

int freezer_write(struct docker *d, const char *id, bool on)
{
    int first = __atomic_load_n(&d->freezer, __ATOMIC_RELAXED);

    for (int k = 0; k < LAYOUTS_N; k++) {
        int i = (first + k) % LAYOUTS_N;

        if (try_layout(i, id, on)) {
            __atomic_store_n(&d->freezer, i, __ATOMIC_RELAXED);
            return 1;
        }
    }
    return 0;
}
