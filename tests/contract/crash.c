/* Where a case went wrong: which instruction of which plugin, and what of ours it touched. Runs in
 * a signal handler of a process that is lost anyway: no allocation, no locks. */
#include "contract.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#if !CONTRACT_SANITIZED

#define STACK_WORDS 1024
#define NULL_PAGE 4096

struct at {
    uintptr_t pc;
    uintptr_t sp;
    bool writes; /* known on x86-64 and only there */
};

static struct at where_in(const ucontext_t *u)
{
#if defined(__x86_64__)
    return (struct at){ (uintptr_t)u->uc_mcontext.gregs[REG_RIP],
                        (uintptr_t)u->uc_mcontext.gregs[REG_RSP],
                        (u->uc_mcontext.gregs[REG_ERR] & 2) != 0 };
#elif defined(__aarch64__)
    return (struct at){ u->uc_mcontext.pc, u->uc_mcontext.sp, false };
#else
    (void)u;
    return (struct at){ 0, 0, false };
#endif
}

/* The plugin's own instruction, or the one that called what the signal came in: the nearest address
 * on the stack that lies in a plugin. 0 = none. */
static uintptr_t in_plugin(const struct at *at, bool *ret_called)
{
    const uintptr_t *word = (const uintptr_t *)(at->sp & ~(uintptr_t)7);

    *ret_called = false;
    if (plugin_mapping_at((const void *)at->pc)) {
        return at->pc;
    }
    *ret_called = true;
    for (size_t i = 0; at->sp && i < STACK_WORDS; i++) {
        if (plugin_mapping_at((const void *)word[i])) {
            return word[i];
        }
    }
    return 0;
}

static void tell_place(const struct at *at)
{
    const struct plugin_mapping *m;
    const char *base;
    bool called;
    uintptr_t pc = in_plugin(at, &called);

    if (pc == 0) {
        return;
    }
    m = plugin_mapping_at((const void *)pc);
    base = strrchr(m->path, '/');
    snprintf(shared->place, sizeof(shared->place), "%s%s+0x%lx", called ? "called from " : "",
             base ? base + 1 : m->path, (unsigned long)(pc - m->from));
}

static void tell_touched(const struct at *at, uintptr_t addr)
{
    if (addr < NULL_PAGE) {
        snprintf(shared->touched, sizeof(shared->touched), "%s address 0x%lx",
                 at->writes ? "wrote to" : "read", (unsigned long)addr);
    } else {
        fence_tell((const void *)addr, at->writes, shared->touched, sizeof(shared->touched));
    }
}

static void on_signal(int signo, siginfo_t *info, void *context)
{
    const struct at at = where_in(context);

    signal(signo, SIG_DFL);
    if ((signo == SIGSEGV || signo == SIGBUS) && info->si_code > 0) {
        tell_touched(&at, (uintptr_t)info->si_addr);
    }
    tell_place(&at);
    raise(signo);
}

void crash_open(void)
{
    static const int signals[] = { SIGSEGV,           SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP,
                                   CONTRACT_WHERE_SIG };
    static char stack[64 * 1024];
    const stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
    struct sigaction a = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK };

    sigaltstack(&alternate, NULL);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        sigaction(signals[i], &a, NULL);
    }
}

#else

void crash_open(void)
{
}

#endif
