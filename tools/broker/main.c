/* Options, the socket, rights; the work is in link.c. */
#include "broker.h"

#include <base/log.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define USAGE_EXIT     64
#define START_EXIT     71
#define CONFIG_EXIT    78
#define INHERITED_FD   3 /* of a unit's socket */
#define BACKLOG        128
#define SOCKET_MODE    0660
#define ENGINE_DEFAULT "/var/run/docker.sock"
#define NO_SYMLINKS    0x2000 /* ST_NOSYMFOLLOW of Linux 5.10, which no header has */

static volatile int stopping;

static int complain(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int complain(int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fputs("fnd-docker-broker: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    return code;
}

/* ---- options --------------------------------------------------------------------------------- */

static int usage(FILE *to)
{
    fputs("usage: fnd-docker-broker --user NAME --iofs DIR [--owner TEXT] [--listen PATH] [--group "
          "NAME]\n"
          "                         [--engine PATH] [--images PREFIX]... [--network NAME]... "
          "[--load] [--clean]\n"
          "\n"
          "  --user NAME      who may connect: the user of the runner, by name or number\n"
          "  --iofs DIR       runner.iofs_path; on a file system mounted with nosymfollow\n"
          "  --owner TEXT     runner.owner, set there, too (fnd): containers with this label alone\n"
          "  --listen PATH    the broker's socket; without it, the one of its systemd unit\n"
          "  --group NAME     of that socket\n"
          "  --engine PATH    the engine's socket (" ENGINE_DEFAULT ")\n"
          "  --images PREFIX  only images whose names begin so, such as registry.example/apps/\n"
          "  --network NAME   of the engine; beside none and fnd, the driver's own; default: the\n"
          "                   engine's, for one that cannot have fnd\n"
          "  --load           the driver's load_file may be loaded, over any image of the engine\n"
          "  --clean          the driver's images_max may remove any image of the engine\n"
          "\n"
          "exit codes: 64 usage, 71 the socket cannot be made, 78 not safe or not there\n",
          to);
    return to == stdout ? 0 : USAGE_EXIT;
}

static bool add_text(struct texts *list, const char *text)
{
    if (list->n == LIST_MAX || !*text) {
        return false;
    }
    list->items[list->n++] = text;
    return true;
}

static bool find_user(const char *name, uid_t *ret)
{
    const struct passwd *pw = getpwnam(name);
    char *end;
    unsigned long n = strtoul(name, &end, 10);

    *ret = pw ? pw->pw_uid : (uid_t)n;
    return pw || (*name && !*end && n < UINT32_MAX);
}

static bool take_option(struct broker_config *c, int option, bool *user)
{
    switch (option) {
    case 'u':
        *user = find_user(optarg, &c->user);
        return *user;
    case 'f':
        c->iofs = optarg;
        return true;
    case 'o':
        c->owner = optarg;
        return true;
    case 'L':
        c->listen = optarg;
        return true;
    case 'g':
        c->group = optarg;
        return true;
    case 'e':
        c->engine = optarg;
        return true;
    case 'i':
        return add_text(&c->images, optarg);
    case 'n':
        return add_text(&c->networks, optarg);
    case 'd':
        return c->load = true;
    case 'c':
        return c->clean = true;
    default:
        return false;
    }
}

/* 0, or an exit code; -1 = the help was asked for. */
static int read_options(struct broker_config *c, int argc, char **argv)
{
    static const struct option options[] = {
        { "user", required_argument, NULL, 'u' },   { "iofs", required_argument, NULL, 'f' },
        { "owner", required_argument, NULL, 'o' },  { "listen", required_argument, NULL, 'L' },
        { "group", required_argument, NULL, 'g' },  { "engine", required_argument, NULL, 'e' },
        { "images", required_argument, NULL, 'i' }, { "network", required_argument, NULL, 'n' },
        { "load", no_argument, NULL, 'd' },         { "clean", no_argument, NULL, 'c' },
        { "help", no_argument, NULL, 'h' },         { NULL, 0, NULL, 0 }
    };
    bool user = false;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'h') {
            usage(stdout);
            return -1;
        }
        if (!take_option(c, option, &user)) {
            return usage(stderr);
        }
    }
    return optind == argc && user && c->iofs && *c->owner ? 0 : usage(stderr);
}

/* ---- what must hold -------------------------------------------------------------------------- */

/* Nobody but root can put something else in the directory's place. */
static bool is_roots_way(const char *dir)
{
    char path[PATH_MAX];
    struct stat st;

    snprintf(path, sizeof(path), "%s", dir);
    for (char *slash = strrchr(path, '/'); slash; slash = strrchr(path, '/')) {
        *slash = '\0';
        if (stat(*path ? path : "/", &st) < 0 || st.st_uid != 0 ||
            ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX))) {
            return false;
        }
    }
    return true;
}

/* The runner owns what the engine binds into containers, and could lead it anywhere by a link: the
 * engine looks at the path when the container starts, not when the broker does. Only the kernel can
 * forbid that. A runner that is root needs no link. */
