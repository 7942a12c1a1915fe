/* The orders in which the tools are run: look first, make or start what a request lacks, and
 * delete what lies switched off. */
#include "machines.h"

#include "fail.h"
#include "vbox.h"

#include <stdio.h>
#include <string.h>

#define OUTPUT_MAX  (1024 * 1024)
#define PATH_BYTES  4200
#define POLL_NS     500000000 /* between two looks at a machine that shuts down */
#define SETTLE_NS   500000000 /* VirtualBox holds a machine that stopped for a moment */

/* What `list vms` and `list runningvms` said. */
struct lists {
    struct fn_exec_result vms;
    struct fn_exec_result running;
};

/* ---- tools ----------------------------------------------------------------------------------- */

/* Runs a tool to its end; 0 when it says that it went well. ret is the caller's to free then. */
static int run(struct vbox *v, struct fn_op *op, const char *const *argv, const char *cwd,
               struct fn_exec_result *ret, struct fn_error *reterr)
{
    const struct fn_exec_request rq = {
        .size = sizeof(rq), .argv = argv, .env = v->env, .cwd = cwd, .output_max = OUTPUT_MAX};
    struct fn_error e = FN_ERROR_INIT;
    char text[FN_ERROR_TEXT_MAX];
    const char *program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    int r;

    *ret = (struct fn_exec_result){ .size = sizeof(*ret) };
    r = v->exec->run(v->host, op, &rq, ret, &e);
    if (r < 0) {
        return fail_platform(reterr, r, "%s %s: %s", program, argv[1],
                             e.msg[0] ? e.msg : "did not run");
    }
    if (vbox_failure(argv, ret, text, sizeof(text))) {
        r = fail_platform(reterr, FN_E_UNAVAILABLE, "%s", text);
    } else if (strlen(ret->out) >= OUTPUT_MAX - 1) {
        r = fail_platform(reterr, FN_E_DATA_LOSS, "%s %s: got more than %d bytes", program, argv[1],
                          OUTPUT_MAX);
    }
    if (r < 0) {
        v->exec->free_result(ret);
    }
    return r;
}

/* The same when its output does not matter. */
static int tell(struct vbox *v, struct fn_op *op, const char *const *argv, const char *cwd,
                struct fn_error *reterr)
{
    struct fn_exec_result result;
    int r = run(v, op, argv, cwd, &result, reterr);

    if (r == 0) {
        v->exec->free_result(&result);
    }
    return r;
}

static int check_lines(const char *list, struct fn_error *reterr)
{
    struct vbox_vm vm;
    int r;

    do {
        r = vbox_next(&list, &vm, reterr);
    } while (r > 0);
    return r;
}

static int lists_get(struct vbox *v, struct fn_op *op, struct lists *ret, struct fn_error *reterr)
{
    const char *const vms[] = { v->conf->vboxmanage, "list", "vms", NULL };
    const char *const running[] = { v->conf->vboxmanage, "list", "runningvms", NULL };
    int r = run(v, op, vms, NULL, &ret->vms, reterr);

    if (r < 0) {
        return r;
    }
    r = check_lines(ret->vms.out, reterr);
    r = r < 0 ? r : run(v, op, running, NULL, &ret->running, reterr);
    if (r == 0) {
        r = check_lines(ret->running.out, reterr);
        if (r < 0) {
            v->exec->free_result(&ret->running);
        }
    }
    if (r < 0) {
        v->exec->free_result(&ret->vms);
    }
    return r;
}

static void lists_free(struct vbox *v, struct lists *l)
{
    v->exec->free_result(&l->vms);
    v->exec->free_result(&l->running);
}

/* 1 and the machine with that id. */
static int find(struct vbox *v, const char *list, const char *group, const char *id,
                struct vbox_vm *ret)
{
    char its[VBOX_NAME_MAX + 1];

    while (vbox_next(&list, ret, NULL) > 0) {
        if (vbox_id_of(v->conf->prefix, group, v->vagrant, ret->name, ret->name_len, its) &&
            strcmp(its, id) == 0) {
            return 1;
        }
    }
    return 0;
}

/* ---- list ------------------------------------------------------------------------------------ */

