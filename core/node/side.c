/* Which sides there are. */
#include <node/side.h>

#define SIDE(NAME, name) [SIDE_##NAME] = &node_side_##name,
const struct node_side *const node_sides[SIDES_N] = { CONFIG_SIDES(SIDE) };
