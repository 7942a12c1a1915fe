/* Finds totals from /proc and the node's cgroup (v1 and v2), then adds and subtracts what
 * containers take. */
#include <runner/account.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX 65536
#define PATH_BYTES_MAX 4096

struct texts {
    const struct account_reader *reader;
    bool missed; /* a file, which may be there */
    char text[FILE_BYTES_MAX];
};

static bool account_load(struct texts *t, const char *path)
{
    int r = t->reader->read(t->reader->ud, path, t->text, sizeof(t->text));

    t->missed = t->missed || r == FN_E_EXHAUSTED;
    return r >= 0;
}

/* "max" and absurdly large values mean no limit. */
static bool parse_limit(const char *text, uint64_t *ret)
{
    char *end;
    unsigned long long v;

    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    v = strtoull(text, &end, 10);
    if (end == text || v > (1ULL << 60)) {
        return false;
    }
    *ret = v;
    return true;
}

static void at_most(uint64_t *v, uint64_t max)
{
    if (max < *v) {
        *v = max;
    }
}

static int mem_available(struct texts *t, uint64_t *ret, struct fn_error *reterr)
{
    const char *line;
    unsigned long long kib;

    if (!account_load(t, "/proc/meminfo")) {
        return err_set(reterr, FN_E_PRECONDITION,
                       "memory: cannot read /proc/meminfo, which says how much there is");
    }
    line = strstr(t->text, "MemAvailable:");
    if (!line || sscanf(line, "MemAvailable: %llu kB", &kib) != 1) {
        return err_set(reterr, FN_E_PRECONDITION, "memory: no MemAvailable in /proc/meminfo");
    }
    *ret = kib * 1024;
    return 0;
}

