/* Listening sockets. */
#include <net/bind.h>
#include <net/inherit.h>
#include <net/net_int.h>

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 4096

/* ---- who holds a port: for the sentence of CFG707 only -------------------------------------- */

static unsigned long listening_inode(const char *table, unsigned port)
{
    FILE *f = fopen(table, "re");
    unsigned long found = 0;
    char line[512];

    if (!f) {
        return 0;
    }
    while (!found && fgets(line, sizeof(line), f)) {
        unsigned local, state;
        unsigned long inode;

        if (sscanf(line, " %*u: %*[0-9A-F]:%X %*[0-9A-F]:%*X %X %*s %*s %*s %*s %*s %lu", &local,
                   &state, &inode) == 3 &&
            local == port && state == 0x0A) {
            found = inode;
        }
    }
    fclose(f);
    return found;
}

static bool process_holds(const char *pid, const char *link_text)
{
    char path[64];
    char target[64];
    struct dirent *e;
    bool found = false;
    DIR *d;

    snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
    d = opendir(path);
    while (d && !found && (e = readdir(d))) {
        ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);

        if (n > 0) {
            target[n] = '\0';
            found = strcmp(target, link_text) == 0;
        }
    }
    if (d) {
        closedir(d);
    }
    return found;
}

/* " by pid 123 (name)", or "" when it cannot be seen. */
static void port_owner(unsigned port, char *ret, size_t size)
{
    unsigned long inode = listening_inode("/proc/net/tcp", port);
    char link_text[64];
    struct dirent *e;
    DIR *proc;

    *ret = '\0';
    inode = inode ? inode : listening_inode("/proc/net/tcp6", port);
    proc = inode ? opendir("/proc") : NULL;
    if (!proc) {
        return;
    }
    snprintf(link_text, sizeof(link_text), "socket:[%lu]", inode);
    while (!*ret && (e = readdir(proc))) {
        char path[64];
        char name[32] = "?";
        FILE *f;

        if (!isdigit((unsigned char)e->d_name[0]) || !process_holds(e->d_name, link_text)) {
            continue;
        }
        snprintf(path, sizeof(path), "/proc/%.20s/comm", e->d_name);
        f = fopen(path, "re");
        if (f) {
            if (fgets(name, sizeof(name), f)) {
                name[strcspn(name, "\n")] = '\0';
            }
            fclose(f);
        }
        snprintf(ret, size, " by pid %.20s (%s)", e->d_name, name);
    }
    closedir(proc);
}

/* ---- unix sockets --------------------------------------------------------------------------- */

/* Removes the socket of a dead process. 0, or FN_E_UNAVAILABLE when somebody listens. */
static int clear_stale(const struct sockaddr_un *addr, struct fn_error *reterr)
{
    struct stat st;
    int fd;
    int r;

    if (lstat(addr->sun_path, &st) < 0) {
        return 0;
    }
    if (!S_ISSOCK(st.st_mode) || st.st_uid != geteuid()) {
        return err_set(reterr, FN_E_EXISTS, "CFG707 unix:%s exists and is not a socket of ours",
                       addr->sun_path);
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return err_set(reterr, err_from_errno(errno), "socket: %s", strerror(errno));
    }
    r = connect(fd, (const struct sockaddr *)addr, sizeof(*addr));
    close(fd);
    if (r == 0 || errno != ECONNREFUSED) {
        return err_set(reterr, FN_E_UNAVAILABLE, "CFG707 unix:%s is in use", addr->sun_path);
    }
    unlink(addr->sun_path);
    return 0;
}

/* The mode is set before the name exists: bind() gives the file the mode of the socket. */
static int listen_unix(const char *path, bool owner_only, int *ret_fd, char **ret_unix_path,
                       struct fn_error *reterr)
{
    struct sockaddr_storage addr;
    socklen_t len;
    char *copy;
    int fd;
    int r;

