/* The cgroups of a container, which the runtime makes below CGROUP_PARENT: one with v2, one in each
 * hierarchy with v1. Names are ctr_name()'s, so a path cannot lead anywhere else. */
#include "oci.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOT "/sys/fs/cgroup"

static void path_of(bool v2, const char *controller, const char *name, const char *file,
                    char ret[CGROUP_PATH_MAX])
{
    snprintf(ret, CGROUP_PATH_MAX, ROOT "%s%s/" CGROUP_PARENT "/%s%s%s", v2 ? "" : "/",
             v2 ? "" : controller, name, *file ? "/" : "", file);
}

static bool cgroup_get(const char *path, char *ret, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, cap - 1);

    if (fd >= 0) {
        close(fd);
    }
    ret[n > 0 ? n : 0] = '\0';
    return n >= 0;
}

bool cgroup_is_v2(void)
{
    return access(ROOT "/cgroup.controllers", F_OK) == 0;
}

/* With v2 the runtime leaves out what the kernel does not have. */
bool cgroup_limits_swap(bool v2)
{
    return v2 || access(ROOT "/memory/memory.memsw.limit_in_bytes", F_OK) == 0;
}

int cgroup_freeze(bool v2, const char *name, bool on)
{
    const char *text = v2 ? (on ? "1" : "0") : on ? "FROZEN" : "THAWED";
    char path[CGROUP_PATH_MAX];
    ssize_t n;
    int fd;

    path_of(v2, "freezer", name, v2 ? "cgroup.freeze" : "freezer.state", path);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return FN_E_NOT_FOUND;
    }
    n = write(fd, text, strlen(text));
    close(fd);
    return n == (ssize_t)strlen(text) ? 0 : FN_E_UNAVAILABLE;
}

bool cgroup_oom_killed(bool v2, const char *name)
{
    char path[CGROUP_PATH_MAX], text[1024];
    const char *word;

    path_of(v2, "memory", name, v2 ? "memory.events" : "memory.oom_control", path);
    word = cgroup_get(path, text, sizeof(text)) ? strstr(text, "oom_kill ") : NULL;
    return word && strtol(word + strlen("oom_kill "), NULL, 10) > 0;
}

void cgroup_procs(bool v2, const char *name, char ret[CGROUP_PATH_MAX])
{
    path_of(v2, "freezer", name, "cgroup.procs", ret);
}

static bool remove_at(const char *path)
{
    return rmdir(path) == 0 || errno == ENOENT || errno == ENOTDIR;
}

bool cgroup_remove(bool v2, const char *name)
{
    char path[CGROUP_PATH_MAX];
    DIR *d = v2 ? NULL : opendir(ROOT);
    struct dirent *e;
    bool gone = true;

    if (v2) {
        path_of(true, "", name, "", path);
        return remove_at(path);
    }
    while (d && (e = readdir(d))) {
        if (e->d_name[0] != '.' && e->d_type == DT_DIR) {
            path_of(false, e->d_name, name, "", path);
            gone &= remove_at(path);
        }
    }
    if (d) {
        closedir(d);
    }
    return gone;
}
