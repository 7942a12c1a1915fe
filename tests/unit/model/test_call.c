/* Call models: what Go sends is read, what is written is what Go writes, bad texts are refused. */
#include <model/app.h>
#include <model/call.h>
#include <model/header_rules.h>
#include <model/ids.h>
#include <model/json.h>
#include <model/time_text.h>

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct arena arena;

static void setup(void)
{
    arena_init(&arena, 0);
}

static void teardown(void)
{
    arena_finish(&arena);
}

/* Captured from Go's load balancer, with whole ids. */
static const char *const captured =
    "{\"id\":\"01M7Y55GGNR00040KE2M00000R\",\"status\":\"running\",\"image\":\"i\","
    "\"type\":\"sync\","
    "\"url\":\"http://127.0.0.1:28181/t/a1?q=1\\u0026z=%20x\",\"method\":\"GET\",\"timeout\":30,"
    "\"idle_timeout\":30,\"memory\":128,\"config\":{\"FN_APP_ID\":\"A\",\"FN_FN_ID\":\"F\","
    "\"FN_MEMORY\":\"128\",\"FN_TYPE\":\"sync\",\"X\":\"y\"},\"annotations\":{"
    "\"fnproject.io/fn/invokeEndpoint\":\"http://h/invoke/F\"},\"headers\":{\"Fn-Http-H-Accept\":"
    "[\"*/*\"],\"Fn-Http-Method\":[\"GET\"],\"Fn-Http-Request-Url\":[\"http://h/t/a1\"],"
    "\"Fn-Intent\":[\"httprequest\"]},\"completed_at\":\"0001-01-01T00:00:00.000Z\",\"created_at\":"
    "\"2026-11-21T04:17:24.501Z\",\"started_at\":\"2026-11-21T04:17:24.501Z\",\"app_id\":\"A\","
    "\"app_name\":\"a1\",\"trigger_id\":\"T\",\"fn_id\":\"F\"}";

static int read_call(struct call *c, const char *json, struct fn_error *e)
{
    *e = ERR_INIT;
    call_init(c, &arena);
    return call_from_json(c, json, strlen(json), e);
}

START_TEST(captured_vector)
{
    struct call c;
    struct fn_error e;

    ck_assert_int_eq(read_call(&c, captured, &e), 0);
    ck_assert_str_eq(c.id, "01M7Y55GGNR00040KE2M00000R");
    ck_assert_str_eq(c.url, "http://127.0.0.1:28181/t/a1?q=1&z=%20x");
    ck_assert_int_eq(c.timeout_s, 30);
    ck_assert_uint_eq(c.mem_mb, 128);
    ck_assert_uint_eq(c.config.n, 5);
    ck_assert_str_eq(kvs_get(&c.config, "X"), "y");
    ck_assert_str_eq(kvs_get(&c.annotations, "fnproject.io/fn/invokeEndpoint"),
                     "\"http://h/invoke/F\"");
    ck_assert_str_eq(headers_get(&c.headers, "fn-intent"), "httprequest");
    ck_assert_int_eq(c.completed_wall_ns, 0);
    ck_assert_int_eq(c.created_wall_ns, 1795234644501000000LL);
    ck_assert_int_eq(call_check(&c, &e), 0);
}
END_TEST

START_TEST(written_as_read)
{
    struct buf out = BUF_INIT(0);
    struct call c;
    struct fn_error e;

    ck_assert_int_eq(read_call(&c, captured, &e), 0);
    ck_assert_int_eq(call_to_json(&c, &out), 0);
    ck_assert_str_eq(buf_text(&out), captured);
    buf_finish(&out);
}
END_TEST

/* So that nobody sorts a set that is not its own. */
START_TEST(sets_are_in_order)
{
    static const char *const keys[] = { "m", "z", "a", "B", "zz", "", "n" };
    struct kvs k;
    struct kvs copy;

    kvs_init(&k, &arena);
    kvs_init(&copy, &arena);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 7; i++) {
            ck_assert_int_eq(kvs_set(&k, keys[i], round ? "two" : "one"), 0);
        }
        ck_assert_uint_eq(k.n, 7);
    }
    kvs_remove(&k, "n");
    kvs_remove(&k, "nn");
    ck_assert_int_eq(kvs_copy(&copy, &k), 0);
    ck_assert_uint_eq(copy.n, 6);
    for (uint32_t i = 0; i < copy.n; i++) {
        ck_assert(i == 0 || strcmp(copy.items[i - 1].key, copy.items[i].key) < 0);
        ck_assert_str_eq(kvs_get(&k, copy.items[i].key), "two");
    }
    ck_assert_ptr_null(kvs_get(&k, "n"));
    ck_assert_ptr_null(kvs_get(&k, "zzz"));
}
END_TEST

