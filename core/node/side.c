/* Which sides there are. */
#include <node/side.h>

const struct node_side *const node_sides[SIDES_N] = {
    [SIDE_LB] = &node_side_lb,
    [SIDE_RUNNER] = &node_side_runner,
    [SIDE_NPM] = &node_side_npm,
    [SIDE_API] = &node_side_api,
};
