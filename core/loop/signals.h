/* Signals: a thread that takes what others send to the process.
 *
 * The loop may be stuck when the node is asked to end, and a signal without a handler ends a
 * process without a word. So a thread of its own waits for signals: SIGTERM, SIGINT, SIGHUP and
 * SIGUSR2 go to the loop, every other one that would end the process is told and has no effect.
 * When the loop does not end the process after a second one of SIGTERM, SIGINT and SIGUSR2, or the
 * process does not come to its end in time, overdue() does. Signals of a thread's own mistakes,
 * SIGQUIT and those of job control stay as they are. One per process. */
#ifndef LOOP_SIGNALS_H
#define LOOP_SIGNALS_H

#include <loop/loop.h>

#define SIGNALS_PATIENCE_NS (1 * ENV_S)

struct signals_config {
    /* All on its thread. pid: the sender; 0 = the kernel, for a timer or a limit of this process */
    void (*told)(void *ud, int signo, int pid);
    /* Must end the process. signo: the second one that asked for it; 0 = signals_end_within() */
    void (*overdue)(void *ud, int signo);
    void *ud;
    /* The process above, which passes on what it gets; 0 = none. A terminal and systemd send to
     * both: the second request for the end is then its first one, and no second. */
    int above_pid;
};

/* [init] Before any other thread: blocks what others send, for all of them. */
void signals_block(void);
/* [init] signals_block(), and the thread. FN_E_EXHAUSTED: none can be made. */
int signals_begin(const struct signals_config *config, struct fn_error *reterr);
/* [init] Once: cb is called for SIGTERM, SIGINT, SIGHUP and SIGUSR2, also for those that came
 * before; two of one kind that the loop has not taken are one. */
int signals_watch(struct loop *l, void (*cb)(void *ud, int signo), void *ud,
                  struct fn_error *reterr);
/* [any] The process has so long to end; right within a second. */
void signals_end_within(int64_t ns);

#endif
