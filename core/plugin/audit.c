/* Audit: what belongs to the whole process and must not change because a plugin ran.
 *
 * Nothing keeps a plugin from calling chdir(); but somebody looks, names those who ran since the
 * last look, and puts back what can be put back. The part of the process is looked at by the
 * watchdog's thread and after each create(), the part of a thread by the loop itself. Numbers that
 * also move without plugins (open files, threads, memory) are alarms only beyond a slack. */
#include <plugin/plugin_int.h>

#include <base/hash.h>
#include <dirent.h>
#include <fcntl.h>
#include <fenv.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIGNALS_N      65
#define THREADS_SLACK  64
#define FORKED_EXIT    70 /* an internal error, as for exit() in a plugin */
#define MEMORY_SLACK_K (256 * 1024)
#define TEXT_MAX       64
#define RIGHTS_MAX     160
#define SUSPECTS_MAX   512

enum what {
    WHAT_DIRECTORY,
    WHAT_UMASK,
    WHAT_RIGHTS,
    WHAT_SIGNAL_HANDLER,
    WHAT_SIGNAL_MASK,
    WHAT_LIMIT,
    WHAT_STANDARD,
    WHAT_FILES,
    WHAT_THREADS,
    WHAT_MEMORY,
    WHAT_FLOATING,
    WHAT_LOCALE,
    WHAT_ENVIRONMENT,
    WHAT_FORK,
    WHATS_N
};

static const char *const whats[WHATS_N] = {
    [WHAT_DIRECTORY] = "working-directory",
    [WHAT_UMASK] = "umask",
    [WHAT_RIGHTS] = "rights",
    [WHAT_SIGNAL_HANDLER] = "signal-handler",
    [WHAT_SIGNAL_MASK] = "signal-mask",
    [WHAT_LIMIT] = "resource-limit",
    [WHAT_STANDARD] = "standard-descriptor",
    [WHAT_FILES] = "open-files",
    [WHAT_THREADS] = "threads",
    [WHAT_MEMORY] = "memory-kib",
    [WHAT_FLOATING] = "floating-point-mode",
    [WHAT_LOCALE] = "locale",
    [WHAT_ENVIRONMENT] = "environment",
    [WHAT_FORK] = "fork",
};

struct process_state {
    char cwd[PATH_MAX];
    uint32_t umask;
    struct sigaction actions[SIGNALS_N];
    struct rlimit limits[RLIM_NLIMITS];
    uint64_t files; /* without sockets */
    uint64_t threads; /* but those of the host's lanes */
    uint64_t memory_k;
    char rights[RIGHTS_MAX]; /* users, groups, capabilities, what the kernel lets it do */
    bool known;            /* /proc could be read: umask, threads, memory_k, rights */
};

struct thread_state {
    int rounding;
    uint32_t flush; /* bits that make tiny numbers zero, as -ffast-math of a library sets them */
    int traps; /* floating point exceptions that are delivered */
    sigset_t mask;
    char locale[TEXT_MAX];
    locale_t own_locale;
    uint64_t environment;
};

struct plugin_audit {
    struct plugin_host *host;
    uint64_t files_slack;
    pthread_mutex_t lock; /* of process, ticks, suspects */
    struct process_state process;
    struct thread_state thread; /* loop only */
    char suspects[SUSPECTS_MAX];
};

/* ---- who ran --------------------------------------------------------------------------------- */

static uint64_t ticks_of(const struct plugin_health *hl)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < PLUGIN_METHODS_MAX; i++) {
        sum += __atomic_load_n(&hl->loop[i].ticks, __ATOMIC_RELAXED);
        sum += __atomic_load_n(&hl->other[i].ticks, __ATOMIC_RELAXED);
    }
    return sum;
}

/* Names of those that ran since the last look of this part. */
static const char *suspects_of(struct plugin_host *h, bool thread, const char *only, char *ret)
{
    struct plugin_health *hl;
    size_t len = 0;

    ret[0] = '\0';
    pthread_mutex_lock(&h->lock);
    LIST_FOREACH(hl, &h->healths, link) {
        uint64_t now = ticks_of(hl);
        uint64_t *seen = thread ? &hl->seen_thread : &hl->seen_process;

        if ((only ? strcmp(only, hl->name) == 0 : now != *seen) && len + 80 < SUSPECTS_MAX) {
            len += (size_t)snprintf(ret + len, SUSPECTS_MAX - len, "%s%.64s", len ? " " : "",
                                    hl->name);
        }
        *seen = now;
    }
    pthread_mutex_unlock(&h->lock);
    return ret;
}

