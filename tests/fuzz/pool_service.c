/* What load balancers send to a node pool manager, through gRPC and the service as they are. The
 * first byte says what the rest is:
 *
 *   W D C G   one message, as bytes: WatchRequest, Demand, CapacitySnapshotList, LBGroupId; a watch
 *             of a few groups hears meanwhile
 *   t         and the number of groups, "g0" and so on; then lines:
 *     w LB G ...                  a watch; G is the number of a group, a range (0-16) or any word
 *     d LB SEQ START G=MB,WAITING ...   demand
 *     c LB G=MB ...               demand of a historic load balancer
 *     g G                         a historic question for a group
 *     m G N                       the control plane has N machines in the group
 *     p S                         S seconds pass for the manager
 *     x N                         the N-th watch that there is is closed
 *
 * All that is sent is read. A question has one end, and an answer if that is a good one. A watch
 * hears of each of its groups what the manager has by then, and ends only if its message is none. */
#include "fuzz.h"

#include <kit.h>
#include <wire.h>

#define TURNS_MAX   100000u
#define CALLS_MAX   12u /* at a time */
#define SECONDS_MAX 20u
#define WORDS_MAX   64u
#define WORD_MAX    80u
#define FEW_GROUPS  3u

enum method { WATCH, DEMAND, CAPACITY, GROUP };

static const char *const paths[] = { "/fnd.Pool/Watch", "/fnd.Pool/Advertise",
                                     "/NodePoolScaler/AdvertiseCapacity",
                                     "/RunnerManager/GetLBGroup" };

static struct pool_kit kit;

/* One call. */
struct call {
    struct rpc_raw *raw; /* NULL: free, or it has ended */
    enum method method;
    bool is_known; /* it is a line's; the groups of a watch are those below */
    bool watched[KIT_GROUPS_MAX];
    uint64_t versions[KIT_GROUPS_MAX]; /* told; 0: nothing */
    uint32_t messages;
};
static struct call calls[CALLS_MAX];

/* ---- what comes back ------------------------------------------------------------------------- */

static uint64_t version_of(uint32_t group)
{
    struct npm_figures f;

    npm_figures(kit_group(&kit, group), &f);
    return f.version;
}

static void read_membership(struct call *c, const void *data, size_t len)
{
    struct wire_members at = wire_members(data, len, 0);
    struct wire_member m;
    struct wire_head head;
    uint32_t group, n = 0;

    fuzz_expect(wire_read_head(data, len, &head) == 0, "no membership");
    fuzz_expect(sscanf(head.group, "g%u", &group) == 1 && group < kit.groups_n, "of %s",
                head.group);
    fuzz_expect(!c->is_known || c->watched[group], "%s is not watched", head.group);
    fuzz_expect(head.version > 0 && head.version >= c->versions[group], "%s goes back", head.group);
    c->versions[group] = head.version;
    while (wire_next_member(&at, &m) == 1) {
        n++;
    }
    fuzz_expect(n <= KIT_MACHINES_MAX, "%u members", n);
}

/* A load balancer can read what is said of the groups that it may name. */
static void read_answer(const struct call *c, const void *data, size_t len)
{
    struct wire_note note;

    if (wire_read_note(data, len, WIRE_OBJECTION, &note) == 0) {
        fuzz_expect(!note.text[0] || strncmp(note.text, "NPM5", 4) == 0, "objects: %s", note.text);
    } else {
        fuzz_expect(!c->is_known, "no objections");
    }
    fuzz_expect(wire_read_note(data, len, WIRE_STATE, &note) == 0 || !c->is_known, "no states");
}

static void read_group(const void *data, size_t len)
{
    struct wire_members at = wire_members(data, len, 1);
    struct wire_member m;
    int r;

    while ((r = wire_next_member(&at, &m)) == 1) {
        fuzz_expect(strncmp(m.address, "10.0.0.1:", 9) == 0, "a runner at %s", m.address);
    }
    fuzz_expect(r == 0, "no list");
}

static void on_message(void *ud, const void *data, size_t len)
{
    struct call *c = ud;

    c->messages++;
    fuzz_expect(c->method == WATCH || c->messages == 1, "answered twice");
    switch (c->method) {
    case WATCH: read_membership(c, data, len); break;
    case DEMAND: read_answer(c, data, len); break;
    case CAPACITY: fuzz_expect(len == 0, "%zu bytes", len); break;
    case GROUP: read_group(data, len); break;
    }
}

