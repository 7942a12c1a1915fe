/* Suite "control-plane": fn/cplane.h. */
#include "outside.h"
#include "suites.h"
#include "world.h"

#include <stdio.h>
#include <string.h>

#define TIMEOUT (30 * ENV_S)
#define MACHINES_MAX 256
#define WORLD_TURNS_MIN 5 /* what must not happen has that long to happen */
#define WORLD_TURNS  1200 /* that the world has for what a cloud does in 600 s */

struct listing {
    uint32_t n;
    int result;
    uint32_t refuse_at; /* the n-th add() fails; 0 = none */
    bool closed;
    char ids[MACHINES_MAX][256];
};

static int take(void *ud, const struct fn_machine *m)
{
    struct listing *l = ud;
    const char *labels = NULL;

    HOST_CALL();
    must_be_in(IN_WORKER, "the list's add");
    if (l->closed) {
        violation("the list's add() was called after list() had returned");
    }
    if (!m || m->size < 16 || !m->id || !m->id[0] || strlen(m->id) > 255) {
        violation("list() reported a machine without a usable id; expected 1 to 255 characters");
        return FN_E_INVALID;
    }
    for (const char *c = m->id; *c; c++) {
        if (*c < 0x20 || *c > 0x7e) {
            violation("list() reported an id with byte 0x%02x; expected printable characters",
                      (unsigned char)*c);
        }
    }
    if (m->size >= offsetof(struct fn_machine, labels) + sizeof(m->labels)) {
        labels = m->labels;
    }
    if (m->state < FN_MACHINE_STARTING || m->state > FN_MACHINE_GONE) {
        violation("list() reported machine %.40s in state %u; expected 1 to 3", m->id, m->state);
    }
    if (m->state == FN_MACHINE_READY && (!m->address || !m->address[0])) {
        violation("list() reported machine %.40s as ready without an address", m->id);
    }
    if (fn_labels_fault(labels)) {
        violation("list() reported machine %.40s with labels %.64s; expected %s", m->id, labels,
                  fn_labels_fault(labels));
    }
    for (uint32_t i = 0; i < l->n && i < MACHINES_MAX; i++) {
        if (strcmp(l->ids[i], m->id) == 0) {
            violation("list() reported machine %.40s twice", m->id);
        }
    }
    if (l->n < MACHINES_MAX) {
        snprintf(l->ids[l->n], sizeof(l->ids[0]), "%s", m->id);
    }
    l->n++;
    trace_text(m->id);
    trace_u64(m->state);
    return l->refuse_at && l->n >= l->refuse_at ? FN_E_EXHAUSTED : 0;
}

static struct fn_op op_default(void)
{
    return op_for(TIMEOUT);
}

/* One call of a method, with its arguments and answers. */
struct call {
    struct instance *in;
    const char *group;
    const struct fn_machine_sink *sink;
    const char *id;
    uint64_t request;
    uint32_t n;
    uint32_t accepted;
    int result;
    struct fn_error error;
};

static void call_list(void *ud, struct fn_op *op)
{
    const struct fn_cplane_ops *ops = subject.factory->ops;
    struct call *c = ud;

    c->result = ops->list(c->in->inst, op, c->group, c->sink, reterr_of(&c->error));
}

static void call_claim(void *ud, struct fn_op *op)
{
    const struct fn_cplane_ops *ops = subject.factory->ops;
    struct call *c = ud;

    c->result = ops->claim(c->in->inst, op, c->group, reterr_of(&c->error));
}

static void call_provision(void *ud, struct fn_op *op)
{
    const struct fn_cplane_ops *ops = subject.factory->ops;
    struct call *c = ud;

    c->result =
        ops->provision(c->in->inst, op, c->group, c->n, c->request, &c->accepted,
                       reterr_of(&c->error));
}

static void call_remove(void *ud, struct fn_op *op)
{
    const struct fn_cplane_ops *ops = subject.factory->ops;
    struct call *c = ud;

    c->result = ops->remove(c->in->inst, op, c->group, c->id, reterr_of(&c->error));
}

/* The group of the cases, and in the world one that is nobody else's. */
static const char *home(void)
{
    return subject.world ? WORLD_GROUP : "default";
}

static uint64_t request(uint64_t id)
{
    return subject.world ? world_unique(id) : id;
}

/* As a host does before each list. */
static void claim(struct instance *in, struct fn_op *op, const char *group)
{
    const struct fn_cplane_ops *ops = subject.factory->ops;
    struct call c = {.in = in, .group = group, .error = ERR_INIT};

    if (!FN_HAS(ops, claim) || !ops->claim) {
        return;
    }
    on_worker(in, "claim", op, call_claim, &c);
    if (c.result <= 0) {
        must_be_result("claim", c.result, &c.error);
    }
    must(c.result <= 1, "claim() returned %d; expected 0, 1 or an error", c.result);
    must(c.result != 1 || is_told(&c.error),
         "claim() returned 1 without a text; expected one sentence that names who acts");
    must_be_in_time("claim", op);
}

