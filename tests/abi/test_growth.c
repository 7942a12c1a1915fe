/* Old plugins on new hosts and new plugins on old hosts. Built twice: as today's host, and as a host
 * of a minor to come (grow.mjs, GROWN). matrix.txt says what must happen in each cell. */
#include <check.h>
#include <conf/conf.h>
#include <plugin/plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef GROWN
#define COLUMN   2
#define OP_MINOR 1
#define TODAY    (FN_ABI_MINOR - 1)
#else
#define COLUMN   1
#define OP_MINOR 0
#define TODAY    FN_ABI_MINOR
#endif
#define CELLS_MAX 32

struct cell {
    char plugin[32];
    char expected[200];
};

static struct cell cells[CELLS_MAX];
static int n_cells;

static void trim(char *s)
{
    size_t n = strlen(s);

    while (n > 0 && strchr(" \n", s[n - 1])) {
        s[--n] = '\0';
    }
    memmove(s, s + strspn(s, " "), strlen(s + strspn(s, " ")) + 1);
}

static void read_matrix(const char *path)
{
    char line[512];
    char *fields[3];
    FILE *f = fopen(path, "r");

    if (!f) {
        perror(path);
        exit(2);
    }
    while (fgets(line, sizeof(line), f)) {
        if (line[0] == '#' || line[0] == '\n') {
            continue;
        }
        fields[0] = strtok(line, "|");
        fields[1] = strtok(NULL, "|");
        fields[2] = strtok(NULL, "|");
        trim(fields[0]);
        trim(fields[COLUMN]);
        snprintf(cells[n_cells].plugin, sizeof(cells[0].plugin), "%s", fields[0]);
        snprintf(cells[n_cells].expected, sizeof(cells[0].expected), "%s", fields[COLUMN]);
        n_cells++;
    }
    fclose(f);
}

/* The part of an expected text up to ';' with %k, %t and %n filled in; returns the next part. */
static const char *expand(const char *at, const char *kind, char *ret)
{
    for (; *at && *at != ';'; at++) {
        if (at[0] != '%') {
            *ret++ = *at;
            continue;
        }
        at++;
        ret += *at == 'k' ? sprintf(ret, "%s", kind)
                          : sprintf(ret, "%d", *at == 't' ? TODAY : TODAY + 1);
    }
    *ret = '\0';
    return *at == ';' ? at + 1 : NULL;
}

/* ---- a host with one instance of a kind ---------------------------------------------------------- */

static struct plugin_host *host;
static struct plugin_file *file;

/* Only that it is there matters: no slot of the minimal plugin calls it. */
static const struct fn_op_if op_if = { .hdr = FN_HDR(struct fn_op_if, FN_MAGIC_OP) };

static void setup(void)
{
    host = plugin_host_create(NULL);
    plugin_host_offer(host, "fn.op", 1, OP_MINOR, &op_if, NULL);
}

static void teardown(void)
{
    plugin_host_destroy(host);
}

static int open_plugin(const char *name, struct buf *lines, struct fn_error *e)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s.so", getenv("ABI_PLUGINS"), name);
    return plugin_file_check(host, path, NULL, &file, lines, e);
}

static struct plugin *make(const char *kind, const char *name)
{
    const struct fn_factory *f = plugin_file_factory(file, kind, name);
    struct fn_error e = ERR_INIT;
    struct conf_values *values = NULL;
    struct conf_problems problems;
    struct plugin *p = NULL;

    ck_assert_msg(f != NULL, "no %s/%s", kind, name);
    conf_problems_init(&problems);
    if (f->conf_size > 0) {
        ck_assert_int_eq(
            conf_bind(NULL, NULL, kind, f->opts, f->conf_size, NULL, NULL, &values, &problems), 0);
    }
    conf_problems_finish(&problems);
    ck_assert_msg(plugin_create(host, file, f, kind, values, &p, &e) == 0, "%s", e.msg);
    return p;
}

#ifdef GROWN
/* 42: the slot is there and saw the interface. */
#define EXTRA(ops, inst, wanted)                                                                   \
    do {                                                                                           \
        if ((wanted) == '+' && (ops)->test_grown_slot) {                                                  \
            ck_assert_int_eq((ops)->test_grown_slot(inst), 42);                                    \
            extras++;                                                                              \
        }                                                                                          \
    } while (0)
