#ifndef TEST_RPC_SUITES_H
#define TEST_RPC_SUITES_H

#include "fixture.h"

TCase *contract_case(void);
TCase *faults_case(void);
TCase *protocol_case(void);
TCase *logs_case(void);
TCase *raw_case(void);
TCase *hostile_case(void);

void add_machines(Suite *s);

#endif
