/* Reads certificate files when their stamps change (by timer or reload), and gives each identity
 * that uses them its new ones. */
#include <tls/node_tls.h>

#include <admin/admin.h>
#include <base/log.h>
#include <http/server.h>
#include <rpc/rpc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DAY_NS (24 * 3600 * ENV_S)

static const int64_t alarms_days[] = { 30, 7, 1 };

/* Changes whenever one of the files does. */
static uint64_t stamp_of(const struct config_tls *c)
{
    const char *paths[] = { c->cert, c->key, c->ca, c->crl };
    uint64_t stamp = 0;
    struct stat st;

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        if (paths[i] && stat(paths[i], &st) == 0) {
            stamp = stamp * 31 + (uint64_t)st.st_mtim.tv_sec * ENV_S +
                    (uint64_t)st.st_mtim.tv_nsec + st.st_ino + (uint64_t)st.st_size;
        }
    }
    return stamp;
}

static int load_entry(const struct config_tls *c, int64_t wall_ns, struct tls_files *ret,
                      struct fn_error *reterr)
{
    return tls_files_load(&(struct tls_paths){ c->cert, c->key, c->ca, c->crl }, wall_ns, ret,
                          reterr);
}

/* Both sides of gRPC, the port for HTTP and the operator's page, then what plugins named. */
enum { SIDES_FIXED = 4 };

static uint32_t sides_n(const struct node_tls *t)
{
    return SIDES_FIXED + t->n_named;
}

static const struct node_tls_side *side_of(const struct node_tls *t, uint32_t i)
{
    const struct node_tls_side *fixed[SIDES_FIXED] = { &t->server, &t->client, &t->web, &t->page };

    return i < SIDES_FIXED ? fixed[i] : &t->named[i - SIDES_FIXED];
}

static struct node_tls_side *side_at(struct node_tls *t, uint32_t i)
{
    return (struct node_tls_side *)side_of(t, i);
}

/* One entry may serve several sides; its news and its end are told once. */
static bool is_first(const struct node_tls *t, const struct node_tls_side *side)
{
    for (uint32_t i = 0; i < sides_n(t) && side_of(t, i) != side; i++) {
        const struct config_tls *other = side_of(t, i)->config;

        if (other && strcmp(other->name, side->config->name) == 0) {
            return false;
        }
    }
    return true;
}

const struct node_tls_side *node_tls_next(const struct node_tls *t, uint32_t *i)
{
    while (*i < sides_n(t)) {
        const struct node_tls_side *side = side_of(t, (*i)++);

        if (side->config && is_first(t, side)) {
            return side;
        }
    }
    return NULL;
}

/* A list that has ended refuses every peer. */
static void watch_list(struct node_tls *t, struct node_tls_side *side)
{
    int64_t left_ns = side->files.crl_not_after_ns - env_wall_ns(t->env);

    if (side->files.crl_not_after_ns && left_ns < DAY_NS && !side->crl_alarm) {
        side->crl_alarm = true;
        log_warn("a revocation list ends soon; no peer is taken after that", "tls",
                 side->config->name, "crl", side->config->crl, "hours_left",
                 log_num(left_ns / (3600 * ENV_S)));
    }
}

static void watch_expiry(struct node_tls *t, struct node_tls_side *side)
{
    static const char *const labels[] = { "tls", NULL };
    static const struct metric_def def = { .name = "fn_tls_days_left",
                                           .help = "Days until a certificate of this node expires.",
                                           .kind = METRIC_GAUGE,
                                           .labels = labels };
    int64_t left_ns = side->files.not_after_ns - env_wall_ns(t->env);
    int64_t days = left_ns / DAY_NS;

    if (!side->config || !is_first(t, side)) {
        return;
    }
    watch_list(t, side);
    if (!side->config->cert) {
        return;
    }
    if (!side->days_left) {
        side->days_left = metric_series(metric_declare(&def), &side->config->name);
    }
    metric_set(side->days_left, days);
    for (size_t i = 3; i > 0; i--) {
        int64_t alarm = alarms_days[i - 1];

        if (days < alarm && (side->alarm_days == 0 || side->alarm_days > alarm)) {
            side->alarm_days = alarm;
            log_warn("a certificate of this node expires soon", "tls", side->config->name, "cert",
                     side->config->cert, "days_left", log_num(days));
            return;
        }
    }
}