static struct metric *alarms_of(enum what what)
{
    static const char *const labels[] = { "what", NULL };

    return metric_of("fn_plugin_audit_alarms", METRIC_COUNTER,
                     "Changes of the process that only plugins can have made, by what changed.",
                     labels, &whats[what]);
}

static void alarm_of(enum what what, const char *from, const char *to, bool restored,
                     const char *suspects)
{
    metric_add(alarms_of(what), 1);
    log_error("a plugin changed what belongs to the process", "what", whats[what], "from", from,
              "to", to, "restored", restored ? "yes" : "no", "suspects",
              suspects[0] ? suspects : "none ran");
}

static const char *audit_number(uint64_t n, uint32_t base, char *ret)
{
    snprintf(ret, TEXT_MAX, base == 8 ? "%03llo" : "%llu", (unsigned long long)n);
    return ret;
}

/* ---- the process ----------------------------------------------------------------------------- */

static uint64_t field_of(const char *status, const char *name, int base)
{
    const char *at = strstr(status, name);

    return at ? strtoull(at + strlen(name), NULL, base) : 0;
}

static uint64_t count_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    const struct dirent *e;
    char target[8];
    uint64_t n = 0;

    while (d && (e = readdir(d))) {
        ssize_t len = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);

        target[len > 0 ? len : 0] = '\0';
        n += len > 0 && strncmp(target, "socket:", 7) != 0;
    }
    if (d) {
        closedir(d);
    }
    return n;
}

/* "0 0 0 0" of "\nUid:\t0\t0\t0\t0\n". */
static void add_line(char *ret, size_t cap, const char *status, const char *name)
{
    const char *at = strstr(status, name);
    size_t len = strlen(ret);

    for (at = at ? at + strlen(name) : ""; *at && *at != '\n' && len + 2 < cap; at++) {
        ret[len++] = *at == '\t' ? ' ' : *at;
    }
    ret[len] = '\0';
}

static void look_rights(struct process_state *s, const char *status)
{
    static const struct {
        const char *name, *field;
    } parts[] = { { "uid", "\nUid:" },
                  { " gid", "\nGid:" },
                  { " caps", "\nCapEff:" },
                  { " no-new-privs", "\nNoNewPrivs:" },
                  { " seccomp", "\nSeccomp:" } };

    s->rights[0] = '\0';
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t len = strlen(s->rights);

        snprintf(s->rights + len, sizeof(s->rights) - len, "%s", parts[i].name);
        add_line(s->rights, sizeof(s->rights), status, parts[i].field);
    }
}

static void look_process(struct process_state *s, const struct plugin_own *own)
{
    char status[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, status, sizeof(status) - 1);

    if (fd >= 0) {
        close(fd);
    }
    status[n > 0 ? n : 0] = '\0';
    s->umask = (uint32_t)field_of(status, "\nUmask:", 8);
    s->threads = field_of(status, "\nThreads:", 10);
    s->threads -= s->threads > own->threads ? own->threads : s->threads;
    s->memory_k = field_of(status, "\nRssAnon:", 10);
    s->known = n > 0; /* without a descriptor nothing is known, and nobody accused */
    look_rights(s, status);
    if (!getcwd(s->cwd, sizeof(s->cwd))) {
        s->cwd[0] = '\0';
    }
    for (int i = 1; i < SIGNALS_N; i++) {
        if (sigaction(i, NULL, &s->actions[i]) < 0) {
            memset(&s->actions[i], 0, sizeof(s->actions[i]));
        }
    }
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        getrlimit((__rlimit_resource_t)i, &s->limits[i]);
    }
    s->files = count_files();
}

static void judge_signals(struct plugin_audit *a, struct process_state *now)
{
    char from[TEXT_MAX];

    for (int i = 1; i < SIGNALS_N; i++) {
        struct sigaction *was = &a->process.actions[i];

        if (now->actions[i].sa_handler != was->sa_handler) {
            const char *name = sigabbrev_np(i);
            bool good = sigaction(i, was, NULL) == 0;

            alarm_of(WHAT_SIGNAL_HANDLER, name ? name : audit_number((uint64_t)i, 10, from),
                     "another one", good, a->suspects);
            now->actions[i] = *was;
        }
    }
}

