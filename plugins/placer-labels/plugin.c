/* placer/labels: wraps another placer. */
#include "decide.h"
#include "shipped.h"

#include <fn/view.h>
#include <stdlib.h>
#include <string.h>

#define MAKE_PAUSE_NS 5000000 /* between two parts of long lists: calls go first */

struct instance {
    const struct fn_host *host;
    const struct fn_view_if *view;
    struct labels_options options;
    struct labels labels;
    struct parts *lists; /* of all lists that are in use */
    uint64_t timer;      /* makes the next part; 0 = none is wanted */
};

/* ---- what the host is asked ------------------------------------------------------------------ */

static const char *annotation_of(void *ud, const struct fn_call *call)
{
    const struct instance *i = ud;

    return i->view->annotation(call, i->options.annotation);
}

static void arm(struct instance *i);

static void on_timer(void *ud)
{
    struct instance *i = ud;
    struct parts *p = i->lists;

    i->timer = 0;
    while (p && !labels_make_next(&i->labels, p)) {
        p = p->next;
    }
    if (p) { /* perhaps there are more */
        arm(i);
    }
}

static void arm(struct instance *i)
{
    int64_t at_ns = i->host->clock->now_ns(i->host) + MAKE_PAUSE_NS;

    if (i->timer == 0 && i->host->timer->arm(i->host, at_ns, on_timer, i, &i->timer) < 0) {
        i->timer = 0; /* the call asks again */
    }
}

static void on_wanted(void *ud)
{
    arm(ud);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct instance *i = calloc(1, sizeof(*i));
    int r;

    if (!i) {
        return FN_E_EXHAUSTED;
    }
    i->host = host;
    i->view = host->get(host, "fn.view", FN_VIEW_MAJOR);
    memcpy(&i->options, conf, sizeof(i->options));
    i->labels.options = &i->options;
    i->labels.annotation = annotation_of;
    i->labels.later = on_wanted;
    i->labels.ud = i;
    r = wrap_find(host, i->options.inner, LABELS_INNER_MAX, &i->labels.inner, reterr);
    if (r < 0) {
        free(i);
        return r;
    }
    *ret_inst = i;
    return 0;
}

static void destroy(void *inst)
{
    struct instance *i = inst;

    if (i && i->timer != 0) {
        i->host->timer->cancel(i->host, i->timer);
    }
    free(i);
}

static int decide(void *inst, const struct fn_ask *ask, struct fn_answer *ret)
{
    struct instance *i = inst;
    const uint32_t size = ret->size; /* the host's answer may be larger than we know */
    int r = labels_decide(&i->labels, ask, ret);

    ret->size = size;
    return r;
}

static void observe(void *inst, const struct fn_placed *what)
{
    struct instance *i = inst;

    labels_observe(&i->labels, what, i->host->clock->now_ns(i->host));
}

static int index_build(void *inst, const struct fn_snapshot *snap, void **ret_index)
{
    struct instance *i = inst;
    struct parts *p = NULL;
    int r = labels_parts_create(&i->labels, snap, i->host->clock->now_ns(i->host), &p);

    if (r == 0) {
        p->next = i->lists;
        i->lists = p;
        *ret_index = p;
    }
    return r;
}

static void index_free(void *inst, void *index)
{
    struct instance *i = inst;
    struct parts **at = &i->lists;

    while (*at != index) {
        at = &(*at)->next;
    }
    *at = (*at)->next;
    labels_parts_destroy(&i->labels, index);
}

static const struct fn_placer_ops ops = {
    .hdr = FN_HDR(struct fn_placer_ops, FN_MAGIC_PLACER),
    .session_size = LABELS_SESSION_SIZE,
    .decide = decide,
    .observe = observe,
    .index_build = index_build,
    .index_free = index_free,
};

/* ---- manifest -------------------------------------------------------------------------------- */

static const struct fn_opt opts[] = {
    WRAP_OPT_INNER(struct labels_options),
    { .key = "annotation",
      .doc = "Annotation of functions or apps that says which labels a runner must have: an object "
             "such as {\"zone\": \"a\"}, or a text such as \"zone=a class=gpu\".",
      .dflt = "fnd/runner-labels",
      .min = 1,
      .max = 128,
      .type = FN_OPT_STR,
      .offset = offsetof(struct labels_options, annotation) },
    { .key = "none",
      .doc = "What becomes of a call when no runner has its labels: wait = it waits for one, as it "
             "waits for capacity; give-up = it is refused at once.",
      .dflt = "wait",
      .choices = "wait|give-up",
      .type = FN_OPT_CHOICE,
      .offset = offsetof(struct labels_options, none) },
    { .key = NULL },
};

static const struct fn_need needs[] = {
    { "fn.placer", FN_PLACER_MAJOR, 0, 0 },
    { "fn.view", FN_VIEW_MAJOR, 0, 0 },
    { NULL, 0, 0, 0 },
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_PLACER,
    .name = "labels",
    .summary = "Lets another placer decide, among the runners whose labels a function asks for.",
    .kind_major = FN_PLACER_MAJOR,
    .kind_minor = FN_PLACER_MINOR,
    .conf_size = sizeof(struct labels_options),
    .opts = opts,
    .needs = needs,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

SHIPPED_PLUGIN(placer_labels, "placer-labels", &factory)
