/* predictor/spare: at a runner as many containers of each function as calls of it ran at once of
 * late, and some more; at a manager what is wanted. */
#include <fn/predictor.h>

#include <stdlib.h>

#define FN_S 1000000000LL

struct conf {
    int64_t spare;
    int64_t window_ns;
};

static const struct fn_opt opts[] = {
    { .key = "spare",
      .doc = "Containers of a function to have ready besides those that its calls use.",
      .dflt = "1",
      .max = 1000,
      .type = FN_OPT_INT,
      .offset = offsetof(struct conf, spare) },
    { .key = "window",
      .doc = "Time for which the most calls at once are remembered; a function without a call in "
             "it keeps no container.",
      .dflt = "10m",
      .min = FN_S,
      .max = 24 * 3600 * FN_S,
      .type = FN_OPT_DURATION,
      .offset = offsetof(struct conf, window_ns) },
    { .key = NULL },
};

/* Of a function; the most calls at once in this window and in the one before. */
struct state {
    int64_t since_ns;
    uint32_t now, before;
};

static int create(const struct fn_host *host, const void *conf, void **ret_inst,
                  struct fn_error *reterr)
{
    struct conf *own = malloc(sizeof(*own));

    (void)host;
    (void)reterr;
    if (!own) {
        return FN_E_EXHAUSTED;
    }
    *own = *(const struct conf *)conf;
    *ret_inst = own;
    return 0;
}

static void destroy(void *inst)
{
    free(inst);
}

static int predict(void *inst, void *state, const struct fn_load *load, uint64_t *ret_desired_mb)
{
    (void)inst;
    (void)state;
    *ret_desired_mb = load->wanted_mb;
    return 0;
}

static void turn_window(struct state *s, const struct fn_traffic *t, int64_t window_ns)
{
    if (t->now_ns - s->since_ns >= window_ns) {
        s->before = t->now_ns - s->since_ns < 2 * window_ns ? s->now : 0;
        s->now = 0;
        s->since_ns = t->now_ns;
    }
}

static int containers(void *inst, void *state, const struct fn_traffic *t, uint32_t *ret_n)
{
    const struct conf *c = inst;
    struct state *s = state;
    uint64_t n;

    turn_window(s, t, c->window_ns);
    if (t->running_max > s->now) {
        s->now = t->running_max;
    }
    n = s->now > s->before ? s->now : s->before;
    n = n > 0 ? n + (uint64_t)c->spare : 0;
    *ret_n = n < t->kept_max ? (uint32_t)n : t->kept_max;
    return 0;
}

static const struct fn_predictor_ops ops = {
    .hdr = FN_HDR(struct fn_predictor_ops, FN_MAGIC_PREDICTOR),
    .state_size = sizeof(struct state),
    .predict = predict,
    .containers = containers,
};

static const struct fn_factory factory = {
    .hdr = FN_HDR(struct fn_factory, FN_MAGIC_FACTORY),
    .kind = FN_KIND_PREDICTOR,
    .name = "spare",
    .summary = "Containers of a function for its recent calls, and some to spare.",
    .kind_major = FN_PREDICTOR_MAJOR,
    .kind_minor = FN_PREDICTOR_MINOR,
    .conf_size = sizeof(struct conf),
    .opts = opts,
    .ops = &ops,
    .create = create,
    .destroy = destroy,
};

static const struct fn_factory *const factories[] = { &factory, NULL };
static const struct fn_manifest manifest = {
    .hdr = FN_HDR(struct fn_manifest, FN_MAGIC_MANIFEST),
    .abi_major = FN_ABI_MAJOR,
    .abi_minor = FN_ABI_MINOR,
    .host_minor_min = FN_HOST_MINOR_MIN,
    .name = "predictor-spare",
    .version = "1.0",
    .license = "Apache-2.0",
    .build_tag = FN_BUILD_TAG,
    .factories = factories,
};

FN_PLUGIN_DEFINE(predictor_spare, manifest)
