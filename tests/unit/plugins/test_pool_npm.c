/* pool/npm: the wire, lists that come in, and the talk with the manager. */
#include <hash.h>
#include <link.h>

#include <check.h>
#include <poor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S 1000000000LL

static struct groups groups;
static struct group *g;

static void setup(void)
{
    memset(&groups, 0, sizeof(groups));
    g = groups_get(&groups, "default", 0);
}

static void teardown(void)
{
    groups_finish(&groups);
}

/* ---- wire ------------------------------------------------------------------------------------ */

/* Field by field as protobuf writes it; npm_service decodes the same with protobuf-c. */
START_TEST(demand_is_encoded_as_protobuf)
{
    static const unsigned char expected[] = "\x0a\x04lb-7\x10\xac\x02\x20\x05\x1a\x10\x0a\x07"
                                            "default\x10\x80\x01\x18\x03\x20\x01";
    struct wire_out o = { NULL, 0, 0, 0 };
    const struct wire_demand d = { "default", 128, 3, 1 };

    wire_demand_begin(&o, "lb-7", 300, 5);
    wire_demand_add(&o, &d);
    ck_assert_uint_eq(o.len, sizeof(expected) - 1);
    ck_assert_int_eq(memcmp(o.data, expected, o.len), 0);
    wire_finish(&o);
}
END_TEST

START_TEST(notes_of_both_kinds_are_read)
{
    static const unsigned char answer[] = "\x0a\x06\x0a\x01g\x12\x01n"
                                          "\x12\x09\x0a\x01h\x12\x04says"
                                          "\x12\x06\x0a\x01i\x12\x01t";
    struct wire_note note;

    ck_assert_int_eq(wire_read_note(answer, sizeof(answer) - 1, WIRE_OBJECTION, &note), 0);
    ck_assert_str_eq(note.text, "n");
    ck_assert_int_eq(wire_read_note(answer, sizeof(answer) - 1, WIRE_STATE, &note), 0);
    ck_assert_str_eq(note.group, "h");
    ck_assert_str_eq(note.text, "says");
    ck_assert_int_eq(wire_read_note("", 0, WIRE_STATE, &note), 0);
    ck_assert_str_eq(note.text, "");
    ck_assert_int_eq(wire_read_note("\x12\x09\x0a", 3, WIRE_STATE, &note), -1);
}
END_TEST

static const unsigned char membership[] = "\x08\x07\x10\x09\x1a\x07"
                                          "default\x22\x0e\x0a\x02m1\x12\x03h:1\x18\x80\x20\x20\x01"
                                          "\x22\x09\x0a\x02m2\x12\x03h:2";

START_TEST(a_membership_is_read)
{
    struct wire_members in = wire_members(membership, sizeof(membership) - 1, 0);
    struct wire_head head;
    struct wire_member m;

    ck_assert_int_eq(wire_read_head(membership, sizeof(membership) - 1, &head), 0);
    ck_assert_uint_eq(head.epoch, 7);
    ck_assert_uint_eq(head.version, 9);
    ck_assert_str_eq(head.group, "default");
    ck_assert_int_eq(wire_next_member(&in, &m), 1);
    ck_assert_str_eq(m.id, "m1");
    ck_assert_str_eq(m.address, "h:1");
    ck_assert_uint_eq(m.capacity_mb, 4096);
    ck_assert_int_eq(m.draining, 1);
    ck_assert_int_eq(wire_next_member(&in, &m), 1);
    ck_assert_str_eq(m.id, "m2");
    ck_assert_int_eq(m.draining, 0);
    ck_assert_int_eq(wire_next_member(&in, &m), 0);
}
END_TEST

static void read_whole(const unsigned char *data, size_t len)
{
    struct wire_members in = wire_members(data, len, 0);
    struct wire_head head;
    struct wire_member m;
    int n = 0;

    wire_read_head(data, len, &head);
    while (wire_next_member(&in, &m) > 0) {
        n++;
    }
    ck_assert_int_le(n, 4);
}

