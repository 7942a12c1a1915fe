/* Home: whether a URL that a stranger names leads to this machine or into a network of it. */
#ifndef NET_HOME_H
#define NET_HOME_H

/* [worker] 1 for a host, name or address, in one of: this machine, loopback, link-local and the
 * other addresses where clouds keep their metadata, the networks of the machine's interfaces; for
 * every unix:// and unixgram://, whose socket is the machine's own; and for a URL without a host,
 * which others take for the machine itself. 0: it leads elsewhere, or nowhere: a name that does not
 * resolve, a text that is no URL. FN_E_EXHAUSTED: the machine's own networks cannot be told for
 * want of descriptors or memory. Takes as long as the resolver. A name may lead elsewhere when it
 * is asked for again: a firewall holds where this must. */
int net_url_leads_home(const char *url);

#endif
