/* driver/process: a function's executable as a child process of the node.
 *
 * The embedded default where no container engine is at hand: the same function contract, with the
 * node's own file systems (read-only) instead of an image. Isolation is what "fn.proc" can give:
 * namespaces, a user of its own, limits and a cgroup where the node runs as root, a plain process
 * elsewhere. */
#include "fail.h"
#include "process.h"
#include "process_spec.h"
#include "shipped.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The path of a folder without links; NULL: errno says why there is none. */
static char *real_folder(const char *path)
{
    char *real = realpath(path, NULL);
    struct stat st;

    if (real && (stat(real, &st) < 0 || !S_ISDIR(st.st_mode))) {
        free(real);
        errno = ENOTDIR;
        real = NULL;
    }
    return real;
}

static int inst_create(const struct fn_host *host, const void *conf, void **ret_inst,
                       struct fn_error *reterr)
{
    const char *root = ((const struct process_conf *)conf)->root;
    struct process_driver *d = calloc(1, sizeof(*d));
    char lacks[SPEC_LACKS_MAX];

    if (d) {
        d->root = real_folder(root);
    }
    if (d && !d->root) {
        free(d);
        return fail_platform(reterr, FN_E_PRECONDITION,
                             "root, got \"%.100s\": %s; expected a directory", root,
                             strerror(errno));
    }
    if (!d) {
        return fail_platform(reterr, FN_E_EXHAUSTED, "driver process: out of memory");
    }
    d->host = host;
    d->conf = conf;
    d->proc = host->get(host, "fn.proc", 1);
    d->op = host->get(host, "fn.op", 1);
    d->driver = host->get(host, "fn.driver", 1);
    d->as_root = geteuid() == 0;
    if (spec_lacks(d->proc->isolation(host), d->as_root, lacks)) {
        host->log->write(host, FN_LOG_WARN, lacks, strlen(lacks));
    }
    *ret_inst = d;
    return 0;
}

static void inst_destroy(void *inst)
{
    struct process_driver *d = inst;

    if (d) {
        free(d->root);
        free(d);
    }
}

static const struct fn_need needs[] = {
    { .iface = "fn.proc", .major = 1, .minor_min = 0 },
    { .iface = "fn.op", .major = 1, .minor_min = 0 },
    { .iface = "fn.driver", .major = 1, .minor_min = 0 },
    { .iface = NULL },
};

static const struct fn_opt opts[] = {
    { .key = "root",
      .doc = "Directory of the functions' executables: image fnd/hello:latest is the file named "
             "hello. Where fn.yaml has no `driver:`, it is `functions` beside the program, if there "
             "is one.",
      .dflt = "/usr/lib/fnd/functions",
      .type = FN_OPT_STR,
      .min = 1,
      .max = 900,
      .offset = offsetof(struct process_conf, root) },
    { .key = "uid",
      .doc = "User id that functions run as, if the node runs as root. Otherwise they run as the "
             "node's user.",
      .dflt = "1000",
      .type = FN_OPT_INT,
      .min = 1,
      .max = 65533,
      .offset = offsetof(struct process_conf, uid) },
    { .key = "gid",
      .doc = "Group id that functions run as, if the node runs as root.",
      .dflt = "1000",
      .type = FN_OPT_INT,
      .min = 1,
      .max = 65533,
      .offset = offsetof(struct process_conf, gid) },
    { .key = NULL },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_DRIVER,
    .name = "process",
    .summary = "Functions as child processes of the node.",
    .kind_major = FN_DRIVER_MAJOR,
    .kind_minor = FN_DRIVER_MINOR,
    .conf_size = sizeof(struct process_conf),
    .needs = needs,
    .opts = opts,
    .ops = &process_ops,
    .create = inst_create,
    .destroy = inst_destroy,
};

SHIPPED_PLUGIN(driver_process, "driver-process", &factory)
