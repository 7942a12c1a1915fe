/* Unpacks messages of load balancers under limits, passes demand to core/npm's manager, and
 * sends lists to those who watch. */
#include <poolserver/service.h>

#include <base/arena.h>
#include <base/log.h>
#include <base/metric.h>
#include <rpc/wire_check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "pool.pb-c.h"
#include "poolmanager.pb-c.h"

#define IDENTITY_MAX 256
#define WATCHES_MAX 4096u
#define NOTES_MAX 16u /* of one answer */
#define WATCH_PATIENCE_NS (30 * ENV_S) /* with a watcher that reads nothing */

/* One watching load balancer; its groups are those of the request. What there is no room for is
 * due, and told as it is by then, so that a watch never has more in memory than its stream may. */
struct watch {
    LIST_ENTRY(watch) link;
    struct rpc_incoming *in;
    Fnd__WatchRequest *request;
    int64_t full_ns; /* since when there is no room; 0: there is */
    bool due[];      /* of each group of the request */
};

struct npm_service {
    struct env *env;
    struct npm_manager *manager;
    struct rpc_service table;
    LIST_HEAD(, watch) watches;
    uint32_t n_watches;
    struct log_gate strangers;
    struct log_gate label_bytes; /* too many */
};

/* ---- encoding -------------------------------------------------------------------------------- */

static void send_packed(struct rpc_incoming *in, const ProtobufCMessage *m, bool last)
{
    size_t len = protobuf_c_message_get_packed_size(m);
    uint8_t *data = malloc(len + 1);
    int r = data ? 0 : FN_E_EXHAUSTED;

    if (data) {
        protobuf_c_message_pack(m, data);
        r = rpc_incoming_send(in, data, len);
    }
    free(data);
    if (last || r < 0) {
        rpc_incoming_end(in, r < 0 ? GRPC_EXHAUSTED : GRPC_OK, r < 0 ? "out of memory" : NULL);
    }
}

/* Members of a group in order; *ret_n of them. */
static const struct npm_host **members_of(struct arena *a, const struct npm_group *g, bool draining,
                                          uint32_t *ret_n)
{
    uint32_t n = npm_host_count(g);
    const struct npm_host **list = arena_alloc(a, n * sizeof(*list));

    *ret_n = 0;
    for (uint32_t i = 0; list && i < n; i++) {
        const struct npm_host *h = npm_host_at(g, i);

        if (h->state == NPM_ACTIVE || (draining && npm_is_listed(h))) {
            list[(*ret_n)++] = h;
        }
    }
    return list;
}

static bool is_learnt(const struct npm_group *g)
{
    struct npm_figures f;

    npm_figures(g, &f);
    return f.version > 0;
}

/* Labels that are beyond it are left out: runners without labels are better than no list. */
#define LABEL_SETS_BYTES_MAX (1u << 20)

/* The texts of all sets of labels; members say the place of theirs. */
static char **label_sets_of(struct arena *a, const struct npm_group *g, struct log_gate *gate)
{
    uint32_t n = npm_labels_n(g);
    char **list = arena_alloc(a, n * sizeof(*list));
    size_t bytes = 0;

    for (uint32_t i = 0; list && i < n; i++) {
        const char *text = npm_labels_at(g, i);

        bytes += strlen(text);
        list[i] = (char *)(uintptr_t)(bytes <= LABEL_SETS_BYTES_MAX ? text : "");
    }
    if (bytes > LABEL_SETS_BYTES_MAX) {
        log_write_gated(gate, 1, FN_LOG_WARN,
                        "runners have more than 1 MiB of different labels: load balancers are not "
                        "told of all",
                        "bytes", log_num((int64_t)bytes), (char *)NULL);
    }
    return list;
}

/* A Membership as it goes to each of its watchers. */
struct packed {
    uint8_t *data; /* NULL = not packed yet, or no memory for it */
    size_t len;
};

