/* bench_list: a load balancer's side of long lists of runners, without calls.
 *
 *   bench_list <plugins> <placer> <runners> <port>
 *
 * Publishes a list of runners that are all new, the same list again, and one with a tenth of it
 * changed, to a real loop with real links; figures are processor time of the loop's thread, and how
 * late a tick each millisecond was.
 * Prints "name value" lines. The runners' port is answered on every address of 127/8. */
#include <base/env.h>
#include <base/log.h>
#include <conf/conf.h>
#include <loop/loop.h>
#include <place/place.h>
#include <plugin/plugin.h>
#include <rpc/rpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define US         1000LL
#define TICK_NS    ENV_MS
#define UP_MAX_NS  (60 * ENV_S)
#define LATES_MAX  65536u

static struct loop *loop;
static struct env *env;
static struct place *place;
static struct fn_runner *list;
static uint32_t n;
static struct env_timer timer;
static uint32_t lates_us[LATES_MAX];
static uint32_t n_lates;
static int64_t begun_ns;

static void die(const struct fn_error *e)
{
    fprintf(stderr, "bench_list: %s\n", e->msg);
    exit(69);
}

static struct plugin *load(struct plugin_host *h, const char *dir, const char *name)
{
    struct conf_problems problems;
    struct conf_values *values = NULL;
    const struct fn_factory *factory;
    struct plugin_file *f = NULL;
    struct plugin *p = NULL;
    struct fn_error e = ERR_INIT;
    char path[4096];

    if (plugin_path_for(dir, FN_KIND_PLACER, name, path, sizeof(path)) < 0 ||
        plugin_file_open(h, path, &f, &e) < 0) {
        die(&e);
    }
    factory = plugin_file_factory(f, FN_KIND_PLACER, name);
    conf_problems_init(&problems);
    if (factory->opts) {
        conf_bind_with(NULL, NULL, name, factory->opts, factory->conf_size, NULL, NULL, &values,
                       &problems);
    }
    conf_problems_finish(&problems);
    if (plugin_create(h, f, factory, name, values, &p, &e) < 0) {
        die(&e);
    }
    return p;
}

static void name_runner(uint32_t i, uint32_t number, const char *port)
{
    char address[64];

    snprintf(address, sizeof(address), "127.%u.%u.%u:%s", number >> 16 & 255, number >> 8 & 255,
             1 + (number & 127), port);
    free((char *)(uintptr_t)list[i].address);
    list[i] = (struct fn_runner){
        .id = number, .address = strdup(address), .capacity_mb = 4096, .weight = 1};
}

/* Of this thread: what others on the machine do does not count. */
static int64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * ENV_S + t.tv_nsec;
}

static struct engage_link *(*real_link_open)(struct engage_client *, const char *, const char *,
                                             const struct engage_link_cb *, void *);
static int64_t opening_ns, longest_ns, opened_at_ns, held_ns;
static uint32_t opened_n;

/* Links that are opened one after the other hold the loop together. */
static struct engage_link *timed_open(struct engage_client *c, const char *address,
                                      const char *tls_name, const struct engage_link_cb *cb,
                                      void *ud)
{
    int64_t now_ns = env_now_ns(env), start_ns = cpu_ns();
    struct engage_link *l = real_link_open(c, address, tls_name, cb, ud);
    int64_t took_ns = cpu_ns() - start_ns;

    held_ns = now_ns == opened_at_ns ? held_ns + took_ns : took_ns; /* one turn, one time */
    opened_at_ns = now_ns;
    longest_ns = held_ns > longest_ns ? held_ns : longest_ns;
    opening_ns += took_ns;
    opened_n++;
    return l;
}

static void publish(const char *what)
{
    int64_t start_ns = cpu_ns();

    if (place_publish(place, "default", list, n) < 0) {
        exit(69);
    }
    printf("%s-us %lld\n", what, (long long)((cpu_ns() - start_ns) / US));
}

static uint32_t up(void)
{
    struct place_counts c;

    place_count(place, &c);
    return c.runners_up;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static void on_tick(struct env_timer *t)
{
    static uint32_t ticks;
    int64_t now_ns = env_now_ns(env);

    if (n_lates < LATES_MAX) {
        lates_us[n_lates++] = (uint32_t)((now_ns - t->at_ns) / US);
    }
    if (++ticks % 100 == 0 && (opened_n >= n || now_ns - begun_ns > UP_MAX_NS)) {
        loop_stop(loop);
        return;
    }
    env_timer_set(env, t, now_ns + TICK_NS);
}

static void report(void)
{
    printf("links %u\nlink-us %lld\nportion-max-us %lld\n", opened_n,
           (long long)(opening_ns / US / (opened_n ? opened_n : 1)), (long long)(longest_ns / US));
    printf("up %u\nup-after-ms %lld\n", up(), (long long)((env_now_ns(env) - begun_ns) / ENV_MS));
    qsort(lates_us, n_lates, sizeof(lates_us[0]), compare);
    printf("late-p50-us %u\nlate-p99-us %u\nlate-max-us %u\n", lates_us[n_lates / 2],
           lates_us[n_lates * 99 / 100], lates_us[n_lates - 1]);
}

static void open_place(const char *dir, const char *placer)
{
    struct rpc_config c = RPC_CONFIG_INIT;
    struct place_deps deps = {.options = {10 * ENV_MS, ENV_S, 20000, 10 * ENV_S}};
    struct fn_error e = ERR_INIT;
    struct rpc *rpc;

    if (loop_create(NULL, &loop, &e) < 0 || rpc_create(loop, &c, &rpc, &e) < 0) {
        die(&e);
    }
    env = loop_env(loop);
    deps.env = env;
    deps.host = plugin_host_create(env);
    deps.client = rpc_client(rpc);
    real_link_open = deps.client->link_open;
    deps.client->link_open = timed_open;
    if (place_create(&deps, &place, &e) < 0 ||
        place_set_placer(place, load(deps.host, dir, placer), NULL, NULL) < 0) {
        die(&e);
    }
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: bench_list PLUGINS PLACER RUNNERS PORT\n");
        return 64;
    }
    log_set_level(FN_LOG_ERROR);
    n = (uint32_t)strtoul(argv[3], NULL, 10);
    list = calloc(n + 1, sizeof(*list));
    open_place(argv[1], argv[2]);
    for (uint32_t i = 0; i < n; i++) {
        name_runner(i, i * 2, argv[4]);
    }
    loop_enter(loop);
    begun_ns = env_now_ns(env);
    publish("all-new");
    publish("the-same");
    for (uint32_t i = 0; i < n; i += 10) {
        name_runner(i, i * 2 + 1, argv[4]);
    }
    publish("a-tenth-new");
    timer.cb = on_tick;
    env_timer_set(env, &timer, env_now_ns(env) + TICK_NS);
    loop_leave(loop);
    loop_run(loop);
    loop_enter(loop);
    report();
    publish("the-same-up");
    fflush(stdout);
    _exit(0);
}