/* Maps come out sorted, lists of one name together, texts escaped as Go does. */
START_TEST(writes_like_go)
{
    struct buf out = BUF_INIT(0);
    struct call c;

    call_init(&c, &arena);
    c.id = "x";
    c.detached = true;
    c.cpu_milli = 1500;
    c.tmpfs_mb = 7;
    kvs_set(&c.config, "B", "<&>\"\\\n\t\x01");
    kvs_set(&c.config, "A", "\xe2\x80\xa8 \xff \xf0\x9f\x98\x80");
    kvs_set(&c.annotations, "k", "{\"z\":1,\"a\":[true]}");
    headers_add(&c.headers, "X", "1");
    headers_add(&c.headers, "A", "2");
    headers_add(&c.headers, "X", "3");
    ck_assert_int_eq(call_to_json(&c, &out), 0);
    ck_assert_str_eq(buf_text(&out),
                     "{\"id\":\"x\",\"status\":\"running\",\"type\":\"detached\",\"tmpfs_size\":7,"
                     "\"cpus\":\"1500m\",\"config\":{\"A\":\"\\u2028 \\ufffd \xf0\x9f\x98\x80\","
                     "\"B\":\"\\u003c\\u0026\\u003e\\\"\\\\\\n\\t\\u0001\"},\"annotations\":"
                     "{\"k\":{\"z\":1,\"a\":[true]}},\"headers\":{\"A\":[\"2\"],\"X"
                     "\":[\"1\",\"3\"]},"
                     "\"completed_at\":\"0001-01-01T00:00:00.000Z\",\"created_at\":"
                     "\"0001-01-01T00:00:00.000Z\",\"started_at\":\"0001-01-01T00:00:00.000Z\","
                     "\"app_id\":\"\",\"app_name\":\"\",\"trigger_id\":\"\",\"fn_id\":\"\"}");
    buf_finish(&out);
}
END_TEST

START_TEST(no_room_is_an_error)
{
    struct call c;
    struct fn_error e;

    ck_assert_int_eq(read_call(&c, captured, &e), 0);
    for (size_t limit = 1; limit < strlen(captured) + 3; limit += 7) {
        struct buf out = BUF_INIT(limit);

        if (call_to_json(&c, &out) < 0) {
            ck_assert_uint_eq(out.len, 0);
        } else {
            ck_assert_uint_eq(out.len, strlen(captured));
        }
        buf_finish(&out);
    }
}
END_TEST

/* Accepted as Go accepts it. */
START_TEST(lenient_where_go_is)
{
    static const char *const good[] = {
        "{}",
        "{\"ID\":\"x\",\"TimeOut\":3}",
        "{\"id\":null,\"config\":null,\"headers\":null,\"cpus\":null,\"created_at\":null}",
        "{\"unknown\":[1,2,{\"a\":[]}],\"stats\":[{\"timestamp\":\"x\"}]}",
        "{\"cpus\":\"0.5\"}", "{\"cpus\":\"\"}", "{\"cpus\":\"1024000m\"}",
        "{\"created_at\":\"\"}", "{\"created_at\":\"2026-11-21T04:17:24+05:30\"}",
        "{\"created_at\":\"2026-11-21T04:17:24.123456789Z\"}",
        "{} trailing words",
        " \t\r\n{ \"id\" : \"\\u0041\\ud83d\\ude00\\ud83d\" }",
        "{\"annotations\":{\"a\":null,\"b\":1}}",
        "{\"headers\":{\"A\":null,\"B\":[],\"C\":[null,\"x\"]}}",
    };
    struct call c;
    struct fn_error e;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ck_assert_msg(read_call(&c, good[i], &e) == 0, "%s: %s", good[i], e.msg);
    }
    read_call(&c, good[1], &e);
    ck_assert_str_eq(c.id, "x");
    ck_assert_int_eq(c.timeout_s, 3);
    read_call(&c, good[4], &e);
    ck_assert_uint_eq(c.cpu_milli, 500);
    read_call(&c, good[11], &e);
    ck_assert_str_eq(c.id, "A\xf0\x9f\x98\x80\xef\xbf\xbd");
    read_call(&c, good[12], &e);
    ck_assert_uint_eq(c.annotations.n, 1);
    ck_assert_str_eq(kvs_get(&c.annotations, "b"), "1");
}
END_TEST

