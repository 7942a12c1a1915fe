/* Parses the command line and runs what it names. Commands that only print are here, those
 * that ask a running node in admin.c, lists.c and roll.c. */
#include <base/addr.h>
#include <cli/cli.h>
#include <node/node.h>
#include <process/crash.h>
#include <process/supervise.h>

#include <dirent.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage_text[] =
    "usage: fnd run [--config FILE] [--strict] [--supervise]\n"
    "       fnd init api|full|lb|npm|runner [FILE]\n"
    "       fnd check [--config FILE] [--strict] | --reference\n"
    "       fnd plugins [--markdown] [--config FILE] FILE|DIRECTORY...\n"
    "       fnd status [--json] [--socket PATH|--config FILE]\n"
    "       fnd top [--socket PATH|--config FILE]\n"
    "       fnd page [--json] [--socket PATH|--config FILE]\n"
    "       fnd why [--json] [--socket PATH|--config FILE] CALL-ID\n"
    "       fnd calls|containers|peers [--json] [--socket PATH|--config FILE] [--at-most N]\n"
    "       fnd logs [-f] [-n N] [--json] [--socket PATH|--config FILE] APP/FUNCTION|FUNCTION-ID\n"
    "       fnd shadow [--json] [--socket PATH|--config FILE] status|swap|back\n"
    "       fnd runners [--json] [--socket PATH|--config FILE] list|drain ID|undrain ID|\n"
    "                   replace ID|remove [--force] ID|roll [--group NAME] [--at-most N]\n"
    "       fnd bundle [--socket PATH|--config FILE]\n"
    "       fnd reload [--json] [--socket PATH|--config FILE]\n"
    "       fnd api [--url URL] export [APP...]\n"
    "       fnd api [--url URL] [--dry-run] [--prune] import FILE\n"
    "       fnd certs demo DIRECTORY | issue DIRECTORY NAME[,HOST...]...\n"
    "       fnd version\n"
    "\n"
    "  run        starts a node; without FILE its configuration is FN_ variables alone\n"
    "  init       prints a commented configuration for a node, or writes it to a new FILE\n"
    "  check      prints every mistake, or else the effective configuration; opens no port\n"
    "  plugins    prints what plugin files offer, checked by the rules of FILE\n"
    "  status     shows what the running node is and does\n"
    "  top        shows calls, functions, runners and containers in a terminal, and goes on\n"
    "  page       prints the address of the node's page for operators, with the token that it needs\n"
    "  why        shows what a recent call met: runners, refusals, waits\n"
    "  calls      shows current calls: state, age, what each waits for\n"
    "  containers shows containers of a runner: state, age, what each waits for\n"
    "  peers      shows the runners that this node connects to, and why one is down or fails\n"
    "  logs       shows what a function prints, from all runners: time, call, stream, line\n"
    "  shadow     compares the shadow placer with the one in use; swaps them, and back\n"
    "  runners    shows the runners of a node pool manager, and why there are so many; drains\n"
    "             one, takes that back, replaces or removes one; roll replaces all, N at a time\n"
    "  bundle     prints what a report of a fault needs, without secrets: versions, machine,\n"
    "             configuration, what the running node shows, metrics, the end of its log\n"
    "  reload     makes the running node read its configuration again; mistakes change nothing\n"
    "  api        prints what an API node keeps as a file with apps:, or makes it as in such a\n"
    "             file, by the differences\n"
    "  certs      makes a CA and certificates for a trial of TLS; issues further certificates\n"
    "             with the files ca.pem and ca.key of a directory\n"
    "  --config   fn.yaml of the node; the commands that ask a running node find its socket by it\n"
    "  --socket   the node's admin socket itself\n"
    "  --at-most  or -n: rows of a list (1000, up to 10000), last lines of logs (1000, up to 100000);\n"
    "             of roll: runners at a time\n"
    "  --follow   or -f: goes on with what comes\n"
    "  --url      the API node (FN_API_URL, else http://localhost:8080)\n"
    "  --dry-run  prints the differences only\n"
    "  --prune    what the file does not name goes\n"
    "  --json     prints the node's answer as JSON\n"
    "  --strict   makes warnings errors\n"
    "  --supervise  a parent process restarts the node after a crash\n"
    "  --reference  prints the reference of fn.yaml\n"
    "\n"
    "exit codes: 64 command line, 69 something needed is missing, 70 crash, 78 configuration\n";

