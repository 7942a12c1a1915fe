/* The option tables of each section, `--set` from the command line, and what must hold between
 * options. */
#include <sim/scenario.h>

#include <sim/call_more.h>
#include <base/env.h>
#include <conf/opts.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct scenario_top, field)
static const struct fn_opt top_opts[] = {
    OPT("summary", STR, AT(summary), "", 0, 200,
        "One line about the scenario, printed above the report."),
    OPT("duration", DURATION, AT(duration_ns), "60s", MS, 1000 * H,
        "Virtual time during which calls arrive."),
    OPT("warm_up", DURATION, AT(warm_up_ns), "0", 0, 1000 * H,
        "Calls that arrive before this are not counted."),
    OPT("calls_max", INT, AT(calls_max), "0", 0, 1000000000,
        "Number of calls after which no more arrive, 0 = no limit."),
    OPT("lbs", INT, AT(lbs), "1", 1, 64,
        "Number of load balancers, each with its own placer instance and its own counts of "
        "running calls."),
    { .key = NULL },
};
#undef AT
#define AT(field) offsetof(struct scenario_runners, field)
static const struct fn_opt runner_opts[] = {
    OPT("count", INT, AT(count), "10", 1, 10000,
        "Number of runners at the start."),
    OPT("memory", BYTES, AT(memory), "4GiB", MIB, 4096 * GIB,
        "Memory of each runner for containers."),
    OPT("containers_per_function", INT, AT(containers_per_function), "0", 0, 10000,
        "Maximum number of containers of one function on one runner, 0 = as many as the memory "
        "allows."),
    OPT("cpus", INT, AT(cpus), "0", 0, 1024,
        "Number of processors of a runner. If more calls run at the same time, a call that "
        "starts then runs longer in proportion. 0 = calls do not slow each other down."),
    OPT("queue", INT, AT(queue), "0", 0, 100000,
        "Maximum number of calls that wait at a full runner; a further one is refused. 0 = a "
        "full runner refuses at once, as Go Fn's does."),
    OPT("idle_timeout", DURATION, AT(idle_timeout_ns), "30s", 0, 24 * H,
        "Time after its last call when a container is removed."),
    OPT("cold_start", DURATION, AT(cold_start_ns), "400ms", 0, H,
        "Time to start a container for a call whose function has no idle one."),
    OPT("cold_spread", INT, AT(cold_spread), "20", 0, 100,
        "Percent by which cold_start varies, uniformly in both directions."),
    OPT_ABSENT("labels", STRLIST, AT(labels), 0, 0,
               "Sets of labels that runners have in turn: [\"class=gpu,zone=a\", zone=b, \"\"]."),
    { .key = NULL },
};
#undef AT
#define AT(field) offsetof(struct scenario_functions, field)
static const struct fn_opt function_opts[] = {
    OPT("count", INT, AT(count), "20", 1, 100000,
        "Number of functions."),
    OPT_CHOICE("popularity", AT(popularity), "equal", "equal|zipf|azure",
               "How calls are distributed over functions: equal; zipf, with the exponent skew; "
               "azure = log-normal with sigma 3.6, where the top fifth of the functions gets "
               "99.6 % of the calls."),
    OPT("skew", INT, AT(skew), "100", 0, 300,
        "With popularity zipf: the exponent, in percent."),
    OPT("memory", BYTES, AT(memory), "128MiB", MIB, 1024 * GIB,
        "Memory of a container. With memory_shape azure: its median."),
    OPT_CHOICE("memory_shape", AT(memory_shape), "same", "same|azure",
               "Memory of the functions: same = memory for all; azure = log-normal around memory "
               "with sigma 0.6, from 32MiB to 4GiB."),
    OPT_CHOICE("duration_shape", AT(duration_shape), "constant",
               "constant|exponential|lognormal|azure",
               "Distribution of run times. azure = each function has a median, drawn "
               "log-normally with sigma 2.36, and its calls are log-normal around it with sigma "
               "0.5."),
    OPT("duration", DURATION, AT(duration_ns), "50ms", 1000, H,
        "Run time of calls: the constant, mean or median of duration_shape."),
    OPT("spread", INT, AT(spread), "100", 0, 400,
        "With duration_shape lognormal: sigma, in percent."),
    OPT_ABSENT("config", STRLIST, AT(config), 0, 0,
               "Configuration of the functions, for placers that read it: function i has the i-th "
               "entry, key=value, beginning again behind the last one; an empty entry gives none."),
    OPT_ABSENT("annotations", STRLIST, AT(annotations), 0, 0,
               "The same for annotations, whose values are JSON: [zone=\"a\", zone=\"b\"]."),
    { .key = NULL },
};
#undef AT
#define AT(field) offsetof(struct scenario_arrivals, field)
static const struct fn_opt arrival_opts[] = {
    OPT_CHOICE("shape", AT(shape), "poisson", "constant|poisson|burst|diurnal|azure",
               "When calls arrive. azure = a third of the functions is called at regular "
               "intervals, a third by Poisson, a third in bursts."),
    OPT("rate", INT, AT(rate), "100", 1, 100000000,
        "Calls per second of all functions together, averaged over time."),
    OPT("burst_factor", INT, AT(burst_factor), "10", 1, 1000,
        "With shape burst: rate during a burst, as a multiple of the average."),
    OPT("burst_every", DURATION, AT(burst_every_ns), "30s", MS, 24 * H,
        "With shape burst: time from the start of one burst to the start of the next."),
    OPT("burst_length", DURATION, AT(burst_length_ns), "2s", MS, 24 * H,
        "With shape burst: length of a burst."),
    OPT("period", DURATION, AT(period_ns), "10m", S, 1000 * H,
        "With shape diurnal: length of a day."),
    OPT("low", INT, AT(low), "20", 0, 100,
        "With shape diurnal: rate at night, in percent of the average."),
    { .key = NULL },
};
#undef AT
#define AT(field) offsetof(struct scenario_network, field)
static const struct fn_opt network_opts[] = {
    OPT("delay", DURATION, AT(delay_ns), "100us", 0, 10 * S,
        "Time of a message between load balancer and runner, one way."),
    OPT("detect", DURATION, AT(detect_ns), "3s", 0, H,
        "Time until a load balancer notices that the machine of a runner vanished."),
    OPT("publish", DURATION, AT(publish_ns), "500ms", 0, H,
        "Longest time until a load balancer hears of a runner that came or went; drawn for each "
        "load balancer."),
    { .key = NULL },
};
#undef AT
#define AT(field) offsetof(struct scenario_placement, field)
static const struct fn_opt placement_opts[] = {
    OPT("timeout", DURATION, AT(timeout_ns), "30s", MS, H,
        "Time for a call to be placed, as lb.placement_timeout in fn.yaml."),
    OPT("retry_min", DURATION, AT(retry_min_ns), "10ms", MS, 10 * S,
        "Shortest pause before a refused call is offered again, as lb.retry_min in fn.yaml."),
    OPT("retry_max", DURATION, AT(retry_max_ns), "1s", MS, 60 * S,
        "Longest pause before a refused call is offered again, as lb.retry_max in fn.yaml."),
    OPT("waiting_max", INT, AT(waiting_max), "20000", 1, 10000000,
        "Maximum number of waiting calls, as lb.waiting_calls_max in fn.yaml."),
    OPT("decision_cost", DURATION, AT(decision_cost_ns), "0", 0, S,
        "Virtual time that each decision takes; a load balancer makes one decision after the "
        "other."),
    { .key = NULL },
};
#undef AT
#define EXPECT(key_, type_, at_, max_, unit_, doc_)                                                \
    {                                                                                              \
        .key = key_, .doc = doc_, .choices = unit_, .max = max_, .type = type_,                    \
        .offset = offsetof(struct scenario_expect, at_), .flags = FN_OPT_MAY_BE_ABSENT             \
    }
