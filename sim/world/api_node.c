/* An API node: core/api over core/store with SQLite, on a host of its own.
 *
 * Each process has a file of its own: the next one begins with what lay on the disk when this one
 * was killed, and what that one still writes nobody sees. */
#include "api_node.h"

#include <api/api.h>
#include <base/err.h>
#include <dirent.h>
#include <fcntl.h>
#include <store/store.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES   512

struct api_node {
    struct node n; /* first */
    struct store *store;
    struct api *api;
    struct id_maker ids;
    struct env_timer kill, drain;
    char path[PATH_BYTES];
    bool stopping, stopped;
};

static const struct api_options options;

struct node *api_node_base(struct api_node *a)
{
    return &a->n;
}

struct api *api_node_api(struct api_node *a)
{
    return a->api;
}

void api_node_gone(struct api_node *a, struct api_call *call)
{
    (void)a;
    api_call_gone(call);
}

/* ---- the disk ------------------------------------------------------------------------------ */

static void must_do(bool what, const char *text)
{
    if (!what) {
        perror(text);
        abort();
    }
}

/* In memory, where the machine has that. */
static void folder_of(pid_t process, char ret[FOLDER_BYTES])
{
    bool fast = access("/dev/shm", W_OK) == 0;

    snprintf(ret, FOLDER_BYTES, "%s/fnd-sim-%lld", fast ? "/dev/shm" : "/tmp", (long long)process);
}

static void remove_folder(const char *folder)
{
    DIR *d = opendir(folder);
    char path[PATH_BYTES];
    struct dirent *e;

    while (d && (e = readdir(d))) {
        snprintf(path, sizeof(path), "%s/%.255s", folder, e->d_name);
        unlink(path);
    }
    if (d) {
        closedir(d);
        rmdir(folder);
    }
}

static void make_folder(struct world *w)
{
    folder_of(getpid(), w->a.folder);
    remove_folder(w->a.folder); /* of a process that had this number before */
    must_do(mkdir(w->a.folder, 0700) == 0, "a folder for the store");
}

static void copy_file(const char *from, const char *to)
{
    char bytes[65536];
    ssize_t n;
    int in = open(from, O_RDONLY | O_CLOEXEC), out;

    if (in < 0) {
        return; /* there is none */
    }
    out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must_do(out >= 0, "a file of the store");
    while ((n = read(in, bytes, sizeof(bytes))) > 0) {
        must_do(write(out, bytes, (size_t)n) == n, "a file of the store");
    }
    close(in);
    close(out);
}

/* As a machine finds it that starts again: the file, and the log that may not be in it yet. */
static void keep_disk(const struct api_node *a)
{
    char from[PATH_BYTES + 8], to[PATH_BYTES + 8];

    snprintf(from, sizeof(from), "%s", a->path);
    snprintf(to, sizeof(to), "%s/disk", a->n.w->a.folder);
    copy_file(from, to);
    snprintf(from, sizeof(from), "%s-wal", a->path);
    snprintf(to, sizeof(to), "%s/disk-wal", a->n.w->a.folder);
    unlink(to);
    copy_file(from, to);
}

static void take_disk(const struct api_node *a)
{
    char from[PATH_BYTES + 8], to[PATH_BYTES + 8];

    snprintf(from, sizeof(from), "%s/disk", a->n.w->a.folder);
    copy_file(from, a->path);
    snprintf(from, sizeof(from), "%s/disk-wal", a->n.w->a.folder);
    snprintf(to, sizeof(to), "%s-wal", a->path);
    copy_file(from, to);
}

void api_node_forget(struct world *w)
{
    if (w->a.folder[0]) {
        remove_folder(w->a.folder);
    }
}

void api_node_sweep(pid_t process)
{
    char folder[FOLDER_BYTES];

    folder_of(process, folder);
    remove_folder(folder);
}

/* ---- its end ------------------------------------------------------------------------------- */

static void on_idle(void *ud)
{
    ((struct api_node *)ud)->stopped = true;
}

static void on_heard(void *ud)
{
    struct api_node *a = ud;

    store_drain(a->store, on_idle, a);
}

static void api_node_stop(struct api_node *a)
{
    if (!a->stopping) {
        a->stopping = true;
        api_end_watching(a->api);
        api_drain(a->api, on_heard, a);
    }
}

static void on_drain(struct env_timer *t)
{
    struct api_node *a = container_of(t, struct api_node, drain);

    if (a->n.w->a.node == a) {
        a->n.w->a.node = NULL; /* its port is shut */
    }
    api_node_stop(a);
}

static void on_kill(struct env_timer *t)
{
    struct api_node *a = container_of(t, struct api_node, kill);

    if (!a->n.dead) {
        tell(&a->n, "is killed");
        a->n.dead = true;
        if (a->n.w->a.node == a) {
            a->n.w->a.node = NULL;
        }
        keep_disk(a);
        api_net_lose(a);
        api_node_stop(a);
    }
}

void api_node_kill(struct api_node *a)
{
    a->n.frozen_until_ns = a->n.w->now_ns;
    world_at(&a->n, &a->kill, a->n.w->now_ns);
}

void api_node_drain(struct api_node *a)
{
    world_at(&a->n, &a->drain, a->n.w->now_ns);
}

static bool is_over(const struct node *n)
{
    return ((const struct api_node *)(const void *)n)->stopped;
}

static void destroy(struct node *n)
{
    struct api_node *a = container_of(n, struct api_node, n);
    struct world *w = n->w;

    api_net_lose(a);
    api_destroy(a->api);
    store_close(a->store);
    if (!books_broken(w->books) && sim_due_ns(n->sim) != INT64_MAX) {
        books_break(w->books, BOOKS_NOTHING_LEFT, 0, "%s left a timer", n->name);
    }
    node_finish(n);
    free(a);
}

static void on_change(void *ud, const char *id)
{
    api_changed(((struct api_node *)ud)->api, id);
}

void api_node_create(struct world *w)
{
    struct api_node *a = sim_alloc(sizeof(*a));
    unsigned char ip[4] = { 10, 0, 4, 1 };
    char url[PATH_BYTES + 16];
    struct store_options so = { .url = url };
    struct api_deps deps = { .options = &options };
    struct fn_error e = ERR_INIT;

    node_init(&a->n, w, "api", 0);
    a->n.over = is_over;
    a->n.destroy = destroy;
    a->kill.cb = on_kill;
    a->drain.cb = on_drain;
    id_maker_init(&a->ids, ip, (uint16_t)(8080 + a->n.life));
    if (!w->a.folder[0]) {
        make_folder(w);
    }
    snprintf(a->path, sizeof(a->path), "%s/store%u", w->a.folder, a->n.life);
    take_disk(a);
    snprintf(url, sizeof(url), "sqlite3://%s", a->path);
    must_be(store_open(a->n.env, &so, &a->store, &e), &e);
    store_on_change(a->store, on_change, a);
    deps.env = a->n.env;
    deps.store = a->store;
    deps.ids = &a->ids;
    must_be(api_create(&deps, &a->api, &e), &e);
    store_listen(a->store);
    w->a.node = a;
}
