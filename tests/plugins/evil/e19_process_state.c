/* E19: changes what belongs to the whole process. */
#define EVIL_NAME "e19"
#include "when.h"

#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

static void change(void)
{
    sigset_t set;

    (void)!chdir("/");
    (void)umask(0);
    (void)setlocale(LC_ALL, "C.UTF-8");
    (void)signal(SIGSEGV, SIG_IGN);
    (void)signal(SIGPIPE, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)fesetround(FE_UPWARD);
}

EVIL_WHEN(change())

#include "evil.h"
