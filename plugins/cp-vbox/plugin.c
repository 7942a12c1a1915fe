/* control-plane/vbox: runners in VirtualBox machines, cloned by VBoxManage or made by Vagrant.
 * Go Fn (2018): the Vagrant control plane, without its defects. */
#include "fail.h"
#include "labelled.h"
#include "machines.h"
#include "shipped.h"
#include "vbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int needs_path(const char *key, const char *value, struct fn_error *reterr)
{
    return value && value[0] == '/'
               ? 0
               : fail_platform(reterr, FN_E_INVALID,
                               "%s, got \"%.64s\"; expected an absolute path with mode: vagrant",
                               key, value ? value : "");
}

static int check(const struct vbox_conf *c, struct fn_error *reterr)
{
    char labels[FN_LABELS_TEXT_MAX + 1];
    const char *fault;
    int r = vbox_check_group(c->prefix, NULL);

    if (r < 0) {
        return fail_platform(reterr, r, "prefix, got \"%.64s\"; expected letters, digits, - _ .",
                             c->prefix);
    }
    fault = labels_of_option(c->labels, labels);
    if (fault) {
        return fail_platform(reterr, FN_E_INVALID, "labels, got \"%.80s\"; expected %s", c->labels,
                             fault);
    }
    if (c->template_[0] == '-') {
        return fail_platform(reterr, FN_E_INVALID,
                             "template, got \"%.64s\"; expected a machine or a folder",
                             c->template_);
    }
    if (strcmp(c->mode, "vagrant") == 0) {
        r = needs_path("template", c->template_, reterr);
        r = r < 0 ? r : needs_path("work", c->work, reterr);
        r = r < 0 ? r : needs_path("home", c->home, reterr);
    }
    return r;
}

static void destroy(void *inst)
{
    struct vbox *v = inst;

    if (v) {
        claims_finish(&v->claims);
        free(v);
    }
}

/* Without a home there are no machines that two managers could see. */
static int claims_open(struct vbox *v)
{
    const char *home = v->conf->home ? v->conf->home : getenv("HOME");
    char path[1024 + VBOX_PREFIX_MAX + 16];

    if (!home || snprintf(path, sizeof(path), "%s/.%smanagers", home, v->conf->prefix) >=
                     (int)sizeof(path)) {
        return 0;
    }
    return claims_init(&v->claims, path);
}

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    const struct vbox_conf *c = conf;
    struct vbox *v;
    int r = check(c, reterr);

    if (r < 0) {
        return r;
    }
    v = calloc(1, sizeof(*v));
    if (!v) {
        return FN_E_EXHAUSTED;
    }
    v->host = host;
    v->exec = host->get(host, "fn.exec", 1);
    v->op = host->get(host, "fn.op", 1);
    v->conf = c;
    v->vagrant = strcmp(c->mode, "vagrant") == 0;
    (void)labels_of_option(c->labels, v->labels);
    v->env[0] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    v->env[1] = "LC_ALL=C";
    if (c->home) {
        snprintf(v->home, sizeof(v->home), "HOME=%s", c->home);
        v->env[2] = v->home;
    }
    r = claims_open(v);
    if (r < 0) {
        destroy(v);
        return r;
    }
    *ret_inst = v;
    return 0;
}

static int claim(void *inst, struct fn_op *op, const char *group, struct fn_error *reterr)
{
    struct vbox *v = inst;

    (void)op;
    return claims_answer(&v->claims, group, reterr);
}

static int list(void *inst, struct fn_op *op, const char *group, const struct fn_machine_sink *out,
                struct fn_error *reterr)
{
    return machines_list(inst, op, group, out, reterr);
}

static int provision(void *inst, struct fn_op *op, const char *group, uint32_t n,
                     uint64_t request_id, uint32_t *ret_accepted, struct fn_error *reterr)
{
    struct vbox *v = inst;
    int r = claims_take(&v->claims, group, reterr);

    return r < 0 ? r : machines_provision(v, op, group, n, request_id, ret_accepted, reterr);
}

static int remove_machine(void *inst, struct fn_op *op, const char *group, const char *machine_id,
                          struct fn_error *reterr)
{
    struct vbox *v = inst;
    int r = claims_take(&v->claims, group, reterr);

