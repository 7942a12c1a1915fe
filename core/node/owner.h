/* The owner of a runner that names none: sweeps know by it what its earlier processes left.
 * Pure. */
#ifndef NODE_OWNER_H
#define NODE_OWNER_H

#define OWNER_MAX 64 /* with the NUL */

/* "<hostname>-<port>", with one address of the machine or a unix socket "<hostname>-<hash of it>";
 * the same after a restart, and of no other runner of this machine, because only one can listen
 * there. With port 0, which all may have, "<hostname>-<start of instance>". A host name that an
 * owner cannot spell, or that is too long, is cut and has a hash of the whole behind it. */
void owner_derive(const char *hostname, const char *listen, const char *instance,
                  char ret[OWNER_MAX]);

#endif
