/* What a container uses, read from its cgroup and its network: some microseconds, and the engine is
 * not asked. Where that runs on another machine there is nothing to read.
 *
 * Ids are 64 hex digits or names of containers (ctr_name.h): a path cannot lead anywhere else. */
#include "cgroup_usage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CGROUPS    "/sys/fs/cgroup/"
#define TEXT_MAX   8192 /* of a file: io.stat has a line for each disk */
#define PATH_BYTES 400

struct group {
    const char *root; /* of everything: "" but in tests */
    bool v1;
    char place[256]; /* below the root */
};

/* False: it cannot be read. */
static bool read_path(const char *path, char text[TEXT_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, TEXT_MAX - 1);

    if (fd >= 0) {
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* `controller` counts where each has a hierarchy of its own. */
static bool read_file(const struct group *g, const char *controller, const char *file,
                      char text[TEXT_MAX])
{
    char path[PATH_BYTES];

    snprintf(path, sizeof(path), "%s" CGROUPS "%s%s%s/%s", g->root, g->v1 ? controller : "",
             g->v1 ? "/" : "", g->place, file);
    return read_path(path, text);
}

static bool group_find(const char *root, const char *const *places, size_t n, const char *id,
                       struct group *ret)
{
    char text[TEXT_MAX];

    ret->root = root;
    for (size_t i = 0; i < 2 * n; i++) {
        ret->v1 = i >= n;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(ret->place, sizeof(ret->place), places[i % n], id);
#pragma GCC diagnostic pop
        if (read_file(ret, "cpuacct", ret->v1 ? "cpuacct.usage" : "cpu.stat", text)) {
            return true;
        }
    }
    return false;
}

static uint64_t read_number(const struct group *g, const char *controller, const char *file)
{
    char text[TEXT_MAX];

    return read_file(g, controller, file, text) ? strtoull(text, NULL, 10) : 0;
}

/* The sum of the numbers behind `key` in a text such as "8:0 Read 4096\n" or "rbytes=4096". */
static uint64_t sum_of(const char *text, const char *key)
{
    size_t len = strlen(key);
    uint64_t sum = 0;

    for (const char *at = text; (at = strstr(at, key)); at += len) {
        if (at == text || at[-1] == ' ' || at[-1] == '\n') {
            sum += strtoull(at + len, NULL, 10);
        }
    }
    return sum;
}

static void read_cpu(const struct group *g, struct fn_usage *ret)
{
    char text[TEXT_MAX];

    if (g->v1) {
        ret->cpu_ns = read_number(g, "cpuacct", "cpuacct.usage");
        ret->cpu_user_ns = read_number(g, "cpuacct", "cpuacct.usage_user");
        ret->cpu_kernel_ns = read_number(g, "cpuacct", "cpuacct.usage_sys");
    } else if (read_file(g, "", "cpu.stat", text)) {
        ret->cpu_ns = sum_of(text, "usage_usec ") * 1000;
        ret->cpu_user_ns = sum_of(text, "user_usec ") * 1000;
        ret->cpu_kernel_ns = sum_of(text, "system_usec ") * 1000;
    }
}

/* No limit is a number that no machine has, or "max". */
static void read_memory(const struct group *g, struct fn_usage *ret)
{
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t limit = read_number(g, "memory", g->v1 ? "memory.limit_in_bytes" : "memory.max");

    ret->mem_bytes = read_number(g, "memory", g->v1 ? "memory.usage_in_bytes" : "memory.current");
    ret->mem_limit_bytes = limit == 0 || limit > machine ? machine : limit;
}

static void read_disks(const struct group *g, struct fn_usage *ret)
{
    char text[TEXT_MAX];

    if (read_file(g, "blkio", g->v1 ? "blkio.throttle.io_service_bytes_recursive" : "io.stat",
                  text)) {
        ret->disk_read_bytes = sum_of(text, g->v1 ? "Read " : "rbytes=");
        ret->disk_write_bytes = sum_of(text, g->v1 ? "Write " : "wbytes=");
    }
}

/* "  eth0: 508 6 0 0 0 0 0 0 420 5 ...": the 1st and the 9th number, of all but the loopback. */
static void add_interface(const char *line, struct fn_usage *ret)
{
    const char *colon = strchr(line, ':');
    unsigned long long rx, tx;

    line += strspn(line, " ");
    if (colon && strncmp(line, "lo:", 3) != 0 &&
        sscanf(colon + 1, "%llu %*u %*u %*u %*u %*u %*u %*u %llu", &rx, &tx) == 2) {
        ret->net_rx_bytes += rx;
        ret->net_tx_bytes += tx;
    }
}

static void read_network(const struct group *g, struct fn_usage *ret)
{
    char text[TEXT_MAX], path[PATH_BYTES];
    char *end;

    if (!read_file(g, "cpuacct", "cgroup.procs", text)) {
        return;
    }
    snprintf(path, sizeof(path), "%s/proc/%lu/net/dev", g->root, strtoul(text, NULL, 10));
    if (!read_path(path, text)) {
        return;
    }
    for (char *line = text; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        add_interface(line, ret);
    }
}

bool usage_read(const char *root, const char *const *places, size_t n, const char *id,
                struct fn_usage *ret)
{
    struct group g;

    if (!group_find(root, places, n, id, &g)) {
        return false;
    }
    read_cpu(&g, ret);
    read_memory(&g, ret);
    read_disks(&g, ret);
    read_network(&g, ret);
    ret->flags |= FN_USAGE_KNOWN;
    return true;
}
