/* control-plane/process: runners as local processes of fnd. The embedded default for trials, demos
 * and tests: what a cloud does in minutes it does in a second, with the same protocol. Runners live
 * on when the manager dies, and are found again. */
#include "claims.h"
#include "conf.h"
#include "home.h"
#include "lines.h"
#include "script.h"
#include "shipped.h"

#include <fn/cplane.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ID_MAX 64
#define RUNNERS_MAX 64 /* of one provision call */
#define WORD_MAX (ID_MAX + CONF_LABELS_BYTES)
#define OUTPUT_MAX (256 * 1024)
#define PATH_BYTES 128
#define CLAIMS_NAME "managers" /* beside the groups' directories: a file, so none of these */
#define GROUP_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

struct cp {
    const struct fn_host *host;
    const struct fn_exec_if *exec;
    const struct conf *conf;
    char state[CONF_STATE_MAX + 1]; /* conf's, or the default */
    atomic_bool made; /* state, by us */
    struct claims claims; /* in state */
    char (*labels)[CONF_LABELS_BYTES]; /* conf->labels.n sets */
};

static void destroy(void *inst)
{
    struct cp *cp = inst;

    if (cp) {
        claims_finish(&cp->claims);
        if (atomic_load(&cp->made)) {
            rmdir(cp->state); /* if nobody used it */
        }
        free(cp->labels);
        free(cp);
    }
}

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    const struct conf *c = conf;
    char path[PATH_BYTES];
    struct cp *cp;
    int r;

    r = conf_check(c, reterr);
    if (r < 0) {
        return r;
    }
    cp = calloc(1, sizeof(*cp));
    if (!cp) {
        return FN_E_EXHAUSTED;
    }
    cp->host = host;
    cp->exec = host->get(host, "fn.exec", 1);
    cp->conf = c;
    if (c->state) {
        snprintf(cp->state, sizeof(cp->state), "%s", c->state);
    } else {
        home_default(cp->state, sizeof(cp->state));
    }
    snprintf(path, sizeof(path), "%s/" CLAIMS_NAME, cp->state);
    r = claims_init(&cp->claims, path);
    r = r < 0 ? r : conf_labels(c, &cp->labels, reterr);
    if (r < 0) {
        destroy(cp);
        return r;
    }
    *ret_inst = cp;
    return 0;
}

/* What each verb begins with. The group becomes a folder, in which nobody else may have a say. */
static int enter(struct cp *cp, const char *group, struct fn_error *reterr)
{
    if (group[0] && group[strspn(group, GROUP_BYTES)] == '\0') {
        return home_enter(cp->state, group, &cp->made, reterr);
    }
    if (reterr) {
        reterr->code = FN_E_INVALID;
        snprintf(reterr->msg, sizeof(reterr->msg),
                 "group, got \"%.64s\"; expected letters, digits, - and _", group);
    }
    return FN_E_INVALID;
}

/* The script with its words; ret->out is the caller's to free when 0 was returned. */
static int run(struct cp *cp, struct fn_op *op, const char *const *words, uint32_t n,
               struct fn_exec_result *ret, struct fn_error *reterr)
{
    static const char *const env[] = { "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:"
                                       "/sbin:/bin",
                                       "LC_ALL=C", NULL };
    const char *argv[8 + 2 + RUNNERS_MAX + 4] = { "/bin/sh", "-c", SCRIPT, "sh" };
    const struct fn_exec_request rq = {
        .size = sizeof(rq), .argv = argv, .env = env, .output_max = OUTPUT_MAX};
    int r;

    memcpy(&argv[4], words, n * sizeof(*words));
    argv[4 + n] = NULL;
    *ret = (struct fn_exec_result){ .size = sizeof(*ret) };
    r = cp->exec->run(cp->host, op, &rq, ret, reterr);
    if (r == 0 && ret->exit_code != 0) {
        r = FN_E_UNKNOWN;
        if (reterr) {
            reterr->code = r;
            snprintf(reterr->msg, sizeof(reterr->msg), "the shell ended with %d: %.120s",
                     ret->exit_code, ret->err ? ret->err : "");
        }
        cp->exec->free_result(ret);
    }
    return r;
}

static int claim(void *inst, struct fn_op *op, const char *group, struct fn_error *reterr)
{
    struct cp *cp = inst;
    int r = enter(cp, group, reterr);

    (void)op;
    return r < 0 ? r : claims_answer(&cp->claims, group, reterr);
}

static int list(void *inst, struct fn_op *op, const char *group, const struct fn_machine_sink *out,
                struct fn_error *reterr)
{
    struct cp *cp = inst;
    const char *words[] = { "list", cp->state, group };
    struct fn_exec_result result;
    char *rest = NULL;
    int r = enter(cp, group, reterr);

