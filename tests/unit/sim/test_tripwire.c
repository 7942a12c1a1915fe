/* Plugins that reach for the outside, each in a child: one sentence with plugin, method, function. */
#include "suites.h"

#include "../../../tools/fnkit/sim_tripwire.h"

#include <sim/cluster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int out;

static void on_trip(const char *sentence)
{
    if (write(out, sentence, strlen(sentence)) < 0) {
        _exit(2);
    }
    _exit(1);
}

static int simulate(const char *plugin)
{
    struct cluster_options o = { .seed = 1, .path = plugin };
    struct cluster_result r;
    struct conf_problems p;
    struct scenario *sc = NULL;

    tripwire_handler(on_trip);
    conf_problems_init(&p);
    if (scenario_load(scenario_text("duration: 2s\n"), NULL, 0, &sc, &p) < 0) {
        return 3;
    }
    return cluster_run(sc, &o, &r, &p, NULL) == 0 && r.placed > 0 ? 0 : 4;
}

/* The sentence of a run in a child, "" when it ended well. */
static const char *sentence_of(const char *plugin)
{
    static char text[1024];
    int fds[2], status;
    ssize_t n;
    pid_t pid;

    ck_assert_int_eq(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        out = fds[1];
        _exit(simulate(plugin));
    }
    close(fds[1]);
    n = read(fds[0], text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    close(fds[0]);
    waitpid(pid, &status, 0);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), text[0] ? 1 : 0);
    return text;
}

static const struct {
    const char *plugin;
    const char *sentence;
} cases[] = {
    { "rand", "SIM103 placer outside: decide() called rand(); expected time, chance" },
    { "random-observe", "observe() called random()" },
    { "time-create", "create() called time()" },
    { "time-timer", "timer() called time()" },
    { "clock", "decide() called clock_gettime()" },
    { "getrandom", "decide() called getrandom()" },
    { "urandom", "decide() called open()" },
    { "fopen", "create() called fopen()" },
    { "socket", "decide() called socket()" },
    { "poll", "decide() called poll()" },
    { "sleep", "decide() called usleep()" },
    { "fork", "decide() called fork()" },
    { "thread", "decide() called pthread_create()" },
};

START_TEST(the_outside_is_caught)
{
    if (tripwire_set()) {
        const char *got = sentence_of(sample(cases[_i].plugin));

        ck_assert_msg(strstr(got, cases[_i].sentence), "%s: got \"%s\"", cases[_i].plugin, got);
    }
}
END_TEST

START_TEST(what_stays_inside_passes)
{
    static const char *const names[] = { "placer-naive", "placer-ch", "placer-p2c" };

    ck_assert_str_eq(sentence_of(sample("inside")), "");
    for (int i = 0; i < 3; i++) {
        ck_assert_str_eq(sentence_of(shipped(names[i])), "");
    }
}
END_TEST

TCase *tripwire_tests(void)
{
    TCase *t = tcase_create("tripwire");

    tcase_add_loop_test(t, the_outside_is_caught, 0, (int)(sizeof(cases) / sizeof(cases[0])));
    tcase_add_test(t, what_stays_inside_passes);
    return t;
}