/* Rows 19 and 20 of the bad inputs. */
START_TEST(bad_models)
{
    static const struct {
        const char *json;
        const char *says;
    } rows[] = {
        { "", "RUN404 call model: 1:1 not JSON" },
        { "hello", "RUN404 call model: 1:1 not JSON" },
        { "[]", "expected an object" },
        { "{", "expected a key" },
        { "{\"id\":\"x\"", "expected , or }" },
        { "{\"id\":1}", "1:7 expected a text" },
        { "{\n \"id\":1}", "2:7 expected a text" },
        { "{\"id\":\"a\",\"id\":\"b\"}", "duplicate key" },
        { "{\"id\":\"a\",\"ID\":\"b\"}", "duplicate key" },
        { "{\"config\":{\"a\":\"1\",\"a\":\"2\"}}", "duplicate key" },
        { "{\"config\":{\"a\":1}}", "expected a text" },
        { "{\"config\":[]}", "expected an object" },
        { "{\"headers\":{\"A\":\"x\"}}", "expected a list" },
        { "{\"timeout\":\"30\"}", "expected a whole number" },
        { "{\"timeout\":1.5}", "expected a whole number" },
        { "{\"timeout\":1e2}", "expected a whole number" },
        { "{\"timeout\":01}", "bad number" },
        { "{\"timeout\":-}", "bad number" },
        { "{\"id\":\"a\\u0000b\"}", "NUL in a text" },
        { "{\"id\":\"a\\qb\"}", "bad escape" },
        { "{\"id\":\"a\\u12g4\"}", "bad \\u escape" },
        { "{\"id\":\"a\nb\"}", "control byte in a text" },
        { "{\"id\":\"abc", "text without end" },
        { "{\"id\":\"abc\\", "text without end" },
        { "{\"id\":nul}", "not JSON" },
        { "{\"id\":\"x\",}", "expected a key" },
        { "{,\"id\":\"x\"}", "expected a key" },
        { "{\"id\" \"x\"}", "expected : after a key" },
        { "{\"created_at\":\"yesterday\"}", "expected a date" },
        { "{\"created_at\":\"2026-13-01T00:00:00Z\"}", "expected a date" },
        { "{\"cpus\":0.5}", "expected a text" },
        { "{\"cpus\":\"half\"}", "expected cpus" },
        { "{\"cpus\":\"1e99\"}", "RUN405 cpus, got \"1e99\"" },
        { "{\"cpus\":\"1024001m\"}", "RUN405 cpus" },
        { "{\"cpus\":\"-1\"}", "expected cpus" },
        { "{\"cpus\":\"nan\"}", "expected cpus" },
        { "{\"memory\":-1}", "RUN405 memory, got -1" },
        { "{\"memory\":99999999999999999999999}", "RUN405 memory" },
        { "{\"timeout\":99999999999}", "RUN405 timeout" },
        { "{\"tmpfs_size\":-2}", "RUN405 tmpfs_size, got -2" },
        { "{\"unknown\":[1,]}", "not JSON" },
        { "{\"unknown\":tru}", "not JSON" },
    };
    struct call c;
    struct fn_error e;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(read_call(&c, rows[i].json, &e) == FN_E_INVALID, "%s", rows[i].json);
        ck_assert_msg(strstr(e.msg, rows[i].says) != NULL, "%s: got \"%s\", expected \"%s\"",
                      rows[i].json, e.msg, rows[i].says);
    }
}
END_TEST

START_TEST(too_deep_and_nul)
{
    struct call c;
    struct fn_error e = ERR_INIT;
    char *deep = malloc(20001);

    memset(deep, '[', 20000);
    deep[20000] = '\0';
    memcpy(deep, "{\"x\":", 5);
    ck_assert_int_eq(read_call(&c, deep, &e), FN_E_INVALID);
    ck_assert_ptr_nonnull(strstr(e.msg, "nested deeper"));
    free(deep);
    call_init(&c, &arena);
    ck_assert_int_eq(call_from_json(&c, "{\"id\":\"a\0b\"}", 12, &e), FN_E_INVALID);
    ck_assert_ptr_nonnull(strstr(e.msg, "NUL in a text"));
}
END_TEST

START_TEST(memory_limit)
{
    struct arena small;
    struct call c;
    struct fn_error e = ERR_INIT;
    struct buf big = BUF_INIT(0);

    buf_add_str(&big, "{\"config\":{");
    for (int i = 0; i < 900; i++) {
        buf_printf(&big, "%s\"k%d\":\"%0100d\"", i ? "," : "", i, i);
    }
    buf_add_str(&big, "}}");
    arena_init(&small, 16384);
    call_init(&c, &small);
    ck_assert_int_eq(call_from_json(&c, big.data, big.len, &e), FN_E_EXHAUSTED);
    ck_assert_ptr_nonnull(strstr(e.msg, "RUN404"));
    arena_finish(&small);
    buf_finish(&big);
}
END_TEST

START_TEST(checks)
{
    static const char *const bad_images[] = { "", "-v /:/h", "a:b:c", "a b", "a/", "a:", "x@",
                                              "\xc3\xa9", "a;b" };
    static const char *const good_images[] = {
        "i", "fnd/hello:latest", "reg:5000/a/b:1.2", "a@sha256:0123abcd", "reg:5000/a:1@sha256:ab",
    };
    struct call c;
    struct fn_error e = ERR_INIT;

    call_init(&c, &arena);
    c.mem_mb = 128;
    c.timeout_s = c.idle_timeout_s = 30;
    c.fn_id = c.app_id = "x";
    for (size_t i = 0; i < sizeof(bad_images) / sizeof(bad_images[0]); i++) {
        c.image = bad_images[i];
        ck_assert_msg(call_check(&c, &e) == FN_E_INVALID, "%s", c.image);
        ck_assert_ptr_nonnull(strstr(e.msg, "RUN406 image name"));
    }
    for (size_t i = 0; i < sizeof(good_images) / sizeof(good_images[0]); i++) {
        c.image = good_images[i];
        ck_assert_msg(call_check(&c, &e) == 0, "%s: %s", c.image, e.msg);
    }
    c.timeout_s = 301;
    ck_assert_int_eq(call_check(&c, &e), FN_E_INVALID);
    c.timeout_s = 300;
    c.idle_timeout_s = 0;
    ck_assert_int_eq(call_check(&c, &e), FN_E_INVALID);
    c.idle_timeout_s = 3600;
    c.mem_mb = 0;
    ck_assert_int_eq(call_check(&c, &e), FN_E_INVALID);
    c.mem_mb = 1;
    ck_assert_int_eq(call_check(&c, &e), 0);
    c.app_id = "";
    ck_assert_int_eq(call_check(&c, &e), FN_E_INVALID);
    ck_assert_str_eq(e.msg, "RUN404 fn_id and app_id, got \"x\" and \"\"; expected both");
}
END_TEST

