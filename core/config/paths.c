/* Paths and names that a start would not find on this machine as it needs them. Read while the file
 * is, not when a single value is set: a folder of a network may take its time. */
#include <config/config_int.h>

#include <admin/admin.h>
#include <errno.h>
#include <http/fnsock.h>
#include <limits.h>
#include <loop/log_dest.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum path_kind { PATH_NONE, PATH_FOLDER, PATH_OTHER, PATH_UNKNOWN };

/* What this user may not see may be right for the one that the node will have. */
static enum path_kind paths_kind(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0) {
        return errno == ENOENT || errno == ENOTDIR ? PATH_NONE : PATH_UNKNOWN;
    }
    return S_ISDIR(st.st_mode) ? PATH_FOLDER : PATH_OTHER;
}

static void check_log_file(const struct config *c, struct conf_problems *p)
{
    const char *dest = c->log->dest;
    const char *file = strncmp(dest, "file://", 7) == 0 ? dest + 7 : NULL;
    char folder[PATH_MAX];
    enum path_kind kind;

    if (!file || !strrchr(file, '/')) {
        return;
    }
    snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(file, '/') - file + 1), file);
    kind = paths_kind(folder);
    if (kind == PATH_NONE || kind == PATH_OTHER) {
        config_refuse(c, SECTION_LOG, "dest", dest, "a file in a folder that exists", p);
    } else if (paths_kind(file) == PATH_FOLDER) {
        config_refuse(c, SECTION_LOG, "dest", dest, "a file, not a folder", p);
    }
}

/* A directory of users that does not answer says nothing. */
static bool is_nobody(const char *user)
{
    errno = 0;
    return user[strspn(user, "0123456789")] && !getpwnam(user) &&
           (errno == 0 || errno == ENOENT || errno == ESRCH);
}

static void check_user(const struct config *c, struct conf_problems *p)
{
    const char *user = c->process->user;

    if (user && is_nobody(user)) {
        config_refuse(c, SECTION_PROCESS, "user", user, "a user of this machine, or a number", p);
    }
}

static void check_plugin_dir(const struct config *c, struct conf_problems *p)
{
    const char *dir = c->top->plugin_dir;

    if (!config_is_default(c, SECTION_TOP, "plugin_dir") && paths_kind(dir) != PATH_FOLDER) {
        config_refuse(c, SECTION_TOP, "plugin_dir", dir, "a folder with the files of plugins", p);
    }
}

void config_check_paths(struct config *c, struct conf_problems *p)
{
    const char *iofs = c->fnsock->iofs_path;
    const char *socket = c->admin->socket;

    check_plugin_dir(c, p);
    check_log_file(c, p);
    check_user(c, p);
    if (iofs && iofs[0] == '/' && config_has(c, SIDE_RUNNER) && paths_kind(iofs) == PATH_OTHER) {
        config_refuse(c, SECTION_RUNNER, "iofs_path", iofs, "a folder", p);
    }
    if (socket && socket[0] == '/' && paths_kind(socket) == PATH_FOLDER) {
        config_refuse(c, SECTION_ADMIN, "socket", socket, "the path of a socket, not of a folder",
                      p);
    }
}