    return r < 0 ? r : machines_remove(v, op, group, machine_id, reterr);
}

static const struct fn_cplane_ops ops = {
    .hdr = FN_HDR(struct fn_cplane_ops, FN_MAGIC_CPLANE),
    .list = list,
    .provision = provision,
    .remove = remove_machine,
    .claim = claim,
};

static const struct fn_need needs[] = {
    {.iface = "fn.exec", .major = 1, .minor_min = 0},
    {.iface = "fn.op", .major = 1, .minor_min = 0},
    {.iface = NULL},
};

#define TEXT(key_, field, max_, flags_, dflt_, doc_)                                               \
    {                                                                                              \
        .key = key_, .doc = doc_, .dflt = dflt_, .min = 1, .max = max_, .type = FN_OPT_STR,        \
        .offset = offsetof(struct vbox_conf, field), .flags = flags_                               \
    }
#define NUMBER(key_, field, min_, max_, dflt_, doc_)                                               \
    {                                                                                              \
        .key = key_, .doc = doc_, .dflt = dflt_, .min = min_, .max = max_, .type = FN_OPT_INT,     \
        .offset = offsetof(struct vbox_conf, field)                                                \
    }

static const struct fn_opt opts[] = {
    {.key = "mode",
     .doc = "How machines are made: clone = clones of a machine by VBoxManage alone; vagrant = "
            "`vagrant up` in a copy of a directory.",
     .dflt = "clone",
     .choices = "clone|vagrant",
     .type = FN_OPT_CHOICE,
     .offset = offsetof(struct vbox_conf, mode)},
    TEXT("template", template_, 1024, 0, NULL,
         "Name of the machine that is cloned, or for vagrant the directory with the Vagrantfile."),
    TEXT("snapshot", snapshot, 255, FN_OPT_MAY_BE_ABSENT, NULL,
         "Snapshot of the template from which linked clones are made. When absent: full clones."),
    TEXT("work", work, 1024, FN_OPT_MAY_BE_ABSENT, NULL,
         "Directory in which each machine gets a directory of its own. Mode vagrant only."),
    TEXT("home", home, 1024, FN_OPT_MAY_BE_ABSENT, NULL,
         "Value of HOME for VBoxManage and vagrant, which decides whose machines they see. When "
         "absent: that of the manager's user."),
    TEXT("prefix", prefix, VBOX_PREFIX_MAX, 0, "fnd-",
         "Prefix of the machines' names. Each manager needs its own; machines with other names are "
         "never touched."),
    NUMBER("adapter", adapter, 0, 35, "1",
           "Number of the guest's network adapter, from 0, whose IPv4 address is the runner's."),
    NUMBER("port", port, 1, 65535, "9190", "gRPC port of the runners."),
    NUMBER("capacity", capacity_mb, 0, 16 << 20, "0",
           "Memory of a runner for functions, in MB; 0 = npm.runner_mb."),
    TEXT("labels", labels, FN_LABELS_TEXT_MAX, FN_OPT_MAY_BE_ABSENT, NULL,
         "Labels of each runner, such as \"zone=a class=gpu\"."),
    {.key = "stop_timeout",
     .doc = "Time for a machine to shut down before it is powered off; 0s = it is powered off at "
            "once. Keep it below npm.cplane_timeout.",
     .dflt = "0s",
     .min = 0,
     .max = 3600000000000,
     .type = FN_OPT_DURATION,
     .offset = offsetof(struct vbox_conf, stop_timeout_ns)},
    TEXT("vboxmanage", vboxmanage, 1024, 0, "VBoxManage", "Path or name of the VBoxManage "
                                                          "program."),
    TEXT("vagrant", vagrant, 1024, 0, "vagrant", "Path or name of the vagrant program."),
    {.key = NULL},
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_CONTROL_PLANE,
    .name = "vbox",
    .summary = "Runners in VirtualBox machines, by VBoxManage or Vagrant.",
    .kind_major = FN_CPLANE_MAJOR,
    .kind_minor = FN_CPLANE_MINOR,
    .conf_size = sizeof(struct vbox_conf),
    .needs = needs,
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(cp_vbox, "cp-vbox", &factory)
