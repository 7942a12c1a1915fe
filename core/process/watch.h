/* Watch: tells when the loop is stuck, and in which plugin; runs the audit. */
#ifndef PROCESS_WATCH_H
#define PROCESS_WATCH_H

#include <loop/loop.h>
#include <plugin/plugin.h>

struct watch;

struct watch_config {
    struct loop *loop; /* it and the plugin host must outlive the watch */
    struct plugin_host *host;
    int64_t watchdog_ns; /* a step of the loop that takes longer is told; 0 = never */
    int64_t audit_ns;    /* 0 = never */
    const char *processors_awake;
    uint32_t files_slack; /* descriptors beyond those that the audit knows */
    /* What the node's own limits let it fill, in bytes. [loop] */
    uint64_t (*memory_allowed)(void *ud);
    void *ud;
};

/* [init] */
int watch_create(const struct watch_config *c, struct watch **ret, struct fn_error *reterr);
void watch_destroy(struct watch *w); /* [init] NULL ok */

#endif