static int list(struct instance *in, struct fn_op *op, const char *group, struct listing *l)
{
    const struct fn_machine_sink sink = {{sizeof(sink), FN_MAGIC_MACHINE_SINK}, take, l};
    struct call c = {.in = in, .group = group, .sink = &sink, .error = ERR_INIT};
    const struct fn_error *const said = &c.error;

    l->n = 0;
    l->closed = false;
    claim(in, op, group);
    on_worker(in, "list", op, call_list, &c);
    l->result = c.result;
    l->closed = true;
    must_be_result("list", l->result, said);
    must(l->result == 0 || is_told(said) || l->result == FN_E_EXHAUSTED,
         "list() failed without a text; expected one sentence in reterr");
    must(!l->refuse_at || l->n < l->refuse_at || l->result == FN_E_EXHAUSTED,
         "list() returned %d although add() had failed with %d; expected list() to return that: a "
         "list is complete or an error",
         l->result, FN_E_EXHAUSTED);
    must_be_in_time("list", op);
    trace_u64((uint64_t)(int64_t)l->result);
    return l->result;
}

static int provision(struct instance *in, struct fn_op *op, const char *group, uint32_t n,
                     uint64_t id, uint32_t *ret)
{
    struct call c = {.in = in, .group = group, .n = n, .request = request(id),
                     .accepted = 0xdeadbeef, .error = ERR_INIT};
    uint32_t accepted;
    int r;

    on_worker(in, "provision", op, call_provision, &c);
    r = c.result;
    accepted = c.accepted;
    must_be_result("provision", r, &c.error);
    must(r == 0 || accepted == 0xdeadbeef,
         "provision() failed and wrote ret_accepted; ret_* parameters are written only on success");
    must(r != 0 || accepted <= n, "provision() of %u accepted %u; expected at most %u", n, accepted,
         n);
    must(r == 0 || is_told(&c.error) || r == FN_E_EXHAUSTED,
         "provision() failed without a text; expected one sentence in reterr");
    must_be_in_time("provision", op);
    trace_u64((uint64_t)(int64_t)r);
    trace_u64(r == 0 ? accepted : 0);
    *ret = r == 0 ? accepted : 0;
    return r;
}

static int removal(struct instance *in, struct fn_op *op, const char *group, const char *id)
{
    struct call c = {.in = in, .group = group, .id = id, .error = ERR_INIT};
    int r;

    on_worker(in, "remove", op, call_remove, &c);
    r = c.result;
    must_be_result("remove", r, &c.error);
    must(r == 0 || is_told(&c.error) || r == FN_E_EXHAUSTED,
         "remove() failed without a text; expected one sentence in reterr");
    must_be_in_time("remove", op);
    trace_u64((uint64_t)(int64_t)r);
    return r;
}

void cplane_exercise(struct instance *in, bool tolerant)
{
    struct listing l = {0};
    struct fn_op op = op_default();
    uint32_t accepted = 0;
    uint32_t i;

    (void)tolerant;
    list(in, &op, "default", &l);
    for (i = 0; i < 4; i++) {
        op = op_default();
        provision(in, &op, i % 2 ? "blue" : "default", i, 100 + i, &accepted);
        clock_advance(20 * ENV_S);
    }
    op = op_default();
    if (list(in, &op, "default", &l) == 0) {
        for (i = 0; i < l.n && i < 4; i++) {
            op = op_default();
            removal(in, &op, "default", l.ids[i]);
        }
    }
    op = op_default();
    removal(in, &op, "default", "no-such-machine");
}

static uint32_t count(struct instance *in, struct listing *l)
{
    struct fn_op op = op_default();
    int r = list(in, &op, home(), l);

    must(r == 0, "list() failed: %s; expected a list", err_name(r));
    return l->n;
}

static bool has(const struct listing *l, const char *id)
{
    for (uint32_t i = 0; id && i < l->n && i < MACHINES_MAX; i++) {
        if (strcmp(l->ids[i], id) == 0) {
            return true;
        }
    }
    return false;
}

/* Ten minutes: until that many machines are there, and without one. The world may be faster. */
static void wait_for(struct instance *in, uint32_t n, const char *without)
{
    struct listing l = {0};

    if (!subject.world) {
        clock_advance(600 * ENV_S);
        return;
    }
    for (int i = 0; i < WORLD_TURNS; i++) {
        world_pause();
        if (count(in, &l) >= n && !has(&l, without) && i >= WORLD_TURNS_MIN) {
            return;
        }
    }
}

