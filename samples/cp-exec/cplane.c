/* control-plane/exec: rents machines through a program of yours, one run per question:
 *   PROGRAM list GROUP                    prints "ID ready|starting|gone ADDRESS|- MB" per machine
 *   PROGRAM provision GROUP N REQUEST_ID  prints how many of the N it accepted
 *   PROGRAM remove GROUP ID               "not there" is success */
#include <fn/cplane.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cplane {
    const struct fn_host *host;
    const struct fn_exec_if *exec;
    const struct conf {
        const char *program;
    } *conf; /* lives as long as the instance */
};

static int fail(struct fn_error *reterr, int code, const char *what, const char *detail)
{
    if (reterr) {
        snprintf(reterr->msg, sizeof(reterr->msg), "%s: %.*s", what, (int)strcspn(detail, "\n"),
                 detail);
    }
    return code;
}

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct cplane *c = calloc(1, sizeof(*c));
    if (!c) {
        return fail(reterr, FN_E_EXHAUSTED, "create", "out of memory");
    }
    c->host = host;
    c->exec = host->get(host, "fn.exec", 1); /* there, because needs[] lists it */
    c->conf = conf;
    *ret_inst = c;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

/* Runs the program. The caller gives *ret back with free_result(), whatever happened. */
static int ask(const struct cplane *c, struct fn_op *op, const char *const *argv,
               struct fn_exec_result *ret, struct fn_error *reterr)
{
    const struct fn_exec_request rq = { .size = sizeof(rq), .argv = argv, .output_max = 1 << 20 };
    int r = c->exec->run(c->host, op, &rq, ret, reterr);

    return r == 0 && ret->exit_code != 0 ? fail(reterr, FN_E_UNAVAILABLE, argv[1], ret->err) : r;
}

static int add(const struct fn_machine_sink *out, const char *line, struct fn_error *reterr)
{
    char id[256], state[16], address[256];
    struct fn_machine m = { .size = sizeof(m), .id = id };
    unsigned long long mb;
    if (sscanf(line, "%255s %15s %255s %llu", id, state, address, &mb) != 4) {
        return fail(reterr, FN_E_DATA_LOSS, "list: expected \"ID STATE ADDRESS MB\"", line);
    }
    m.state = strcmp(state, "ready") == 0      ? FN_MACHINE_READY
              : strcmp(state, "starting") == 0 ? FN_MACHINE_STARTING
                                               : FN_MACHINE_GONE;
    m.address = strcmp(address, "-") == 0 ? NULL : address;
    m.capacity_mb = mb;
    return out->add(out->ud, &m); /* copied */
}

static int list(void *inst, struct fn_op *op, const char *group, const struct fn_machine_sink *out,
                struct fn_error *reterr)
{
    const struct cplane *c = inst;
    const char *const argv[] = { c->conf->program, "list", group, NULL };
    struct fn_exec_result got = { .size = sizeof(got) };
    char *save = NULL;
    int r = ask(c, op, argv, &got, reterr);
    char *line = r == 0 ? strtok_r(got.out, "\n", &save) : NULL;

    for (; r == 0 && line; line = strtok_r(NULL, "\n", &save)) {
        r = add(out, line, reterr);
    }
    c->exec->free_result(&got);
    return r;
}

static int provision(void *inst, struct fn_op *op, const char *group, uint32_t n,
                     uint64_t request_id, uint32_t *ret_accepted, struct fn_error *reterr)
{
    const struct cplane *c = inst;
    char count[16], id[24];
    const char *const argv[] = { c->conf->program, "provision", group, count, id, NULL };
    struct fn_exec_result got = { .size = sizeof(got) };
    unsigned accepted;
    int r;
    snprintf(count, sizeof(count), "%u", n);
    snprintf(id, sizeof(id), "%llu", (unsigned long long)request_id);
    r = ask(c, op, argv, &got, reterr);
    if (r == 0 && (sscanf(got.out, "%u", &accepted) != 1 || accepted > n)) {
        r = fail(reterr, FN_E_DATA_LOSS, "provision: expected a number up to N", got.out);
    } else if (r == 0) {
        *ret_accepted = accepted;
    }
    c->exec->free_result(&got);
    return r;
}

static int take_away(void *inst, struct fn_op *op, const char *group, const char *machine_id,
                     struct fn_error *reterr)
{
    const struct cplane *c = inst;
    const char *const argv[] = { c->conf->program, "remove", group, machine_id, NULL };
    struct fn_exec_result got = { .size = sizeof(got) };
    int r = ask(c, op, argv, &got, reterr);
    c->exec->free_result(&got);
    return r;
}

static const struct fn_cplane_ops ops = {
    .hdr = FN_HDR(struct fn_cplane_ops, FN_MAGIC_CPLANE),
    .list = list, .provision = provision, .remove = take_away,
};
static const struct fn_need needs[] = { { "fn.exec", 1, 0, 0 }, { NULL, 0, 0, 0 } };
static const struct fn_opt opts[] = {
    { .key = "program", .doc = "Program that lists, provisions and removes machines.", .min = 1,
      .max = 1024, .type = FN_OPT_STR, .offset = offsetof(struct conf, program) },
    { .key = NULL },
};
static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_CONTROL_PLANE, .name = "exec", .summary = "Machines of a program of yours.",
    .kind_major = FN_CPLANE_MAJOR, .kind_minor = FN_CPLANE_MINOR,
    .conf_size = sizeof(struct conf), .needs = needs, .opts = opts, .ops = &ops,
    .create = create, .destroy = destroy,
};
static const struct fn_factory *const factories[] = { &factory, NULL };
static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR, .abi_minor = FN_ABI_MINOR, .host_minor_min = FN_HOST_MINOR_MIN,
    .name = "cp-exec", .version = "1.0", .license = "Apache-2.0", .build_tag = FN_BUILD_TAG,
    .factories = factories,
};
FN_PLUGIN_DEFINE(cp_exec, manifest)
