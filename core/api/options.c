/* What the API takes from `api:`. */
#include <api/api.h>

#include <conf/opts.h>

#define AT(field) offsetof(struct api_options, field)
static const struct fn_opt rows[] = {
    LIVE_ABSENT("public_url", STR, AT(public_url), 1, 1024,
                "Where callers reach the functions, as http://host:port: the beginning of the URLs "
                "that functions and triggers are shown with. When absent: the address by which the "
                "API itself was asked."),
    LIVE_ABSENT("clients", STRLIST, AT(clients), 0, 0,
                "Networks whose clients may use the API, such as 10.1.0.0/16. When absent: in a "
                "`full` node, whose port is for callers too, those of this machine; in an `api` "
                "node everybody who reaches the port. Those of a proxy in http.proxies need "
                "http.client_from."),
    LIVE_ABSENT("tokens", STRLIST, AT(tokens), 0, 0,
                "Who may use the API: for each a name, a role and the SHA-256 of its token, as "
                "`ci deploy 5e88...`. read = look; deploy = also make, change and remove functions "
                "and triggers, and change apps; admin = also make and remove apps. After the hash "
                "may come names or patterns of apps, as `shop-*`: for it no others exist. "
                "Clients send `Authorization: Bearer <token>`. When absent: whoever reaches the "
                "API may do all."),
    LIVE("read_without_token", BOOL, AT(read_without_token), "true", 0, 0,
         "Whether looking needs no token, also where `tokens` is given. Load balancers look and "
         "have none; with false their functions must come from elsewhere."),
    LIVE("requests_max", INT32, AT(requests_max), "0", 0, 1000000,
         "Requests a second of one token, or of one client address where no token is sent or "
         "needed; as many may come at once. Beyond it, 429. 0 = no limit, the default because load "
         "balancers ask for what is called, without a token and often many from one address: where "
         "they are refused, calls fail."),
    LIVE("changes_max", INT32, AT(changes_max), "0", 0, 1000000,
         "The same for requests other than GET alone, which cost a store most and no load balancer "
         "sends. 0 = no limit, the default because an import or a deployment of many functions may "
         "be as fast as the store is."),
    LIVE("failures_max", INT32, AT(failures_max), "10", 0, 10000,
         "Wrong tokens that may come from one client address at once, then one a second. Beyond it, "
         "429: no token from there is looked at, except those that were right from that address in "
         "the last hour. 0 = no limit."),
    { .key = NULL },
};

const struct opt_table api_opt_table = { rows, sizeof(struct api_options) };
