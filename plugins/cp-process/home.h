/* The folder of all runners. Whoever can write there, or put another folder in its place, is the
 * user that runs them: the manager starts, reads, moves and removes what it finds. */
#ifndef CP_PROCESS_HOME_H
#define CP_PROCESS_HOME_H

#include <fn/abi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Where it is without an option: beside the admin socket, where users have no room in common. */
void home_default(char *ret, size_t size);
/* [worker] 0: `state` is there, and it and the folder of the group, if there is one, are this
 * user's alone, with no way for others to exchange them. What is missing of `state` is made, and
 * *made set if that was the last part. FN_E_PERMISSION, FN_E_UNAVAILABLE. */
int home_enter(const char *state, const char *group, atomic_bool *made, struct fn_error *reterr);

#endif
