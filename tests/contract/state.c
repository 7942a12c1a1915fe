/* What belongs to the process and not to a plugin, as a list of named texts that can be compared.
 */
#include "contract.h"

#include <base/hash.h>
#include <dirent.h>
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define ITEMS_MAX 512

struct item {
    char name[48];
    char value[208];
};

struct process_state {
    size_t n;
    struct item items[ITEMS_MAX];
};

static void add(struct process_state *s, const char *name, const char *value)
{
    struct item *i;

    if (s->n == ITEMS_MAX) {
        return;
    }
    i = &s->items[s->n++];
    snprintf(i->name, sizeof(i->name), "%s", name);
    snprintf(i->value, sizeof(i->value), "%s", value);
}

static void add_number(struct process_state *s, const char *name, long long v)
{
    char text[32];

    snprintf(text, sizeof(text), "%lld", v);
    add(s, name, text);
}

static void add_signals(struct process_state *s)
{
    struct sigaction a;
    sigset_t mask;
    char name[48];
    char text[64];
    int i;

    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (i = 1; i < NSIG; i++) {
        if (sigaction(i, NULL, &a) == 0) {
            snprintf(name, sizeof(name), "the handler of signal %d", i);
            snprintf(text, sizeof(text), "%p flags 0x%x", (void *)(uintptr_t)a.sa_handler,
                     (unsigned)a.sa_flags);
            add(s, name, text);
            snprintf(name, sizeof(name), "the mask of signal %d", i);
            add_number(s, name, sigismember(&mask, i));
        }
    }
}

static void add_limits(struct process_state *s)
{
    struct rlimit l;
    char name[48];
    char text[64];
    int i;

    for (i = 0; i < RLIMIT_NLIMITS; i++) {
        if (getrlimit(i, &l) == 0) {
            snprintf(name, sizeof(name), "resource limit %d", i);
            snprintf(text, sizeof(text), "%lld/%lld", (long long)l.rlim_cur, (long long)l.rlim_max);
            add(s, name, text);
        }
    }
}

static void add_environment(struct process_state *s)
{
    uint64_t h = HASH_INIT;
    char text[32];
    char **e;

    for (e = environ; e && *e; e++) {
        h = hash_byte(hash_text(h, *e), 0xff);
    }
    snprintf(text, sizeof(text), "%016llx", (unsigned long long)h);
    add(s, "the environment (its hash)", text);
}

static void add_fds(struct process_state *s)
{
    DIR *d = opendir("/proc/self/fd");
    struct dirent *e;
    char path[64];
    char name[48];
    char target[200];
    ssize_t n;

    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.' || atoi(e->d_name) == dirfd(d)) {
            continue;
        }
        snprintf(path, sizeof(path), "/proc/self/fd/%.20s", e->d_name);
        n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = '\0';
        snprintf(name, sizeof(name), "descriptor %.20s", e->d_name);
        add(s, name, target);
    }
    if (d) {
        closedir(d);
    }
}

static uint32_t count_entries(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    uint32_t n = 0;

    while (d && (e = readdir(d))) {
        n += e->d_name[0] != '.';
    }
    if (d) {
        closedir(d);
    }
    return n;
}

uint32_t state_count_fds(void)
{
    return count_entries("/proc/self/fd");
}

uint32_t state_count_threads(void)
{
    return count_entries("/proc/self/task");
}

struct process_state *state_take(void)
{
    struct process_state *s = calloc(1, sizeof(*s));
    struct itimerval timer = {{0, 0}, {0, 0}};
    char cwd[200] = "";
    mode_t mask = umask(022);

    must(s, "the machine has no memory for the test");
    umask(mask);
    add_number(s, "the umask", mask);
    add(s, "the working directory", getcwd(cwd, sizeof(cwd)) ? cwd : "none");
    add(s, "the locale", setlocale(LC_ALL, NULL));
    add_number(s, "the rounding mode", fegetround());
    add_number(s, "the priority", getpriority(PRIO_PROCESS, 0));
    getitimer(ITIMER_REAL, &timer);
    add_number(s, "the interval timer", timer.it_value.tv_sec || timer.it_value.tv_usec);
    add_number(s, "the number of threads", state_count_threads());
    add_signals(s);
    add_limits(s);
    add_environment(s);
    add_fds(s);
    return s;
}

static const char *value_of(const struct process_state *s, const char *name)
{
    size_t i;

    for (i = 0; i < s->n; i++) {
        if (strcmp(s->items[i].name, name) == 0) {
            return s->items[i].value;
        }
    }
    return NULL;
}

static const char *first_difference(const struct process_state *a, const struct process_state *b,
                                    char *ret, size_t cap)
{
    const char *other;
    size_t i;

    for (i = 0; i < a->n; i++) {
        other = value_of(b, a->items[i].name);
        if (!other || strcmp(other, a->items[i].value) != 0) {
            snprintf(ret, cap, "%s was %s and is %s now", a->items[i].name, a->items[i].value,
                     other ? other : "gone");
            return ret;
        }
    }
    for (i = 0; i < b->n; i++) {
        if (!value_of(a, b->items[i].name)) {
            snprintf(ret, cap, "%s (%s) was not there before", b->items[i].name, b->items[i].value);
            return ret;
        }
    }
    return NULL;
}

const char *state_compare(struct process_state *before, struct process_state *after)
{
    static char text[600];
    const char *said = first_difference(before, after, text, sizeof(text));

    free(before);
    free(after);
    return said;
}
