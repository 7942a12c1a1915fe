/* tls: what fn.yaml and Go Fn's variables name certificates by. */
#include <config/config_int.h>

#include <stddef.h>
#include <string.h>

#define AT(field) offsetof(struct config_tls, field)
const struct fn_opt config_tls_opts[] = {
    OPT_ABSENT("cert", STR, AT(cert), 1, 1024,
               "PEM file with this node's certificate, followed by its intermediate "
               "certificates. A changed file is used for new connections within five seconds."),
    OPT_ABSENT("key", STR, AT(key), 1, 1024,
               "PEM file with the private key, readable by its owner only."),
    OPT_ABSENT("ca", STR, AT(ca), 1, 1024,
               "PEM file with the certificates of the CAs that sign peers. A server that has it "
               "accepts only clients with such a certificate (mutual TLS)."),
    OPT_ABSENT("crl", STR, AT(crl), 1, 1024,
               "PEM file with the revocation lists (CRLs) of all CAs in `ca`. Revoked peers are "
               "refused, and once a list has expired, all peers. When absent: nothing is revoked."),
    OPT_ABSENT("server_name", STR, AT(server_name), 1, 253,
               "Name that a server's certificate must have. When absent: the host in the "
               "server's address. Set it if servers are reached by addresses that are not in "
               "their certificates."),
    OPT_ABSENT("peers", STRLIST, AT(peers), 0, 0,
               "Patterns of which a peer's certificate must match one, by its URI, DNS or common "
               "name; * stands for any text without a slash. When absent: every certificate that "
               "`ca` signed is accepted."),
    { .key = NULL },
};

const struct config_tls *config_tls_find(const struct config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_tls; i++) {
        if (strcmp(c->tls[i].name, name) == 0) {
            return &c->tls[i];
        }
    }
    return NULL;
}

struct config_tls *config_tls_copy(const struct config_tls *c, struct arena *a)
{
    struct config_tls *to = arena_alloc(a, sizeof(*to));

    if (to) {
        *to = *c;
        to->node = NULL;
        to->name = arena_strdup(a, c->name);
    }
    return to && to->name && opt_copy(config_tls_opts, to, a) ? to : NULL;
}

/* The option whose file a sentence "path: ..." is about. */
static const char *where_of_file(const struct config *c, const struct config_tls *tls,
                                 const char *text)
{
    static const char *const keys[] = { "cert", "key", "ca", "crl" };
    const char *const paths[] = { tls->cert, tls->key, tls->ca, tls->crl };

    for (size_t i = 0; tls->node && i < sizeof(keys) / sizeof(keys[0]); i++) {
        size_t len = paths[i] ? strlen(paths[i]) : 0;

        if (len > 0 && strncmp(text, paths[i], len) == 0 && text[len] == ':') {
            return conf_where(c->priv->file, conf_get(tls->node, keys[i]));
        }
    }
    return tls->node ? conf_where(c->priv->file, tls->node) : NULL;
}

void config_tls_tell(const struct config *c, const struct config_tls *tls, const char *sentence,
                     struct conf_problems *p)
{
    char code[8];
    const char *text = config_split_code(sentence, code);
    const char *where = where_of_file(c, tls, text);

    if (strcmp(code, "TLS800") == 0) {
        conf_warning(p, code, where, "%s", text);
    } else {
        conf_problem(p, code, where, "%s", text);
    }
}

static const char *tls_variable(const struct config *c, const char *key)
{
    for (const struct conf_override *o = c->priv->overrides[SECTION_TLS]; o->key; o++) {
        if (strcmp(o->key, key) == 0) {
            return o->text;
        }
    }
    return NULL;
}

/* Go Fn's three variables make both ends of gRPC use TLS, only all of them together. */
static void add_tls_of_variables(struct config *c, struct config_tls *tls, struct conf_problems *p)
{
    struct config_tls t = { .name = "FN_NODE_CERT",
                            .cert = tls_variable(c, "cert"),
                            .key = tls_variable(c, "key"),
                            .ca = tls_variable(c, "ca") };

    if (t.cert && t.key && t.ca) {
        tls[c->n_tls++] = t;
        conf_override(c->priv->values[SECTION_GRPC], "tls", "FN_NODE_CERT", t.name, p);
    } else if (t.cert || t.key || t.ca) {
        conf_problem(p, "CFG706", NULL,
                     "FN_NODE_CERT, FN_NODE_CERT_KEY and FN_NODE_CERT_AUTHORITY; "
                     "expected all three or none of them");
    }
}

void config_tls_read(struct config *c, struct conf_problems *p)
{
    struct conf_node *map = conf_get(conf_root(c->priv->file), "tls");
    struct config_tls *tls;
    uint32_t n = 1;

    if (map && map->type != CONF_MAP) {
        conf_problem(p, "CFG704", conf_where(c->priv->file, map),
                     "tls, got %s; expected a map of names",
                     map->text ? conf_quote(map->text) : "a list");
        map = NULL;
    }
    for (struct conf_node *i = map ? map->first : NULL; i; i = i->next) {
        n++;
    }
    tls = config_alloc(c, n * sizeof(*tls));
    c->tls = tls;
    if (!tls) {
        return;
    }
    for (struct conf_node *i = map ? map->first : NULL; i; i = i->next) {
        struct config_tls *t = &tls[c->n_tls++];

        config_bind_into(c, i, i->key, config_tls_opts, t, sizeof(*t), NULL, p);
        t->name = i->key;
        t->node = i;
        if (!t->cert != !t->key) {
            conf_problem(p, "TLS806", conf_where(c->priv->file, i),
                         "%s, got %s alone; expected cert and key, or none of them", i->key,
                         t->cert ? "cert" : "key");
        }
        if (t->crl && !t->ca) {
            conf_problem(p, "CFG704", conf_where(c->priv->file, i),
                         "%s, got crl without ca; expected the authorities whose lists it has",
                         i->key);
        }
    }
    add_tls_of_variables(c, tls, p);
}
