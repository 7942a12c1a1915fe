/* The same scripted peers are played against nghttp2 and C core, and what is told is compared. */
#include "diff.h"

#include <rpc/rpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void diff_play(const char *script, void (*act)(void *ud, unsigned call, const char *what), void *ud)
{
    char *words = strdup(script), *more = NULL;

    for (char *w = strtok_r(words, " ", &more); w; w = strtok_r(NULL, " ", &more)) {
        char *times = strchr(w, '*');
        unsigned call = w[0] >= '1' && w[0] <= '9' ? (unsigned)(w[0] - '0') : 0;
        long n = times ? atol(times + 1) : 1;

        if (times) {
            *times = '\0';
        }
        for (long i = 0; i < n; i++) {
            act(ud, call, w + (call > 0));
        }
    }
    free(words);
}

struct fixture *diff_fixture(enum diff_transport t)
{
    struct rpc_config config = RPC_CONFIG_INIT;
    struct fn_error err = ERR_INIT;
    const char *name = t == DIFF_CORE ? "core" : "nghttp2";

    config.probe_interval_ns = 0;
    config.client_silence_ns = 0;
    config.end_timeout_ns = 60000 * ENV_MS;
    config.first_message_ns = 60000 * ENV_MS;
    config.connect_timeout_ns = 20000 * ENV_MS;
    ck_assert_msg(rpc_transport_find(getenv("FND_TRANSPORTS"), name, &config.transport, &err) == 0,
                  "%s", err.msg);
    return fixture_create_with(OVER_UNIX, &config);
}

/* Whether text is one of "A or B". */
static bool is_one_of(const char *alternatives, const char *text)
{
    size_t len = strlen(text);

    for (const char *a = alternatives; a; a = strstr(a, " or ")) {
        a += a == alternatives ? 0 : strlen(" or ");
        if (strncmp(a, text, len) == 0 && (!a[len] || strncmp(a + len, " or ", 4) == 0)) {
            return true;
        }
    }
    return false;
}

void diff_compare(const struct diff_row *row, enum diff_transport t, const char *got)
{
    const char *expected = t == DIFF_CORE && row->core ? row->core : row->expected;

    ck_assert_msg(!row->core == !row->why, "%s: a difference needs its reason", row->what);
    ck_assert_msg(is_one_of(expected, got), "%s, over %s: %s; expected %s", row->what,
                  t == DIFF_CORE ? "core" : "nghttp2", got, expected);
}

uint32_t diff_random(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % n;
}

int main(void)
{
    Suite *suite = suite_create("diff");
    SRunner *runner;
    int failed;

    suite_add_tcase(suite, diff_client_case());
    suite_add_tcase(suite, diff_server_case());
    suite_add_tcase(suite, diff_proofs_case());
    suite_add_tcase(suite, seam_case());
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