static int help(void)
{
    fputs(usage_text, stdout);
    return cli_written(EXIT_OK);
}

static int usage(const char *text)
{
    if (text) {
        fprintf(stderr, "fnd: %s\n", text);
    }
    fputs(usage_text, stderr);
    return EXIT_USAGE;
}

/* ---- run ------------------------------------------------------------------------------------- */

/* Whoever started a node with nothing but its name reads how to use it. */
static void print_welcome(const struct config *c)
{
    char host[ADDR_HOST_MAX + 3];
    struct addr at;

    if (c->path || !c->store->url || addr_parse(c->http->listen, &at) < 0 || at.path) {
        return;
    }
    addr_print_host(&at, host);
    printf("fnd: FN_API_URL=http://%s:%s fn list apps\n",
           addr_is_everywhere(&at) ? "localhost" : host, at.port);
    fflush(stdout);
}

static int cli_run(const struct cli_options *o)
{
    struct start start = o->start;
    struct conf_problems p;
    struct config *c = NULL;
    int r = EXIT_CONFIG;

    conf_problems_init(&p);
    p.strict = start.strict;
    config_load(start.config_path, environ, &c, &p);
    if (p.n == 0) {
        print_welcome(c);
        start.warnings = buf_text(&p.text);
        r = o->supervise || c->top->supervise ? supervise(c, &start, run_node)
                                              : run_node(c, &start);
    } else if (!start_check_tells(&start)) {
        cli_print_problems(&p);
    }
    conf_problems_finish(&p);
    config_destroy(c);
    return r;
}

/* ---- plugins --------------------------------------------------------------------------------- */

struct listing {
    struct buf *out;
    bool markdown;
};

static void list_options(const struct listing *l, const struct fn_opt *o)
{
    for (; o && o->key; o++) {
        buf_printf(l->out, "    %s: %s", o->key, o->doc);
        buf_add_str(l->out, "\n        ");
        conf_print_rule(o, l->out);
        if (o->dflt) {
            buf_printf(l->out, "; default %s\n", o->dflt[0] ? o->dflt : "empty");
        } else {
            buf_add_str(l->out, o->flags & FN_OPT_MAY_BE_ABSENT ? "; optional\n" : "; required\n");
        }
    }
}

static void list_factory(void *ud, const struct fn_factory *f)
{
    const struct listing *l = ud;

    if (l->markdown) {
        buf_printf(l->out, "\n### %s `%s` %u.%u\n\n%s\n\n", f->kind, f->name, f->kind_major,
                   f->kind_minor, f->summary ? f->summary : "");
        if (f->opts && f->opts->key) {
            conf_print_reference(f->opts, NULL, NULL, l->out);
        }
        return;
    }
    buf_printf(l->out, "  %s %s (%s %u.%u): %s\n", f->kind, f->name, f->kind, f->kind_major,
               f->kind_minor, f->summary ? f->summary : "");
    list_options(l, f->opts);
}

static bool list_file(struct plugin_host *h, const char *path, struct listing *l)
{
    struct plugin_file *file = NULL;
    struct buf lines = BUF_INIT(0);
    const struct fn_manifest *m;
    int r = plugin_file_check(h, path, NULL, &file, &lines, NULL);

    fputs(buf_text(&lines), stderr);
    buf_finish(&lines);
    if (r < 0) {
        return false;
    }
    m = plugin_file_manifest(file);
    buf_printf(l->out,
               l->markdown ? "\n## %s\n\n%s %s, ABI %u.%u, licence %s\n"
                           : "%s: %s %s, ABI %u.%u, licence %s\n",
               path, m->name, m->version, m->abi_major, m->abi_minor, m->license);
    if (!l->markdown) {
        buf_printf(l->out, "  sha256 %s, %s\n", plugin_file_sha256(file),
                   plugin_file_signature(file));
    }
    plugin_file_each(file, list_factory, l);
    return true;
}

static int is_plugin_name(const struct dirent *d)
{
    const char *end = strrchr(d->d_name, '.');

    return end && strcmp(end, ".so") == 0;
}

static bool list_directory(struct plugin_host *h, const char *dir, struct listing *l)
{
    struct dirent **names = NULL;
    int n = scandir(dir, &names, is_plugin_name, alphasort);
    char path[PATH_MAX];
    bool good = true;

    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        good = list_file(h, path, l) && good;
        free(names[i]);
    }
    free(names);
    if (n <= 0) {
        fprintf(stderr, "PLG901 %s: no plugin files; expected names that end with .so\n", dir);
        return false;
    }
    return good;
}

