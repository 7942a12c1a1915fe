/* One line becomes a machine, or the last words of a runner that ended by itself. */
#include "lines.h"
#include "say_line.h"

#include <string.h>

/* The manager learns from the list that a runner ended; only its own last line tells why. */
static void tell_end(const struct fn_host *host, const char *group, const char *id,
                     const char *last_line)
{
    say_line(host, FN_LOG_WARN, "runner %s of group %s ended by itself; %s%s", id, group,
             last_line[0] ? "the last line of its log: " : "its log is empty", last_line);
}

int take_line(const struct fn_host *host, char *line, const char *group, uint64_t capacity_mb,
              const struct fn_machine_sink *out)
{
    struct fn_machine m = { .size = sizeof(m), .capacity_mb = capacity_mb };
    char *rest = NULL;
    const char *state = strtok_r(line, " ", &rest);

    m.id = strtok_r(NULL, " ", &rest);
    if (!state || !m.id) {
        return FN_E_INTERNAL;
    }
    if (strcmp(state, "gone") == 0) {
        m.state = FN_MACHINE_GONE;
        tell_end(host, group, m.id, rest);
    } else if (strcmp(state, "ready") == 0) {
        m.state = FN_MACHINE_READY;
        m.address = strtok_r(NULL, " ", &rest);
        m.labels = rest;
    } else {
        m.state = FN_MACHINE_STARTING;
    }
    return out->add(out->ud, &m);
}

uint32_t count_started(char *out)
{
    uint32_t n = 0;
    char *rest = NULL;

    for (char *line = strtok_r(out, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        n += strncmp(line, "started ", 8) == 0;
    }
    return n;
}
