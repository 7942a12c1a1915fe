/* A node needs what its sides need (node_side.rights), what their drivers or control plane need
 * (needs.c), and what its options ask for. */
#include <node/rights.h>

#include <admin/admin.h>
#include <base/addr.h>
#include <base/arena.h>
#include <base/buf.h>
#include <base/log.h>
#include <http/server.h>
#include <linux/capability.h>
#include <loop/awake.h>
#include <loop/log_dest.h>
#include <node/side.h>
#include <rpc/rpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PORTS_OF_ROOT 1024
#define PATHS_MAX     80u /* process.writable has at most 64 */

static bool is_strict(const struct harden_plan *p)
{
    return strcmp(p->mode, "strict") == 0;
}

static void add_port(const char *listen, struct harden_plan *p)
{
    struct addr a;

    if (addr_parse(listen, &a) == 0 && !a.path && addr_port(&a) > 0 &&
        addr_port(&a) < PORTS_OF_ROOT) {
        p->capabilities |= HARDEN_CAP(NET_BIND_SERVICE);
    }
}

/* ---- where a strict node writes -------------------------------------------------------------- */

struct writable {
    struct arena arena; /* of paths that were made here */
    const char *list[PATHS_MAX]; /* NULL ends */
    uint32_t n;
};

static void writable_add_path(struct writable *w, const char *path)
{
    if (path && *path && w->n < PATHS_MAX - 1) {
        w->list[w->n++] = path;
    }
}

static void writable_add_dir_of(struct writable *w, const char *file)
{
    const char *slash = file ? strrchr(file, '/') : NULL;

    if (slash && slash > file) {
        writable_add_path(w, arena_strndup(&w->arena, file, (size_t)(slash - file)));
    } else if (file) {
        writable_add_path(w, slash ? "/" : ".");
    }
}

static void add_unix(struct writable *w, const char *listen)
{
    struct addr a;

    if (addr_parse(listen, &a) == 0 && a.path) {
        writable_add_dir_of(w, a.path);
    }
}

/* A folder that the node would make itself later must be there for a rule to name it. */
static void make_dir(const char *dir)
{
    (void)mkdir(dir, 0700);
}

static void add_admin(const struct config *c, struct writable *w)
{
    char path[ADMIN_PATH_MAX + 1];
    struct fn_error e = ERR_INIT;

    /* Another port is another name in the same folder. */
    if (admin_socket_path(c->admin, c->http->listen, 1, path, &e) == 0) {
        writable_add_dir_of(w, path);
        make_dir(w->list[w->n - 1]);
    }
}

static void find_writable(const struct config *c, struct writable *w)
{
    const char *tmp = getenv("TMPDIR");
    bool to_file = strncmp(c->log->dest, "file://", 7) == 0;

    writable_add_path(w, "/dev/null");
    writable_add_path(w, AWAKE_DEVICE);
    writable_add_path(w, tmp ? tmp : "/tmp");
    writable_add_dir_of(w, to_file ? c->log->dest + 7 : NULL);
    add_unix(w, c->http->listen);
    add_unix(w, c->grpc->listen);
    add_admin(c, w);
    for (int i = 0; i < SIDES_N; i++) {
        const char *file = config_has(c, (enum config_side)i) && node_sides[i]->keeps
                               ? node_sides[i]->keeps(c)
                               : NULL;

        if (file) {
            writable_add_dir_of(w, file);
            make_dir(w->list[w->n - 1]);
        }
    }
    for (uint64_t i = 0; i < c->process->writable.n; i++) {
        writable_add_path(w, c->process->writable.items[i]);
    }
}

/* ---- the plan -------------------------------------------------------------------------------- */

struct harden_plan rights_plan(const struct config *c)
{
    struct harden_plan plan = { .mode = c->process->hardening,
                                .user = c->process->user,
                                .core_files = c->process->core_files != 0 };
    struct harden_plan *p = &plan;

    if (!is_strict(p)) {
        p->capabilities |= HARDEN_CAP(DAC_OVERRIDE); /* files of other users, as root has them */
    }
    for (int i = 0; i < SIDES_N; i++) {
        if (config_has(c, (enum config_side)i) && node_sides[i]->rights) {
            node_sides[i]->rights(c, p);
        }
    }
    if (p->user) {
        p->capabilities = 0;
    }
    add_port(c->http->listen, p);
    if (c->type->has_port) {
        add_port(c->grpc->listen, p);
    }
    return plan;
}

int rights_give_up(const struct config *c, struct harden_report *ret, struct fn_error *reterr)
{
    struct harden_plan plan = rights_plan(c);
    struct writable w = { .n = 0 };
    int err = harden_user(&plan, ret, reterr);

    if (err < 0) {
        return err;
    }
    arena_init(&w.arena, 0);
    if (is_strict(&plan) && plan.may == 0) {
        find_writable(c, &w); /* as this user, who makes some of it */
        plan.writable = w.list;
    }
    err = harden_apply(&plan, ret, reterr);
    arena_finish(&w.arena);
    return err;
}

/* ---- what operators see ---------------------------------------------------------------------- */

static json_t *capabilities_json(uint64_t caps)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < 64; i++) {
        if (caps >> i & 1 && harden_capability_name(i)) {
            json_array_append_new(list, json_string(harden_capability_name(i)));
        }
    }
    return list;
}

json_t *rights_json(const struct harden_report *report)
{
    json_t *applied = json_array(), *missing = json_object();

    for (int s = 0; s < HARDEN_STEPS_N; s++) {
        const char *name = harden_step_name((enum harden_step)s);

        if (report->steps[s].applied) {
            json_array_append_new(applied, json_string(name));
        } else {
            json_object_set_new(missing, name, json_string(report->steps[s].why));
        }
    }
    return json_pack("{s:s, s:I, s:o, s:o, s:o}", "mode", report->mode, "uid",
                     (json_int_t)report->uid, "capabilities",
                     capabilities_json(report->capabilities), "applied", applied, "missing",
                     missing);
}

static void rights_join(const json_t *list, struct buf *out)
{
    const json_t *word;
    size_t i;

    json_array_foreach (list, i, word) {
        buf_printf(out, "%s%s", i ? " " : "", json_string_value(word));
    }
}

void rights_tell(const struct harden_report *report)
{
    struct buf caps = BUF_INIT(1024), applied = BUF_INIT(256), missing = BUF_INIT(2048);
    json_t *all = rights_json(report);
    const char *step;
    json_t *why;

    rights_join(json_object_get(all, "capabilities"), &caps);
    rights_join(json_object_get(all, "applied"), &applied);
    json_object_foreach (json_object_get(all, "missing"), step, why) {
        buf_printf(&missing, "%s%s (%s)", missing.len ? ", " : "", step, json_string_value(why));
    }
    json_decref(all);
    log_info("rights dropped", "hardening", report->mode, "uid", log_num(report->uid),
             "capabilities", caps.len ? buf_text(&caps) : "none", "applied",
             applied.len ? buf_text(&applied) : "none", "missing",
             missing.len ? buf_text(&missing) : NULL);
    buf_finish(&caps);
    buf_finish(&applied);
    buf_finish(&missing);
}
