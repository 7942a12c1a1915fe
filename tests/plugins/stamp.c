/* Plugins that show which generation of the configuration a call met, for the tests of reload.
 *
 * overrider/stamp appends its `mark` to the extension "mark": two of them in a chain give "a-a",
 * and "a-b" when a call met two generations. listener/stamp keeps the ids of its open calls and
 * complains about an after() of a call that another instance let through, and about calls left at
 * its end. create() fails or takes its time when it is told to. */
#include <fn/listener.h>
#include <fn/override.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OPEN_MAX 4096

struct conf {
    const char *mark;
    const char *fail; /* NULL: create() works */
    int64_t slow_ns;
};

struct stamp {
    const struct fn_host *host;
    const struct fn_edit_if *edit; /* of the overrider */
    const struct conf *conf;
    char open[OPEN_MAX][32]; /* of the listener; "" = free */
    unsigned n_open;
    uint32_t wrong, right;
};

static void complain(struct stamp *s, const char *text)
{
    s->host->log->write(s->host, FN_LOG_ERROR, text, strlen(text));
    s->host->metric->add(s->host, s->wrong, 1);
}

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    const struct conf *c = conf;
    struct stamp *s;

    if (c->slow_ns > 0) {
        struct timespec t = {c->slow_ns / 1000000000, c->slow_ns % 1000000000};

        nanosleep(&t, NULL);
    }
    if (c->fail) {
        (void)snprintf(reterr->msg, sizeof(reterr->msg), "%s", c->fail);
        return FN_E_INVALID;
    }
    s = calloc(1, sizeof(*s));
    if (!s) {
        return FN_E_EXHAUSTED;
    }
    s->host = host;
    s->edit = host->get(host, "fn.edit", 1);
    s->conf = c;
    (void)host->metric->declare(host, "wrong", FN_METRIC_COUNTER, &s->wrong);
    (void)host->metric->declare(host, "right", FN_METRIC_COUNTER, &s->right);
    *ret_inst = s;
    return 0;
}

static void destroy(void *inst)
{
    struct stamp *s = inst;

    if (s && s->n_open > 0) {
        complain(s, "stamp: destroyed while calls are open");
    }
    free(s);
}

static int apply(void *inst, struct fn_edit *edit, struct fn_error *reterr)
{
    const struct stamp *s = inst;
    const char *old = s->edit->extension(edit, "mark");
    char text[128];

    (void)reterr;
    (void)snprintf(text, sizeof(text), "%s%s%s", old ? old : "", old ? "-" : "", s->conf->mark);
    return s->edit->set_extension(edit, "mark", text) < 0 ? FN_E_INTERNAL : FN_CHANGED;
}

static char *find(struct stamp *s, const char *id)
{
    for (unsigned i = 0; i < OPEN_MAX; i++) {
        if (strcmp(s->open[i], id) == 0) {
            return s->open[i];
        }
    }
    return NULL;
}

static int before(void *inst, const struct fn_call *call, struct fn_error *reterr)
{
    struct stamp *s = inst;
    char *slot = find(s, "");

    (void)reterr;
    if (slot) {
        (void)snprintf(slot, sizeof(s->open[0]), "%s", call->id);
        s->n_open++;
    }
    return 0;
}

static void after(void *inst, const struct fn_call *call, const struct fn_call_end *end)
{
    struct stamp *s = inst;
    char *slot = find(s, call->id);

    (void)end;
    if (!slot) {
        complain(s, "stamp: after() of a call that another instance let through");
        return;
    }
    slot[0] = '\0';
    s->n_open--;
    s->host->metric->add(s->host, s->right, 1);
}

static const struct fn_override_ops override_ops = {
    .hdr = FN_HDR(struct fn_override_ops, FN_MAGIC_OVERRIDE),
    .apply = apply,
};

static const struct fn_listener_ops listener_ops = {
    .hdr = FN_HDR(struct fn_listener_ops, FN_MAGIC_LISTENER),
    .before = before,
    .after = after,
};

static const struct fn_need needs[] = {
    {.iface = "fn.edit", .major = 1},
    {.iface = NULL},
};

static const struct fn_opt opts[] = {
    {.key = "mark",
     .doc = "What it stamps.",
     .dflt = "none",
     .min = 1,
     .max = 30,
     .type = FN_OPT_STR,
     .offset = offsetof(struct conf, mark)},
    {.key = "fail",
     .doc = "create() fails with this text.",
     .min = 1,
     .max = 100,
     .type = FN_OPT_STR,
     .offset = offsetof(struct conf, fail),
     .flags = FN_OPT_MAY_BE_ABSENT},
    {.key = "slow",
     .doc = "Time that create() takes.",
     .dflt = "0s",
     .max = 10000000000,
     .type = FN_OPT_DURATION,
     .offset = offsetof(struct conf, slow_ns)},
    {.key = NULL},
};

#define FACTORY(kind_, major_, minor_, ops_)                                                       \
    {                                                                                              \
        .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY), .kind = kind_, .name = "stamp",        \
        .summary = "Shows which generation a call met.", .kind_major = major_,                     \
        .kind_minor = minor_, .conf_size = sizeof(struct conf), .needs = needs, .opts = opts,      \
        .ops = ops_, .create = create, .destroy = destroy,                                         \
    }

static const struct fn_factory overrider =
    FACTORY(FN_KIND_OVERRIDER, FN_OVERRIDE_MAJOR, FN_OVERRIDE_MINOR, &override_ops);
static const struct fn_factory listener =
    FACTORY(FN_KIND_LISTENER, FN_LISTENER_MAJOR, FN_LISTENER_MINOR, &listener_ops);

static const struct fn_factory *const factories[] = {&overrider, &listener, NULL};

static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR,
    .abi_minor = FN_ABI_MINOR,
    .name = "stamp",
    .version = "1.0",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = factories,
};

FN_PLUGIN_DEFINE(stamp, manifest)