static void on_end(void *ud, int status, const char *text)
{
    struct call *c = ud;

    fuzz_expect(c->raw, "it ends twice");
    fuzz_expect(c->method != WATCH || (status == GRPC_INVALID && !c->is_known && c->messages == 0),
                "a watch ends with %d %s", status, text);
    fuzz_expect(status != GRPC_EXHAUSTED && status != GRPC_INTERNAL, "%d %s", status, text);
    fuzz_expect((status == GRPC_OK) == (c->messages == 1) || c->method == WATCH,
                "%u answers, and %d %s", c->messages, status, text);
    c->raw = NULL;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static struct call *call_start(enum method method, const void *message, size_t len)
{
    static const struct rpc_raw_cb cb = { on_message, on_end };
    struct fn_error e = ERR_INIT;
    struct call *c = NULL;

    for (uint32_t i = 0; i < CALLS_MAX && !c; i++) {
        c = calls[i].raw ? NULL : &calls[i];
    }
    if (!c) {
        return NULL;
    }
    *c = (struct call){ .method = method };
    loop_enter(kit.loop);
    fuzz_expect(rpc_raw_start(kit.channel, paths[method], message, len, 0, &cb, c, &c->raw, &e) ==
                    0,
                "%s", e.msg);
    loop_leave(kit.loop);
    return c;
}

/* A watch is up to date when it knows of each group what there is to know. */
static bool is_current(const struct call *c)
{
    for (uint32_t i = 0; i < kit.groups_n; i++) {
        if ((c->is_known ? c->watched[i] : c->versions[i] > 0) &&
            c->versions[i] != version_of(i)) {
            return false;
        }
    }
    return true;
}

static bool is_calm(void *ud)
{
    (void)ud;
    for (uint32_t i = 0; i < CALLS_MAX; i++) {
        if (calls[i].raw && (calls[i].method != WATCH || !is_current(&calls[i]))) {
            return false;
        }
    }
    return true;
}

static bool is_idle(void *ud)
{
    (void)ud;
    return kit_is_idle(&kit);
}

static void call_close(struct call *c)
{
    loop_enter(kit.loop);
    rpc_raw_close(c->raw);
    loop_leave(kit.loop);
    c->raw = NULL;
}

static void settle(void)
{
    fuzz_expect(kit_run(&kit, TURNS_MAX, is_calm, NULL), "what was asked has no answer");
}

/* ---- lines ----------------------------------------------------------------------------------- */

struct words {
    char text[WORDS_MAX][WORD_MAX];
    uint32_t n;
};

static void split(struct fuzz_in line, struct words *ret)
{
    ret->n = 0;
    while (line.len > 0 && ret->n < WORDS_MAX) {
        const char *space = memchr(line.at, ' ', line.len);
        size_t n = space ? (size_t)(space - line.at) : line.len;

        snprintf(ret->text[ret->n++], WORD_MAX, "%.*s", (int)(n < WORD_MAX ? n : WORD_MAX - 1),
                 line.at);
        n += space ? 1 : 0;
        line = (struct fuzz_in){ line.at + n, line.len - n };
    }
}

static const char *word(const struct words *w, uint32_t i)
{
    return i < w->n ? w->text[i] : "";
}

static uint64_t number(const char *text)
{
    return strtoull(text, NULL, 10);
}

/* "7" is "g7"; what is no number is a name that nobody has, no longer than a load balancer's. */
static const char *group_name(const char *text, char ret[WORD_MAX])
{
    snprintf(ret, WORD_MAX, *text >= '0' && *text <= '9' ? "g%.60s" : "x%.60s", text);
    ret[strcspn(ret, "=")] = '\0';
    return ret;
}

static void line_watch(const struct words *w)
{
    bool watched[KIT_GROUPS_MAX] = { false };
    char names[KIT_GROUPS_MAX + WORDS_MAX][WORD_MAX];
    const char *list[KIT_GROUPS_MAX + WORDS_MAX];
    struct wire_out out = { 0 };
    struct call *c;
    uint32_t n = 0;

    for (uint32_t i = 2; i < w->n; i++) {
        unsigned from = 0, to = 0;
        int k = sscanf(w->text[i], "%2u-%2u", &from, &to);

        if (k < 1) {
            list[n] = group_name(w->text[i], names[n]);
            n += n + 1 < sizeof(list) / sizeof(list[0]);
        }
        for (unsigned g = from; k >= 1 && g <= (k == 2 ? to : from) && g < kit.groups_n; g++) {
            watched[g] = true;
        }
    }
    for (uint32_t g = 0; g < kit.groups_n; g++) {
        if (watched[g]) {
            snprintf(names[n], WORD_MAX, "g%u", g);
            list[n] = names[n];
            n += n + 1 < sizeof(list) / sizeof(list[0]);
        }
    }
    wire_watch(&out, word(w, 1), list, n);
    c = call_start(WATCH, out.data, out.len);
    if (c) {
        c->is_known = true;
        memcpy(c->watched, watched, sizeof(watched));
    }
    wire_finish(&out);
}

static void line_demand(const struct words *w)
{
    struct wire_out out = { 0 };
    char name[WORD_MAX];
    struct call *c;

    wire_demand_begin(&out, word(w, 1), number(word(w, 2)), number(word(w, 3)));
    for (uint32_t i = 4; i < w->n; i++) {
        const char *mb = strchr(w->text[i], '='), *waiting = mb ? strchr(mb, ',') : NULL;
        struct wire_demand d = { .group = group_name(w->text[i], name),
                                 .mem_mb = mb ? number(mb + 1) : 0,
                                 .waiting = waiting ? number(waiting + 1) : 0 };

        wire_demand_add(&out, &d);
    }
    c = call_start(DEMAND, out.data, out.len);
    if (c) {
        c->is_known = true;
    }
    wire_finish(&out);
}

static void line_capacity(const struct words *w)
{
    struct wire_out out = { 0 };
    char name[WORD_MAX];

    wire_capacity_begin(&out, word(w, 1));
    for (uint32_t i = 2; i < w->n; i++) {
        const char *mb = strchr(w->text[i], '=');

        wire_capacity_add(&out, group_name(w->text[i], name), mb ? number(mb + 1) : 0);
    }
    call_start(CAPACITY, out.data, out.len);
    wire_finish(&out);
}

static void line_group(const struct words *w)
{
    struct wire_out out = { 0 };
    char name[WORD_MAX];

    wire_group_id(&out, group_name(word(w, 1), name));
    call_start(GROUP, out.data, out.len);
    wire_finish(&out);
}

static void line_close(const struct words *w)
{
    struct call *c = &calls[number(word(w, 1)) % CALLS_MAX];

    if (c->raw) {
        call_close(c);
    }
}

static void take_line(struct fuzz_in line)
{
    struct words w;

    split(line, &w);
    switch (word(&w, 0)[0]) {
    case 'w': line_watch(&w); break;
    case 'd': line_demand(&w); break;
    case 'c': line_capacity(&w); break;
    case 'g': line_group(&w); break;
    case 'm':
        kit.machines[number(word(&w, 1)) % kit.groups_n] =
            (uint32_t)(number(word(&w, 2)) % (KIT_MACHINES_MAX + 1));
        break;
    case 'p': kit_pass(&kit, (uint32_t)(number(word(&w, 1)) % (SECONDS_MAX + 1))); break;
    case 'x': line_close(&w); break;
    default: break;
    }
    settle();
}

/* ---- one message ----------------------------------------------------------------------------- */

static void take_message(enum method method, struct fuzz_in in)
{
    static const char watch[] = "w lb 0-2 nobody", demand[] = "d lb 2 1 0=100,1 nobody=1,1";

    kit_pass(&kit, KIT_LEARNT_S);
    take_line((struct fuzz_in){ watch, sizeof(watch) - 1 });
    call_start(method, in.at, in.len);
    kit.machines[0] = kit.machines[1] = 2;
    kit_pass(&kit, 2);
    settle();
    take_line((struct fuzz_in){ demand, sizeof(demand) - 1 });
}

static void service_end(void)
{
    kit_close(&kit);
}

static void close_all(void)
{
    for (uint32_t i = 0; i < CALLS_MAX; i++) {
        if (calls[i].raw) {
            call_close(&calls[i]);
        }
    }
    fuzz_expect(kit_run(&kit, TURNS_MAX, is_idle, NULL), "a call that was closed stays");
}

static uint32_t groups_of(struct fuzz_in in)
{
    uint32_t n = 0;

    while (in.len > 0 && n < KIT_GROUPS_MAX) {
        n = n * 10 + (fuzz_byte(&in) - '0') % 10;
    }
    return n == 0 ? 1 : n < KIT_GROUPS_MAX ? n : KIT_GROUPS_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char letters[] = "WDCGt";
    struct fuzz_in in = fuzz_begin(data, len);
    char mode = fuzz_mode(&in, letters);

    if (!kit.loop) {
        kit_open(&kit);
        atexit(service_end);
    }
    if (mode == 't') {
        kit_begin(&kit, groups_of(fuzz_line(&in)));
        while (in.len > 0) {
            take_line(fuzz_line(&in));
        }
    } else {
        char *copy = fuzz_copy(in.at, in.len);

        kit_begin(&kit, FEW_GROUPS);
        take_message((enum method)(strchr(letters, mode) - letters),
                     (struct fuzz_in){ copy, in.len });
        free(copy);
    }
    close_all();
    kit_end(&kit);
    return 0;
}
