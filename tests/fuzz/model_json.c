/* JSON of apps, functions, triggers and calls, from clients and from nodes. The first byte says who
 * reads the rest:
 *
 *   a f t   an app, function or trigger of a client    A F T   of an API node
 *   l       an API node's list of apps                 m       its error
 *   c       a call as it travels                       k r     a map of texts, of JSON
 *
 * jansson is the oracle of what is JSON: what a client may say, it takes, too. What was read is
 * written, and that is read as the same; a change that was merged changes nothing a second time. */
#include "fuzz.h"

#include <base/arena.h>
#include <jansson.h>
#include <model/app.h>
#include <model/call.h>

#define MEMORY_MAX (8u << 20)

typedef int reads(void *to, struct arena *arena, const char *json, size_t len,
                  struct fn_error *reterr);
typedef int writes(const void *it, struct buf *out);
typedef int checks(const void *it, struct fn_error *reterr);

/* The three models, by what they have in common. */
#define MODEL(word)                                                                                \
    static int word##_client(void *to, struct arena *a, const char *json, size_t len,              \
                             struct fn_error *reterr)                                              \
    {                                                                                              \
        word##_init(to, a);                                                                        \
        return word##_from_json(to, BY_CLIENT, a, json, len, reterr);                              \
    }                                                                                              \
    static int word##_node(void *to, struct arena *a, const char *json, size_t len,                \
                           struct fn_error *reterr)                                                \
    {                                                                                              \
        word##_init(to, a);                                                                        \
        return word##_from_json(to, BY_NODE, a, json, len, reterr);                                \
    }                                                                                              \
    static int word##_write(const void *it, struct buf *out)                                       \
    {                                                                                              \
        return word##_to_json(it, out);                                                            \
    }                                                                                              \
    static int word##_judge(const void *it, struct fn_error *reterr)                               \
    {                                                                                              \
        return word##_check_new(it, reterr) < 0 ? -1 : word##_check(it, reterr);                   \
    }                                                                                              \
    static int word##_sound(const void *it, struct fn_error *reterr)                               \
    {                                                                                              \
        return word##_check(it, reterr);                                                           \
    }                                                                                              \
    static int word##_change(void *to, const void *change)                                         \
    {                                                                                              \
        return word##_merge(to, change);                                                           \
    }

MODEL(app)
MODEL(fn_def)
MODEL(trigger)

static const struct model {
    reads *client, *node;
    writes *write;
    checks *judge, *sound; /* of a client, of a node */
    int (*change)(void *to, const void *change);
    const char *stored; /* what is changed */
} models[] = {
    { app_client, app_node, app_write, app_judge, app_sound, app_change,
      "{\"id\":\"01\",\"name\":\"demo\",\"config\":{\"A\":\"b\",\"C\":\"d\"}}" },
    { fn_def_client, fn_def_node, fn_def_write, fn_def_judge, fn_def_sound, fn_def_change,
      "{\"id\":\"02\",\"name\":\"f\",\"app_id\":\"01\",\"image\":\"i\",\"memory\":64}" },
    { trigger_client, trigger_node, trigger_write, trigger_judge, trigger_sound, trigger_change,
      "{\"id\":\"03\",\"name\":\"t\",\"app_id\":\"01\",\"fn_id\":\"02\",\"type\":\"http\","
      "\"source\":\"/a\"}" },
};

union any {
    struct app app;
    struct fn_def fn;
    struct trigger trigger;
};

/* ---- the oracle ------------------------------------------------------------------------------ */

/* Numbers beyond double, half of a surrogate (as in Go) and NUL in texts are fine with us. */
static void expect_json(struct fuzz_in in)
{
    static const char half[] = "invalid Unicode";
    json_error_t why;
    json_t *j = json_loadb(in.at, in.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);

    fuzz_expect(j || json_error_code(&why) == json_error_numeric_overflow ||
                    strncmp(why.text, half, strlen(half)) == 0,
                "%s at %d: %.*s", why.text, why.position, (int)in.len, in.at);
    json_decref(j);
}

/* ---- models ---------------------------------------------------------------------------------- */

/* it -> its JSON -> ret */
static void rewrite(const struct model *m, struct arena *arena, const union any *it,
                    struct buf *json, union any *ret)
{
    struct fn_error e = ERR_INIT;

    fuzz_expect(m->write(it, json) == 0, "written");
    fuzz_expect(m->node(ret, arena, json->data, json->len, &e) == 0, "%s: %s", e.msg,
                buf_text(json));
}