static const struct fn_opt expect_opts[] = {
    EXPECT("wait_p99_max", DURATION, wait_p99_max_ns, H, NULL,
           "Longest wait that 99 % of the calls may have."),
    EXPECT("slowdown_p99_max", INT, slowdown_p99_max, 1000000, "times",
           "Largest slowdown that 99 % of the calls may have."),
    EXPECT("refused_max", INT, refused_max, 100, "percent", "Share of calls that may be refused."),
    EXPECT("cold_max", INT, cold_max, 100, "percent", "Share of placed calls that may start cold."),
    EXPECT("lost_max", INT, lost_max, 1000000000, "calls",
           "Number of calls that may be lost with a runner."),
    EXPECT("collateral_max", INT, collateral_max, 100, "percent",
           "Share of unaffected functions that may move when runners come or go. A placer without "
           "homes never meets this."),
    { .key = NULL },
};
#define AT(field) offsetof(struct scenario_event, field)
static const struct fn_opt event_opts[] = {
    OPT("at", DURATION, AT(at_ns), NULL, 0, 1000 * H,
        "When it happens: a time from the start, such as 10s."),
    { .key = "what",
      .doc = "What happens to runners: crash = their processes die and connections are reset; "
             "vanish = their machines are gone and nobody is told; leave = they are taken out of "
             "the pool and running calls end; drain = they are listed as draining; join = new "
             "runners come.",
      .choices = "crash|vanish|leave|drain|join",
      .type = FN_OPT_CHOICE,
      .offset = AT(what) },
    OPT("runner", INT, AT(runner), "0", 0, 9999,
        "Number of the first runner that is concerned, from 0."),
    OPT("count", INT, AT(count), "1", 1, 10000,
        "Number of runners that are concerned, from the first one on."),
    OPT("back_after", DURATION, AT(back_after_ns), "0", 0, 1000 * H,
        "Time after which these runners are as before, 0 = never."),
    { .key = NULL },
};
#undef AT

