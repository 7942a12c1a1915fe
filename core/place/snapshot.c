/* Snapshots: "fn.snap", the lists that pools publish.
 *
 * A builder collects copies in an arena; publish() makes one immutable snapshot of them, carries
 * links and in-flight counts of runners that stay over, and swaps it in. Builders may be filled by
 * a worker; publish() and fail() enter the loop when they are called from one. */
#include <place/place_int.h>

#include <base/log.h>
#include <stdlib.h>
#include <string.h>

static void loop_take(struct place *p)
{
    if (plugin_is_beside()) {
        p->deps.env->enter(p->deps.env);
    }
}

static void loop_give(struct place *p)
{
    if (plugin_is_beside()) {
        p->deps.env->leave(p->deps.env);
    }
}

/* ---- builders -------------------------------------------------------------------------------- */

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
    b = calloc(1, sizeof(*b));
    if (!b) {
        return FN_E_EXHAUSTED;
    }
    b->place = plugin_impl(host, "fn.snap");
    b->host = host;
    memcpy(b->group, group, strlen(group));
    arena_init(&b->arena, 0);
    *ret_given = b;
    return 0;
}

void snapshot_builder_free(struct fn_snap_builder *b)
{
    if (b) {
        arena_finish(&b->arena);
        free(b->list);
        free(b);
    }
}

static void snap_discard(struct fn_snap_builder *given)
{
    PLUGIN_HOST_CALL("fn.snap.discard");
    snapshot_builder_free(given);
}

static int builder_grow(struct fn_snap_builder *b)
{
    uint32_t cap = b->cap ? b->cap * 2 : 64;
    struct fn_runner *list;

    if (b->n < b->cap) {
        return 0;
    }
    list = realloc(b->list, cap * sizeof(*list));
    if (!list) {
        return FN_E_EXHAUSTED;
    }
    b->list = list;
    b->cap = cap;
    return 0;
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
    bool has_name;

    if (!is_builder(b, "fn.snap.add: no builder") ||
        plugin_answer_runner(plugin_of(b->host), copied, size, &r) < 0) {
        return FN_E_INVALID;
    }
    if (b->n >= PLACE_RUNNERS_MAX) {
        plugin_bad_answer(plugin_of(b->host), "fn.snap.add: more than 65536 runners");
        return FN_E_EXHAUSTED;
    }
    if (builder_grow(b) < 0) {
        return FN_E_EXHAUSTED;
    }
    r.since_ns = 0;
    has_name = r.tls_name != NULL;
    r.address = arena_strdup(&b->arena, r.address);
    r.tls_name = r.tls_name ? arena_strdup(&b->arena, r.tls_name) : NULL;
    if (!r.address || (has_name && !r.tls_name)) {
        return FN_E_EXHAUSTED;
    }
    b->list[b->n++] = r;
    return 0;
}

/* ---- snapshots ------------------------------------------------------------------------------- */

static char *put_text(char **at, const char *text)
{
    size_t len = strlen(text) + 1;
    char *to = *at;

    memcpy(to, text, len);
    *at += len;
    return to;
}

/* One allocation: struct, lists, texts. */
static struct snapshot *snapshot_create(struct place_group *g, const struct fn_runner *list,
                                        uint32_t n)
{
    size_t texts = 0;
    struct snapshot *s;
    char *at;

    for (uint32_t i = 0; i < n; i++) {
        texts += strlen(list[i].address) + 1;
        texts += list[i].tls_name ? strlen(list[i].tls_name) + 1 : 0;
    }
    s = calloc(1, sizeof(*s) + n * (sizeof(*s->list) + sizeof(*s->runners) + sizeof(*s->inflight)) +
                      texts);
    if (!s) {
        return NULL;
    }
    s->place = g->place;
    s->refs = 1;
    s->list = (struct fn_runner *)(void *)(s + 1);
    s->runners = (struct place_runner **)(void *)(s->list + n);
    s->inflight = (uint32_t *)(void *)(s->runners + n);
    at = (char *)(s->inflight + n);
    for (uint32_t i = 0; i < n; i++) {
        s->list[i] = list[i];
        s->list[i].address = put_text(&at, list[i].address);
        s->list[i].tls_name = list[i].tls_name ? put_text(&at, list[i].tls_name) : NULL;
    }
    s->view = (struct fn_snapshot){
        .hdr = FN_HDR(struct fn_snapshot, FN_MAGIC_SNAPSHOT),
        .epoch = g->snap ? g->snap->view.epoch + 1 : 0,
        .made_ns = env_now_ns(g->place->deps.env),
        .n = n,
        .stride = sizeof(struct fn_runner),
        .group = g->name,
        .runners = s->list,
    };
    return s;
}

static void index_build(struct snapshot *s)
{
    struct policy *y = s->place->policy;

    if (y) {
        s->policy = policy_ref(y);
        s->view.index = policy_index_build(y, &s->view);
    }
    shadow_index_build(s);
}

void snapshot_unref(struct snapshot *s)
{
    if (!s || --s->refs > 0) {
        return;
    }
    policy_index_free(s->policy, s->view.index);
    policy_unref(s->policy);
    shadow_index_free(s);
    for (uint32_t i = 0; i < s->view.n; i++) {
        runner_unref(s->runners[i]);
    }
    free(s);
}

int snapshot_empty(struct place_group *g)
{
    g->snap = snapshot_create(g, NULL, 0);
    if (!g->snap) {
        return FN_E_EXHAUSTED;
    }
    index_build(g->snap); /* the group may be younger than the placer */
    return 0;
}

