/* Side of the management API: what of its settings has no effect, or one that nobody means. */
#include <config/config_int.h>

#include <api/api.h>
#include <base/addr.h>
#include <http/server.h>
#include <store/store.h>

/* Somebody who asked for nothing gets a port of this machine; somebody who asked is told what a
 * stranger may do there. */
static void api_effect(const struct config *c, struct conf_problems *p)
{
    struct addr at;
    bool for_all = c->api->clients.n == 0 && c->api->tokens.n == 0;

    if (c->store->url && for_all && addr_parse(c->http->listen, &at) == 0 &&
        addr_is_everywhere(&at)) {
        conf_note(p, "CFG710", c->path,
                  "http.listen %s: whoever reaches this port may change apps and functions; "
                  "expected api.tokens, api.clients, a firewall or a listen address of a trusted "
                  "network",
                  c->http->listen);
    }
    if (!c->store->url && c->api->public_url) {
        conf_warning(p, "CFG710", config_source_of(c, SECTION_API, "public_url"),
                     "public_url: has no effect: without store.url this node has no API");
    }
}

const struct config_side_part config_side_api = { NULL, api_effect };