enum section { TOP, RUNNERS, FUNCTIONS, ARRIVALS, NETWORK, PLACEMENT, EXPECTED, SECTIONS_N };

static const struct {
    const char *key;
    const struct fn_opt *opts;
    uint32_t size;
} sections[SECTIONS_N] = {
    [TOP] = { "", top_opts, sizeof(struct scenario_top) },
    [RUNNERS] = { "runners", runner_opts, sizeof(struct scenario_runners) },
    [FUNCTIONS] = { "functions", function_opts, sizeof(struct scenario_functions) },
    [ARRIVALS] = { "arrivals", arrival_opts, sizeof(struct scenario_arrivals) },
    [NETWORK] = { "network", network_opts, sizeof(struct scenario_network) },
    [PLACEMENT] = { "placement", placement_opts, sizeof(struct scenario_placement) },
    [EXPECTED] = { "expect", expect_opts, sizeof(struct scenario_expect) },
};

static const char *const top_others[] = { "runners",   "functions", "arrivals", "network",
                                          "placement", "expect",    "events",   "placer",
                                          NULL };

struct scenario_priv {
    struct conf_values *values[SECTIONS_N];
    struct conf_values **event_values;
    struct conf_override *overrides[SECTIONS_N + 1]; /* the last: placer */
    char **texts; /* copies of --set */
    uint32_t n_texts;
};

/* ---- --set ----------------------------------------------------------------------------------- */

static int section_of(const char *key, size_t len)
{
    for (int i = 1; i < SECTIONS_N; i++) {
        if (strlen(sections[i].key) == len && strncmp(sections[i].key, key, len) == 0) {
            return i;
        }
    }
    return len == strlen("placer") && strncmp(key, "placer", len) == 0 ? SECTIONS_N : -1;
}