static int add(struct vbox *v, struct fn_op *op, const struct vbox_vm *vm, const char *id,
               const struct fn_machine_sink *out, struct fn_error *reterr)
{
    struct fn_machine m = { .size = sizeof(m),
                            .state = FN_MACHINE_STARTING,
                            .id = id,
                            .capacity_mb = (uint64_t)v->conf->capacity_mb,
                            .labels = v->labels };
    struct fn_exec_result result;
    char key[64];
    char address[32];
    const char *const argv[] = { v->conf->vboxmanage, "guestproperty", "get", vm->uuid, key, NULL };
    int r;

    snprintf(key, sizeof(key), "/VirtualBox/GuestInfo/Net/%lld/V4/IP", (long long)v->conf->adapter);
    r = run(v, op, argv, NULL, &result, reterr);
    if (r < 0) {
        return r;
    }
    r = vbox_address(result.out, v->conf->port, address, sizeof(address), reterr);
    v->exec->free_result(&result);
    if (r < 0) {
        return r;
    }
    if (r > 0) {
        m.state = FN_MACHINE_READY;
        m.address = address;
    }
    r = out->add(out->ud, &m);
    return r < 0 ? fail_platform(reterr, r, "the list of machines was not taken") : 0;
}

/* Machines that are off are not there: one whose start was cut short is started when its request
 * comes again, which it would not if the machine had arrived. The others: sweep(). */
int machines_list(struct vbox *v, struct fn_op *op, const char *group,
                  const struct fn_machine_sink *out, struct fn_error *reterr)
{
    const char *const argv[] = { v->conf->vboxmanage, "list", "runningvms", NULL };
    struct fn_exec_result running;
    struct vbox_vm vm;
    char id[VBOX_NAME_MAX + 1];
    const char *at;
    int r = vbox_check_group(group, reterr);

    r = r < 0 ? r : run(v, op, argv, NULL, &running, reterr);
    if (r < 0) {
        return r;
    }
    at = running.out;
    r = check_lines(at, reterr);
    while (r == 0 && vbox_next(&at, &vm, NULL) > 0) {
        if (vbox_id_of(v->conf->prefix, group, v->vagrant, vm.name, vm.name_len, id)) {
            r = add(v, op, &vm, id, out, reterr);
        }
    }
    v->exec->free_result(&running);
    return r;
}

/* ---- provision ------------------------------------------------------------------------------- */

static int unregister(struct vbox *v, struct fn_op *op, const char *vm, struct fn_error *reterr)
{
    const char *const argv[] = { v->conf->vboxmanage, "unregistervm", vm, "--delete", NULL };

    return tell(v, op, argv, NULL, reterr);
}

static int start(struct vbox *v, struct fn_op *op, const char *vm, struct fn_error *reterr)
{
    const char *const argv[] = { v->conf->vboxmanage, "startvm", vm, "--type", "headless", NULL };

    return tell(v, op, argv, NULL, reterr);
}

static int make_clone(struct vbox *v, struct fn_op *op, const char *name, struct fn_error *reterr)
{
    const char *argv[12] = { v->conf->vboxmanage, "clonevm", v->conf->template_, "--name", name,
                             "--register" };
    struct fn_error ignored = FN_ERROR_INIT;
    int r;

    if (v->conf->snapshot) {
        argv[6] = "--snapshot";
        argv[7] = v->conf->snapshot;
        argv[8] = "--options";
        argv[9] = "link";
    }
    r = tell(v, op, argv, NULL, reterr);
    r = r < 0 ? r : start(v, op, name, reterr);
    if (r == FN_E_UNAVAILABLE) {
        unregister(v, op, name, &ignored); /* it would lie there, switched off */
    }
    return r;
}

/* A folder of its own, whose name becomes the machine's. */
static int make_vagrant(struct vbox *v, struct fn_op *op, const char *name, struct fn_error *reterr)
{
    char folder[PATH_BYTES];
    char from[PATH_BYTES];
    const char *const mkdir_argv[] = { "mkdir", "-p", "--", folder, NULL };
    const char *const cp_argv[] = { "cp", "-R", "--", from, folder, NULL };
    const char *const up[] = { v->conf->vagrant, "up", "--provider", "virtualbox", NULL };
    int r;

    snprintf(folder, sizeof(folder), "%s/%s", v->conf->work, name);
    snprintf(from, sizeof(from), "%s/.", v->conf->template_);
    r = tell(v, op, mkdir_argv, NULL, reterr);
    r = r < 0 ? r : tell(v, op, cp_argv, NULL, reterr);
    return r < 0 ? r : tell(v, op, up, folder, reterr);
}

