/* Snap: "fn.snap", by which pools publish their lists.
 *
 * A worker may fill a builder; publish() and fail() enter the loop when they are called from
 * one. */
#include <place/place_int.h>

#include <string.h>

static int snap_begin(const struct fn_host *host, const char *group,
                      struct fn_snap_builder **ret_given)
{
    PLUGIN_HOST_CALL("fn.snap.begin");
    struct fn_snap_builder *b;

    /* Publishing asks the placer for an index: from a placer that would be a call into itself. */
    if (strcmp(plugin_factory(plugin_of(host))->kind, FN_KIND_POOL) != 0) {
        return FN_E_PRECONDITION;
    }
    if (!plugin_answer_group(plugin_of(host), "fn.snap.begin", group)) {
        return FN_E_INVALID;
    }
    if (!ret_given) {
        plugin_bad_answer(plugin_of(host), "fn.snap.begin: nowhere to put the builder");
        return FN_E_INVALID;
    }
    b = builder_create(plugin_impl(host, "fn.snap"), group);
    if (!b) {
        return FN_E_EXHAUSTED;
    }
    b->host = host;
    *ret_given = b;
    return 0;
}

static void snap_discard(struct fn_snap_builder *given)
{
    PLUGIN_HOST_CALL("fn.snap.discard");
    builder_free(given);
}

/* A builder that nobody began; without it only the running call tells whose fault that is. */
static bool is_builder(const struct fn_snap_builder *b, const char *what)
{
    const struct plugin_crumb *c = plugin_current();

    if (!b && c && c->plugin) {
        plugin_bad_answer(c->plugin, what);
    }
    return b != NULL;
}

static int snap_add(struct fn_snap_builder *b, const struct fn_runner *copied, uint32_t size)
{
    PLUGIN_HOST_CALL("fn.snap.add");
    struct fn_runner r;

    if (!is_builder(b, "fn.snap.add: no builder") ||
        plugin_answer_runner(plugin_of(b->host), copied, size, &r) < 0) {
        return FN_E_INVALID;
    }
    if (b->n >= PLACE_RUNNERS_MAX) {
        plugin_bad_answer(plugin_of(b->host), "fn.snap.add: more than 65536 runners");
        return FN_E_EXHAUSTED;
    }
    return builder_add(b, &r);
}

/* ---- publishing ------------------------------------------------------------------------------ */

/* Takes the builder in any case. */
static int snap_take(struct place *p, struct fn_snap_builder *given)
{
    enum source_word word = source_judge(p, plugin_of(given->host));
    int r = FN_E_PRECONDITION; /* another pool is in use by now */

    if (word == SOURCE_CURRENT) {
        return group_publish(p, given);
    }
    if (word == SOURCE_HELD) {
        r = source_hold(p, given);
    }
    if (r < 0) {
        builder_free(given);
    }
    return r;
}

int place_publish(struct place *p, const char *group, const struct fn_runner *list, uint32_t n)
{
    struct fn_snap_builder *b = builder_create(p, group);
    int r = b ? 0 : FN_E_EXHAUSTED;

    for (uint32_t i = 0; r == 0 && i < n; i++) {
        r = builder_add(b, &list[i]);
    }
    if (r < 0) {
        builder_free(b);
        return r;
    }
    return group_publish(p, b);
}

static int snap_publish(struct fn_snap_builder *given)
{
    PLUGIN_HOST_CALL("fn.snap.publish");
    struct place *p;
    int r;

    if (!is_builder(given, "fn.snap.publish: no builder")) {
        return FN_E_INVALID;
    }
    p = given->place;
    plugin_take_loop(p->deps.env);
    r = snap_take(p, given);
    plugin_give_loop(p->deps.env);
    return r;
}

/* A pool that does not start has nothing to say about the lists of the one that runs. */
static int hold_fail(struct place *p, const struct fn_host *host, const char *group,
                     const struct fn_error *why)
{
    struct fn_snap_builder *b = builder_create(p, group);
    int r = FN_E_EXHAUSTED;

    if (b && (b->failed = arena_alloc(&b->arena, sizeof(*b->failed)))) {
        b->host = host;
        *b->failed = *why;
        r = source_hold(p, b);
    }
    if (r < 0) {
        builder_free(b);
    }
    return r;
}

static int snap_fail(const struct fn_host *host, const char *group, const struct fn_error *why)
{
    PLUGIN_HOST_CALL("fn.snap.fail");
    struct place *p = plugin_impl(host, "fn.snap");
    struct fn_error copy = plugin_answer_error_copy(plugin_of(host), "fn.snap.fail", why);
    enum source_word word;
    int r;

    if (!plugin_answer_group(plugin_of(host), "fn.snap.fail", group)) {
        return FN_E_INVALID;
    }
    plugin_take_loop(p->deps.env);
    word = source_judge(p, plugin_of(host));
    r = word == SOURCE_REFUSED ? FN_E_PRECONDITION
        : word == SOURCE_HELD  ? hold_fail(p, host, group, &copy)
                               : group_fail(p, group, &copy);
    plugin_give_loop(p->deps.env);
    return r;
}

const struct fn_snap_if place_snap_if = {
    FN_HDR(struct fn_snap_if, FN_MAGIC_SNAP), snap_begin, snap_add, snap_publish, snap_discard,
    snap_fail,
};
