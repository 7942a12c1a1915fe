/* Commands that ask a running node over its admin socket. */
#include <admin/admin.h>
#include <cli/cli.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RELOAD_TIMEOUT_MS 120000 /* plugins have a deadline each */
#define KEPT_ASK_MS 50
#define KEPT_ASKS   40 /* a file that takes longer is told by `fnd runners list` */

static const char *plural(const json_t *o, const char *key)
{
    return cli_number(o, key) == 1 ? "" : "s";
}

static const char *admin_text(const json_t *o, const char *key)
{
    return cli_text(o, key, "-");
}

/* ---- status ---------------------------------------------------------------------------------- */

static void print_counts(const char *name, const json_t *o)
{
    const char *key;
    json_t *value;
    int n = 0;

    if (json_object_size(o) == 0) {
        return;
    }
    printf("%-8s", name);
    json_object_foreach((json_t *)(uintptr_t)o, key, value)
    {
        const char *before = n == 0 ? " " : n % 6 == 0 ? ",\n         " : ", ";

        n += !json_is_object(value);
        if (json_is_boolean(value)) {
            printf("%s%s %s", before, key, json_is_true(value) ? "yes" : "no");
        } else if (json_is_integer(value)) {
            printf("%s%s %lld", before, key, (long long)json_integer_value(value));
        }
    }
    putchar('\n');
}

static void print_config(const json_t *o)
{
    const json_t *problems = json_object_get(o, "problems");

    printf("%-8s generation %lld from %s, %lld alive\n", "config", cli_number(o, "generation"),
           admin_text(o, "from"), cli_number(o, "alive"));
    if (problems) {
        printf("%-8s a reload was refused at %s, %zu line%s, the first: %s\n", "",
               admin_text(o, "refused_at"), json_array_size(problems),
               json_array_size(problems) == 1 ? "" : "s",
               json_string_value(json_array_get(problems, 0)));
    }
}

static void print_words(const char *name, const json_t *list)
{
    json_t *word;
    size_t i;

    printf("%s", name);
    json_array_foreach (list, i, word) {
        printf(" %s", json_string_value(word) ? json_string_value(word) : "-");
    }
    printf("%s", json_array_size(list) == 0 ? " none" : "");
}

/* What keeps the node from serving, or from serving as it should. */
static void print_faults(const json_t *root)
{
    const char *unready = json_string_value(json_object_get(root, "unready"));
    const json_t *reasons = json_object_get(root, "degraded");

    if (unready) {
        printf("%-8s not ready: %s\n", "", unready);
    }
    if (json_array_size(reasons) > 0) {
        print_words("degraded", reasons);
        putchar('\n');
    }
}

static void print_certs(const json_t *list)
{
    json_t *cert;
    size_t i;

    json_array_foreach (list, i, cert) {
        long long hours = cli_number(cert, "hours_left");
        long long days = hours / 24;

        printf("%-8s %s %s %lld %s: %s\n", i == 0 ? "certs" : "", admin_text(cert, "tls"),
               hours < 0 ? "ended before" : "ends in", llabs(days ? days : hours),
               days ? "days" : "hours", admin_text(cert, "cert"));
    }
}

static void print_hardening(json_t *o)
{
    const char *step;
    json_t *why;

    if (!o) {
        return; /* an older node */
    }
    printf("%-8s %s, uid %lld, ", "rights", admin_text(o, "mode"), cli_number(o, "uid"));
    print_words("capabilities:", json_object_get(o, "capabilities"));
    print_words("; applied:", json_object_get(o, "applied"));
    putchar('\n');
    json_object_foreach (json_object_get(o, "missing"), step, why) {
        printf("%-8s without %s: %s\n", "", step, json_string_value(why));
    }
}

static void print_status(const json_t *root)
{
    json_t *p;
    size_t i;

    printf("%-8s %s, fnd %s, %s, pid %lld, up %lld s, http %s, transport %s\n", "node",
           admin_text(root, "node"), admin_text(root, "version"), admin_text(root, "state"),
           cli_number(root, "pid"), cli_number(root, "uptime_s"), admin_text(root, "http"),
           admin_text(root, "transport"));
    print_faults(root);
    print_config(json_object_get(root, "config"));
    print_counts("lb", json_object_get(root, "lb"));
    print_counts("runner", json_object_get(root, "runner"));
    print_counts("npm", json_object_get(root, "npm"));
    print_counts("api", json_object_get(root, "api"));
    json_array_foreach(json_object_get(root, "plugins"), i, p)
    {
        printf("%-8s %s %s (%s): %lld calls, %lld over budget\n", i == 0 ? "plugins" : "",
               admin_text(p, "kind"), admin_text(p, "name"), admin_text(p, "use"),
               cli_number(p, "calls"), cli_number(p, "budget_misses"));
    }
    print_certs(json_object_get(root, "certs"));
    print_hardening(json_object_get(root, "hardening"));
    if (cli_number(root, "tainted") > 0) {
        printf("%-8s %lld plugin files are not signed\n", "tainted", cli_number(root, "tainted"));
    }
    if (cli_number(root, "lost") > 0) {
        printf("%-8s %lld threads hang in create()\n", "lost", cli_number(root, "lost"));
    }
}

