/* The parent holds no threads, no sockets and no plugins: only signals, a page that it shares with
 * the node, and copies of the last two configurations that were in use, in memory files. */
#include <process/supervise.h>

#include <base/log.h>
#include <base/metric.h>
#include <errno.h>
#include <fcntl.h>
#include <loop/signals.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S         1000000000LL
#define PAUSE_MIN_MS     100
#define PAUSE_MAX_MS     10000
#define CRASHES_MAX      5
#define CRASHES_WITHIN_S 60
#define RELOAD_BLAMED_S  60

/* Written by the node, read by the parent after its end. */
struct page {
    _Atomic int64_t loaded_s; /* monotonic; of the configuration in use */
    _Atomic uint32_t loads;   /* by this process; 2 = there was a reload */
    _Atomic uint32_t slot;    /* of copies[]: the configuration in use; the other one is older */
    _Atomic uint32_t ending;
};

struct parent {
    const struct start *start;
    struct config *first; /* of the start */
    pid_t child;
    int64_t crashes_s[CRASHES_MAX]; /* ring */
    uint32_t n_crashes;
    uint32_t pause_ms;
    int older;  /* of copies[]: what starts serve with until the next reload; -1 = the file */
    int served; /* of copies[]: what was in use before the last start */
    bool early; /* `older` stands because something was not there; the file is tried again then */
    int stop;   /* signal that asks for the end, 0 = none */
};

static struct page *page; /* NULL: nobody supervises */
static int copies[2] = { -1, -1 };
static pid_t above; /* of the node: its parent */
static int restored = -1; /* of the node: the copy that it started with, until it is in use */

static int64_t supervise_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static int64_t supervise_now_s(void)
{
    return supervise_now_ns() / NS_PER_S;
}

/* ---- the node's side ------------------------------------------------------------------------- */

static bool copy_file(const char *path, int to)
{
    char chunk[16384];
    int from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = from < 0 ? -1 : 0;

    if (from >= 0 && ftruncate(to, 0) == 0 && lseek(to, 0, SEEK_SET) == 0) {
        while ((n = read(from, chunk, sizeof(chunk))) > 0 && write(to, chunk, (size_t)n) == n) {
        }
    }
    if (from >= 0) {
        close(from);
    }
    return n == 0;
}

int supervise_parent(void)
{
    return above;
}

/* After a return to the older copy the file holds what crashed: that is not to replace it. */
void supervise_loaded(const char *config_path)
{
    uint32_t slot;

    if (!page || !config_path) {
        return;
    }
    slot = restored >= 0 ? (uint32_t)restored : atomic_load(&page->slot) ^ 1;
    if (restored >= 0 || copy_file(config_path, copies[slot])) {
        atomic_store(&page->slot, slot);
        atomic_store(&page->loaded_s, supervise_now_s());
        atomic_fetch_add(&page->loads, 1);
    }
    restored = -1;
}

void supervise_ending(void)
{
    if (page) {
        atomic_store(&page->ending, 1);
    }
}

/* ---- the child ------------------------------------------------------------------------------- */

/* The configuration of a later start: the file as it is now, or what was good before. NULL: it
 * cannot be used. */
static struct config *config_again(const struct parent *s)
{
    char path[64];
    const char *from = s->start->config_path;
    struct conf_problems p;
    struct config *c = NULL;

    if (s->older >= 0 && from) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", copies[s->older]);
        from = path;
    }
    conf_problems_init(&p);
    config_load(from, environ, &c, &p);
    if (p.n > 0) {
        log_error("the configuration cannot be used any more", "problems", buf_text(&p.text),
                  "effect", s->older >= 0 ? "that of the start serves" : NULL);
        config_destroy(c);
        c = NULL;
    } else {
        c->path = s->start->config_path;
    }
    conf_problems_finish(&p);
    return c;
}

static int be_child(struct parent *s, pid_t parent,
                    int (*run)(struct config *c, const struct start *o))
{
    static const struct metric_def def = { .name = "fn_node_restarts",
                                           .help = "Times that this node was started again after a "
                                                   "crash.",
                                           .kind = METRIC_COUNTER };
    struct config *again = s->n_crashes > 0 ? config_again(s) : NULL;
    int r;

    if (s->n_crashes > 0 && !again && s->older < 0) {
        return EXIT_CONFIG; /* as a start that finds the mistake later */
    }
    above = parent;
    restored = s->older;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        return EXIT_INTERNAL; /* it went before the line above */
    }
    metric_add(metric_series(metric_declare(&def), NULL), s->n_crashes);
    r = run(again ? again : s->first, s->start);
    config_destroy(again);
    return r;
}

