/* What drivers and control planes need. Those that do not come with fnd are strangers: `basic` lets
 * them have what any of ours has, `strict` gives them nothing of their own. */
#include <node/rights.h>

#include <linux/capability.h>
#include <string.h>

/* What no node and no child of one has to do: modules, raw devices, the clock, other policies. */
#define CAPS_NEVER                                                                                 \
    (HARDEN_CAP(SYS_MODULE) | HARDEN_CAP(SYS_RAWIO) | HARDEN_CAP(SYS_BOOT) |                       \
     HARDEN_CAP(SYS_TIME) | HARDEN_CAP(SYS_PACCT) | HARDEN_CAP(SYS_TTY_CONFIG) |                   \
     HARDEN_CAP(LINUX_IMMUTABLE) | HARDEN_CAP(MAC_ADMIN) | HARDEN_CAP(MAC_OVERRIDE) |              \
     HARDEN_CAP(SYSLOG) | HARDEN_CAP(WAKE_ALARM) | HARDEN_CAP(BLOCK_SUSPEND) |                     \
     HARDEN_CAP(AUDIT_CONTROL) | HARDEN_CAP(AUDIT_READ) | HARDEN_CAP(PERFMON))
#define CAPS_WIDE (~CAPS_NEVER)

/* The tmpfs of a container's socket directory, and what its function left in it. */
#define CAPS_SOCKETS (HARDEN_CAP(SYS_ADMIN) | HARDEN_CAP(DAC_OVERRIDE) | HARDEN_CAP(FOWNER))
/* A child's namespaces, its loopback, its limits, its user, and its end. */
#define CAPS_PROCESS                                                                               \
    (HARDEN_CAP(SYS_ADMIN) | HARDEN_CAP(NET_ADMIN) | HARDEN_CAP(SYS_RESOURCE) |                    \
     HARDEN_CAP(SETUID) | HARDEN_CAP(SETGID) | HARDEN_CAP(KILL) | HARDEN_CAP(CHOWN))

/* How a driver's functions come to their sockets, which shows how far the node may close them. */
enum sockets { SOCKETS_MOUNTED, SOCKETS_MOUNTED_IF_POSSIBLE, SOCKETS_ANYHOW };

struct need {
    const char *use; /* NULL: any other */
    uint64_t capabilities;
    uint32_t may;
    enum sockets sockets; /* of drivers */
};

static const struct need drivers[] = {
    { "docker", 0, 0, SOCKETS_MOUNTED },
    { "process", CAPS_PROCESS, HARDEN_CHILDREN, SOCKETS_MOUNTED_IF_POSSIBLE },
    { "oci", CAPS_WIDE, HARDEN_CHILDREN, SOCKETS_MOUNTED },
    { NULL, CAPS_WIDE, HARDEN_CHILDREN, SOCKETS_ANYHOW },
};

static const struct need cplanes[] = {
    { "fixed", 0, 0, 0 },
    { "swarm", 0, 0, 0 },
    { "process", CAPS_WIDE, HARDEN_CHILDREN, 0 }, /* its runners are nodes with drivers */
    { "vbox", CAPS_WIDE, HARDEN_CHILDREN | HARDEN_SETUID, 0 }, /* VirtualBox's programs: setuid */
    { NULL, CAPS_WIDE, HARDEN_CHILDREN | HARDEN_SETUID, 0 },
};

static const struct need *find_need(const struct need *rows, const char *use)
{
    const struct need *n = rows;

    while (n->use && strcmp(n->use, use) != 0) {
        n++;
    }
    return n;
}

static void add_need(struct harden_plan *p, const struct need *rows, const char *use)
{
    const struct need *n = find_need(rows, use);

    if (n->use || strcmp(p->mode, "strict") != 0) {
        p->capabilities |= n->capabilities;
        p->may |= n->may;
    }
}

void rights_add_drivers(struct harden_plan *p, const struct config_list_plugin *list)
{
    p->capabilities |= CAPS_SOCKETS;
    p->may |= HARDEN_MOUNT;
    for (uint32_t i = 0; i < list->n; i++) {
        add_need(p, drivers, list->items[i].use);
    }
}

/* The first one is the engine's, the others wrap it. */
bool rights_sockets_by_path(const struct config_list_plugin *list, bool apart)
{
    enum sockets s = list->n > 0 ? find_need(drivers, list->items[0].use)->sockets : SOCKETS_ANYHOW;

    return s == SOCKETS_ANYHOW || (s == SOCKETS_MOUNTED_IF_POSSIBLE && !apart);
}

void rights_add_cplane(struct harden_plan *p, const struct config_plugin *cplane)
{
    if (cplane->use) {
        add_need(p, cplanes, cplane->use);
    }
}