/* Every cut and every changed byte: read or refused, nothing else. */
START_TEST(broken_memberships_are_refused)
{
    size_t len = sizeof(membership) - 1;

    for (size_t cut = 0; cut < len; cut++) {
        unsigned char *copy = malloc(cut + 1);

        memcpy(copy, membership, cut);
        read_whole(copy, cut);
        free(copy);
    }
    for (size_t i = 0; i < len * 256; i++) {
        unsigned char *copy = malloc(len);

        memcpy(copy, membership, len);
        copy[i / 256] = (unsigned char)i;
        read_whole(copy, len);
        free(copy);
    }
}
END_TEST

/* ---- intake: with a host that only has a clock, a timer, a log and a list -------------------- */

static struct {
    struct fn_host host;
    struct intake intake;
    void (*due)(void *ud); /* the timer */
    void *due_ud;
    uint32_t begun, adding, published, last_n, warned, lost;
    int refuses; /* lists */
    const char *group; /* of the last list */
    uint64_t last_ids; /* sum of the ids of the last list */
    uint64_t ids;
    char labels[128]; /* of the first ones of the list */
} h;

static int64_t h_now(const struct fn_host *host)
{
    (void)host;
    return S;
}

static int h_arm(const struct fn_host *host, int64_t at_ns, void (*cb)(void *ud), void *ud,
                 uint64_t *ret_id)
{
    (void)host;
    ck_assert_int_gt(at_ns, S); /* not in this turn */
    ck_assert_ptr_null(h.due);
    h.due = cb;
    h.due_ud = ud;
    *ret_id = 1;
    return 0;
}

static int h_cancel(const struct fn_host *host, uint64_t id)
{
    (void)host;
    ck_assert_uint_eq(id, 1);
    h.due = NULL;
    return 0;
}

static void h_write(const struct fn_host *host, uint32_t level, const char *msg, size_t len)
{
    (void)host;
    (void)msg;
    (void)len;
    h.warned += level == FN_LOG_WARN;
}

static int h_begin(const struct fn_host *host, const char *group, struct fn_snap_builder **ret)
{
    (void)host;
    h.group = group;
    if (h.refuses) {
        return FN_E_EXHAUSTED;
    }
    h.begun++;
    h.adding = 0;
    h.ids = 0;
    h.labels[0] = '\0';
    *ret = (struct fn_snap_builder *)(void *)&h;
    return 0;
}

static int h_add(struct fn_snap_builder *b, const struct fn_runner *r, uint32_t size)
{
    (void)b;
    (void)size;
    h.adding++;
    h.ids += r->id;
    snprintf(h.labels + strlen(h.labels), sizeof(h.labels) - strlen(h.labels), "%s;",
             r->labels ? r->labels : "-");
    return 0;
}

static int h_publish(struct fn_snap_builder *b)
{
    (void)b;
    h.published++;
    h.last_n = h.adding;
    h.last_ids = h.ids;
    return 0;
}

static void h_discard(struct fn_snap_builder *b)
{
    (void)b;
}

static void h_lost(void *ud)
{
    ck_assert_ptr_eq(ud, &h);
    h.lost++;
}

static void intake_setup(void)
{
    static const struct fn_clock_if clock = { .now_ns = h_now };
    static const struct fn_timer_if timer = { .arm = h_arm, .cancel = h_cancel };
    static const uint32_t level = FN_LOG_INFO;
    static const struct fn_log_if log = { .level = &level, .write = h_write };
    static const struct fn_snap_if snap = {
        .begin = h_begin, .add = h_add, .publish = h_publish, .discard = h_discard };

    setup();
    memset(&h, 0, sizeof(h));
    h.host = (struct fn_host){ .clock = &clock, .timer = &timer, .log = &log };
    h.intake = (struct intake){ .host = &h.host, .snap = &snap, .lost = h_lost, .ud = &h };
}

static void intake_teardown(void)
{
    intake_finish(&h.intake);
    teardown();
}

/* One turn of the loop; 0: there is nothing left to do. */
static int turn(void)
{
    void (*due)(void *) = h.due;

    h.due = NULL;
    if (due) {
        due(h.due_ud);
    }
    return due != NULL;
}