/* Fills s->runners. An entry that stands twice is left out the second time: a runner has one place
 * in a list. */
static int runners_bind(struct place_group *g, struct snapshot *s)
{
    uint32_t n = s->view.n;
    struct place_runner *r;

    s->view.n = 0;
    g->lists++;
    for (uint32_t i = 0; i < n; i++) {
        r = runner_get(g, &s->list[i]);
        if (!r) {
            return FN_E_EXHAUSTED;
        }
        if (r->bound == g->lists) {
            runner_unref(r);
            continue;
        }
        r->bound = g->lists;
        s->runners[s->view.n] = r;
        s->list[s->view.n] = s->list[i];
        s->list[s->view.n++].since_ns = r->since_ns;
    }
    if (s->view.n < n) {
        log_warn("the pool listed runners twice; each counts once", "group", g->name, "listed",
                 log_num(n), "runners", log_num(s->view.n));
    }
    return 0;
}

static void runners_carry(struct place_group *g, struct snapshot *s)
{
    struct place_runner *r, *next;

    HASH_ITER(hh, g->runners, r, next) {
        r->listed = false;
    }
    for (uint32_t i = 0; i < s->view.n; i++) {
        r = s->runners[i];
        r->listed = true;
        r->index = i;
        s->inflight[i] = r->inflight;
        s->inflight_total += r->inflight;
    }
}

/* Makes a list the group's current snapshot. */
static int swap_in(struct place_group *g, const struct fn_runner *list, uint32_t n)
{
    struct snapshot *s = snapshot_create(g, list, n);
    struct snapshot *old;
    int r;

    if (!s) {
        return FN_E_EXHAUSTED;
    }
    r = runners_bind(g, s);
    if (r < 0) {
        snapshot_unref(s);
        return r;
    }
    index_build(s);
    runners_carry(g, s);
    links_open(g->place);
    old = g->snap;
    g->snap = s;
    metric_add(g->place->metrics.runners, (int64_t)s->view.n - old->view.n);
    snapshot_unref(old);
    return 0;
}

int snapshot_renew(struct place_group *g)
{
    const struct snapshot *s = g->snap;
    uint32_t flags = s->view.flags;
    int32_t err_code = s->view.err_code;
    int r = swap_in(g, s->list, s->view.n);

    if (r == 0) {
        g->snap->view.flags = flags;
        g->snap->view.err_code = err_code;
    }
    return r;
}

int snapshot_clear(struct place_group *g)
{
    return swap_in(g, NULL, 0);
}

int place_publish(struct place *p, const char *group, const struct fn_runner *list, uint32_t n)
{
    struct place_group *g = group_get(p, group);
    int r = g ? swap_in(g, list, n) : FN_E_EXHAUSTED;

    if (r < 0) {
        return r;
    }
    g->published_by = p->source ? p->source->seq : 0;
    group_wake(g, 64, FN_WAKE_POOL);
    log_info("runners published", "group", g->name, "runners", log_num(n), "epoch",
             log_num((int64_t)g->snap->view.epoch));
    return 0;
}

int snapshot_take(struct place *p, struct fn_snap_builder *b)
{
    int r = place_publish(p, b->group, b->list, b->n);
    const struct place_group *g = r == 0 ? group_get(p, b->group) : NULL;

    if (g && g->snap->view.n < b->n) {
        plugin_bad_answer(plugin_of(b->host), "fn.snap.publish: a runner is listed twice");
    }
    return r;
}

/* Takes the builder in any case. */
static int publish(struct place *p, struct fn_snap_builder *given)
{
    enum source_word word = source_judge(p, plugin_of(given->host));
    int r = FN_E_PRECONDITION; /* another pool is in use by now */

    if (word == SOURCE_HELD) {
        r = source_hold(p, given);
        if (r == 0) {
            return 0;
        }
    } else if (word == SOURCE_CURRENT) {
        r = snapshot_take(p, given);
    }
    snapshot_builder_free(given);
    return r;
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
    loop_take(p);
    r = publish(p, given);
    loop_give(p);
    return r;
}

static int mark_failed(struct place *p, const char *group, const struct fn_error *why)
{
    struct place_group *g = group_get(p, group);

    if (!g) {
        return FN_E_EXHAUSTED;
    }
    g->snap->view.flags |= FN_SNAP_STALE;
    g->snap->view.err_code =
        why->code < 0 && why->code >= FN_E_UNAUTHENTICATED ? why->code : FN_E_UNAVAILABLE;
    metric_add(p->metrics.pool_error, 1);
    log_warn("the pool failed; its last list stays", "group", g->name, "error",
             why->msg[0] ? why->msg : NULL);
    return 0;
}

static int snap_fail(const struct fn_host *host, const char *group, const struct fn_error *why)
{
    PLUGIN_HOST_CALL("fn.snap.fail");
    struct place *p = plugin_impl(host, "fn.snap");
    struct fn_error copy = plugin_answer_error_copy(plugin_of(host), "fn.snap.fail", why);
    int r;

    if (!plugin_answer_group(plugin_of(host), "fn.snap.fail", group)) {
        return FN_E_INVALID;
    }
    loop_take(p);
    r = source_judge(p, plugin_of(host)) == SOURCE_REFUSED ? FN_E_PRECONDITION
                                                           : mark_failed(p, group, &copy);
    loop_give(p);
    return r;
}

const struct fn_snap_if place_snap_if = {
    FN_HDR(struct fn_snap_if, FN_MAGIC_SNAP), snap_begin, snap_add, snap_publish, snap_discard,
    snap_fail,
};
