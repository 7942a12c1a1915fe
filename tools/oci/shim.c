/* fnd-oci-shim: process 1 of a container's outer PID namespace, between the node and the runtime.
 *
 *   fnd-oci-shim DIR RUNTIME NAME BYTES LAYER...
 *   fnd-oci-shim --kill CGROUP.PROCS    ends the processes that the file lists
 *
 * The node starts it in a new PID namespace and ties it to itself. Mounts are made in a mount
 * namespace of its own, and everything that the runtime starts is in that PID namespace: whatever
 * ends this process, the kernel ends the container and takes its mounts away. So nothing of it is
 * left when a node is killed but the folder DIR and empty cgroups.
 *
 * In DIR, which is the node's: config.json (read), running (made when the function runs), exit
 * (how it ended), log (of the runtime), pid. LAYER: lowest first. BYTES: what may be written to the
 * root file system, which lies in memory and counts as the function's; 0 = half of the machine's.
 *
 * The C library alone: there is one of it for each container. */
#include "shim_exit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAYERS_MAX    500  /* the kernel's, of an overlay */
#define LOWER_MAX     4000 /* mount options are one page */
#define PATH_BYTES    4096
#define HYBRID_CGROUP "/sys/fs/cgroup/unified"

struct shim {
    const char *dir, *runtime, *name, *bytes;
    char **layers;
    int n_layers;
    int dir_fd;
};

/* The node reads it from the log of the runtime, as a line of the same form. */
__attribute__((format(printf, 3, 4))) static _Noreturn void end(const struct shim *s, int code,
                                                                const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    int fd = openat(s->dir_fd, "log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (fd >= 0) {
        dprintf(fd, "%s\n", text);
    }
    _exit(code);
}

#define fail(s, ...) end((s), SHIM_FAILED, __VA_ARGS__)

static void note(const struct shim *s, const char *file, const char *text)
{
    char part[64];
    int fd;

    snprintf(part, sizeof(part), "%s.part", file);
    fd = openat(s->dir_fd, part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || dprintf(fd, "%s", text) < 0 || renameat(s->dir_fd, part, s->dir_fd, file) < 0) {
        fail(s, "shim: cannot write %s: %s", file, strerror(errno));
    }
    close(fd);
}

static void must_mount(const struct shim *s, const char *from, const char *to, const char *type,
                       unsigned long flags, const char *options)
{
    if (mount(from, to, type, flags, options) < 0) {
        fail(s, "shim: cannot mount %s at %.200s: %s", type ? type : "nothing", to,
             strerror(errno));
    }
}

static void must_make(const struct shim *s, const char *dir, mode_t mode)
{
    if (mkdir(dir, mode) < 0 || chmod(dir, mode) < 0) {
        fail(s, "shim: cannot make %s: %s", dir, strerror(errno));
    }
}

/* Names of one or two digits, so that many layers fit into the options of a mount. The last layer
 * is the uppermost, which an overlay names first. */
static void link_layers(const struct shim *s, char lower[LOWER_MAX])
{
    size_t at = 0;

    for (int i = s->n_layers - 1; i >= 0; i--) {
        char name[16];

        snprintf(name, sizeof(name), "%d", i);
        if (symlink(s->layers[i], name) < 0) {
            fail(s, "shim: cannot link a layer: %s", strerror(errno));
        }
        at += (size_t)snprintf(lower + at, LOWER_MAX - at, "%s%s", at ? ":" : "", name);
    }
}

/* DIR/fs/root: the layers below, memory above. */
static void make_root(const struct shim *s)
{
    char fs[PATH_BYTES], lower[LOWER_MAX], options[LOWER_MAX + 128];

    snprintf(fs, sizeof(fs), "%s/fs", s->dir);
    snprintf(options, sizeof(options), "mode=755,size=%s",
             strcmp(s->bytes, "0") ? s->bytes : "50%");
    must_mount(s, "fnd-oci", fs, "tmpfs", MS_NOSUID | MS_NODEV, options);
    if (chdir(fs) < 0) {
        fail(s, "shim: %s: %s", fs, strerror(errno));
    }
    must_make(s, "upper", 0755);
    must_make(s, "work", 0755);
    must_make(s, "root", 0755);
    link_layers(s, lower);
    snprintf(options, sizeof(options), "lowerdir=%s,upperdir=upper,workdir=work", lower);
    must_mount(s, "fnd-oci", "root", "overlay", MS_NOSUID | MS_NODEV, options);
}