/* Members "m<first>" and on; cut: without its last bytes. */
static void tell(uint64_t version, uint32_t first, uint32_t n, size_t cut)
{
    const struct wire_head head = { .epoch = 1, .version = version, .group = "default" };
    unsigned char *data = malloc(n * 32);
    size_t len = 0;

    for (uint32_t i = first; i < first + n; i++) {
        char id[16];
        unsigned char size = (unsigned char)snprintf(id, sizeof(id), "m%u", i);

        data[len++] = 0x22;
        data[len++] = (unsigned char)(2 + size + 5);
        data[len++] = 0x0a;
        data[len++] = size;
        memcpy(data + len, id, size);
        len += size;
        memcpy(data + len, "\x12\x03h:1", 5);
        len += 5;
    }
    intake_message(&h.intake, g, &head, data, len - cut);
    free(data);
}

static uint64_t ids_of(uint32_t first, uint32_t n)
{
    uint64_t sum = 0;
    char id[16];

    for (uint32_t i = first; i < first + n; i++) {
        snprintf(id, sizeof(id), "m%u", i);
        sum += text_hash(id);
    }
    return sum;
}

START_TEST(a_short_list_is_published_at_once)
{
    tell(1, 0, 3, 0);
    ck_assert_uint_eq(h.published, 1);
    ck_assert_uint_eq(h.last_n, 3);
    ck_assert_uint_eq(g->version, 1);
    tell(1, 0, 3, 0); /* no news */
    ck_assert_uint_eq(h.published, 1);
    g->fresh = 1; /* another stream: good again */
    tell(1, 0, 3, 0);
    ck_assert_uint_eq(h.published, 2);
    ck_assert_int_eq(turn(), 0);
}
END_TEST

START_TEST(a_long_list_is_taken_in_portions)
{
    uint32_t turns = 0, before = 0;

    tell(1, 0, 10000, 0);
    do {
        ck_assert_uint_le(g->n, before + INTAKE_PORTION);
        before = g->n;
        turns++;
    } while (turn());
    ck_assert_uint_eq(h.published, 1);
    ck_assert_uint_eq(h.last_ids, ids_of(0, 10000));
    ck_assert_uint_ge(turns, 3 * 10000 / INTAKE_PORTION);
    ck_assert_uint_le(turns, 3 * 10000 / INTAKE_PORTION + 3);
}
END_TEST

/* Of those that wait behind the one that is taken only the newest counts. */
START_TEST(the_newest_list_waits)
{
    tell(1, 0, 1000, 0);
    tell(2, 500, 1000, 0);
    tell(3, 900, 1000, 0);
    while (turn()) {
    }
    ck_assert_uint_eq(h.published, 2);
    ck_assert_uint_eq(g->version, 3);
    ck_assert_uint_eq(h.last_ids, ids_of(900, 1000));
    tell(4, 900, 1000, 0);
    intake_publish(&h.intake, g); /* after it, not instead of it */
    while (turn()) {
    }
    ck_assert_uint_eq(h.published, 4);
    ck_assert_uint_eq(g->version, 4);
}
END_TEST

/* Sets stand in the message once, wherever; a place or a set that is none is no labels. */
START_TEST(members_have_labels)
{
    static const char list[] = "\x22\x0b\x0a\x02m1\x12\x03h:1\x28\x02"
                               "\x2a\x06zone=a"
                               "\x22\x0b\x0a\x02m2\x12\x03h:2\x28\x01"
                               "\x22\x0b\x0a\x02m3\x12\x03h:3\x28\x03"
                               "\x22\x0b\x0a\x02m4\x12\x03h:4\x28\x09"
                               "\x22\x09\x0a\x02m5\x12\x03h:5"
                               "\x2a\x06zone=b"
                               "\x2a\x04zone";
    const struct wire_head head = { .epoch = 1, .version = 1, .group = "default" };
    const struct wire_head next = { .epoch = 1, .version = 2, .group = "default" };

    intake_message(&h.intake, g, &head, list, sizeof(list) - 1);
    ck_assert_uint_eq(h.published, 1);
    ck_assert_str_eq(h.labels, "zone=b;zone=a;-;-;-;");
    intake_message(&h.intake, g, &next, "", 0); /* all vanish, and keep their labels */
    ck_assert_uint_eq(h.published, 2);
    ck_assert_str_eq(h.labels, "zone=b;zone=a;-;-;-;");
}
END_TEST

