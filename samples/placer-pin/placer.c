/* placer/pin: a function whose annotation names a runner runs there alone; all others go to a
 * runner by chance. The annotation is a JSON text: acme.example/runner: "10.0.0.7:9190". */
#define FN_HOST_MINOR_MIN 1 /* fn.view */
#include <fn/placer.h>
#include <fn/view.h>

#include <stdlib.h>
#include <string.h>

#define AGAIN_NS 10000000 /* until all were tried once more */

struct conf {
    const char *annotation;
};
struct pin {
    const struct fn_host *host;
    const struct fn_view_if *view;
    const struct conf *conf;
};
struct session {
    uint32_t first; /* where a round begins */
    uint32_t tried; /* runners of this round */
};
struct place { /* the index of a list: its addresses in order, so that long ones are no scan */
    const char *address; /* lives as long as the list */
    uint32_t at;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct pin *p = calloc(1, sizeof(*p));

    (void)reterr;
    if (!p) {
        return FN_E_EXHAUSTED;
    }
    *p = (struct pin){ host, host->get(host, "fn.view", FN_VIEW_MAJOR), conf };
    *ret_inst = p;
    return 0;
}

static int by_address(const void *a, const void *b)
{
    return strcmp(((const struct place *)a)->address, ((const struct place *)b)->address);
}

static int index_build(void *inst, const struct fn_snapshot *snap, void **ret_index)
{
    struct place *index = malloc((snap->n + 1) * sizeof(*index));

    (void)inst;
    if (!index) {
        return FN_E_EXHAUSTED;
    }
    for (uint32_t i = 0; i < snap->n; i++) {
        index[i] = (struct place){ fn_snapshot_at(snap, i)->address, i };
    }
    qsort(index, snap->n, sizeof(*index), by_address);
    *ret_index = index;
    return 0;
}

static void index_free(void *inst, void *index)
{
    (void)inst;
    free(index);
}

static int answer(struct fn_answer *ret, uint32_t verdict, uint32_t index, const char *note)
{
    ret->verdict = verdict;
    ret->index = index;
    ret->wait_ns = AGAIN_NS; /* of FN_WAIT, as is the mask */
    ret->wake_mask = FN_WAKE_POOL | FN_WAKE_CAPACITY;
    strncpy(ret->note, note, sizeof(ret->note) - 1);
    return 0;
}

/* `json` is "text" with its quotes; a text with escapes names no runner. */
static int decide_pinned(const struct fn_ask *ask, const char *json, struct fn_answer *ret)
{
    char address[256] = "";
    const struct place named = { address, 0 }, *found = NULL;
    size_t len = strlen(json);

    if (ask->why == FN_WHY_BUSY || ask->why == FN_WHY_UNREACHABLE) {
        return answer(ret, FN_WAIT, 0, "pinned, busy");
    }
    if (json[0] == '"' && len > 2 && len < sizeof(address) && ask->snap->index) {
        memcpy(address, json + 1, len - 2);
        found = bsearch(&named, ask->snap->index, ask->snap->n, sizeof(named), by_address);
    }
    if (!found || fn_snapshot_at(ask->snap, found->at)->flags & FN_RUNNER_DRAINING) {
        return answer(ret, FN_WAIT, 0, "pinned, not listed");
    }
    return answer(ret, FN_TRY, found->at, "pinned");
}

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    const struct pin *p = inst;
    struct session *s = ask->session;
    const char *json = p->view->annotation(ask->call, p->conf->annotation);

    if (json) {
        return decide_pinned(ask, json, ret);
    }
    if (ask->why != FN_WHY_BUSY && ask->why != FN_WHY_UNREACHABLE) {
        s->first = (uint32_t)p->host->rng->u64(p->host);
        s->tried = 0;
    }
    if (s->tried >= ask->snap->n) {
        return answer(ret, FN_WAIT, 0, "all busy");
    }
    return answer(ret, FN_TRY, (s->first + s->tried++) % ask->snap->n, "by chance");
}

static const struct fn_placer_ops ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER), .decide = decide,
    .session_size = sizeof(struct session), .index_build = index_build, .index_free = index_free,
};
static const struct fn_need needs[] = { { "fn.view", 1, 0, 0 }, { NULL, 0, 0, 0 } };
static const struct fn_opt opts[] = {
    { .key = "annotation", .doc = "Annotation that names a runner.", .dflt = "acme.example/runner",
      .type = FN_OPT_STR, .min = 1, .max = 128, .offset = offsetof(struct conf, annotation) },
    { .key = NULL },
};
static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_PLACER, .name = "pin", .summary = "Keeps functions to a runner that is named.",
    .kind_major = FN_PLACER_MAJOR, .kind_minor = FN_PLACER_MINOR,
    .conf_size = sizeof(struct conf), .needs = needs, .opts = opts,
    .ops = &ops, .create = create, .destroy = free,
};
static const struct fn_factory *const factories[] = { &factory, NULL };
static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR, .abi_minor = FN_ABI_MINOR, .host_minor_min = FN_HOST_MINOR_MIN,
    .name = "placer-pin", .version = "1.0", .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG, .factories = factories,
};
FN_PLUGIN_DEFINE(placer_pin, manifest)
