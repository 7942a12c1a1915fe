/* The time that a thread waited for a processor is what the kernel counted (schedstat) since it was
 * read last, at most WAITED_FRESH_NS before the turn: what is subtracted may be too much by the
 * waits of that time, so nothing is accused falsely, and too little never. */
#include <loop/turn.h>

#include <loop/loop_int.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define WINDOW_NS       (30 * ENV_S)
#define WAITED_FRESH_NS (10 * ENV_MS)
#define CLOSE_LOOK_NS   (1 * ENV_S)

const double loop_turn_bounds_s[LOOP_TURN_BOUNDS] = { 10e-6, 100e-6, 500e-6, 1e-3,  2e-3, 5e-3,
                                                      10e-3, 20e-3,  50e-3,  100e-3, 1,   10 };
static const int64_t bounds_ns[LOOP_TURN_BOUNDS] = { 10000,          100000,      500000,
                                                     1 * ENV_MS,     2 * ENV_MS,  5 * ENV_MS,
                                                     10 * ENV_MS,    20 * ENV_MS, 50 * ENV_MS,
                                                     100 * ENV_MS,   1 * ENV_S,   10 * ENV_S };
#define LONG_NS (1 * ENV_MS)

/* Of this thread. */
static _Thread_local int64_t waited_read_ns;
static _Thread_local int64_t waited_ns;

/* How long this thread has waited for a processor so far; what it was before when /proc says
 * nothing. */
static int64_t read_waited(void)
{
    char text[80];
    char *end;
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0) {
        close(fd);
    }
    if (n <= 0) {
        return waited_ns;
    }
    text[n] = '\0';
    strtoll(text, &end, 10); /* ran */
    return strtoll(end, NULL, 10);
}

int64_t loop_waited_ns(void)
{
    return read_waited() - waited_ns;
}

void turn_begin(struct turn_log *t, int64_t now_ns, uint64_t steps)
{
    t->began_ns = now_ns;
    t->steps_before = steps;
    if (now_ns - waited_read_ns >= WAITED_FRESH_NS) {
        waited_read_ns = now_ns;
        waited_ns = read_waited();
    }
    if (t->close_until_ns) {
        t->slowest_ns = t->step_ns = 0;
        t->slowest = NULL;
    }
}

static void step_ended(struct turn_log *t, int64_t now_ns)
{
    if (t->step_ns && now_ns - t->step_ns > t->slowest_ns) {
        t->slowest_ns = now_ns - t->step_ns;
        t->slowest = t->step;
    }
}

void turn_step(struct turn_log *t, const void *callback)
{
    int64_t now_ns = loop_clock_ns();

    step_ended(t, now_ns);
    t->step_ns = now_ns;
    t->step = callback;
}

static void turn_count(struct turn_log *t, int64_t took_ns, int64_t now_ns)
{
    uint32_t i = 0;

    while (i < LOOP_TURN_BOUNDS && took_ns > bounds_ns[i]) {
        i++;
    }
    __atomic_store_n(&t->of.counts[i], t->of.counts[i] + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&t->of.sum_ns, t->of.sum_ns + took_ns, __ATOMIC_RELAXED);
    if (now_ns - t->window_ns >= WINDOW_NS) {
        t->longest[1] = now_ns - t->window_ns < 2 * WINDOW_NS ? t->longest[0] : 0;
        t->longest[0] = 0;
        t->window_ns = now_ns;
        __atomic_store_n(&t->of.longest_ns, t->longest[1], __ATOMIC_RELAXED);
    }
    if (took_ns > t->longest[0]) {
        t->longest[0] = took_ns;
        if (took_ns > t->of.longest_ns) {
            __atomic_store_n(&t->of.longest_ns, took_ns, __ATOMIC_RELAXED);
        }
    }
}

/* Without the wait for a processor; tells whoever wants to know. */
static int64_t __attribute__((noinline)) judge_long(struct turn_log *t, int64_t now_ns,
                                                    uint64_t steps)
{
    struct loop_long_turn turn = { .began_ns = t->began_ns,
                                   .took_ns = now_ns - t->began_ns,
                                   .steps = steps - t->steps_before };
    int64_t before_ns = waited_ns;

    waited_read_ns = now_ns;
    waited_ns = read_waited();
    turn.waited_ns = waited_ns - before_ns;
    if (turn.waited_ns > turn.took_ns) {
        turn.waited_ns = turn.took_ns;
    }
    if (t->told_ns && turn.took_ns - turn.waited_ns >= t->told_ns) {
        turn.slowest = t->close_until_ns ? t->slowest : NULL;
        turn.slowest_ns = t->slowest_ns;
        t->close_until_ns = now_ns + CLOSE_LOOK_NS;
        t->tell(t->ud, &turn);
    }
    return turn.took_ns - turn.waited_ns;
}

void turn_end(struct turn_log *t, int64_t now_ns, uint64_t steps)
{
    int64_t took_ns = now_ns - t->began_ns;

    if (t->close_until_ns) {
        step_ended(t, now_ns);
    }
    if (took_ns > LONG_NS) {
        took_ns = judge_long(t, now_ns, steps);
    }
    if (t->close_until_ns && now_ns >= t->close_until_ns) {
        t->close_until_ns = 0;
    }
    turn_count(t, took_ns, now_ns);
}