static int extras;
#else
#define EXTRA(ops, inst, wanted) (void)(wanted)
#endif

/* ---- every slot of every kind -------------------------------------------------------------------- */

static void use_placer(const void *table, void *inst, char how)
{
    const struct fn_placer_ops *ops = table;
    const struct fn_runner runners[2] = { { .id = 1, .address = "a:1", .weight = 1 },
                                          { .id = 2, .address = "b:1", .weight = 2 } };
    const struct fn_snapshot snap = { .hdr = FN_HDR(struct fn_snapshot, FN_MAGIC_SNAPSHOT),
                                      .n = 2, .stride = sizeof(runners[0]), .runners = runners };
    const struct fn_call call = { .hdr = FN_HDR(struct fn_call, FN_MAGIC_CALL), .fn_id = "f" };
    struct fn_ask ask = { .size = sizeof(ask), .why = FN_WHY_START, .call = &call, .snap = &snap };
    struct fn_answer answer = { .size = sizeof(answer) };

    ck_assert_int_eq(ops->decide(inst, &ask, &answer), 0);
    ck_assert_uint_eq(answer.verdict, FN_TRY);
    ck_assert_uint_eq(answer.index, 1);
    ck_assert_str_eq(answer.note, how == '-' ? "2" : "2+");
    ck_assert_ptr_null(ops->index_build);
    EXTRA(ops, inst, how);
}

static void stopped(void *ud)
{
    *(int *)ud = 1;
}

static void use_pool(const void *table, void *inst, char how)
{
    const struct fn_pool_ops *ops = table;
    const struct fn_call call = { .hdr = FN_HDR(struct fn_call, FN_MAGIC_CALL), .lb_group = "blue" };
    const struct fn_demand demand = { .size = sizeof(demand), .waiting = 3 };
    char group[FN_GROUP_NAME_MAX + 1];
    int done = 0;

    ck_assert_int_eq(ops->start(inst, NULL), 0);
    ck_assert_int_eq(ops->route(inst, &call, group, sizeof(group)), 0);
    ck_assert_str_eq(group, "blue");
    ck_assert_int_eq(ops->want(inst, group, &demand), 0);
    ops->stop(inst, stopped, &done);
    ck_assert_int_eq(done, 1);
    EXTRA(ops, inst, how);
}

static void use_overrider(const void *table, void *inst, char how)
{
    const struct fn_override_ops *ops = table;

    ck_assert_int_eq(ops->apply(inst, NULL, NULL), FN_CHANGED);
    EXTRA(ops, inst, how);
}

static void use_listener(const void *table, void *inst, char how)
{
    const struct fn_listener_ops *ops = table;
    const struct fn_call call = { .hdr = FN_HDR(struct fn_call, FN_MAGIC_CALL) };
    const struct fn_call_end end = { .size = sizeof(end), .outcome = "ok" };
    const struct fn_change change = { .size = sizeof(change), .kind = FN_CHANGE_APP,
                                      .verb = FN_CHANGE_DELETE, .name = "bad" };
    struct fn_error e = FN_ERROR_INIT;

    ck_assert_int_eq(ops->before(inst, &call, &e), 0);
    ops->after(inst, &call, &end);
    ck_assert_int_eq(ops->before(inst, &call, &e), FN_E_EXHAUSTED);
    ck_assert_int_eq(e.http_status, 429);
    if (plugin_file_manifest(file)->abi_minor > 0) {
        ck_assert_int_eq(ops->after_worker(inst, NULL, &call, &end, &e), 0);
        ck_assert_int_eq(ops->before(inst, &call, &e), 0);
        ck_assert_int_eq(ops->before_change(inst, NULL, &change, &e), FN_E_PERMISSION);
        ck_assert_int_eq(e.http_status, 422);
        ops->after_change(inst, NULL, &change);
        ck_assert_int_eq(ops->before(inst, &call, &e), FN_E_EXHAUSTED);
    } else {
        ck_assert_ptr_null(ops->after_worker);
        ck_assert_ptr_null(ops->before_change);
        ck_assert_ptr_null(ops->after_change);
    }
    EXTRA(ops, inst, how);
}