/* Alarm beyond the slack; the new number is the base of the next alarm. */
static void judge_growth(struct plugin_audit *a, enum what what, uint64_t *was, uint64_t now,
                         uint64_t slack)
{
    char from[TEXT_MAX];
    char to[TEXT_MAX];

    if (now > *was + slack) {
        alarm_of(what, audit_number(*was, 10, from), audit_number(now, 10, to), false, a->suspects);
        *was = now;
    }
}

/* A soft limit alone is moved from inside. prlimit(1) moves both, as the operator wants it: that
 * stays. */
static void judge_limits(struct plugin_audit *a, const struct process_state *now)
{
    char from[TEXT_MAX];
    char to[TEXT_MAX];

    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit *was = &a->process.limits[i];
        const struct rlimit *is = &now->limits[i];

        snprintf(from, sizeof(from), "limit %d: %llu", i, (unsigned long long)was->rlim_cur);
        audit_number(is->rlim_cur, 10, to);
        if (is->rlim_max != was->rlim_max) {
            log_warn("a resource limit of this process was set, soft and hard, from outside or by "
                     "a plugin; it stays",
                     "what", whats[WHAT_LIMIT], "from", from, "to", to);
            *was = *is;
        } else if (is->rlim_cur != was->rlim_cur) {
            alarm_of(WHAT_LIMIT, from, to, setrlimit((__rlimit_resource_t)i, was) == 0,
                     a->suspects);
        }
    }
}

/* What only /proc tells. */
static void judge_status(struct plugin_audit *a, const struct process_state *now,
                         const struct plugin_own *own)
{
    struct process_state *was = &a->process;
    char from[TEXT_MAX];
    char to[TEXT_MAX];

    if (!now->known) {
        return;
    }
    if (now->umask != was->umask) {
        umask((mode_t)was->umask);
        alarm_of(WHAT_UMASK, audit_number(was->umask, 8, from), audit_number(now->umask, 8, to),
                 true, a->suspects);
    }
    if (strcmp(now->rights, was->rights) != 0) {
        alarm_of(WHAT_RIGHTS, was->rights, now->rights, false, a->suspects);
        memcpy(was->rights, now->rights, sizeof(was->rights));
    }
    judge_growth(a, WHAT_THREADS, &was->threads, now->threads, THREADS_SLACK);
    judge_growth(a, WHAT_MEMORY, &was->memory_k, now->memory_k,
                 MEMORY_SLACK_K + own->memory_bytes / 1024);
}

/* Descriptors 0 to 2 must be something: the next file would take their place. */
static void judge_standard(struct plugin_audit *a)
{
    char name[TEXT_MAX];

    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            int null = open("/dev/null", O_RDWR);

            if (null >= 0 && null != fd) {
                dup2(null, fd);
                close(null);
            }
            alarm_of(WHAT_STANDARD, audit_number((uint64_t)fd, 10, name), "closed", false,
                     a->suspects);
        }
    }
}

void plugin_audit_process(struct plugin_audit *a, const char *only, const struct plugin_own *own)
{
    struct process_state now;

    look_process(&now, own);
    pthread_mutex_lock(&a->lock);
    suspects_of(a->host, false, only, a->suspects);
    if (now.cwd[0] && strcmp(now.cwd, a->process.cwd) != 0) { /* else somebody removed it */
        alarm_of(WHAT_DIRECTORY, a->process.cwd, now.cwd, chdir(a->process.cwd) == 0,
                 a->suspects);
    }
    judge_status(a, &now, own);
    judge_signals(a, &now);
    judge_limits(a, &now);
    judge_standard(a);
    judge_growth(a, WHAT_FILES, &a->process.files, now.files, a->files_slack);
    pthread_mutex_unlock(&a->lock);
}

/* ---- the loop's thread ----------------------------------------------------------------------- */

static uint64_t sum_environment(void)
{
    uint64_t sum = HASH_INIT;

    for (char **e = environ; e && *e; e++) {
        sum = hash_byte(hash_text(sum, *e), 0xff);
    }
    return sum;
}