static int check_iofs(const struct broker_config *c)
{
    struct statfs fs;
    char real[PATH_MAX];

    if (!realpath(c->iofs, real) || statfs(real, &fs) < 0) {
        return complain(CONFIG_EXIT, "--iofs %s: %s", c->iofs, strerror(errno));
    }
    if (strcmp(real, c->iofs) != 0 || strlen(real) >= 1000) {
        return complain(CONFIG_EXIT, "--iofs %s, expected a path without links: %s", c->iofs, real);
    }
    if (c->user == 0) {
        return 0;
    }
    if (!(fs.f_flags & NO_SYMLINKS)) {
        return complain(CONFIG_EXIT, "--iofs %s, expected a file system that was mounted with "
                        "nosymfollow, as run-fndiofs.mount does: else the runner can lead the "
                        "engine's bind mounts to any directory", real);
    }
    return is_roots_way(real) ? 0 : complain(CONFIG_EXIT, "--iofs %s, expected directories above "
                                             "it that are root's and no others may write", real);
}

static int check_texts(const struct broker_config *c)
{
    struct sockaddr_un to;

    for (const char *p = c->owner; *p; p++) {
        if (*p <= 0x20 || *p > 0x7e) {
            return complain(CONFIG_EXIT, "--owner, expected printable ASCII without spaces");
        }
    }
    for (size_t i = 0; i < c->networks.n; i++) {
        if (strcmp(c->networks.items[i], "host") == 0 || strchr(c->networks.items[i], ':')) {
            return complain(CONFIG_EXIT, "--network %s, expected an engine network other than host",
                            c->networks.items[i]);
        }
    }
    if (strlen(c->engine) >= sizeof(to.sun_path) ||
        (c->listen && strlen(c->listen) >= sizeof(to.sun_path))) {
        return complain(CONFIG_EXIT, "a socket's path is longer than %zu bytes",
                        sizeof(to.sun_path) - 1);
    }
    return 0;
}

/* ---- the socket ------------------------------------------------------------------------------ */

static int take_inherited(void)
{
    const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
    int yes = 0;
    socklen_t len = sizeof(yes);

    if (!pid || !n || atol(pid) != (long)getpid() || strcmp(n, "1") != 0 ||
        getsockopt(INHERITED_FD, SOL_SOCKET, SO_ACCEPTCONN, &yes, &len) < 0 || !yes) {
        complain(0, "no --listen, and no socket of a unit");
        return -1;
    }
    fcntl(INHERITED_FD, F_SETFD, FD_CLOEXEC);
    fcntl(INHERITED_FD, F_SETFL, O_NONBLOCK);
    return INHERITED_FD;
}

/* What a killed broker left is replaced; what still answers is not. */
static bool is_free(int fd, const struct sockaddr_un *at)
{
    bool taken = connect(fd, (const struct sockaddr *)at, sizeof(*at)) == 0;

    if (!taken && errno == ECONNREFUSED) {
        unlink(at->sun_path);
    }
    return !taken;
}

static int listen_at(const char *path, const char *group)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    const struct group *gr = group ? getgrnam(group) : NULL;
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool ok;

    snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    if (group && !gr) {
        return complain(-1, "--group %s is unknown", group);
    }
    if (!is_free(probe, &at)) {
        return complain(-1, "%s: another program listens there", path);
    }
    close(probe);
    umask(0177);
    ok = bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
         (!gr || chown(path, (uid_t)-1, gr->gr_gid) == 0) && chmod(path, SOCKET_MODE) == 0 &&
         listen(fd, BACKLOG) == 0;
    return ok ? fd : complain(-1, "%s: %s", path, strerror(errno));
}

/* ---- rights ---------------------------------------------------------------------------------- */

static void drop_rights(void)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { { 0 } };

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (syscall(SYS_capset, &head, none) < 0) {
        log_warn("capabilities cannot be dropped", "reason", strerror(errno));
    }
}

static void raise_files(void)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
        l.rlim_cur = l.rlim_max;
        setrlimit(RLIMIT_NOFILE, &l);
    }
}

/* ---- main ------------------------------------------------------------------------------------ */

static void on_signal(int signal)
{
    (void)signal;
    stopping = 1;
}

static int64_t wall_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int serve(const struct broker_config *c, int listener)
{
    const struct log_config log = { FN_LOG_INFO, LOG_TEXT, STDERR_FILENO, wall_ns, NULL };
    const struct sigaction stop = { .sa_handler = on_signal };
    struct broker *b;

    log_setup(&log);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGINT, &stop, NULL);
    raise_files();
    drop_rights();
    if (broker_create(c, listener, &b) < 0) {
        return complain(START_EXIT, "%s", strerror(errno));
    }
    log_info("broker of the container engine", "engine", c->engine, "owner", c->owner, "user",
             log_num(c->user), "iofs", c->iofs);
    broker_run(b, &stopping);
    broker_destroy(b);
    return 0;
}

int main(int argc, char **argv)
{
    struct broker_config c = { .engine = ENGINE_DEFAULT, .owner = "fnd" };
    int r = read_options(&c, argc, argv);
    int listener;

    if (r != 0) {
        return r < 0 ? 0 : r;
    }
    r = check_texts(&c);
    r = r == 0 ? check_iofs(&c) : r;
    if (r != 0) {
        return r;
    }
    listener = c.listen ? listen_at(c.listen, c.group) : take_inherited();
    if (listener < 0) {
        return START_EXIT;
    }
    r = serve(&c, listener);
    if (c.listen) {
        unlink(c.listen);
    }
    return r;
}
