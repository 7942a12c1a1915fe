/* One line "scenario plugin trace" per run, for repeat.sh: args are a seed, scenarios and plugins. */
#include <base/log.h>
#include <sim/cluster.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t no_wall_ns(void)
{
    return 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static int run(const char *scenario, const char *plugin, uint64_t seed, bool nasty)
{
    static const char *const sets[] = { "calls_max=20000" };
    struct cluster_options o = { .seed = seed, .path = plugin, .nasty = nasty };
    struct fn_error e = ERR_INIT;
    struct scenario *sc = NULL;
    struct cluster_result r;
    struct conf_problems p;
    int code;

    conf_problems_init(&p);
    code = scenario_load(scenario, sets, 1, &sc, &p);
    if (code == 0) {
        code = cluster_run(sc, &o, &r, &p, &e);
    }
    if (code < 0) {
        fprintf(stderr, "%s%s\n", buf_text(&p.text), e.msg);
        return 1;
    }
    printf("%s %s %d %016" PRIx64 " %" PRIu64 " %" PRId64 " %" PRIu64 "\n", base_name(scenario),
           base_name(plugin), nasty, r.hash, r.placed, r.wait_p99_ns, r.collateral);
    scenario_destroy(sc);
    conf_problems_finish(&p);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int failed = 0;

    log_setup(&(struct log_config){ .level = FN_LOG_ERROR, .fd = 2, .wall_ns = no_wall_ns });
    for (int i = 2; i < argc; i++) {
        for (int k = 2; strstr(argv[i], ".yaml") && k < argc; k++) {
            if (strstr(argv[k], ".so")) {
                failed |= run(argv[i], argv[k], seed, false);
                failed |= run(argv[i], argv[k], seed, true);
            }
        }
    }
    return failed;
}
