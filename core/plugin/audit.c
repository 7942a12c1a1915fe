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
#include <unistd.h>

#define SIGNALS_N      65
#define THREADS_SLACK  64
#define MEMORY_SLACK_K (256 * 1024)
#define TEXT_MAX       64
#define SUSPECTS_MAX   512

struct process_state {
    char cwd[PATH_MAX];
    uint32_t umask;
    struct sigaction actions[SIGNALS_N];
    struct rlimit limits[RLIM_NLIMITS];
    uint64_t files; /* without sockets */
    uint64_t threads;
    uint64_t memory_k;
};

struct thread_state {
    int rounding;
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

static void alarm_of(const char *what, const char *from, const char *to, bool restored,
                     const char *suspects)
{
    static const char *const labels[] = { "what", NULL };
    static const struct metric_def def = {
        .name = "fn_plugin_audit_alarms",
        .help = "Changes of the process that only plugins can have made, by what changed.",
        .kind = METRIC_COUNTER,
        .labels = labels,
    };
    const char *values[] = { what };

    metric_add(metric_series(metric_declare(&def), values), 1);
    log_error("a plugin changed what belongs to the process", "what", what, "from", from, "to", to,
              "restored", restored ? "yes" : "no", "suspects", suspects[0] ? suspects : "none ran");
}

static const char *number(uint64_t n, uint32_t base, char *ret)
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

static void look_process(struct process_state *s)
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
    s->memory_k = field_of(status, "\nRssAnon:", 10);
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

            alarm_of("signal-handler", name ? name : number((uint64_t)i, 10, from), "another one",
                     good, a->suspects);
            now->actions[i] = *was;
        }
    }
}

static void judge_limits(struct plugin_audit *a, const struct process_state *now)
{
    char name[TEXT_MAX];
    char from[TEXT_MAX];
    char to[TEXT_MAX];

    for (int i = 0; i < RLIM_NLIMITS; i++) {
        if (now->limits[i].rlim_cur != a->process.limits[i].rlim_cur) {
            bool good = setrlimit((__rlimit_resource_t)i, &a->process.limits[i]) == 0;

            snprintf(name, sizeof(name), "resource-limit-%d", i);
            alarm_of(name, number(a->process.limits[i].rlim_cur, 10, from),
                     number(now->limits[i].rlim_cur, 10, to), good, a->suspects);
        }
    }
}

/* Alarm beyond the slack; the new number is the base of the next alarm. */
static void judge_growth(struct plugin_audit *a, const char *what, uint64_t *was, uint64_t now,
                         uint64_t slack)
{
    char from[TEXT_MAX];
    char to[TEXT_MAX];

    if (now > *was + slack) {
        alarm_of(what, number(*was, 10, from), number(now, 10, to), false, a->suspects);
        *was = now;
    }
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
            alarm_of("standard-descriptor", number((uint64_t)fd, 10, name), "closed", false,
                     a->suspects);
        }
    }
}

void plugin_audit_process(struct plugin_audit *a, const char *only)
{
    struct process_state now;
    char from[TEXT_MAX];
    char to[TEXT_MAX];

    look_process(&now);
    pthread_mutex_lock(&a->lock);
    suspects_of(a->host, false, only, a->suspects);
    if (strcmp(now.cwd, a->process.cwd) != 0) {
        alarm_of("working-directory", a->process.cwd, now.cwd, chdir(a->process.cwd) == 0,
                 a->suspects);
    }
    if (now.umask != a->process.umask) {
        umask((mode_t)a->process.umask);
        alarm_of("umask", number(a->process.umask, 8, from), number(now.umask, 8, to), true,
                 a->suspects);
    }
    judge_signals(a, &now);
    judge_limits(a, &now);
    judge_standard(a);
    judge_growth(a, "open-files", &a->process.files, now.files, a->files_slack);
    judge_growth(a, "threads", &a->process.threads, now.threads, THREADS_SLACK);
    judge_growth(a, "memory-kib", &a->process.memory_k, now.memory_k, MEMORY_SLACK_K);
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

static void look_thread(struct thread_state *s)
{
    s->rounding = fegetround();
    s->traps = fegetexcept();
    pthread_sigmask(SIG_BLOCK, NULL, &s->mask);
    snprintf(s->locale, sizeof(s->locale), "%s", setlocale(LC_ALL, NULL));
    s->own_locale = uselocale((locale_t)0);
    s->environment = sum_environment();
}

static bool same_mask(const sigset_t *a, const sigset_t *b)
{
    for (int i = 1; i < SIGNALS_N; i++) {
        if (sigismember(a, i) != sigismember(b, i)) {
            return false;
        }
    }
    return true;
}

void plugin_audit_thread(struct plugin_audit *a)
{
    struct thread_state *was = &a->thread;
    struct thread_state now;
    char suspects[SUSPECTS_MAX];

    look_thread(&now);
    suspects_of(a->host, true, NULL, suspects);
    if (now.rounding != was->rounding || now.traps != was->traps) {
        fesetround(was->rounding);
        fedisableexcept(FE_ALL_EXCEPT);
        feenableexcept(was->traps);
        alarm_of("floating-point-mode", NULL, NULL, true, suspects);
    }
    if (!same_mask(&now.mask, &was->mask)) {
        pthread_sigmask(SIG_SETMASK, &was->mask, NULL);
        alarm_of("signal-mask", NULL, NULL, true, suspects);
    }
    if (now.own_locale != was->own_locale || strcmp(now.locale, was->locale) != 0) {
        uselocale(was->own_locale);
        setlocale(LC_ALL, was->locale);
        alarm_of("locale", was->locale, now.locale, true, suspects);
    }
    if (now.environment != was->environment) {
        was->environment = now.environment; /* what it was is not known any more */
        alarm_of("environment", NULL, NULL, false, suspects);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_fork(void)
{
    const struct plugin_crumb *c = plugin_current();

    if (plugin_running()) {
        alarm_of("fork", NULL, c->method, false, c->plugin->name);
    }
}

struct plugin_audit *plugin_audit_create(struct plugin_host *h, uint32_t files_slack)
{
    static bool watched;
    struct plugin_audit *a = calloc(1, sizeof(*a));
    char ignored[SUSPECTS_MAX];

    if (!a) {
        return NULL;
    }
    a->host = h;
    a->files_slack = files_slack;
    pthread_mutex_init(&a->lock, NULL);
    look_process(&a->process);
    look_thread(&a->thread);
    suspects_of(h, false, NULL, ignored);
    suspects_of(h, true, NULL, ignored);
    if (!watched) {
        watched = pthread_atfork(on_fork, NULL, NULL) == 0;
    }
    return a;
}

void plugin_audit_destroy(struct plugin_audit *a)
{
    if (a) {
        pthread_mutex_destroy(&a->lock);
        free(a);
    }
}
