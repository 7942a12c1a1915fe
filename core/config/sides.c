/* Sides: what each side of a node means to the configuration. */
#include <config/config_int.h>

#define PART(NAME, name) [SIDE_##NAME] = &config_side_##name,
static const struct config_side_part *const parts[SIDES_N] = { CONFIG_SIDES(PART) };

void config_sides_plugins(struct config *c, struct conf_problems *p)
{
    for (int i = 0; i < SIDES_N; i++) {
        if (parts[i]->plugins && config_has(c, (enum config_side)i)) {
            parts[i]->plugins(c, p);
        }
    }
}

void config_sides_effect(const struct config *c, struct conf_problems *p)
{
    for (int i = 0; i < SIDES_N; i++) {
        if (parts[i]->effect && config_has(c, (enum config_side)i)) {
            parts[i]->effect(c, p);
        }
    }
}
