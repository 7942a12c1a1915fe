/* Turns: what a turn of the loop takes, in the metrics, and a line for one that was long. */
#ifndef PROCESS_TURNS_H
#define PROCESS_TURNS_H

#include <loop/loop.h>
#include <plugin/plugin.h>

#define TURN_LONG_NS (5 * ENV_MS)

struct turns;

/* [init] Before the loop runs; both must outlive it. NULL: no memory. */
struct turns *turns_create(struct loop *l, struct plugin_host *h);
void turns_destroy(struct turns *t); /* [init] when the loop has ended; NULL ok */
/* [any] but the loop, once a second or so: writes the line that is due. */
void turns_tell(struct turns *t);

#endif