static void use_driver(const void *table, void *inst, char how)
{
    const struct fn_driver_ops *ops = table;
    const struct fn_kv kv = { "tag", "blue" };
    const struct fn_task task = { .hdr = FN_HDR(struct fn_task, FN_MAGIC_TASK), .image = "busybox",
                                  .env = &kv, .n_env = 1, .handle = 9 };
    struct fn_error e = FN_ERROR_INIT;
    void *ctr = NULL;
    char text[16];
    uint32_t removed = 0;

    ck_assert_int_eq(ops->slot_key(inst, &kv, 1, text, sizeof(text)), 0);
    ck_assert_str_eq(text, "blue");
    ck_assert_int_eq(ops->prepare_image(inst, NULL, &task, &e), 0);
    ck_assert_int_eq(ops->create(inst, NULL, &task, &ctr, &e), 0);
    ck_assert_int_eq(ops->start(inst, NULL, ctr, &e), 0);
    ck_assert_int_eq(ops->freeze(inst, NULL, ctr, &e), 0);
    ck_assert_int_eq(ops->thaw(inst, NULL, ctr, &e), 0);
    ck_assert_uint_eq(ops->uid(inst, ctr), 4711);
    ck_assert_int_eq(ops->close(inst, NULL, ctr, &e), 0);
    ck_assert_int_eq(ops->sweep(inst, NULL, "me", "one", &removed, &e), 0);
    ck_assert_uint_eq(removed, 5);
    ck_assert_int_eq(ops->probe(inst, NULL, text, sizeof(text), &e), 0);
    ck_assert_str_eq(text, "1.0");
    EXTRA(ops, inst, how);
}

static int took(void *ud, const struct fn_machine *copied)
{
    char *seen = ud;

    sprintf(seen + strlen(seen), "%s %u %s; ", copied->id, copied->state,
            copied->address ? copied->address : "-");
    return 0;
}

static void use_cplane(const void *table, void *inst, char how)
{
    const struct fn_cplane_ops *ops = table;
    char seen[128] = "";
    const struct fn_machine_sink sink = {
        .hdr = FN_HDR(struct fn_machine_sink, FN_MAGIC_MACHINE_SINK), .add = took, .ud = seen
    };
    uint32_t accepted = 0;

    ck_assert_int_eq(ops->list(inst, NULL, "blue", &sink, NULL), 0);
    ck_assert_str_eq(seen, "blue 2 127.0.0.1:9190; blue 1 -; ");
    ck_assert_int_eq(ops->provision(inst, NULL, "blue", 3, 1, &accepted, NULL), 0);
    ck_assert_uint_eq(accepted, 2);
    ck_assert_int_eq(ops->remove(inst, NULL, "blue", "m1", NULL), 0);
    EXTRA(ops, inst, how);
}

static void use_predictor(const void *table, void *inst, char how)
{
    const struct fn_predictor_ops *ops = table;
    const struct fn_load load = { .size = sizeof(load), .wanted_mb = 100 };
    uint64_t state[2] = { 0 };
    uint64_t desired = 0;

    ck_assert_uint_eq(ops->state_size, 8);
    ck_assert_int_eq(ops->predict(inst, state, &load, &desired), 0);
    ck_assert_int_eq(ops->predict(inst, state, &load, &desired), 0);
    ck_assert_uint_eq(desired, 201);
    ck_assert_ptr_null(ops->containers);
    EXTRA(ops, inst, how);
}

static void use_operator(const void *table, void *inst, char how)
{
    const struct fn_operator_ops *ops = table;
    const struct fn_kv *pairs = NULL;
    uint32_t n = 0;

    ck_assert_int_eq(ops->status(inst, NULL, &pairs, &n, NULL), 0);
    ck_assert_uint_eq(n, 1);
    ck_assert_str_eq(pairs[0].key, "custom");
    ck_assert_ptr_null(ops->configure);
    ck_assert_ptr_null(ops->log);
    ck_assert_ptr_null(ops->read);
    EXTRA(ops, inst, how);
}

