/* Threads of this room: signals, and a stack for handlers that survives a stack overflow. */
#include <loop/loop_int.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define STACK_BYTES (64 * 1024)

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local bool have;

static void unmap(void *mapping)
{
    stack_t off = { .ss_flags = SS_DISABLE };

    sigaltstack(&off, NULL);
    munmap(mapping, STACK_BYTES + (size_t)sysconf(_SC_PAGESIZE));
}

static void make_key(void)
{
    if (pthread_key_create(&key, unmap) != 0) {
        abort();
    }
}

/* Without memory for it a crash by stack overflow is not reported; nothing else is lost. A thread
 * that has one already (sanitizers give theirs) keeps it. */
static void __attribute__((noinline)) altstack_make(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    stack_t s = { 0 };
    char *mapping;

    have = true;
    if (sigaltstack(NULL, &s) == 0 && !(s.ss_flags & SS_DISABLE)) {
        return;
    }
    pthread_once(&once, make_key);
    mapping = mmap(NULL, STACK_BYTES + page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (mapping == MAP_FAILED) {
        return;
    }
    mprotect(mapping, page, PROT_NONE);
    s = (stack_t){ .ss_sp = mapping + page, .ss_size = STACK_BYTES };
    if (sigaltstack(&s, NULL) < 0 || pthread_setspecific(key, mapping) != 0) {
        unmap(mapping);
    }
}

void loop_altstack(void)
{
    if (!have) {
        altstack_make();
    }
}

/* Signals that others send belong to the loop's own thread. Those of a thread's own mistakes stay
 * open: a blocked one ends the process without its handler. */
int loop_thread(pthread_t *ret, void *(*run)(void *arg), void *arg)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS };
    sigset_t most;
    sigset_t old;
    int r;

    sigfillset(&most);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        sigdelset(&most, own[i]);
    }
    pthread_sigmask(SIG_SETMASK, &most, &old);
    r = pthread_create(ret, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return r;
}

void loop_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}
