/* Which cases a kind of plugin has: those of every plugin's life, and those of its kind. */
#include "suites.h"

#include <string.h>

void contract_cases(const char *kind, struct contract_list ret[CONTRACT_LISTS])
{
    static const struct {
        const char *kind;
        struct contract_list (*cases)(void);
    } suites[] = {
        {FN_KIND_PLACER, placer_cases},        {FN_KIND_POOL, pool_cases},
        {FN_KIND_CONTROL_PLANE, cplane_cases}, {FN_KIND_OVERRIDER, overrider_cases},
        {FN_KIND_LISTENER, listener_cases},    {FN_KIND_DRIVER, driver_cases},
        {FN_KIND_PREDICTOR, predictor_cases},  {FN_KIND_OPERATOR, operator_cases},
    };

    ret[0] = (struct contract_list){NULL, 0};
    ret[1] = ret[0];
    for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++) {
        if (strcmp(suites[i].kind, kind) == 0) {
            ret[0] = life_cases();
            ret[1] = suites[i].cases();
        }
    }
}
