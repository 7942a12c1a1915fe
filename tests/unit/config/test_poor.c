/* Memory that ends while a configuration is read, at each place once: the node is told, or has all
 * that the file says. A list that lost an item, or a number that became a text, would be neither.
 */
#include "../lib/poor.h"

#include <config/config_int.h>

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char yaml[] =
    "node: full\n"
    "http: { proxies: [10.1.0.0/16, 10.2.0.0/16], cors_origins: [\"http://a\", \"http://b\"] }\n"
    "api: { tokens: [\"me admin "
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"] }\n"
    "store: { url: \"sqlite3:///tmp/fn.db\" }\n"
    "metrics: { latency_buckets: [1, 10, 100], buckets: [\"fn_lb_placer_latency=1,2\"] }\n"
    "runner: { owner: a-b }\n"
    "tls:\n"
    "  one: { cert: c.pem, key: k.pem, peers: [\"a\", \"b\"] }\n"
    "plugins:\n"
    "  placer: [naive, { use: ch, name: second, load_max: 3 }]\n"
    "  shadow: { use: naive, name: third }\n"
    "  driver: { use: process, root: /tmp }\n"
    "apps:\n"
    "  - name: demo\n"
    "    config: { A: 1, B: b }\n"
    "    annotations: { a.b/list: [1, true, { x: 0x, y: [1.5] }], a.b/n: 17 }\n"
    "    functions:\n"
    "      - { name: f, image: i, annotations: { a: { b: 1 } }, config: { C: c },\n"
    "          triggers: [{ name: t, source: /t }, { name: u, source: /u }] }\n"
    "      - { name: g, image: i, id: given }\n";

/* Texts share chunks of memory; each length lets others be the first of a chunk. */
#define PADS     32
#define PAD_STEP 31
static char pad[sizeof("FN_PUBLIC_LB_URL=http://h/") + PADS * PAD_STEP];

static char *const variables[] = { pad,
                                   "FN_PORT=8085",
                                   "FN_GRPC_PORT=9195",
                                   "FN_PLACER=second",
                                   "FN_LOG_LEVEL=debug",
                                   "FN_FREEZE_IDLE_MSECS=50",
                                   "FN_MAX_RESPONSE_SIZE=1000000",
                                   "FN_NODE_CERT=a",
                                   "FN_NODE_CERT_KEY=b",
                                   "FN_NODE_CERT_AUTHORITY=c",
                                   "DOCKER_HOST=unix:///x",
                                   "FN_LOG_LEVELL=1",
                                   NULL };

/* ---- what a configuration says --------------------------------------------------------------- */

static void print_kvs(const struct kvs *k, struct buf *out)
{
    for (uint32_t i = 0; i < k->n; i++) {
        buf_printf(out, " %s=%s", k->items[i].key, k->items[i].value);
    }
    buf_add_str(out, "\n");
}

static void print_fn(const struct config_fn *f, struct buf *out)
{
    buf_printf(out, "fn %s %s %s %s", f->fn.id, f->fn.name, f->fn.image, f->where);
    print_kvs(&f->fn.config, out);
    print_kvs(&f->fn.annotations, out);
    for (uint32_t i = 0; i < f->n_triggers; i++) {
        buf_printf(out, "trigger %s %s %s %s\n", f->triggers[i].trigger.id,
                   f->triggers[i].trigger.name, f->triggers[i].trigger.source,
                   f->triggers[i].where);
    }
}

static void print_plugin(const struct config_plugin *plugin, struct buf *out)
{
    buf_printf(out, "%s %s %s %s %s", plugin->kind ? plugin->kind : "", plugin->use, plugin->name,
               plugin->where, plugin->file ? plugin->file : "");
    for (uint32_t i = 0; plugin->overrides[i].key; i++) {
        buf_printf(out, " %s=%s", plugin->overrides[i].key, plugin->overrides[i].text);
    }
    buf_add_str(out, "\n");
}

static void print_plugins(const struct config *c, struct buf *out)
{
    for (const struct config_plugin_key *k = config_plugin_keys; k->key; k++) {
        const struct config_plugin *one = config_plugin_one(c, k);
        const struct config_list_plugin *list = config_plugin_list(c, k);

        if (one && one->use) {
            print_plugin(one, out);
        }
        for (uint32_t i = 0; list && i < list->n; i++) {
            print_plugin(&list->items[i], out);
        }
    }
}