    if (r == 0 && claims_take(&cp->claims, group, NULL) < 0) {
        words[0] = "look"; /* the same, and what has ended is left to the manager that acts */
    }
    r = r < 0 ? r : run(cp, op, words, 3, &result, reterr);
    if (r < 0) {
        return r;
    }
    for (char *line = strtok_r(result.out, "\n", &rest); line && r == 0;
         line = strtok_r(NULL, "\n", &rest)) {
        r = take_line(cp->host, line, group, (uint64_t)cp->conf->capacity_mb, out);
    }
    cp->exec->free_result(&result);
    if (r < 0 && reterr) {
        reterr->code = r;
        snprintf(reterr->msg, sizeof(reterr->msg), "the list of runners cannot be read");
    }
    return r;
}

/* Those of a repeated request are the same. */
static const char *labels_of(const struct cp *cp, uint64_t turn)
{
    return cp->conf->labels.n > 0 ? cp->labels[turn % cp->conf->labels.n] : "";
}

static int provision(void *inst, struct fn_op *op, const char *group, uint32_t n,
                     uint64_t request_id, uint32_t *ret_accepted, struct fn_error *reterr)
{
    struct cp *cp = inst;
    char ids[RUNNERS_MAX][WORD_MAX];
    char memory[24];
    const char *words[6 + RUNNERS_MAX] = { "provision",
                                           cp->state,
                                           group,
                                           cp->conf->program ? cp->conf->program : "",
                                           cp->conf->base ? cp->conf->base : "",
                                           memory };
    struct fn_exec_result result;
    int r = enter(cp, group, reterr);

    r = r < 0 ? r : claims_take(&cp->claims, group, reterr);
    n = n < RUNNERS_MAX ? n : RUNNERS_MAX;
    snprintf(memory, sizeof(memory), "%lld", (long long)cp->conf->capacity_mb);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(ids[i], sizeof(ids[i]), "r%llx-%u %s", (unsigned long long)request_id, i,
                 labels_of(cp, request_id + i));
        words[6 + i] = ids[i];
    }
    r = r < 0 ? r : run(cp, op, words, 6 + n, &result, reterr);
    if (r < 0) {
        return r;
    }
    *ret_accepted = count_started(result.out);
    cp->exec->free_result(&result);
    return 0;
}

/* SIGTERM lets the runner end its calls; it is listed until it is gone. */
static int remove_machine(void *inst, struct fn_op *op, const char *group, const char *machine_id,
                          struct fn_error *reterr)
{
    struct cp *cp = inst;
    const char *const words[] = { "remove", cp->state, group, machine_id };
    struct fn_exec_result result;
    int r = enter(cp, group, reterr);

    if (r == 0 && (machine_id[0] != 'r' || machine_id[strspn(machine_id, GROUP_BYTES)] != '\0')) {
        return 0; /* none of ours: not there */
    }
    r = r < 0 ? r : claims_take(&cp->claims, group, reterr);
    r = r < 0 ? r : run(cp, op, words, 4, &result, reterr);
    if (r == 0) {
        cp->exec->free_result(&result);
    }
    return r;
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
    {.iface = NULL},
};

static const struct fn_opt opts[] = {
    {.key = "state",
     .doc = "Directory in which each runner gets a directory for its fn.yaml, log and sockets; the "
            "manager's user alone may write there. Keep the path short: paths of unix sockets are "
            "limited to 107 bytes. When absent: runners in /run/fnd (root), $XDG_RUNTIME_DIR/fnd "
            "or /tmp/fnd-<uid>.",
     .min = 1,
     .max = CONF_STATE_MAX,
     .type = FN_OPT_STR,
     .offset = offsetof(struct conf, state),
     .flags = FN_OPT_MAY_BE_ABSENT},
    {.key = "program",
     .doc = "Path of the fnd program that runners run. When absent: the manager's own.",
     .min = 1,
     .max = 1024,
     .type = FN_OPT_STR,
     .offset = offsetof(struct conf, program),
     .flags = FN_OPT_MAY_BE_ABSENT},
    {.key = "base",
     .doc = "File that is appended to each runner's fn.yaml, for its driver and limits. It may "
            "have all sections but node, admin, http and grpc, and should set runner.memory_total "
            "to the value of capacity.",
     .min = 1,
     .max = 1024,
     .type = FN_OPT_STR,
     .offset = offsetof(struct conf, base),
     .flags = FN_OPT_MAY_BE_ABSENT},
    {.key = "capacity",
     .doc = "Memory of a runner for functions, in MB.",
     .dflt = "1024",
     .min = 16,
     .max = 16 << 20,
     .type = FN_OPT_INT,
     .offset = offsetof(struct conf, capacity_mb)},
    {.key = "labels",
     .doc = "Sets of labels that new runners get in turn, such as [\"zone=a class=gpu\", zone=b] "
            "(labels.md). Useful to try placement by labels on one machine.",
     .type = FN_OPT_STRLIST,
     .offset = offsetof(struct conf, labels),
     .flags = FN_OPT_MAY_BE_ABSENT},
    {.key = NULL},
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_CONTROL_PLANE,
    .name = "process",
    .summary = "Runners as local processes of fnd, for trials and tests.",
    .kind_major = FN_CPLANE_MAJOR,
    .kind_minor = FN_CPLANE_MINOR,
    .conf_size = sizeof(struct conf),
    .needs = needs,
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(cp_process, "cp-process", &factory)
