/* What a task becomes as a process: pure, so that it can be tested without starting anything. */
#ifndef DRIVER_PROCESS_SPEC_H
#define DRIVER_PROCESS_SPEC_H

#include <fn/driver.h>
#include <stdbool.h>

#define SPEC_PATH_MAX      1200
#define SPEC_LACKS_MAX     256

/* Path of the executable: <root>/<last part of the image's path>, tag and digest left out. An image
 * name that is not one is refused, so that no path leads out of root. */
int spec_program(const char *root, const char *image, char *ret, size_t cap,
                 struct fn_error *reterr);

/* The line for the log that names what functions lack here; false: nothing. `isolation`:
 * FN_PROC_HAS_*; own_user: they run as another user than the node. */
bool spec_lacks(uint32_t isolation, bool own_user, char ret[SPEC_LACKS_MAX]);

/* What wrappers ask for and a process cannot have: FN_E_UNIMPLEMENTED with the field's name, since
 * it would run otherwise than it was meant to. */
int spec_check(const struct fn_task *task, struct fn_error *reterr);

/* Environment, NULL-terminated, given: spec_env_free(). The listener is always ours: inside the
 * private mount at task->iofs_inside, else at the directory itself. */
int spec_env(const struct fn_task *task, const char *path, bool private_mount, char ***ret,
             struct fn_error *reterr);
void spec_env_free(char **env);

#endif