int cli_status(const struct cli_options *o)
{
    return cli_show(o, "GET", "/status", print_status);
}

/* ---- page ------------------------------------------------------------------------------------ */

/* What is behind the # stays in the browser. */
static void print_page(const json_t *root)
{
    printf("%s#token=%s\n", admin_text(root, "url"), admin_text(root, "token"));
}

int cli_page(const struct cli_options *o)
{
    return cli_show(o, "GET", "/page", print_page);
}

/* ---- why ------------------------------------------------------------------------------------- */

/* "850 us", "12.3 ms", "4.56 s" into a buffer of the caller. */
static const char *span(const json_t *us, char ret[32])
{
    long long n = (long long)json_integer_value(us);

    if (!us) {
        snprintf(ret, 32, "-");
    } else if (n < 1000) {
        snprintf(ret, 32, "%lld us", n);
    } else if (n < 1000000) {
        snprintf(ret, 32, "%lld.%lld ms", n / 1000, n % 1000 / 100);
    } else {
        snprintf(ret, 32, "%lld.%02lld s", n / 1000000, n % 1000000 / 10000);
    }
    return ret;
}

static void print_phases(const json_t *phases)
{
    static const struct {
        const char *key;
        const char *doc;
    } lines[] = {
        { "read", "the request's body" },
        { "lookup", "the function in the catalogue" },
        { "placement", "from there to the start of the last attempt" },
        { "queue", "of that: waits in the load balancer's queue" },
        { "attempt", "the last attempt" },
        { "runner_wait", "of the attempt: the runner's queue and container, as it reported" },
        { "pull", "of that: until the image was there" },
        { "prepare", "of that: until there was memory and CPU for a container" },
        { "create", "of that: until the engine had started the container" },
        { "init", "of that: until the function listened on its socket" },
        { "execution", "of the attempt: the function, as the runner reported" },
        { "first_byte", "until the client got the first byte" },
        { "total", "from the request's head to the end" },
    };
    char took[32];

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const json_t *us = json_object_get(phases, lines[i].key);

        if (us) {
            printf("  %-12s %10s  %s\n", lines[i].key, span(us, took), lines[i].doc);
        }
    }
}

static int width_of(const json_t *tries, const char *key, const char *title)
{
    int width = (int)strlen(title);
    json_t *t;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)tries, i, t)
    {
        int n = (int)strlen(admin_text(t, key));

        width = n > width ? n : width;
    }
    return width;
}

static void print_tries(const json_t *root)
{
    const json_t *tries = json_object_get(root, "tries");
    int runner = width_of(tries, "runner", "runner"), how = width_of(tries, "how", "how");
    int note = width_of(tries, "note", "note");
    size_t kept = json_array_size(tries), i;
    char after[32], took[32], status[24];
    json_t *t;

    if (kept == 0) {
        return;
    }
    printf("\n  %4s  %-*s  %10s  %10s  %-*s  %4s  %-*s  %s\n", "", runner, "runner", "after",
           "took", how, "how", "code", note, "note", "the runner said");
    json_array_foreach((json_t *)(uintptr_t)tries, i, t)
    {
        long long left_out = cli_number(root, "tries_made") - (long long)kept;
        long long nth = (long long)i + 1 + (i + 1 == kept ? left_out : 0);
        long long code = cli_number(t, "code");

        if (i + 1 == kept && left_out > 0) {
            printf("  %4s  (%lld more)\n", "", left_out);
        }
        snprintf(status, sizeof(status), "%lld", code);
        printf("  %4lld  %-*s  %10s  %10s  %-*s  %4s  %-*s  %s\n", nth, runner,
               admin_text(t, "runner"), span(json_object_get(t, "after_us"), after),
               span(json_object_get(t, "took_us"), took), how, admin_text(t, "how"),
               code ? status : "-", note, admin_text(t, "note"), admin_text(t, "said"));
    }
}

