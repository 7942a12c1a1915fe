/* bench_rpc: calls per second and CPU per call of core/rpc alone, client and server in two
 * processes, over the tables of model/engage.h.
 *
 *   bench_rpc [unix|tcp] [seconds] [concurrency ...]
 *   bench_rpc links [unix|tcp] [n]      n (10 000) links to one server: time, memory and rest of each
 *
 * FND_TRANSPORT=core takes gRPC C core, of the folder FND_TRANSPORTS, on both sides.
 *
 * The exchange of a small call: TryCall of 1.2 KB and an empty body; ResultStart with six headers,
 * 600 bytes, CallFinished. */
#include <base/env.h>
#include <base/log.h>
#include <loop/loop.h>
#include <pthread.h>
#include <rpc/rpc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SLOTS_MAX    1024
#define SAMPLES_MAX  4000000

#define LINKS                 10000
#define LINKS_AT_ONCE         64 /* on their way; less than any backlog */
#define LINKS_LATE_NS         (120 * ENV_S)
#define LINKS_REST_S          6
#define LINK_DESCRIPTORS_CORE 3  /* a pair of sockets beside the connection's own */
#define USED_PERCENT          80 /* of all descriptors: a port takes none at nine tenths */

static double cpu_s(int who)
{
    struct rusage u;

    getrusage(who, &u);
    return (double)u.ru_utime.tv_sec + (double)u.ru_utime.tv_usec / 1e6 +
           (double)u.ru_stime.tv_sec + (double)u.ru_stime.tv_usec / 1e6;
}

/* ---- server --------------------------------------------------------------------------------- */

static char answer[600];

static int on_try(void *server_ud, struct engage_session *s, const struct engage_try *t,
                  int64_t deadline_ns, void **ret_ud)
{
    (void)server_ud;
    (void)t;
    (void)deadline_ns;
    *ret_ud = s;
    rpc_server_table()->session_more(s);
    return 0;
}

static void on_body(void *ud, const void *data, size_t len, bool eof)
{
    static const struct header headers[] = {
        { "Content-Type", "application/json" },
        { "Fn-Http-Status", "200" },
        { "Fn-Fdk-Version", "fdk-c/0.1.0" },
        { "Fn-Fdk-Runtime", "c/11" },
        { "Date", "Sat, 21 Nov 2026 04:17:24 GMT" },
        { "Content-Length", "600" },
    };
    static const struct engage_start start = { .status = 200, .headers = headers, .n_headers = 6 };
    static const struct engage_finished fin = {
        .success = true,
        .details = "01M7Y437YSR00040GZYG000002",
        .image = "fnproject/hello:0.0.1",
        .created_at = "2026-11-21T04:17:24.501Z",
        .started_at = "2026-11-21T04:17:24.501Z",
        .completed_at = "2026-11-21T04:17:24.502Z",
        .scheduler_ns = 20000,
        .execution_ns = 950836,
    };
    struct engage_server *table = rpc_server_table();
    struct engage_session *s = ud;

    (void)data;
    (void)len;
    if (!eof) {
        table->session_more(s);
        return;
    }
    table->send_start(s, &start);
    table->send_data(s, answer, sizeof(answer));
    table->finish(s, &fin);
}

static void on_writable(void *ud)
{
    (void)ud;
}

static void on_gone(void *ud)
{
    (void)ud;
}

static struct loop *served;

static void on_term(int signo)
{
    (void)signo;
    loop_stop(served);
}

static int choose_transport(struct rpc_config *config, struct fn_error *reterr)
{
    const char *name = getenv("FND_TRANSPORT"), *folder = getenv("FND_TRANSPORTS");

    return name ? rpc_transport_find(folder ? folder : "build/transports", name, &config->transport,
                                     reterr)
                : 0;
}

