/* bench_list: a load balancer's side of long lists of runners, without calls.
 *
 *   bench_list <plugins> <placer> <runners> <port>
 *
 * A thread plays the node pool manager; pool/npm takes its lists and the place publishes them, as in
 * a node: runners that are all new, the same list again, and one with a tenth of it changed. Then
 * the links of the last ones are opened, and closed by another list. Figures are processor time of
 * the loop's thread, medians of ROUNDS: until the pool publishes, from there until the list is in
 * use, until the old one is gone, and of the longest turn, which a call could wait for. Prints
 * "name value" lines. The runners' port is answered on every address of 127/8. */
#include <base/env.h>
#include <base/log.h>
#include <conf/conf.h>
#include <loop/loop.h>
#include <place/place_int.h>
#include <plugin/plugin.h>
#include <pthread.h>
#include <rpc/plugin_rpc.h>
#include <rpc/rpc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pool.pb-c.h"

#define US        1000LL
#define IDLE_NS   (8 * US) /* processor time of a turn that had nothing to do, at most */
#define LIST_NS   (10 * ENV_S)
#define CLOSE_NS  (2 * ENV_S)
#define LINKS_NS  (60 * ENV_S)
#define ROUNDS    5
#define KINDS     3
#define LISTS     (ROUNDS * KINDS + 1) /* the last one: all new */

static uint32_t n;
static const char *port;

/* ---- the manager, on a thread and a loop of its own ------------------------------------------ */

static atomic_uint list_wanted; /* number of the list that the load balancer shall have */
static unsigned list_sent;
static atomic_int manager_port;
static struct rpc_incoming *watcher;
static struct env_timer manager_timer;
static struct loop *manager_loop;

/* Lists of a round: machines of its own, these again, every tenth another one. */
static void name_member(Fnd__Member *m, uint32_t i, unsigned list)
{
    uint32_t round = (list - 1) / KINDS, kind = (list - 1) % KINDS;
    uint32_t number = 2 * (round * n + i) + (kind == 2 && i % 10 == 0);
    char id[32], address[64];

    snprintf(id, sizeof(id), "machine-%u", number);
    snprintf(address, sizeof(address), "127.%u.%u.%u:%s", number >> 16 & 255, number >> 8 & 255,
             1 + (number & 127), port);
    fnd__member__init(m);
    m->id = strdup(id);
    m->address = strdup(address);
    m->capacity_mb = 4096;
}

static void send_list(unsigned list)
{
    Fnd__Membership m = FND__MEMBERSHIP__INIT;
    Fnd__Member *members = calloc(n, sizeof(*members));
    Fnd__Member **pointers = calloc(n, sizeof(Fnd__Member *));
    uint8_t *data;

    for (uint32_t i = 0; i < n; i++) {
        name_member(&members[i], i, list);
        pointers[i] = &members[i];
    }
    m.epoch = 1;
    m.version = list;
    m.group = (char *)(uintptr_t)"default";
    m.members = pointers;
    m.n_members = n;
    data = malloc(fnd__membership__get_packed_size(&m) + 1);
    rpc_incoming_send(watcher, data, fnd__membership__pack(&m, data));
    free(data); /* the names are left to the end of the process */
}

static void on_watch(void *ud, struct rpc_incoming *in, const void *data, size_t len)
{
    (void)ud;
    (void)data;
    (void)len;
    watcher = in;
}

static void on_advertise(void *ud, struct rpc_incoming *in, const void *data, size_t len)
{
    (void)ud;
    (void)data;
    (void)len;
    rpc_incoming_send(in, "", 0);
    rpc_incoming_end(in, 0, NULL);
}

static void on_gone(void *ud, struct rpc_incoming *in)
{
    (void)ud;
    (void)in;
}

static void on_manager_tick(struct env_timer *t)
{
    struct env *e = loop_env(manager_loop);

    if (watcher && list_sent < list_wanted) {
        send_list(++list_sent);
    }
    env_timer_set(e, t, env_now_ns(e) + 10 * ENV_MS);
}

static void *manage(void *arg)
{
    static const struct rpc_method methods[] = {
        { "/fnd.Pool/Watch", on_watch }, { "/fnd.Pool/Advertise", on_advertise }, { NULL, NULL } };
    static const struct rpc_service service = { methods, on_gone, NULL, NULL };
    struct rpc_config c = RPC_CONFIG_INIT;
    struct rpc_server *server;
    struct rpc *rpc;

    if (loop_create(NULL, &manager_loop, NULL) < 0 ||
        rpc_create(manager_loop, &c, &rpc, NULL) < 0) {
        exit(69);
    }
    loop_enter(manager_loop);
    if (rpc_server_open(rpc, "127.0.0.1:0", NULL, NULL, &server, NULL) < 0) {
        exit(69);
    }
    rpc_server_serve(server, &service);
    manager_timer.cb = on_manager_tick;
    env_timer_set(loop_env(manager_loop), &manager_timer, 0);
    manager_port = rpc_server_port(server);
    loop_leave(manager_loop);
    loop_run(manager_loop);
    return arg;
}

