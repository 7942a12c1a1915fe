/* Signals are blocked in all threads; one thread waits for them by sigtimedwait(), hands them to
 * the loop, and acts itself when the loop does not. */
#include <loop/signals.h>

#include <loop/loop_int.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* Others end the process by a fault, or do nothing, or are for the terminal. */
static const int taken[] = { SIGTERM, SIGINT,  SIGHUP,  SIGUSR1,   SIGUSR2, SIGALRM, SIGVTALRM,
                             SIGPROF, SIGPOLL, SIGXCPU, SIGXFSZ, SIGSTKFLT, SIGPWR };

static struct {
    struct signals_config config;
    sigset_t set;
    pthread_t thread;
    int event_fd;
    atomic_uint pending;         /* bits of signals that the loop has not taken */
    _Atomic int64_t end_at_ns;   /* 0 = none */
    struct loop_fd watch;
    void (*cb)(void *ud, int signo);
    void *ud;
} signals;

static const int for_loop[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR2 };
#define FOR_LOOP_N (sizeof(for_loop) / sizeof(for_loop[0]))

static sigset_t taken_set(void)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        sigaddset(&set, taken[i]);
    }
    for (int i = SIGRTMIN; i <= SIGRTMAX; i++) {
        sigaddset(&set, i);
    }
    return set;
}

void signals_block(void)
{
    sigset_t set = taken_set();

    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* ---- its thread ------------------------------------------------------------------------------ */

static bool give_to_loop(int signo)
{
    for (size_t i = 0; i < FOR_LOOP_N; i++) {
        if (for_loop[i] == signo) {
            uint64_t one = 1;

            atomic_fetch_or(&signals.pending, 1u << i);
            return write(signals.event_fd, &one, sizeof(one)) > 0 || errno == EAGAIN;
        }
    }
    return false;
}

static int sender_of(const siginfo_t *info)
{
    return info->si_code <= 0 ? (int)info->si_pid : 0;
}

static bool asks_for_end(int signo)
{
    return signo == SIGTERM || signo == SIGINT || signo == SIGUSR2;
}

/* Whether the process above and the others asked for the end as often without this one. */
static bool is_echo(uint32_t asked[2], const siginfo_t *info)
{
    int above_pid = signals.config.above_pid;
    bool above = above_pid != 0 && sender_of(info) == above_pid;

    return ++asked[above] <= asked[!above];
}

static bool is_due(int64_t at_ns)
{
    return at_ns != 0 && loop_clock_ns() >= at_ns;
}

static void *signals_run(void *arg)
{
    const struct timespec tick = { 1, 0 };
    const struct signals_config *c = &signals.config;
    int64_t overdue_ns = 0;
    uint32_t asked[2] = { 0, 0 }; /* by others, by the process above */
    uint32_t stops = 0;
    int stop = 0;
    siginfo_t info;

    (void)arg;
    for (;;) {
        int signo = sigtimedwait(&signals.set, &info, &tick);

        if (asks_for_end(signo) && is_echo(asked, &info)) {
            continue;
        }
        if (asks_for_end(signo)) {
            stop = signo;
            if (++stops == 2) {
                overdue_ns = loop_clock_ns() + SIGNALS_PATIENCE_NS;
            }
        }
        if (signo > 0 && !give_to_loop(signo)) {
            c->told(c->ud, signo, sender_of(&info));
        }
        if (is_due(overdue_ns)) {
            c->overdue(c->ud, stop);
        }
        if (is_due(atomic_load(&signals.end_at_ns))) {
            c->overdue(c->ud, 0);
        }
    }
    return NULL;
}

/* ---- the loop's side ------------------------------------------------------------------------- */

static void signals_on_event(struct loop_fd *w, uint32_t events)
{
    uint64_t n;
    uint32_t pending;

    (void)events;
    (void)!read(w->fd, &n, sizeof(n));
    pending = atomic_exchange(&signals.pending, 0);
    for (size_t i = 0; i < FOR_LOOP_N; i++) {
        if (pending & 1u << i) {
            signals.cb(signals.ud, for_loop[i]);
        }
    }
}

int signals_watch(struct loop *l, void (*cb)(void *ud, int signo), void *ud,
                  struct fn_error *reterr)
{
    signals.cb = cb;
    signals.ud = ud;
    signals.watch = (struct loop_fd){ .fd = signals.event_fd, .cb = signals_on_event };
    return loop_fd_add(l, &signals.watch, LOOP_READ, reterr);
}

void signals_end_within(int64_t ns)
{
    atomic_store(&signals.end_at_ns, loop_clock_ns() + ns);
}

int signals_begin(const struct signals_config *config, struct fn_error *reterr)
{
    int r;

    signals_block();
    signals.config = *config;
    signals.set = taken_set();
    signals.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (signals.event_fd < 0) {
        return err_set(reterr, FN_E_EXHAUSTED, "signals: no descriptor: %s", strerror(errno));
    }
    r = loop_thread(&signals.thread, signals_run, NULL);
    return r == 0 ? 0 : err_set(reterr, FN_E_EXHAUSTED, "signals: no thread: %s", strerror(r));
}