static void key_of(const struct call *c, const char *extension, unsigned char ret[SLOT_KEY_BYTES])
{
    struct buf identity = BUF_INIT(0);

    ck_assert_int_eq(call_identity(c, extension, &identity), 0);
    call_slot_key(&identity, ret);
    buf_finish(&identity);
}

/* Two keys are equal exactly when the parts that identify a pool are. */
START_TEST(slot_keys)
{
    unsigned char a[SLOT_KEY_BYTES];
    unsigned char b[SLOT_KEY_BYTES];
    struct call c;
    struct call d;
    struct fn_error e;

    read_call(&c, captured, &e);
    read_call(&d, captured, &e);
    key_of(&c, "", a);
    d.id = "other";
    d.url = "other";
    d.method = "PUT";
    d.trigger_id = "other";
    headers_add(&d.headers, "A", "b");
    d.config.n = 0;
    for (int i = 4; i >= 0; i--) {
        kvs_set(&d.config, c.config.items[i].key, c.config.items[i].value);
    }
    key_of(&d, "", b);
    ck_assert_mem_eq(a, b, sizeof(a));
    key_of(&d, "x", b);
    ck_assert_mem_ne(a, b, sizeof(a));
    d.mem_mb++;
    key_of(&d, "", b);
    ck_assert_mem_ne(a, b, sizeof(a));
    d.mem_mb--;
    kvs_set(&d.config, "X", "z");
    key_of(&d, "", b);
    ck_assert_mem_ne(a, b, sizeof(a));
}
END_TEST

static unsigned below(unsigned *seed, unsigned n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 16) % n;
}

static const char *some_text(struct arena *a, unsigned *seed)
{
    static const char letters[] = "abcXYZ019-_./:\"\\ \t<>&\xc3\xa9";
    char text[24] = "";
    unsigned n = below(seed, sizeof(text) - 2);

    for (unsigned i = 0; i < n; i++) {
        unsigned at = below(seed, sizeof(letters) - 2);

        text[i] = (unsigned char)letters[at] < 0x80 ? letters[at] : 'e';
    }
    return arena_strdup(a, text);
}

static void some_kvs(struct kvs *k, unsigned *seed, bool json)
{
    static const char *const keys[] = { "FN_LISTENER", "FN_FORMAT", "A", "FN_MEMORY", "z" };
    unsigned n = below(seed, 6);

    for (unsigned i = 0; i < n; i++) {
        const char *value = json ? arena_printf(k->arena, "{\"n\":%u}", below(seed, 3))
                                 : some_text(k->arena, seed);

        kvs_set(k, keys[below(seed, 5)], value);
    }
}

/* What a load balancer sends is what its runner makes of the call that came with it. */
START_TEST(both_sides_make_one_slot_key)
{
    unsigned seed = 1;

    for (int i = 0; i < 100000; i++) {
        struct arena a;
        struct call sent, got;
        struct buf json = BUF_INIT(0);
        struct fn_error e = ERR_INIT;
        unsigned char key[SLOT_KEY_BYTES];
        char hex[SLOT_HEX_BYTES], made[SLOT_HEX_BYTES];

        arena_init(&a, 0);
        call_init(&sent, &a);
        sent.app_id = some_text(&a, &seed);
        sent.fn_id = some_text(&a, &seed);
        sent.image = some_text(&a, &seed);
        sent.syslog_url = below(&seed, 2) ? some_text(&a, &seed) : "";
        sent.timeout_s = (int32_t)below(&seed, 300) + 1;
        sent.idle_timeout_s = (int32_t)below(&seed, 300) + 1;
        sent.mem_mb = below(&seed, 512) + 1;
        some_kvs(&sent.config, &seed, false);
        some_kvs(&sent.annotations, &seed, true);
        ck_assert_int_eq(call_slot_hex(&sent, hex), 0);
        ck_assert_int_eq(call_to_json(&sent, &json), 0);
        call_init(&got, &a);
        ck_assert_msg(call_from_json(&got, json.data, json.len, &e) == 0, "%s", e.msg);
        ck_assert_int_eq(call_add_contract(&got), 0);
        key_of(&got, "", key);
        for (int at = 0; at < SLOT_KEY_BYTES; at++) {
            snprintf(made + 2 * at, 3, "%02x", key[at]);
        }
        ck_assert_msg(strcmp(hex, made) == 0, "call %d: %s", i, buf_text(&json));
        buf_finish(&json);
        arena_finish(&a);
    }
}
END_TEST

