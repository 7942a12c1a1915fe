/* E29: asks the kernel for what no plugin needs, and logs what it got. */
#define EVIL_NAME "e29"
#include "when.h"

#include <errno.h>
#include <fcntl.h>
#include <fn/host.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static char line[2048];
static size_t len;

static void got(const char *name, long r)
{
    const char *word = r < 0 ? strerrorname_np(errno) : "done";

    len += (size_t)snprintf(line + len, sizeof(line) - len, " %s=%s", name, word);
}

/* Arguments that no kernel takes: without a filter the answer is another one than EPERM. */
static void ask_kernel(void)
{
    got("ptrace", syscall(SYS_ptrace, 4711, 0, 0, 0));
    got("process_vm_readv", syscall(SYS_process_vm_readv, 1, 0, 0, 0, 0, 4711));
    got("bpf", syscall(SYS_bpf, 4711, NULL, 0));
    got("keyctl", syscall(SYS_keyctl, 4711, 0, 0, 0, 0));
    got("perf_event_open", syscall(SYS_perf_event_open, NULL, 0, 0, -1, 0));
    got("userfaultfd", syscall(SYS_userfaultfd, 1 << 20));
    got("kexec_load", syscall(SYS_kexec_load, 0, 0, NULL, 1ul << 40));
    got("init_module", syscall(SYS_init_module, NULL, 0, NULL));
    got("mount", syscall(SYS_mount, NULL, NULL, NULL, 0, NULL));
    got("unshare", syscall(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNET));
    got("clone", syscall(SYS_clone, CLONE_NEWUSER | CLONE_SIGHAND, 0, 0, 0, 0));
    got("clone3", syscall(SYS_clone3, NULL, 0));
    got("setns", syscall(SYS_setns, -1, 0));
    got("alg", socket(AF_ALG, SOCK_RAW, 0));
}

static void write_file(const char *name, const char *dir)
{
    char path[4096];
    int fd;

    snprintf(path, sizeof(path), "%s/fnd-e29.%d", dir, (int)getpid());
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    got(name, fd);
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
}

static void try_all(const struct fn_host *host)
{
    len = 0;
    ask_kernel();
    write_file("write", "/var/tmp");
    write_file("write_tmp", getenv("TMPDIR"));
    host->log->write(host, FN_LOG_WARN, line, len);
}

EVIL_WHEN(try_all(inst))

#include "evil.h"