static bool knows(int section, const char *key)
{
    const struct fn_opt *o;

    if (section == SECTIONS_N) {
        return true; /* judged with the placer's options */
    }
    for (o = sections[section].opts; o->key; o++) {
        if (strcmp(o->key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* "section.key=value", "key=value" for the top level. */
static void read_set(struct scenario *s, const char *set, struct conf_problems *p)
{
    struct scenario_priv *x = s->priv;
    char *text = strdup(set);
    char *where = NULL;
    char *equals, *dot, *key;
    int section = TOP;
    size_t n = 0;

    if (!text || asprintf(&where, "--set %s", set) < 0) {
        abort();
    }
    x->texts[x->n_texts++] = text;
    x->texts[x->n_texts++] = where;
    equals = strchr(text, '=');
    if (!equals) {
        conf_problem(p, "CFG704", NULL, "--set, got %s; expected section.key=value",
                     conf_quote(set));
        return;
    }
    *equals = '\0';
    where[strlen("--set ") + (size_t)(equals - text)] = '\0';
    dot = strchr(text, '.');
    key = dot && dot < equals ? dot + 1 : text;
    if (key != text) {
        section = section_of(text, (size_t)(dot - text));
    }
    if (section < 0 || !knows(section, key)) {
        conf_problem(p, "CFG702", NULL, "%s: no such key; expected section.key of the scenario",
                     where);
        return;
    }
    while (x->overrides[section][n].key) {
        n++;
    }
    x->overrides[section][n] = (struct conf_override){ key, where, equals + 1 };
}

/* ---- events ---------------------------------------------------------------------------------- */

static void read_event(struct scenario *s, struct conf_node *n, struct conf_problems *p)
{
    struct conf_values **values = &s->priv->event_values[s->n_events];
    struct scenario_event *e = &s->events[s->n_events];
    bool joins;

    if (n->type != CONF_MAP) {
        conf_problem(p, "CFG704", conf_where(s->file, n),
                     "events, got %s; expected {at: 10s, what: crash, runner: 0}",
                     n->text ? conf_quote(n->text) : "a list");
        return;
    }
    if (conf_bind(s->file, n, "events", event_opts, sizeof(*e), NULL, NULL, values, p) < 0) {
        abort();
    }
    s->n_events++;
    *e = *(struct scenario_event *)(*values)->data;
    if (!e->what) {
        return;
    }
    joins = strcmp(e->what, "join") == 0;
    if (joins) {
        e->runner = s->n_runners;
        s->n_runners += (uint32_t)e->count;
    } else if (e->runner + e->count > s->n_runners) {
        conf_problem(p, "CFG704", conf_where(s->file, n),
                     "events: runners %lld to %lld; expected some of the %u that exist by then",
                     (long long)e->runner, (long long)(e->runner + e->count - 1), s->n_runners);
    }
}

static int by_time(const void *a, const void *b)
{
    const struct scenario_event *x = a, *y = b;

    return x->at_ns != y->at_ns ? (x->at_ns < y->at_ns ? -1 : 1)
           : x->runner != y->runner ? (x->runner < y->runner ? -1 : 1)
                                    : 0;
}

static void read_events(struct scenario *s, struct conf_problems *p)
{
    struct conf_node *list = conf_get(conf_root(s->file), "events");
    uint32_t n = 0;

    s->n_runners = (uint32_t)s->runners->count;
    if (!list) {
        return;
    }
    if (list->type != CONF_LIST) {
        conf_problem(p, "CFG704", conf_where(s->file, list), "events; expected a list");
        return;
    }
    for (struct conf_node *i = list->first; i; i = i->next) {
        n++;
    }
    if (n > SCENARIO_EVENTS_MAX) {
        conf_problem(p, "CFG704", conf_where(s->file, list),
                     "events, got %u; expected at most %u", n, SCENARIO_EVENTS_MAX);
        return;
    }
    s->events = calloc(n + 1, sizeof(*s->events));
    s->priv->event_values = calloc(n + 1, sizeof(*s->priv->event_values));
    if (!s->events || !s->priv->event_values) {
        abort();
    }
    for (struct conf_node *i = list->first; i; i = i->next) {
        read_event(s, i, p);
    }
    qsort(s->events, s->n_events, sizeof(*s->events), by_time);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void check_pairs(const char *key, const struct fn_strlist *pairs, bool are_annotations,
                        struct conf_problems *p)
{
    for (uint64_t i = 0; i < pairs->n; i++) {
        if (!call_more_is_pair(pairs->items[i], are_annotations)) {
            conf_problem(p, "CFG704", NULL, "functions.%s, got %s; expected key=%s", key,
                         conf_quote(pairs->items[i]), are_annotations ? "JSON" : "value");
        }
    }
}

static void check_labels(const struct fn_strlist *sets, struct conf_problems *p)
{
    for (uint64_t i = 0; i < sets->n; i++) {
        const char *fault = fn_labels_fault(sets->items[i]);

        if (fault) {
            conf_problem(p, "CFG704", NULL, "runners.labels, got %s; expected %s",
                         conf_quote(sets->items[i]), fault);
        }
    }
}

/* What holds between options. */
static void check(struct scenario *s, struct conf_problems *p)
{
    uint64_t cells = (uint64_t)s->n_runners * (uint64_t)s->functions->count;

    if (cells > SCENARIO_CELLS_MAX) {
        conf_problem(p, "CFG704", NULL,
                     "runners x functions, got %llu; expected at most %u to fit into memory",
                     (unsigned long long)cells, SCENARIO_CELLS_MAX);
    }
    check_pairs("config", &s->functions->config, false, p);
    check_pairs("annotations", &s->functions->annotations, true, p);
    check_labels(&s->runners->labels, p);
    if (s->functions->memory > s->runners->memory) {
        conf_problem(p, "CFG704", NULL,
                     "functions.memory is larger than runners.memory; expected that a container "
                     "fits");
    }
    if (strcmp(s->arrivals->shape, "burst") == 0 &&
        s->arrivals->burst_length_ns * s->arrivals->burst_factor > s->arrivals->burst_every_ns) {
        conf_problem(p, "CFG704", NULL,
                     "arrivals.burst_length x burst_factor is longer than burst_every; expected "
                     "that the mean rate allows for the bursts");
    }
    if (s->top->warm_up_ns >= s->top->duration_ns) {
        conf_problem(p, "CFG704", NULL,
                     "warm_up, got %lld ms; expected less than duration, %lld ms",
                     (long long)(s->top->warm_up_ns / ENV_MS),
                     (long long)(s->top->duration_ns / ENV_MS));
    }
}

static void bind(struct scenario *s, struct conf_problems *p)
{
    struct conf_node *root = conf_root(s->file);

    for (int i = 0; i < SECTIONS_N; i++) {
        struct conf_node *map = i == TOP ? root : conf_get(root, sections[i].key);

        if (conf_bind(s->file, map, i == TOP ? "top level" : sections[i].key,
                      sections[i].opts, sections[i].size, i == TOP ? top_others : NULL,
                      s->priv->overrides[i], &s->priv->values[i], p) < 0 &&
            !s->priv->values[i]) {
            abort();
        }
    }
    s->top = s->priv->values[TOP]->data;
    s->runners = s->priv->values[RUNNERS]->data;
    s->functions = s->priv->values[FUNCTIONS]->data;
    s->arrivals = s->priv->values[ARRIVALS]->data;
    s->network = s->priv->values[NETWORK]->data;
    s->placement = s->priv->values[PLACEMENT]->data;
    s->expect = s->priv->values[EXPECTED];
    s->placer = conf_get(root, "placer");
    s->placer_overrides = s->priv->overrides[SECTIONS_N];
}

static struct scenario *scenario_new(uint32_t n_sets)
{
    struct scenario *s = calloc(1, sizeof(*s));
    struct scenario_priv *x = calloc(1, sizeof(*x));

    if (!s || !x) {
        abort();
    }
    s->priv = x;
    x->texts = calloc(2 * n_sets + 1, sizeof(*x->texts));
    for (int i = 0; i <= SECTIONS_N; i++) {
        x->overrides[i] = calloc(n_sets + 1, sizeof(*x->overrides[i]));
        if (!x->overrides[i]) {
            abort();
        }
    }
    if (!x->texts) {
        abort();
    }
    return s;
}

int scenario_load(const char *path, const char *const *sets, uint32_t n, struct scenario **ret,
                  struct conf_problems *p)
{
    struct scenario *s = scenario_new(n);

    conf_load(path, &s->file, p);
    if (!s->file) {
        scenario_destroy(s);
        return FN_E_INVALID;
    }
    for (uint32_t i = 0; i < n; i++) {
        read_set(s, sets[i], p);
    }
    bind(s, p);
    read_events(s, p);
    if (p->n == 0) {
        check(s, p);
    }
    if (p->n > 0) {
        scenario_destroy(s);
        return FN_E_INVALID;
    }
    *ret = s;
    return 0;
}

void scenario_destroy(struct scenario *s)
{
    struct scenario_priv *x;

    if (!s) {
        return;
    }
    x = s->priv;
    for (int i = 0; i < SECTIONS_N; i++) {
        conf_values_destroy(x->values[i]);
    }
    for (int i = 0; i <= SECTIONS_N; i++) {
        free(x->overrides[i]);
    }
    for (uint32_t i = 0; i < s->n_events; i++) {
        conf_values_destroy(x->event_values[i]);
    }
    for (uint32_t i = 0; i < x->n_texts; i++) {
        free(x->texts[i]);
    }
    free(x->texts);
    free(x->event_values);
    free(s->events);
    conf_destroy(s->file);
    free(x);
    free(s);
}

int scenario_reference(struct buf *out)
{
    for (int i = 0; i <= SECTIONS_N; i++) {
        const char *name = i == SECTIONS_N ? "events" : i == TOP ? "top level" : sections[i].key;

        buf_printf(out, "\n### %s\n\n", name);
        conf_print_reference(i == SECTIONS_N ? event_opts : sections[i].opts, NULL, NULL, out);
    }
    return 0;
}