static int open_side(struct node_tls *t, struct node_tls_side *side,
                     const struct config_tls *entry, struct fn_error *reterr)
{
    int r = 0;

    if (entry) {
        side->config = entry;
        side->stamp = stamp_of(side->config);
        r = load_entry(side->config, env_wall_ns(t->env), &side->files, reterr);
    }
    if (r == 0) {
        watch_expiry(t, side);
    }
    return r;
}

struct net_tls node_tls_of(const struct node_tls_side *side)
{
    const struct config_tls *c = side->config;

    if (!c) {
        return (struct net_tls){ 0 };
    }
    return (struct net_tls){ .cert_pem = side->files.cert_pem,
                             .key_pem = side->files.key_pem,
                             .ca_pem = side->files.ca_pem,
                             .crl_pem = side->files.crl_pem,
                             .server_name = c->server_name,
                             .peers = c->peers.items,
                             .n_peers = (uint32_t)c->peers.n };
}

/* A side whose connections no rpc makes. */
static int open_own(struct node_tls *t, struct node_tls_side *side,
                    const struct config_tls *entry, struct fn_error *reterr)
{
    struct fn_error e = ERR_INIT;
    struct net_tls tls;
    int r = open_side(t, side, entry, reterr);

    if (r < 0 || !side->config) {
        return r;
    }
    tls = node_tls_of(side);
    r = net_identity_create(&tls, &side->identity, &e);
    return r < 0 ? err_set(reterr, r, "tls.%s: %s", entry->name, e.msg) : 0;
}

static const struct config_tls *entry_of(const struct config *c, const char *name)
{
    return name ? config_tls_find(c, name) : NULL;
}

int node_tls_open(struct node_tls *t, struct env *env, const struct config *c,
                  struct fn_error *reterr)
{
    int r;

    t->env = env;
    t->config = c;
    arena_init(&t->arena, 0);
    r = open_side(t, &t->server, entry_of(c, c->grpc->server_tls), reterr);
    r = r < 0 ? r : open_side(t, &t->client, entry_of(c, c->grpc->client_tls), reterr);
    r = r < 0 ? r : open_own(t, &t->web, entry_of(c, c->http->tls), reterr);
    return r < 0 ? r : open_own(t, &t->page, entry_of(c, c->admin->page_tls), reterr);
}

void node_tls_check(const struct config *c, int64_t wall_ns, struct conf_problems *p)
{
    struct node_tls t = { .server = { .config = entry_of(c, c->grpc->server_tls) },
                          .client = { .config = entry_of(c, c->grpc->client_tls) },
                          .web = { .config = entry_of(c, c->http->tls) },
                          .page = { .config = entry_of(c, c->admin->page_tls) } };
    const struct node_tls_side *side;
    struct tls_files files;
    uint32_t i = 0;

    while ((side = node_tls_next(&t, &i))) {
        struct fn_error e = ERR_INIT;

        if (!side->config->cert != !side->config->key) {
            continue; /* one file alone is told by those who read the configuration */
        }
        if (load_entry(side->config, wall_ns, &files, &e) < 0) {
            config_tls_tell(c, side->config, e.msg, p);
        } else {
            tls_files_finish(&files);
        }
    }
}

static void close_side(struct node_tls_side *side)
{
    if (side->days_left) {
        metric_release(side->days_left);
    }
    tls_files_finish(&side->files);
    net_identity_unref(side->identity);
    *side = (struct node_tls_side){ 0 };
}

static struct node_tls_side *find_named(struct node_tls *t, const char *name)
{
    for (uint32_t i = 0; i < t->n_named; i++) {
        if (strcmp(t->named[i].config->name, name) == 0) {
            return &t->named[i];
        }
    }
    return NULL;
}

static void drop_named(struct node_tls *t, struct node_tls_side *side)
{
    close_side(side);
    *side = t->named[--t->n_named];
    t->named[t->n_named] = (struct node_tls_side){ 0 };
}