/* The rules of the file, else those of a node that is told nothing. */
static int take_rules(struct plugin_host *h, const struct cli_options *o)
{
    static char *const nothing[] = { NULL };
    struct conf_problems p;
    struct config *c = NULL;
    int r;

    conf_problems_init(&p);
    config_load(o->start.config_path, nothing, &c, &p);
    if (!o->start.config_path && c) {
        conf_problems_finish(&p); /* a configuration that nobody wrote has no mistakes */
        conf_problems_init(&p);
    }
    if (p.n == 0) {
        config_plugin_policy(c, h, &p);
    }
    if (p.n > 0) {
        cli_print_problems(&p);
    }
    r = p.n > 0 ? EXIT_CONFIG : EXIT_OK;
    conf_problems_finish(&p);
    config_destroy(c);
    return r;
}

static int plugins(const struct cli_options *o)
{
    struct plugin_host *h = plugin_host_create(NULL);
    struct buf out = BUF_INIT(0);
    struct listing l = { .out = &out, .markdown = o->markdown };
    bool good = true;
    struct stat st;
    int r;

    if (!h) {
        return EXIT_UNAVAILABLE;
    }
    crash_install();
    r = take_rules(h, o);
    for (int i = 0; i < o->argc && r == EXIT_OK; i++) {
        const char *path = o->argv[i];
        bool dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);

        good = (dir ? list_directory(h, path, &l) : list_file(h, path, &l)) && good;
    }
    r = r == EXIT_OK ? cli_print_out(&out) : r;
    buf_finish(&out);
    plugin_host_destroy(h);
    return good ? r : EXIT_CONFIG;
}

/* ---- arguments ------------------------------------------------------------------------------- */

#define FLAG_CONFIG 'c'
#define FLAG_HELP   'h'

/* The first that is none, or NULL. getopt_long() takes "--supervis" for "--supervise". */
static const char *unknown_option(int argc, char **argv, const struct option *options)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        size_t len = strcspn(argv[i], "=");
        const struct option *o = options;

        while (o->name &&
               (strlen(o->name) + 2 != len || strncmp(argv[i] + 2, o->name, len - 2) != 0)) {
            o++;
        }
        if (strncmp(argv[i], "--", 2) == 0 && !o->name) {
            return argv[i];
        }
    }
    return NULL;
}

/* Where each stands in struct cli_options: a text, or a bool of those without an argument. */
#define TEXT(name, flag, field)                                                                    \
    { { name, required_argument, NULL, flag }, offsetof(struct cli_options, field) }
#define BOOL(name, flag, field)                                                                    \
    { { name, no_argument, NULL, flag }, offsetof(struct cli_options, field) }
static const struct flag_row {
    struct option option;
    size_t at;
} flags[] = {
    TEXT("config", FLAG_CONFIG, start.config_path),
    BOOL("strict", 's', start.strict),
    BOOL("reference", 'r', reference),
    BOOL("markdown", 'm', markdown),
    TEXT("socket", 'S', socket),
    BOOL("supervise", 'p', supervise),
    BOOL("json", 'j', json),
    BOOL("force", 'F', force),
    BOOL("follow", 'f', follow),
    TEXT("group", 'g', group),
    TEXT("at-most", 'n', at_most),
    TEXT("url", 'u', url),
    BOOL("dry-run", 'd', dry_run),
    BOOL("prune", 'P', prune),
    { { "help", no_argument, NULL, FLAG_HELP }, 0 },
};
#define FLAGS (sizeof(flags) / sizeof(flags[0]))

static void take_flag(int letter, struct cli_options *o)
{
    for (size_t i = 0; i < FLAGS; i++) {
        void *field = (char *)o + flags[i].at;

        if (flags[i].option.val == letter && flags[i].option.has_arg) {
            *(const char **)field = optarg;
        } else if (flags[i].option.val == letter) {
            *(bool *)field = true;
        }
    }
}