#if defined(__x86_64__)
#define FLUSH_BITS 0x8040u /* FTZ, DAZ */

static uint32_t look_flush(void)
{
    return __builtin_ia32_stmxcsr() & FLUSH_BITS;
}

static void set_flush(uint32_t bits)
{
    __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~FLUSH_BITS) | bits);
}
#else
static uint32_t look_flush(void)
{
    return 0;
}

static void set_flush(uint32_t bits)
{
    (void)bits;
}
#endif

static void look_thread(struct thread_state *s)
{
    s->flush = look_flush();
    s->rounding = fegetround();
    s->traps = fegetexcept();
    memset(&s->mask, 0, sizeof(s->mask)); /* compared by bytes, of which the kernel has the first */
    pthread_sigmask(SIG_BLOCK, NULL, &s->mask);
    snprintf(s->locale, sizeof(s->locale), "%s", setlocale(LC_ALL, NULL));
    s->own_locale = uselocale((locale_t)0);
    s->environment = sum_environment();
}

void plugin_audit_thread(struct plugin_audit *a)
{
    struct thread_state *was = &a->thread;
    struct thread_state now;
    char suspects[SUSPECTS_MAX];

    look_thread(&now);
    suspects_of(a->host, true, NULL, suspects);
    if (now.rounding != was->rounding || now.traps != was->traps || now.flush != was->flush) {
        fesetround(was->rounding);
        set_flush(was->flush);
        fedisableexcept(FE_ALL_EXCEPT);
        feenableexcept(was->traps);
        alarm_of(WHAT_FLOATING, NULL, NULL, true, suspects);
    }
    if (memcmp(&now.mask, &was->mask, sizeof(now.mask)) != 0) {
        pthread_sigmask(SIG_SETMASK, &was->mask, NULL);
        alarm_of(WHAT_SIGNAL_MASK, NULL, NULL, true, suspects);
    }
    if (now.own_locale != was->own_locale || strcmp(now.locale, was->locale) != 0) {
        uselocale(was->own_locale);
        setlocale(LC_ALL, was->locale);
        alarm_of(WHAT_LOCALE, was->locale, now.locale, true, suspects);
    }
    if (now.environment != was->environment) {
        was->environment = now.environment; /* what it was is not known any more */
        alarm_of(WHAT_ENVIRONMENT, NULL, NULL, false, suspects);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_fork(void)
{
    const struct plugin_crumb *c = plugin_current();

    if (plugin_running()) {
        alarm_of(WHAT_FORK, NULL, c->method, false, c->plugin->name);
    }
}

/* The child has the node's sockets and none of its threads: as long as it lives it can take calls
 * that nobody answers. Locks may be held for ever: no log. */
static void on_forked(void)
{
    const struct plugin_crumb *c = plugin_current();
    char text[256];
    int n;

    if (!plugin_running()) {
        return;
    }
    n = snprintf(text, sizeof(text),
                 "fnd: plugin %.64s forked in %s(): its child would be a second node and ends\n",
                 c->plugin->name, c->method);
    (void)!write(STDERR_FILENO, text, (size_t)n);
    syscall(SYS_exit_group, FORKED_EXIT); /* _exit() would tell of the plugin's own */
}

void plugin_guard_forks(void)
{
    static bool guarded;

    if (!guarded) {
        guarded = pthread_atfork(on_fork, NULL, on_forked) == 0;
    }
}

struct plugin_audit *plugin_audit_create(struct plugin_host *h, const struct plugin_own *own,
                                         uint32_t files_slack)
{
    struct plugin_audit *a = calloc(1, sizeof(*a));
    char ignored[SUSPECTS_MAX];

    if (!a) {
        return NULL;
    }
    a->host = h;
    a->files_slack = files_slack;
    for (uint32_t i = 0; i < WHATS_N; i++) {
        alarms_of((enum what)i); /* from 0 on, so that a rate sees the first alarm */
    }
    pthread_mutex_init(&a->lock, NULL);
    look_process(&a->process, own);
    look_thread(&a->thread);
    suspects_of(h, false, NULL, ignored);
    suspects_of(h, true, NULL, ignored);
    return a;
}

void plugin_audit_destroy(struct plugin_audit *a)
{
    if (a) {
        pthread_mutex_destroy(&a->lock);
        free(a);
    }
}