    if (net_unix_addr(path, &addr, &len) < 0) {
        return err_set(reterr, FN_E_INVALID,
                       "listen: path, got %zu characters; expected 1..%zu: unix:%s", strlen(path),
                       sizeof(((struct sockaddr_un *)0)->sun_path) - 1, path);
    }
    r = clear_stale((const struct sockaddr_un *)&addr, reterr);
    if (r < 0) {
        return r;
    }
    copy = strdup(path);
    fd = copy ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
    if (fd < 0 || (owner_only && fchmod(fd, 0600) < 0) ||
        bind(fd, (struct sockaddr *)&addr, len) < 0 || listen(fd, BACKLOG) < 0) {
        r = err_set(reterr, err_from_errno(errno), "listen: unix:%s: %s", path, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        free(copy);
        return r;
    }
    *ret_unix_path = copy;
    *ret_fd = fd;
    return 0;
}

/* ---- TCP ------------------------------------------------------------------------------------ */

static int listen_at(const struct addrinfo *ai, const char *listen_text)
{
    int one = 1;
    int zero = 0;
    int fd = net_inherit_take(ai->ai_addr);

    if (fd >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        return fd;
    }
    fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* accepted sockets inherit it */
    if (ai->ai_family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    }
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
        int err = errno;

        close(fd);
        errno = err;
        return -1;
    }
    net_inherit_opened(fd, listen_text);
    return fd;
}

static uint16_t bound_port(int fd)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);

    if (getsockname(fd, (struct sockaddr *)&addr, &len) < 0) {
        return 0;
    }
    return ntohs(addr.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&addr)->sin6_port
                                            : ((struct sockaddr_in *)&addr)->sin_port);
}

static int listen_tcp(const char *listen_text, const struct addr *at, int *ret_fd,
                      uint16_t *ret_port, struct fn_error *reterr)
{
    struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
    struct addrinfo *list = NULL;
    const char *host = at->host;
    char owner[80];
    int fd = -1;
    int err;

    /* without a host: both families through one IPv6 socket where there is IPv6 */
    err = getaddrinfo(*host ? host : "::", at->port, &hints, &list);
    if (err == 0) {
        fd = listen_at(list, listen_text);
        err = errno;
        freeaddrinfo(list);
    } else if (*host) {
        return err_set(reterr, FN_E_NOT_FOUND, "listen: %s: %s", host, gai_strerror(err));
    }
    if (fd < 0 && !*host && err != EADDRINUSE &&
        getaddrinfo("0.0.0.0", at->port, &hints, &list) == 0) {
        fd = listen_at(list, listen_text);
        err = errno;
        freeaddrinfo(list);
    }
    if (fd < 0 && err == EADDRINUSE) {
        port_owner(addr_port(at), owner, sizeof(owner));
        return err_set(reterr, FN_E_UNAVAILABLE, "CFG707 %s%s is in use%s", *host ? "" : "0.0.0.0",
                       listen_text, owner);
    }
    if (fd < 0) {
        return err_set(reterr, err_from_errno(err), "listen: %s: %s", listen_text, strerror(err));
    }
    *ret_fd = fd;
    *ret_port = bound_port(fd);
    return 0;
}

int net_bind(const char *address, bool owner_only, int *ret_fd, char **ret_unix_path,
             uint16_t *ret_port, struct fn_error *reterr)
{
    struct addr at;

    *ret_unix_path = NULL;
    *ret_port = 0;
    if (addr_parse(address, &at) < 0) {
        return err_set(reterr, FN_E_INVALID,
                       "listen: address, got \"%.64s\"; expected host:port, :port or "
                       "unix:/absolute/path",
                       address);
    }
    if (at.path) {
        return listen_unix(at.path, owner_only, ret_fd, ret_unix_path, reterr);
    }
    return listen_tcp(address, &at, ret_fd, ret_port, reterr);
}

bool net_is_of_last_tenth(int fd)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd >= limit.rlim_cur / 10 * 9;
}

bool net_peer_is_owner(int fd)
{
    struct ucred peer = { .uid = (uid_t)-1 };
    socklen_t len = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}
