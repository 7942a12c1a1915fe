/* Sides: what each side of a node means to the configuration.
 *
 * A new side is a row here, its bit at the sections and plugins that it has, and a row in
 * core/node. */
#include <config/config_int.h>

static const struct {
    /* What nobody said about its plugins, and what may not stand together; NULL: it has none. */
    void (*plugins)(struct config *c, struct conf_problems *p);
    /* What has no effect, or one that nobody means. */
    void (*effect)(const struct config *c, struct conf_problems *p);
} sides[SIDES_N] = {
    [SIDE_LB] = { config_lb_plugins, config_lb_effect },
    [SIDE_RUNNER] = { config_runner_plugins, config_runner_effect },
    [SIDE_NPM] = { config_npm_plugins, config_npm_effect },
    [SIDE_API] = { NULL, config_api_effect },
};

void config_sides_plugins(struct config *c, struct conf_problems *p)
{
    for (int i = 0; i < SIDES_N; i++) {
        if (sides[i].plugins && config_has(c, (enum config_side)i)) {
            sides[i].plugins(c, p);
        }
    }
}

void config_sides_effect(const struct config *c, struct conf_problems *p)
{
    for (int i = 0; i < SIDES_N; i++) {
        if (sides[i].effect && config_has(c, (enum config_side)i)) {
            sides[i].effect(c, p);
        }
    }
}
