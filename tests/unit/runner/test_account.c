/* Totals from file texts; the replay table. */
#include "suites.h"

#include <malloc.h>
#include <runner/runner_int.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct file {
    const char *path;
    const char *text;
};

static int read_fake(void *ud, const char *path, char *ret, size_t cap)
{
    const struct file *f;

    for (f = ud; f->path; f++) {
        if (strcmp(f->path, path) == 0) {
            return snprintf(ret, cap, "%s", f->text);
        }
    }
    return -1;
}

#define MEMINFO(kib) { "/proc/meminfo", "MemTotal: 99999999 kB\nMemAvailable:    " #kib " kB\n" }
#define PROCESSORS 2

static int detect(const struct file *files, uint64_t mem_max, uint64_t cpu_max,
                  struct account_totals *ret, struct fn_error *err)
{
    struct account_reader reader = { read_fake, (void *)(uintptr_t)files };
    struct account_limits limits = { mem_max, cpu_max, 1600 };

    return account_detect(&reader, PROCESSORS, &limits, ret, err);
}

START_TEST(bare)
{
    static const struct file files[] = { MEMINFO(10485760), { NULL, NULL } };
    struct account_totals t;

    ck_assert_int_eq(detect(files, 0, 0, &t, NULL), 0);
    ck_assert_uint_eq(t.mem_bytes, 10240 * ACCOUNT_MIB - 1024 * ACCOUNT_MIB);
    ck_assert_uint_eq(t.cpu_milli, 2000);
    ck_assert_uint_eq(t.cpu_milli_default, 1600);
    ck_assert_int_eq(detect(files, 512 * ACCOUNT_MIB, 1500, &t, NULL), 0);
    ck_assert_uint_eq(t.mem_bytes, 512 * ACCOUNT_MIB);
    ck_assert_uint_eq(t.cpu_milli, 1500);
    ck_assert_uint_eq(t.cpu_milli_default, 1500); /* or nothing would ever fit */
}
END_TEST

START_TEST(headroom)
{
    static const struct file large[] = { MEMINFO(104857600), { NULL, NULL } };
    static const struct file small[] = { MEMINFO(1048576), { NULL, NULL } };
    static const struct file tiny[] = { MEMINFO(262144), { NULL, NULL } };
    static const struct file none[] = { { NULL, NULL } };
    struct account_totals t;
    struct fn_error err = ERR_INIT;

    ck_assert_int_eq(detect(large, 0, 0, &t, NULL), 0);
    ck_assert_uint_eq(t.mem_bytes, 102400 * ACCOUNT_MIB - 5120 * ACCOUNT_MIB);
    ck_assert_int_eq(detect(small, 0, 0, &t, NULL), 0);
    ck_assert_uint_eq(t.mem_bytes, 1024 * ACCOUNT_MIB - 256 * ACCOUNT_MIB);
    ck_assert_int_eq(detect(tiny, 0, 0, &t, &err), FN_E_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(err.msg, "got 268435456 bytes"));
    ck_assert_int_eq(detect(none, 0, 0, &t, &err), FN_E_PRECONDITION);
}
END_TEST

START_TEST(cgroup_v2)
{
    static const struct file files[] = {
        MEMINFO(10485760),
        { "/proc/self/cgroup", "0::/fn/node\n" },
        { "/sys/fs/cgroup/fn/node/memory.max", "max\n" },
        { "/sys/fs/cgroup/fn/node/cpu.max", "max 100000\n" },
        { "/sys/fs/cgroup/fn/memory.max", "2147483648\n" },
        { "/sys/fs/cgroup/fn/cpu.max", "150000 100000\n" },
        { NULL, NULL },
    };
    struct account_totals t;

    ck_assert_int_eq(detect(files, 0, 0, &t, NULL), 0);
    ck_assert_uint_eq(t.mem_bytes, 2048 * ACCOUNT_MIB - 256 * ACCOUNT_MIB);
    ck_assert_uint_eq(t.cpu_milli, 1500);
}
END_TEST

START_TEST(cgroup_v1)
{
    static const struct file files[] = {
        MEMINFO(10485760),
        { "/proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/b\n1:name=systemd:/\n" },
        { "/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n" },
        { "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n" },
        { "/sys/fs/cgroup/cpu/b/cpu.cfs_quota_us", "50000\n" },
        { "/sys/fs/cgroup/cpu/b/cpu.cfs_period_us", "100000\n" },
        { "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n" },
        { NULL, NULL },
    };
    struct account_totals t;

    ck_assert_int_eq(detect(files, 0, 0, &t, NULL), 0);
    ck_assert_uint_eq(t.mem_bytes, 1024 * ACCOUNT_MIB - 256 * ACCOUNT_MIB);
    ck_assert_uint_eq(t.cpu_milli, 500);
}
END_TEST

