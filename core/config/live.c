/* Live: what a reload may not change, which is every option that is not marked OPT_IS_LIVE. */
#include <config/config_int.h>

#include <admin/admin.h>
#include <conf/opts.h>
#include <http/server.h>
#include <rpc/rpc.h>
#include <string.h>

static bool is_live(const struct fn_opt *o)
{
    return (o->flags & OPT_IS_LIVE) != 0;
}

/* "`a`, `b`" of the keys that are live, or are not. */
static uint32_t list_keys(enum config_section section, bool are_live, struct buf *out)
{
    uint32_t n = 0;

    for (const struct fn_opt *o = config_rows(section); o->key; o++) {
        if (is_live(o) == are_live) {
            buf_printf(out, "%s`%s`", n++ ? ", " : "", o->key);
        }
    }
    return n;
}

void config_print_live(enum config_section section, struct buf *out)
{
    struct buf fixed = BUF_INIT(0);
    struct buf taken = BUF_INIT(0);
    uint32_t n_fixed = list_keys(section, false, &fixed);
    uint32_t n_taken = list_keys(section, true, &taken);

    buf_add_str(out, "\nA reload takes over ");
    if (n_taken == 0) {
        buf_add_str(out, "none of these keys: a change needs a restart.\n");
    } else if (n_fixed == 0) {
        buf_add_str(out, "all of these keys.\n");
    } else if (n_fixed <= n_taken) {
        buf_printf(out, "all of these keys but %s.\n", buf_text(&fixed));
    } else {
        buf_printf(out, "%s; a change of the other keys needs a restart.\n", buf_text(&taken));
    }
    buf_finish(&fixed);
    buf_finish(&taken);
}

/* ---- what differs ---------------------------------------------------------------------------- */

static const char *value_text(const struct conf_values *v, uint32_t i, struct buf *b)
{
    buf_clear(b);
    conf_print_option(v, i, b);
    return buf_text(b);
}

static void live_refuse(const char *section, const char *key, const char *where, const char *got,
                        const char *running, struct conf_problems *p)
{
    conf_problem(p, "CFG720", where,
                 "%s%s%s cannot change while the node runs, got %s, running %s; restart the node",
                 section, section[0] ? "." : "", key, got, running);
}

static void check_section(const struct config *running, const struct config *next, int s,
                          struct conf_problems *p)
{
    const struct conf_values *a = running->priv->values[s];
    const struct conf_values *b = next->priv->values[s];
    struct buf got = BUF_INIT(1024);
    struct buf was = BUF_INIT(1024);

    for (uint32_t i = 0; i < b->n_opts; i++) {
        const char *key = b->opts[i].key;

        if (!is_live(&b->opts[i]) && !opt_same(&b->opts[i], a->data, b->data)) {
            live_refuse(config_sections[s].key, key, b->source[i], value_text(b, i, &got),
                        value_text(a, i, &was), p);
        }
    }
    buf_finish(&got);
    buf_finish(&was);
}

bool config_tls_same(const struct config_tls *a, const struct config_tls *b)
{
    bool same = true;

    for (const struct fn_opt *o = config_tls_opts; same && o->key; o++) {
        same = opt_same(o, a, b);
    }
    return same;
}

void config_check_entry(const struct config *next, const struct config_tls *running,
                        const char *user, struct conf_problems *p)
{
    const struct config_tls *entry = config_tls_find(next, running->name);

    if (entry && !config_tls_same(running, entry)) {
        conf_problem(p, "CFG720", NULL,
                     "tls.%s cannot change while the node runs: %s uses it; restart the node",
                     entry->name, user);
    }
}

/* The entry that `was` named and `is` names: what it says belongs to the node. Another name is told
 * as an option of its own. */
static void check_entry(const struct config *running, const struct config *next, const char *was,
                        const char *is, const char *user, struct conf_problems *p)
{
    const struct config_tls *a = was && is && strcmp(was, is) == 0 ? config_tls_find(running, was)
                                                                   : NULL;

    if (a) {
        config_check_entry(next, a, user, p);
    }
}

void config_check_live(const struct config *running, const struct config *next,
                       struct conf_problems *p)
{
    for (int s = 0; s < SECTIONS_N; s++) {
        if (config_section_applies(running, s)) {
            check_section(running, next, s, p);
        }
    }
    check_entry(running, next, running->http->tls, next->http->tls, "http", p);
    check_entry(running, next, running->admin->page_tls, next->admin->page_tls, "admin.page", p);
    if (config_section_applies(running, SECTION_GRPC)) {
        check_entry(running, next, running->grpc->server_tls, next->grpc->server_tls, "gRPC", p);
        check_entry(running, next, running->grpc->client_tls,
                    conf_same_text(running->grpc->server_tls, running->grpc->client_tls)
                        ? NULL
                        : next->grpc->client_tls,
                    "gRPC", p);
    }
}

/* The sections whose instances belong to the node and not to a generation, in their order. */
#define KEPT_MAX 64u

static uint32_t kept_sections(const struct config *c, const struct config_plugin *ret[KEPT_MAX])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->drivers.n && n < KEPT_MAX - 4; i++) {
        ret[n++] = &c->drivers.items[i];
    }
    if (c->cplane.use) {
        ret[n++] = &c->cplane;
    }
    if (c->predictor.use) {
        ret[n++] = &c->predictor;
    }
    if (c->operator_.use) {
        ret[n++] = &c->operator_;
    }
    if (c->warm.use) {
        ret[n++] = &c->warm;
    }
    return n;
}

static bool is_default(const struct config_plugin *plugin)
{
    return conf_same_text(plugin->where, "default");
}

static bool same_section(const struct config *next, const struct config_plugin *a,
                         const struct config_plugin *b, const struct plugin *running,
                         struct conf_problems *p)
{
    if (is_default(a) && is_default(b)) {
        return true; /* nobody asked for another one; what the machine offers may have changed */
    }
    return conf_same_text(a->use, b->use) && conf_same_text(a->name, b->name) &&
           conf_same_text(a->file, b->file) && conf_same_text(a->sha256, b->sha256) &&
           config_plugin_same_options(next, b, running, p);
}

void config_check_kept(const struct config *running, const struct config *next,
                       struct plugin *const *plugins, uint32_t n, struct conf_problems *p)
{
    const struct config_plugin *a[KEPT_MAX];
    const struct config_plugin *b[KEPT_MAX];
    uint32_t n_a = kept_sections(running, a);
    uint32_t n_b = kept_sections(next, b);
    const struct config_plugin *told = n_b > 0 ? b[0] : n_a > 0 ? a[0] : NULL;
    bool same = n_a == n && n_b == n;
    uint32_t before = p->n;

    for (uint32_t i = 0; same && i < n; i++) {
        same = same_section(next, a[i], b[i], plugins[i], p);
        told = b[i];
    }
    for (uint32_t i = 0; same && i < n; i++) {
        config_plugin_judge(b[i], plugins[i], p);
    }
    if (!same && told && p->n == before) {
        conf_problem(p, "CFG720", told->where,
                     "plugins.%s cannot change while the node runs; restart the node",
                     conf_same_text(told->kind, FN_KIND_CONTROL_PLANE) ? "control_plane"
                                                                       : told->kind);
    }
}
