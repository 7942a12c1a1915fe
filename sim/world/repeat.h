#ifndef FND_SIM_REPEAT_H
#define FND_SIM_REPEAT_H

#include "plan.h"

#define REPEAT_BYTES 4096 /* of a line, with its NUL; a plan has some hundred events */

/* The plugins that were asked for; NULL: those beside the program. Borrowed. */
void repeat_set_plugins(const char *folder);
/* "repeat: fnd_sim --poor --seeds 17 --only 3,9-12 --story". left_out NULL = nothing. */
void repeat_line(const struct plan *p, const bool *left_out, char ret[REPEAT_BYTES]);
uint32_t repeat_count(const struct plan *p, const bool *left_out); /* events that are left */

#endif
