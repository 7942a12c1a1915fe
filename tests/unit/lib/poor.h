/* Memory that ends: one allocation of the code under test fails. A program that is a fnd_test() with
 * POOR leads those of fnd here; libraries keep their own. */
#ifndef TEST_POOR_H
#define TEST_POOR_H

#include <stdbool.h>

/* The n-th allocation from now on fails; 0: none does. */
void poor_begin(unsigned n);
/* Whether it did; from now on none fails. */
bool poor_end(void);

#endif
