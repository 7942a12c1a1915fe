/* Whom a proxy speaks for: the header in which it writes its client's address, read from the right.
 *
 * Each proxy appends whom it got the request from, so that what stands left of an address that is
 * no proxy of ours was written by strangers. The first such address is the client. RFC 7239 for
 * Forwarded; X-Forwarded-For is what nginx, HAProxy and Envoy write. */
#include <http/server_int.h>

#include <string.h>
#include <strings.h>

#define HOPS_MAX 16 /* proxies of ours behind each other; a stranger may make up any number */

void client_header_set(struct http_server *s, const char *word)
{
    static const char *const names[] = { "Forwarded", "X-Forwarded-For" };

    s->client_header = NULL;
    for (size_t i = 0; word && i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcasecmp(word, names[i]) == 0) {
            s->client_header = names[i];
        }
    }
}

static void trim(const char **text, size_t *len)
{
    while (*len > 0 && (**text == ' ' || **text == '\t')) {
        ++*text;
        --*len;
    }
    while (*len > 0 && ((*text)[*len - 1] == ' ' || (*text)[*len - 1] == '\t')) {
        --*len;
    }
}

/* The value of `for=` among the parameters of an element of Forwarded; length 0 without one. */
static void find_for(const char **text, size_t *len)
{
    const char *at = *text, *end = *text + *len;

    while (at < end) {
        const char *next = memchr(at, ';', (size_t)(end - at));
        size_t n = (size_t)((next ? next : end) - at);

        trim(&at, &n);
        if (n > 4 && strncasecmp(at, "for=", 4) == 0) {
            *text = at + 4;
            *len = n - 4;
            return;
        }
        at = next ? next + 1 : end;
    }
    *len = 0;
}

/* 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1], [2001:db8::1]:80, each in quotes or not. */
static bool parse_node(const char *text, size_t len, struct net_address *ret)
{
    struct net_network n;
    const char *end;
    char host[64];

    if (len >= 2 && text[0] == '"' && text[len - 1] == '"') {
        text++;
        len -= 2;
    }
    if (len > 0 && text[0] == '[') {
        end = memchr(text, ']', len);
        len = end ? (size_t)(end - text) - 1 : 0;
        text++;
    } else if ((end = memchr(text, ':', len)) && end == memrchr(text, ':', len)) {
        len = (size_t)(end - text); /* one colon alone: a port */
    }
    if (len == 0 || len >= sizeof(host) || memchr(text, '/', len)) {
        return false;
    }
    memcpy(host, text, len);
    host[len] = '\0';
    if (net_network_parse(host, &n) < 0) {
        return false;
    }
    *ret = n.address;
    return true;
}

/* The last element of the first `len` bytes; *len is what stands before it. */
static const char *last_element(const char *value, size_t *len, size_t *ret_len)
{
    const char *comma = *len > 0 ? memrchr(value, ',', *len) : NULL;
    const char *at = comma ? comma + 1 : value;

    *ret_len = *len - (size_t)(at - value);
    *len = comma ? (size_t)(comma - value) : 0;
    return at;
}

/* Walks one field from its right. 1: *ret is the client; 0: proxies only; -1: not readable. */
static int walk_field(const struct http_server *s, const char *value, uint32_t *hops,
                      struct net_address *ret)
{
    size_t left = strlen(value);
    size_t len;

    do {
        const char *node = last_element(value, &left, &len);

        trim(&node, &len);
        if (strcmp(s->client_header, "Forwarded") == 0) {
            find_for(&node, &len);
        }
        if (++*hops > HOPS_MAX || !parse_node(node, len, ret)) {
            return -1;
        }
        if (!peers_is_proxy(s, ret)) {
            return 1;
        }
    } while (left > 0);
    return 0;
}

bool client_behind(const struct http_server *s, const struct headers *h, struct net_address *ret)
{
    uint32_t hops = 0;

    for (uint32_t i = s->client_header ? h->n : 0; i > 0; i--) {
        const struct header *field = &h->items[i - 1];
        int r = strcasecmp(field->name, s->client_header) == 0
                    ? walk_field(s, field->value, &hops, ret)
                    : 0;

        if (r != 0) {
            return r > 0;
        }
    }
    return false;
}

void client_name(const struct http_server *s, const struct net_io *io, const struct visitor *p,
                 struct request *q)
{
    struct net_address client;

    memccpy(q->pub.peer, net_io_peer(io), '\0', sizeof(q->pub.peer) - 1);
    if (!p) {
        return;
    }
    if (!p->is_proxy) {
        q->pub.client = p->address;
    } else if (client_behind(s, &q->pub.headers, &client)) {
        net_address_print(&client, q->pub.peer, sizeof(q->pub.peer));
        q->pub.client = net_customer(client);
    }
}