START_TEST(a_member_that_cannot_be_used_is_left_out)
{
    static const char list[] = "\x22\x09\x0a\x02m1\x12\x03h:1"
                               "\x22\x04\x0a\x02m2"            /* no address */
                               "\x22\x09\x0a\x02m3\x12\x03h\0b" /* none that can be one */
                               "\x22\x05\x12\x03h:4"           /* no id */
                               "\x22\x09\x0a\x02m5\x12\x03h:5";
    const struct wire_head head = { .epoch = 1, .version = 1, .group = "default" };

    intake_message(&h.intake, g, &head, list, sizeof(list) - 1);
    ck_assert_uint_eq(h.published, 1);
    ck_assert_uint_eq(h.last_n, 2);
    ck_assert_uint_eq(h.last_ids, text_hash("m1") + text_hash("m5"));
    ck_assert_uint_eq(h.warned, 1);
}
END_TEST

/* A member that cannot be read at the very end: nothing of the list counts. */
START_TEST(a_broken_long_list_changes_nothing)
{
    tell(1, 0, 1000, 0);
    while (turn()) {
    }
    tell(2, 500, 1000, 1);
    while (turn()) {
    }
    ck_assert_uint_eq(h.published, 1);
    ck_assert_uint_eq(h.warned, 1);
    ck_assert_uint_eq(g->version, 1);
    ck_assert_uint_eq(g->n, 1000);
}
END_TEST

/* The manager tells a list once, and once nobody asked for it again. */
START_TEST(a_list_that_the_node_does_not_take_is_asked_for_again)
{
    h.refuses = 1;
    tell(1, 0, 3, 0);
    ck_assert_uint_eq(h.lost, 1);
    h.refuses = 0;
    g->fresh = 1; /* the stream that was asked for */
    tell(1, 0, 3, 0);
    ck_assert_uint_eq(h.published, 1);
    ck_assert_uint_eq(h.last_n, 3);
    ck_assert_uint_eq(h.lost, 1);
}
END_TEST

/* Whichever allocation fails, the list is taken, or asked for again and taken then. */
START_TEST(a_list_that_memory_was_short_for_is_asked_for_again)
{
    unsigned n = 2; /* the first one is tell()'s own */

    for (int failed = 1; failed; n++) {
        groups_finish(&groups);
        setup();
        h.lost = h.published = 0;
        poor_begin(n);
        tell(1, 0, 1000, 0);
        while (turn()) {
        }
        failed = poor_end();
        ck_assert_uint_eq(h.lost + h.published, 1);
        g->fresh = 1; /* the stream that was asked for */
        tell(1, 0, 1000, 0);
        while (turn()) {
        }
        ck_assert_uint_eq(h.last_ids, ids_of(0, 1000));
        ck_assert_uint_eq(g->n, 1000);
    }
    ck_assert_uint_gt(n, 10);
}
END_TEST

START_TEST(a_pool_ends_in_the_middle)
{
    tell(1, 0, 10000, 0);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(turn(), 1);
    }
    ck_assert_int_eq(intake_is_busy(&h.intake, g), 1);
    tell(2, 0, 10000, 0);
    intake_finish(&h.intake);
    ck_assert_int_eq(turn(), 0);
    ck_assert_uint_eq(h.published, 0);
}
END_TEST

/* ---- the talk with the manager: with one that says what the test says ----------------------- */

static struct {
    struct link link;
    void (*tick)(void *ud);
    struct fn_rpc_cb watch, demand;
    uint32_t watches, cancelled, failed;
    int64_t now;
} t;

static int64_t t_now(const struct fn_host *host)
{
    (void)host;
    return t.now;
}

