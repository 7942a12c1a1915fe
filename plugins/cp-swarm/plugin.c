/* control-plane/swarm: runners as services of a Docker Swarm, for those who outgrow one machine.
 * All state is the Swarm's: a restarted manager finds its runners by their labels. */
#include "fail.h"
#include "options.h"
#include "shipped.h"
#include "swarm.h"

#include <stdlib.h>

#define REQUEST_TIMEOUT_MS 10000u
#define ANSWER_MAX (64u << 20) /* of 10 000 runners */
#define RUNNERS_MAX 64u        /* of one provision call */

/* ---- the engine ------------------------------------------------------------------------------ */

static int call(struct cp *cp, struct fn_op *op, const char *method, const char *path,
                const char *body, struct fn_http_answer *ret, struct fn_error *reterr)
{
    static const char *const json[] = { "Content-Type: application/json", NULL };
    char url[sizeof(cp->base) + SWARM_PATH_MAX];
    const struct fn_http_request rq = { .size = sizeof(rq),
                                        .timeout_ms = REQUEST_TIMEOUT_MS,
                                        .method = method,
                                        .unix_path = cp->unix_path,
                                        .url = url,
                                        .headers = body ? json : NULL,
                                        .body = body,
                                        .body_len = body ? strlen(body) : 0,
                                        .answer_max = ANSWER_MAX };

    snprintf(url, sizeof(url), "%s%s", cp->base, path);
    *ret = (struct fn_http_answer){ .size = sizeof(*ret) };
    return cp->http->exchange(cp->host, op, &rq, ret, reterr);
}

int swarm_get(struct cp *cp, struct fn_op *op, const char *what, const char *path,
              struct fn_http_answer *ret, struct fn_error *reterr)
{
    int r = call(cp, op, "GET", path, NULL, ret, reterr);

    return r < 0 || ret->status == 200
               ? r
               : swarm_failure(cp->conf, what, ret->status, swarm_text_of(ret), reterr);
}

/* ---- provision and remove -------------------------------------------------------------------- */

static int create_service(struct cp *cp, struct fn_op *op, const char *group, uint64_t request_id,
                          uint32_t index, struct fn_error *reterr)
{
    struct fn_http_answer a = { .size = sizeof(a) };
    char name[SWARM_NAME_MAX + 1];
    char *body = NULL;
    int r;

    swarm_name(cp->conf, group, request_id, index, name);
    r = swarm_create_body(cp->conf, name, group, request_id, &body, reterr);
    r = r < 0 ? r : call(cp, op, "POST", "/services/create", body, &a, reterr);
    if (r == 0 && a.status != 201 && a.status != 200 && a.status != 409) { /* 409: it is there */
        r = swarm_failure(cp->conf, "create", a.status, swarm_text_of(&a), reterr);
    }
    cp->http->free_answer(&a);
    free(body);
    return r;
}

static int provision(void *inst, struct fn_op *op, const char *group, uint32_t n,
                     uint64_t request_id, uint32_t *ret_accepted, struct fn_error *reterr)
{
    struct cp *cp = inst;
    struct fn_error why = { .size = sizeof(why) };
    uint32_t done = 0;
    int r = 0;

    n = n < RUNNERS_MAX ? n : RUNNERS_MAX;
    while (done < n && (r = create_service(cp, op, group, request_id, done, &why)) == 0) {
        done++;
    }
    if (r < 0 && done == 0) {
        return fail_platform(reterr, r, "%s", why.msg);
    }
    if (r < 0) {
        swarm_tell(cp, why.msg);
    }
    *ret_accepted = done; /* those of a repeated request are there already */
    return 0;
}

/* By the id of the service that carries our labels: what else has that name, or an id that begins
 * like it, is not there for us. */
int swarm_remove(void *inst, struct fn_op *op, const char *group, const char *machine_id,
                 struct fn_error *reterr)
{
    struct cp *cp = inst;
    struct fn_http_answer a = { .size = sizeof(a) };
    char path[32 + SWARM_NAME_MAX + SWARM_ID_MAX];
    char id[SWARM_ID_MAX + 1];
    int r;

    if (!swarm_is_name(machine_id)) {
        return 0;
    }
    snprintf(path, sizeof(path), "/services/%s", machine_id);
    r = call(cp, op, "GET", path, NULL, &a, reterr);
    if (r == 0 && a.status == 200) {
        r = swarm_is_ours(swarm_text_of(&a), cp->conf, group, machine_id, id, reterr);
    } else if (r == 0 && a.status != 404) {
        r = swarm_failure(cp->conf, "remove", a.status, swarm_text_of(&a), reterr);
    }
    cp->http->free_answer(&a);
    if (r <= 0) {
        return r; /* 0: it is not there, or another's */
    }
    snprintf(path, sizeof(path), "/services/%s", id);
    r = call(cp, op, "DELETE", path, NULL, &a, reterr);
    if (r == 0 && a.status != 200 && a.status != 204 && a.status != 404) {
        r = swarm_failure(cp->conf, "remove", a.status, swarm_text_of(&a), reterr);
    }
    cp->http->free_answer(&a);
    return r;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void destroy(void *inst)
{
    struct cp *cp = inst;

    if (cp) {
        pthread_mutex_destroy(&cp->lock);
        free(cp);
    }
}

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct cp *cp = calloc(1, sizeof(*cp));
    int r;

    if (!cp) {
        return fail_platform(reterr, FN_E_EXHAUSTED, "control plane swarm: out of memory");
    }
    pthread_mutex_init(&cp->lock, NULL);
    cp->host = host;
    cp->conf = conf;
    cp->http = host->get(host, "fn.http", 1);
    r = swarm_address(cp->conf->docker_host, &cp->unix_path, cp->base, reterr);
    r = r < 0 ? r : swarm_check(cp->conf, reterr);
    if (r < 0) {
        destroy(cp);
        return r;
    }
    *ret_inst = cp;
    return 0;
}

static const struct fn_cplane_ops ops = {
    .hdr = FN_HDR(struct fn_cplane_ops, FN_MAGIC_CPLANE),
    .list = swarm_list,
    .provision = provision,
    .remove = swarm_remove,
};

static const struct fn_need needs[] = {
    {.iface = "fn.http", .major = 1, .minor_min = 0},
    {.iface = NULL},
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_CONTROL_PLANE,
    .name = "swarm",
    .summary = "Runners as services of a Docker Swarm.",
    .kind_major = FN_CPLANE_MAJOR,
    .kind_minor = FN_CPLANE_MINOR,
    .conf_size = sizeof(struct swarm_conf),
    .needs = needs,
    .opts = swarm_opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(cp_swarm, "cp-swarm", &factory)
