/* bench_npm: load balancers and runners around a node pool manager, without calls.
 *
 *   bench_npm runner <address>                              answers Status for every machine
 *   bench_npm lbs <manager> <lbs> <groups> <seconds>        advertises; prints "name value" lines
 *
 * Each load balancer has a connection of its own and tells the demand of all groups each second; one
 * more asks for a membership every 10 ms and measures how long the answer takes. */
#include <wire.h>

#include <base/env.h>
#include <loop/loop.h>
#include <pthread.h>
#include <rpc/raw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LBS_MAX     4096
#define SAMPLES_MAX 100000
#define PROBE_NS    (10 * ENV_MS)
#define TICK_NS     ENV_MS
#define WARM_NS     (5 * ENV_S)

static struct loop *loop;
static struct env *env;
static struct rpc *rpc;

static void open_rpc(void)
{
    struct rpc_config c = RPC_CONFIG_INIT;

    if (loop_create(NULL, &loop, NULL) < 0 || rpc_create(loop, &c, &rpc, NULL) < 0) {
        exit(69);
    }
    env = loop_env(loop);
}

/* ---- runner ---------------------------------------------------------------------------------- */

static int on_try(void *ud, struct engage_session *s, const struct engage_try *t,
                  int64_t deadline_ns, void **ret_ud)
{
    (void)ud;
    (void)s;
    (void)t;
    (void)deadline_ns;
    (void)ret_ud;
    return FN_E_UNAVAILABLE;
}

static void on_status(void *ud, struct engage_ask *ask)
{
    (void)ud;
    ask->answer(ask, &(struct engage_status){ 0 });
}

static int run_runner(const char *address)
{
    static const struct engage_server_cb cb = { .on_try = on_try, .on_status = on_status };
    struct rpc_server *server;

    open_rpc();
    loop_enter(loop);
    if (rpc_server_open(rpc, address, &cb, NULL, &server, NULL) < 0) {
        return 69;
    }
    loop_leave(loop);
    printf("ready\n");
    fflush(stdout);
    loop_run(loop);
    return 0;
}

/* ---- load balancers -------------------------------------------------------------------------- */

struct lb {
    struct rpc_channel *channel;
    struct rpc_raw *call;
    char id[32];
    uint64_t seq;
    int64_t next_ns;
};

static struct lb lbs[LBS_MAX];
static int n_lbs, n_groups;
static struct lb prober;
static int64_t asked_ns, begun_ns, end_ns;
static uint32_t samples_us[SAMPLES_MAX];
static uint32_t n_samples, sent, taken, failed, late;
static struct env_timer timer;

static void on_nothing(void *ud, const void *data, size_t len)
{
    (void)ud;
    (void)data;
    (void)len;
}

static void on_advertised(void *ud, int status, const char *text)
{
    ((struct lb *)ud)->call = NULL;
    taken += status == 0;
    failed += status != 0;
    (void)text;
}

static void advertise(struct lb *lb, int64_t now_ns)
{
    static const struct rpc_raw_cb cb = { on_nothing, on_advertised };
    struct wire_out o = { NULL, 0, 0, 0 };
    char group[16];

    if (lb->call) {
        late++;
        return;
    }
    wire_demand_begin(&o, lb->id, ++lb->seq, 1);
    for (int i = 0; i < n_groups; i++) {
        const struct wire_demand d = { group, 128 + (lb->seq & 127), 0, 1 };

        snprintf(group, sizeof(group), "g%d", i);
        wire_demand_add(&o, &d);
    }
    sent++;
    rpc_raw_start(lb->channel, "/fnd.Pool/Advertise", o.data, o.len, now_ns + 2 * ENV_S, &cb, lb,
                  &lb->call, NULL);
    wire_finish(&o);
}

static void on_membership_end(void *ud, int status, const char *text)
{
    int64_t now_ns = env_now_ns(env);

    (void)ud;
    (void)text;
    prober.call = NULL;
    if (now_ns - begun_ns > WARM_NS && n_samples < SAMPLES_MAX && status == 0) {
        samples_us[n_samples++] = (uint32_t)((now_ns - asked_ns) / 1000);
    }
    failed += status != 0 && now_ns - begun_ns > WARM_NS;
}

static void probe(int64_t now_ns)
{
    static const struct rpc_raw_cb cb = { on_nothing, on_membership_end };
    struct wire_out o = { NULL, 0, 0, 0 };

    if (prober.call || now_ns < prober.next_ns) {
        return;
    }
    prober.next_ns = now_ns + PROBE_NS;
    asked_ns = now_ns;
    wire_group_id(&o, "g0");
    rpc_raw_start(prober.channel, "/RunnerManager/GetLBGroup", o.data, o.len, now_ns + 2 * ENV_S,
                  &cb, NULL, &prober.call, NULL);
    wire_finish(&o);
}

static void on_tick(struct env_timer *t)
{
    int64_t now_ns = env_now_ns(env);

    for (int i = 0; i < n_lbs; i++) {
        if (now_ns >= lbs[i].next_ns) {
            lbs[i].next_ns += ENV_S;
            advertise(&lbs[i], now_ns);
        }
    }
    probe(now_ns);
    if (now_ns >= end_ns) {
        loop_stop(loop);
        return;
    }
    env_timer_set(env, t, now_ns + TICK_NS);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static int run_lbs(const char *manager, int n, int groups, int seconds)
{
    n_lbs = n < LBS_MAX ? n : LBS_MAX;
    n_groups = groups;
    open_rpc();
    loop_enter(loop);
    begun_ns = env_now_ns(env);
    end_ns = begun_ns + seconds * ENV_S;
    rpc_channel_open(rpc, manager, NULL, NULL, &prober.channel, NULL);
    for (int i = 0; i < n_lbs; i++) {
        snprintf(lbs[i].id, sizeof(lbs[i].id), "lb-%d", i);
        rpc_channel_open(rpc, manager, NULL, NULL, &lbs[i].channel, NULL);
        lbs[i].next_ns = begun_ns + i * ENV_S / n_lbs;
    }
    timer.cb = on_tick;
    env_timer_set(env, &timer, begun_ns);
    loop_leave(loop);
    loop_run(loop);
    qsort(samples_us, n_samples, sizeof(samples_us[0]), compare);
    printf("sent %u\ntaken %u\nfailed %u\nlate %u\n", sent, taken, failed, late);
    if (n_samples > 0) {
        printf("membership-p50-us %u\nmembership-p99-us %u\n", samples_us[n_samples / 2],
               samples_us[n_samples * 99 / 100]);
    }
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "runner") == 0) {
        return run_runner(argv[2]);
    }
    if (argc == 6 && strcmp(argv[1], "lbs") == 0) {
        return run_lbs(argv[2], atoi(argv[3]), atoi(argv[4]), atoi(argv[5]));
    }
    fprintf(stderr, "usage: bench_npm runner ADDRESS | lbs MANAGER LBS GROUPS SECONDS\n");
    return 64;
}