/* ---- the load balancer ----------------------------------------------------------------------- */

static struct loop *loop;
static struct env *env;
static struct place *place;
static struct plugin_host *host;

static void die(const struct fn_error *e)
{
    fprintf(stderr, "bench_list: %s\n", e->msg);
    exit(69);
}

static struct plugin *load(struct plugin_host *h, const char *dir, const char *kind,
                           const char *name, const struct conf_override *overrides)
{
    struct conf_problems problems;
    struct conf_values *values = NULL;
    const struct fn_factory *factory;
    struct plugin_file *f = NULL;
    struct plugin *p = NULL;
    struct fn_error e = ERR_INIT;
    char path[4096];

    if (plugin_path_for(dir, kind, name, path, sizeof(path)) < 0 ||
        plugin_file_open(h, path, &f, &e) < 0) {
        die(&e);
    }
    factory = plugin_file_factory(f, kind, name);
    conf_problems_init(&problems);
    if (factory->opts) {
        conf_bind(NULL, NULL, name, factory->opts, factory->conf_size, NULL, overrides,
                  &values, &problems);
    }
    conf_problems_finish(&problems);
    if (plugin_create(h, f, factory, name, values, &p, &e) < 0) {
        die(&e);
    }
    return p;
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
static bool may_open; /* links; the place tries again by itself */
static uint32_t opened_n;
static int64_t opening_ns;

static struct engage_link *counted_open(struct engage_client *c, const char *address,
                                        const char *tls_name, const struct engage_link_cb *cb,
                                        void *ud)
{
    int64_t start_ns = cpu_ns();
    struct engage_link *l = may_open ? real_link_open(c, address, tls_name, cb, ud) : NULL;

    if (l) {
        opening_ns += cpu_ns() - start_ns;
        opened_n++;
    }
    return l;
}

/* A list's way, as seen at the end of a turn. */
enum stage { TAKING, PUBLISHING, LETTING_GO, STAGES, OVER = STAGES };

static struct turns {
    int64_t cpu_ns; /* of the thread at the end of the last turn */
    enum stage stage;
    uint64_t listings, epoch; /* before the list */
    int64_t total_ns[STAGES + 1];
    int64_t longest_ns;
} turns;

static struct sample {
    int64_t total_us[STAGES][ROUNDS], longest_us[ROUNDS];
} samples[KINDS];

static enum stage stage_now(void)
{
    const struct place_group *g = place->fallback;

    if (g->snap->view.epoch > turns.epoch) {
        return TAILQ_EMPTY(&place->ended) ? OVER : LETTING_GO;
    }
    return g->listings > turns.listings ? PUBLISHING : TAKING;
}

static void turns_begin(void)
{
    const struct place_group *g = place->fallback;

    turns = (struct turns){
        .cpu_ns = cpu_ns(), .listings = g->listings, .epoch = g->snap->view.epoch };
}

/* The turn in which the pool publishes is one of the publishing. */
static void turns_count(int64_t took_ns)
{
    enum stage now = stage_now();
    enum stage of = turns.stage == TAKING && now == PUBLISHING ? now : turns.stage;

    turns.stage = now;
    if (took_ns > IDLE_NS) {
        turns.total_ns[of] += took_ns;
        turns.longest_ns = took_ns > turns.longest_ns ? took_ns : turns.longest_ns;
    }
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static long long median(int64_t list[ROUNDS])
{
    qsort(list, ROUNDS, sizeof(list[0]), compare);
    return list[ROUNDS / 2];
}

static void report_lists(void)
{
    static const char *const kinds[KINDS] = { "all-new", "the-same", "a-tenth-new" };
    static const char *const stages[STAGES] = { "taken", "published", "let-go" };

    for (int i = 0; i < KINDS; i++) {
        for (int k = 0; k < STAGES; k++) {
            printf("%s-%s-us %lld\n", kinds[i], stages[k], median(samples[i].total_us[k]));
        }
        printf("%s-longest-us %lld\n", kinds[i], median(samples[i].longest_us));
    }
}

static void report_links(const char *what)
{
    int64_t total_ns = 0;

    for (int k = 0; k <= STAGES; k++) {
        total_ns += turns.total_ns[k];
    }
    printf("%s-us %lld\n%s-longest-us %lld\n", what, (long long)(total_ns / US), what,
           (long long)(turns.longest_ns / US));
}

static void check_list(void)
{
    struct place_counts c;

    place_count(place, &c);
    if (c.runners != n) {
        fprintf(stderr, "bench_list: %u of %u runners are listed\n", c.runners, n);
        exit(69);
    }
}

/* LISTING: a list is on its way, links wait. OPENING: they are opened. CLOSING: the last list took
 * them out. */
static enum { LISTING, OPENING, CLOSING } phase;
static int64_t phase_ns; /* begun */

static void next_list(int64_t now_ns)
{
    phase = ++list_wanted == LISTS ? CLOSING : LISTING;
    phase_ns = now_ns;
    may_open = false;
    turns_begin();
}

static void listed(int64_t now_ns)
{
    uint32_t i = (list_wanted - 1) / KINDS;
    struct sample *s = &samples[(list_wanted - 1) % KINDS];

    for (int k = 0; k < STAGES; k++) {
        s->total_us[k][i] = turns.total_ns[k] / US;
    }
    s->longest_us[i] = turns.longest_ns / US;
    check_list();
    if (list_wanted < LISTS - 1) {
        next_list(now_ns);
        return;
    }
    report_lists();
    phase = OPENING;
    phase_ns = now_ns;
    may_open = true;
    turns_begin();
}

static void opened(int64_t now_ns)
{
    struct place_counts c;

    place_count(place, &c);
    printf("links %u\nlink-us %lld\nup %u\nup-after-ms %lld\n", opened_n,
           (long long)(opening_ns / US / opened_n), c.runners_up,
           (long long)((now_ns - phase_ns) / ENV_MS));
    report_links("opening");
    next_list(now_ns);
}

static void phases(int64_t now_ns)
{
    int64_t for_ns = now_ns - phase_ns;

    if (phase == LISTING && turns.stage == OVER) {
        listed(now_ns);
    } else if (phase == LISTING && for_ns >= LIST_NS) {
        fprintf(stderr, "bench_list: list %u did not come\n", list_wanted);
        exit(69);
    } else if (phase == OPENING && opened_n >= n) {
        opened(now_ns);
    } else if (phase == OPENING && for_ns >= LINKS_NS) {
        fprintf(stderr, "bench_list: %u of %u links were opened\n", opened_n, n);
        exit(69);
    } else if (phase == CLOSING && for_ns >= CLOSE_NS) {
        report_links("closing");
        check_list();
        loop_stop(loop);
    }
}

/* Once in each turn of the loop, which never sleeps. */
static void on_turn(struct env_timer *t)
{
    int64_t now_ns = env_now_ns(env);

    turns_count(cpu_ns() - turns.cpu_ns);
    phases(now_ns);
    turns.cpu_ns = cpu_ns();
    env_timer_set(env, t, now_ns + 1);
}

static void open_place(const char *dir, const char *placer)
{
    struct place_deps deps = { .options = { 10 * ENV_MS, ENV_S, 20000, 10 * ENV_S } };
    struct rpc_config c = RPC_CONFIG_INIT;
    struct fn_error e = ERR_INIT;
    struct plugin_rpc *plugin_rpc;
    struct rpc *rpc;

    if (loop_create(NULL, &loop, &e) < 0 || rpc_create(loop, &c, &rpc, &e) < 0) {
        die(&e);
    }
    env = loop_env(loop);
    deps.env = env;
    deps.host = host = plugin_host_create(env);
    deps.client = rpc_client(rpc);
    real_link_open = deps.client->link_open;
    deps.client->link_open = counted_open;
    if (plugin_rpc_create(rpc, deps.host, NULL, NULL, &plugin_rpc, &e) < 0 ||
        place_create(&deps, &place, &e) < 0 ||
        place_set_placer(place, load(deps.host, dir, FN_KIND_PLACER, placer, NULL), NULL, NULL) <
            0) {
        die(&e);
    }
}

static void start_pool(const char *dir)
{
    char manager[32];
    const struct conf_override overrides[] = { { "address", "bench_list", manager }, { NULL } };
    struct fn_error e = ERR_INIT;

    snprintf(manager, sizeof(manager), "127.0.0.1:%d", manager_port);
    if (place_start(place, load(host, dir, FN_KIND_POOL, "npm", overrides), &e) < 0) {
        die(&e);
    }
}

int main(int argc, char **argv)
{
    static struct env_timer timer = { .cb = on_turn };
    pthread_t manager;

    if (argc != 5) {
        fprintf(stderr, "usage: bench_list PLUGINS PLACER RUNNERS PORT\n");
        return 64;
    }
    log_set_level(FN_LOG_ERROR);
    n = (uint32_t)strtoul(argv[3], NULL, 10);
    port = argv[4];
    pthread_create(&manager, NULL, manage, NULL);
    while (manager_port == 0) {
        usleep(1000);
    }
    open_place(argv[1], argv[2]);
    loop_enter(loop);
    start_pool(argv[1]);
    next_list(env_now_ns(env));
    env_timer_set(env, &timer, 0);
    loop_leave(loop);
    loop_run(loop);
    fflush(stdout);
    _exit(0);
}