static int t_arm(const struct fn_host *host, int64_t at_ns, void (*cb)(void *ud), void *ud,
                 uint64_t *ret_id)
{
    (void)host;
    (void)at_ns;
    ck_assert_ptr_eq(ud, &t.link);
    t.tick = cb;
    *ret_id = 1;
    return 0;
}

static uint64_t t_u64(const struct fn_host *host)
{
    (void)host;
    return 7;
}

static int t_open(const struct fn_host *host, const char *address, const char *tls,
                  uint64_t *ret_channel, struct fn_error *reterr)
{
    (void)host;
    (void)address;
    (void)tls;
    (void)reterr;
    *ret_channel = 1;
    return 0;
}

static int t_call(const struct fn_host *host, const struct fn_rpc_call *call,
                  const struct fn_rpc_cb *cb, void *ud, uint64_t *ret_id, struct fn_error *reterr)
{
    (void)host;
    (void)reterr;
    ck_assert_ptr_eq(ud, &t.link);
    *ret_id = 1;
    if (strcmp(call->method, "/fnd.Pool/Watch") == 0) {
        t.watch = *cb;
        *ret_id = 10 + ++t.watches;
    } else {
        t.demand = *cb;
    }
    return 0;
}

static void t_cancel(const struct fn_host *host, uint64_t id)
{
    (void)host;
    ck_assert_uint_eq(id, 10 + t.watches);
    t.cancelled++;
}

static void t_close(const struct fn_host *host, uint64_t channel)
{
    (void)host;
    (void)channel;
}

static void t_failed(void *ud, struct group *of, int32_t code, const char *text)
{
    (void)ud;
    (void)of;
    (void)code;
    (void)text;
    t.failed++;
}

static void link_setup(void)
{
    static const struct fn_clock_if clock = { .now_ns = t_now };
    static const struct fn_timer_if timer = { .arm = t_arm, .cancel = h_cancel };
    static const struct fn_rng_if rng = { .u64 = t_u64 };
    static const struct fn_rpc_if rpc = {
        .open = t_open, .close = t_close, .call = t_call, .cancel = t_cancel };
    static const struct link_conf conf = { .address = "npm:9190",
                                           .lb_id = "lb",
                                           .protocol = "auto",
                                           .interval_ns = S,
                                           .poll_ns = S / 2,
                                           .timeout_ns = 2 * S };

    intake_setup();
    memset(&t, 0, sizeof(t));
    t.now = S;
    h.host.clock = &clock;
    h.host.timer = &timer;
    h.host.rng = &rng;
    t.link = (struct link){ .host = &h.host,
                            .rpc = &rpc,
                            .conf = &conf,
                            .intake = { .host = &h.host, .snap = h.intake.snap },
                            .failed = t_failed };
    ck_assert_int_eq(link_open(&t.link, NULL), 0);
}

static void link_teardown(void)
{
    link_close(&t.link);
    groups_finish(&t.link.groups);
    intake_teardown();
}

static void pass(int64_t seconds)
{
    for (int64_t i = 0; i < 10 * seconds; i++) {
        t.now += S / 10;
        t.tick(&t.link);
    }
}

static void tell_watch(void)
{
    t.watch.message(&t.link, membership, sizeof(membership) - 1);
}

START_TEST(a_lost_list_begins_the_stream_anew)
{
    pass(1);
    ck_assert_uint_eq(t.watches, 1);
    h.refuses = 1;
    tell_watch();
    h.refuses = 0;
    pass(4);
    ck_assert_uint_eq(t.cancelled, 0); /* not at full speed */
    pass(2);
    ck_assert_uint_eq(t.cancelled, 1);
    t.watch.end(&t.link, FN_E_CANCELLED, NULL);
    pass(1);
    ck_assert_uint_eq(t.watches, 2);
    tell_watch();
    ck_assert_uint_eq(h.published, 1);
    ck_assert_uint_eq(h.last_n, 2);
    pass(60);
    ck_assert_uint_eq(t.cancelled, 1);
}
END_TEST