static bool is_entry_of(const struct config *c, const struct config_tls *entry)
{
    const struct config_tls *found = c ? config_tls_find(c, entry->name) : NULL;

    return found && config_tls_same(found, entry);
}

/* Its files may be gone: they are nobody's worry then. */
static void drop_unused(struct node_tls *t)
{
    for (uint32_t i = t->n_named; i-- > 0;) {
        struct node_tls_side *side = &t->named[i];

        if (!is_entry_of(t->config, side->config) && !is_entry_of(t->next, side->config) &&
            !net_identity_is_shared(side->identity)) {
            drop_named(t, side);
        }
    }
}

/* Room for one more. */
static struct node_tls_side *grow_named(struct node_tls *t)
{
    struct node_tls_side *named = realloc(t->named, (t->n_named + 1) * sizeof(*named));

    if (!named) {
        return NULL;
    }
    t->named = named;
    named[t->n_named] = (struct node_tls_side){ 0 };
    return &named[t->n_named];
}

static struct node_tls_side *open_named(struct node_tls *t, const struct config_tls *entry)
{
    struct node_tls_side *side = grow_named(t);
    const struct config_tls *copy = side ? config_tls_copy(entry, &t->arena) : NULL;
    struct fn_error e = ERR_INIT;

    if (!copy || open_own(t, side, copy, &e) < 0) {
        log_error("certificates for a plugin cannot be used", "tls", entry->name, "error",
                  copy ? e.msg : "out of memory");
        if (side) {
            close_side(side);
        }
        return NULL;
    }
    t->n_named++;
    return side;
}

/* An entry in use cannot change; one that is another now is of a reload that was refused. */
static struct node_tls_side *named(struct node_tls *t, const char *name)
{
    const struct config_tls *entry = t->next ? config_tls_find(t->next, name) : NULL;
    struct node_tls_side *side = find_named(t, name);

    entry = entry ? entry : config_tls_find(t->config, name);
    if (side && (!entry || config_tls_same(side->config, entry))) {
        return side;
    }
    if (side) {
        drop_named(t, side);
    }
    return entry ? open_named(t, entry) : NULL;
}

void node_tls_try(struct node_tls *t, const struct config *next)
{
    t->next = next;
}

void node_tls_apply(struct node_tls *t, const struct config *c)
{
    t->config = c;
    if (c->n_tls > 0 && t->timer.cb) {
        env_timer_set(t->env, &t->timer, env_now_ns(t->env) + NODE_TLS_POLL_NS);
    }
}

void node_tls_check_live(const struct node_tls *t, const struct config *next,
                         struct conf_problems *p)
{
    for (uint32_t i = 0; i < t->n_named; i++) {
        if (config_tls_find(t->config, t->named[i].config->name)) {
            config_check_entry(next, t->named[i].config, "a plugin", p);
        }
    }
}

struct net_identity *node_tls_find(void *ud, const char *name)
{
    const struct node_tls_side *side = named(ud, name);

    return side ? side->identity : NULL;
}

/* Said for each side: one may refuse what another takes. Tried again at each look, because time, a
 * mode or a free descriptor may be all that is missing. */
static void refused(struct node_tls_side *side, uint64_t stamp, const struct fn_error *e)
{
    if (side->refused_stamp == stamp) {
        return;
    }
    side->refused_stamp = stamp;
    log_error("renewed certificates cannot be used, the old ones stay", "tls", side->config->name,
              "error", e->msg);
}

static bool differ(const char *a, const char *b)
{
    return !a || !b ? a != b : strcmp(a, b) != 0;
}

/* "cert, key": the options whose files hold something else than before. */
static void print_changes(const struct tls_files *old, const struct tls_files *fresh,
                          struct buf *out)
{
    const struct {
        const char *key;
        bool changed;
    } rows[] = {
        { "cert", differ(old->cert_pem, fresh->cert_pem) },
        { "key", differ(old->key_pem, fresh->key_pem) },
        { "ca", differ(old->ca_pem, fresh->ca_pem) },
        { "crl", differ(old->crl_pem, fresh->crl_pem) },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].changed) {
            buf_printf(out, "%s%s", out->len ? ", " : "", rows[i].key);
        }
    }
}

