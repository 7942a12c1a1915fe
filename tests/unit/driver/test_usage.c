/* What a container uses, from a tree of files as the kernel would show them. */
#include "cgroup_usage.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ID  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define MIB 1048576u

static const char *const places[] = { "docker/%s", "system.slice/docker-%s.scope" };

static char root[] = "/tmp/fnd-usage-XXXXXX";

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void teardown(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", root);
    ck_assert_int_eq(system(command), 0);
}

static void put(const char *path, const char *text)
{
    char full[512];
    FILE *f;

    snprintf(full, sizeof(full), "%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
    f = fopen(full, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static void put_network(void)
{
    put("proc/4711/net/dev",
        "Inter-|   Receive                                                |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
        "    lo: 999 9 0 0 0 0 0 0 999 9 0 0 0 0 0 0\n"
        "  eth0:    1508      6    0    0    0     0          0         0     420       5    0\n"
        "  eth1: 2 1 0 0 0 0 0 0 3 1 0 0 0 0 0 0\n");
}

static void check_common(const struct fn_usage *u)
{
    ck_assert_uint_eq(u->flags, FN_USAGE_KNOWN);
    ck_assert_uint_eq(u->mem_bytes, 5 * MIB);
    ck_assert_uint_eq(u->mem_limit_bytes, 128 * MIB);
    ck_assert_uint_eq(u->net_rx_bytes, 1510);
    ck_assert_uint_eq(u->net_tx_bytes, 423);
    ck_assert_uint_eq(u->disk_read_bytes, 4096 + 100);
    ck_assert_uint_eq(u->disk_write_bytes, 8192 + 200);
}

static void put_v2(const char *group)
{
    static const struct {
        const char *file, *text;
    } files[] = {
        { "cpu.stat", "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\nnr_periods 7\n" },
        { "memory.current", "5242880\n" },
        { "memory.max", "134217728\n" },
        { "io.stat", "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=5 dios=0\n"
                     "8:16 rbytes=100 wbytes=200 rios=1 wios=1 dbytes=0 dios=0\n" },
        { "cgroup.procs", "4711\n4712\n" },
    };
    char path[256];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "sys/fs/cgroup/%s/%s", group, files[i].file);
        put(path, files[i].text);
    }
    put_network();
}

START_TEST(unified_hierarchy)
{
    struct fn_usage u = { .handle = 3 };

    put_v2(_i ? "docker/" ID : "system.slice/docker-" ID ".scope");
    ck_assert(usage_read(root, places, 2, ID, &u));
    check_common(&u);
    ck_assert_uint_eq(u.handle, 3);
    ck_assert_uint_eq(u.cpu_ns, 1500000);
    ck_assert_uint_eq(u.cpu_user_ns, 1000000);
    ck_assert_uint_eq(u.cpu_kernel_ns, 500000);
}
END_TEST

START_TEST(hierarchies_of_controllers)
{
    struct fn_usage u = { .handle = 3 };

    put("sys/fs/cgroup/cpuacct/docker/" ID "/cpuacct.usage", "1500000\n");
    put("sys/fs/cgroup/cpuacct/docker/" ID "/cpuacct.usage_user", "1000000\n");
    put("sys/fs/cgroup/cpuacct/docker/" ID "/cpuacct.usage_sys", "500000\n");
    put("sys/fs/cgroup/cpuacct/docker/" ID "/cgroup.procs", "4711\n");
    put("sys/fs/cgroup/memory/docker/" ID "/memory.usage_in_bytes", "5242880\n");
    put("sys/fs/cgroup/memory/docker/" ID "/memory.limit_in_bytes", "134217728\n");
    put("sys/fs/cgroup/blkio/docker/" ID "/blkio.throttle.io_service_bytes_recursive",
        "8:0 Read 4096\n8:0 Write 8192\n8:0 Sync 1\n8:0 Async 2\n8:0 Discard 3\n8:0 Total 12291\n"
        "8:16 Read 100\n8:16 Write 200\nTotal 12591\n");
    put_network();
    ck_assert(usage_read(root, places, 2, ID, &u));
    check_common(&u);
    ck_assert_uint_eq(u.cpu_ns, 1500000);
    ck_assert_uint_eq(u.cpu_user_ns, 1000000);
    ck_assert_uint_eq(u.cpu_kernel_ns, 500000);
}
END_TEST

/* No limit, no process, no disks: what is there is told. */
START_TEST(parts_may_be_missing)
{
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    struct fn_usage u = { .handle = 3 };

    ck_assert(!usage_read(root, places, 2, ID, &u));
    ck_assert_uint_eq(u.flags, 0);
    put("sys/fs/cgroup/docker/" ID "/cpu.stat", "usage_usec 7\n");
    put("sys/fs/cgroup/docker/" ID "/memory.max", "max\n");
    put("sys/fs/cgroup/docker/" ID "/cgroup.procs", "");
    ck_assert(usage_read(root, places, 2, ID, &u));
    ck_assert_uint_eq(u.cpu_ns, 7000);
    ck_assert_uint_eq(u.cpu_user_ns, 0);
    ck_assert_uint_eq(u.mem_limit_bytes, machine);
    ck_assert_uint_eq(u.net_rx_bytes + u.disk_read_bytes, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("usage");
    TCase *t = tcase_create("files");
    SRunner *r;
    int failed;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, unified_hierarchy, 0, 2);
    tcase_add_test(t, hierarchies_of_controllers);
    tcase_add_test(t, parts_may_be_missing);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
