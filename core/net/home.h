/* Home: whether a URL that a stranger names leads to this machine or into a network of it. */
#ifndef NET_HOME_H
#define NET_HOME_H

#include <stdbool.h>

/* [worker] True for a host, name or address, in one of: this machine, loopback, link-local (where
 * clouds keep their metadata), the networks of the machine's interfaces; and for every unix:// and
 * unixgram://, whose socket is the machine's own. Takes as long as the
 * resolver. What cannot be resolved, or is no URL with a host, leads nowhere. A name may lead
 * elsewhere when it is asked for again: a firewall holds where this must. */
bool net_url_leads_home(const char *url);

#endif