/* jansson agrees on what is JSON, on thousands of damaged texts. */
START_TEST(jansson_agrees)
{
    size_t len = strlen(captured);
    char *text = malloc(len + 1);
    uint64_t x = 88172645463325252u;
    int agreed_bad = 0;

    for (int i = 0; i < 20000; i++) {
        struct arena a;
        struct jr r;
        json_error_t je;
        json_t *j;
        bool ours;

        memcpy(text, captured, len + 1);
        for (int k = 0; k < 1 + i % 3; k++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            text[x % len] = " {}[]:,\"\\0123456789abcdefntru-.eE\n\x01\xc3"[(x >> 32) % 37];
        }
        arena_init(&a, 0);
        jr_init(&r, text, len, &a);
        ours = jr_skip(&r) == 0;
        j = json_loadb(text, len, JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY | JSON_ALLOW_NUL, &je);
        /* Known differences: invalid UTF-8 and lone surrogates (replaced, as in Go), and numbers
         * beyond a double or an int64 (skipped unread). */
        if (!j && (strstr(je.text, "decode byte") || strstr(je.text, "too big") ||
                   strstr(je.text, "surrogate") || strstr(je.text, "overflow") ||
                   strstr(je.text, "\\u0000"))) {
            arena_finish(&a);
            continue;
        }
        ck_assert_msg(ours == (j != NULL), "%s\nours: %s, jansson: %s", text,
                      ours ? "ok" : r.problem, j ? "ok" : je.text);
        agreed_bad += !ours;
        json_decref(j);
        arena_finish(&a);
    }
    ck_assert_int_gt(agreed_bad, 5000);
    free(text);
}
END_TEST

START_TEST(times)
{
    static const struct {
        const char *in;
        const char *out;
    } rows[] = {
        { "2026-11-21T04:17:24.501Z", "2026-11-21T04:17:24.501Z" },
        { "2026-11-21T04:17:24.5019999Z", "2026-11-21T04:17:24.501Z" },
        { "2026-11-21T04:17:24+02:00", "2026-11-21T02:17:24.000Z" },
        { "2026-11-21T04:17:24-02:30", "2026-11-21T06:47:24.000Z" },
        { "2000-02-29T23:59:59.999Z", "2000-02-29T23:59:59.999Z" },
        { "2100-03-01T00:00:00Z", "2100-03-01T00:00:00.000Z" },
        { "0001-01-01T00:00:00.000Z", "0001-01-01T00:00:00.000Z" },
        { "", "0001-01-01T00:00:00.000Z" },
    };
    static const char *const bad[] = { "x", "2026-11-21", "2026-11-21T04:17:24",
                                       "2026-00-21T04:17:24Z",
                                       "2026-11-32T04:17:24Z", "2026-11-21T24:17:24Z",
                                       "2026-11-21T04:17:24.Z", "2026-11-21T04:17:24Zx",
                                       "2026-11-21T04:17:24+2:00", "9999-01-01T00:00:00Z" };
    char text[TIME_TEXT_MAX];
    int64_t ns;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(time_parse(rows[i].in, &ns) == 0, "%s", rows[i].in);
        time_print_ms(ns, text);
        ck_assert_str_eq(text, rows[i].out);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(time_parse(bad[i], &ns) < 0, "%s", bad[i]);
    }
    time_print_s(1795234644501000000LL, text);
    ck_assert_str_eq(text, "2026-11-21T04:17:24Z");
}
END_TEST

START_TEST(ids)
{
    static const unsigned char ip[4] = { 192, 0, 2, 2 };
    struct id_maker m;
    char id[CALL_ID_LEN + 1];
    int64_t ns;

    id_maker_init(&m, ip, 28180);
    ck_assert_int_eq(time_parse("2026-11-21T04:13:05.645Z", &ns), 0);
    id_make(&m, ns, id);
    ck_assert_str_eq(id, "01M7Y4XKQDR00040KE2G000001");
    id_make(&m, ns, id);
    ck_assert_str_eq(id, "01M7Y4XKQDR00040KE2G000002");
}
END_TEST

