/* E22: decide() is left by longjmp to a function that returned, or by an exception that nobody
 * catches; for every function but "hello", so that fnkit meets it too. */
#define EVIL_NAME "e22"
#define EVIL_DECIDE leave_unless_hello
#include "leave.h"

#include <fn/placer.h>
#include <string.h>

static int leave_unless_hello(void *inst, const struct fn_ask *ask, struct fn_answer *ret);

#include "evil.h"

static int leave_unless_hello(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    if (strncmp(ask->call->fn_id, "01FNHELLO", 9) != 0) {
        evil_leave_for_nobody();
    }
    return evil_decide(inst, ask, ret);
}