static void tell_renewed(const struct node_tls_side *side, const struct tls_files *fresh)
{
    struct buf changes = BUF_INIT(64);

    print_changes(&side->files, fresh, &changes);
    if (strcmp(buf_text(&changes), "crl") == 0) {
        log_info("revocation lists renewed", "tls", side->config->name, "crl", side->config->crl);
    } else {
        log_info("certificates renewed", "tls", side->config->name, "cert", side->config->cert,
                 "changed", changes.len ? buf_text(&changes) : "nothing");
    }
    buf_finish(&changes);
}

/* What was read for a side, until its identity has it or refuses it. */
struct renewal {
    struct node_tls_side *side;
    struct node_tls_side fresh; /* as the side will be */
    bool there;                 /* else nothing changed, or it was refused */
};

static struct renewal renewal_begin(struct node_tls *t, struct node_tls_side *side)
{
    struct renewal n = { .side = side, .fresh = *side };
    struct fn_error e = ERR_INIT;

    n.fresh.stamp = side->config ? stamp_of(side->config) : 0;
    n.there = n.fresh.stamp != side->stamp;
    if (n.there && load_entry(side->config, env_wall_ns(t->env), &n.fresh.files, &e) < 0) {
        refused(side, n.fresh.stamp, &e);
        n.there = false;
    }
    return n;
}

/* Only what is in force counts as read: what was not taken is read again at the next look. */
static void renewal_end(struct node_tls *t, struct renewal *n, int result, const struct fn_error *e)
{
    if (n->there && result < 0) {
        refused(n->side, n->fresh.stamp, e);
        tls_files_finish(&n->fresh.files);
    } else if (n->there) {
        if (is_first(t, n->side)) {
            tell_renewed(n->side, &n->fresh.files);
        }
        tls_files_finish(&n->side->files);
        n->fresh.refused_stamp = 0;
        n->fresh.alarm_days = 0;
        n->fresh.crl_alarm = false;
        *n->side = n->fresh;
    }
}

static void look_at_own(struct node_tls *t, struct node_tls_side *side)
{
    struct renewal n = renewal_begin(t, side);
    struct net_tls tls = node_tls_of(&n.fresh);
    struct fn_error e = ERR_INIT;

    renewal_end(t, &n, n.there ? net_identity_renew(side->identity, &tls, &e) : 0, &e);
}

/* One side may refuse what the other takes, also of one entry. Before gRPC is watched nothing would
 * take it: the first look after that does. */
static void look_at_rpc(struct node_tls *t, struct node_tls_side *side,
                        int (*renew)(struct rpc *r, const struct net_tls *tls,
                                     struct fn_error *reterr))
{
    struct fn_error e = ERR_INIT;
    struct renewal n;
    struct net_tls tls;

    if (!t->rpc) {
        return;
    }
    n = renewal_begin(t, side);
    tls = node_tls_of(&n.fresh);
    renewal_end(t, &n, n.there ? renew(t->rpc, &tls, &e) : 0, &e);
}

void node_tls_look(struct node_tls *t)
{
    drop_unused(t);
    look_at_rpc(t, &t->server, rpc_renew_server);
    look_at_rpc(t, &t->client, rpc_renew_client);
    for (uint32_t i = 0; i < sides_n(t); i++) {
        if (side_at(t, i)->identity) {
            look_at_own(t, side_at(t, i));
        }
        watch_expiry(t, side_at(t, i));
    }
}

static void node_tls_on_timer(struct env_timer *timer)
{
    struct node_tls *t = container_of(timer, struct node_tls, timer);

    node_tls_look(t);
    env_timer_set(t->env, timer, env_now_ns(t->env) + NODE_TLS_POLL_NS);
}

void node_tls_watch(struct node_tls *t, struct rpc *rpc)
{
    t->rpc = rpc;
    t->timer.cb = node_tls_on_timer;
    if (t->config->n_tls > 0) {
        env_timer_set(t->env, &t->timer, env_now_ns(t->env) + NODE_TLS_POLL_NS);
    }
}

void node_tls_close(struct node_tls *t)
{
    for (uint32_t i = 0; i < sides_n(t); i++) {
        close_side(side_at(t, i));
    }
    free(t->named);
    arena_finish(&t->arena);
}