/* The manager's lists leave out what is none of its groups: the mark of one hiccup once stayed. */
START_TEST(a_group_that_the_manager_does_not_know_is_no_old_one)
{
    const struct fn_demand some = { .size = sizeof(some), .waiting = 1 };

    link_want(&t.link, "foo", &some);
    pass(1);
    tell_watch();
    t.watch.end(&t.link, FN_E_UNAVAILABLE, "it is away");
    t.demand.end(&t.link, FN_E_UNAVAILABLE, "it is away");
    ck_assert_uint_eq(t.failed, 2);
    ck_assert_uint_eq(h.published, 1);
    pass(3);
    ck_assert_uint_eq(t.watches, 2);
    ck_assert_uint_eq(h.published, 1);
    t.demand.end(&t.link, 0, NULL);
    ck_assert_uint_eq(h.published, 2);
    ck_assert_str_eq(h.group, "foo");
    ck_assert_uint_eq(h.last_n, 0);
    tell_watch();
    ck_assert_uint_eq(h.published, 3);
    ck_assert_str_eq(h.group, "default");
    ck_assert_uint_eq(h.last_n, 2);
    pass(2);
    t.demand.end(&t.link, 0, NULL);
    ck_assert_uint_eq(h.published, 3);
}
END_TEST

/* It told a list once, and was started with other groups: it never tells that the list is old. */
START_TEST(a_group_that_the_manager_no_longer_has_is_empty)
{
    static const unsigned char no_such[] = "\x0a\x0d\x0a\x03" "foo\x12\x06NPM502"
                                           "\x0a\x11\x0a\x07" "default\x12\x06NPM502";

    pass(1);
    tell_watch();
    t.watch.end(&t.link, FN_E_UNAVAILABLE, "it is away");
    t.demand.end(&t.link, FN_E_UNAVAILABLE, "it is away");
    ck_assert_uint_eq(h.published, 1);
    pass(3);
    for (int i = 0; i < 2; i++) { /* each word about demand says so */
        t.demand.message(&t.link, no_such, sizeof(no_such) - 1);
        t.demand.end(&t.link, 0, NULL);
        ck_assert_uint_eq(h.published, 2);
        ck_assert_str_eq(h.group, "default");
        ck_assert_uint_eq(h.last_n, 0);
        pass(2);
    }
    tell_watch(); /* it has it again */
    ck_assert_uint_eq(h.published, 3);
    ck_assert_uint_eq(h.last_n, 2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pool npm");
    TCase *wire = tcase_create("wire");
    TCase *in = tcase_create("intake");
    TCase *talk = tcase_create("link");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(wire, setup, teardown);
    tcase_add_test(wire, demand_is_encoded_as_protobuf);
    tcase_add_test(wire, notes_of_both_kinds_are_read);
    tcase_add_test(wire, a_membership_is_read);
    tcase_add_test(wire, broken_memberships_are_refused);
    suite_add_tcase(s, wire);
    tcase_add_checked_fixture(in, intake_setup, intake_teardown);
    tcase_add_test(in, a_short_list_is_published_at_once);
    tcase_add_test(in, a_long_list_is_taken_in_portions);
    tcase_add_test(in, the_newest_list_waits);
    tcase_add_test(in, members_have_labels);
    tcase_add_test(in, a_member_that_cannot_be_used_is_left_out);
    tcase_add_test(in, a_broken_long_list_changes_nothing);
    tcase_add_test(in, a_list_that_the_node_does_not_take_is_asked_for_again);
    tcase_add_test(in, a_list_that_memory_was_short_for_is_asked_for_again);
    tcase_add_test(in, a_pool_ends_in_the_middle);
    suite_add_tcase(s, in);
    tcase_add_checked_fixture(talk, link_setup, link_teardown);
    tcase_add_test(talk, a_lost_list_begins_the_stream_anew);
    tcase_add_test(talk, a_group_that_the_manager_does_not_know_is_no_old_one);
    tcase_add_test(talk, a_group_that_the_manager_no_longer_has_is_empty);
    suite_add_tcase(s, talk);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
