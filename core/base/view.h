/* View: structs that plugins hand to host functions and get back, by the growth rule of fn/abi.h.
 *
 * Such a struct begins with a uint32_t that holds its size as the plugin knows it. The host works
 * on a struct of its own, so that a plugin of an older minor is served by a host that has grown. */
#ifndef BASE_VIEW_H
#define BASE_VIEW_H

#include <stddef.h>

/* Copies what both sides know of *from to *to (`known` bytes, the rest zero) and sets the size of
 * *to to `known`. FN_E_INVALID: NULL or smaller than `min`, the size in minor 0;
 * FN_E_UNIMPLEMENTED: uses bytes that this host does not know. [any] */
int view_take(void *to, size_t known, const void *from, size_t min);
/* A plugin's struct that can be filled: not NULL and at least `min` bytes. [any] */
int view_can_give(const void *to, size_t min);
/* Fills *to with what both sides know of *from; the size of *to stays. [any] */
void view_give(void *to, const void *from, size_t known);

#endif