/* Options of a command, as letters of flags[]. */
static int parse(int argc, char **argv, const char *allowed, struct cli_options *o)
{
    static char self[] = "fnd"; /* what getopt_long() calls us */
    struct option options[FLAGS + 1] = { { 0 } };
    const char *unknown;
    int c;

    for (size_t i = 0; i < FLAGS; i++) {
        options[i] = flags[i].option;
    }
    unknown = unknown_option(argc, argv, options);
    argv[0] = self;
    if (unknown) {
        fprintf(stderr, "fnd: no such option: %s\n", unknown);
        return usage(NULL);
    }
    optind = 1;
    while ((c = getopt_long(argc, argv, "hc:fn:", options, NULL)) != -1) {
        if (c == FLAG_HELP) {
            exit(help());
        }
        if (c == '?' || !strchr(allowed, c)) {
            return usage(c == '?' ? NULL : "this command has no such option");
        }
        take_flag(c, o);
    }
    return EXIT_OK;
}

static int run_version(const struct cli_options *o)
{
    (void)o;
    printf("fnd %s, plugin ABI %d.%d\n", FND_VERSION, FN_ABI_MAJOR, FN_ABI_MINOR);
    return cli_written(EXIT_OK);
}

struct command {
    const char *name;
    const char *allowed; /* letters of flags[] */
    int operands_min, operands_max;
    const char *operands; /* what they are */
    int (*run)(const struct cli_options *o);
};

static const struct command commands[] = {
    { "run", "csp", 0, 0, NULL, cli_run },
    { "init", "", 1, 2, "api, full, lb, npm or runner, and a new file", cli_init },
    { "check", "csr", 0, 0, NULL, cli_check },
    { "plugins", "mc", 1, INT_MAX, "a file or directory", plugins },
    { "status", "cjS", 0, 0, NULL, cli_status },
    { "top", "cS", 0, 0, NULL, cli_top },
    { "page", "cjS", 0, 0, NULL, cli_page },
    { "why", "cjS", 1, 1, "a call id (the header Fn-Call-Id of the answer)", cli_why },
    { "calls", "cjSn", 0, 0, NULL, cli_list },
    { "containers", "cjSn", 0, 0, NULL, cli_list },
    { "peers", "cjSn", 0, 0, NULL, cli_list },
    { "logs", "cjSfn", 1, 1, "APP/FUNCTION, or a function's id", cli_logs },
    { "bundle", "cS", 0, 0, NULL, cli_bundle },
    { "reload", "cjS", 0, 0, NULL, cli_reload },
    { "runners", "cjSFgn", 1, 2, "list, roll, or drain, undrain, replace or remove and an id",
      cli_runners },
    { "shadow", "cjS", 1, 1, "status, swap or back", cli_shadow },
    { "api", "udP", 1, INT_MAX, "export, or import and a file", cli_api },
    { "certs", "", 2, INT_MAX, "demo or issue, and a directory", cli_certs },
    { "version", "", 0, 0, NULL, run_version },
};

static int too_many(const struct command *c, const char *word)
{
    const bool file = c->operands_max == 0 && strchr(c->allowed, FLAG_CONFIG);

    fprintf(stderr, "fnd: too many arguments, got %s%s%s\n", conf_quote(word),
            file ? "; expected --config " : "", file ? word : "");
    return EXIT_USAGE;
}

static int no_such(const char *name)
{
    const char *names[sizeof(commands) / sizeof(commands[0]) + 1] = { NULL };
    const char *near;

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        names[i] = commands[i].name;
    }
    near = conf_nearest(name, names);
    fprintf(stderr, "fnd: unknown command, got %s; ", conf_quote(name));
    fprintf(stderr, near ? "did you mean \"%s\"?\n" : "see fnd --help\n", near);
    return EXIT_USAGE;
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

int cli_main(int argc, char **argv)
{
    struct cli_options o = { 0 };
    const struct command *c;

    if (argc < 2) {
        return usage("a command is missing");
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        return help();
    }
    c = find_command(argv[1]);
    if (!c) {
        if (strcmp(argv[1], "--version") == 0) {
            return run_version(&o);
        }
        return no_such(argv[1]);
    }
    if (parse(argc - 1, argv + 1, c->allowed, &o) != EXIT_OK) {
        return EXIT_USAGE;
    }
    o.command = c->name;
    o.argc = argc - (optind + 1);
    o.argv = argv + optind + 1;
    if (o.argc > c->operands_max) {
        return too_many(c, o.argv[c->operands_max]);
    }
    if (o.argc < c->operands_min) {
        fprintf(stderr, "fnd: %s is missing\n", c->operands);
        return usage(NULL);
    }
    return c->run(&o);
}
