/* `fnd bundle`: what a report of a fault needs, as one text. It asks everything that answers and
 * says of the rest why not, since a node that is ill is the one that is asked about.
 *
 * No secret: the configuration is printed as `fnd check` prints it, which leaves values of secrets
 * out, and environments of functions are not asked for. Call ids, names of functions, addresses and
 * lines of the log are in it. */
#include <base/addr.h>
#include <cli/cli.h>
#include <http/fetch.h>
#include <loop/log_dest.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define ASK_MS    5000
#define LOG_BYTES (256 * 1024L) /* the end of the node's log */
#define COPY_MAX  (1 << 20)     /* of a file of /proc */

static void title(const char *text)
{
    printf("\n==== %s\n\n", text);
}

/* Its end is there only. */
static void skip_line(FILE *f)
{
    int c;

    while ((c = fgetc(f)) != EOF && c != '\n') {
    }
}

static void copy_file(const char *path, long last_bytes)
{
    FILE *f = fopen(path, "re");
    char block[4096];
    size_t n, all = 0;

    if (!f) {
        printf("%s: %s\n", path, strerror(errno));
        return;
    }
    if (last_bytes && fseek(f, -last_bytes, SEEK_END) == 0) {
        skip_line(f);
    }
    while (all < COPY_MAX && (n = fread(block, 1, sizeof(block), f)) > 0) {
        fwrite(block, 1, n, stdout);
        all += n;
    }
    fclose(f);
}

static void print_machine(void)
{
    struct utsname u;
    struct sysinfo s;

    title("machine");
    if (uname(&u) == 0) {
        printf("%s %s %s\n", u.sysname, u.release, u.machine);
    }
    if (sysinfo(&s) == 0) {
        printf("%ld processors, memory %llu MiB of which %llu free, up %ld s\n",
               sysconf(_SC_NPROCESSORS_ONLN), (unsigned long long)s.totalram * s.mem_unit >> 20,
               (unsigned long long)s.freeram * s.mem_unit >> 20, s.uptime);
    }
    copy_file("/etc/os-release", 0);
}

/* What the node says of itself; *ret_pid and *ret_port 0: it does not answer. */
static void print_status(const char *socket, int *ret_pid, int *ret_port)
{
    struct fn_error e = ERR_INIT;
    struct buf body = BUF_INIT(0);
    json_t *root = NULL;
    int status = 0;

    title("GET /status");
    if (admin_call(socket, "GET", "/status", ASK_MS, &status, &body, &e) < 0) {
        printf("%s\n", e.msg);
    } else {
        root = json_loadb(body.data, body.len, 0, NULL);
        cli_print_json(root);
    }
    *ret_pid = (int)cli_number(root, "pid");
    *ret_port = (int)cli_number(root, "port");
    json_decref(root);
    buf_finish(&body);
}

/* Pages that this type of node does not have say so themselves. */
static void print_pages(const char *socket)
{
    static const char *const pages[] = { "/generations", "/peers", "/runners", "/shadow", "/calls",
                                         "/containers" };

    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        struct fn_error e = ERR_INIT;
        struct buf body = BUF_INIT(0);
        int status = 0;

        printf("\n==== GET %s\n\n", pages[i]);
        if (admin_call(socket, "GET", pages[i], ASK_MS, &status, &body, &e) < 0) {
            printf("%s\n", e.msg);
        }
        fwrite(buf_text(&body), 1, body.len, stdout);
        buf_finish(&body);
    }
}

static void print_metrics(const struct config *c, int port)
{
    struct fetch_client *client = NULL;
    struct fn_error e = ERR_INIT;
    struct buf body = BUF_INIT(0);
    char host[ADDR_HOST_MAX + 3], url[sizeof(host) + 32];
    struct addr at;
    int status = 0, r;

    title("GET /metrics");
    if (addr_parse(c->http->listen, &at) < 0 || at.path) {
        printf("not asked for: http.listen is %s\n", c->http->listen);
        return;
    }
    addr_print_host(&at, host);
    snprintf(url, sizeof(url), "http://%s:%d", addr_is_everywhere(&at) ? "127.0.0.1" : host, port);
    r = fetch_client_create(NULL, url, &client, &e);
    r = r < 0 ? r
              : fetch_client_ask(client, "GET", "/metrics", NULL, ASK_MS, &status, &body, &e);
    if (r < 0) {
        printf("%s: %s\n", url, e.msg);
    }
    fwrite(buf_text(&body), 1, body.len, stdout);
    buf_finish(&body);
    fetch_client_destroy(client);
}

static void print_process(int pid)
{
    static const char *const files[] = { "status", "limits", "cgroup" };
    char path[64];

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i]);
        title(path);
        copy_file(path, 0);
    }
}

static void print_log(const struct config *c)
{
    static const char file[] = "file://";
    const char *dest = c->log->dest;

    title("the end of the log");
    if (strncmp(dest, file, sizeof(file) - 1) == 0) {
        copy_file(dest + sizeof(file) - 1, LOG_BYTES);
    } else {
        printf("log.dest is %s: what the unit or the syslog server has kept belongs here\n", dest);
    }
}

/* Of the configuration that the file has now; the running node says what its own is. */
static void print_node(const struct cli_options *o, const struct config *c)
{
    char socket[ADMIN_PATH_MAX + 1];
    int pid = 0, port = 0;

    if (cli_socket(o, socket) == EXIT_OK) {
        print_status(socket, &pid, &port);
    }
    if (pid > 0) {
        print_pages(socket);
        print_metrics(c, port);
        print_process(pid);
    }
    print_log(c);
}

int cli_bundle(const struct cli_options *o)
{
    struct conf_problems p;
    struct config *c = NULL;
    char now[32];
    time_t t = time(NULL);
    struct tm tm;

    strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
    printf("fnd bundle of %s\nfnd %s, plugin ABI %d.%d\n", now, FND_VERSION, FN_ABI_MAJOR,
           FN_ABI_MINOR);
    print_machine();
    title("the effective configuration, or its mistakes");
    fflush(stdout);
    dup2(STDOUT_FILENO, STDERR_FILENO); /* whatever is wrong belongs to the report */
    cli_check(o);
    conf_problems_init(&p);
    config_load(o->start.config_path, environ, &c, &p);
    conf_problems_finish(&p);
    if (config_is_complete(c)) {
        print_node(o, c);
    }
    config_destroy(c);
    return cli_written(EXIT_OK);
}
