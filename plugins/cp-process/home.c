/* Walks down to the folder, asking at each step who may change what is there. Once all of it is
 * ours nobody else can change it, so that the answer holds for the verb that follows. */
#include "home.h"

#include "fail.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define RUN_DIR      "/run/fnd"
#define DIR_MODE     0700
#define PATH_BYTES   400 /* more than a name may have: one that is cut is refused */
#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

/* ABOVE: root's or ours, where others rename nothing of ours. OURS: nobody else makes anything. */
enum place { ABOVE, OURS };

static bool is_good(const struct stat *st, enum place place)
{
    bool owned = st->st_uid == geteuid() || (place == ABOVE && st->st_uid == 0);
    bool shared = (st->st_mode & OTHERS_WRITE) && !(place == ABOVE && (st->st_mode & S_ISVTX));

    return S_ISDIR(st->st_mode) && owned && !shared;
}

void home_default(char *ret, size_t size)
{
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    struct stat st;

    if (geteuid() == 0 || (lstat(RUN_DIR, &st) == 0 && is_good(&st, OURS))) {
        snprintf(ret, size, "%s/runners", RUN_DIR);
    } else if (xdg && xdg[0] == '/' && strlen(xdg) + sizeof("/fnd/runners") <= size) {
        snprintf(ret, size, "%s/fnd/runners", xdg);
    } else {
        snprintf(ret, size, "/tmp/fnd-%u/runners", (unsigned)geteuid());
    }
}

/* A link leads where its owner wants: only root and we may say that, and not for what is ours. */
static int check(const char *path, enum place place, struct fn_error *reterr)
{
    struct stat st;
    int r = lstat(path, &st);

    if (r == 0 && S_ISLNK(st.st_mode) && place == ABOVE &&
        (st.st_uid == 0 || st.st_uid == geteuid())) {
        r = stat(path, &st);
    }
    if (r < 0) {
        return fail_platform(reterr, FN_E_UNAVAILABLE, "%.120s: %s", path, strerror(errno));
    }
    if (is_good(&st, place)) {
        return 0;
    }
    return fail_platform(reterr, FN_E_PERMISSION,
                         "%.100s, got a %s of user %u with mode %04o; expected a folder of user "
                         "%u%s that nobody else can write to",
                         path, S_ISDIR(st.st_mode) ? "folder" : S_ISLNK(st.st_mode) ? "link"
                                                                                    : "file",
                         (unsigned)st.st_uid, (unsigned)(st.st_mode & 07777), (unsigned)geteuid(),
                         place == ABOVE ? " or root" : "");
}

static bool is_there(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 || errno != ENOENT;
}

/* Its folder was entered before: what is made here is where it seems to be. */
static int step(const char *path, enum place place, bool *made, struct fn_error *reterr)
{
    *made = !is_there(path) && mkdir(path, DIR_MODE) == 0;
    if (!*made && !is_there(path)) {
        return fail_platform(reterr, FN_E_UNAVAILABLE, "%.120s cannot be made", path);
    }
    return check(path, place, reterr);
}

static int walk(char *path, bool *made, struct fn_error *reterr)
{
    int r = 0;

    for (char *slash = strchr(path + 1, '/'); slash && r == 0; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        r = step(path, ABOVE, made, reterr);
        *slash = '/';
    }
    return r < 0 ? r : step(path, OURS, made, reterr);
}

int home_enter(const char *state, const char *group, atomic_bool *made, struct fn_error *reterr)
{
    char path[PATH_BYTES];
    size_t len = strlen(state);
    bool made_now = false;
    int r;

    while (len > 1 && state[len - 1] == '/') {
        len--; /* behind a slash a link would be followed */
    }
    snprintf(path, sizeof(path), "%.*s", (int)len, state);
    r = walk(path, &made_now, reterr);
    if (made_now) {
        atomic_store(made, true);
    }
    if (r < 0) {
        return r;
    }
    snprintf(path, sizeof(path), "%.*s/%s", (int)len, state, group);
    return is_there(path) ? check(path, OURS, reterr) : 0;
}
