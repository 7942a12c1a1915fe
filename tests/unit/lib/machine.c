/* Each step that the table lacks is made in a child, which has to end by the assertion. */
#include "machine.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define MACHINES_MAX 8

static struct {
    const struct states *m;
    uint32_t begins, ends;
} machines[MACHINES_MAX];
static int machines_n;

static bool ends_the_process(const struct states *m, uint32_t from, uint32_t to)
{
    pid_t child = fork();
    int status = 0;

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        states_next(m, from, to);
        _exit(EXIT_SUCCESS);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

START_TEST(steps_that_the_table_has_not_end_the_process)
{
    const struct states *m = machines[_i].m;

    for (uint32_t from = 0; from < m->n; from++) {
        for (uint32_t to = 0; to <= m->n; to++) {
            if (states_may(m, from, to)) {
                ck_assert_uint_eq(states_next(m, from, to), to);
            } else {
                ck_assert_msg(ends_the_process(m, from, to), "%s: %s may be followed by %s",
                              m->name, m->names[from], to < m->n ? m->names[to] : "nothing");
            }
        }
    }
}
END_TEST

START_TEST(each_state_can_be_reached_and_the_last_ones_are_last)
{
    const struct states *m = machines[_i].m;
    uint32_t reached = machines[_i].begins;

    for (uint32_t round = 0; round < m->n; round++) {
        for (uint32_t s = 0; s < m->n; s++) {
            reached |= reached & STATE(s) ? m->follows[s] : 0;
        }
    }
    for (uint32_t s = 0; s < m->n; s++) {
        ck_assert_ptr_nonnull(m->names[s]);
        ck_assert_msg(reached & STATE(s), "%s: nothing leads to %s", m->name, m->names[s]);
        ck_assert_msg((m->follows[s] == 0) == !!(machines[_i].ends & STATE(s)), "%s: %s", m->name,
                      m->names[s]);
    }
    ck_assert_uint_eq(reached & ~((STATE(m->n - 1) << 1) - 1), 0);
}
END_TEST

TCase *machine_tests(const struct states *m, uint32_t begins, uint32_t ends)
{
    TCase *t = tcase_create(m->name);
    int i = machines_n++;

    if (i >= MACHINES_MAX) {
        abort();
    }
    machines[i].m = m;
    machines[i].begins = begins;
    machines[i].ends = ends;
    tcase_add_loop_test(t, steps_that_the_table_has_not_end_the_process, i, i + 1);
    tcase_add_loop_test(t, each_state_can_be_reached_and_the_last_ones_are_last, i, i + 1);
    return t;
}
