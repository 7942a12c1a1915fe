/* Nights of long worlds: what nodes hold when everything rests. nights.c */
#ifndef FND_SIM_NIGHTS_H
#define FND_SIM_NIGHTS_H

#include "world.h"

struct nights *nights_create(uint32_t max);
void nights_destroy(struct nights *s);
/* All nodes serve, and nobody has called for a while. */
void nights_look(struct world *w);
/* After the last one. False: it has grown (B32). */
bool nights_judge(struct world *w);

#endif