static void print_tls(const struct config_tls *t, struct buf *out)
{
    buf_printf(out, "tls %s %s %s %s", t->name, t->cert, t->key, t->ca ? t->ca : "");
    for (uint64_t i = 0; i < t->peers.n; i++) {
        buf_printf(out, " %s", t->peers.items[i]);
    }
    buf_add_str(out, "\n");
}

static void print(const struct config *c, struct buf *out)
{
    for (int i = 0; i < SECTIONS_N; i++) {
        ck_assert_int_eq(conf_print(c->priv->values[i], 0, out), 0);
    }
    for (uint32_t i = 0; i < c->n_tls; i++) {
        print_tls(&c->tls[i], out);
    }
    print_plugins(c, out);
    for (uint32_t a = 0; a < c->n_apps; a++) {
        buf_printf(out, "app %s %s %s", c->apps[a].app.id, c->apps[a].app.name, c->apps[a].where);
        print_kvs(&c->apps[a].app.config, out);
        print_kvs(&c->apps[a].app.annotations, out);
        for (uint32_t i = 0; i < c->apps[a].n_fns; i++) {
            print_fn(&c->apps[a].fns[i], out);
        }
    }
}

/* ---- the test -------------------------------------------------------------------------------- */

static char path[] = "/tmp/fnd-poor-XXXXXX";

static void setup(void)
{
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, yaml, sizeof(yaml) - 1), sizeof(yaml) - 1);
    close(fd);
}

static void teardown(void)
{
    unlink(path);
}

/* Loads it while allocation n fails; 0: none does. Whether there was one. */
static bool load(unsigned n, struct buf *said, struct buf *told, int *ret)
{
    struct conf_problems p;
    struct config *c = NULL;
    bool hit;

    conf_problems_init(&p);
    poor_begin(n);
    *ret = config_load(path, variables, &c, &p);
    hit = poor_end();
    ck_assert_msg(!*ret == (p.n == 0), "number %u: %d with %u problems: %s", n, *ret, p.n,
                  buf_text(&p.text));
    ck_assert_msg((*ret == FN_E_EXHAUSTED) == !c, "number %u: %d", n, *ret);
    buf_add_str(told, buf_text(&p.text));
    if (*ret == 0) {
        print(c, said);
    }
    config_destroy(c);
    conf_problems_finish(&p);
    return hit;
}

/* The rest of `a` behind what both begin with; NULL: they are the same. */
static const char *differs_at(const char *a, const char *b)
{
    size_t i = 0;

    while (a[i] && a[i] == b[i]) {
        i++;
    }
    return a[i] == b[i] ? NULL : a + i;
}

START_TEST(test_no_memory)
{
    struct buf good = BUF_INIT(0), told = BUF_INIT(0);
    unsigned n = 1;
    bool hit = true;
    const char *at;
    int r;

    snprintf(pad, sizeof(pad), "FN_PUBLIC_LB_URL=http://h/%0*d", _i * PAD_STEP + 1, 0);
    ck_assert(!load(0, &good, &told, &r));
    ck_assert_msg(r == 0 && strstr(buf_text(&told), "CFG708"), "%s", buf_text(&told));
    for (; hit; n++) {
        struct buf said = BUF_INIT(0);

        buf_clear(&told);
        hit = load(n, &said, &told, &r);
        ck_assert_msg(r == 0 || strstr(buf_text(&told), "memory"), "number %u: %s", n,
                      buf_text(&told));
        at = r == 0 ? differs_at(buf_text(&said), buf_text(&good)) : NULL;
        ck_assert_msg(!at, "number %u is not told: %.200s", n, at);
        buf_finish(&said);
    }
    ck_assert_uint_gt(n, 100);
    buf_finish(&told);
    buf_finish(&good);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config_poor");
    TCase *tc = tcase_create("poor");
    SRunner *runner;
    int bad;

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, test_no_memory, 0, PADS);
    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    bad = srunner_ntests_failed(runner);
    srunner_free(runner);
    return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