/* By their length: a name in the row of another one would be found by nobody. */
START_TEST(each_header_is_what_nodes_take_it_for)
{
    static const struct {
        const char *name;
        unsigned is;
    } rows[] = {
        { "connection", HEADER_HOP_BY_HOP | HEADER_FRAMING | HEADER_CONNECTION },
        { "PROXY-CONNECTION", HEADER_HOP_BY_HOP | HEADER_FRAMING },
        { "Keep-Alive", HEADER_HOP_BY_HOP | HEADER_FRAMING },
        { "trailer", HEADER_HOP_BY_HOP | HEADER_FRAMING },
        { "transfer-encoding", HEADER_HOP_BY_HOP | HEADER_FRAMING },
        { "Upgrade", HEADER_HOP_BY_HOP | HEADER_FRAMING },
        { "te", HEADER_HOP_BY_HOP | HEADER_FRAMING },
        { "Proxy-Authenticate", HEADER_HOP_BY_HOP },
        { "proxy-authorization", HEADER_HOP_BY_HOP },
        { "content-length", HEADER_FRAMING },
        { "fn-call-id", HEADER_RESERVED | HEADER_BY_RUNNER | HEADER_BY_LB },
        { "Fn-Deadline", HEADER_RESERVED | HEADER_BY_RUNNER },
        { "Fn-Intent", HEADER_RESERVED },
        { "fn-outcome", HEADER_BY_LB },
        { "host", HEADER_HOST },
        { "DATE", HEADER_DATE },
        { "Content-Type", 0 },
        { "Trailers", 0 },
        { "Fn-Call-Ie", 0 },
        { "Hosts", 0 },
        { "A-Name-Of-Twenty-And-More-Bytes", 0 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(header_kinds(rows[i].name, strlen(rows[i].name)) == rows[i].is, "%s",
                      rows[i].name);
    }
}
END_TEST

START_TEST(header_tables)
{
    ck_assert(!header_passes("Te", "gzip", HEADER_HOP_BY_HOP));
    ck_assert(!header_passes("Te", NULL, HEADER_HOP_BY_HOP));
    ck_assert(header_passes("tE", "Trailers", HEADER_HOP_BY_HOP));
    ck_assert(!header_passes("Te", "trailers", HEADER_FRAMING | HEADER_HOP_BY_HOP));
    ck_assert(!header_passes("Upgrade", "trailers", HEADER_HOP_BY_HOP));
    ck_assert(header_passes("Content-Length", "1", HEADER_HOP_BY_HOP));
    ck_assert(header_passes("", "", ~0u));
    ck_assert(header_is_reserved("fn-call-id"));
    ck_assert(header_is_reserved("Fn-Http-Method"));
    ck_assert(!header_is_reserved("Fn-Invoke-Type"));
    ck_assert(!header_is_reserved("Content-Type"));
    ck_assert(header_name_is_token("X-y_1"));
    ck_assert(!header_name_is_token(""));
    ck_assert(!header_name_is_token("a b"));
    ck_assert(!header_name_is_token("a:"));
    ck_assert(header_value_is_clean("a\tb \xc3\xa9"));
    ck_assert(!header_value_is_clean("a\r\nb"));
    ck_assert(!header_value_is_clean("\x7f"));
    ck_assert(!header_value_is_clean("\xff"));
}
END_TEST

START_TEST(api_objects)
{
    static const char fn[] =
        "{\"id\":\"F\",\"name\":\"hello\",\"app_id\":\"A\",\"image\":\"i\",\"memory"
        "\":256,\"timeout\":9,"
        "\"config\":null,\"annotations\":{\"fnproject.io/fn/invokeEndpoint\":\"http://x/\\u003c\","
        "\"o\":{ \"b\" : [1, 2.50] , \"a\":1e5}},\"created_at\":\"2026-11-21T04:17:24"
        ".501Z\",\"new\":{}}";
    static const char apps[] = "{\"items\":[{\"id\":\"A\",\"name\":\"demo\",\"config"
        "\":{\"k\":\"v\"}},"
                               "{\"id\":\"B\"}],\"next_cursor\":\"\"}";
    static const char trigger[] = "{\"id\":\"T\",\"name\":\"t\",\"app_id\":\"A\",\"fn_id\":\"F\","
                                  "\"type\":\"http\",\"source\":\"/x\"}";
    struct fn_error e = ERR_INIT;
    struct fn_def f;
    struct app a;
    struct trigger t;

    ck_assert_int_eq(fn_def_from_json(&f, BY_NODE, &arena, fn, sizeof(fn) - 1, &e), 0);
    ck_assert_uint_eq(f.mem_mb, 256);
    ck_assert_int_eq(f.timeout_s, 9);
    ck_assert_int_eq(f.idle_timeout_s, 30);
    ck_assert_uint_eq(f.config.n, 0);
    ck_assert_str_eq(kvs_get(&f.annotations, "fnproject.io/fn/invokeEndpoint"),
                     "\"http://x/\\u003c\"");
    ck_assert_str_eq(kvs_get(&f.annotations, "o"), "{\"b\":[1,2.50],\"a\":1e5}");
    ck_assert_int_eq(fn_def_check(&f, &e), 0);
    ck_assert_int_eq(app_list_first(&a, &arena, apps, sizeof(apps) - 1, &e), 0);
    ck_assert_str_eq(a.id, "A");
    ck_assert_str_eq(kvs_get(&a.config, "k"), "v");
    ck_assert_int_eq(app_check(&a, &e), 0);
    ck_assert_int_eq(app_list_first(&a, &arena, "{\"items\":[]}", 12, &e), 1);
    ck_assert_int_eq(trigger_from_json(&t, BY_NODE, &arena, trigger, sizeof(trigger) - 1, &e), 0);
    ck_assert_str_eq(t.source, "/x");
    ck_assert_int_eq(trigger_check(&t, &e), 0);
    ck_assert_str_eq(api_message(&arena, "{\"message\":\"App not found\"}\n", 28), "App not found");
    ck_assert_ptr_null(api_message(&arena, "<html>", 6));
    ck_assert_int_eq(fn_def_from_json(&f, BY_NODE, &arena, "{\"memory\":\"x\"}", 14, &e),
                     FN_E_INVALID);
    ck_assert_ptr_nonnull(strstr(e.msg, "function: 1:11 expected a whole number"));
}
END_TEST

/* The spelling of an annotation is part of a slot's identity on Go's runners: it travels as the API
 * node gave it, as a json.RawMessage does, through model, TryCall and the runner's model. */
START_TEST(annotations_keep_their_spelling)
{
    static const char *const rows[][2] = {
        { "\"\\u00fc\"", NULL },
        { "\"\\u00FC\\u0041\\/\\b\\f\"", NULL },
        { "\"\\ud83d\\ude00\"", NULL },
        { "\"\\ud83d x\"", NULL }, /* a lone surrogate */
        { "\"\\u0000\"", NULL },
        { "\"\\u003c\\u003C\"", NULL },
        { "\"\xc3\xbc \\\"\"", NULL },
        { "{\"\\u0061\":{\"a\":1,\"\\/\":[]},\"a\":1.50E+3}", NULL },
        { "{ \"b\" : [ 1 ,\"x  y\" ] }", "{\"b\":[1,\"x  y\"]}" },
        { "\"<&>\xe2\x80\xa8\xe2\x80\xa9\"", "\"\\u003c\\u0026\\u003e\\u2028\\u2029\"" },
        { "{\"<\":true}", "{\"\\u003c\":true}" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *expected = rows[i][1] ? rows[i][1] : rows[i][0];
        const char *json = arena_printf(&arena, "{\"annotations\":{\"k\":%s}}", rows[i][0]);
        struct buf sent = BUF_INIT(0), identity = BUF_INIT(0);
        struct fn_error e = ERR_INIT;
        struct fn_def f;
        struct call c;

        ck_assert_msg(fn_def_from_json(&f, BY_NODE, &arena, json, strlen(json), &e) == 0, "%s",
                      e.msg);
        ck_assert_str_eq(kvs_get(&f.annotations, "k"), expected);
        call_init(&c, &arena);
        kvs_set(&c.annotations, "k", kvs_get(&f.annotations, "k"));
        ck_assert_int_eq(call_to_json(&c, &sent), 0);
        ck_assert_ptr_nonnull(strstr(buf_text(&sent), expected));
        ck_assert_int_eq(read_call(&c, buf_text(&sent), &e), 0);
        ck_assert_str_eq(kvs_get(&c.annotations, "k"), expected);
        ck_assert_int_eq(call_identity(&c, "", &identity), 0);
        ck_assert_ptr_nonnull(memmem(identity.data, identity.len, expected, strlen(expected)));
        buf_finish(&sent);
        buf_finish(&identity);
    }
}
END_TEST

START_TEST(rules)
{
    struct fn_error e = ERR_INIT;
    struct fn_def f;
    struct app a;

    fn_def_init(&f, &arena);
    f.name = "a/b";
    ck_assert_int_lt(fn_def_check(&f, &e), 0);
    ck_assert_str_eq(e.msg, "name must be a valid string");
    f.name = "ok.~$&+:=@";
    f.app_id = "A";
    ck_assert_int_lt(fn_def_check(&f, &e), 0);
    ck_assert_str_eq(e.msg, "Missing image on Fn");
    f.image = "i";
    f.mem_mb = 9000;
    ck_assert_int_lt(fn_def_check(&f, &e), 0);
    f.mem_mb = 8192;
    ck_assert_int_eq(fn_def_check(&f, &e), 0);
    kvs_set(&f.annotations, "k", "null");
    ck_assert_int_lt(fn_def_check_kept(&f, &e), 0);
    ck_assert_int_eq(fn_def_check(&f, &e), 0);
    app_init(&a, &arena);
    a.name = "x y";
    ck_assert_int_lt(app_check(&a, &e), 0);
    ck_assert_str_eq(e.msg, "Invalid app name");
    a.name = "x";
    a.syslog_url = "http://x";
    ck_assert_int_lt(app_check(&a, &e), 0);
    ck_assert_ptr_nonnull(strstr(e.msg, "invalid scheme"));
}
END_TEST

/* A load balancer takes from an API of others what a runner refuses, who says why. */
START_TEST(rules_of_runners)
{
    static const char *const keys[] = { "", "=", "A=B" };
    static const char *const images[] = { "a b", "../../x", "i:", "a:b:c" };
    struct fn_error e = ERR_INIT;
    struct fn_def f;
    struct app a;

    for (size_t i = 0; i < 3; i++) {
        fn_def_init(&f, &arena);
        app_init(&a, &arena);
        f.name = a.name = f.app_id = f.image = "x";
        ck_assert_int_eq(fn_def_check_new(&f, &e), 0);
        ck_assert_int_eq(app_check_new(&a, &e), 0);
        kvs_set(&f.config, keys[i], "v");
        kvs_set(&a.config, keys[i], "v");
        ck_assert(fn_def_check(&f, &e) == 0 && app_check(&a, &e) == 0);
        ck_assert(fn_def_check_new(&f, &e) < 0 && fn_def_check_kept(&f, &e) < 0);
        ck_assert(app_check_new(&a, &e) < 0 && app_check_kept(&a, &e) < 0);
        ck_assert_int_eq(e.http_status, 400);
        ck_assert_str_eq(e.msg, arena_printf(&arena, "config key, got \"%s\"; expected a name "
                                             "without \"=\"", keys[i]));
    }
    for (size_t i = 0; i < 4; i++) {
        fn_def_init(&f, &arena);
        f.name = f.app_id = "x";
        f.image = images[i];
        ck_assert_int_eq(fn_def_check(&f, &e), 0);
        ck_assert_int_lt(fn_def_check_new(&f, &e), 0);
        ck_assert_int_eq(e.http_status, 400);
        ck_assert_str_eq(e.msg, arena_printf(&arena, "RUN406 image name, got \"%s\"; expected "
                                             "registry/name:tag", images[i]));
    }
}
END_TEST

/* 512 bytes as a client sends them: what the API's writer makes of & and the like is longer. */
START_TEST(annotations_are_measured_as_they_are_sent)
{
    static const struct {
        const char *piece;
        size_t bytes;
    } rows[] = { { "\\u0026", 1 }, { "\\u003c", 1 }, { "\\u2028", 3 }, { "\\\\u0026", 7 },
                 { "\\n", 2 },     { "&", 1 } };
    struct fn_error e = ERR_INIT;
    struct fn_def f;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t room = 510;

        for (int over = 0; over < 2; over++) {
            struct buf value = BUF_INIT(0);

            buf_add(&value, "\"", 1);
            for (size_t n = 0; n < room / rows[i].bytes + (size_t)over; n++) {
                buf_add(&value, rows[i].piece, strlen(rows[i].piece));
            }
            buf_add(&value, "\"", 1);
            fn_def_init(&f, &arena);
            f.name = f.app_id = f.image = "x";
            kvs_set(&f.annotations, "k", buf_text(&value));
            ck_assert_msg((fn_def_check_kept(&f, &e) < 0) == over, "row %zu: %s", i, e.msg);
            buf_finish(&value);
        }
    }
}
END_TEST

/* Names of apps and triggers: whatever can be seen, of any script, but nothing that is not. */
START_TEST(names_can_be_seen)
{
    static const struct {
        const char *name;
        bool good;
    } rows[] = {
        { "a", true },           { "Z-9_", true },
        { "\u00fcber", true },   { "\u65e5\u672c", true },
        { "\U0001f600", true },  { "a b", false },
        { "a.b", false },        { "a\u00a0b", false },     /* a blank that does not break */
        { "a\xc2\x85", false },  { "a\u00ad", false },      /* controls, soft hyphen */
        { "a\u200b", false },    { "a\u202eb", false },     /* no width, right to left */
        { "\ufeffa", false },    { "\U000e0041", false },   /* byte order mark, tags */
        { "a\xff", false },      { "a\xc3", false },        /* no UTF-8 */
    };
    struct fn_error e = ERR_INIT;
    struct app a;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        app_init(&a, &arena);
        a.name = rows[i].name;
        ck_assert_msg((app_check(&a, &e) == 0) == rows[i].good, "row %zu", i);
    }
}
END_TEST

