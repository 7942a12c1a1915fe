/* A machine's table, tested: every step that it does not have ends the process, every state can be
 * reached from the first one, and what ends is what is said to. */
#ifndef TEST_LIB_MACHINE_H
#define TEST_LIB_MACHINE_H

#include <base/states.h>

#include <check.h>

/* begins: STATE() of each state that it may begin in; ends: of each that nothing follows. The table
 * lives as long as the tests. */
TCase *machine_tests(const struct states *m, uint32_t begins, uint32_t ends);

#endif
