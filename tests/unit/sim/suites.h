#ifndef TESTS_SIM_SUITES_H
#define TESTS_SIM_SUITES_H

#include <check.h>

TCase *cluster_tests(void);
TCase *env_tests(void);
TCase *model_tests(void);
TCase *scenario_tests(void);
TCase *script_tests(void);
TCase *tripwire_tests(void);

/* One of 4 rotating texts: a file of FND_SAMPLES/sim, FND_PLUGINS, FND_SCENARIOS. */
const char *sample(const char *name);
const char *shipped(const char *name);
const char *scenario_file(const char *name);
/* Writes a scenario and returns its path, which ends in /s.yaml. */
const char *scenario_text(const char *text);

#endif