/* In any order, of one key the last one, and no more than the limits. */
START_TEST(sets_are_filled)
{
    const struct fn_kv items[] = { { "c", "1" }, { "a", "2" }, { "c", "3" }, { "b", "4" },
                                   { "c", "5" } };
    char *big = calloc(1, KVS_BYTES_MAX + 1);
    struct fn_error e = ERR_INIT;
    struct kvs k;

    kvs_init(&k, &arena);
    ck_assert_int_eq(kvs_fill(&k, items, 5, "things", &e), 0);
    ck_assert_uint_eq(k.n, 3);
    ck_assert_str_eq(k.items[0].key, "a");
    ck_assert_str_eq(k.items[1].key, "b");
    ck_assert_str_eq(kvs_get(&k, "c"), "5");
    kvs_init(&k, &arena);
    memset(big, 'x', KVS_BYTES_MAX);
    ck_assert_int_eq(kvs_fill(&k, &(struct fn_kv){ "k", big }, 1, "things", &e), FN_E_INVALID);
    ck_assert_str_eq(e.msg, "RUN404 things of 1048577 bytes; expected at most 1048576");
    ck_assert_int_eq(e.http_status, 400);
    free(big);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        captured_vector, written_as_read, sets_are_in_order, writes_like_go, no_room_is_an_error,
        lenient_where_go_is, bad_models, too_deep_and_nul, memory_limit, checks, slot_keys,
        both_sides_make_one_slot_key,
        jansson_agrees, times, ids, header_tables,
        each_header_is_what_nodes_take_it_for, api_objects,
        annotations_keep_their_spelling, rules, rules_of_runners,
        names_can_be_seen, annotations_are_measured_as_they_are_sent,
        sets_are_filled,
    };
    Suite *s = suite_create("model");
    TCase *tc = tcase_create("call");
    SRunner *sr;
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        tcase_add_test(tc, tests[i]);
    }
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