/* ---- the parent ------------------------------------------------------------------------------ */

/* The first of the copies is of the configuration of the start: something is always there to go
 * back to. */
static bool open_shared(const char *config_path)
{
    page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        page = NULL;
        return false;
    }
    for (int i = 0; i < 2; i++) {
        copies[i] = memfd_create("fn.yaml", MFD_CLOEXEC);
    }
    return copies[0] >= 0 && copies[1] >= 0 && (!config_path || copy_file(config_path, copies[0]));
}

/* What means something to the node, and its end. */
static sigset_t heard_set(void)
{
    static const int heard[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGCHLD };
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(heard) / sizeof(heard[0]); i++) {
        sigaddset(&set, heard[i]);
    }
    return set;
}

/* Waits for the child's end, or up to `pause_ms` when it has none; passes signals on. */
static bool wait_for(struct parent *s, const sigset_t *set, uint32_t pause_ms, int *ret_status)
{
    int64_t end_ns = supervise_now_ns() + pause_ms * 1000000LL;
    struct timespec left = { 1, 0 };
    siginfo_t info;

    for (;;) {
        if (s->child > 0 && waitpid(s->child, ret_status, WNOHANG) == s->child) {
            return true;
        }
        if (s->child <= 0) {
            int64_t left_ns = end_ns - supervise_now_ns();

            if (left_ns < 0 || s->stop) {
                return false;
            }
            left = (struct timespec){ left_ns / NS_PER_S, left_ns % NS_PER_S };
        }
        if (sigtimedwait(set, &info, &left) <= 0 || info.si_signo == SIGCHLD) {
            continue;
        }
        if (info.si_signo != SIGHUP) {
            s->stop = info.si_signo;
        }
        if (s->child > 0) {
            kill(s->child, info.si_signo);
        }
    }
}

/* What the end of a node means. */
enum end {
    END_WANTED,  /* it chose to, and so does its parent */
    END_REFUSED, /* the file, after a crash: what served before is there yet */
    END_EARLY,   /* after a crash: something that it needs is not there */
    END_UNMADE,  /* after a crash: there is no process for it */
    END_CRASH,
};

static enum end end_of(const struct parent *s, int status, int *ret_code)
{
    bool asked = s->stop || atomic_load(&page->ending);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

    *ret_code = code;
    if (asked || code == EXIT_USAGE) {
        return END_WANTED;
    }
    if (code == EXIT_CONFIG) {
        return s->n_crashes > 0 && s->older < 0 ? END_REFUSED : END_WANTED;
    }
    if (code == EXIT_UNAVAILABLE) {
        return s->n_crashes > 0 ? END_EARLY : END_WANTED;
    }
    return END_CRASH;
}

static void go_back(struct parent *s)
{
    s->older = s->served;
    log_error("the node cannot start with the configuration as it is now; what served before "
              "serves until the next reload");
}

static void lengthen_pause(struct parent *s)
{
    s->pause_ms = s->pause_ms * 2 < PAUSE_MAX_MS ? s->pause_ms * 2 : PAUSE_MAX_MS;
}

static bool is_copy_of(const char *path, int copy)
{
    char a[4096], b[sizeof(a)];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    off_t at = 0;
    ssize_t n, m;

    if (fd < 0) {
        return false;
    }
    do {
        n = pread(fd, a, sizeof(a), at);
        m = pread(copy, b, sizeof(b), at);
        at += n;
    } while (n > 0 && n == m && memcmp(a, b, (size_t)n) == 0);
    close(fd);
    return n == 0 && m == 0;
}

/* An engine or a port may be away for as long as it likes: this is tried for ever. What is not
 * there may be wanted by the file alone, and what served before would start; or by both, and the
 * next thing somebody mends is the file. So they are tried in turn. */