static void membership_pack(struct npm_service *s, const char *group, struct packed *ret)
{
    const struct npm_group *g = npm_manager_group(s->manager, group);
    Fnd__Membership m = FND__MEMBERSHIP__INIT;
    const struct npm_host **hosts;
    Fnd__Member *members;
    struct npm_figures f;
    struct arena arena;
    uint32_t n;

    *ret = (struct packed){ .data = NULL };
    npm_figures(g, &f);
    arena_init(&arena, 0);
    hosts = members_of(&arena, g, true, &n);
    members = arena_alloc(&arena, n * sizeof(*members));
    m.members = arena_alloc(&arena, n * sizeof(*m.members));
    m.label_sets = label_sets_of(&arena, g, &s->label_bytes);
    if (!arena.failed) {
        for (uint32_t i = 0; i < n; i++) {
            fnd__member__init(&members[i]);
            members[i].id = (char *)(uintptr_t)hosts[i]->id;
            members[i].address = (char *)(uintptr_t)hosts[i]->address;
            members[i].capacity_mb = hosts[i]->capacity_mb;
            members[i].draining = hosts[i]->state == NPM_DRAINING;
            members[i].labels = hosts[i]->labels_1;
            m.members[i] = &members[i];
        }
        m.epoch = npm_manager_epoch(s->manager);
        m.version = f.version;
        m.group = (char *)(uintptr_t)group;
        m.n_members = n;
        m.n_label_sets = npm_labels_n(g);
        ret->data = malloc(fnd__membership__get_packed_size(&m) + 1);
    }
    if (ret->data) {
        ret->len = fnd__membership__pack(&m, ret->data);
    }
    arena_finish(&arena);
}

/* "NPM502 ...": by its code, which is as much as the label has. */
static void count_refused(const char *text)
{
    static const char *const labels[] = { "code", NULL };
    static const struct metric_def def = {
        .name = "fn_npm_demand_refused",
        .help = "Demand of load balancers that was refused, or counted for less, by the code that "
                "they are told.",
        .kind = METRIC_COUNTER,
        .labels = labels,
    };
    char code[8];
    const char *value = code;

    snprintf(code, sizeof(code), "%.6s", text);
    metric_add(metric_series(metric_declare(&def), &value), 1);
}

/* A message's groups are gone through on the loop; none has to name more than there can be. */
static bool refuse_many(struct rpc_incoming *in, size_t n_groups)
{
    char text[96];

    if (n_groups <= NPM_GROUPS_MAX) {
        return false;
    }
    snprintf(text, sizeof(text), "NPM507 the message names %zu groups; expected at most %u",
             n_groups, NPM_GROUPS_MAX);
    count_refused(text);
    rpc_incoming_end(in, GRPC_INVALID, text);
    return true;
}

static bool refuse_costly(struct rpc_incoming *in, const ProtobufCMessageDescriptor *type,
                          const void *data, size_t len)
{
    char text[96];

    if (wire_check(type, data, len) == 0) {
        return false;
    }
    snprintf(text, sizeof(text), "a message of more than %u fields, or not a %s", WIRE_FIELDS_MAX,
             type->short_name);
    rpc_incoming_end(in, GRPC_INVALID, text);
    return true;
}

static void *arena_give(void *arena, size_t size)
{
    return arena_alloc(arena, size);
}

static void arena_keep(void *arena, void *p)
{
    (void)arena;
    (void)p;
}

/* A message that lives in *arena, which the caller finishes in any case. NULL: refused. */
static void *unpack(struct rpc_incoming *in, const ProtobufCMessageDescriptor *type,
                    const void *data, size_t len, struct arena *arena)
{
    ProtobufCAllocator allocator = { arena_give, arena_keep, arena };
    char text[64];
    void *m;

    arena_init(arena, 0);
    len = data ? len : 0;
    if (refuse_costly(in, type, data, len)) {
        return NULL;
    }
    m = protobuf_c_message_unpack(type, &allocator, len, data);
    if (!m) {
        snprintf(text, sizeof(text), "not a %s", type->short_name);
        rpc_incoming_end(in, GRPC_INVALID, text);
    }
    return m;
}

/* ---- watches --------------------------------------------------------------------------------- */

static void watch_free(struct npm_service *s, struct watch *w)
{
    LIST_REMOVE(w, link);
    s->n_watches--;
    fnd__watch_request__free_unpacked(w->request, NULL);
    free(w);
}

static void watch_end(struct npm_service *s, struct watch *w, int status, const char *text)
{
    struct rpc_incoming *in = w->in;

    watch_free(s, w);
    rpc_incoming_end(in, status, text);
}