static void print_why(const json_t *root)
{
    bool ended = strcmp(admin_text(root, "state"), "ended") == 0;

    printf("call      %s, %s, came %s\n", admin_text(root, "call_id"), admin_text(root, "kind"),
           admin_text(root, "at"));
    printf("function  %s\n", admin_text(root, "fn_id"));
    if (ended) {
        printf("ended     %s, status %lld\n", admin_text(root, "outcome"),
               cli_number(root, "status"));
    } else {
        printf("ended     not yet, it runs or waits\n");
    }
    if (json_object_get(root, "trace_id")) {
        printf("trace     %s\n", admin_text(root, "trace_id"));
    }
    if (json_object_get(root, "error")) {
        printf("error     %s\n", admin_text(root, "error"));
    }
    if (json_object_get(root, "placer")) {
        printf("placed    by %s in group %s among %lld runner%s: %lld attempt%s, %lld wait%s; "
               "configuration %lld\n",
               admin_text(root, "placer"), admin_text(root, "group"), cli_number(root, "runners"),
               plural(root, "runners"), cli_number(root, "tries_made"), plural(root, "tries_made"),
               cli_number(root, "waits"), plural(root, "waits"), cli_number(root, "generation"));
    } else {
        printf("placed    never: it ended before a placer was asked; configuration %lld\n",
               cli_number(root, "generation"));
    }
    if (json_object_get(root, "placer") && cli_number(root, "runners") == 0) {
        printf("          the pool named no runner: what it waits for is in this node's log and, where a "
               "node pool manager sizes it, in `fnd runners list` there\n");
    }
    if (json_object_get(root, "last_refusal")) {
        printf("          the placer's last %s: %s\n", admin_text(root, "last_refusal"),
               admin_text(root, "last_refusal_note"));
    }
    print_tries(root);
    putchar('\n');
    print_phases(json_object_get(root, "phases"));
}