static void put_off(struct parent *s)
{
    const char *file = s->start->config_path;

    lengthen_pause(s);
    if (s->early) {
        s->older = -1;
        s->early = false;
    } else if (s->older < 0 && file && !is_copy_of(file, s->served)) {
        s->older = s->served;
        s->early = true;
    }
    log_error("the node cannot start yet and is started again; its own line says why", "pause_ms",
              log_num(s->pause_ms), "with",
              s->older >= 0 ? "what served before" : "the configuration as it is now");
}

/* Of a child that was made, or could not be. */
static enum end await_end(struct parent *s, const sigset_t *set, int *ret_status, int *ret_code)
{
    if (s->child > 0) {
        wait_for(s, set, 0, ret_status);
        s->child = 0;
        return end_of(s, *ret_status, ret_code);
    }
    lengthen_pause(s);
    log_error("supervise: no process can be made", "error", strerror(errno), "pause_ms",
              s->n_crashes > 0 ? log_num(s->pause_ms) : NULL);
    *ret_code = EXIT_UNAVAILABLE;
    return s->n_crashes > 0 ? END_UNMADE : END_WANTED;
}

static void tell_crash(struct parent *s, int status)
{
    char how[64];
    int64_t age_s = supervise_now_s() - atomic_load(&page->loaded_s);

    if (WIFSIGNALED(status)) {
        snprintf(how, sizeof(how), "signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else {
        snprintf(how, sizeof(how), "exit code %d", WEXITSTATUS(status));
    }
    log_error("the node crashed and is started again; calls in flight were cut", "by", how,
              "crashes", log_num(s->n_crashes), "pause_ms", log_num(s->pause_ms));
    if (atomic_load(&page->loads) <= 1) {
        return; /* no reload: what served goes on */
    }
    s->older = age_s < RELOAD_BLAMED_S ? (int)atomic_load(&page->slot) ^ 1 : -1;
    if (s->older >= 0) {
        log_error("it crashed soon after a reload: the configuration before that serves until the "
                  "next reload", "reload_s_ago", log_num(age_s));
    }
}

/* False: too many of them. */
static bool count_crash(struct parent *s)
{
    int64_t oldest_s;

    s->early = false;
    s->crashes_s[s->n_crashes++ % CRASHES_MAX] = supervise_now_s();
    oldest_s = s->crashes_s[s->n_crashes % CRASHES_MAX];
    if (s->n_crashes >= CRASHES_MAX && supervise_now_s() - oldest_s < CRASHES_WITHIN_S) {
        log_error("the node crashed 5 times within 60 s and is not started again; the reports are "
                  "above");
        return false;
    }
    if (s->n_crashes == 1 || supervise_now_s() - atomic_load(&page->loaded_s) >= CRASHES_WITHIN_S) {
        s->pause_ms = PAUSE_MIN_MS;
    } else {
        lengthen_pause(s);
    }
    return true;
}

int supervise(struct config *c, const struct start *o,
              int (*run)(struct config *c, const struct start *o))
{
    struct parent s = { .start = o, .first = c, .older = -1 };
    pid_t parent = getpid();
    sigset_t set = heard_set();
    int status = 0;
    enum end end;
    int code;

    sigprocmask(SIG_BLOCK, &set, NULL);
    signals_block(); /* what else would end it, and by that the node */
    if (!open_shared(o->config_path)) {
        fprintf(stderr, "fnd: supervise: %s\n", strerror(errno));
        return EXIT_UNAVAILABLE;
    }
    for (;;) {
        atomic_store(&page->loads, 0);
        s.served = (int)atomic_load(&page->slot);
        s.child = fork();
        if (s.child == 0) {
            sigset_t chld;

            sigemptyset(&chld);
            sigaddset(&chld, SIGCHLD);
            sigprocmask(SIG_UNBLOCK, &chld, NULL);
            return be_child(&s, parent, run);
        }
        end = await_end(&s, &set, &status, &code);
        if (end == END_WANTED) {
            return code;
        }
        if (end == END_REFUSED) {
            go_back(&s);
            continue;
        }
        if (end == END_EARLY) {
            put_off(&s);
        } else if (end == END_CRASH) {
            if (!count_crash(&s)) {
                return EXIT_INTERNAL;
            }
            tell_crash(&s, status);
        }
        wait_for(&s, &set, s.pause_ms, &status);
        if (s.stop) {
            return EXIT_OK;
        }
    }
}