/* Once more than one would think: a date before 1970 becomes that of its begin, which is none. */
static void expect_same(const struct model *m, const union any *it)
{
    struct buf json[3];
    struct arena arena;
    union any first, second, third;

    arena_init(&arena, MEMORY_MAX);
    for (int i = 0; i < 3; i++) {
        buf_init(&json[i], MEMORY_MAX);
    }
    rewrite(m, &arena, it, &json[0], &first);
    rewrite(m, &arena, &first, &json[1], &second);
    rewrite(m, &arena, &second, &json[2], &third);
    fuzz_expect(json[1].len == json[2].len &&
                    memcmp(json[1].data, json[2].data, json[1].len) == 0,
                "%s\n%s", buf_text(&json[1]), buf_text(&json[2]));
    for (int i = 0; i < 3; i++) {
        buf_finish(&json[i]);
    }
    arena_finish(&arena);
}

static void expect_merged_once(const struct model *m, struct arena *arena, const union any *change)
{
    union any it;

    fuzz_expect(m->node(&it, arena, m->stored, strlen(m->stored), NULL) == 0, "%s", m->stored);
    if (m->change(&it, change) >= 0) {
        fuzz_expect(m->change(&it, change) == 0, "merged a second time");
    }
}

static void read_model(const struct model *m, bool client, struct fuzz_in in)
{
    struct fn_error e = ERR_INIT;
    struct arena arena;
    union any it;
    int r;

    arena_init(&arena, MEMORY_MAX);
    r = (client ? m->client : m->node)(&it, &arena, in.at, in.len, &e);
    if (r == 0 && client) {
        expect_json(in);
        if (m->judge(&it, &e) == 0) {
            expect_same(m, &it);
        }
        expect_merged_once(m, &arena, &it);
    } else if (r == 0) {
        if (m->sound(&it, &e) == 0) {
            expect_same(m, &it);
        }
    } else {
        fuzz_expect(e.msg[0] != '\0', "a refusal without a sentence");
    }
    arena_finish(&arena);
}

/* ---- the others ------------------------------------------------------------------------------ */

static void read_call(struct fuzz_in in)
{
    struct fn_error e = ERR_INIT;
    struct arena arena, other;
    struct buf one, two;
    struct call c, again;

    arena_init(&arena, MEMORY_MAX);
    arena_init(&other, MEMORY_MAX);
    buf_init(&one, MEMORY_MAX);
    buf_init(&two, MEMORY_MAX);
    call_init(&c, &arena);
    call_init(&again, &other);
    if (call_from_json(&c, in.at, in.len, &e) == 0 && call_check(&c, &e) == 0 &&
        call_to_json(&c, &one) == 0) {
        fuzz_expect(call_from_json(&again, one.data, one.len, &e) == 0, "%s: %s", e.msg,
                    buf_text(&one));
        fuzz_expect(call_to_json(&again, &two) == 0, "%s", buf_text(&one));
        fuzz_expect(one.len == two.len && memcmp(one.data, two.data, one.len) == 0, "%s\n%s",
                    buf_text(&one), buf_text(&two));
        buf_clear(&one);
        call_identity(&c, "", &one);
    }
    buf_finish(&two);
    buf_finish(&one);
    arena_finish(&other);
    arena_finish(&arena);
}

static void read_map(struct fuzz_in in, bool raw)
{
    struct fn_error e = ERR_INIT;
    struct arena arena;
    struct buf out;
    struct kvs k, again;

    arena_init(&arena, MEMORY_MAX);
    buf_init(&out, MEMORY_MAX);
    kvs_init(&k, &arena);
    kvs_init(&again, &arena);
    if (kvs_from_json(&k, raw, in.at, in.len, &e) == 0 && kvs_to_json(&k, raw, &out) == 0) {
        fuzz_expect(kvs_from_json(&again, raw, out.data, out.len, &e) == 0, "%s: %s", e.msg,
                    buf_text(&out));
        fuzz_expect(again.n == k.n, "%s", buf_text(&out));
        for (uint32_t i = 0; i < k.n; i++) {
            const char *value = kvs_get(&again, k.items[i].key);

            fuzz_expect(value && strcmp(value, k.items[i].value) == 0, "%s", buf_text(&out));
        }
    }
    buf_finish(&out);
    arena_finish(&arena);
}

static void read_list(struct fuzz_in in)
{
    struct fn_error e = ERR_INIT;
    struct arena arena;
    struct app app;

    arena_init(&arena, MEMORY_MAX);
    app_init(&app, &arena);
    app_list_first(&app, &arena, in.at, in.len, &e);
    arena_finish(&arena);
}

static void read_message(struct fuzz_in in)
{
    struct arena arena;

    arena_init(&arena, MEMORY_MAX);
    api_message(&arena, in.at, in.len);
    arena_finish(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char letters[] = "aftAFTlmckr", of_models[] = "aftAFT";
    struct fuzz_in in = fuzz_begin(data, len);
    char mode = fuzz_mode(&in, letters);
    const char *model = strchr(of_models, mode);

    if (model) {
        read_model(&models[(model - of_models) % 3], model - of_models < 3, in);
    } else if (mode == 'c') {
        read_call(in);
    } else if (mode == 'l') {
        read_list(in);
    } else if (mode == 'm') {
        read_message(in);
    } else {
        read_map(in, mode == 'r');
    }
    return 0;
}