static int serve(const char *address, int ready_fd)
{
    static const struct engage_server_cb cb = { .on_try = on_try, .on_body = on_body,
                                                .on_writable = on_writable, .on_gone = on_gone };
    struct rpc_config config = RPC_CONFIG_INIT;
    struct fn_error err = ERR_INIT;
    struct rpc_server *server;
    struct rpc *rpc;
    char line[32];

    if (loop_create(NULL, &served, &err) < 0 || signal(SIGTERM, on_term) == SIG_ERR ||
        choose_transport(&config, &err) < 0 || rpc_create(served, &config, &rpc, &err) < 0 ||
        rpc_server_open(rpc, address, &cb, NULL, &server, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    snprintf(line, sizeof(line), "%d\n", rpc_server_port(server));
    if (write(ready_fd, line, strlen(line)) < 0) {
        return 1;
    }
    loop_run(served);
    rpc_destroy(rpc);
    loop_destroy(served);
    return 0;
}

/* ---- client --------------------------------------------------------------------------------- */

struct slot {
    struct engage_attempt *attempt;
    int64_t began_ns;
    uint64_t bytes;
    bool success;
};

static struct loop *loop;
static struct engage_client *client;
static struct engage_link *link_;
static struct slot slots[SLOTS_MAX];
static char json[1200];
static struct body *body;
static bool running;
static uint32_t open_n;
static uint64_t done_n, failed_n;
static uint32_t *samples;
static size_t samples_n;
static atomic_bool up;

static const struct engage_client_cb client_cb;

static int64_t clock_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * ENV_S + ts.tv_nsec;
}

static void start(struct slot *s)
{
    struct engage_try t = { .call_json = json, .call_json_len = sizeof(json) - 1,
                            .slot_hash_id = "" };

    s->began_ns = clock_ns();
    s->success = false;
    s->bytes = 0;
    s->attempt = client->attempt(link_, &t, body, 0, &client_cb, s);
    open_n++;
}

static void on_start(void *ud, const struct engage_start *start_)
{
    (void)ud;
    (void)start_;
}

static void on_data(void *ud, const void *data, size_t len)
{
    struct slot *s = ud;

    (void)data;
    s->bytes += len;
}

static void on_finished(void *ud, const struct engage_finished *f)
{
    struct slot *s = ud;

    s->success = f->success;
}

static void on_end(void *ud, int status, const char *text, enum engage_proof proof, bool legal)
{
    struct slot *s = ud;

    (void)text;
    (void)proof;
    client->attempt_close(s->attempt);
    open_n--;
    if (status != 0 || !legal || !s->success || s->bytes != sizeof(answer)) {
        failed_n++;
    }
    done_n++;
    if (samples_n < SAMPLES_MAX) {
        samples[samples_n++] = (uint32_t)((clock_ns() - s->began_ns) / 100);
    }
    if (running) {
        start(s);
    }
}

static const struct engage_client_cb client_cb = { on_start, on_data, on_finished, on_end };

static void on_state(void *ud, bool is_up)
{
    (void)ud;
    atomic_store(&up, is_up);
}

static void nap(int64_t ns)
{
    struct timespec ts = { ns / ENV_S, ns % ENV_S };

    nanosleep(&ts, NULL);
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static double proc_cpu_s(pid_t pid)
{
    char path[64];
    char text[1024];
    unsigned long user = 0, sys = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "r");
    if (f && fgets(text, sizeof(text), f)) {
        sscanf(strrchr(text, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
               &user, &sys);
    }
    if (f) {
        fclose(f);
    }
    return (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
}

static void measure(int c, double seconds, pid_t server)
{
    double client_cpu, server_cpu, took;
    int64_t began;
    uint64_t n;

    loop_enter(loop);
    running = true;
    for (int i = 0; i < c; i++) {
        start(&slots[i]);
    }
    loop_leave(loop);
    nap(ENV_S / 2);
    loop_enter(loop);
    samples_n = 0;
    done_n = 0;
    began = clock_ns();
    client_cpu = cpu_s(RUSAGE_SELF);
    server_cpu = proc_cpu_s(server);
    loop_leave(loop);
    nap((int64_t)(seconds * 1e9));
    loop_enter(loop);
    took = (double)(clock_ns() - began) / 1e9;
    client_cpu = cpu_s(RUSAGE_SELF) - client_cpu;
    server_cpu = proc_cpu_s(server) - server_cpu;
    n = done_n;
    running = false;
    loop_leave(loop);
    for (uint32_t left = 1; left > 0; nap(ENV_MS)) {
        loop_enter(loop);
        left = open_n;
        loop_leave(loop);
    }
    qsort(samples, samples_n, sizeof(samples[0]), compare);
    printf("%4d  %8.0f/s  p50 %7.1f us  p99 %7.1f us  cpu/call: client %5.1f  server %5.1f  sum "
           "%5.1f us  failed %llu\n",
           c, (double)n / took, samples[samples_n / 2] / 10.0,
           samples[samples_n * 99 / 100] / 10.0, client_cpu / (double)n * 1e6,
           server_cpu / (double)n * 1e6, (client_cpu + server_cpu) / (double)n * 1e6,
           (unsigned long long)failed_n);
    fflush(stdout);
}

static void *run_loop(void *arg)
{
    loop_run(arg);
    return NULL;
}

/* A client on a loop of its own thread. */
static int client_begin(pthread_t *retthread, struct rpc **ret)
{
    struct rpc_config config = RPC_CONFIG_INIT;
    struct fn_error err = ERR_INIT;

    if (loop_create(NULL, &loop, &err) < 0 || choose_transport(&config, &err) < 0 ||
        rpc_create(loop, &config, ret, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return -1;
    }
    client = rpc_client(*ret);
    pthread_create(retthread, NULL, run_loop, loop);
    return 0;
}

static void client_end(pthread_t thread, struct rpc *rpc)
{
    rpc_destroy(rpc);
    loop_stop(loop);
    pthread_join(thread, NULL);
    loop_destroy(loop);
}

static int drive(const char *address, double seconds, int argc, char **argv, pid_t server)
{
    static const struct engage_link_cb link_cb = { .on_state = on_state };
    pthread_t thread;
    struct rpc *rpc;
    int defaults[] = { 1, 8, 64 };

    samples = malloc(SAMPLES_MAX * sizeof(*samples));
    memset(json, 'j', sizeof(json) - 1);
    memset(answer, 'a', sizeof(answer));
    if (!samples || client_begin(&thread, &rpc) < 0) {
        return 1;
    }
    loop_enter(loop);
    body = body_create(NULL, 0);
    link_ = client->link_open(client, address, NULL, &link_cb, NULL);
    loop_leave(loop);
    while (!atomic_load(&up)) {
        nap(ENV_MS);
    }
    for (int i = 0; i < (argc > 0 ? argc : 3); i++) {
        int c = argc > 0 ? atoi(argv[i]) : defaults[i];

        measure(c < 1 ? 1 : c > SLOTS_MAX ? SLOTS_MAX : c, seconds, server);
    }
    loop_enter(loop);
    client->link_close(link_);
    body_unref(body);
    loop_leave(loop);
    client_end(thread, rpc);
    free(samples);
    return failed_n ? 1 : 0;
}

/* ---- links ---------------------------------------------------------------------------------- */

static atomic_int links_up;

static void on_link(void *ud, bool is_up)
{
    (void)ud;
    atomic_fetch_add(&links_up, is_up ? 1 : -1);
}

/* How many of n links either process may hold. */
static int allow_links(int n)
{
    const char *name = getenv("FND_TRANSPORT");
    rlim_t each = name && strcmp(name, "core") == 0 ? LINK_DESCRIPTORS_CORE : 1;
    rlim_t wanted = (rlim_t)n * each * 100 / USED_PERCENT;
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = MIN(wanted, limit.rlim_max);
    if (wanted > limit.rlim_max) {
        struct rlimit raised = { wanted, wanted };

        if (setrlimit(RLIMIT_NOFILE, &raised) == 0) {
            return n;
        }
        n = (int)(limit.rlim_max / each * USED_PERCENT / 100);
        fprintf(stderr, "%d links: the hard limit of %llu descriptors lets in no more\n", n,
                (unsigned long long)limit.rlim_max);
    }
    setrlimit(RLIMIT_NOFILE, &limit);
    return n;
}

static double rss_kib(pid_t pid)
{
    char path[64], line[256];
    double kib = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "VmRSS: %lf", &kib) == 1) {
            break;
        }
    }
    if (f) {
        fclose(f);
    }
    return kib;
}

/* Opens links until n are up; false when they are not in time. */
static bool links_open(const char *address, int n)
{
    static const struct engage_link_cb link_cb = { .on_state = on_link };
    int64_t end = clock_ns() + LINKS_LATE_NS;

    for (int opened = 0; atomic_load(&links_up) < n && clock_ns() < end; nap(ENV_MS / 10)) {
        loop_enter(loop);
        for (; opened < n && opened - atomic_load(&links_up) < LINKS_AT_ONCE; opened++) {
            if (!client->link_open(client, address, NULL, &link_cb, NULL)) {
                break;
            }
        }
        loop_leave(loop);
    }
    return atomic_load(&links_up) == n;
}

struct use {
    double client, server;
};

static struct use cpu_of_both(pid_t server)
{
    return (struct use){ cpu_s(RUSAGE_SELF), proc_cpu_s(server) };
}

static int drive_links(const char *address, int n, pid_t server)
{
    struct use cpu, memory;
    pthread_t thread;
    struct rpc *rpc;
    double took;
    int64_t began;
    bool stood;

    if (client_begin(&thread, &rpc) < 0 || !links_open(address, 1)) {
        return 1;
    }
    atomic_store(&links_up, 0);
    memory = (struct use){ rss_kib(getpid()), rss_kib(server) };
    cpu = cpu_of_both(server);
    began = clock_ns();
    if (!links_open(address, n)) {
        fprintf(stderr, "%d of %d links are up\n", atomic_load(&links_up), n);
        return 1;
    }
    took = (double)(clock_ns() - began) / 1e9;
    printf("%d links: up in %.2f s, %.0f us each; cpu: client %.0f  server %.0f us", n, took,
           took / n * 1e6, (cpu_s(RUSAGE_SELF) - cpu.client) / n * 1e6,
           (proc_cpu_s(server) - cpu.server) / n * 1e6);
    cpu = cpu_of_both(server);
    nap(LINKS_REST_S * ENV_S);
    printf("; memory: client %.1f  server %.1f KiB; at rest: client %.1f  server %.1f %% of a core\n",
           (rss_kib(getpid()) - memory.client) / n, (rss_kib(server) - memory.server) / n,
           (cpu_s(RUSAGE_SELF) - cpu.client) / LINKS_REST_S * 100,
           (proc_cpu_s(server) - cpu.server) / LINKS_REST_S * 100);
    stood = atomic_load(&links_up) == n;
    client_end(thread, rpc);
    return stood ? 0 : 1;
}

int main(int argc, char **argv)
{
    bool links = argc > 1 && strcmp(argv[1], "links") == 0;
    bool tcp = argc > 1 + links && strcmp(argv[1 + links], "tcp") == 0;
    double seconds = argc > 2 ? atof(argv[2]) : 3;
    int n = links && argc > 3 ? atoi(argv[3]) : LINKS;
    char address[64];
    char line[32] = "";
    int ready[2];
    pid_t server;
    int result;

    log_set_level(FN_LOG_WARN);
    snprintf(address, sizeof(address), tcp ? "127.0.0.1:0" : "unix:/tmp/bench_rpc.%d", getpid());
    n = links ? allow_links(n) : 0;
    if (pipe(ready) < 0) {
        return 1;
    }
    server = fork();
    if (server == 0) {
        _exit(serve(address, ready[1]));
    }
    if (read(ready[0], line, sizeof(line) - 1) <= 0) {
        return 1;
    }
    if (tcp) {
        snprintf(address, sizeof(address), "127.0.0.1:%d", atoi(line));
    }
    printf("%s\n", tcp ? "tcp" : "unix");
    result = links ? drive_links(address, n, server)
                   : drive(address, seconds, argc - 3, argv + 3, server);
    kill(server, SIGTERM);
    waitpid(server, NULL, 0);
    if (!tcp) {
        unlink(address + strlen("unix:"));
    }
    return result;
}
