/* Cases over the real clock and the tables of core/plugin; subject.real says so. */
#ifndef CONTRACT_REAL_H
#define CONTRACT_REAL_H

#include "contract.h"

/* Everything that the factory needs can be had without a node. */
bool real_possible(const struct fn_factory *f);
/* Around a case, in its own process. */
void real_open(void);
void real_close(void);
int real_make(struct conf_values *given, struct plugin **ret, struct fn_error *reterr);
void real_destroy(struct plugin *p);
int64_t real_now(void);
/* Lets timers run; only a thousandth of `ns` passes. */
void real_advance(int64_t ns);
void real_turn(int64_t ns); /* all of it */
/* Lets the loop run until real_wake(). [any] */
void real_wait(void);
void real_wake(void);

#endif
