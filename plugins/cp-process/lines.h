/* What the script says, line by line. Pure but for the log. */
#ifndef CP_PROCESS_LINES_H
#define CP_PROCESS_LINES_H

#include <fn/cplane.h>

/* One of list: "ready <id> <address> <labels>", "starting <id> -", "gone <id> <the last line of its
 * log>". Adds the machine, and tells of the last kind. */
int take_line(const struct fn_host *host, char *line, const char *group, uint64_t capacity_mb,
              const struct fn_machine_sink *out);
/* Of provision: lines "started <id>". A runner that could not be started is not promised: the host
 * tells, and asks again. */
uint32_t count_started(char *out);

#endif