/* The processors over four looks: spare or not, not known, nearly none, some. */
START_TEST(spare_processors)
{
    struct file stat[] = { { "/proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1\n" },
                           { NULL, NULL } };
    const struct account_reader reader = { read_fake, stat };
    const struct account_reader none = { NULL, NULL };
    struct account_cpu cpu = { 0 };
    int64_t ms = INT64_C(1000000);

    ck_assert(account_cpu_spare(&cpu, &none, 5000 * ms)); /* not to be known */
    ck_assert(!account_cpu_spare(&cpu, &reader, 5000 * ms)); /* the first look */
    stat[0].text = "cpu  110 0 109 801 0 0 0 0 0 0\n";
    ck_assert(!account_cpu_spare(&cpu, &reader, 5050 * ms)); /* too soon for another */
    ck_assert(!account_cpu_spare(&cpu, &reader, 5100 * ms)); /* 1 of 20 ticks */
    stat[0].text = "cpu  118 1 109 801 1 0 0 0 0 0\n";
    ck_assert(account_cpu_spare(&cpu, &reader, 5200 * ms)); /* 2 of 10: a niced one, a disk */
    stat[0].text = "cpu  118 1 109 901 1 0 0 0 0 0\n";
    ck_assert(!account_cpu_spare(&cpu, &reader, 6300 * ms)); /* the last look was long ago */
    stat[0].text = "nonsense";
    ck_assert(account_cpu_spare(&cpu, &reader, 6500 * ms));
}
END_TEST

/* A key is the hash of its identity, kept or not: whatever came before, whatever the size. */
START_TEST(slot_keys_kept)
{
    struct keys keys = { 0 };
    struct buf identity = BUF_INIT(0);
    struct arena arena;
    struct call c;
    char fn[24];
    char *large = calloc(1, 100001);
    unsigned char expected[SLOT_KEY_BYTES], got[SLOT_KEY_BYTES];

    memset(large, 'x', 100000);
    arena_init(&arena, 0);
    call_init(&c, &arena);
    c.fn_id = fn;
    for (uint32_t i = 0; i < 4000; i++) {
        snprintf(fn, sizeof(fn), "fn-%u", i / 4 % 300); /* each twice and once more later */
        kvs_set(&c.config, "version", i % 2 ? "1" : "2");
        c.syslog_url = i % 1000 == 999 ? large : "";
        buf_clear(&identity);
        ck_assert_int_eq(call_identity(&c, "x", &identity), 0);
        call_slot_key(&identity, expected);
        ck_assert_int_eq(keys_find(&keys, &c, "x", got), 0);
        ck_assert_mem_eq(got, expected, sizeof(got));
    }
    keys_finish(&keys);
    buf_finish(&identity);
    arena_finish(&arena);
    free(large);
}
END_TEST

START_TEST(seen_ids)
{
    struct seen s;
    struct seen_mark mark, first;
    char id[40];

    ck_assert_int_eq(seen_init(&s, 1000, 600 * ENV_S, 42), 0);
    ck_assert_int_eq(seen_add(&s, "one", 0, &first), 0);
    ck_assert_int_eq(seen_add(&s, "one", 1, &mark), FN_E_EXISTS);
    seen_forget(&s, &first);
    ck_assert_int_eq(seen_add(&s, "one", 2, &mark), 0);
    for (int i = 0; i < 20000; i++) { /* far more than it holds, with random forgetting */
        snprintf(id, sizeof(id), "id-%d", i);
        ck_assert_int_eq(seen_add(&s, id, i, &mark), 0);
        ck_assert_int_eq(seen_add(&s, id, i, &first), FN_E_EXISTS);
        if (i % 3 == 0) {
            seen_forget(&s, &mark);
            ck_assert_int_eq(seen_add(&s, id, i, &mark), 0);
        }
    }
    for (int i = 19999; i > 19999 - 1000; i--) {
        snprintf(id, sizeof(id), "id-%d", i);
        ck_assert_int_eq(seen_add(&s, id, 20000, &mark), FN_E_EXISTS);
    }
    ck_assert_int_eq(seen_add(&s, "id-5", 599 * ENV_S, &mark), 0); /* long forgotten */
    ck_assert_int_eq(seen_add(&s, "id-19001", 599 * ENV_S, &mark), FN_E_EXISTS);
    ck_assert_int_eq(seen_add(&s, "id-19001", 700 * ENV_S, &mark), 0); /* the oldest, too old */
    seen_finish(&s);
}
END_TEST

