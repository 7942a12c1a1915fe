/* Plugin files of the worlds: opened once by the process, used by the hosts of all nodes. */
#ifndef FND_SIM_PLUGINS_H
#define FND_SIM_PLUGINS_H

#include <conf/conf.h>
#include <plugin/plugin.h>

/* Opens all that plans name. 0 or FN_E_*. */
int plugins_open(const char *folder, struct fn_error *reterr);
void plugins_close(void);
/* An instance of a shipped plugin with default options but for `set` (NULL ok). */
int plugins_create(struct plugin_host *h, const char *kind, const char *name,
                   const struct conf_override *set, struct plugin **ret, struct fn_error *reterr);
/* An instance of the simulator's own factory, whose options are this pointer. */
int plugins_create_own(struct plugin_host *h, const struct fn_factory *f, const void *given,
                       struct plugin **ret, struct fn_error *reterr);

#endif
