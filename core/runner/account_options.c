/* What of the machine functions may use: part of `runner:`. */
#include <runner/account.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct account_limits, field)
static const struct fn_opt rows[] = {
    OPT("memory_total", BYTES, AT(mem_bytes_max), "0", 0, INT64_MAX,
        "Memory for all containers together, 0 = what the machine offers."),
    OPT_COUNT("cpu_total", INT, AT(cpu_milli_max), "0", 0, 1000000000, "thousandths of a CPU",
              "CPU for all containers together, 0 = what the machine offers."),
    { .key = NULL },
};

const struct opt_table account_opt_table = { rows, sizeof(struct account_limits) };
