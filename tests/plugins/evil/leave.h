/* Two ways out of a function that are no return: longjmp, or with THROW an exception of C++. */
#ifndef EVIL_LEAVE_H
#define EVIL_LEAVE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* -> 1 when fn(ud) was left by evil_leave(). */
int evil_catch(void (*fn)(void *ud), void *ud);
/* Where nobody catches, libc or the C++ library ends the process. */
void evil_leave(void);

#ifdef __cplusplus
}
#endif

#ifndef THROW
#include <setjmp.h>

static jmp_buf evil_target;

__attribute__((noinline)) int evil_catch(void (*fn)(void *ud), void *ud)
{
    volatile char room[8192]; /* deeper than any caller of evil_leave() who is not below */

    room[0] = 0;
    if (setjmp(evil_target)) {
        return 1;
    }
    fn(ud);
    return room[0];
}

void evil_leave(void)
{
    longjmp(evil_target, 1); /* checked: CMakeLists.txt asks for _FORTIFY_SOURCE */
}
#endif

static void evil_nothing(void *ud)
{
    (void)ud;
}

/* Whoever would catch has returned. */
static inline void evil_leave_for_nobody(void)
{
    (void)evil_catch(evil_nothing, NULL);
    evil_leave();
}
#endif
