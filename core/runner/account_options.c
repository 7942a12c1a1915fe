/* What of the machine functions may use: part of `runner:`. */
#include <runner/account.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct account_limits, field)
static const struct fn_opt rows[] = {
    OPT("memory_total", BYTES, AT(mem_bytes_max), "0", 0, INT64_MAX,
        "Memory that this runner gives to all containers together, 0 = what the machine offers. "
        "When it is used up, idle containers are removed; if that is not enough, calls are "
        "handed back to the load balancer."),
    OPT_COUNT("cpu_total", INT, AT(cpu_milli_max), "0", 0, 1000000000, "thousandths of a CPU",
              "CPU that this runner gives to all functions with a CPU limit together, 0 = what "
              "the machine offers. When it is used up, calls are handed back to the load "
              "balancer."),
    OPT_COUNT("cpu_default", INT, AT(cpu_milli_default), "0", 0, 1000000,
              "thousandths of a CPU",
              "CPU that each container of a function without a CPU limit counts with, 0 = none "
              "(as Go Fn). The function may use more while processors are idle. Set it if "
              "functions compute most of the time: then no more of them run at a time than "
              "there are processors for."),
    { .key = NULL },
};

const struct opt_table account_opt_table = { rows, sizeof(struct account_limits) };