static int make(struct vbox *v, struct fn_op *op, const char *group, const char *name,
                const struct lists *l, struct fn_error *reterr)
{
    struct vbox_vm vm;
    int there = find(v, l->vms.out, group, name, &vm);

    if (there && vbox_has(l->running.out, vm.uuid)) {
        return 0;
    }
    if (v->vagrant) {
        return make_vagrant(v, op, name, reterr); /* `up` goes on where it was interrupted */
    }
    return there ? start(v, op, vm.uuid, reterr) : make_clone(v, op, name, reterr);
}

/* Deletes what lies switched off, of other requests than this one: runners that stopped, and tries
 * that nobody repeats. */
static void sweep(struct vbox *v, struct fn_op *op, const char *group, uint64_t request_id,
                  const struct lists *l)
{
    const char *at = l->vms.out;
    struct fn_error e = FN_ERROR_INIT;
    struct vbox_vm vm;
    char id[VBOX_NAME_MAX + 1];
    char ours[VBOX_NAME_MAX + 1];
    size_t len;

    vbox_name(v->conf->prefix, group, request_id, 0, ours, NULL);
    len = strlen(ours) - 1;
    while (vbox_next(&at, &vm, NULL) > 0) {
        if (vbox_id_of(v->conf->prefix, group, v->vagrant, vm.name, vm.name_len, id) &&
            strncmp(id, ours, len) != 0 && !vbox_has(l->running.out, vm.uuid) &&
            machines_remove(v, op, group, id, &e) < 0) {
            v->host->log->write(v->host, FN_LOG_WARN, e.msg, strlen(e.msg));
            return;
        }
    }
}

static void log_partial(struct vbox *v, uint32_t made, uint32_t n, const struct fn_error *e)
{
    char text[FN_ERROR_TEXT_MAX + 64];
    int len = snprintf(text, sizeof(text), "%u of %u machines were made: %s", made, n, e->msg);

    v->host->log->write(v->host, FN_LOG_WARN, text, (size_t)len);
}

int machines_provision(struct vbox *v, struct fn_op *op, const char *group, uint32_t n,
                       uint64_t request_id, uint32_t *ret_accepted, struct fn_error *reterr)
{
    const struct fn_clock_if *clock = v->host->clock;
    int64_t longest_ns = 0;
    struct fn_error e = FN_ERROR_INIT;
    struct lists l;
    char name[VBOX_NAME_MAX + 1];
    uint32_t made;
    int r = vbox_check_group(group, reterr);

    r = r < 0 ? r : lists_get(v, op, &l, reterr);
    if (r < 0) {
        return r;
    }
    for (made = 0; made < n; made++) {
        int64_t begin_ns = clock->now_ns(v->host);
        int64_t left_ns = v->op->deadline_ns(op) - begin_ns;

        /* Some now are better than all at a deadline that nobody sees the outcome of. */
        if (made > 0 && (left_ns < longest_ns || v->op->cancelled(op))) {
            break;
        }
        vbox_name(v->conf->prefix, group, request_id, made, name, NULL);
        r = make(v, op, group, name, &l, &e);
        if (r < 0) {
            break;
        }
        begin_ns = clock->now_ns(v->host) - begin_ns;
        longest_ns = begin_ns > longest_ns ? begin_ns : longest_ns;
    }
    if (r == 0 && made == n && n > 0) {
        sweep(v, op, group, request_id, &l);
    }
    lists_free(v, &l);
    if (r < 0 && made == 0) {
        return fail_platform(reterr, r, "%s", e.msg);
    }
    if (r < 0) {
        log_partial(v, made, n, &e);
    }
    *ret_accepted = made;
    return 0;
}

/* ---- remove ---------------------------------------------------------------------------------- */

