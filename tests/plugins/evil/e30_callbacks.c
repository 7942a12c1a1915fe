/* E30: a listener that has a child since the last call of the function "evil", and in whose
 * exited() something happens: EXITED. It frees its instance while the child may run. */
#define EVIL_NAME "e30"
#include "factory.h"

#include <fn/listener.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef EXITED
#define EXITED (void)0
#endif
#ifndef CHILD
#define CHILD "/bin/sleep", "100"
#endif

struct evil {
    const struct fn_host *host;
    const struct fn_proc_if *proc;
};

static __attribute__((unused)) void for_ever(void)
{
    for (;;) {
        (void)pause();
    }
}

static __attribute__((unused)) void crash(void)
{
    volatile int *volatile nowhere = NULL;

    *nowhere = 1;
}

static void output(void *ud, uint32_t fd, const void *data, size_t len)
{
    (void)ud;
    (void)fd;
    (void)data;
    (void)len;
}

static void exited(void *ud, int32_t code, uint32_t oom)
{
    const struct evil *e = ud;
    static const char line[] = "its child has ended";

    (void)code;
    (void)oom;
    e->host->log->write(e->host, FN_LOG_INFO, line, sizeof(line) - 1);
    EXITED;
}

static int create_instance(const struct fn_host *host, const void *conf, void **ret_inst,
                           struct fn_error *reterr)
{
    struct evil *e = calloc(1, sizeof(*e));

    (void)conf;
    (void)reterr;
    if (!e) {
        return FN_E_EXHAUSTED;
    }
    e->host = host;
    e->proc = host->get(host, "fn.proc", 1);
    *ret_inst = e;
    return 0;
}

static void destroy_instance(void *inst)
{
    struct evil *e = inst;

    if (e) {
        memset(e, 0x5a, sizeof(*e));
        free(e);
    }
}

static int after_worker(void *inst, struct fn_op *op, const struct fn_call *call,
                        const struct fn_call_end *end, struct fn_error *reterr)
{
    static const struct fn_proc_cb cb = { { sizeof(cb), 0 }, output, exited };
    static const char *const argv[] = { CHILD, NULL };
    static const char *const env[] = { NULL };
    const struct fn_proc_spec spec = { .size = sizeof(spec), .argv = argv, .env = env };
    struct evil *e = inst;
    uint64_t id;

    (void)op;
    (void)end;
    if (strncmp(call->fn_id, "01FNEVIL", 8) != 0) {
        return 0;
    }
    return e->proc->spawn(e->host, &spec, &cb, e, &id, reterr);
}

static const struct fn_listener_ops ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .after_worker = after_worker,
};
static const struct fn_need needs[] = { { .iface = "fn.proc", .major = 1 }, { .iface = NULL } };
EVIL_FACTORY(evil, FN_KIND_LISTENER, FN_LISTENER, needs, &ops, create_instance, destroy_instance);

#define EVIL_FACTORIES &evil
#include "file.h"