/* What the machine unmounts later goes here too; what is mounted here stays here. */
static void make_namespace(const struct shim *s)
{
    if (unshare(CLONE_NEWNS) < 0) {
        fail(s, "shim: cannot make a mount namespace: %s", strerror(errno));
    }
    must_mount(s, NULL, "/", NULL, MS_REC | MS_SLAVE, NULL);
    must_mount(s, "proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    /* Beside v1 hierarchies a second one without controllers of use, which makes crun give up. */
    umount2(HYBRID_CGROUP, MNT_DETACH);
}

static pid_t start_runtime(const struct shim *s)
{
    char state[PATH_BYTES], log[PATH_BYTES], pid_file[PATH_BYTES];
    char *const argv[] = { (char *)(uintptr_t)s->runtime, "--root", state, "--log", log,
                           "--log-format", "json", "run", "--detach", "--bundle",
                           (char *)(uintptr_t)s->dir, "--pid-file", pid_file,
                           (char *)(uintptr_t)s->name, NULL };
    pid_t pid;

    snprintf(state, sizeof(state), "%s/state", s->dir);
    snprintf(log, sizeof(log), "%s/log", s->dir);
    snprintf(pid_file, sizeof(pid_file), "%s/pid", s->dir);
    pid = vfork();
    if (pid == 0) {
        execv(s->runtime, argv);
        _exit(SHIM_FAILED);
    }
    if (pid < 0) {
        fail(s, "shim: cannot start a process: %s", strerror(errno));
    }
    return pid;
}

/* Waits for `pid` itself: those that lost their parent are waited for later, or go with us. */
static int wait_for(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    return status;
}

static pid_t read_pid(const struct shim *s)
{
    char text[32] = "";
    int fd = openat(s->dir_fd, "pid", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    long pid = n > 0 ? strtol(text, NULL, 10) : 0;

    if (pid <= 1) {
        fail(s, "shim: the runtime wrote no pid");
    }
    close(fd);
    return (pid_t)pid;
}

/* The function's own process; others that lost their parent come along. */
static int wait_for_end(pid_t function)
{
    int status = 0;
    pid_t pid;

    do {
        pid = waitpid(-1, &status, 0);
    } while (pid != function && !(pid < 0 && errno != EINTR));
    return status;
}

/* One that was killed, or is no program, has judged nothing. */
static _Noreturn void runtime_failed(const struct shim *s, int status)
{
    bool refused = WIFEXITED(status) && WEXITSTATUS(status) != SHIM_FAILED;

    end(s, refused ? SHIM_REFUSED : SHIM_FAILED, "shim: %.200s ended with %s %d", s->runtime,
        WIFEXITED(status) ? "exit code" : "signal",
        WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static void run(struct shim *s)
{
    char text[32];
    pid_t function;
    int status;

    make_namespace(s);
    make_root(s);
    status = wait_for(start_runtime(s));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        runtime_failed(s, status);
    }
    function = read_pid(s);
    note(s, "running", "");
    status = wait_for_end(function);
    snprintf(text, sizeof(text), "%s %d\n", WIFSIGNALED(status) ? "signal" : "code",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    note(s, "exit", text);
}

static int kill_all(const char *file)
{
    FILE *f = fopen(file, "re");
    int pid;

    while (f && fscanf(f, "%d", &pid) == 1) {
        if (pid > 1) {
            kill(pid, SIGKILL);
        }
    }
    if (f) {
        fclose(f);
    }
    return 0; /* whoever asks looks again */
}

int main(int argc, char **argv)
{
    struct shim s = { .dir = argc > 5 ? argv[1] : NULL };

    if (argc == 3 && strcmp(argv[1], "--kill") == 0) {
        return kill_all(argv[2]);
    }
    if (argc < 6 || argc > 5 + LAYERS_MAX || getpid() != 1) {
        fprintf(stderr, "fnd-oci-shim: driver-oci starts it, as process 1 of a PID namespace\n");
        return 64;
    }
    s.runtime = argv[2];
    s.name = argv[3];
    s.bytes = argv[4];
    s.layers = argv + 5;
    s.n_layers = argc - 5;
    s.dir_fd = open(s.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s.dir_fd < 0) {
        fprintf(stderr, "fnd-oci-shim: %s: %s\n", s.dir, strerror(errno));
        return SHIM_FAILED;
    }
    run(&s);
    return 0;
}
