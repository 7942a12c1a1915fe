/* Confine: Landlock, by which a node that needs few directories can write in no others. */
#ifndef PROCESS_CONFINE_H
#define PROCESS_CONFINE_H

/* [init] From now on only these files are written to, and files made, changed and removed only
 * beneath those that are directories; what is not there is left out. Reading and running stay as
 * they are. NULL ends. 0, or the negative errno of the kernel: -ENOSYS and -EOPNOTSUPP, it has no
 * Landlock. */
int confine_apply(const char *const *writable);

#endif
