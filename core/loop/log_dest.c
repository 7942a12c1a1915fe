/* Log dest: words of fn.yaml become a destination for the log's thread. */
#include <loop/log_dest.h>

#include <errno.h>
#include <fcntl.h>
#include <loop/remote_log.h>
#include <string.h>
#include <unistd.h>

#define TAG_CHARACTERS                                                                             \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./"

static bool is_dest(const char *dest)
{
    return strcmp(dest, "stderr") == 0 || strcmp(dest, "stdout") == 0 ||
           (strncmp(dest, "file:///", 8) == 0 && dest[8]) || remote_log_check(dest) == 0;
}

const char *log_dest_refused(const char *dest)
{
    return is_dest(dest) ? NULL
                         : "stderr, stdout, file:///path, udp://host:port, tcp://host:port or "
                           "unix:///path";
}

const char *log_prefix_refused(const char *prefix)
{
    return prefix[strspn(prefix, TAG_CHARACTERS)] ? "letters, digits and -_./" : NULL;
}

int log_dest_open(const struct log_options *o, int least, struct log_writer_config *ret,
                  struct fn_error *reterr)
{
    int fd = STDERR_FILENO;

    *ret = (struct log_writer_config){ .fd = -1 };
    if (strncmp(o->dest, "file://", 7) == 0) {
        ret->path = o->dest + 7;
        fd = open(ret->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0) {
            return err_set(reterr, FN_E_UNAVAILABLE, "log.dest %s: cannot be opened: %s", o->dest,
                           strerror(errno));
        }
    } else if (strcmp(o->dest, "stdout") == 0) {
        fd = STDOUT_FILENO;
    } else if (strcmp(o->dest, "stderr") != 0) {
        ret->send = remote_log_send;
        return remote_log_open(o->dest, o->prefix, reterr);
    }
    ret->fd = fcntl(fd, F_DUPFD_CLOEXEC, least);
    if (ret->path) {
        close(fd);
    }
    return ret->fd < 0 ? err_set(reterr, FN_E_UNAVAILABLE, "log.dest %s: no descriptor is free",
                                 o->dest)
                       : 0;
}
