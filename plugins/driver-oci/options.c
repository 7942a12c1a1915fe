/* The options of driver-oci, and whether this machine has what they name. */
#include "fail.h"
#include "oci.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define RULE_LOAD_FILE "an archive, or the folder of an OCI layout"

const struct fn_opt oci_options[] = {
    { .key = "store",
      .doc = "Folder of the images, which fnd-oci fills.",
      .dflt = STORE_DEFAULT,
      .type = FN_OPT_STR,
      .min = 2,
      .max = OCI_ROOT_MAX,
      .offset = offsetof(struct oci_conf, store) },
    { .key = "state",
      .doc = "Folder of the containers that there are. Runners of one machine may share it.",
      .dflt = "/run/fnd-oci",
      .type = FN_OPT_STR,
      .min = 2,
      .max = OCI_ROOT_MAX,
      .offset = offsetof(struct oci_conf, state) },
    { .key = "runtime",
      .doc = "The program that starts containers: runc, crun or one that takes the same arguments, "
             "in PATH or as a path.",
      .dflt = "runc",
      .type = FN_OPT_STR,
      .min = 1,
      .max = OCI_ROOT_MAX,
      .offset = offsetof(struct oci_conf, runtime) },
    { .key = "programs",
      .doc = "Folder of fnd-oci-shim and fnd-oci. When absent: that of the node's program, or "
             "`../libexec/fnd`.",
      .flags = FN_OPT_MAY_BE_ABSENT,
      .type = FN_OPT_STR,
      .min = 1,
      .max = OCI_ROOT_MAX,
      .offset = offsetof(struct oci_conf, programs) },
    { .key = "network",
      .doc = "What functions that may have a network get: none, or host, that of the machine with "
             "all its services.",
      .dflt = "none",
      .type = FN_OPT_CHOICE,
      .choices = "none|host",
      .offset = offsetof(struct oci_conf, network) },
    { .key = "load_file",
      .doc = "Archive of images, as docker save writes it, that is loaded into the store when the "
             "runner starts; a call whose image is not there yet waits.",
      .flags = FN_OPT_MAY_BE_ABSENT,
      .type = FN_OPT_STR,
      .min = 1,
      .max = OCI_ROOT_MAX,
      .offset = offsetof(struct oci_conf, load_file) },
    { .key = NULL },
};

static bool try_file(const char *dir, size_t dir_len, const char *name, char ret[OCI_PATH_MAX])
{
    return snprintf(ret, OCI_PATH_MAX, "%.*s/%s", (int)dir_len, dir, name) < OCI_PATH_MAX &&
           access(ret, X_OK) == 0;
}

/* An absolute path, or a name that is looked for in PATH. */
static int find_runtime(struct oci *d, struct fn_error *reterr)
{
    const char *name = d->conf->runtime;
    const char *path = getenv("PATH");

    if (*name == '/' && try_file("", 0, name + 1, d->runtime)) {
        return 0;
    }
    for (const char *p = path && *path ? path : "/usr/sbin:/usr/bin"; *name != '/' && *p;) {
        size_t n = strcspn(p, ":");

        if (!strchr(name, '/') && try_file(p, n, name, d->runtime)) {
            return 0;
        }
        p += n + (p[n] == ':');
    }
    return fail_platform(reterr, FN_E_PRECONDITION,
                         "runtime, got \"%.100s\"; expected runc, crun or another one in PATH, or "
                         "its path", name);
}

/* Beside the node's program, or where packages put it. */
static int find_program(struct oci *d, const char *name, char ret[OCI_PATH_MAX],
                        struct fn_error *reterr)
{
    const char *own = d->conf->programs;
    char exe[PATH_MAX];
    ssize_t n;
    char *slash;

    if (own && *own) {
        return try_file(own, strlen(own), name, ret)
                   ? 0
                   : fail_platform(reterr, FN_E_PRECONDITION,
                                   "programs, got \"%.200s\"; expected a folder with %s", own,
                                   name);
    }
    n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    exe[n > 0 ? n : 0] = '\0';
    slash = strrchr(exe, '/');
    if (slash) {
        static const char libexec[] = "/../libexec/fnd";

        if (try_file(exe, (size_t)(slash - exe), name, ret)) {
            return 0;
        }
        if ((size_t)(slash - exe) + sizeof(libexec) <= sizeof(exe)) {
            memcpy(slash, libexec, sizeof(libexec));
            if (try_file(exe, strlen(exe), name, ret)) {
                return 0;
            }
        }
    }
    return fail_platform(reterr, FN_E_PRECONDITION,
                         "%s is not beside the node's program; expected programs to name its "
                         "folder", name);
}

static bool is_plain_path(const char *path)
{
    return path[0] == '/' && path[1] && !strstr(path, "/..") && !path[strcspn(path, "\n\t\\\"")];
}

static bool is_loadable(const struct stat *st)
{
    return S_ISREG(st->st_mode) || S_ISDIR(st->st_mode);
}

int options_check(struct oci *d, struct fn_error *reterr)
{
    if (!is_plain_path(d->conf->store) || !is_plain_path(d->conf->state)) {
        return fail_platform(reterr, FN_E_INVALID, "store and state, got \"%.100s\" and "
                             "\"%.100s\"; expected absolute paths", d->conf->store,
                             d->conf->state);
    }
    if (geteuid() != 0 || !(d->proc->isolation(d->host) & FN_PROC_HAS_NAMESPACES)) {
        return fail_platform(reterr, FN_E_PERMISSION, "driver oci makes namespaces and mounts; "
                             "expected a node that runs as root");
    }
    if (find_runtime(d, reterr) < 0 || find_program(d, "fnd-oci-shim", d->shim, reterr) < 0) {
        return FN_E_PRECONDITION;
    }
    if (load_file_check(d->conf->load_file, is_loadable, RULE_LOAD_FILE, reterr) < 0) {
        return FN_E_INVALID;
    }
    return d->conf->load_file && *d->conf->load_file
               ? find_program(d, "fnd-oci", d->loader, reterr)
               : 0;
}
