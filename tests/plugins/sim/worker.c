/* A control plane for the tests of scripted programs and HTTP: list() runs a program, provision()
 * sleeps, remove() asks over HTTP. */
#include <fn/cplane.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct worker {
    const struct fn_host *host;
    const struct fn_op_if *op;
    const struct fn_exec_if *exec;
    const struct fn_http_if *http;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct worker *w = calloc(1, sizeof(*w));

    (void)conf;
    (void)reterr;
    w->host = host;
    w->op = host->get(host, "fn.op", 1);
    w->exec = host->get(host, "fn.exec", 1);
    w->http = host->get(host, "fn.http", 1);
    *ret_inst = w;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

/* One machine per line of the program's output. */
static int list(void *inst, struct fn_op *op, const char *group, const struct fn_machine_sink *out,
                struct fn_error *reterr)
{
    struct worker *w = inst;
    const char *argv[] = { "cloud", "list", group, NULL };
    struct fn_exec_request rq = { .size = sizeof(rq), .timeout_ms = 5000, .argv = argv };
    struct fn_exec_result result = { .size = sizeof(result) };
    char *line, *rest;
    int r = w->exec->run(w->host, op, &rq, &result, reterr);

    if (r < 0) {
        return r;
    }
    for (line = strtok_r(result.out, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct fn_machine m = { .size = sizeof(m), .state = FN_MACHINE_READY, .id = line };

        out->add(out->ud, &m);
    }
    r = result.exit_code ? FN_E_INTERNAL : 0;
    w->exec->free_result(&result);
    return r;
}

static int provision(void *inst, struct fn_op *op, const char *group, uint32_t n,
                     uint64_t request_id, uint32_t *ret_accepted, struct fn_error *reterr)
{
    struct worker *w = inst;
    int r = 0;

    (void)group;
    (void)request_id;
    (void)reterr;
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        r = w->op->sleep_until(op, w->host->clock->now_ns(w->host) + 1000000000);
        *ret_accepted = i + (r == 0);
    }
    return r;
}

static int remove_machine(void *inst, struct fn_op *op, const char *group, const char *machine_id,
                          struct fn_error *reterr)
{
    struct worker *w = inst;
    struct fn_http_answer answer = { .size = sizeof(answer) };
    struct fn_http_request rq = { .size = sizeof(rq), .method = "DELETE" };
    char url[200];
    int r;

    snprintf(url, sizeof(url), "http://cloud/%s/%s", group, machine_id);
    rq.url = url;
    r = w->http->exchange(w->host, op, &rq, &answer, reterr);
    if (r == 0) {
        r = answer.status == 200 || answer.status == 404 ? 0 : FN_E_INTERNAL;
        w->http->free_answer(&answer);
    }
    return r;
}

static const struct fn_cplane_ops ops = { .hdr = FN_HDR(struct fn_cplane_ops, FN_MAGIC_CPLANE),
                                          .list = list,
                                          .provision = provision,
                                          .remove = remove_machine };

static const struct fn_need needs[] = { { "fn.op", 1, 0, 0 },
                                        { "fn.exec", 1, 0, 0 },
                                        { "fn.http", 1, 0, 0 },
                                        { NULL, 0, 0, 0 } };

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_CONTROL_PLANE,
    .name = "worker",
    .summary = "Works over scripted programs.",
    .kind_major = FN_CPLANE_MAJOR,
    .kind_minor = FN_CPLANE_MINOR,
    .needs = needs,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

static const struct fn_factory *const factories[] = { &factory, NULL };

static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR,
    .abi_minor = FN_ABI_MINOR,
    .name = "worker",
    .version = "1.0",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = factories,
};

FN_PLUGIN_DEFINE(worker, manifest)