/* 1 when it still runs. */
static int runs(struct vbox *v, struct fn_op *op, const char *uuid, struct fn_error *reterr)
{
    struct lists l;
    int r = lists_get(v, op, &l, reterr);

    if (r == 0) {
        r = vbox_has(l.running.out, uuid);
        lists_free(v, &l);
    }
    return r;
}

/* Presses the power button and waits; 0 when the machine is off, 1 when it takes no notice. */
static int shut_down(struct vbox *v, struct fn_op *op, const char *uuid, struct fn_error *reterr)
{
    const char *const button[] = { v->conf->vboxmanage, "controlvm", uuid, "acpipowerbutton",
                                   NULL };
    const struct fn_clock_if *clock = v->host->clock;
    int64_t end_ns = clock->now_ns(v->host) + v->conf->stop_timeout_ns;
    int r = v->conf->stop_timeout_ns > 0 ? tell(v, op, button, NULL, reterr) : 1;

    while (r == 0 && (r = runs(v, op, uuid, reterr)) > 0) {
        if (clock->now_ns(v->host) >= end_ns) {
            return 1;
        }
        r = v->op->sleep_until(op, clock->now_ns(v->host) + POLL_NS);
        if (r < 0) {
            return fail_platform(reterr, r, "the machine did not shut down in time");
        }
    }
    return r;
}

static int destroy_vm(struct vbox *v, struct fn_op *op, const char *uuid, int running,
                      struct fn_error *reterr)
{
    const char *const poweroff[] = { v->conf->vboxmanage, "controlvm", uuid, "poweroff", NULL };
    int r = running ? shut_down(v, op, uuid, reterr) : 0;

    r = r > 0 ? tell(v, op, poweroff, NULL, reterr) : r;
    if (r == 0 && running) {
        r = v->op->sleep_until(op, v->host->clock->now_ns(v->host) + SETTLE_NS);
        if (r < 0) {
            fail_platform(reterr, r, "the machine is off, but not deleted yet");
        }
    }
    return r < 0 ? r : unregister(v, op, uuid, reterr);
}

/* Vagrant's own way first, for what a Vagrantfile does on destroy; what it leaves is deleted. */
static int destroy_vagrant(struct vbox *v, struct fn_op *op, const char *id,
                           struct fn_error *reterr)
{
    const char *const argv[] = { v->conf->vagrant, "destroy", "-f", NULL };
    struct fn_error e = FN_ERROR_INIT;
    char folder[PATH_BYTES];
    int r;

    snprintf(folder, sizeof(folder), "%s/%s", v->conf->work, id);
    r = tell(v, op, argv, folder, &e);
    if (r == FN_E_DEADLINE || r == FN_E_CANCELLED) {
        return fail_platform(reterr, r, "%s", e.msg);
    }
    return 0;
}

int machines_remove(struct vbox *v, struct fn_op *op, const char *group, const char *id,
                    struct fn_error *reterr)
{
    char folder[PATH_BYTES];
    const char *const rm[] = { "rm", "-rf", "--", folder, NULL };
    char name[VBOX_NAME_MAX + 1];
    struct lists l;
    struct vbox_vm vm;
    int there;
    int r = vbox_check_group(group, reterr);

    if (r == 0 && !vbox_id_of(v->conf->prefix, group, 0, id, strlen(id), name)) {
        return 0; /* none of ours: not there */
    }
    r = r < 0 ? r : lists_get(v, op, &l, reterr);
    if (r < 0) {
        return r;
    }
    there = find(v, l.vms.out, group, id, &vm);
    if (there && v->vagrant) {
        lists_free(v, &l);
        r = destroy_vagrant(v, op, id, reterr);
        r = r < 0 ? r : lists_get(v, op, &l, reterr);
        if (r < 0) {
            return r;
        }
        there = find(v, l.vms.out, group, id, &vm);
    }
    r = there ? destroy_vm(v, op, vm.uuid, vbox_has(l.running.out, vm.uuid), reterr) : 0;
    lists_free(v, &l);
    snprintf(folder, sizeof(folder), "%s/%s", v->conf->work ? v->conf->work : "", id);
    return r == 0 && v->vagrant ? tell(v, op, rm, NULL, reterr) : r;
}
