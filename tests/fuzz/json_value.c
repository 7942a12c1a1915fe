/* Any JSON value, read by core/model and by jansson.
 *
 * Both take it or both refuse it, but for what core/model/json.h says: nesting, NUL and half a pair
 * of surrogates in texts, bytes that are no UTF-8, numbers beyond double, a key twice. jr_raw()
 * writes the same value, and what it wrote it writes again. */
#include "fuzz.h"

#include <base/arena.h>
#include <fn/abi.h>
#include <jansson.h>
#include <model/json.h>

#define MEMORY_MAX (8u << 20)

/* One value and nothing behind it; *ret its text, in the arena. */
static int read_raw(struct arena *arena, const char *text, size_t len, const char **ret,
                    const char **ret_problem)
{
    struct jr r;

    jr_init(&r, text, len, arena);
    if (jr_raw(&r, ret) == 0) {
        jr_end(&r);
    }
    *ret_problem = r.problem;
    return r.failed;
}

static int read_skipped(struct arena *arena, const char *text, size_t len)
{
    struct jr r;

    jr_init(&r, text, len, arena);
    if (jr_skip(&r) == 0) {
        jr_end(&r);
    }
    return r.failed;
}

/* What jansson alone refuses. */
static bool is_ours(const json_error_t *why)
{
    return json_error_code(why) == json_error_numeric_overflow ||
           json_error_code(why) == json_error_null_byte_in_key ||
           strstr(why->text, "invalid Unicode") || strstr(why->text, "unable to decode byte");
}

/* What we alone refuse. */
static bool is_theirs(const char *problem)
{
    return strstr(problem, "nested deeper") || strstr(problem, "NUL in a text") ||
           strstr(problem, "twice");
}

static void expect_same(struct arena *arena, const json_t *value, const char *raw)
{
    const char *again, *problem;
    json_t *j = json_loads(raw, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

    fuzz_expect(j && (!value || json_equal(j, value)), "another value: %s", raw);
    fuzz_expect(read_raw(arena, raw, strlen(raw), &again, &problem) == 0, "%s: %s", problem, raw);
    fuzz_expect(strcmp(raw, again) == 0, "%s, then %s", raw, again);
    json_decref(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *text = len ? (const char *)data : "", *raw = NULL, *problem = NULL;
    struct arena arena;
    json_error_t why;
    json_t *value = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    int r;

    arena_init(&arena, MEMORY_MAX);
    r = read_raw(&arena, text, len, &raw, &problem);
    fuzz_expect(r != 0 || read_skipped(&arena, text, len) == 0, "taken, but not skipped");
    if (r == 0) {
        fuzz_expect(value || is_ours(&why), "%s at %d", why.text, why.position);
        if (value) {
            expect_same(&arena, value, raw);
        }
    } else if (value && !memchr(text, 0, len)) { /* NUL between tokens is nothing to jansson */
        fuzz_expect(problem && is_theirs(problem), "%s", problem ? problem : "no sentence");
    }
    json_decref(value);
    arena_finish(&arena);
    return 0;
}