/* What a burst has left behind leaves in small portions, and what a rest has made old too. */
START_TEST(seen_leave)
{
    struct seen s;
    struct seen_mark mark;
    char id[40];

    ck_assert_int_eq(seen_init(&s, 1000, 600 * ENV_S, 42), 0);
    for (int i = 0; i < 1000; i++) {
        snprintf(id, sizeof(id), "id-%d", i);
        ck_assert_int_eq(seen_add(&s, id, 0, &mark), 0);
    }
    for (int i = 1; i <= 250; i++) { /* each asking takes two out */
        snprintf(id, sizeof(id), "new-%d", i);
        ck_assert_int_eq(seen_add(&s, id, 601 * ENV_S, &mark), 0);
        ck_assert_int_eq(seen_add(&s, "id-999", 601 * ENV_S, &mark), i < 250 ? FN_E_EXISTS : 0);
    }
    for (int i = 1; i <= 250; i++) {
        snprintf(id, sizeof(id), "new-%d", i);
        ck_assert_int_eq(seen_add(&s, id, 602 * ENV_S, &mark), FN_E_EXISTS);
    }
    for (int i = 0; i < 999; i++) {
        snprintf(id, sizeof(id), "id-%d", i);
        ck_assert_int_eq(seen_add(&s, id, 602 * ENV_S, &mark), 0);
        seen_forget(&s, &mark);
    }
    seen_finish(&s);
}
END_TEST

START_TEST(seen_marks)
{
    struct seen s;
    struct seen_mark old, mark, other;

    ck_assert_int_eq(seen_init(&s, 100000, 600 * ENV_S, 42), 0);
    ck_assert_uint_le(malloc_usable_size(s.ids) + malloc_usable_size(s.heads), 3800 * 1000);
    ck_assert_int_eq(seen_add(&s, "one", 5000 * ENV_S, &old), 0);
    ck_assert_int_eq(seen_add(&s, "one", 5641 * ENV_S, &mark), 0); /* too old: a call of its own */
    seen_forget(&s, &old);
    ck_assert_int_eq(seen_add(&s, "one", 5641 * ENV_S, &mark), FN_E_EXISTS);
    seen_forget(&s, &mark); /* of a refused one: nothing */
    ck_assert_int_eq(seen_add(&s, "one", 6240 * ENV_S, &mark), FN_E_EXISTS);
    seen_finish(&s);
    ck_assert_int_eq(seen_init(&s, 2, 600 * ENV_S, 42), 0);
    ck_assert_int_eq(seen_add(&s, "kept", 0, &other), 0);
    for (int i = 0; i < 10; i++) { /* refused at once: nobody goes for it */
        ck_assert_int_eq(seen_add(&s, "refused", i, &mark), 0);
        seen_forget(&s, &mark);
        seen_forget(&s, &mark); /* again: nothing */
    }
    ck_assert_int_eq(seen_add(&s, "next", 10, &mark), 0);
    ck_assert_int_eq(seen_add(&s, "kept", 10, &old), FN_E_EXISTS);
    seen_forget(&s, &other); /* out of order: its place is free all the same */
    seen_forget(&s, &other);
    ck_assert_int_eq(seen_add(&s, "kept", 10, &old), 0);
    ck_assert_int_eq(seen_add(&s, "next", 10, &other), FN_E_EXISTS);
    ck_assert_int_eq(seen_add(&s, "newer", 10, &other), 0); /* "next" is the oldest now */
    ck_assert_int_eq(seen_add(&s, "kept", 10, &old), FN_E_EXISTS);
    ck_assert_int_eq(seen_add(&s, "next", 10, &old), 0);
    seen_finish(&s);
    ck_assert_int_eq(seen_init(&s, 0, 0, 42), 0);
    ck_assert_int_eq(seen_add(&s, "one", 0, &mark), 0);
    ck_assert_int_eq(seen_add(&s, "one", 0, &mark), 0);
    seen_forget(&s, &mark);
    seen_finish(&s);
}
END_TEST

TCase *account_tests(void)
{
    TCase *t = tcase_create("account");

    tcase_add_test(t, bare);
    tcase_add_test(t, headroom);
    tcase_add_test(t, cgroup_v2);
    tcase_add_test(t, cgroup_v1);
    tcase_add_test(t, spare_processors);
    tcase_add_test(t, slot_keys_kept);
    tcase_add_test(t, seen_ids);
    tcase_add_test(t, seen_leave);
    tcase_add_test(t, seen_marks);
    return t;
}
