/* A process of its own, whose plugins and memory are not those of the start. */
#include <process/start.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

bool start_check_tells(const struct start *s)
{
    char *argv[] = { (char *)(uintptr_t)"fnd", (char *)(uintptr_t)"check",
                     (char *)(uintptr_t)"--config", (char *)(uintptr_t)s->config_path, NULL, NULL };
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none;
    int status = 0;
    pid_t pid;
    int r;

    argv[s->config_path ? 4 : 2] = s->strict ? (char *)(uintptr_t)"--strict" : NULL;
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    r = posix_spawn(&pid, "/proc/self/exe", &files, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    while (r == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return r == 0 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_CONFIG;
}
