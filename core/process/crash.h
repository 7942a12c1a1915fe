/* Crash: what a dying node says about itself, in one block on standard error.
 *
 * Attribution, not survival: the block names the signal, the address and the file it lies in, the
 * plugin that ran on this thread with its version, kind, method and context, and all plugins; then
 * the process dies by the same signal, so that a core dump and the parent's exit status are the
 * real ones. */
#ifndef PROCESS_CRASH_H
#define PROCESS_CRASH_H

#include <plugin/plugin.h>

/* Beside the report: exit() and _exit() of a plugin's code are told too, also while its file is
 * loaded, and end the process with a code of ours. */

/* [init] Installs the handlers (of this thread's stack too) and the guard against exit() of a
 * plugin. In sanitizer builds the sanitizer handles the signals and the block follows its
 * report. */
void crash_install(void);
/* [init] [loop] Keeps a copy of what the block tells of files and plugins; again after each
 * load. */
void crash_know(struct plugin_host *h);
/* [init] A descriptor that gets the block too: the log's, where it is not standard error; -1. */
void crash_log_to(int fd);

#endif
