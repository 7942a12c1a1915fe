/* Tasks of drivers that wrap another one, whatever minor they were built for. */
#ifndef PLUGINS_TASK_H
#define PLUGINS_TASK_H

#include <fn/driver.h>
#include <stddef.h>

/* Wrappers that were built for an earlier minor hand on a shorter task. */
#define TASK_HAS(task, field)                                                                      \
    ((task)->hdr.size >= offsetof(struct fn_task, field) + sizeof((task)->field))

#endif
