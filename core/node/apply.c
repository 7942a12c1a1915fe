/* Which values of the configuration in use the parts of the node take over. */
#include <node/node.h>

#include <base/log.h>
#include <loop/log_dest.h>
#include <unistd.h>

#define BODY_SHARE_OF_MEMORY 4 /* a quarter, unless configured */

void node_set_budget(struct node *n)
{
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    n->bodies.limit_bytes = n->config->bodies->memory_bytes
                                ? (uint64_t)n->config->bodies->memory_bytes
                                : memory / BODY_SHARE_OF_MEMORY;
}

void node_apply(struct node *n)
{
    uint32_t level = FN_LOG_INFO;

    log_level_parse(n->config->log->level, &level);
    log_set_level(level);
    node_set_budget(n);
    node_traces_apply(n);
    node_tls_apply(&n->tls, n->config);
    web_set_options(n->web, n->config->http_limits, n->config->cors, n->config->api);
    for (uint32_t i = n->n_sides; i-- > 0;) {
        n->sides[i]->apply(n);
    }
}