/* In the world, nothing of an earlier run may be there, and nothing stays. */
static void give_back(struct instance *in)
{
    struct listing l = {0};
    struct fn_op op;
    int i;

    for (i = 0; i < WORLD_TURNS && count(in, &l) > 0; i++) {
        for (uint32_t k = 0; k < l.n && k < MACHINES_MAX; k++) {
            op = op_default();
            removal(in, &op, home(), l.ids[k]);
        }
        world_pause();
    }
    must(i < WORLD_TURNS, "%u machines of group %s are listed two minutes after they were removed",
         l.n, home());
}

static struct instance *begin(void)
{
    struct listing l = {0};
    struct instance *in;
    struct fn_op op;
    struct call c;

    if (!subject.world) {
        return instance_new();
    }
    in = world_instance();
    op = op_default();
    c = (struct call){.in = in, .group = home(), .error = ERR_INIT};
    c.sink = &(struct fn_machine_sink){{sizeof(*c.sink), FN_MAGIC_MACHINE_SINK}, take, &l};
    on_worker(in, "list", &op, call_list, &c);
    if (c.result < 0) {
        skip("not in this world: list(): %s %.150s", err_name(c.result), c.error.msg);
    }
    give_back(in);
    return in;
}

static void end(struct instance *in)
{
    if (subject.world) {
        give_back(in);
    }
    instance_destroy(in);
}

/* Its cloud may need a script: without one, what cannot be bought cannot be tested. */
static uint32_t buy(struct instance *in, uint32_t n, uint64_t id)
{
    struct fn_op op = op_default();
    uint32_t accepted = 0;

    if (provision(in, &op, home(), n, id, &accepted) < 0 || accepted == 0) {
        skip("provision() buys nothing here: what it runs has no script");
    }
    if (shared->unscripted[0]) {
        skip("what it runs has no script: nobody knows what it has");
    }
    wait_for(in, accepted, NULL);
    return accepted;
}

static void test_request_twice(void)
{
    struct instance *in = begin();
    struct listing l = {0};
    struct fn_op op;
    uint32_t first = buy(in, 2, 7);
    uint32_t have = count(in, &l);
    uint32_t again = 0;

    op = op_default();
    must(provision(in, &op, home(), 2, 7, &again) == 0,
         "provision() with a repeated request_id failed; expected the answer of the first time");
    must(again == first,
         "provision() with a repeated request_id accepted %u; expected %u as the "
         "first time",
         again, first);
    wait_for(in, have, NULL);
    must(count(in, &l) == have,
         "a repeated request_id bought %d machines more; expected nothing to be bought twice",
         (int)(l.n - have));
    op = op_default();
    must(provision(in, &op, home(), 1, 8, &again) == 0, "a second request failed");
    end(in);
}

static void test_appears(void)
{
    struct instance *in = begin();
    struct listing l = {0};
    uint32_t accepted = buy(in, 3, 9);

    must(count(in, &l) >= accepted,
         "%u machines were accepted, %u are listed 600 s later; expected all of them", accepted,
         l.n);
    end(in);
}

static void test_remove_twice(void)
{
    struct instance *in = begin();
    struct listing l = {0};
    struct fn_op op;
    char id[256];

    buy(in, 2, 11);
    count(in, &l);
    must(l.n > 0, "no machine is listed after two were accepted");
    snprintf(id, sizeof(id), "%s", l.ids[0]);
    for (int i = 0; i < 3; i++) {
        int r;

        step("remove() of the same machine, %d. time", i + 1);
        op = op_default();
        r = removal(in, &op, home(), id);
        must(r == 0,
             "remove() of the same machine failed the %d. time: %s; expected 0, \"not "
             "there\" is success",
             i + 1, err_name(r));
    }
    wait_for(in, 0, id);
    count(in, &l);
    for (uint32_t i = 0; i < l.n; i++) {
        struct fn_op gone;

        if (strcmp(l.ids[i], id) == 0) {
            gone = op_default();
            list(in, &gone, home(), &l);
            broken("machine %.60s is still listed 600 s after it was removed", id);
        }
    }
    end(in);
}

static void test_remove_unknown(void)
{
    static const char *const ids[] = {"no-such-machine", "", "../../etc/passwd", "a b;c"};
    struct instance *in = begin();
    struct listing l = {0};
    uint32_t have;
    struct fn_op op = op_default();
    int r;

    if (list(in, &op, home(), &l) < 0) {
        skip("list() fails here: what it runs has no script");
    }
    have = l.n;
    for (size_t i = 0; i < 4; i++) {
        step("remove() of \"%s\"", ids[i]);
        op = op_default();
        r = removal(in, &op, home(), ids[i]);
        must(r == 0 || i > 0, "remove() of a machine that does not exist failed: %s; expected 0",
             err_name(r));
    }
    must(count(in, &l) == have, "remove() of an unknown machine changed the list from %u to %u",
         have, l.n);
    end(in);
}

