/* Fake plugins: stands in for core/plugin, so that rooms above it are tested with tables of the
 * test.
 *
 * Defines the functions of plugin/plugin.h that place, override and lb use; a test that links it
 * must not need the real ones. */
#ifndef TESTS_FAKE_PLUGIN_H
#define TESTS_FAKE_PLUGIN_H

#include <plugin/plugin.h>

struct plugin {
    const char *name;
    const void *ops;
    void *inst;
    uint32_t bad_answers;
    uint32_t calls;
    bool slow; /* every call is over its budget */
    bool retired;
    struct fn_host host;
    struct fn_factory factory;
};

/* Its kind is its name. */
void fake_plugin_init(struct plugin *p, const char *name, const void *ops, void *inst);
/* Forgets what was offered. */
void fake_plugin_reset(void);
/* As the end of an instance does: what the implementations of host tables hold for it goes. */
void fake_plugin_release(struct plugin *p);
/* The table that was offered under that name. */
const void *fake_plugin_table(const char *iface);
/* A list of the pool by the "fn.snap" that was offered: ids from 1, in that order; NULL ends. What
 * publish() said. */
int fake_plugin_publish(const struct plugin *pool, const char *group,
                        const char *const *addresses);
/* Until the next call: calls come from a worker. */
extern int fake_plugin_on_worker;

#endif