int cli_why(const struct cli_options *o)
{
    const char *id = o->argv[0];
    char path[256];

    if (strlen(id) > 64 ||
        id[strspn(id, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")]) {
        fprintf(stderr, "fnd: call id, got \"%.64s\"; expected the 26 characters of Fn-Call-Id\n",
                id);
        return EXIT_USAGE;
    }
    snprintf(path, sizeof(path), "/why/%s", id);
    return cli_show(o, "GET", path, print_why);
}

/* ---- runners --------------------------------------------------------------------------------- */

static const char *state_of(const json_t *runner)
{
    if (!json_is_true(json_object_get(runner, "operator_drain"))) {
        const char *state = admin_text(runner, "state");

        return json_object_get(runner, "fault") && strcmp(state, "active") == 0 ? "failing" : state;
    }
    return json_is_true(json_object_get(runner, "empty")) ? "drained, empty" : "drained";
}

/* Why it drains, what the operator wants of it, or why it starts no containers. */
static const char *reason_of(const json_t *runner)
{
    if (json_object_get(runner, "why")) {
        return admin_text(runner, "why");
    }
    return json_object_get(runner, "wish")    ? admin_text(runner, "wish")
           : json_object_get(runner, "fault") ? admin_text(runner, "fault")
                                              : "";
}

static void print_group(const json_t *o)
{
    printf("group %s: %s; %lld MB desired, waiting calls: %lld\n", admin_text(o, "name"),
           admin_text(o, "says"), cli_number(o, "desired_mb"), cli_number(o, "waiting"));
    if (cli_number(o, "listed_s") > 10) {
        printf("  the control plane's last list is %lld s old\n", cli_number(o, "listed_s"));
    }
    if (admin_text(o, "cplane_error")[0]) {
        printf("  the control plane said: %s\n", admin_text(o, "cplane_error"));
    }
    if (cli_number(o, "lbs_twice") > 0) {
        printf("  load balancers whose lb_id another one uses, too: %lld\n",
               cli_number(o, "lbs_twice"));
    }
}

static void print_runners(const json_t *root)
{
    const json_t *runners = json_object_get(root, "runners");
    int id = width_of(runners, "id", "runner"), group = width_of(runners, "group", "group");
    json_t *o;
    size_t i;

    json_array_foreach(json_object_get(root, "groups"), i, o) {
        print_group(o);
    }
    if (admin_text(root, "wishes_error")[0]) {
        printf("a restart of the manager would forget what is drained: %s\n",
               admin_text(root, "wishes_error"));
    }
    if (json_array_size(runners) > 0) {
        printf("\n%-*s  %-*s  %-14s  %5s  %8s  %6s  %s\n", id, "runner", group, "group", "state",
               "calls", "MB", "for", "address");
    }
    json_array_foreach((json_t *)(uintptr_t)runners, i, o) {
        printf("%-*s  %-*s  %-14s  %5lld  %8lld  %4lld s  %s%s%s%s%s\n", id, admin_text(o, "id"),
               group, admin_text(o, "group"), state_of(o), cli_number(o, "active"),
               cli_number(o, "capacity_mb"), cli_number(o, "since_s"), admin_text(o, "address"),
               admin_text(o, "labels")[0] ? "  " : "", admin_text(o, "labels"),
               reason_of(o)[0] ? "  " : "", reason_of(o));
    }
}

/* What was done is done; only that it is kept may fail, which the manager knows a moment later. */
static void tell_unkept(const struct cli_options *o)
{
    static const struct timespec pause = { .tv_nsec = KEPT_ASK_MS * 1000000L };
    const char *why;
    json_t *root;
    int r = cli_ask(o, "GET", "/runners", &root);

    for (int i = 0; i < KEPT_ASKS && json_is_true(json_object_get(root, "wishes_writing")); i++) {
        json_decref(root);
        nanosleep(&pause, NULL);
        r = cli_ask(o, "GET", "/runners", &root);
    }
    why = json_string_value(json_object_get(root, "wishes_error"));
    if (r == EXIT_OK && why && *why) {
        fprintf(stderr, "fnd: done, but a restart of the manager would forget it: %s\n", why);
    }
    json_decref(root);
}

static int order_runner(const struct cli_options *o, const char *verb, const char *id)
{
    char path[512];
    json_t *root;
    int r;

    if (!id[0] || strpbrk(id, " ?#%\r\n") || strlen(id) > 255 + 64) {
        fprintf(stderr, "fnd: runner, got \"%.64s\"; expected an id of `fnd runners list`\n", id);
        return EXIT_USAGE;
    }
    snprintf(path, sizeof(path), "/runners/%s/%s", verb, id);
    r = cli_ask(o, "POST", path, &root);
    json_decref(root);
    if (r == EXIT_OK) {
        tell_unkept(o);
    }
    return r;
}

int cli_runners(const struct cli_options *o)
{
    static const char *const verbs[] = { "drain", "undrain", "replace", "remove" };

    if (o->argc == 1 && strcmp(o->argv[0], "list") == 0) {
        return cli_show(o, "GET", "/runners", print_runners);
    }
    if (o->argc == 1 && strcmp(o->argv[0], "roll") == 0) {
        return cli_roll(o);
    }
    for (size_t i = 0; o->argc == 2 && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(o->argv[0], verbs[i]) == 0) {
            return order_runner(o, i == 3 && o->force ? "end" : verbs[i], o->argv[1]);
        }
    }
    fprintf(stderr,
            "fnd: runners, got \"%.64s\"; expected list, roll, or drain, undrain, replace or remove "
            "and an id\n",
            o->argv[0]);
    return EXIT_USAGE;
}

/* ---- shadow ---------------------------------------------------------------------------------- */

static double percent(long long part, long long all)
{
    return all > 0 ? 100.0 * (double)part / (double)all : 0;
}

static long long sum(const json_t *counts)
{
    long long all = 0;
    const char *key;
    json_t *n;

    json_object_foreach((json_t *)(uintptr_t)counts, key, n) {
        all += (long long)json_integer_value(n);
    }
    return all;
}

static void print_shares(const json_t *counts)
{
    long long all = sum(counts);
    const char *key;
    json_t *n;
    int i = 0;

    json_object_foreach((json_t *)(uintptr_t)counts, key, n) {
        printf("%s%s %lld (%.1f %%)", i++ ? ", " : "", key, (long long)json_integer_value(n),
               percent((long long)json_integer_value(n), all));
    }
    putchar('\n');
}

static void print_role(const json_t *root, const char *role, const char *key, const char *title)
{
    char part[32];
    const json_t *r;

    snprintf(part, sizeof(part), "%s_role", role);
    r = json_object_get(root, part);
    printf("%-14s %-8s ", title, admin_text(root, role));
    if (strcmp(key, "inflight") == 0) {
        long long picks = sum(json_object_get(r, "picks"));

        printf("%.2f calls at the runner named, on average\n",
               picks ? (double)cli_number(r, key) / (double)picks : 0);
    } else {
        print_shares(json_object_get(r, key));
    }
}

static double real(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static void print_waits(const json_t *root)
{
    const json_t *w = json_object_get(root, "waits");

    if (cli_number(w, "predicted") == 0) {
        printf("%-14s none yet: no call that ended well has told how long it waited\n",
               "predicted wait");
        return;
    }
    printf("%-14s %-8s %.2f ms on average, over %lld questions\n", "predicted wait",
           admin_text(root, "serving"), real(w, "serving_ms"), cli_number(w, "predicted"));
    printf("%-14s %-8s %.2f ms on average\n", "", admin_text(root, "shadow"), real(w, "shadow_ms"));
    printf("%-14s %.2f ms on average, over %lld calls\n", "measured wait", real(w, "measured_ms"),
           cli_number(w, "measured"));
}

static void print_roles(const json_t *root)
{
    print_role(root, "serving", "picks", "runners named");
    print_role(root, "shadow", "picks", "");
    print_role(root, "serving", "inflight", "in flight");
    print_role(root, "shadow", "inflight", "");
    print_role(root, "serving", "homes", "homes");
    print_role(root, "shadow", "homes", "");
    print_waits(root);
}

static void print_shadow(const json_t *root)
{
    long long asked = cli_number(root, "asked");
    json_t *a;
    size_t i;

    printf("%-14s %s%s\n", "serving", admin_text(root, "serving"),
           json_is_true(json_object_get(root, "swapped"))
               ? " (swapped in; back or a reload undo it)"
               : "");
    if (strcmp(admin_text(root, "state"), "none") == 0) {
        printf("%-14s none; plugins.shadow in fn.yaml names one\n", "shadow");
        return;
    }
    printf("%-14s %s, asked about %lld of 1000 calls for %lld s", "shadow",
           admin_text(root, "shadow"), cli_number(root, "permille"), cli_number(root, "for_s"));
    if (json_object_get(root, "off_why")) {
        printf("; turned off: %s", admin_text(root, "off_why"));
    }
    if (asked == 0) {
        printf("\n%-14s none yet\n", "questions");
        return;
    }
    printf("\n%-14s %lld, agree %lld (%.1f %%), disagree %lld\n", "questions", asked,
           cli_number(root, "agree"), percent(cli_number(root, "agree"), asked),
           cli_number(root, "disagree"));
    json_array_foreach(json_object_get(root, "answers"), i, a) {
        printf("%-14s %s says %s, %s says %s: %lld\n", i == 0 ? "answers" : "",
               admin_text(root, "serving"), admin_text(a, "serving"), admin_text(root, "shadow"),
               admin_text(a, "shadow"), cli_number(a, "n"));
    }
    print_roles(root);
}

int cli_shadow(const struct cli_options *o)
{
    const char *verb = o->argv[0];
    bool status = strcmp(verb, "status") == 0;
    char path[64];

    if (!status && strcmp(verb, "swap") != 0 && strcmp(verb, "back") != 0) {
        fprintf(stderr, "fnd: shadow, got \"%.64s\"; expected status, swap or back\n", verb);
        return EXIT_USAGE;
    }
    snprintf(path, sizeof(path), "/shadow/%s", verb);
    return cli_show(o, status ? "GET" : "POST", status ? "/shadow" : path, print_shadow);
}

/* ---- reload ---------------------------------------------------------------------------------- */

static void print_lines(FILE *to, const json_t *list)
{
    size_t i;
    json_t *line;

    json_array_foreach((json_t *)(uintptr_t)list, i, line)
    {
        fprintf(to, "%s\n", json_string_value(line));
    }
}

int cli_reload(const struct cli_options *o)
{
    int status = 0;
    json_t *root;
    int r = cli_ask_status(o, "POST", "/reload", RELOAD_TIMEOUT_MS, &status, &root);

    if (r == EXIT_CONFIG) {
        fputs("the running node was not asked and goes on as it is; --socket PATH asks it\n",
              stderr);
    }
    if (r != EXIT_OK) {
        return r;
    }
    if (o->json) {
        r = cli_print_json(root);
    } else {
        print_lines(stderr, json_object_get(root, "problems"));
    }
    if (status == 200 && !o->json) {
        printf("generation %lld from %s\n", cli_number(root, "generation"),
               admin_text(root, "from"));
        r = cli_written(EXIT_OK);
    } else if (status == 422) {
        fprintf(stderr, "keeping generation %lld from %s\n", cli_number(root, "generation"),
                admin_text(root, "from"));
        r = EXIT_CONFIG;
    } else if (status != 200) {
        fprintf(stderr, "fnd: %s\n", admin_text(root, "message"));
        r = EXIT_UNAVAILABLE;
    }
    json_decref(root);
    return r;
}
