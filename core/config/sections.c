/* Sections: the tables of the rooms, put together to the sections of fn.yaml.
 *
 * A section may be filled by several rooms (`lb:` by core/place and core/lb). Its values then lie
 * one behind the other in one block, each room's struct at an offset of its own, so that a section
 * is bound, printed and compared as one table. */
#include <config/config_int.h>

#include <assert.h>
#include <http/cors.h>
#include <http/fnsock.h>
#include <http/server.h>
#include <lb/catalog.h>
#include <lb/lb.h>
#include <npm/manager.h>
#include <place/place.h>
#include <pthread.h>
#include <rpc/rpc.h>
#include <runner/account.h>
#include <runner/runner.h>
#include <stdalign.h>

#define ROWS_MAX 64u /* of a section, with the end */

const struct config_section_def config_sections[SECTIONS_N] = {
    [SECTION_TOP] = { "", "Top level.", { &config_top_table } },
    [SECTION_LOG] = { "log", "What the node writes about itself.", { &config_log_table } },
    [SECTION_HTTP] = { "http", "The HTTP port and its limits, every node.",
                       { &config_http_table, &http_limits_table, &cors_opt_table } },
    [SECTION_GRPC] = { "grpc", "gRPC between load balancers and runners.",
                       { &config_grpc_table, &rpc_opt_table } },
    [SECTION_LB] = { "lb", "Load balancer: nodes `lb` and `full`.",
                     { &catalog_opt_table, &lb_opt_table, &place_opt_table, &config_bodies_table },
                     1u << SIDE_LB },
    [SECTION_RUNNER] = { "runner", "Runner: nodes `pure-runner` and `full`.",
                         { &runner_opt_table, &account_opt_table, &fnsock_opt_table,
                           &config_metrics_table },
                         1u << SIDE_RUNNER },
    [SECTION_NPM] = { "npm", "Node pool manager: node `npm`.",
                      { &npm_settings_table, &npm_opt_table }, 1u << SIDE_NPM },
    [SECTION_ADMIN] = { "admin", "The admin socket, every node: `fnd status`, `fnd why`.",
                        { &config_admin_table } },
    [SECTION_PLUGINS] = { "plugins", "How plugin files are judged, every node.",
                          { &config_plugins_table } },
};

static struct section {
    struct fn_opt rows[ROWS_MAX]; /* key NULL ends */
    uint32_t size;
} sections[SECTIONS_N];

static uint32_t after(uint32_t offset, const struct opt_table *t)
{
    return (uint32_t)(offset + (t->size + alignof(max_align_t) - 1) / alignof(max_align_t) *
                                   alignof(max_align_t));
}

static void join(struct section *s, const struct opt_table *const *tables)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < CONFIG_TABLES_MAX && tables[k]; k++) {
        for (const struct fn_opt *o = tables[k]->rows; o->key; o++) {
            assert(n < ROWS_MAX - 1);
            s->rows[n] = *o;
            s->rows[n++].offset += s->size;
        }
        s->size = after(s->size, tables[k]);
    }
}

static void join_all(void)
{
    for (int i = 0; i < SECTIONS_N; i++) {
        join(&sections[i], config_sections[i].tables);
    }
}

static const struct section *section_of(int section)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, join_all);
    return &sections[section];
}

const struct fn_opt *config_rows(int section)
{
    return section_of(section)->rows;
}

uint32_t config_rows_size(int section)
{
    return section_of(section)->size;
}

void *config_options(const struct config *c, const struct opt_table *table)
{
    for (int i = 0; i < SECTIONS_N; i++) {
        const struct opt_table *const *tables = config_sections[i].tables;
        uint32_t offset = 0;

        for (uint32_t k = 0; k < CONFIG_TABLES_MAX && tables[k]; k++) {
            if (tables[k] == table) {
                return (char *)c->priv->values[i]->data + offset;
            }
            offset = after(offset, tables[k]);
        }
    }
    assert(!"a table of no section");
    return NULL;
}