static void test_groups(void)
{
    struct instance *in = begin();
    struct listing l = {0};
    struct fn_op op;

    buy(in, 2, 21);
    op = op_default();
    if (list(in, &op, "another-group", &l) == 0) {
        must(l.n == 0, "a group that nothing was bought for lists %u machines; expected 0", l.n);
    }
    end(in);
}

static void test_list_stops(void)
{
    struct instance *in = begin();
    struct listing l = {.refuse_at = 2};
    struct fn_op op;

    buy(in, 4, 31);
    op = op_default();
    step("the second add() fails");
    list(in, &op, home(), &l);
    must(l.n <= 2, "list() went on to machine %u after add() had failed; expected it to stop", l.n);
    end(in);
}

static void test_nothing_bought(void)
{
    struct instance *in = begin();
    struct listing l = {0};
    struct fn_op op = op_default();
    uint32_t accepted = 0;
    uint32_t have;

    if (list(in, &op, home(), &l) < 0) {
        skip("list() fails here: what it runs has no script");
    }
    have = l.n;
    op = op_default();
    step("provision() of 0 machines");
    provision(in, &op, home(), 0, 41, &accepted);
    wait_for(in, have, NULL);
    must(count(in, &l) == have, "provision() of 0 machines changed the list from %u to %u", have,
         l.n);
    end(in);
}

static void all_methods(struct instance *in, struct fn_op op, uint64_t id)
{
    struct listing l = {0};
    struct fn_op mine = op;
    uint32_t accepted = 0;

    list(in, &mine, home(), &l);
    mine = op_for(0);
    mine.deadline_ns = op.deadline_ns == INT64_MAX ? INT64_MAX : clock_now() + TIMEOUT;
    mine.cancel_at_ns = op.cancel_at_ns == INT64_MAX ? INT64_MAX : clock_now() + 5 * ENV_S;
    provision(in, &mine, home(), 2, id, &accepted);
    mine.deadline_ns = op.deadline_ns == INT64_MAX ? INT64_MAX : clock_now() + TIMEOUT;
    mine.cancel_at_ns = op.cancel_at_ns == INT64_MAX ? INT64_MAX : clock_now() + 5 * ENV_S;
    removal(in, &mine, home(), "machine-1");
}

static void test_outside(void)
{
    for (int mode = 0; mode < OUTSIDE_MODES_N; mode++) {
        struct instance *in = instance_new();

        step("its cloud %s", outside_mode_names[mode]);
        outside_mode((enum outside_mode)mode);
        for (uint64_t i = 0; i < 10; i++) {
            all_methods(in, op_default(), 50 + i);
        }
        must(outside_open_answers() == 0, "%u answers of fn.http or fn.exec were not released",
             outside_open_answers());
        instance_destroy(in);
    }
}

static void test_deadline(void)
{
    struct instance *in = instance_new();

    step("its cloud answers nothing before the deadline");
    outside_mode(OUTSIDE_SLOW);
    all_methods(in, op_default(), 60);
    instance_destroy(in);
}

static void test_cancel(void)
{
    struct instance *in = begin();
    struct fn_op op = op_default();

    step("the operation is cancelled after 5 s");
    outside_mode(OUTSIDE_SLOW);
    op.cancel_at_ns = clock_now() + 5 * ENV_S;
    all_methods(in, op, 70);
    step("the operation was cancelled before it began");
    op = op_default();
    op.cancel_at_ns = clock_now();
    all_methods(in, op, 71);
    end(in);
}

static const struct contract_case cases[] = {
    { "control-plane", "request-twice", "a repeated request_id buys nothing twice",
      test_request_twice, ALSO_WORLD },
    { "control-plane", "appears", "accepted machines appear in list()", test_appears, ALSO_WORLD },
    { "control-plane", "remove-twice", "remove() is idempotent", test_remove_twice, ALSO_WORLD },
    { "control-plane", "remove-unknown",
      "remove() of what is not there succeeds and changes nothing", test_remove_unknown,
      ALSO_WORLD },
    { "control-plane", "groups", "groups do not see each other's machines", test_groups,
      ALSO_WORLD },
    { "control-plane", "list-stops", "list() is complete or an error: it stops when add() fails",
      test_list_stops, ALSO_WORLD },
    { "control-plane", "nothing-bought", "provision() of 0 buys nothing", test_nothing_bought,
      ALSO_WORLD },
    { "control-plane", "outside", "its cloud may be down, slow, silent or answer garbage", test_outside,
      0 },
    { "control-plane", "deadline", "methods end at their deadline", test_deadline, 0 },
    { "control-plane", "cancel", "methods end when they are cancelled", test_cancel, ALSO_WORLD },
};

struct contract_list cplane_cases(void)
{
    return (struct contract_list){cases, sizeof(cases) / sizeof(cases[0])};
}
