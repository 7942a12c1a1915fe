/* Names on a page: by one rule, so that a metric is declared under one name only. */
#include <base/metric_int.h>

#include <stdio.h>
#include <string.h>

static const struct {
    const char *is, *becomes, *note;
    double factor;
} units[] = {
    { "_milliseconds", "_seconds", " Shown in seconds.", 0.001 },
    { "_mb", "_bytes", " Shown in bytes.", 1 << 20 },
};

/* fn_runner_calls_total is another one. */
#define RUNNER_CALLS "fn_runner_calls"

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n > m && strcmp(name + n - m, end) == 0;
}

static bool cut_end(char *name, const char *end)
{
    bool cut = ends_in(name, end);

    if (cut) {
        name[strlen(name) - strlen(end)] = '\0';
    }
    return cut;
}

static void add_end(char *name, const char *end)
{
    size_t n = strlen(name);

    snprintf(name + n, METRIC_NAME_MAX - n, "%s", end);
}

void metric_names_show(enum metric_names names, enum metric_kind kind, const char *name,
                       struct metric_shown *ret)
{
    snprintf(ret->name, sizeof(ret->name), "%s", name);
    ret->factor = 1;
    ret->note = "";
    if (names == METRIC_NAMES_FN) {
        return;
    }
    if (strcmp(name, RUNNER_CALLS) == 0) {
        snprintf(ret->name, sizeof(ret->name), "fn_runner_invocations_total");
        return;
    }
    if (!cut_end(ret->name, "_total")) {
        cut_end(ret->name, "_count");
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (cut_end(ret->name, units[i].is)) {
            add_end(ret->name, units[i].becomes);
            ret->factor = units[i].factor;
            ret->note = units[i].note;
        }
    }
    if (kind == METRIC_COUNTER) {
        add_end(ret->name, "_total");
    }
}
