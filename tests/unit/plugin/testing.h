/* What the plugin tests share: a folder of their own for files. */
#ifndef TEST_PLUGIN_TESTING_H
#define TEST_PLUGIN_TESTING_H

#include "../lib/fake_env.h"

#include <check.h>
#include <plugin/plugin.h>

TCase *load_tests(void);
TCase *damage_tests(void);
TCase *instance_tests(void);
TCase *shipped_tests(void);
TCase *evil_tests(void);
TCase *sandbox_tests(void);
TCase *sealed_tests(void);
TCase *start_tests(void);
TCase *audit_tests(void);

/* "<samples>/<name>.so", in a rotating buffer. */
const char *sample_path(const char *name);
/* A fresh folder; removed at exit. */
const char *temp_dir(void);
/* Copies a sample there with mode 0755 and returns its path, in a rotating buffer. */
const char *sample_copy(const char *name);
void write_file(const char *path, const void *data, size_t len, unsigned mode);
/* malloc'd content. */
char *read_file(const char *path, size_t *ret_len);

#endif