static const struct {
    const char *name;
    void (*use)(const void *ops, void *inst, char how);
    uint16_t since; /* minor of the ABI that brought it */
} kinds[] = {
    { FN_KIND_PLACER, use_placer, 0 },       { FN_KIND_POOL, use_pool, 0 },
    { FN_KIND_OVERRIDER, use_overrider, 0 }, { FN_KIND_LISTENER, use_listener, 0 },
    { FN_KIND_DRIVER, use_driver, 0 },       { FN_KIND_CONTROL_PLANE, use_cplane, 0 },
    { FN_KIND_PREDICTOR, use_predictor, 0 }, { FN_KIND_OPERATOR, use_operator, 1 },
};

#define KINDS_N (sizeof(kinds) / sizeof(kinds[0]))

static void works(const struct cell *c, char how)
{
    struct fn_error e = ERR_INIT;
    struct plugin *p;
    size_t i;

    ck_assert_msg(open_plugin(c->plugin, NULL, &e) == 0, "%s: %s", c->plugin, e.msg);
    for (i = 0; i < KINDS_N; i++) {
        if (plugin_file_manifest(file)->abi_minor < kinds[i].since) {
            continue;
        }
        p = make(kinds[i].name, "minimal");
        /* The host's own copy: what it knows, whatever the plugin knew. */
        ck_assert_uint_eq(((const struct fn_hdr *)plugin_ops(p))->size % 8, 0);
        kinds[i].use(plugin_ops(p), plugin_inst(p), how);
        plugin_destroy(p);
    }
}

static void is_refused(const struct cell *c)
{
    struct fn_error e = ERR_INIT;
    struct buf lines;
    const char *at;
    char part[200];
    size_t i;

    buf_init(&lines, 0);
    ck_assert_msg(open_plugin(c->plugin, &lines, &e) < 0, "%s was loaded", c->plugin);
    for (i = 0; i < KINDS_N; i++) {
        for (at = c->expected; at;) {
            at = expand(at, kinds[i].name, part);
            trim(part);
            if (strncmp(part, "PLG", 3) == 0) {
                memmove(part, part + 7, strlen(part + 7) + 1);
            }
            ck_assert_msg(strstr(buf_text(&lines), part) != NULL, "%s: got\n%sexpected \"%s\"",
                          c->plugin, buf_text(&lines), part);
        }
        ck_assert_msg(strncmp(buf_text(&lines), c->expected, 6) == 0, "%s: got %s", c->plugin,
                      buf_text(&lines));
    }
    buf_finish(&lines);
}

START_TEST(cell)
{
    const struct cell *c = &cells[_i];

    if (strncmp(c->expected, "works", 5) == 0) {
        works(c, c->expected[5]);
#ifdef GROWN
        ck_assert_int_eq(extras, c->expected[5] == '+' ? (int)KINDS_N : 0);
#endif
    } else {
        is_refused(c);
    }
}
END_TEST

/* Same names inside, own libraries: the second file must not bind to the first. */
START_TEST(twins_use_their_own)
{
    static const char *const names[] = { "twin-one", "twin-two" };
    const struct fn_load load = { .size = sizeof(load) };
    const struct fn_predictor_ops *ops;
    struct fn_error e = ERR_INIT;
    struct plugin *p[2];
    uint64_t got;

    for (int i = 0; i < 2; i++) {
        ck_assert_msg(open_plugin(names[i], NULL, &e) == 0, "%s", e.msg);
        p[i] = make(FN_KIND_PREDICTOR, names[i]);
    }
    for (int i = 0; i < 2; i++) {
        ops = plugin_ops(p[i]);
        ck_assert_int_eq(ops->predict(plugin_inst(p[i]), NULL, &load, &got), 0);
        ck_assert_uint_eq(got, (uint64_t)i + 1);
        plugin_destroy(p[i]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("growth");
    TCase *t = tcase_create("matrix");
    SRunner *runner;
    int failed;

    read_matrix(getenv("ABI_MATRIX"));
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, cell, 0, n_cells);
    tcase_add_test(t, twins_use_their_own);
    suite_add_tcase(s, t);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