/* The path of this process in the hierarchy of `controller` ("" = v2); "/" when unknown. */
static void cgroup_path(struct texts *t, const char *controller, char *ret, size_t cap)
{
    char *save = NULL;

    snprintf(ret, cap, "/");
    if (!account_load(t, "/proc/self/cgroup")) {
        return;
    }
    for (char *line = strtok_r(t->text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *list = strchr(line, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;
        char *word_save = NULL;

        if (!path) {
            continue;
        }
        *path++ = '\0';
        list++;
        if (!*controller && !*list) {
            snprintf(ret, cap, "%s", path);
        }
        for (char *w = strtok_r(list, ",", &word_save); w; w = strtok_r(NULL, ",", &word_save)) {
            if (*controller && strcmp(w, controller) == 0) {
                snprintf(ret, cap, "%s", path);
            }
        }
    }
}

/* Calls visit() for `path` and each of its parents below `root`. A path that is not visible (a
 * container's own view) ends at the root, which then is the container's cgroup. */
static void walk_up(const char *root, char *path,
                    void (*visit)(struct texts *t, const char *dir, struct account_totals *io),
                    struct texts *t, struct account_totals *io)
{
    char dir[PATH_BYTES_MAX + 64];

    for (;;) {
        char *slash = strrchr(path, '/');

        snprintf(dir, sizeof(dir), "%s%s", root, strcmp(path, "/") == 0 ? "" : path);
        visit(t, dir, io);
        if (!slash || strcmp(path, "/") == 0) {
            return;
        }
        slash[slash == path] = '\0';
    }
}

static bool load_in(struct texts *t, const char *dir, const char *file)
{
    char path[PATH_BYTES_MAX + 128];

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    return account_load(t, path);
}

static void visit_v2(struct texts *t, const char *dir, struct account_totals *io)
{
    uint64_t v;
    unsigned long long quota, period;

    if (load_in(t, dir, "memory.max") && parse_limit(t->text, &v)) {
        at_most(&io->mem_bytes, v);
    }
    if (load_in(t, dir, "cpu.max") && sscanf(t->text, "%llu %llu", &quota, &period) == 2 &&
        quota > 0 && period > 0) {
        at_most(&io->cpu_milli, quota * 1000 / period);
    }
}

static void visit_v1_memory(struct texts *t, const char *dir, struct account_totals *io)
{
    uint64_t v;

    if (load_in(t, dir, "memory.limit_in_bytes") && parse_limit(t->text, &v)) {
        at_most(&io->mem_bytes, v);
    }
}

static void visit_v1_cpu(struct texts *t, const char *dir, struct account_totals *io)
{
    long long quota;
    unsigned long long period;

    if (load_in(t, dir, "cpu.cfs_quota_us") && sscanf(t->text, "%lld", &quota) == 1 && quota > 0 &&
        load_in(t, dir, "cpu.cfs_period_us") && sscanf(t->text, "%llu", &period) == 1 &&
        period > 0) {
        at_most(&io->cpu_milli, (uint64_t)quota * 1000 / period);
    }
}

static void apply_cgroups(struct texts *t, struct account_totals *io)
{
    char path[PATH_BYTES_MAX];

    cgroup_path(t, "", path, sizeof(path));
    walk_up("/sys/fs/cgroup", path, visit_v2, t, io);
    cgroup_path(t, "memory", path, sizeof(path));
    walk_up("/sys/fs/cgroup/memory", path, visit_v1_memory, t, io);
    cgroup_path(t, "cpu", path, sizeof(path));
    walk_up("/sys/fs/cgroup/cpu", path, visit_v1_cpu, t, io);
}

int account_detect(const struct account_reader *reader, uint32_t processors,
                   const struct account_limits *limits, struct account_totals *ret,
                   struct fn_error *reterr)
{
    struct texts *t = malloc(sizeof(*t));
    struct account_totals found = { 0 };
    uint64_t headroom;
    int r;

    if (!t) {
        return err_set(reterr, FN_E_EXHAUSTED, "memory: out of memory");
    }
    t->reader = reader;
    t->missed = false;
    r = mem_available(t, &found.mem_bytes, reterr);
    if (r == 0) {
        found.cpu_milli = processors * UINT64_C(1000);
        apply_cgroups(t, &found);
    }
    if (t->missed) {
        r = err_set(reterr, FN_E_EXHAUSTED,
                    "memory: a limit of this process cannot be read for want of descriptors or "
                    "memory");
    }
    free(t);
    if (r < 0) {
        return r;
    }
    if (found.mem_bytes <= ACCOUNT_HEADROOM_MIN_BYTES) {
        return err_set(reterr, FN_E_PRECONDITION,
                       "memory: available for containers, got %llu bytes; expected more than %llu",
                       (unsigned long long)found.mem_bytes, ACCOUNT_HEADROOM_MIN_BYTES);
    }
    headroom = found.mem_bytes / 10;
    headroom = headroom < ACCOUNT_HEADROOM_MIN_BYTES ? ACCOUNT_HEADROOM_MIN_BYTES : headroom;
    at_most(&headroom, ACCOUNT_HEADROOM_MAX_BYTES);
    found.mem_bytes -= headroom;
    at_most(&found.mem_bytes, limits->mem_bytes_max ? limits->mem_bytes_max : UINT64_MAX);
    at_most(&found.cpu_milli, limits->cpu_milli_max ? limits->cpu_milli_max : UINT64_MAX);
    found.cpu_milli_default = limits->cpu_milli_default;
    at_most(&found.cpu_milli_default, found.cpu_milli); /* one of them fits anywhere */
    *ret = found;
    return 0;
}

/* ---- spare processor time -------------------------------------------------------------------- */

static bool read_ticks(const struct account_reader *reader, uint64_t *ret_total,
                       uint64_t *ret_spare)
{
    unsigned long long user, nice, system, idle, iowait, irq, softirq, steal;
    char text[512];

    if (!reader->read || reader->read(reader->ud, "/proc/stat", text, sizeof(text)) < 0 ||
        sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
               &iowait, &irq, &softirq, &steal) != 8) {
        return false;
    }
    *ret_spare = nice + idle + iowait;
    *ret_total = *ret_spare + user + system + irq + softirq + steal;
    return true;
}

bool account_cpu_spare(struct account_cpu *cpu, const struct account_reader *reader,
                       int64_t now_ns)
{
    const struct account_cpu before = *cpu;
    int64_t since_ns = now_ns - before.seen_ns;

    if (before.total_ticks > 0 && since_ns < ACCOUNT_CPU_WINDOW_NS) {
        return before.spare;
    }
    if (!read_ticks(reader, &cpu->total_ticks, &cpu->spare_ticks)) {
        return true;
    }
    cpu->seen_ns = now_ns;
    cpu->spare = before.total_ticks > 0 && since_ns < ACCOUNT_CPU_MEMORY_NS &&
                 (int64_t)(cpu->spare_ticks - before.spare_ticks) * 100 >=
                     (int64_t)(cpu->total_ticks - before.total_ticks) * ACCOUNT_SPARE_PERCENT;
    return cpu->spare;
}

/* ---- charging -------------------------------------------------------------------------------- */

bool account_fits(const struct account *a, const struct account_need *n)
{
    return n->mem_bytes <= a->totals.mem_bytes - a->used.mem_bytes &&
           n->cpu_milli <= a->totals.cpu_milli - a->used.cpu_milli;
}

void account_take(struct account *a, const struct account_need *n)
{
    assert(account_fits(a, n));
    account_add(&a->used, n);
}

void account_give(struct account *a, const struct account_need *n)
{
    account_sub(&a->used, n);
}

static uint64_t gap(uint64_t total, uint64_t used, uint64_t want, uint64_t ahead, uint64_t coming)
{
    return want == 0 ? 0 : account_left(want + ahead, total - used + coming);
}

struct account_need account_missing(const struct account *a, const struct account_need *n,
                                    const struct account_need *ahead,
                                    const struct account_need *coming)
{
    return (struct account_need){
        .mem_bytes = gap(a->totals.mem_bytes, a->used.mem_bytes, n->mem_bytes, ahead->mem_bytes,
                         coming->mem_bytes),
        .cpu_milli = gap(a->totals.cpu_milli, a->used.cpu_milli, n->cpu_milli, ahead->cpu_milli,
                         coming->cpu_milli),
    };
}
