/* The end of a process whose machine took a step that its table does not have. */
#include <base/log.h>
#include <base/states.h>

#include <stdlib.h>

void states_refuse(const struct states *m, uint32_t from, uint32_t to)
{
    log_error("a state follows that may not: this is a defect of fnd", "machine", m->name, "from",
              m->names[from], "to", to < m->n ? m->names[to] : "no state at all");
    abort();
}