/* The group's place in the request; SIZE_MAX: it is not watched. */
static size_t watch_find(const struct watch *w, const char *group)
{
    for (size_t i = 0; i < w->request->n_groups; i++) {
        if (strcmp(w->request->groups[i], group) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* False: the watch has ended. Its load balancer begins another one, and is told all there is. */
static bool watch_send(struct npm_service *s, struct watch *w, const struct packed *m)
{
    if (!m->data || rpc_incoming_send(w->in, m->data, m->len) < 0) {
        watch_end(s, w, GRPC_EXHAUSTED, "out of memory");
        return false;
    }
    return true;
}

/* Room for one more message? If not, watch_on_room() follows. */
static bool watch_has_room(struct npm_service *s, struct watch *w)
{
    bool room = rpc_incoming_has_room(w->in);

    if (room) {
        w->full_ns = 0;
    } else if (w->full_ns == 0) {
        w->full_ns = env_now_ns(s->env);
    }
    return room;
}

/* Tells of the groups that are due, as far as there is room. */
static void watch_tell_due(struct npm_service *s, struct watch *w)
{
    for (size_t i = 0; i < w->request->n_groups; i++) {
        struct packed m;
        bool lives;

        if (!w->due[i]) {
            continue;
        }
        if (!watch_has_room(s, w)) {
            return;
        }
        w->due[i] = false;
        membership_pack(s, w->request->groups[i], &m);
        lives = watch_send(s, w, &m);
        free(m.data);
        if (!lives) {
            return;
        }
    }
}

static void watch_on_room(void *ud, struct rpc_incoming *in)
{
    struct watch *w = rpc_incoming_get(in);

    if (w) {
        w->full_ns = 0; /* it reads */
        watch_tell_due(ud, w);
    }
}

/* The i-th group has other members, which are in *m as soon as somebody has room for them. */
static void watch_published(struct npm_service *s, struct watch *w, size_t i, struct packed *m)
{
    if (watch_has_room(s, w)) {
        if (!m->data) {
            membership_pack(s, w->request->groups[i], m);
        }
        w->due[i] = false;
        watch_send(s, w, m);
    } else if (env_now_ns(s->env) - w->full_ns <= WATCH_PATIENCE_NS) {
        w->due[i] = true;
    } else {
        log_stranger(FN_LOG_WARN,
                     "a load balancer does not read its membership: its watch is ended", "lb",
                     w->request->lb_id);
        watch_end(s, w, GRPC_EXHAUSTED, "the watcher is too slow");
    }
}

void npm_service_published(struct npm_service *s, const char *group)
{
    struct packed m = { .data = NULL };
    struct watch *w, *next;

    for (w = LIST_FIRST(&s->watches); w; w = next) {
        size_t i = watch_find(w, group);

        next = LIST_NEXT(w, link);
        if (i != SIZE_MAX) {
            watch_published(s, w, i, &m);
        }
    }
    free(m.data);
}

/* What a watch keeps, for as long as its load balancer likes. */
static void keep_known(struct npm_service *s, Fnd__WatchRequest *q)
{
    size_t n = 0;

    for (size_t i = 0; i < q->n_groups; i++) {
        if (npm_manager_group(s->manager, q->groups[i])) {
            q->groups[n++] = q->groups[i];
        } else {
            free(q->groups[i]);
        }
    }
    q->n_groups = n;
}

static void watch_begin(struct npm_service *s, struct watch *w, struct rpc_incoming *in,
                        Fnd__WatchRequest *q)
{
    keep_known(s, q);
    w->in = in;
    w->request = q;
    rpc_incoming_set(in, w);
    LIST_INSERT_HEAD(&s->watches, w, link);
    s->n_watches++;
    for (size_t i = 0; i < q->n_groups; i++) {
        w->due[i] = is_learnt(npm_manager_group(s->manager, q->groups[i]));
    }
    watch_tell_due(s, w);
}

/* Unknown groups are passed over, or one function's word about its group would cost the others
 * theirs; the answer to demand tells of them. */
static void on_watch(void *ud, struct rpc_incoming *in, const void *data, size_t len)
{
    struct npm_service *s = ud;
    Fnd__WatchRequest *q;
    struct watch *w;

    len = data ? len : 0;
    if (refuse_costly(in, &fnd__watch_request__descriptor, data, len)) {
        return;
    }
    q = fnd__watch_request__unpack(NULL, len, data);
    if (q && refuse_many(in, q->n_groups)) {
        fnd__watch_request__free_unpacked(q, NULL);
        return;
    }
    w = q && s->n_watches < WATCHES_MAX ? calloc(1, sizeof(*w) + q->n_groups * sizeof(*w->due))
                                        : NULL;
    if (!w) {
        rpc_incoming_end(in, q ? GRPC_EXHAUSTED : GRPC_INVALID,
                         q ? "too many watches" : "not a WatchRequest");
        fnd__watch_request__free_unpacked(q, NULL);
        return;
    }
    watch_begin(s, w, in, q);
}

static void service_on_gone(void *ud, struct rpc_incoming *in)
{
    struct watch *w = rpc_incoming_get(in);

    if (w) {
        watch_free(ud, w);
    }
}

/* ---- demand ---------------------------------------------------------------------------------- */

/* The certificate's name, or its last part ("spiffe://fnd/lb/lb-7"), must be the id. */
static bool may_speak_for(const struct rpc_incoming *in, const char *lb_id, char *ret, size_t cap)
{
    const char *slash;

    if (!rpc_incoming_identity(in, ret, cap)) {
        return true;
    }
    slash = strrchr(ret, '/');
    return strcmp(ret, lb_id) == 0 || (slash && strcmp(slash + 1, lb_id) == 0);
}

static bool refuse_stranger(struct npm_service *s, struct rpc_incoming *in, const char *lb_id)
{
    char name[IDENTITY_MAX];
    char text[2 * IDENTITY_MAX];

    if (may_speak_for(in, lb_id, name, sizeof(name))) {
        return false;
    }
    snprintf(text, sizeof(text), "NPM503 certificate is %.200s, message says %.64s", name, lb_id);
    count_refused(text);
    log_write_gated(&s->strangers, 1, FN_LOG_WARN, "demand refused", "error", text, (char *)NULL);
    rpc_incoming_end(in, GRPC_PERMISSION, text);
    return true;
}

/* What load balancers say once a minute must not hide behind what is said of one group. */
static void most_urgent_first(Fnd__DemandNote **list, const struct fn_error *errors, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (errors[i].code == FN_E_EXISTS) {
            Fnd__DemandNote *first = list[0];

            list[0] = list[i];
            list[i] = first;
            return;
        }
    }
}

/* An answer while it is put together. */
struct answer {
    Fnd__DemandAnswer message;
    Fnd__DemandNote notes[NOTES_MAX], states[NOTES_MAX];
    Fnd__DemandNote *note_list[NOTES_MAX], *state_list[NOTES_MAX];
    struct fn_error errors[NOTES_MAX];
    char says[NOTES_MAX][NPM_EXPLAIN_MAX];
};

static Fnd__DemandNote *put_note(Fnd__DemandNote *at, char *group, char *text)
{
    fnd__demand_note__init(at);
    at->group = group;
    at->text = text;
    return at;
}

/* The last place is for the last objection. */
static void add_objection(struct answer *a, struct npm_service *s, const struct npm_demand *d,
                          char *group)
{
    size_t k = a->message.n_notes < NOTES_MAX ? a->message.n_notes : NOTES_MAX - 1;

    a->errors[k] = ERR_INIT;
    if (npm_manager_demand(s->manager, d, &a->errors[k]) != 0) {
        count_refused(a->errors[k].msg);
        a->note_list[k] = put_note(&a->notes[k], group, a->errors[k].msg);
        a->message.n_notes = k + 1;
    }
}

/* Why its calls wait. */
static void add_state(struct answer *a, struct npm_service *s, const struct npm_demand *d,
                      char *group)
{
    const struct npm_group *g = npm_manager_group(s->manager, d->group);
    size_t k = a->message.n_states;

    if (g && d->waiting > 0 && k < NOTES_MAX) {
        npm_explain(g, env_now_ns(s->env), a->says[k], sizeof(a->says[k]));
        a->state_list[k] = put_note(&a->states[k], group, a->says[k]);
        a->message.n_states = k + 1;
    }
}

static void take_demand(struct npm_service *s, struct rpc_incoming *in, const Fnd__Demand *d)
{
    struct answer a = { .message = FND__DEMAND_ANSWER__INIT };

    for (size_t i = 0; i < d->n_groups; i++) {
        const Fnd__GroupDemand *g = d->groups[i];
        const struct npm_demand said = { .lb_id = d->lb_id,
                                         .group = g->group,
                                         .incarnation = d->incarnation,
                                         .seq = d->seq,
                                         .mb = g->mem_mb,
                                         .waiting = g->waiting };

        add_objection(&a, s, &said, g->group);
        add_state(&a, s, &said, g->group);
    }
    most_urgent_first(a.note_list, a.errors, a.message.n_notes);
    a.message.notes = a.note_list;
    a.message.states = a.state_list;
    send_packed(in, &a.message.base, true);
}

static void on_advertise(void *ud, struct rpc_incoming *in, const void *data, size_t len)
{
    struct npm_service *s = ud;
    struct arena arena;
    const Fnd__Demand *d = unpack(in, &fnd__demand__descriptor, data, len, &arena);

    if (d && !refuse_many(in, d->n_groups) && !refuse_stranger(s, in, d->lb_id)) {
        take_demand(s, in, d);
    }
    arena_finish(&arena);
}

/* Historic load balancers: no sequence, and unknown groups are passed over as they cannot be
 * told. */
static void take_snapshots(struct npm_service *s, struct rpc_incoming *in,
                           const CapacitySnapshotList *list)
{
    struct fn_error e = ERR_INIT, first = ERR_INIT;

    for (size_t i = 0; i < list->n_snapshots; i++) {
        const CapacitySnapshot *c = list->snapshots[i];
        const struct npm_demand said = { .lb_id = list->lb_id,
                                         .group = c->group_id ? c->group_id->id : "",
                                         .mb = c->mem_mb_total };

        int r = npm_manager_demand(s->manager, &said, &e);

        if (r != 0) {
            count_refused(e.msg);
        }
        if (r < 0 && !first.msg[0]) {
            first = e;
        }
    }
    if (first.msg[0]) {
        rpc_incoming_end(in, -first.code, first.msg);
    } else {
        rpc_incoming_send(in, "", 0); /* google.protobuf.Empty */
        rpc_incoming_end(in, GRPC_OK, NULL);
    }
}

static void on_advertise_historic(void *ud, struct rpc_incoming *in, const void *data, size_t len)
{
    struct npm_service *s = ud;
    struct arena arena;
    const CapacitySnapshotList *list =
        unpack(in, &capacity_snapshot_list__descriptor, data, len, &arena);

    if (list && !refuse_many(in, list->n_snapshots) && !refuse_stranger(s, in, list->lb_id)) {
        take_snapshots(s, in, list);
    }
    arena_finish(&arena);
}

/* ---- membership, historic -------------------------------------------------------------------- */

static void answer_group(struct npm_service *s, struct rpc_incoming *in, LBGroupId *id,
                         struct arena *arena)
{
    const struct npm_group *g = npm_manager_group(s->manager, id->id);
    LBGroupMembership m = LBGROUP_MEMBERSHIP__INIT;
    const struct npm_host **hosts;
    Runner *runners;
    uint32_t n = 0;

    if (!g) {
        rpc_incoming_end(in, GRPC_NOT_FOUND, "NPM502 unknown group; expected one of npm.groups");
        return;
    }
    if (!is_learnt(g)) {
        /* An empty answer would make a historic load balancer drop every runner. */
        rpc_incoming_end(in, GRPC_UNAVAILABLE, "NPM505 the group is not learnt yet");
        return;
    }
    hosts = members_of(arena, g, false, &n);
    runners = arena_alloc(arena, n * sizeof(*runners));
    m.runners = arena_alloc(arena, n * sizeof(*m.runners));
    if (arena->failed) {
        rpc_incoming_end(in, GRPC_EXHAUSTED, "out of memory");
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        runner__init(&runners[i]);
        runners[i].address = (char *)(uintptr_t)hosts[i]->address;
        m.runners[i] = &runners[i];
    }
    m.group_id = id;
    m.n_runners = n;
    send_packed(in, &m.base, true);
}

static void on_get_group(void *ud, struct rpc_incoming *in, const void *data, size_t len)
{
    struct arena arena;
    LBGroupId *id = unpack(in, &lbgroup_id__descriptor, data, len, &arena);

    if (id) {
        answer_group(ud, in, id, &arena);
    }
    arena_finish(&arena);
}

/* ---- life ------------------------------------------------------------------------------------ */

static const struct rpc_method methods[] = {
    { "/fnd.Pool/Advertise", on_advertise },
    { "/fnd.Pool/Watch", on_watch },
    { "/NodePoolScaler/AdvertiseCapacity", on_advertise_historic },
    { "/RunnerManager/GetLBGroup", on_get_group },
    { NULL, NULL },
};

int npm_service_create(struct env *env, struct npm_manager *m, struct npm_service **ret,
                       struct fn_error *reterr)
{
    struct npm_service *s = calloc(1, sizeof(*s));

    if (!s) {
        return err_set(reterr, FN_E_EXHAUSTED, "out of memory");
    }
    s->env = env;
    s->manager = m;
    s->table = (struct rpc_service){ methods, service_on_gone, s, watch_on_room };
    LIST_INIT(&s->watches);
    *ret = s;
    return 0;
}

const struct rpc_service *npm_service_table(const struct npm_service *s)
{
    return &s->table;
}

void npm_service_close(struct npm_service *s)
{
    struct watch *w;

    while ((w = LIST_FIRST(&s->watches))) {
        watch_end(s, w, GRPC_UNAVAILABLE, "the node pool manager stops");
    }
}

void npm_service_destroy(struct npm_service *s)
{
    struct watch *w;

    if (!s) {
        return;
    }
    while ((w = LIST_FIRST(&s->watches))) {
        watch_free(s, w);
    }
    free(s);
}
