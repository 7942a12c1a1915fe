/* A program of the vendor that stands in for the real one: it may remember, in a folder of the
 * case, what a fixed text cannot. */
#include "outside.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_MAX (1024 * 1024)

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

const char *case_dir(void)
{
    if (!shared->dir[0]) {
        snprintf(shared->dir, sizeof(shared->dir), "/tmp/fnkit-XXXXXX");
        must(mkdtemp(shared->dir) && chmod(shared->dir, 0755) == 0,
             "no folder for the case in /tmp: %s", strerror(errno));
    }
    return shared->dir;
}

void case_dir_remove(void)
{
    if (shared->dir[0]) {
        nftw(shared->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        shared->dir[0] = '\0';
    }
}

static void child(const char *program, const char *const *args, int out, int err)
{
    char *argv[64] = {(char *)(uintptr_t)program};
    char path[4200];
    char dir[64];
    char *env[] = {path, dir, NULL};
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int n = 1;

    for (args++; *args && n < 63; args++) {
        argv[n++] = (char *)(uintptr_t)*args;
    }
    snprintf(path, sizeof(path), "PATH=%s", getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    snprintf(dir, sizeof(dir), "FNKIT_DIR=%s", shared->dir);
    dup2(null, 0);
    dup2(out, 1);
    dup2(err, 2);
    execve(program, argv, env);
    dprintf(2, "%s: %s\n", program, strerror(errno));
    _exit(127);
}

static char *text_of(int fd)
{
    off_t len = lseek(fd, 0, SEEK_END);
    char *text;

    len = len < 0 ? 0 : len > TEXT_MAX ? TEXT_MAX : len;
    text = calloc(1, (size_t)len + 1);
    must(text && pread(fd, text, (size_t)len, 0) == len,
         "what the stand-in program said cannot be read");
    close(fd);
    return text;
}

int stand_in_run(const char *program, const char *const *argv, char **ret_out, char **ret_err)
{
    int out = memfd_create("out", MFD_CLOEXEC);
    int err = memfd_create("err", MFD_CLOEXEC);
    int status = 0;
    pid_t pid;

    case_dir();
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        child(program, argv, out, err);
    }
    must(pid > 0, "no process for the stand-in program: %s", strerror(errno));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    *ret_out = text_of(out);
    *ret_err = text_of(err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
