/* The suites by name; each is a constant list. */
#ifndef CONTRACT_SUITES_H
#define CONTRACT_SUITES_H

#include "contract.h"

#include <stdlib.h>

struct contract_list life_cases(void);
struct contract_list placer_cases(void);
struct contract_list pool_cases(void);
struct contract_list cplane_cases(void);
struct contract_list overrider_cases(void);
struct contract_list listener_cases(void);
struct contract_list driver_cases(void);
struct contract_list predictor_cases(void);
struct contract_list operator_cases(void);

#endif
