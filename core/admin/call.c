/* One question to a node's admin socket, asked as a command line does. */
#include <admin/admin.h>

#include <dirent.h>
#include <errno.h>
#include <http/fetch.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LISTED_MAX 3u

/* A descriptor, or -1 with errno. */
static int connect_to(const char *path)
{
    struct sockaddr_un addr = { .sun_family = AF_UNIX };
    int fd, err;

    if (strlen(path) > ADMIN_PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(addr.sun_path, path, strlen(path));
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        err = errno;
        close(fd);
        errno = err;
        return -1;
    }
    return fd;
}

static bool is_other(const char *dir, const char *name, const char *asked)
{
    const char *end = strrchr(name, '.');
    char path[ADMIN_PATH_MAX + 260];
    int fd;

    if (!end || strcmp(end, ".sock") != 0 || strcmp(name, asked) == 0) {
        return false;
    }
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = connect_to(path);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

/* Other sockets in the same folder that somebody listens on: the operator may have meant one. */
static void list_others(const char *socket, char *ret, size_t size)
{
    const char *slash = strrchr(socket, '/');
    char dir[ADMIN_PATH_MAX + 1];
    struct dirent *e;
    uint32_t n = 0;
    DIR *d;

    *ret = '\0';
    snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - socket) : 0, socket);
    d = opendir(dir);
    while (d && (e = readdir(d)) && n <= LISTED_MAX) {
        size_t len = strlen(ret);

        if (!is_other(dir, e->d_name, slash + 1)) {
            continue;
        }
        snprintf(ret + len, size - len, "%s%.48s", n == 0 ? "; there is " : ", ",
                 n < LISTED_MAX ? e->d_name : "and others: see --config and --socket");
        n++;
    }
    if (d) {
        closedir(d);
    }
}

/* Who made a socket below /tmp may not be who it was meant to be. Root may ask anybody's node. */
static int check_server(int fd, const char *socket_path, struct fn_error *reterr)
{
    struct ucred peer = { .uid = 0 };
    socklen_t len = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.uid == geteuid() ||
        peer.uid == 0 || geteuid() == 0) {
        return 0;
    }
    return err_set(reterr, FN_E_PERMISSION,
                   "%s: a process of user %u listens there; expected one of user %u or root",
                   socket_path, (unsigned)peer.uid, (unsigned)geteuid());
}

/* Asked beforehand, because libcurl's texts do not tell the reason. */
static int call_probe(const char *socket, struct fn_error *reterr)
{
    char others[(LISTED_MAX + 1) * 52];
    int fd = connect_to(socket);
    int err = errno;
    int r;

    if (fd >= 0) {
        r = check_server(fd, socket, reterr);
        close(fd);
        return r;
    }
    if (err == EACCES || err == EPERM) {
        return err_set(reterr, FN_E_PERMISSION, "%s: %s; expected the user of the node or root",
                       socket, strerror(err));
    }
    list_others(socket, others, sizeof(others));
    return err_set(reterr, FN_E_UNAVAILABLE, "no node answers at %s: %s%s", socket, strerror(err),
                   others);
}

int admin_call(const char *socket, const char *method, const char *path, int64_t timeout_ms,
               int *ret_status, struct buf *ret_body, struct fn_error *reterr)
{
    int r = call_probe(socket, reterr);

    return r < 0 ? r : fetch_unix(socket, method, path, timeout_ms, ret_status, ret_body, reterr);
}

int admin_read(const char *socket, const char *path,
               int (*data)(void *ud, const char *data, size_t len), void *ud,
               struct fn_error *reterr)
{
    int r = call_probe(socket, reterr);

    return r < 0 ? r : fetch_unix_read(socket, path, data, ud, reterr);
}
